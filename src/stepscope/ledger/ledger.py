"""The money ledger: every paid reply, committed before anything is made of it, and budgets.

A file of its own beside the store, so that a reply outlives whatever happens to what it says. Many
processes may pay at once: a key is paid by one of them, and the others wait for it. What was
received is read again, never paid again. Refuses ledgers of a newer version.

What many calls of one worker's session write at once goes to disk in one commit: while a commit is
on its way, what comes meanwhile waits and makes the next one. A reply, and the word that a call may
go out, are told when they are on disk; a claim is told before, since nobody else sees it until then
and nothing was sent for it.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from importlib.resources import files
from threading import Lock
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from stepscope.errors import EnvironmentFault
from stepscope.ledger import states
from stepscope.ledger.budget import Budget, open_budget, to_nano_usd, to_usd
from stepscope.ledger.states import LedgerAsk, LivenessMonitor, Paid, Standing, Worker
from stepscope.model import Reply
from stepscope.runtime import database
from stepscope.runtime.database import Closeable, Connection, Database, Schema

T = TypeVar("T")
LedgerWork = Callable[[Connection], T]

_KEYS = """
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
"""

SCHEMA = Schema(
    application_id=0x5354504A,  # "STPJ"
    version=2,
    sql=lambda: files("stepscope.ledger").joinpath("ledger.sql").read_text(encoding="utf-8"),
    foreign="an SQLite database of another program, no ledger of judges",
    newer="a ledger of version {found}; this stepscope reads up to {version}: upgrade stepscope",
    migrations={2: _KEYS},
)
# Replies are a few KiB and read once; a store's cache would only take memory.
_CACHE_KIBIBYTES = 4 * 1024
_ROWS_PER_READ = 500


class UnknownCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of which nobody knows what became: perhaps paid, and bought again."""

    key: str  # of the ask
    subject: str = msgspec.field(name="trajectory")
    purpose: str = msgspec.field(name="judge")
    attempt: int  # the how-manieth sending it was, from 1
    usd: float  # what it cost at worst, which counts as spent
    why: str  # what happened


def ledger_path(store: str) -> str:
    """Return where the ledger of a store lies.

    >>> ledger_path("runs.db"), ledger_path(":memory:")
    ('runs.db.judges.db', ':memory:')
    """
    return database.MEMORY if store == database.MEMORY else f"{store}.judges.db"


