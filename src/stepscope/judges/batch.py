"""Run judgements by provider batches: send what is not paid, poll, fetch results, end.

A batch is written to the ledger before it is sent, so that a crash at any moment loses nothing: the
next run finds what was made, and fetches it. What is fetched is committed before anything is made
of it. What came back without an answer is sent again in the next batch, once; items that were not
asked cost nothing; an ask of which an ended batch says nothing may have been paid, and is listed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar, cast

import msgspec

from stepscope.errors import ConfigError, ModelError
from stepscope.judges.judgement import AskOutcome, Judgement
from stepscope.judges.run import JudgingCounts, JudgingStatistics, Keep, Progress, run_judgements
from stepscope.ledger import states as rows
from stepscope.ledger.calls import BeforeCall, Paid, Pricing, may_be_paid
from stepscope.ledger.commits import LedgerSession
from stepscope.ledger.ledger import (
    Budget,
    Ledger,
    LedgerWork,
    UnknownCall,
    pack_reply,
    to_nano_usd,
    unpack_reply,
)
from stepscope.ledger.states import (
    HEARTBEAT_SECONDS,
    BatchCandidate,
    LedgerAsk,
    OpenBatch,
    PlannedBatch,
    Standing,
    Worker,
)
from stepscope.model import Model, Reply, Request, Structure
from stepscope.models.batches import MOST_BATCH_BYTES, BatchClient, BatchItem, IntendedBatch
from stepscope.models.dialect import Ask, ignores_schema, request_hash

T = TypeVar("T")
# Replies that one commit takes.
_REPLIES_PER_COMMIT = 200

# Called for every ask that came back without an answer: key, reason, whether to ask again.
OnUnanswered = Callable[[str, str, bool], None]


class BatchPoller:
    """What a run knows of the batches that it looks after."""

    def __init__(
        self,
        ledger: Ledger,
        buyer: Worker,
        *,
        prices: Pricing,
        tally: JudgingCounts,
        unanswered: OnUnanswered,
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

    async def do(self, work: LedgerWork[T]) -> T:
        """Return what a piece of work gives, when it is on disk."""
        return (await asyncio.wrap_future(self._ledger.batch([work])))[0]

    async def look(self, one: OpenBatch, batch: BatchClient) -> bool:
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

    async def _look(self, one: OpenBatch, batch: BatchClient) -> bool:
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

    async def _find(self, one: OpenBatch, batch: BatchClient) -> bool:
        """Find out whether a batch was made whose making was cut off; True when it was not."""
        known = await self.do(rows.remote_names)
        found = await batch.find(intended_batch(one), known)
        if found.remote:
            await self.do(partial(rows.note_submitted, token=one.token, remote=found.remote))
            return False
        since = self._absent.setdefault(one.token, time.monotonic())
        if found.wait or time.monotonic() - since < self._settle_seconds:
            return False
        await self.do(
            partial(
                rows.end_batch, batch=one, unpaid=dict.fromkeys(one.keys, ""), buyer=self._buyer
            )
        )
        return True

    async def never_asked(self, one: OpenBatch, reason: str, *, again: bool) -> None:
        """End a batch of which nothing was asked."""
        await self._end(one, dict.fromkeys(one.keys, (reason, again)))

    async def _fetch(self, one: OpenBatch, batch: BatchClient) -> None:
        unpaid: dict[str, tuple[str, bool]] = {}
        held: list[BatchItem] = []
        async with aclosing(batch.results(one.remote, batch_structure(one))) as results:
            async for item in results:
                if item.key not in one.keys:
                    continue
                if item.reply is None:
                    unpaid.setdefault(item.key, (item.reason, item.again))
                    continue
                held.append(item)
                if len(held) == _REPLIES_PER_COMMIT:
                    await self._receive(one, held)
                    held = []
        await self._receive(one, held)
        await self._end(one, unpaid)

    async def _receive(self, one: OpenBatch, items: Sequence[BatchItem]) -> None:
        """Commit replies, and count those that were not here before."""
        made: list[tuple[str, bytes, int | None]] = []
        bought: list[Paid] = []
        for item in items:
            assert item.reply is not None
            known = self._prices.cost(
                one.judge, item.reply.usage, model=item.reply.model, batch=True
            )
            cost = None if known is None else to_nano_usd(known)
            made.append((item.key, pack_reply(item.reply), cost))
            bought.append(Paid(item.reply, cost, fresh=True))
        fresh = await self.do(partial(rows.store_batch_replies, replies=made, owner=one.owner))
        for item, new, reply in zip(items, fresh, bought, strict=True):
            if new:
                self.fresh.add(item.key)
                self._tally.replied(one.judge, reply, self._saved(one.judge, reply.reply))

    def _saved(self, judge: str, reply: Reply) -> float | None:
        return self._prices.saved(judge, reply.usage, model=reply.model, batch=True)

    async def _end(self, one: OpenBatch, unpaid: dict[str, tuple[str, bool]]) -> None:
        reasons = {key: reason for key, (reason, _) in unpaid.items()}
        missing = await self.do(
            partial(rows.end_batch, batch=one, unpaid=reasons, buyer=self._buyer)
        )
        for key, (reason, again) in unpaid.items():
            self._unanswered(key, reason, again)
        for key in missing:
            self._unanswered(key, rows.NO_BATCH_RESULT, True)


def batch_structure(one: OpenBatch) -> Structure:
    """Return how structured output is asked for in a batch; we wrote it down ourselves."""
    return cast("Structure", one.structure)


def intended_batch(one: OpenBatch) -> IntendedBatch:
    """Return a batch as it was intended."""
    return IntendedBatch(one.token, one.keys, batch_structure(one), one.since)


# How often an ask is sent: what was expired or cancelled is worth a second batch.
BATCH_ATTEMPTS = 2

PlanSource = Callable[[], Iterable[Judgement]]


class PollTiming(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited."""

    poll_seconds: float = 60.0  # between two looks at a batch, at most; the first come sooner
    settle_seconds: float = 60.0  # how long a batch whose making was cut off may take to show up


