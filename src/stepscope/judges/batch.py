"""Run judgements by provider batches: send what is not paid, poll, fetch results, end.

A batch is written to the ledger before it is sent, so that a crash at any moment loses nothing: the
next run finds what was made, and fetches it. What is fetched is committed before anything is made
of it, some hundred replies at a time. What came back without an answer is sent again in the next
batch, once; items that were not asked cost nothing; an ask of which an ended batch says nothing may
have been paid, and is listed. Records are made by `run_judgements`, which finds everything paid.
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
from typing import TypeVar

import msgspec

from stepscope.errors import ConfigError, ModelError
from stepscope.judges.judgement import Judgement
from stepscope.judges.run import JudgingCounts, JudgingStatistics, Keep, Progress, run_judgements
from stepscope.ledger import states
from stepscope.ledger.budget import to_nano_usd
from stepscope.ledger.calls import CallClients, may_be_paid
from stepscope.ledger.ledger import LedgerSession, LedgerWork
from stepscope.ledger.states import LedgerAsk, Paid, Standing, Worker, pack_reply, unpack_reply
from stepscope.model import Reply, Request, Structure
from stepscope.models.batches import (
    MOST_BATCH_BYTES,
    Batch,
    BatchClient,
    BatchItem,
    BatchRefusedError,
)
from stepscope.models.dialect import Ask, ignores_schema, request_hash
from stepscope.values import Unmeasured

T = TypeVar("T")
# How often an ask is sent: what was expired or cancelled is worth a second batch.
BATCH_ATTEMPTS = 2
# Replies that one commit takes.
_REPLIES_PER_COMMIT = 200

PlanSource = Callable[[], Iterable[Judgement]]


async def run_batched_judgements(
    plan: PlanSource,  # gives the judgements, the same ones every time that it is called
    clients: CallClients,  # what the budget does not hold at once waits for the next batch
    *,
    keep: Keep,  # called with records, some hundred at a time
    poll_seconds: float = 60.0,  # between two looks at a batch, at most; the first come sooner
    settle_seconds: float = 60.0,  # how long a batch whose making was cut off may take to show up
    progress: Progress | None = None,  # called after every judgement, when the batches are over
    # When set, nothing more is sent or awaited; the next run fetches what is under way.
    stop: asyncio.Event | None = None,
) -> JudgingStatistics:
    """Pay by batches for what is not paid, and keep the records; return what was done.

    `ConfigError` where a budget holds and the price of a judge is not known; `ModelError` where a
    provider refuses to say anything of a batch. Calling again goes on.
    """
    stopped = asyncio.Event() if stop is None else stop
    start = time.monotonic()
    with LedgerSession(clients.ledger, clients.budget) as session:
        batches = _BatchRun(
            clients, clients.batches or {}, session.buyer, stopped, poll_seconds, settle_seconds
        )
        heartbeats = asyncio.create_task(session.keep_beating())
        try:
            await batches.run(plan)
        finally:
            heartbeats.cancel()
        unknown = tuple(clients.ledger.unknown(session.buyer.token))
    unanswered = {name: _UnansweredModel(name, batches.reasons) for name in clients.batches or {}}
    ran = await run_judgements(
        plan(),
        clients._replace(models=unanswered),
        keep=keep,
        progress=progress,
        stop=stopped,
    )
    tally = batches.tally
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
        seconds=time.monotonic() - start,
    )


@dataclass
class _PendingBatch:
    """Asks of one model that wait for the next batch."""

    structure: Structure
    asks: list[LedgerAsk] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    bytes: int = 0


@dataclass
class _BatchRun:
    """Rounds of batches: what is not paid is sent, what was sent is polled until it is over."""

    clients: CallClients
    batches: Mapping[str, BatchClient]
    buyer: Worker
    stopped: asyncio.Event
    poll_seconds: float
    settle_seconds: float
    tally: JudgingCounts = field(default_factory=JudgingCounts)
    # Why an ask has no answer, by the hash of its request.
    reasons: dict[str, str] = field(default_factory=dict)
    requests: dict[str, str] = field(default_factory=dict)
    attempts: Counter[str] = field(default_factory=Counter)
    # Keys whose replies this run has fetched, and nobody has read yet.
    fresh: set[str] = field(default_factory=set)
    # Since when a batch is looked for in vain, on the monotonic clock.
    absent: dict[str, float] = field(default_factory=dict)

    async def run(self, plan: PlanSource) -> None:
        """Go on until nothing is left that a batch could pay for, or the run is stopped."""
        while not self.stopped.is_set():
            await self._poll_all()
            standings = await self._send(plan())
            others = standings["elsewhere"] + standings["batched"]
            if self.stopped.is_set() or not standings["mine"] + others:
                return
            if not standings["mine"]:
                await self._sleep(self.poll_seconds)

    async def _commit(self, work: LedgerWork[T]) -> T:
        """Return what a piece of work gives, when it is on disk."""
        return (await asyncio.wrap_future(self.clients.ledger.batch([work])))[0]

    async def _sleep(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopped.wait(), seconds)

    # Sending.

    async def _send(self, judgements: Iterable[Judgement]) -> Counter[Standing]:
        """Send every ask that is not paid; return how many stood how."""
        standings: Counter[Standing] = Counter()
        pending: dict[str, _PendingBatch] = {}
        seen: set[str] = set()
        for judgement in judgements:
            for ask in await self._missing(judgement):
                if ask.key in seen or self.attempts[ask.key] >= BATCH_ATTEMPTS:
                    continue
                seen.add(ask.key)
                client = self.batches[ask.model]
                batch = pending.setdefault(ask.model, _PendingBatch(client.structure))
                line = client.line(ask, batch.structure)
                if batch.asks and (
                    len(batch.asks) == client.most or batch.bytes + len(line) > MOST_BATCH_BYTES
                ):
                    standings += await self._submit(client, pending.pop(ask.model))
                    batch = pending[ask.model] = _PendingBatch(client.structure)
                worst = self.clients.prices.worst(ask.model, ask.request, batch=True)
                known = None if worst is None else to_nano_usd(worst)
                hashed = self.requests[ask.key] = request_hash(ask.model, ask.request)
                batch.asks.append(
                    LedgerAsk(ask.key, judgement.trajectory, ask.model, known, hashed)
                )
                batch.lines.append(line)
                batch.bytes += len(line)
            if self.stopped.is_set():
                return standings
        for model, batch in pending.items():
            standings += await self._submit(self.batches[model], batch)
        return standings

    async def _missing(self, judgement: Judgement) -> Sequence[Ask]:
        asks: Sequence[Ask] = judgement.asks
        replies: dict[str, Reply | Unmeasured] = {}
        while asks:
            keys = [ask.key for ask in asks]
            found = await self._commit(partial(states.stored_bodies, keys=keys))
            missing = [ask for ask in asks if ask.key not in found]
            if missing:
                return missing
            for ask in asks:
                reply = replies[ask.key] = unpack_reply(found[ask.key])
                if ask.key in self.fresh:
                    self.fresh.remove(ask.key)
                    self.tally.ignored[ask.model] += ignores_schema(ask.request, reply)
            more = judgement.belief.more(replies)
            asks = () if more is None else (more,)
        return ()

    async def _submit(self, client: BatchClient, batch: _PendingBatch) -> Counter[Standing]:
        token = secrets.token_hex(16)
        standings = await self._commit(
            partial(
                states.claim_batch,
                token=token,
                structure=batch.structure,
                asks=batch.asks,
                buyer=self.buyer,
                lives=self.clients.ledger.watch.lives,
            )
        )
        if "unpriced" in standings:
            raise ConfigError(self.clients.prices.advice(client.name))
        mine = [at for at, standing in enumerate(standings) if standing == "mine"]
        if mine:
            await self._make(client, token, [batch.lines[at] for at in mine])
        return Counter(standings)

    async def _make(self, client: BatchClient, token: str, lines: Sequence[bytes]) -> None:
        batch = next(one for one in await self._adopt() if one.token == token)
        try:
            remote = await client.submit(batch, lines)
        except ModelError as e:
            if may_be_paid(e):
                return  # it is looked for
            await self._end(batch, dict.fromkeys(batch.keys, (str(e), e.again)))
            if e.again:
                return
            raise
        await self._commit(partial(states.note_submitted, token=token, remote=remote))

    # Polling.

    async def _poll_all(self) -> None:
        """Poll every batch that is no other worker's until all are over."""
        seconds = min(1.0, self.poll_seconds)
        while not self.stopped.is_set():
            over = [await self._poll(batch) for batch in await self._adopt()]
            if all(over):
                return
            await self._sleep(seconds)
            seconds = min(2 * seconds, self.poll_seconds)

    async def _adopt(self) -> list[Batch]:
        return await self._commit(
            partial(
                states.adopt_batches,
                purposes=list(self.batches),
                buyer=self.buyer,
                lives=self.clients.ledger.watch.lives,
            )
        )

    async def _poll(self, batch: Batch) -> bool:
        """Return whether a batch is over; its results are fetched and in the ledger then."""
        client = self.batches[batch.purpose]
        try:
            if not batch.remote:
                return await self._find(batch, client)
            if not await client.is_over(batch.remote):
                return False
            await self._fetch(batch, client)
        except BatchRefusedError as e:
            await self._end(batch, dict.fromkeys(batch.keys, (str(e), True)))
        except ModelError as e:
            if batch.remote and e.status == 404:
                await self._end(batch, {})
                return True
            if not e.again:
                raise
            return False
        return True

    async def _find(self, batch: Batch, client: BatchClient) -> bool:
        """Find out whether a batch was made whose making was cut off; True when it was not."""
        remote = await client.find(batch, await self._commit(states.remote_names))
        if remote:
            await self._commit(partial(states.note_submitted, token=batch.token, remote=remote))
            return False
        since = self.absent.setdefault(batch.token, time.monotonic())
        if remote is None or time.monotonic() - since < self.settle_seconds:
            return False
        unpaid = dict.fromkeys(batch.keys, "")
        await self._commit(partial(states.end_batch, batch=batch, unpaid=unpaid, buyer=self.buyer))
        return True

    async def _fetch(self, batch: Batch, client: BatchClient) -> None:
        unpaid: dict[str, tuple[str, bool]] = {}
        held: list[BatchItem] = []
        async with aclosing(client.results(batch.remote, batch.structure)) as results:
            async for item in results:
                if item.key not in batch.keys:
                    continue
                if item.reply is None:
                    unpaid.setdefault(item.key, (item.reason, item.again))
                    continue
                held.append(item)
                if len(held) == _REPLIES_PER_COMMIT:
                    await self._receive(batch, held)
                    held = []
        await self._receive(batch, held)
        await self._end(batch, unpaid)

    async def _receive(self, batch: Batch, items: Sequence[BatchItem]) -> None:
        """Commit replies, and count those that were not here before."""
        model = batch.purpose
        made: list[tuple[str, bytes, int | None]] = []
        paid: list[Paid] = []
        for item in items:
            assert item.reply is not None
            reply = states.bound_usage(item.reply)
            usd = self.clients.prices.cost(model, reply.usage, model=reply.model, batch=True)
            cost = None if usd is None else to_nano_usd(usd)
            made.append((item.key, pack_reply(reply), cost))
            paid.append(Paid(reply, cost, fresh=True))
        before = await self._commit(
            lambda db: [states.store_reply(db, *reply, batch.owner) for reply in made]
        )
        for item, other, one in zip(items, before, paid, strict=True):
            if other is None:
                self.fresh.add(item.key)
                usage, snapshot = one.reply.usage, one.reply.model
                saved = self.clients.prices.saved(model, usage, model=snapshot, batch=True)
                self.tally.replied(model, one, saved)

    async def _end(self, batch: Batch, unpaid: dict[str, tuple[str, bool]]) -> None:
        """End a batch; `unpaid` are the asks without an answer: why, and whether to ask again."""
        reasons = {key: reason for key, (reason, _) in unpaid.items()}
        missing = await self._commit(
            partial(states.end_batch, batch=batch, unpaid=reasons, buyer=self.buyer)
        )
        unpaid |= dict.fromkeys(missing, (states.NO_BATCH_RESULT, True))
        for key, (reason, again) in unpaid.items():
            self.attempts[key] += 1 if again else BATCH_ATTEMPTS
            if key in self.requests:
                self.reasons[self.requests[key]] = reason


class _UnansweredModel:
    """Stands for a model when its batches are over: says why there is no answer."""

    def __init__(self, name: str, reasons: Mapping[str, str]) -> None:
        self.name = name
        self._reasons = reasons

    async def complete(self, request: Request) -> Reply:
        """Give no answer: raise `ModelError` always."""
        reason = self._reasons.get(request_hash(self.name, request), "no batch has asked it")
        raise ModelError(reason, again=False, reached=False)