class Ledger(Database):
    """The file of replies; a context manager that closes it. Several threads may use it."""

    def __init__(self, path: str) -> None:
        """Open the ledger at `path`, made if new; `StoreError` for no ledger, or a newer one's."""
        super().__init__(path, SCHEMA, any_thread=True, cache_kibibytes=_CACHE_KIBIBYTES)
        self.watch = LivenessMonitor()
        self._writing = Lock()
        # Commits wait for the disk in a thread of their own: whoever waits for one that is under
        # way never waits for anything else.
        self._commits = ThreadPoolExecutor(1, thread_name_prefix="ledger-commits")
        self._works = ThreadPoolExecutor(1, thread_name_prefix="ledger")

    def close(self) -> None:
        """Close the file; a second close does nothing."""
        self._works.shutdown()
        self._commits.shutdown()
        self._db.close()

    def begin(self, works: Sequence[LedgerWork[T]]) -> tuple[list[T], Future[None]] | None:
        """Do several things now, if nobody else is writing; None where somebody is.

        Returns what they return, and the commit under way: on disk when it is done, and seen by no
        other connection before. The statements run here, since a thread beside a busy loop would
        wait for the interpreter before each of them.
        """
        with ExitStack() as unless_begun:
            if not self._writing.acquire(blocking=False):
                return None
            unless_begun.callback(self._writing.release)
            with database.translate_faults(self.path):
                if not database.try_begin(self._db):
                    return None
                unless_begun.callback(self._roll_back)
                done = [work(self._db) for work in works]
            unless_begun.pop_all()
        return done, self._commits.submit(self._commit)

    def _commit(self) -> None:
        with ExitStack() as at_the_end:
            at_the_end.callback(self._writing.release)
            at_the_end.callback(self._roll_back)
            with database.translate_faults(self.path):
                self._db.execute("COMMIT")

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def batch(self, works: Sequence[LedgerWork[T]]) -> Future[list[T]]:
        """Do several things in one transaction; what they return is on disk when it comes."""
        return self._works.submit(self._together, works)

    def _together(self, works: Sequence[LedgerWork[T]]) -> list[T]:
        with self._writing, database.transaction(self._db, self.path):
            return [work(self._db) for work in works]

    def _now(self, work: LedgerWork[T]) -> T:
        return self._together([work])[0]

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._writing, database.translate_faults(self.path):
            return self._db.execute(sql, values).fetchall()

    def join(self, budget: Budget) -> Worker:
        """Enter a run, and settle what dead ones have left behind."""
        owner = states.new_owner()
        name = budget.name or owner.token
        most = None if budget.limit_usd is None else to_nano_usd(budget.limit_usd)

        def enter(db: Connection) -> Worker:
            open_budget(db, name, most)
            return Worker(states.register_worker(db, owner, self.watch.lives), owner.token, name)

        return self._now(enter)

    def leave(self, buyer: Worker) -> None:
        """End a run: what it has sent without an answer is listed as of unknown outcome."""
        self._now(partial(states.leave_ledger, buyer=buyer))

    def acknowledge(self, calls: Iterable[UnknownCall]) -> None:
        """Note that somebody was told of these calls; until then later runs tell of them, too."""
        told = [(one.key, one.attempt) for one in calls]
        if told:
            self._now(partial(states.acknowledge_unknown, calls=told))

    def money(self, budget: str) -> tuple[float, float]:
        """Return what was spent of a budget by everybody, and what is reserved, in USD."""
        rows = self._rows("SELECT spent, reserved FROM budgets WHERE name = ?", (budget,))
        spent, reserved = rows[0] if rows else (0, 0)
        return to_usd(spent), to_usd(reserved)

    def unknown(self, run: str | None = None) -> list[UnknownCall]:
        """Return the calls of unknown outcome, all or those that one run tells of, oldest first."""
        rows = self._rows(
            "SELECT key, trajectory, judge, attempt, worst, why FROM unknown"
            " WHERE ?1 IS NULL OR run = ?1 ORDER BY id",
            (run,),
        )
        return [
            UnknownCall(key=key, subject=of, purpose=by, attempt=n, usd=to_usd(worst), why=why)
            for key, of, by, n, worst, why in rows
        ]

    def costs(self) -> list[int | None]:
        """Return what each reply cost, in billionths of a USD; None where nobody knows."""
        sql = "SELECT cost FROM asks JOIN replies ON replies.key = asks.key ORDER BY asks.key"
        return [cost for (cost,) in self._rows(sql)]

    def states(self) -> dict[str, int]:
        """Return how many asks are in which state."""
        return dict(self._rows("SELECT state, count(*) FROM asks GROUP BY state ORDER BY state"))

    def fence_key(self, own: bytes) -> bytes:
        """Return the key of the fences that stand in every question; `own` where there is none yet.

        A store that was lost and made again asks the same questions by it, and buys none again.
        """
        insert = "INSERT INTO keys (name, body) VALUES ('fence', ?) ON CONFLICT DO NOTHING"
        self._now(lambda db: db.execute(insert, (own,)))
        ((key,),) = self._rows("SELECT body FROM keys WHERE name = 'fence'")
        return key  # type: ignore[no-any-return]  # a BLOB

    def holds(self, keys: Iterable[str]) -> set[str]:
        """Return those of the keys whose replies are here."""
        sql = "SELECT key FROM replies WHERE key IN (SELECT value FROM json_each(?))"
        return {key for (key,) in self._rows(sql, (json.dumps(list(keys)),))}

    def replies(self) -> Iterator[tuple[str, Reply]]:
        """Yield the hash of each request and its reply, in the order of their keys."""
        last = ""
        while rows := self._rows(
            "SELECT asks.key, request, body FROM asks JOIN replies ON replies.key = asks.key"
            " WHERE asks.key > ? ORDER BY asks.key LIMIT ?",
            (last, _ROWS_PER_READ),
        ):
            for last, request, body in rows:  # noqa: B007 (the last key is where to go on)
                yield request, states.unpack_reply(body)

    def erase(self, subjects: Iterable[str]) -> int:
        """Erase the replies about these subjects for good; return how many there were.

        `EnvironmentFault` where another process keeps old pages alive; erasing again ends the work.
        """
        erased = self._now(partial(states.erase_replies, subjects=json.dumps(list(subjects))))
        with self._writing:
            database.rewrite_database(self._db, self.path)
        return erased


# Another process's commit takes a few milliseconds.
_RETRY_SECONDS = 0.002


_Works = dict[asyncio.Future[Any], LedgerWork[Any]]