POLL_TIMING = PollTiming()


async def run_batched_judgements(
    plan: PlanSource,  # gives the judgements, the same ones every time that it is called
    *,
    batches: Mapping[str, BatchClient],  # by the judge's name
    ledger: Ledger,  # where replies are kept before anything is made of them
    prices: Pricing,  # what calls cost
    budget: Budget,  # what may be spent; what it does not hold at once waits for the next batch
    keep: Keep,  # called with records, some hundred at a time
    pace: PollTiming = POLL_TIMING,  # how long is waited
    progress: Progress | None = None,  # called after every judgement, when the batches are over
    # when set, nothing more is sent or awaited; the next run fetches what is under way
    stop: asyncio.Event | None = None,
) -> JudgingStatistics:
    """Buy by batches what is not bought, and keep what it says; return what was done.

    Raises:
        ConfigError: a budget holds and the price of a judge is not known.
        ModelError: a provider refuses to say anything of a batch; calling again goes on.
        EnvironmentFault: the disk is full; calling again goes on.
    """
    stopped = asyncio.Event() if stop is None else stop
    start = time.monotonic()
    with LedgerSession(ledger, budget) as desk:
        batching = _BatchRun(
            batches=batches, ledger=ledger, desk=desk, prices=prices, pace=pace, stopped=stopped
        )
        beating = asyncio.create_task(_send_heartbeats(desk))
        try:
            await batching.all(plan)
        finally:
            beating.cancel()
        unknown = tuple(ledger.unknown(desk.buyer.token))
    models = {name: _UnansweredModel(name, batching.reasons) for name in batches}
    ran = await run_judgements(
        plan(),
        models=models,
        patience=_NoRetry(),
        ledger=ledger,
        prices=prices,
        budget=budget,
        keep=keep,
        progress=progress,
        stop=stopped,
    )
    tally = batching.tally
    seconds = time.monotonic() - start
    return msgspec.structs.replace(
        ran,
        bought=tally.bought,
        from_ledger=max(0, ran.from_ledger - tally.bought),
        unknown=ran.unknown + unknown,
        usd=tally.usd,
        unpriced=tally.unpriced,
        input_tokens=tally.tokens["input"],
        output_tokens=tally.tokens["output"],
        cached_tokens=tally.tokens["cached"],
        saved_usd=tally.saved_usd,
        ignored_schema={judge: n for judge, n in sorted(tally.ignored.items()) if n},
        seconds=seconds,
    )


