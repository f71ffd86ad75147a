from __future__ import annotations

import asyncio
import math
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from stepscope.errors import ConfigError, StoreError
from stepscope.ledger import states
from stepscope.ledger.budget import Budget, to_nano_usd, to_usd
from stepscope.ledger.ledger import Ledger, LedgerSession, ledger_path
from stepscope.ledger.states import (
    DEAD_SECONDS,
    LedgerAsk,
    LivenessMonitor,
    Owner,
    Paid,
    Standing,
    new_owner,
    pack_reply,
    unpack_reply,
)
from stepscope.model import Reply, Usage
from tests.judges.asked import ask, reply

DOLLAR = 1_000_000_000
KEY = ask("r1", "termination").key


def wanted(key: str = KEY, worst: int | None = DOLLAR) -> LedgerAsk:
    return LedgerAsk(key, "r1", "local/tiny", worst)


def standing(desk: LedgerSession, key: str = KEY, worst: int | None = DOLLAR) -> Standing:
    async def claimed() -> Standing:
        found = await desk.claim(wanted(key, worst))
        await desk.beat()  # a claim is told before it is on disk
        return "bought" if isinstance(found, Paid) else found

    return asyncio.run(claimed())


@pytest.fixture
def path(tmp_path: Path) -> str:
    return ledger_path(str(tmp_path / "runs.db"))


def test_the_file_is_nobody_elses_and_durable(path: str) -> None:
    with Ledger(path):
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600
        with sqlite3.connect(path) as other:
            assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert other.execute("PRAGMA application_id").fetchone() == (0x5354504A,)
        other.close()
    assert path.endswith("runs.db.judges.db")


def test_a_ledger_of_version_1_is_led_up_and_takes_the_key_of_its_store(path: str) -> None:
    with Ledger(path), closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE keys")
        other.execute("PRAGMA user_version = 1")
    with Ledger(path) as ledger:
        assert ledger.fence_key(b"of the store") == b"of the store"
    assert Path(path + ".v1.bak").is_file()
    with Ledger(path) as ledger:
        assert ledger.fence_key(b"of a store made anew") == b"of the store"


def test_a_ledger_of_a_newer_version_or_of_another_program_is_refused(tmp_path: Path) -> None:
    newer, foreign = str(tmp_path / "newer.db"), str(tmp_path / "foreign.db")
    Ledger(newer).close()
    for file, sql in ((newer, "PRAGMA user_version = 3"), (foreign, "CREATE TABLE t (x)")):
        db = sqlite3.connect(file)
        db.execute(sql)
        db.close()
    with pytest.raises(StoreError, match="of version 3; this stepscope reads up to 2"):
        Ledger(newer)
    with pytest.raises(StoreError, match="of another program"):
        Ledger(foreign)


def test_a_reply_comes_back_as_it_went_in() -> None:
    whole = Reply(
        text="\U0001f600 é \x00",
        stop="length",
        structure="forced_tool",
        usage=Usage(input_total=7, cache_read=3),
        model="m",
        request_id="req",
        seconds=1.5,
        raw=b"\x00\xff",
        headers={"x-ratelimit-remaining-requests": "1"},
    )
    assert unpack_reply(pack_reply(whole)) == whole


def test_lone_surrogates_of_a_reply_are_kept_as_their_escapes() -> None:
    assert unpack_reply(pack_reply(reply(text="\ud800", headers={"x": "\udfff"}))) == reply(
        text="\\ud800", headers={"x": "\\udfff"}
    )


def test_a_key_is_one_runs_until_it_lets_go(path: str) -> None:
    with (
        Ledger(path) as ledger,
        LedgerSession(ledger, Budget("b")) as first,
        LedgerSession(ledger, Budget("b")) as b,
    ):
        assert standing(first) == "mine"
        assert standing(first) == "elsewhere"
        assert standing(b) == "elsewhere"
        asyncio.run(first.fail(KEY, "no answer"))
        assert standing(b) == "mine"


