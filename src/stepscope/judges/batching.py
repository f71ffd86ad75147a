"""Judges by batches: everything that is not bought is sent at once, and fetched when it has ended.

A batch is written down before it is sent, so that a crash at any moment loses nothing: the next run
finds what was made, and fetches it. What a batch gives is kept in the ledger as every other reply;
records are made of it by the one loop of judges, which finds everything bought. What came back
without an answer is sent again in the next batch, once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import msgspec

from stepscope.errors import ConfigError, ModelError
from stepscope.judges import batching_rows as rows
from stepscope.judges.batching_rows import Candidate, Intention, Open
from stepscope.judges.batching_tending import Tending
from stepscope.judges.budget import Budget, nano
from stepscope.judges.judgement import Ask, Judgement, Outcome, request_hash
from stepscope.judges.ledger import Ledger, Unknown, unpacked
from stepscope.judges.ledger_desk import Desk
from stepscope.judges.ledger_owners import BEAT_SECONDS
from stepscope.judges.ledger_rows import Standing, Wanted
from stepscope.judges.models.batches import MOST_BYTES, Batch, Intended
from stepscope.judges.models.fitting import ignored
from stepscope.judges.running import Keep, Progress, run
from stepscope.judges.running_buying import Before, Pricing, perhaps_paid
from stepscope.judges.running_tally import Ran, Tally
from stepscope.model import Model, Reply, Request, Structure

# How often an ask is sent: what was expired or cancelled is worth a second batch.
ATTEMPTS = 2

Plan = Callable[[], Iterable[Judgement]]


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited.

    Attributes:
        poll_seconds: between two looks at a batch, at most; the first come sooner.
        settle_seconds: how long a batch whose making was cut off may take to show up.
    """

    poll_seconds: float = 60.0
    settle_seconds: float = 60.0


PACE = Pace()


async def run_batched(
    plan: Plan,
    *,
    batches: Mapping[str, Batch],
    ledger: Ledger,
    prices: Pricing,
    budget: Budget,
    keep: Keep,
    pace: Pace = PACE,
    progress: Progress | None = None,
    stop: asyncio.Event | None = None,
) -> Ran:
    """Buy by batches what is not bought, and keep what it says; return what was done.

    Args:
        plan: gives the judgements, the same ones every time that it is called.
        batches: by the judge's name.
        ledger: where replies are kept before anything is made of them.
        prices: what calls cost.
        budget: what may be spent; what it does not hold at once waits for the next batch.
        keep: called with records, some hundred at a time.
        pace: how long is waited.
        progress: called after every judgement, when the batches are over.
        stop: when set, nothing more is sent or awaited; the next run fetches what is under way.

    Raises:
        ConfigError: a budget holds and the price of a judge is not known.
        ModelError: a provider refuses to say anything of a batch; calling again goes on.
        EnvironmentFault: the disk is full; calling again goes on.
    """
    stopped = asyncio.Event() if stop is None else stop
    start = time.monotonic()
    with Desk(ledger, budget) as desk:
        batching = _Batching(
            batches=batches, ledger=ledger, desk=desk, prices=prices, pace=pace, stopped=stopped
        )
        beating = asyncio.create_task(_beating(desk))
        try:
            await batching.all(plan)
        finally:
            beating.cancel()
        unknown = tuple(ledger.unknown(desk.buyer.token))
    models = {name: _Unanswered(name, batching.reasons) for name in batches}
    ran = await run(
        plan(),
        models=models,
        patience=_Once(),
        ledger=ledger,
        prices=prices,
        budget=budget,
        keep=keep,
        progress=progress,
        stop=stopped,
    )
    return _together(ran, batching.tally, unknown, time.monotonic() - start)


def _together(ran: Ran, tally: Tally, unknown: tuple[Unknown, ...], seconds: float) -> Ran:
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


async def _beating(desk: Desk) -> None:
    while True:
        await asyncio.sleep(BEAT_SECONDS)
        await desk.beat()


@dataclass
class _Pile:
    """Asks of one judge that wait for the next batch."""

    structure: Structure
    asks: list[Ask] = field(default_factory=list)
    lines: list[bytes] = field(default_factory=list)
    candidates: list[Candidate] = field(default_factory=list)
    bytes: int = 0


