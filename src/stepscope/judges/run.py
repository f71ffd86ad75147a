"""Run judgements: replies are paid once each, verdict records come out, usage is counted.

Nothing is held but what is under way. A judgement whose replies are all here becomes records; one
without a reply (no answer, no money, stopped) becomes none, and a later run asks it again: nothing
in the store says that it was measured. A stop sends nothing new and waits for what was sent.

By provider batches, what is not paid is sent, polled, fetched and ended. A batch is written to the
ledger before it is sent, so that a crash at any moment loses nothing: the next run finds what was
made, and fetches it. What is fetched is committed before anything is made of it, some hundred
replies at a time. What came back without an answer is sent again in the next batch, once; items
that were not asked cost nothing; an ask of which an ended batch says nothing may have been paid,
and is listed. Records are made by `run_judgements`, which finds everything paid.
"""

from __future__ import annotations

import asyncio
import re
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
from stepscope.ledger import states
from stepscope.ledger.budget import to_nano_usd, to_usd
from stepscope.ledger.calls import CallClients, Failed, LedgerCalls, may_be_paid
from stepscope.ledger.ledger import LedgerSession, LedgerWork, UnknownCall
from stepscope.ledger.states import LedgerAsk, Paid, Standing, Worker, pack_reply, unpack_reply
from stepscope.model import Answer, Record, Reply, Request, Structure, Usage
from stepscope.models.batches import (
    MOST_BATCH_BYTES,
    Batch,
    BatchClient,
    BatchItem,
    BatchRefusedError,
)
from stepscope.models.dialect import Ask, ignores_schema, request_hash
from stepscope.values import Number, Unmeasured

# A provider's name for a snapshot is a few words; what is longer is none.
_SNAPSHOT_CHARACTERS = 100


def judgement_records(
    judgement: Judgement, answers: Iterable[Answer], bought: Sequence[Paid]
) -> list[Record]:
    """Return the records of a judgement; the first carries tokens, price and seconds of all."""
    judge = judge_name(judgement.judge.name, bought)
    cost = sum_all(one.cost for one in bought)
    made: list[Record] = []
    for answer in answers:
        measure = answer.measure or judgement.measure
        first = not made and bought
        made.append(
            Record(
                trajectory=judgement.trajectory,
                answer=msgspec.structs.replace(answer, measure=measure),
                version=judgement.version,
                family=judgement.judge.family,
                judge=judge,
                rubric=judgement.rubric,
                prompt=judgement.prompt,
                repeat=judgement.repeat,
                usage=sum_usages(one.reply.usage for one in bought) if first else None,
                cost_usd=None if not first or cost is None else to_usd(cost),
                seconds=sum(one.reply.seconds for one in bought) if first else None,
            )
        )
    return made


def judge_name(name: str, bought: Sequence[Paid]) -> str:
    """Return the judge's name, with the snapshot behind it where the replies name another model.

    The provider's name for it is somebody else's text: kept to what names are made of.
    """
    asked = name.partition("/")[2]
    for one in bought:
        said = "".join(c for c in one.reply.model if c.isascii() and c.isprintable() and c != " ")
        if said and said != asked:
            return f"{name}@{said[:_SNAPSHOT_CHARACTERS]}"
    return name


def sum_usages(usages: Iterable[Usage | None]) -> Usage | None:
    """Return the tokens of several calls together; None where one of them does not say."""
    every = list(usages)
    known = [one for one in every if one is not None]
    if not known or len(known) < len(every):
        return None
    counts = {name: sum_all(getattr(one, name) for one in known) for name in states.TOKEN_COUNTS}
    estimated = any(one.source == "estimated" for one in known)
    return Usage(**counts, source="estimated" if estimated else "reported")


def sum_all(numbers: Iterable[Number | None]) -> Number | None:
    """Return the sum of numbers, None where one of them is not known."""
    every = list(numbers)
    known = [number for number in every if number is not None]
    return sum(known) if len(known) == len(every) else None


# Reasons told in full; the others are counted.
_LISTED_REASONS = 5
_REASON_WORD = re.compile("([a-z_]+):")


class JudgingStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """What one call of `run` did."""

    judgements: int  # judgements whose records were kept
    records: int  # their records
    bought: int  # replies that were paid for now
    from_ledger: int  # replies that were here already, or that another run bought meanwhile
    # judgements without records, by why: "budget", "no_answer", "stopped", "batched" (a batch under
    # way holds it). A later run asks them again.
    failed: dict[str, int]
    reasons: tuple[str, ...]  # of those without an answer, the first few reasons
    # answers kept that measured nothing, by the first word of their reason
    unmeasured: dict[str, int]
    # calls found now of which nobody knows what became; each counts as paid
    unknown: tuple[UnknownCall, ...]
    usd: float  # what was paid now, as far as prices are known
    unpriced: int  # replies bought now whose price is not known
    spent_usd: float  # of the budget, by everybody who shares it, calls of unknown outcome included
    reserved_usd: float  # what calls of others under way may still cost
    input_tokens: int  # read by the judges, what was cached included
    output_tokens: int  # written by them
    cached_tokens: int  # of those read, from the provider's cache
    # what that saved, as far as prices are known; below 0 where filling the cache cost more than it
    # brought
    saved_usd: float
    # judge -> replies of an endpoint that let the model ignore the schema that it accepted; another
    # `structure` in the settings is the cure
    ignored_schema: dict[str, int]
    seconds: float  # from start to end, on a clock that never goes back
    stopped: bool  # whether the run was stopped before its end

    @property
    def unknown_usd(self) -> float:
        """The worst that calls of unknown outcome have cost."""
        return sum(one.usd for one in self.unknown)


def reason_word(absent: Unmeasured) -> str:
    """Return the word that a reason begins with, where it has one, else its kind."""
    found = _REASON_WORD.match(absent.reason)
    return absent.kind if found is None else found[1]


class JudgingCounts:
    """The counts of a run while it goes on."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.judgements = 0
        self.records = 0
        self.bought = 0
        self.from_ledger = 0
        self.unpriced = 0
        self.nano = 0
        self.saved_usd = 0.0
        self.ignored: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.unmeasured: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.reasons: dict[str, None] = {}

    def replied(self, judge: str, bought: Paid, saved: float | None) -> None:
        """Count a reply, and what the provider's cache saved of its price."""
        if not bought.fresh:
            self.from_ledger += 1
            return
        self.bought += 1
        self.saved_usd += saved or 0.0
        if bought.ignored:
            self.ignored[judge] += 1
        if bought.cost is None:
            self.unpriced += 1
        else:
            self.nano += bought.cost
        usage = bought.reply.usage or Usage()
        self.tokens["input"] += usage.input_total or 0
        self.tokens["output"] += usage.output_total or 0
        self.tokens["cached"] += usage.cache_read or 0

    def lost(self, lost: Failed) -> None:
        """Count a judgement that has no records."""
        self.failed[lost.word] += 1
        if lost.word in {"no_answer", "batched"} and len(self.reasons) < _LISTED_REASONS:
            self.reasons[lost.reason] = None

    def answered(self, answers: Iterable[Answer]) -> None:
        """Count the answers of a judgement."""
        self.judgements += 1
        for answer in answers:
            if isinstance(answer, Unmeasured):
                self.unmeasured[reason_word(answer)] += 1

    @property
    def done(self) -> int:
        """Judgements that came to an end, whatever end."""
        return self.judgements + sum(self.failed.values())

    @property
    def usd(self) -> float:
        """What was paid now."""
        return to_usd(self.nano)


# Records that one commit of the store takes, and the longest that one waits for it.
_BATCH_RECORDS = 500
_BATCH_SECONDS = 1.0


Keep = Callable[[Sequence[Record]], object]
# Judgements that came to an end, and what was paid so far in USD.
Progress = Callable[[int, float], None]


async def run_judgements(
    judgements: Iterable[Judgement],  # taken one by one, as calls come to an end
    clients: CallClients,
    *,
    keep: Keep,  # called with records, some hundred at a time; the same ones may come again
    progress: Progress | None = None,  # called after every judgement
    stop: asyncio.Event | None = None,  # when set, nothing more is sent
) -> JudgingStatistics:
    """Pay for what is not paid, and keep the records; return what was done.

    `ConfigError` where a budget holds and the price of a judge is not known, or a model is missing;
    `EnvironmentFault` where the disk is full: calling again goes on.
    """
    stopped = asyncio.Event() if stop is None else stop
    with LedgerSession(clients.ledger, clients.budget) as session:
        loop = _JudgementLoop(LedgerCalls(clients, session, stopped), keep, progress)
        start = time.monotonic()
        cut = await loop.run(judgements)
        seconds = time.monotonic() - start
    tally = loop.tally
    spent_usd, reserved_usd = clients.ledger.money(session.buyer.budget)
    return JudgingStatistics(
        judgements=tally.judgements,
        records=tally.records,
        bought=tally.bought,
        from_ledger=tally.from_ledger,
        failed=dict(sorted(tally.failed.items())),
        reasons=tuple(tally.reasons),
        unmeasured=dict(sorted(tally.unmeasured.items())),
        unknown=tuple(clients.ledger.unknown(session.buyer.token)),
        usd=tally.usd,
        unpriced=tally.unpriced,
        spent_usd=spent_usd,
        reserved_usd=reserved_usd,
        input_tokens=tally.tokens["input"],
        output_tokens=tally.tokens["output"],
        cached_tokens=tally.tokens["cached"],
        saved_usd=tally.saved_usd,
        ignored_schema=dict(sorted(tally.ignored.items())),
        seconds=seconds,
        stopped=cut or stopped.is_set(),
    )