def test_what_was_received_is_never_bought_again(path: str) -> None:
    async def buy(desk: LedgerSession) -> Standing | Paid:
        await desk.claim(wanted())
        await desk.send(KEY, "hash")
        await desk.receive(KEY, pack_reply(reply()), 5)
        found = await desk.claim(wanted())
        await desk.beat()
        return found

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget("b")) as desk:
            assert asyncio.run(buy(desk)) == Paid(reply(), 5, fresh=False)
            asyncio.run(desk.done([KEY]))
        assert ledger.states() == {"verdict": 1}
        assert ledger.money("b") == (5e-9, 0.0)
    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 0.0)) as desk:
        assert standing(desk) == "bought"
        assert list(ledger.replies()) == [("hash", reply())]
        assert ledger.holds([KEY, "other"]) == {KEY}


def test_the_first_reply_of_a_key_stands(path: str) -> None:
    async def late(first: LedgerSession, second: LedgerSession) -> list[bytes | None]:
        await first.claim(wanted())
        await first.send(KEY, "hash")
        await first.fail(KEY, "taken for dead", unknown="stopped")
        await second.claim(wanted())
        return [
            await second.receive(KEY, pack_reply(reply("correct")), 1),
            await first.receive(KEY, pack_reply(reply("incorrect")), 1),
        ]

    with (
        Ledger(path) as ledger,
        LedgerSession(ledger, Budget()) as a,
        LedgerSession(ledger, Budget()) as b,
    ):
        assert asyncio.run(late(a, b)) == [None, pack_reply(reply("correct"))]
        assert [kept for _, kept in ledger.replies()] == [reply("correct")]


def test_a_late_reply_of_one_taken_for_dead_is_kept_and_not_bought(path: str) -> None:
    async def late(first: LedgerSession, second: LedgerSession) -> tuple[bytes | None, bool]:
        await first.claim(wanted())
        await first.send(KEY, "hash")
        await first.fail(KEY, "taken for dead", unknown="stopped")
        await second.claim(wanted())
        kept = await first.receive(KEY, pack_reply(reply()), 1)
        return kept, await second.send(KEY, "hash")

    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 9.0)) as a:
        with LedgerSession(ledger, Budget("b", 9.0)) as b:
            assert asyncio.run(late(a, b)) == (None, False)
            assert standing(b) == "bought"
        assert ledger.money("b") == (1.0, 0.0)


def test_a_late_reply_that_nobody_waits_for_is_there_for_the_next(path: str) -> None:
    async def late(desk: LedgerSession) -> None:
        await desk.claim(wanted())
        await desk.send(KEY, "hash")
        await desk.fail(KEY, "taken for dead", unknown="stopped")
        await desk.receive(KEY, pack_reply(reply()), 1)

    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 9.0)) as desk:
        asyncio.run(late(desk))
        assert ledger.states() == {"received": 1}
        assert standing(desk) == "bought"


@pytest.mark.parametrize(
    ("limit", "worst", "expected"),
    [
        (3.0, DOLLAR, "mine"),
        (2.0, DOLLAR, "full"),
        (2.0, 2 * DOLLAR, "over"),
        (1.0, DOLLAR, "over"),
        (0.0, 0, "over"),
        (None, DOLLAR, "mine"),
        (None, None, "mine"),
        (3.0, None, "unpriced"),
    ],
)
def test_a_call_goes_when_its_worst_still_fits(
    path: str, limit: float | None, worst: int | None, expected: str
) -> None:
    """A dollar is spent and a dollar is reserved, but where nothing may be spent."""

    async def spend(desk: LedgerSession) -> None:
        await desk.claim(wanted("a" * 64))
        await desk.receive("a" * 64, pack_reply(reply()), DOLLAR)
        await desk.claim(wanted("b" * 64))
        await desk.beat()

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget("b", 9.0)) as first:
            asyncio.run(spend(first))
            with LedgerSession(ledger, Budget("b", limit)) as desk:
                assert standing(desk, worst=worst) == expected


