"""What the bars of the ledger share: runs to judge, a judge at a scripted provider, and the oracle.

The provider is a process of its own that writes down every request it has received; requests are
tied to the ledger's keys by a pass in which they are asked one after the other.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepscope.api import judging as api
from stepscope.cli.main import stop_again
from stepscope.judges.judgement import DEFAULT_OPTIONS
from stepscope.ledger.budget import Budget
from stepscope.ledger.calls import GRACE_SECONDS
from stepscope.ledger.ledger import Ledger, ledger_path
from stepscope.model import Record, Trajectory
from stepscope.models.configured import JudgesTable, JudgeTable, PriceTable
from stepscope.models.opening import open_model
from stepscope.score.judges import JudgePlan, JudgingResult, judge_runs
from stepscope.settings import Settings
from stepscope.store import Store
from tests.factories import agent, did, run, user
from tests.faults.oracle import hash_of
from tests.faults.providers import Provider, serving

JUDGE = "local/tiny"
RUBRICS = "axes"
IN_FLIGHT = 32
AXES = 5
# So that a call costs a few cents, and a budget is felt.
PRICE = PriceTable(input=10.0, output=100.0)
RICH = Budget(limit_usd=10_000.0)
# Exit codes of processes here: as the command line has them, and one for what nobody expects.
STOPPED = 130
FAILED = 70


class Reference(NamedTuple):
    """What judging without an interruption gives.

    Attributes:
        store: a store of runs that nobody has judged.
        keys: hash of a request as the provider saw it -> key of the ledger.
        records: what the judge said of every run, without times.
    """

    store: Path
    keys: Mapping[str, str]
    records: str


def settings(
    base: str, *, concurrency: int = IN_FLIGHT, price: PriceTable | None = PRICE
) -> Settings:
    """Return settings with one judge, at the scripted provider."""
    judge = JudgeTable(base_url=base, family="qwen", structure="json_schema", price=price)
    return Settings(judges=JudgesTable(concurrency=concurrency, model={JUDGE: judge}))


def runs(count: int) -> list[Trajectory]:
    """Return small runs, no two alike."""
    return [
        run(
            user(f"cancel order A{at}"),
            *did("cancel_order", f"order A{at} is cancelled", id=f"A{at}"),
            agent("It is cancelled."),
            id=f"r{at}",
            name=f"shop/{at:03}/0",
            task=str(at),
        )
        for at in range(count)
    ]


def work(
    path: Path,
    base: str,
    *,
    budget: Budget = RICH,
    grace_seconds: float = GRACE_SECONDS,
    most_in_flight: int = IN_FLIGHT,
    price: PriceTable | None = PRICE,
) -> JudgingResult:
    """Judge every run of a store, as much as is missing."""
    held = settings(base, concurrency=most_in_flight, price=price)
    with Store.open(path) as store, Ledger(ledger_path(str(path))) as ledger:
        asked = asking(store)
        calls = api.open_access(held, ledger, [JUDGE], asked.judges, budget=budget, models=None)
        return judge_runs(asked, calls._replace(grace_seconds=grace_seconds))


def asking(store: Store) -> JudgePlan:
    """Return what is asked of every store here."""
    held = settings("http://127.0.0.1:9/v1")
    return api.plan_questions(store, held, [JUDGE], [RUBRICS], where=None, options=DEFAULT_OPTIONS)


def reference(folder: Path, count: int) -> Reference:
    """Judge some runs one call after the other, against a provider in this process.

    Its own process, so that no thread is left behind in the one that forks.
    """
    made = folder / "reference.bin"
    # What is loaded now, processes need not load again.
    open_model(JUDGE, settings("http://127.0.0.1:9/v1").judges, keys={})

    def make() -> int:
        made.write_bytes(msgspec.msgpack.encode(_reference(folder, count)))
        return 0

    if ended(forked(make), within=300.0) != 0:
        raise RuntimeError("the reference could not be made")
    store, keys, records = msgspec.msgpack.decode(made.read_bytes())
    return Reference(Path(store), keys, records)


def _reference(folder: Path, count: int) -> tuple[str, dict[str, str], str]:
    clean, judged = folder / "clean.db", folder / "judged.db"
    with Store.open(clean) as store:
        store.put(runs(count))
    shutil.copy(clean, judged)
    with serving() as provider:
        work(judged, provider.openai, most_in_flight=1)
        asked = [hash_of(one.json()) for one in provider.asked]
    return str(clean), dict(zip(asked, planned(clean), strict=True)), said(judged)


def planned(path: Path) -> list[str]:
    """Return the keys of everything that is asked of a store, in their order."""
    with Store.open(path) as store:
        return [ask.key for one, _ in asking(store).planned for ask in one.asks]


def said(path: Path) -> str:
    """Return the records of a store without price and times, a line each; damage is an error.

    Raises:
        RuntimeError: SQLite finds the store or its ledger damaged.
    """
    for file in (path, Path(f"{path}.judges.db")):
        db = sqlite3.connect(file)
        sound = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.close()
        if not sound:
            raise RuntimeError(f"{file} is damaged")
    with Store.open(path) as store:
        kept = [_without_price(record) for record in store.records()]
    return "\n".join(msgspec.json.encode(record).decode() for record in kept)


def _without_price(record: Record) -> Record:
    # What the provider has cached, and so what a call costs, depends on what was asked before.
    return msgspec.structs.replace(record, usage=None, cost_usd=None, seconds=None)


def forked(body: Callable[[], int]) -> int:
    """Return the number of a process that does something and ends with its code."""
    # What runs in the child before it is ready would swallow a stop.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.unraisablehook = stop_again
        code = FAILED
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            code = body()
        except KeyboardInterrupt:
            code = STOPPED
        finally:
            # Nothing of the parent's may run on in the child: its providers would be stopped.
            if code == FAILED:
                traceback.print_exc()
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return child


def ended(child: int, *, within: float) -> int | None:
    """Return the exit code of a process, negative for a signal; None where it goes on."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    return None


class Held(NamedTuple):
    """What a ledger says, read by somebody else; replies and unknown sendings by key."""

    sent: int
    replies: frozenset[str]
    unknown: Counter[str]
    spent: int
    reserved: int


def held(path: Path) -> Held:
    """Return what the ledger beside a store holds; nothing where it is not there yet."""
    file = Path(f"{path}.judges.db")
    if not file.is_file():
        return Held(0, frozenset(), Counter(), 0, 0)
    db = sqlite3.connect(file, timeout=30)
    try:
        if not db.execute("PRAGMA application_id").fetchone()[0]:
            return Held(0, frozenset(), Counter(), 0, 0)
        sent = db.execute("SELECT count(*) FROM asks WHERE state = 'sent'").fetchone()[0]
        replies = frozenset(row[0] for row in db.execute("SELECT key FROM replies"))
        unknown = Counter(row[0] for row in db.execute("SELECT key FROM unknown"))
        money = db.execute("SELECT sum(spent), sum(reserved) FROM budgets").fetchone()
    finally:
        db.close()
    return Held(sent, replies, unknown, money[0] or 0, money[1] or 0)


def received(provider: Provider, keys: Mapping[str, str], *, after: int = 0) -> Counter[str]:
    """Return how often the provider received each key, from one entry of its file on."""
    return Counter(keys[one.hash] for one in provider.entries()[after:] if one.event == "received")


def progress(text: str) -> None:
    """Show how far a long bar is, on a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{text}")