class LedgerSession(Closeable):
    """A run that buys; a context manager that leaves the ledger in order when it ends."""

    def __init__(self, ledger: Ledger, budget: Budget) -> None:
        """Enter the ledger; what dead runs have left is settled by that."""
        self._ledger = ledger
        # What is to be done, by who waits for what it returns: that is known to whoever asked for
        # it, not to the batch it is in. Some are told as soon as it is done, and not when it is on
        # disk: nobody else sees it before.
        self._waiting: _Works = {}
        self._early: set[asyncio.Future[Any]] = set()
        self._starting = False
        self._busy_since: float | None = None
        self._commit: Future[None] | None = None
        self._lost: BaseException | None = None  # why a commit failed: nothing new is begun
        self.buyer: Worker = ledger.join(budget)

    def close(self) -> None:
        """Settle what is under way, and leave the ledger."""
        if self._commit is not None:
            wait([self._commit])
        left, self._waiting = self._waiting, {}
        # What was received and not yet on its way to the disk is paid for.
        if left:
            self._ledger.batch(list(left.values())).result()
        self._ledger.leave(self.buyer)

    async def _do(self, work: LedgerWork[T], *, early: bool = False) -> T:
        if early and self._lost is not None:
            raise self._lost
        told: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[told] = work
        if early:
            self._early.add(told)
        self._soon()
        return await told

    def _soon(self) -> None:
        """Start a commit when everybody who is ready now has asked."""
        if self._waiting and self._commit is None and not self._starting:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._starting = False
        asked, self._waiting = self._waiting, {}
        if not asked:
            return  # the run has ended meanwhile
        with ExitStack() as unless_told:
            # Whatever fails, nobody is left waiting for it.
            unless_told.push(partial(_reject_works, asked))
            found = self._ledger.begin(list(asked.values()))
            if found is None:
                self._wait_for_others(asked)
            unless_told.pop_all()
        if found is None:
            return
        results, self._commit = found
        self._busy_since = None
        for told, result in zip(asked, results, strict=True):
            if told in self._early:
                self._early.remove(told)
                _resolve_work(told, result)
        committed = asyncio.wrap_future(self._commit, loop=asyncio.get_running_loop())
        committed.add_done_callback(partial(self._committed, asked, results))

    def _wait_for_others(self, asked: _Works) -> None:
        """Try again soon: another process, or another run of this one, is writing."""
        now = time.monotonic()
        if self._busy_since is None:
            self._busy_since = now
        if now - self._busy_since > database.BUSY_MILLISECONDS / 1000:
            why = "another process keeps the ledger locked; wait for it and run again"
            raise EnvironmentFault(f"{self._ledger.path}: {why}")
        self._waiting = asked
        self._starting = True
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._start)

    def _committed(self, asked: _Works, results: list[Any], done: asyncio.Future[None]) -> None:
        self._commit = None
        if (error := done.exception()) is not None:
            self._lost = error
            _reject_works(asked, type(error), error, None)
        else:
            for told, result in zip(asked, results, strict=True):
                _resolve_work(told, result)
        self._soon()

    async def keep_beating(self) -> None:
        """Beat until cancelled."""
        while True:
            await asyncio.sleep(states.HEARTBEAT_SECONDS)
            await self.beat()

    async def beat(self) -> None:
        """Say that this run is alive."""
        await self._do(partial(states.record_heartbeat, owner=self.buyer.owner))

    async def claim(self, wanted: LedgerAsk) -> Standing | Paid:
        """Take an ask and reserve its money, unless it is bought or somebody else's."""
        lives = self._ledger.watch.lives
        claim = partial(states.claim_ask, wanted=wanted, buyer=self.buyer, lives=lives)
        return await self._do(claim, early=True)

    async def send(self, key: str, request: str) -> bool:
        """Note that an ask is about to be sent; False when it was taken over or is bought."""
        owner = self.buyer.owner
        return await self._do(partial(states.note_sent, key=key, request=request, owner=owner))

    async def again(self, key: str) -> bool:
        """Note that an ask is sent once more, its last outcome unknown; False: no money for it."""
        return await self._do(partial(states.note_resent, key=key, buyer=self.buyer))

    async def receive(self, key: str, body: bytes, cost: int | None) -> bytes | None:
        """Keep a reply; return another one where that was kept before it."""
        return await self._do(
            partial(states.store_reply, key=key, body=body, cost=cost, owner=self.buyer.owner)
        )

    async def fail(self, key: str, reason: str, *, unknown: str = "") -> None:
        """Give an ask up; `unknown` says why nobody can know whether it was paid."""
        await self._do(self._failing(key, reason, unknown))

    def drop(self, key: str) -> None:
        """Give an ask back that was not paid, without waiting: whoever asked was cancelled."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told.cancel()  # nobody waits for it
        self._waiting[told] = self._failing(key, "", "")
        self._soon()

    def _failing(self, key: str, reason: str, unknown: str) -> LedgerWork[None]:
        return partial(states.fail_ask, key=key, reason=reason, buyer=self.buyer, unknown=unknown)

    async def done(self, keys: Sequence[str]) -> None:
        """Note that what these replies say is in the store."""
        await self._do(partial(states.note_recorded, keys=keys))


def _resolve_work(told: asyncio.Future[Any], result: object) -> None:
    # Whoever asked may have been cancelled, or told before; what was asked is done.
    if not told.done():
        told.set_result(result)


def _reject_works(
    asked: _Works,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> bool:
    """Hand an error to everybody whose work it ended; it is theirs, not the loop's."""
    for told in asked:
        if error is not None and not told.done():
            told.set_exception(error)
    return error is not None