def test_a_reply_without_a_known_price_counts_as_its_worst(path: str) -> None:
    async def buy(desk: LedgerSession) -> None:
        await desk.claim(wanted())
        await desk.receive(KEY, pack_reply(reply()), None)

    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 9.0)) as desk:
        asyncio.run(buy(desk))
        assert ledger.money("b") == (1.0, 0.0)


def test_a_second_sending_after_an_unknown_outcome_is_reserved_anew(path: str) -> None:
    async def twice(desk: LedgerSession) -> list[bool]:
        await desk.claim(wanted())
        await desk.send(KEY, "hash")
        return [await desk.again(KEY), await desk.again(KEY)]

    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 2.0)) as desk:
        assert asyncio.run(twice(desk)) == [True, False]
        assert ledger.money("b") == (2.0, 0.0)
        assert [(one.attempt, one.usd) for one in ledger.unknown()] == [(1, 1.0), (2, 1.0)]
        assert ledger.states() == {"failed": 1}


# Claims, sends and so on, as far as it is told; then it is gone.
KILLED = (
    "import asyncio, os, signal, sys\n"
    "from stepscope.ledger.budget import Budget\n"
    "from stepscope.ledger.ledger import Ledger, LedgerSession\n"
    "from stepscope.ledger.states import pack_reply\n"
    "from tests.judges.asked import reply\n"
    "from tests.ledger.test_ledger import KEY, wanted\n"
    "async def main():\n"
    "    desk = LedgerSession(Ledger(sys.argv[1]), Budget('b', float(sys.argv[3])))\n"
    "    steps = {\n"
    "        'claim': lambda: desk.claim(wanted()),\n"
    "        'beat': lambda: desk.beat(),\n"
    "        'send': lambda: desk.send(KEY, 'hash'),\n"
    "        'fail': lambda: desk.fail(KEY, 'no'),\n"
    "        'receive': lambda: desk.receive(KEY, pack_reply(reply()), 500_000_000),\n"
    "    }\n"
    "    if sys.argv[2] == 'claim': named = ('claim', 'beat')\n"
    "    else: named = ('claim', *dict.fromkeys(('send', sys.argv[2])))\n"
    "    for name in named: await steps[name]()\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
    "asyncio.run(main())\n"
)


@pytest.mark.parametrize(
    ("last", "states", "spent", "unknown"),
    [
        ("claim", {"planned": 1}, 0.0, 0),
        ("send", {"planned": 1}, 1.0, 1),
        ("receive", {"received": 1}, 0.5, 0),
        ("fail", {"failed": 1}, 0.0, 0),
    ],
)
def test_what_a_dead_process_left_is_settled_by_the_next(
    path: str, last: str, states: dict[str, int], spent: float, unknown: int
) -> None:
    subprocess.run([sys.executable, "-c", KILLED, path, last, "9"], check=False)
    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 9.0)) as desk:
        assert ledger.states() == states
        assert ledger.money("b") == (spent, 0.0)
        found = ledger.unknown(desk.buyer.token)
        assert len(found) == unknown
        for one in found:
            assert (one.key, one.subject, one.purpose, one.attempt) == (KEY, "r1", "local/tiny", 1)
            assert one.usd == 1.0


def test_calls_that_a_dead_process_found_are_told_by_the_next_one_once(path: str) -> None:
    """Killed twice: what the second one found of the first, and never told, is not lost."""
    two = KILLED.replace("wanted()", "wanted(sys.argv[4])").replace("(KEY,", "(sys.argv[4],")
    keys = ["a" * 64, "b" * 64]
    for key in keys:
        subprocess.run([sys.executable, "-c", two, path, "send", "9", key], check=False)
    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget("b")) as desk:
            found = ledger.unknown(desk.buyer.token)
            assert [one.key for one in found] == keys
            with LedgerSession(ledger, Budget("b")) as beside:
                assert ledger.unknown(beside.buyer.token) == []
        # It has ended, and its process lives: it is its own to tell.
        with LedgerSession(ledger, Budget("b")) as later:
            assert ledger.unknown(later.buyer.token) == []
        ledger.acknowledge(found[:1])
        ledger._db.execute("DELETE FROM owners")  # as of processes that died
        with LedgerSession(ledger, Budget("b")) as after:
            assert [one.key for one in ledger.unknown(after.buyer.token)] == keys[1:]
        assert len(ledger.unknown()) == 2


