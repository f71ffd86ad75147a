"""Pay for one reply: written as sent before it goes out, written as received before it is read.

A reply comes from the ledger, from another worker that pays for it now, or from a model. Retries
are those of `models.retry`, states those of the ledger; here they meet. What became of every
sending is known or counted as paid: an answer without a price, a connection that broke, a gateway
that gave up while the model went on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from stepscope.errors import ConfigError, ModelError, StepscopeError
from stepscope.ledger.commits import LedgerSession
from stepscope.ledger.ledger import pack_reply, to_nano_usd, unpack_reply
from stepscope.ledger.states import NO_ANSWER, LedgerAsk
from stepscope.model import Model, Reply, Request, Usage
from stepscope.models.dialect import Ask, ignores_schema, request_hash

# A gateway gave up; the model behind it may have answered.
_PERHAPS_PAID = frozenset({408, 502, 504, 524})

BeforeCall = Callable[[int, ModelError | None], None]


class Retrier(Protocol):
    """Asks until an answer comes or asking makes no sense; the one retry loop."""

    async def complete(self, model: Model, request: Request, *, before: BeforeCall) -> Reply:
        """Return the answer; `before` is called before every attempt and may raise to stop."""


class Pricing(Protocol):
    """What calls cost, in USD; None where nobody knows."""

    def worst(self, judge: str, request: Request, *, batch: bool = False) -> float | None:
        """Return the most that a call can cost."""

    def cost(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        """Return what a call did cost."""

    def saved(
        self, judge: str, usage: Usage | None, *, model: str = "", batch: bool = False
    ) -> float | None:
        """Return what the provider's cache saved; below 0 where filling it cost more."""

    def advice(self, judge: str) -> str:
        """Return what to write where the price of a judge is unknown, one line."""


class Paid(NamedTuple):
    """A reply that is committed."""

    reply: Reply  # as it was received
    cost: int | None  # in billionths of a USD; None where nobody knows
    fresh: bool  # whether this run has paid for it
    ignored: bool = False  # whether its endpoint let the model ignore the schema that it accepted


class Failed(NamedTuple):
    """Why there is no reply; a later run asks again."""

    word: Literal["stopped", "budget", "no_answer", "batched"]
    reason: str


class NotSent(StepscopeError):
    """An ask is not sent (again): the run stops, the money is gone, or another run has it."""

    def __init__(self, why: Literal["stopped", "budget", "taken"]) -> None:
        """Say why."""
        super().__init__(why)
        self.why = why


class LedgerModel:
    """A model for one ask that keeps the ledger: sent, then asked, then received."""

    def __init__(
        self,
        ask: Ask,
        model: Model,
        *,
        desk: LedgerSession,
        pricing: Pricing,
        stopped: asyncio.Event,
    ) -> None:
        """Ask `model`, which asks once and does not retry."""
        self.bought: Paid | None = None
        # Whether the last sending may have been paid for without an answer here.
        self.open = False
        self._ask = ask
        self._model = model
        self._desk = desk
        self._pricing = pricing
        self._stopped = stopped
        self._sent = False

    @property
    def name(self) -> str:
        """The name of the model that is asked."""
        return self._model.name

    def before(self, attempt: int, error: ModelError | None) -> None:
        """Let an attempt go, unless the run stops."""
        if self._stopped.is_set():
            raise NotSent("stopped")

    async def complete(self, request: Request) -> Reply:
        """Ask once, and keep the answer before it is returned.

        Raises:
            ModelError: nothing usable came back.
            Halted: the ask is not to be sent.
        """
        await self._let_go()
        self.open = True
        try:
            reply = await self._model.complete(request)
        except ModelError as e:
            self.open = may_be_paid(e)
            raise
        self.open = False
        return await self._keep(reply)

    async def _let_go(self) -> None:
        key = self._ask.key
        if not self._sent:
            hashed = request_hash(self._ask.judge, self._ask.request)
            if not await self._desk.send(key, hashed):
                raise NotSent("taken")
            self._sent = True
        elif self.open and not await self._desk.again(key):
            self.open = False
            raise NotSent("budget")

    async def _keep(self, reply: Reply) -> Reply:
        known = self._pricing.cost(self._ask.judge, reply.usage, model=reply.model)
        cost = None if known is None else to_nano_usd(known)
        body = pack_reply(reply)
        # What is read now is what would be read again.
        ignores = ignores_schema(self._ask.request, reply)
        self.bought = Paid(unpack_reply(body), cost, fresh=True, ignored=ignores)
        first = await self._desk.receive(self._ask.key, body, cost)
        if first is not None:
            self.bought = Paid(unpack_reply(first), cost, fresh=True)
        return self.bought.reply