class _JudgementLoop:
    """Judgements under way, and records on their way to the store."""

    def __init__(self, calls: LedgerCalls, keep: Keep, progress: Progress | None) -> None:
        self.tally = JudgingCounts()
        self._calls = calls
        self._keep = keep
        self._progress = progress
        self._records: list[Record] = []
        self._keys: list[str] = []
        self._kept = time.monotonic()

    async def run(self, judgements: Iterable[Judgement]) -> bool:
        """Judge; return whether calls in flight were cut off after a stop."""
        cut = False
        limit = asyncio.timeout(None)
        background = [
            asyncio.create_task(self._calls.session.keep_beating()),
            asyncio.create_task(self._stopping(limit)),
        ]
        try:
            async with limit:
                await self._all(judgements)
        except TimeoutError:
            if not limit.expired():
                raise
            cut = True
        finally:
            for task in background:
                task.cancel()
            # A beat that met a full disk was not the only one to meet it.
            await asyncio.gather(*background, return_exceptions=True)
        await self._flush()
        return cut

    async def _all(self, judgements: Iterable[Judgement]) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                for judgement in judgements:
                    await self._calls.window.acquire()
                    if self._calls.stopped.is_set():
                        break
                    group.create_task(self._one(judgement))
        except BaseExceptionGroup as e:
            # Calls fail together when the disk does: the first one says why.
            first: BaseException = e
            while isinstance(first, BaseExceptionGroup):
                first = first.exceptions[0]
            raise first from e

    async def _one(self, judgement: Judgement) -> None:
        try:
            await self._judge(judgement)
        finally:
            self._calls.window.release()
        if self._progress is not None:
            self._progress(self.tally.done, self.tally.usd)

    async def _judge(self, judgement: Judgement) -> None:
        asks: Sequence[Ask] = judgement.asks
        replies: dict[str, Reply | Unmeasured] = {}
        bought: list[Paid] = []
        while asks:
            found = await self._replies(asks, judgement.trajectory)
            for ask, reply in zip(asks, found, strict=True):
                if isinstance(reply, Failed):
                    self.tally.lost(reply)
                    return
                bought.append(reply)
                replies[ask.key] = reply.reply
            more = judgement.belief.more(replies)
            asks = () if more is None else (more,)
        answers = judgement.belief.answers(replies)
        self.tally.answered(answers)
        self._records += judgement_records(judgement, answers, bought)
        self._keys += replies
        late = time.monotonic() - self._kept >= _BATCH_SECONDS
        if late or len(self._records) >= _BATCH_RECORDS:
            await self._flush()

    async def _replies(self, asks: Sequence[Ask], trajectory: str) -> list[Paid | Failed]:
        if len(asks) == 1:
            found = [await self._calls.call(asks[0], trajectory)]
        else:
            async with asyncio.TaskGroup() as group:
                replies = [group.create_task(self._calls.call(ask, trajectory)) for ask in asks]
            found = [task.result() for task in replies]
        for ask, reply in zip(asks, found, strict=True):
            if isinstance(reply, Paid):
                told, prices = reply.reply, self._calls.clients.prices
                saved = prices.saved(ask.model, told.usage, model=told.model)
                self.tally.replied(ask.model, reply, saved)
        return found

    async def _flush(self) -> None:
        """Keep records, then say in the ledger that they are kept."""
        made, keys = self._records, self._keys
        self._records, self._keys, self._kept = [], [], time.monotonic()
        if made:
            self._keep(made)
            self.tally.records += len(made)
        if keys:
            await self._calls.session.done(keys)

    async def _stopping(self, limit: asyncio.Timeout) -> None:
        await self._calls.stopped.wait()
        limit.reschedule(asyncio.get_running_loop().time() + self._calls.clients.grace_seconds)


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
    provider says nothing, `EnvironmentFault` where a disk is full: calling again goes on.
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
        plan(), clients._replace(models=unanswered), keep=keep, progress=progress, stop=stopped
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
                hash_ = self.requests[ask.key] = request_hash(ask.model, ask.request)
                batch.asks.append(LedgerAsk(ask.key, judgement.trajectory, ask.model, known, hash_))
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
        claim = partial(states.claim_batch, buyer=self.buyer, lives=self.clients.ledger.watch.lives)
        standings = await self._commit(
            partial(claim, token=token, structure=batch.structure, asks=batch.asks)
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
        purposes, lives = list(self.batches), self.clients.ledger.watch.lives
        return await self._commit(
            partial(states.adopt_batches, purposes=purposes, buyer=self.buyer, lives=lives)
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