def test_money_that_a_dead_process_reserved_is_free_again(path: str) -> None:
    with Ledger(path) as ledger, LedgerSession(ledger, Budget("b", 1.0)) as desk:
        subprocess.run([sys.executable, "-c", KILLED, path, "claim", "1"], check=False)
        assert ledger.money("b") == (0.0, 1.0)
        asyncio.run(desk.beat())
        assert standing(desk, "b" * 64) == "mine"


def test_a_run_that_ends_lists_what_it_had_sent(path: str) -> None:
    async def send(desk: LedgerSession) -> None:
        await desk.claim(wanted())
        await desk.send(KEY, "hash")

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget("b")) as desk:
            asyncio.run(send(desk))
        assert [one.why for one in ledger.unknown(desk.buyer.token)] == [states.WORKER_STOPPED]
        assert ledger.money("b") == (1.0, 0.0)
        assert ledger.states() == {"planned": 1}


def test_an_owner_of_this_place_is_known_by_number_and_start() -> None:
    mine, watch = new_owner(), LivenessMonitor()
    assert watch.lives(mine)
    assert not watch.lives(mine._replace(start="1"))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    pid = ended.pid
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    start = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[19]
    zombie = mine._replace(pid=pid, start=start)
    assert not watch.lives(zombie)
    ended.wait()
    assert not watch.lives(zombie)


def test_an_owner_of_another_place_is_dead_when_its_beat_stands_still() -> None:
    moment = [1000.0]
    watch = LivenessMonitor(lambda: moment[0])
    far = Owner("token", "another machine", 1, "1", 7)
    assert watch.lives(far)
    moment[0] += DEAD_SECONDS - 1
    assert watch.lives(far)
    moment[0] += 2
    assert not watch.lives(far)
    assert watch.lives(far._replace(beat=8))


def test_erased_replies_are_gone_from_the_file(path: str) -> None:
    async def buy(desk: LedgerSession) -> None:
        for key, run in ((KEY, "r1"), ("b" * 64, "r2")):
            await desk.claim(LedgerAsk(key, run, "local/tiny", 0))
            await desk.receive(key, b"said of " + run.encode(), 0)

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget()) as desk:
            asyncio.run(buy(desk))
        assert ledger.erase(["r1"]) == 1
        assert ledger.holds([KEY, "b" * 64]) == {"b" * 64}
        # While the file is open: its log holds nothing of it, either.
        held = b"".join(file.read_bytes() for file in Path(path).parent.iterdir())
    assert b"said of r2" in held
    assert b"said of r1" not in held


def test_two_processes_may_make_one_ledger(path: str) -> None:
    code = "import sys; from stepscope.ledger.ledger import Ledger; Ledger(sys.argv[1]).close()"
    both = [subprocess.Popen([sys.executable, "-c", code, path]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]


@pytest.mark.parametrize("limit", [-1.0, float("nan"), float("inf")])
def test_a_budget_is_a_number_from_zero(limit: float) -> None:
    with pytest.raises(ConfigError, match="expected zero or more"):
        Budget(limit_usd=limit)


def test_a_new_file_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "new.db")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # As a process that has begun to make the file: whoever reads it too cannot write.
    other.execute("BEGIN IMMEDIATE")
    ending = threading.Timer(0.2, other.close)
    ending.start()
    with Ledger(path) as made:
        assert made.states() == {}
    ending.join()


def test_an_amount_is_counted_in_billionths_and_never_as_less() -> None:
    amounts = (0.0000000001, 1.5, math.inf)
    assert [to_nano_usd(usd) for usd in amounts] == [1, 1_500_000_000, 10**18]
    assert to_usd(1_500_000_000) == 1.5
