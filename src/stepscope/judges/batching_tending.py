"""Look after open batches until they are over: find, look, fetch, end.

What is fetched is committed before anything is made of it, some hundred replies at a time; a crash
amid the fetching fetches again and keeps nothing twice. Items that were not asked cost nothing; an
ask of which an ended batch says nothing may have been paid, and is listed so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeVar, cast

from stepscope.errors import ModelError
from stepscope.judges import batching_rows as rows
from stepscope.judges.batching_rows import Open
from stepscope.judges.budget import nano
from stepscope.judges.ledger import Ledger, Work, packed
from stepscope.judges.ledger_rows import Buyer
from stepscope.judges.models.batches import Batch, Intended, Item
from stepscope.judges.running_buying import Bought, Pricing
from stepscope.judges.running_tally import Tally
from stepscope.model import Reply, Structure

T = TypeVar("T")
# Replies that one commit takes.
_TOGETHER = 200

# Called for every ask that came back without an answer: key, reason, whether to ask again.
Unanswered = Callable[[str, str, bool], None]


class Tending:
    """What a run knows of the batches that it looks after."""

    def __init__(
        self,
        ledger: Ledger,
        buyer: Buyer,
        *,
        prices: Pricing,
        tally: Tally,
        unanswered: Unanswered,
        settle_seconds: float,
    ) -> None:
        """Look after batches on this run's behalf."""
        self._ledger = ledger
        self._buyer = buyer
        self._prices = prices
        self._tally = tally
        self._unanswered = unanswered
        self._settle_seconds = settle_seconds
        # Keys whose replies this run has fetched, and nobody has read yet.
        self.fresh: set[str] = set()
        # Since when a batch is looked for in vain, on the monotonic clock.
        self._absent: dict[str, float] = {}

    async def do(self, work: Work[T]) -> T:
        """Return what a piece of work gives, when it is on disk."""
        return (await asyncio.wrap_future(self._ledger.batch([work])))[0]

    async def look(self, one: Open, batch: Batch) -> bool:
        """Look at a batch; return whether it is over.

        Raises:
            ModelError: the provider does not say, and asking again will not help.
        """
        try:
            return await self._look(one, batch)
        except ModelError as e:
            if one.remote and e.status == 404:
                await self._end(one, {})
                return True
            if not e.again:
                raise
            return False

    async def _look(self, one: Open, batch: Batch) -> bool:
        if not one.remote:
            return await self._find(one, batch)
        state = await batch.state(one.remote)
        if state.refused:
            await self.never_asked(one, state.refused, again=True)
            return True
        if not state.ended:
            return False
        await self._fetch(one, batch)
        return True

    async def _find(self, one: Open, batch: Batch) -> bool:
        """Find out whether a batch was made whose making was cut off; True when it was not."""
        known = await self.do(rows.remotes)
        found = await batch.find(intended(one), known)
        if found.remote:
            await self.do(partial(rows.submitted, token=one.token, remote=found.remote))
            return False
        since = self._absent.setdefault(one.token, time.monotonic())
        if found.wait or time.monotonic() - since < self._settle_seconds:
            return False
        await self.do(
            partial(rows.end, batch=one, unpaid=dict.fromkeys(one.keys, ""), buyer=self._buyer)
        )
        return True

    async def never_asked(self, one: Open, reason: str, *, again: bool) -> None:
        """End a batch of which nothing was asked."""
        await self._end(one, dict.fromkeys(one.keys, (reason, again)))

    async def _fetch(self, one: Open, batch: Batch) -> None:
        unpaid: dict[str, tuple[str, bool]] = {}
        held: list[Item] = []
        async with aclosing(batch.results(one.remote, structure(one))) as results:
            async for item in results:
                if item.key not in one.keys:
                    continue
                if item.reply is None:
                    unpaid.setdefault(item.key, (item.reason, item.again))
                    continue
                held.append(item)
                if len(held) == _TOGETHER:
                    await self._receive(one, held)
                    held = []
        await self._receive(one, held)
        await self._end(one, unpaid)

    async def _receive(self, one: Open, items: Sequence[Item]) -> None:
        """Commit replies, and count those that were not here before."""
        made: list[tuple[str, bytes, int | None]] = []
        bought: list[Bought] = []
        for item in items:
            assert item.reply is not None
            known = self._prices.cost(
                one.judge, item.reply.usage, model=item.reply.model, batch=True
            )
            cost = None if known is None else nano(known)
            made.append((item.key, packed(item.reply), cost))
            bought.append(Bought(item.reply, cost, fresh=True))
        fresh = await self.do(partial(rows.receive, replies=made, owner=one.owner))
        for item, new, reply in zip(items, fresh, bought, strict=True):
            if new:
                self.fresh.add(item.key)
                self._tally.replied(one.judge, reply, self._saved(one.judge, reply.reply))

    def _saved(self, judge: str, reply: Reply) -> float | None:
        return self._prices.saved(judge, reply.usage, model=reply.model, batch=True)

    async def _end(self, one: Open, unpaid: dict[str, tuple[str, bool]]) -> None:
        reasons = {key: reason for key, (reason, _) in unpaid.items()}
        missing = await self.do(partial(rows.end, batch=one, unpaid=reasons, buyer=self._buyer))
        for key, (reason, again) in unpaid.items():
            self._unanswered(key, reason, again)
        for key in missing:
            self._unanswered(key, rows.MISSING, True)


def structure(one: Open) -> Structure:
    """Return how structured output is asked for in a batch; we wrote it down ourselves."""
    return cast("Structure", one.structure)


def intended(one: Open) -> Intended:
    """Return a batch as it was intended."""
    return Intended(one.token, one.keys, structure(one), one.since)
