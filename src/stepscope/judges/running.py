"""The one loop of judges: judgements in, replies bought once each, records out.

Nothing is held but what is under way. A judgement whose replies are all here becomes records; one
without a reply (no answer, no money, stopped) becomes none, and a later run asks it again: nothing
in the store says that it was measured. A stop lets go nothing new and waits for what was sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from stepscope.errors import ConfigError
from stepscope.judges.budget import Budget, nano
from stepscope.judges.judgement import Ask, Judgement, Outcome
from stepscope.judges.ledger import Ledger, unpacked
from stepscope.judges.ledger_desk import Desk
from stepscope.judges.ledger_owners import BEAT_SECONDS
from stepscope.judges.ledger_rows import Wanted
from stepscope.judges.running_buying import (
    Bought,
    Halted,
    Lost,
    Patient,
    Pricing,
    Purchase,
    buy,
)
from stepscope.judges.running_records import records
from stepscope.judges.running_tally import Ran, Tally
from stepscope.model import Model, Record

CONCURRENCY = 32
GRACE_SECONDS = 30.0
# Judgements under way for each call in flight: some wait for others, or for a prefix to be cached.
_AHEAD = 4
# A quarter second: somebody else's call takes longer, and looking is cheap.
_LOOK_AGAIN_SECONDS = 0.25
# Records that one commit of the store takes, and the longest that one waits for it.
_BATCH_RECORDS = 500
_BATCH_SECONDS = 1.0
# No provider caches a shorter beginning: some 1,024 tokens.
_CACHED_CHARACTERS = 4_096

Keep = Callable[[Sequence[Record]], None]
# Judgements that came to an end, and what was paid so far in USD.
Progress = Callable[[int, float], None]


async def run(
    judgements: Iterable[Judgement],
    *,
    models: Mapping[str, Model],
    patience: Patient,
    ledger: Ledger,
    prices: Pricing,
    budget: Budget,
    keep: Keep,
    concurrency: int = CONCURRENCY,
    grace_seconds: float = GRACE_SECONDS,
    progress: Progress | None = None,
    stop: asyncio.Event | None = None,
) -> Ran:
    """Buy what is not bought, and keep what it says; return what was done.

    Args:
        judgements: taken one by one, as calls come to an end.
        models: by the judge's name; what is bought already needs none.
        patience: the retry loop.
        ledger: where replies are kept before anything is made of them.
        prices: what calls cost.
        budget: what may be spent.
        keep: called with records, some hundred at a time; the same ones may come again.
        concurrency: the most calls in flight.
        grace_seconds: how long a stop waits for calls in flight.
        progress: called after every judgement.
        stop: when set, nothing more is sent.

    Raises:
        ConfigError: a budget holds and the price of a judge is not known, or a model is missing.
        EnvironmentFault: the disk is full; calling again goes on.
    """
    stopped = asyncio.Event() if stop is None else stop
    with Desk(ledger, budget) as desk:
        buying = _Buying(
            models=models,
            patience=patience,
            desk=desk,
            pricing=prices,
            concurrency=concurrency,
            stopped=stopped,
        )
        loop = _Loop(buying, keep, progress)
        start = time.monotonic()
        cut = await loop.run(judgements, grace_seconds)
        seconds = time.monotonic() - start
    return _ran(loop.tally, desk, ledger, seconds, stopped=cut or stopped.is_set())


def _ran(tally: Tally, desk: Desk, ledger: Ledger, seconds: float, *, stopped: bool) -> Ran:
    money = ledger.money(desk.buyer.budget)
    return Ran(
        judgements=tally.judgements,
        records=tally.records,
        bought=tally.bought,
        from_ledger=tally.from_ledger,
        failed=dict(sorted(tally.failed.items())),
        reasons=tuple(tally.reasons),
        unmeasured=dict(sorted(tally.unmeasured.items())),
        unknown=tuple(ledger.unknown(desk.buyer.token)),
        usd=tally.usd,
        unpriced=tally.unpriced,
        spent_usd=money.spent,
        reserved_usd=money.reserved,
        input_tokens=tally.tokens["input"],
        output_tokens=tally.tokens["output"],
        cached_tokens=tally.tokens["cached"],
        saved_usd=tally.saved_usd,
        ignored_schema=dict(sorted(tally.ignored.items())),
        seconds=seconds,
        stopped=stopped,
    )


class _Buying:
    """Gets the reply to an ask: from the ledger, from another run that buys it, or from a model."""

    def __init__(
        self,
        *,
        models: Mapping[str, Model],
        patience: Patient,
        desk: Desk,
        pricing: Pricing,
        concurrency: int,
        stopped: asyncio.Event,
    ) -> None:
        self.desk = desk
        self.stopped = stopped
        self.window = asyncio.Semaphore(concurrency * _AHEAD)
        self._models = models
        self._patience = patience
        self.pricing = pricing
        self._slots = asyncio.Semaphore(concurrency)
        self._most_warm = concurrency * _AHEAD * 2
        self._warm: OrderedDict[tuple[str, str, str], asyncio.Event] = OrderedDict()

    async def reply(self, ask: Ask, trajectory: str) -> Bought | Lost:
        """Return the reply to an ask about a run.

        The first ask with a long beginning goes alone, so that the others find it cached.
        """
        request = ask.request
        if len(request.system) + len(request.context) < _CACHED_CHARACTERS:
            return await self._reply(ask, trajectory)
        prefix = (ask.judge, request.system, request.context)
        warm = self._warm.get(prefix)
        if warm is not None:
            await warm.wait()
            return await self._reply(ask, trajectory)
        warm = self._warm[prefix] = asyncio.Event()
        while len(self._warm) > self._most_warm:
            self._warm.popitem(last=False)
        try:
            return await self._reply(ask, trajectory)
        finally:
            warm.set()

    async def _reply(self, ask: Ask, trajectory: str) -> Bought | Lost:
        worst = self.pricing.worst(ask.judge, ask.request)
        known = None if worst is None else nano(worst)
        wanted = Wanted(ask.key, trajectory, ask.judge, known)
        while not self.stopped.is_set():
            async with self._slots:
                found = await self._look(ask, wanted)
            if found is not None:
                return found
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return Lost("stopped", "the run was stopped")

    async def _look(self, ask: Ask, wanted: Wanted) -> Bought | Lost | None:
        """Return what came of an ask, None when it is worth looking again."""
        claim = await self.desk.claim(wanted)
        if claim.body is not None:
            return Bought(unpacked(claim.body), claim.cost, fresh=False)
        if claim.standing == "unpriced":
            raise ConfigError(self.pricing.advice(ask.judge))
        if claim.standing == "over":
            return Lost("budget", "the budget does not hold it")
        if claim.standing == "batched":
            return Lost("batched", "a batch under way holds it; ask by batches to fetch it")
        if claim.standing != "mine":
            return None
        model = self._models.get(ask.judge)
        if model is None:
            raise ConfigError(f"no model is open for the judge {ask.judge!r}, and nothing recorded")
        purchase = Purchase(ask, model, desk=self.desk, pricing=self.pricing, stopped=self.stopped)
        try:
            return await buy(ask, purchase, patience=self._patience, desk=self.desk)
        except Halted:
            return None


class _Loop:
    """Judgements under way, and records on their way to the store."""

    def __init__(self, buying: _Buying, keep: Keep, progress: Progress | None) -> None:
        self.tally = Tally()
        self._buying = buying
        self._keep = keep
        self._progress = progress
        self._records: list[Record] = []
        self._keys: list[str] = []
        self._kept = time.monotonic()

    async def run(self, judgements: Iterable[Judgement], grace_seconds: float) -> bool:
        """Judge; return whether calls in flight were cut off after a stop."""
        cut = False
        limit = asyncio.timeout(None)
        background = [
            asyncio.create_task(self._beating()),
            asyncio.create_task(self._stopping(limit, grace_seconds)),
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
                    await self._buying.window.acquire()
                    if self._buying.stopped.is_set():
                        break
                    group.create_task(self._one(judgement))
        except BaseExceptionGroup as e:
            # Calls fail together when the disk does: the first one says why.
            raise _first(e) from e

    async def _one(self, judgement: Judgement) -> None:
        try:
            await self._judge(judgement)
        finally:
            self._buying.window.release()
        if self._progress is not None:
            self._progress(self.tally.done, self.tally.usd)

    async def _judge(self, judgement: Judgement) -> None:
        asks: Sequence[Ask] = judgement.asks
        outcomes: list[Outcome] = []
        bought: list[Bought] = []
        while asks:
            found = await self._replies(asks, judgement.trajectory)
            for ask, reply in zip(asks, found, strict=True):
                if isinstance(reply, Lost):
                    self.tally.lost(reply)
                    return
                bought.append(reply)
                outcomes.append(Outcome(ask, reply.reply))
            more = judgement.belief.more(outcomes)
            asks = () if more is None else (more,)
        answers = judgement.belief.answers(outcomes)
        self.tally.answered(answers)
        self._records += records(judgement, answers, bought)
        self._keys += [outcome.ask.key for outcome in outcomes]
        late = time.monotonic() - self._kept >= _BATCH_SECONDS
        if late or len(self._records) >= _BATCH_RECORDS:
            await self._flush()

    async def _replies(self, asks: Sequence[Ask], trajectory: str) -> list[Bought | Lost]:
        if len(asks) == 1:
            found = [await self._buying.reply(asks[0], trajectory)]
        else:
            async with asyncio.TaskGroup() as group:
                replies = [group.create_task(self._buying.reply(ask, trajectory)) for ask in asks]
            found = [task.result() for task in replies]
        for ask, reply in zip(asks, found, strict=True):
            if isinstance(reply, Bought):
                self.tally.replied(ask.judge, reply, self._saved(ask.judge, reply))
        return found

    def _saved(self, judge: str, bought: Bought) -> float | None:
        if not bought.fresh:
            return None
        reply = bought.reply
        return self._buying.pricing.saved(judge, reply.usage, model=reply.model)

    async def _flush(self) -> None:
        """Keep records, then say in the ledger that they are kept."""
        made, keys = self._records, self._keys
        self._records, self._keys, self._kept = [], [], time.monotonic()
        if made:
            self._keep(made)
            self.tally.records += len(made)
        if keys:
            await self._buying.desk.done(keys)

    async def _beating(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._buying.desk.beat()

    async def _stopping(self, limit: asyncio.Timeout, grace_seconds: float) -> None:
        await self._buying.stopped.wait()
        limit.reschedule(asyncio.get_running_loop().time() + grace_seconds)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
