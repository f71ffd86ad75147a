"""Buy one reply: on disk as sent before it goes out, on disk as received before anybody reads it.

Retries are `Patience`'s, the states are the ledger's; here they meet. What became of every sending
is known or counted as paid: an answer without a price, a connection that broke, a gateway that gave
up while the model went on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from stepscope.errors import ModelError, StepscopeError
from stepscope.judges.budget import nano
from stepscope.judges.judgement import Ask, request_hash
from stepscope.judges.ledger import packed, unpacked
from stepscope.judges.ledger_desk import Desk
from stepscope.judges.ledger_rows import NO_ANSWER
from stepscope.judges.models.fitting import ignored
from stepscope.model import Model, Reply, Request, Usage

# A gateway gave up; the model behind it may have answered.
_PERHAPS_PAID = frozenset({408, 502, 504, 524})

Before = Callable[[int, ModelError | None], None]


class Patient(Protocol):
    """Asks until an answer comes or asking makes no sense; the one retry loop."""

    async def complete(self, model: Model, request: Request, *, before: Before) -> Reply:
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


class Bought(NamedTuple):
    """A reply that is committed.

    Attributes:
        reply: as it was received.
        cost: in billionths of a USD; None where nobody knows.
        fresh: whether this run has paid for it.
        ignored: whether its endpoint let the model ignore the schema that it accepted.
    """

    reply: Reply
    cost: int | None
    fresh: bool
    ignored: bool = False


class Lost(NamedTuple):
    """Why there is no reply; a later run asks again."""

    word: Literal["stopped", "budget", "no_answer", "batched"]
    reason: str


class Halted(StepscopeError):
    """An ask is not sent (again): the run stops, the money is gone, or another run has it."""

    def __init__(self, why: Literal["stopped", "budget", "taken"]) -> None:
        """Say why."""
        super().__init__(why)
        self.why = why


class Purchase:
    """A model for one ask that keeps the ledger: sent, then asked, then received."""

    def __init__(
        self, ask: Ask, model: Model, *, desk: Desk, pricing: Pricing, stopped: asyncio.Event
    ) -> None:
        """Ask `model`, which asks once and does not retry."""
        self.bought: Bought | None = None
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
            raise Halted("stopped")

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
            self.open = perhaps_paid(e)
            raise
        self.open = False
        return await self._keep(reply)

    async def _let_go(self) -> None:
        key = self._ask.key
        if not self._sent:
            hashed = request_hash(self._ask.judge, self._ask.request)
            if not await self._desk.send(key, hashed):
                raise Halted("taken")
            self._sent = True
        elif self.open and not await self._desk.again(key):
            self.open = False
            raise Halted("budget")

    async def _keep(self, reply: Reply) -> Reply:
        known = self._pricing.cost(self._ask.judge, reply.usage, model=reply.model)
        cost = None if known is None else nano(known)
        body = packed(reply)
        # What is read now is what would be read again.
        ignores = ignored(self._ask.request, reply)
        self.bought = Bought(unpacked(body), cost, fresh=True, ignored=ignores)
        first = await self._desk.receive(self._ask.key, body, cost)
        if first is not None:
            self.bought = Bought(unpacked(first), cost, fresh=True)
        return self.bought.reply


def perhaps_paid(error: ModelError) -> bool:
    """Tell whether a call that gave nothing usable may have been paid for all the same.

    Not where no connection was made, and not where the provider answered with an error of its own.
    """
    if error.status is None:
        return error.reached
    return error.status < 400 or error.status in _PERHAPS_PAID


async def buy(ask: Ask, purchase: Purchase, *, patience: Patient, desk: Desk) -> Bought | Lost:
    """Buy the reply to an ask that was claimed.

    Raises:
        Halted: "taken": somebody else has the ask, or its reply is here by now.
    """
    try:
        await patience.complete(purchase, ask.request, before=purchase.before)
    except ModelError as e:
        await desk.fail(ask.key, str(e), unknown=NO_ANSWER if purchase.open else "")
        # A deadline may strike while the reply is on its way to the disk: it is there by now.
        return purchase.bought or Lost("no_answer", str(e))
    except Halted as e:
        await desk.fail(ask.key, "", unknown=NO_ANSWER if purchase.open else "")
        if e.why == "stopped":
            return Lost("stopped", "the run was stopped")
        if e.why == "budget":
            return Lost("budget", "the budget holds no second sending after one without an answer")
        raise
    except asyncio.CancelledError:
        if not purchase.open:
            desk.drop(ask.key)
        raise
    assert purchase.bought is not None  # complete() returned, so it kept what came
    return purchase.bought
