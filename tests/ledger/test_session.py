"""Group commits: what waits, what is told when, and what becomes of those who wait."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

import pytest

from stepscope.errors import EnvironmentFault, StoreError
from stepscope.ledger.budget import Budget
from stepscope.ledger.ledger import Ledger, LedgerSession, LedgerWork
from stepscope.ledger.states import LedgerAsk, Paid, pack_reply
from tests.judges.asked import reply

T = TypeVar("T")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def wanted(at: int) -> LedgerAsk:
    return LedgerAsk(f"{at:064}", "r1", "local/tiny", 0)


def on_disk(path: str, sql: str) -> list[tuple[object, ...]]:
    """Return what another process sees."""
    db = sqlite3.connect(path)
    found = db.execute(sql).fetchall()
    db.close()
    return found


def test_a_reply_is_told_when_another_process_can_read_it(path: str) -> None:
    async def buy(desk: LedgerSession) -> list[int]:
        seen = []
        for at in range(20):
            await desk.claim(wanted(at))
            await desk.send(wanted(at).key, "hash")
            await desk.receive(wanted(at).key, pack_reply(reply()), 0)
            seen.append(len(on_disk(path, "SELECT key FROM replies")))
        return seen

    with Ledger(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        assert asyncio.run(buy(desk)) == list(range(1, 21))


def test_a_call_goes_out_when_another_process_can_see_that_it_did(path: str) -> None:
    async def send(desk: LedgerSession) -> list[tuple[object, ...]]:
        await desk.claim(wanted(0))
        await desk.send(wanted(0).key, "hash")
        return on_disk(path, "SELECT state, attempts, request FROM asks")

    with Ledger(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        assert asyncio.run(send(desk)) == [("sent", 1, "hash")]


class Counting(Ledger):
    """Counts its commits."""

    commits = 0

    def begin(self, works: Sequence[LedgerWork[T]]) -> tuple[list[T], Future[None]] | None:
        found = super().begin(works)
        self.commits += found is not None
        return found


def test_many_at_once_share_a_few_commits(path: str) -> None:
    async def buy(desk: LedgerSession, at: int) -> None:
        await desk.claim(wanted(at))
        await desk.send(wanted(at).key, "hash")
        await desk.receive(wanted(at).key, pack_reply(reply()), 0)

    async def all_of(desk: LedgerSession) -> None:
        await asyncio.gather(*(buy(desk, at) for at in range(100)))

    with Counting(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        asyncio.run(all_of(desk))
        assert ledger.states() == {"received": 100}
        # Claims, sendings and replies, each of them together.
        assert ledger.commits == 3


def test_what_one_asks_amiss_ends_those_beside_it_and_nobody_waits_for_ever(path: str) -> None:
    async def both(desk: LedgerSession) -> list[object]:
        await desk.claim(wanted(0))
        late = desk.receive(wanted(0).key, pack_reply(reply()), 0)
        # A key that nobody claimed has no row that a reply could belong to.
        amiss = desk.receive("nobody", pack_reply(reply()), 0)
        return list(await asyncio.gather(late, amiss, return_exceptions=True))

    with Ledger(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        found = asyncio.run(both(desk))
        assert [type(one) for one in found] == [StoreError, StoreError]
        assert ledger.states() == {"planned": 1}


def test_a_desk_waits_while_another_process_writes(path: str) -> None:
    async def claim(desk: LedgerSession, other: sqlite3.Connection) -> None:
        other.execute("BEGIN IMMEDIATE")
        claimed = asyncio.create_task(desk.claim(wanted(0)))
        assert await asyncio.wait({claimed}, timeout=0.1) == (set(), {claimed})
        other.execute("COMMIT")
        await claimed
        await desk.beat()

    with Ledger(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        other = sqlite3.connect(path, isolation_level=None)
        asyncio.run(claim(desk, other))
        other.close()
        assert ledger.states() == {"planned": 1}


def test_what_was_received_when_the_run_ended_is_kept(path: str) -> None:
    async def cut_off(desk: LedgerSession) -> None:
        await desk.claim(wanted(0))
        await desk.send(wanted(0).key, "hash")
        receiving = asyncio.create_task(desk.receive(wanted(0).key, pack_reply(reply()), 0))
        await asyncio.sleep(0)
        receiving.cancel()

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget()) as desk:
            asyncio.run(cut_off(desk))
        assert ledger.states() == {"received": 1}
        assert ledger.unknown() == []


def test_a_clock_that_was_set_back_changes_nothing(path: str) -> None:
    async def buy(desk: LedgerSession) -> None:
        await desk.claim(wanted(0))
        await desk.send(wanted(0).key, "hash")
        await desk.receive(wanted(0).key, pack_reply(reply()), 0)
        await desk.claim(wanted(1))
        await desk.fail(wanted(1).key, "no answer")

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget()) as desk:
            asyncio.run(buy(desk))
        db = sqlite3.connect(path)
        # As if everything had happened a century from now.
        db.execute("UPDATE asks SET at_ns = at_ns + 3155760000000000000")
        db.execute("UPDATE replies SET at_ns = at_ns + 3155760000000000000")
        db.commit()
        db.close()
        with LedgerSession(ledger, Budget()) as desk:

            async def again() -> list[str]:
                claims = [await desk.claim(wanted(at)) for at in (0, 1, 2)]
                return ["bought" if isinstance(one, Paid) else one for one in claims]

            assert asyncio.run(again()) == ["bought", "mine", "mine"]


def test_a_full_disk_is_told_to_everybody_who_waits(path: str) -> None:
    async def fill(desk: LedgerSession) -> list[object]:
        claims = [await desk.claim(wanted(at)) for at in range(4)]
        assert set(claims) == {"mine"}
        big = pack_reply(reply(raw=bytes(range(256)) * 4_000))
        return list(
            await asyncio.gather(
                *(desk.receive(wanted(at).key, big * 40, 0) for at in range(4)),
                return_exceptions=True,
            )
        )

    with Ledger(path) as ledger:
        with LedgerSession(ledger, Budget()) as desk:
            asyncio.run(desk.beat())
            # As a disk with room for two hundred more pages.
            pages = on_disk(path, "PRAGMA page_count")[0][0]
            ledger._db.execute(f"PRAGMA max_page_count = {int(str(pages)) + 200}")
            found = asyncio.run(fill(desk))
            assert {type(one) for one in found} == {EnvironmentFault}
            assert "disk is full" in str(found[0])
        assert ledger.states() == {"planned": 4}


class FullAtCommit(Ledger):
    """A disk whose room ends when a claim, told already, is to be written."""

    full = False

    def _commit(self) -> None:
        if self.full:
            self._roll_back()
            self._writing.release()
            raise EnvironmentFault("the disk is full")
        super()._commit()


def test_a_claim_that_is_lost_on_its_way_to_the_disk_ends_the_session(path: str) -> None:
    """Claimed and not there, it would be claimed again for ever."""

    async def claim(desk: LedgerSession, ledger: FullAtCommit) -> None:
        await desk.beat()
        ledger.full = True
        assert await desk.claim(wanted(0)) == "mine"
        while desk._commit is not None:
            await asyncio.sleep(0.001)
        ledger.full = False
        assert not await desk.send(wanted(0).key, "hash")
        await desk.claim(wanted(0))

    with FullAtCommit(path) as ledger, LedgerSession(ledger, Budget()) as desk:
        with pytest.raises(EnvironmentFault, match="the disk is full"):
            asyncio.run(claim(desk, ledger))