def may_be_paid(error: ModelError) -> bool:
    """Tell whether a call that gave nothing usable may have been paid for all the same.

    Not where no connection was made, and not where the provider answered with an error of its own.
    """
    if error.status is None:
        return error.reached
    return error.status < 400 or error.status in _PERHAPS_PAID


async def pay_call(
    ask: Ask, purchase: LedgerModel, *, patience: Retrier, desk: LedgerSession
) -> Paid | Failed:
    """Buy the reply to an ask that was claimed.

    Raises:
        Halted: "taken": somebody else has the ask, or its reply is here by now.
    """
    try:
        await patience.complete(purchase, ask.request, before=purchase.before)
    except ModelError as e:
        await desk.fail(ask.key, str(e), unknown=NO_ANSWER if purchase.open else "")
        # A deadline may strike while the reply is on its way to the disk: it is there by now.
        return purchase.bought or Failed("no_answer", str(e))
    except NotSent as e:
        await desk.fail(ask.key, "", unknown=NO_ANSWER if purchase.open else "")
        if e.why == "stopped":
            return Failed("stopped", "the run was stopped")
        if e.why == "budget":
            return Failed(
                "budget", "the budget holds no second sending after one without an answer"
            )
        raise
    except asyncio.CancelledError:
        if not purchase.open:
            desk.drop(ask.key)
        raise
    assert purchase.bought is not None  # complete() returned, so it kept what came
    return purchase.bought


# Judgements under way for each call in flight: some wait for others, or for a prefix to be cached.
_AHEAD = 4
# A quarter second: somebody else's call takes longer, and looking is cheap.
_POLL_SECONDS = 0.25


# No provider caches a shorter beginning: some 1,024 tokens.
_CACHED_CHARACTERS = 4_096


class LedgerCalls:
    """Gets the reply to an ask: from the ledger, from another run that buys it, or from a model."""

    def __init__(
        self,
        *,
        models: Mapping[str, Model],
        patience: Retrier,
        desk: LedgerSession,
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

    async def reply(self, ask: Ask, trajectory: str) -> Paid | Failed:
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

    async def _reply(self, ask: Ask, trajectory: str) -> Paid | Failed:
        worst = self.pricing.worst(ask.judge, ask.request)
        known = None if worst is None else to_nano_usd(worst)
        wanted = LedgerAsk(ask.key, trajectory, ask.judge, known)
        while not self.stopped.is_set():
            async with self._slots:
                found = await self._look(ask, wanted)
            if found is not None:
                return found
            await asyncio.sleep(_POLL_SECONDS)
        return Failed("stopped", "the run was stopped")

    async def _look(self, ask: Ask, wanted: LedgerAsk) -> Paid | Failed | None:
        """Return what came of an ask, None when it is worth looking again."""
        claim = await self.desk.claim(wanted)
        if claim.body is not None:
            return Paid(unpack_reply(claim.body), claim.cost, fresh=False)
        if claim.standing == "unpriced":
            raise ConfigError(self.pricing.advice(ask.judge))
        if claim.standing == "over":
            return Failed("budget", "the budget does not hold it")
        if claim.standing == "batched":
            return Failed("batched", "a batch under way holds it; ask by batches to fetch it")
        if claim.standing != "mine":
            return None
        model = self._models.get(ask.judge)
        if model is None:
            raise ConfigError(f"no model is open for the judge {ask.judge!r}, and nothing recorded")
        purchase = LedgerModel(
            ask, model, desk=self.desk, pricing=self.pricing, stopped=self.stopped
        )
        try:
            return await pay_call(ask, purchase, patience=self._patience, desk=self.desk)
        except NotSent:
            return None
