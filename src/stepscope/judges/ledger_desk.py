"""One run's hand in the ledger: what many calls ask of it at once goes to disk in one commit.

While a commit is on its way to the disk, what comes meanwhile waits and makes the next one: two
hundred calls in flight share a few hundred commits a second, and none is answered before its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from stepscope.judges import ledger_rows as rows
from stepscope.judges.budget import Budget
from stepscope.judges.ledger import Ledger, Work
from stepscope.judges.ledger_rows import Buyer, Claim, Wanted

T = TypeVar("T")


class _Asked(NamedTuple):
    # What a change of state returns is known to whoever asked for it, not to the batch it is in.
    work: Work[Any]
    told: asyncio.Future[Any]


class Desk:
    """A run that buys; a context manager that leaves the ledger in order when it ends."""

    def __init__(self, ledger: Ledger, budget: Budget) -> None:
        """Enter the ledger; what dead runs have left is settled by that."""
        self._ledger = ledger
        self._waiting: list[_Asked] = []
        self._under_way: Future[list[Any]] | None = None
        self.buyer: Buyer = ledger.join(budget)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        left, self._waiting = self._waiting, []
        # What was received and not yet on its way to the disk is paid for.
        if left:
            self._ledger.batch([asked.work for asked in left]).result()
        self._ledger.leave(self.buyer)

    async def _do(self, work: Work[T]) -> T:
        told: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Asked(work, told))
        self._start()
        return await told

    def _start(self) -> None:
        if self._under_way is not None or not self._waiting:
            return
        asked, self._waiting = self._waiting, []
        loop = asyncio.get_running_loop()
        self._under_way = self._ledger.batch([one.work for one in asked])
        asyncio.wrap_future(self._under_way, loop=loop).add_done_callback(
            partial(self._tell, asked)
        )

    def _tell(self, asked: Sequence[_Asked], done: asyncio.Future[list[Any]]) -> None:
        self._under_way = None
        error = done.exception()
        for at, one in enumerate(asked):
            if one.told.done():
                continue  # whoever asked was cancelled; what was asked is done
            if error is None:
                one.told.set_result(done.result()[at])
            else:
                one.told.set_exception(error)
        self._start()

    async def beat(self) -> None:
        """Say that this run is alive."""
        await self._do(partial(rows.beat, owner=self.buyer.owner))

    async def claim(self, wanted: Wanted) -> Claim:
        """Take an ask and reserve its money, unless it is bought or somebody else's."""
        lives = self._ledger.watch.lives
        return await self._do(partial(rows.claim, wanted=wanted, buyer=self.buyer, lives=lives))

    async def send(self, key: str, request: str) -> bool:
        """Note that an ask is about to be sent; False when it was taken over or is bought."""
        owner = self.buyer.owner
        return await self._do(partial(rows.send, key=key, request=request, owner=owner))

    async def again(self, key: str) -> bool:
        """Note that an ask is sent once more, its last outcome unknown; False: no money for it."""
        return await self._do(partial(rows.again, key=key, buyer=self.buyer))

    async def receive(self, key: str, body: bytes, cost: int | None) -> bytes | None:
        """Keep a reply; return another one where that was kept before it."""
        owner = self.buyer.owner
        return await self._do(partial(rows.receive, key=key, body=body, cost=cost, owner=owner))

    async def fail(self, key: str, reason: str, *, unknown: str = "") -> None:
        """Give an ask up; `unknown` says why nobody can know whether it was paid."""
        await self._do(self._failing(key, reason, unknown))

    def drop(self, key: str) -> None:
        """Give an ask back that was not paid, without waiting: whoever asked was cancelled."""
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        told.cancel()  # nobody waits for it
        self._waiting.append(_Asked(self._failing(key, "", ""), told))
        self._start()

    def _failing(self, key: str, reason: str, unknown: str) -> Work[None]:
        return partial(rows.fail, key=key, reason=reason, buyer=self.buyer, unknown=unknown)

    async def done(self, keys: Sequence[str]) -> None:
        """Note that what these replies say is in the store."""
        await self._do(partial(rows.done, keys=keys))
