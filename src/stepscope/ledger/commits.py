"""One worker's session with the ledger: what many calls write at once goes to disk in one commit.

While a commit is on its way to the disk, what comes meanwhile waits and makes the next one: two
hundred calls in flight share a few hundred commits a second. A reply, and the word that a call may
go out, are told when they are on disk; a claim is told before, since nobody else sees it until then
and nothing was sent for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from stepscope.errors import EnvironmentFault
from stepscope.ledger import states as rows
from stepscope.ledger.ledger import Budget, Ledger, LedgerWork
from stepscope.ledger.states import ClaimResult, LedgerAsk, Worker
from stepscope.runtime.database import BUSY_MILLISECONDS

T = TypeVar("T")
# Another process's commit takes a few milliseconds.
_RETRY_SECONDS = 0.002


class _PendingWork(NamedTuple):
    # What a change of state returns is known to whoever asked for it, not to the batch it is in.
    work: LedgerWork[Any]
    told: asyncio.Future[Any]
    # Whether it is told as soon as it is done: nobody else sees it before it is on disk.
    early: bool


class LedgerSession:
    """A run that buys; a context manager that leaves the ledger in order when it ends."""

    def __init__(self, ledger: Ledger, budget: Budget) -> None:
        """Enter the ledger; what dead runs have left is settled by that."""
        self._ledger = ledger
        self._waiting: list[_PendingWork] = []
        self._starting = False
        self._busy_since: float | None = None
        self._commit: Future[None] | None = None
        self.buyer: Worker = ledger.join(budget)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._commit is not None:
            wait([self._commit])
        left, self._waiting = self._waiting, []
        # What was received and not yet on its way to the disk is paid for.
        if left:
            self._ledger.batch([asked.work for asked in left]).result()
        self._ledger.leave(self.buyer)

    async def _do(self, work: LedgerWork[T], *, early: bool = False) -> T:
        told: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_PendingWork(work, told, early))
        self._soon()
        return await told

    def _soon(self) -> None:
        """Start a commit when everybody who is ready now has asked."""
        if self._waiting and self._commit is None and not self._starting:
            self._starting = True
            asyncio.get_running_loop().call_soon(self._start)

    def _start(self) -> None:
        self._starting = False
        asked, self._waiting = self._waiting, []
        if not asked:
            return  # the run has ended meanwhile
        with ExitStack() as unless_told:
            # Whatever fails, nobody is left waiting for it.
            unless_told.push(partial(_reject_works, asked))
            found = self._ledger.begin([one.work for one in asked])
            if found is None:
                self._wait_for_others(asked)
            unless_told.pop_all()
        if found is None:
            return
        results, self._commit = found
        self._busy_since = None
        for one, result in zip(asked, results, strict=True):
            if one.early:
                _resolve_work(one, result)
        committed = asyncio.wrap_future(self._commit, loop=asyncio.get_running_loop())
        committed.add_done_callback(partial(self._committed, asked, results))

    def _wait_for_others(self, asked: list[_PendingWork]) -> None:
        """Try again soon: another process, or another run of this one, is writing."""
        now = time.monotonic()
        if self._busy_since is None:
            self._busy_since = now
        if now - self._busy_since > BUSY_MILLISECONDS / 1000:
            raise EnvironmentFault(
                f"{self._ledger.path}: another process keeps the ledger locked; wait for it and "
                "run again"
            )
        self._waiting = asked
        self._starting = True
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._start)

    def _committed(
        self, asked: list[_PendingWork], results: list[Any], done: asyncio.Future[None]
    ) -> None:
        self._commit = None
        error = done.exception()
        if error is not None:
            _reject_works(asked, type(error), error, None)
        else:
            for one, result in zip(asked, results, strict=True):
                _resolve_work(one, result)
        self._soon()

    async def beat(self) -> None:
        """Say that this run is alive."""
        await self._do(partial(rows.record_heartbeat, owner=self.buyer.owner))

    async def claim(self, wanted: LedgerAsk) -> ClaimResult:
        """Take an ask and reserve its money, unless it is bought or somebody else's."""
        lives = self._ledger.watch.lives
        claim = partial(rows.claim_ask, wanted=wanted, buyer=self.buyer, lives=lives)
        return await self._do(claim, early=True)

    async def send(self, key: str, request: str) -> bool:
        """Note that an ask is about to be sent; False when it was taken over or is bought."""
        owner = self.buyer.owner
        return await self._do(partial(rows.note_sent, key=key, request=request, owner=owner))

    async def again(self, key: str) -> bool:
        """Note that an ask is sent once more, its last outcome unknown; False: no money for it."""
        return await self._do(partial(rows.note_resent, key=key, buyer=self.buyer))

    async def receive(self, key: str, body: bytes, cost: int | None) -> bytes | None:
        """Keep a reply; return another one where that was kept before it."""
        owner = self.buyer.owner
        return await self._do(partial(rows.store_reply, key=key, body=body, cost=cost, owner=owner))

    async def fail(self, key: str, reason: str, *, unknown: str = "") -> None:
        """Give an ask up; `unknown` says why nobody can know whether it was paid."""
        await self._do(self._failing(key, reason, unknown))

    def drop(self, key: str) -> None:
        """Give an ask back that was not paid, without waiting: whoever asked was cancelled."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told.cancel()  # nobody waits for it
        self._waiting.append(_PendingWork(self._failing(key, "", ""), told, early=False))
        self._soon()

    def _failing(self, key: str, reason: str, unknown: str) -> LedgerWork[None]:
        return partial(rows.fail_ask, key=key, reason=reason, buyer=self.buyer, unknown=unknown)

    async def done(self, keys: Sequence[str]) -> None:
        """Note that what these replies say is in the store."""
        await self._do(partial(rows.note_recorded, keys=keys))


def _resolve_work(one: _PendingWork, result: object) -> None:
    # Whoever asked may have been cancelled, or told before; what was asked is done.
    if not one.told.done():
        one.told.set_result(result)


def _reject_works(
    asked: list[_PendingWork],
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> bool:
    """Hand an error to everybody whose work it ended; it is theirs, not the loop's."""
    for one in asked:
        if error is not None and not one.told.done():
            one.told.set_exception(error)
    return error is not None