class _Batching:
    """Rounds of batches: what is not bought is sent, what was sent is awaited."""

    def __init__(
        self,
        *,
        batches: Mapping[str, Batch],
        ledger: Ledger,
        desk: Desk,
        prices: Pricing,
        pace: Pace,
        stopped: asyncio.Event,
    ) -> None:
        self.tally = Tally()
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
        self._tending = Tending(
            ledger,
            desk.buyer,
            prices=prices,
            tally=self.tally,
            unanswered=self._unanswered,
            settle_seconds=pace.settle_seconds,
        )

    async def all(self, plan: Plan) -> None:
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
        piles: dict[str, _Pile] = {}
        seen: set[str] = set()
        for judgement in judgements:
            for ask in await self._missing(judgement):
                if ask.key in seen or self._attempts[ask.key] >= ATTEMPTS:
                    continue
                seen.add(ask.key)
                batch = self._batches[ask.judge]
                pile = piles.setdefault(ask.judge, _Pile(batch.structure))
                line = batch.line(ask, pile.structure)
                if pile.asks and (
                    len(pile.asks) == batch.most or pile.bytes + len(line) > MOST_BYTES
                ):
                    stood += await self._submit(batch, piles.pop(ask.judge))
                    pile = piles[ask.judge] = _Pile(batch.structure)
                self._put(pile, ask, line, judgement.trajectory)
            if self._stopped.is_set():
                return stood
        for judge, pile in piles.items():
            stood += await self._submit(self._batches[judge], pile)
        return stood

    def _put(self, pile: _Pile, ask: Ask, line: bytes, trajectory: str) -> None:
        worst = self._prices.worst(ask.judge, ask.request, batch=True)
        wanted = Wanted(ask.key, trajectory, ask.judge, None if worst is None else nano(worst))
        hashed = request_hash(ask.judge, ask.request)
        self._requests[ask.key] = hashed
        pile.asks.append(ask)
        pile.lines.append(line)
        pile.candidates.append(Candidate(wanted, hashed))
        pile.bytes += len(line)

    async def _missing(self, judgement: Judgement) -> Sequence[Ask]:
        """Return the next asks of a judgement that are not bought, none when all are."""
        asks: Sequence[Ask] = judgement.asks
        outcomes: list[Outcome] = []
        while asks:
            keys = [ask.key for ask in asks]
            found = await self._tending.do(partial(rows.bodies, keys=keys))
            missing = [ask for ask in asks if ask.key not in found]
            if missing:
                return missing
            for ask in asks:
                reply = unpacked(found[ask.key])
                outcomes.append(Outcome(ask, reply))
                if ask.key in self._tending.fresh:
                    self._tending.fresh.remove(ask.key)
                    self.tally.ignored[ask.judge] += ignored(ask.request, reply)
            more = judgement.belief.more(outcomes)
            asks = () if more is None else (more,)
        return ()

    async def _submit(self, batch: Batch, pile: _Pile) -> Counter[Standing]:
        """Write a batch down, then send it; return how its asks stood."""
        token = secrets.token_hex(16)
        standings = await self._tending.do(
            partial(
                rows.intend,
                intention=Intention(token, batch.name, pile.structure),
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
            intended = Intended(token, keys, pile.structure, time.time())
            await self._make(batch, intended, [pile.lines[at] for at in mine])
        return Counter(standings)

    async def _make(self, batch: Batch, intended: Intended, lines: Sequence[bytes]) -> None:
        try:
            remote = await batch.submit(intended, lines)
        except ModelError as e:
            if perhaps_paid(e):
                return  # it is looked for
            one = next(one for one in await self._kept() if one.token == intended.token)
            await self._tending.never_asked(one, str(e), again=e.again)
            if e.again:
                return
            raise
        await self._tending.do(partial(rows.submitted, token=intended.token, remote=remote))

    async def _kept(self) -> list[Open]:
        lives = self._ledger.watch.lives
        return await self._tending.do(
            partial(rows.kept, judges=list(self._batches), buyer=self._buyer, lives=lives)
        )

    def _unanswered(self, key: str, reason: str, again: bool) -> None:
        """Note that an ask came back without an answer."""
        self._attempts[key] += 1 if again else ATTEMPTS
        if key in self._requests:
            self.reasons[self._requests[key]] = reason

    async def _sleep(self, seconds: float) -> None:
        """Wait, or be stopped."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), seconds)


class _Unanswered:
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


class _Once:
    """No patience: what a batch does not answer is not asked again now."""

    async def complete(self, model: Model, request: Request, *, before: Before) -> Reply:
        """Ask once."""
        before(0, None)
        return await model.complete(request)