async def _send_heartbeats(desk: LedgerSession) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_SECONDS)
        await desk.beat()


@dataclass
class _PendingBatch:
    """Asks of one judge that wait for the next batch."""

    structure: Structure
    asks: list[Ask] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    candidates: list[BatchCandidate] = field(default_factory=list)
    bytes: int = 0


class _BatchRun:
    """Rounds of batches: what is not bought is sent, what was sent is awaited."""

    def __init__(
        self,
        *,
        batches: Mapping[str, BatchClient],
        ledger: Ledger,
        desk: LedgerSession,
        prices: Pricing,
        pace: PollTiming,
        stopped: asyncio.Event,
    ) -> None:
        self.tally = JudgingCounts()
        # Why an ask has no answer, by the hash of its request.
        self.reasons: dict[str, str] = {}
        self._batches = batches
        self._ledger = ledger
        self._buyer = desk.buyer
        self._prices = prices
        self._pace = pace
        self._stopped = stopped
        self._requests: dict[str, str] = {}
        self._attempts: Counter[str] = Counter()
        self._tending = BatchPoller(
            ledger,
            desk.buyer,
            prices=prices,
            tally=self.tally,
            unanswered=self._unanswered,
            settle_seconds=pace.settle_seconds,
        )

    async def all(self, plan: PlanSource) -> None:
        """Go on until nothing is left that a batch could buy, or the run is stopped."""
        while not self._stopped.is_set():
            await self._tend()
            stood = await self._send(plan())
            others = stood["elsewhere"] + stood["batched"]
            if self._stopped.is_set() or not stood["mine"] + others:
                return
            if not stood["mine"]:
                await self._sleep(self._pace.poll_seconds)

    async def _tend(self) -> None:
        """Look after every batch that is nobody else's until all are over."""
        seconds = min(1.0, self._pace.poll_seconds)
        while not self._stopped.is_set():
            ours = await self._kept()
            over = [await self._tending.look(one, self._batches[one.judge]) for one in ours]
            if all(over):
                return
            await self._sleep(seconds)
            seconds = min(2 * seconds, self._pace.poll_seconds)

    async def _send(self, judgements: Iterable[Judgement]) -> Counter[Standing]:
        """Send every ask that is not bought; return how many stood how."""
        stood: Counter[Standing] = Counter()
        piles: dict[str, _PendingBatch] = {}
        seen: set[str] = set()
        for judgement in judgements:
            for ask in await self._missing(judgement):
                if ask.key in seen or self._attempts[ask.key] >= BATCH_ATTEMPTS:
                    continue
                seen.add(ask.key)
                batch = self._batches[ask.judge]
                pile = piles.setdefault(ask.judge, _PendingBatch(batch.structure))
                line = batch.line(ask, pile.structure)
                if pile.asks and (
                    len(pile.asks) == batch.most or pile.bytes + len(line) > MOST_BATCH_BYTES
                ):
                    stood += await self._submit(batch, piles.pop(ask.judge))
                    pile = piles[ask.judge] = _PendingBatch(batch.structure)
                self._put(pile, ask, line, judgement.trajectory)
            if self._stopped.is_set():
                return stood
        for judge, pile in piles.items():
            stood += await self._submit(self._batches[judge], pile)
        return stood

    def _put(self, pile: _PendingBatch, ask: Ask, line: bytes, trajectory: str) -> None:
        worst = self._prices.worst(ask.judge, ask.request, batch=True)
        wanted = LedgerAsk(
            ask.key, trajectory, ask.judge, None if worst is None else to_nano_usd(worst)
        )
        hashed = request_hash(ask.judge, ask.request)
        self._requests[ask.key] = hashed
        pile.asks.append(ask)
        pile.lines.append(line)
        pile.candidates.append(BatchCandidate(wanted, hashed))
        pile.bytes += len(line)

    async def _missing(self, judgement: Judgement) -> Sequence[Ask]:
        """Return the next asks of a judgement that are not bought, none when all are."""
        asks: Sequence[Ask] = judgement.asks
        outcomes: list[AskOutcome] = []
        while asks:
            keys = [ask.key for ask in asks]
            found = await self._tending.do(partial(rows.stored_bodies, keys=keys))
            missing = [ask for ask in asks if ask.key not in found]
            if missing:
                return missing
            for ask in asks:
                reply = unpack_reply(found[ask.key])
                outcomes.append(AskOutcome(ask, reply))
                if ask.key in self._tending.fresh:
                    self._tending.fresh.remove(ask.key)
                    self.tally.ignored[ask.judge] += ignores_schema(ask.request, reply)
            more = judgement.belief.more(outcomes)
            asks = () if more is None else (more,)
        return ()

    async def _submit(self, batch: BatchClient, pile: _PendingBatch) -> Counter[Standing]:
        """Write a batch down, then send it; return how its asks stood."""
        token = secrets.token_hex(16)
        standings = await self._tending.do(
            partial(
                rows.claim_batch,
                intention=PlannedBatch(token, batch.name, pile.structure),
                candidates=pile.candidates,
                buyer=self._buyer,
                lives=self._ledger.watch.lives,
            )
        )
        if "unpriced" in standings:
            raise ConfigError(self._prices.advice(batch.name))
        mine = [at for at, standing in enumerate(standings) if standing == "mine"]
        if mine:
            keys = frozenset(pile.asks[at].key for at in mine)
            intended = IntendedBatch(token, keys, pile.structure, time.time())
            await self._make(batch, intended, [pile.lines[at] for at in mine])
        return Counter(standings)

    async def _make(
        self, batch: BatchClient, intended: IntendedBatch, lines: Sequence[bytes]
    ) -> None:
        try:
            remote = await batch.submit(intended, lines)
        except ModelError as e:
            if may_be_paid(e):
                return  # it is looked for
            one = next(one for one in await self._kept() if one.token == intended.token)
            await self._tending.never_asked(one, str(e), again=e.again)
            if e.again:
                return
            raise
        await self._tending.do(partial(rows.note_submitted, token=intended.token, remote=remote))

    async def _kept(self) -> list[OpenBatch]:
        lives = self._ledger.watch.lives
        return await self._tending.do(
            partial(rows.adopt_batches, judges=list(self._batches), buyer=self._buyer, lives=lives)
        )

    def _unanswered(self, key: str, reason: str, again: bool) -> None:
        """Note that an ask came back without an answer."""
        self._attempts[key] += 1 if again else BATCH_ATTEMPTS
        if key in self._requests:
            self.reasons[self._requests[key]] = reason

    async def _sleep(self, seconds: float) -> None:
        """Wait, or be stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


class _UnansweredModel:
    """Stands for a model when its batches are over: says why there is no answer."""

    def __init__(self, name: str, reasons: Mapping[str, str]) -> None:
        self.name = name
        self._reasons = reasons

    async def complete(self, request: Request) -> Reply:
        """Give no answer.

        Raises:
            ModelError: always.
        """
        reason = self._reasons.get(request_hash(self.name, request), "no batch has asked it")
        raise ModelError(reason, again=False, reached=False)


class _NoRetry:
    """No patience: what a batch does not answer is not asked again now."""

    async def complete(self, model: Model, request: Request, *, before: BeforeCall) -> Reply:
        """Ask once."""
        before(0, None)
        return await model.complete(request)
