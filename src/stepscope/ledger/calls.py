"""Pay for one reply: written as sent before it goes out, written as received before it is read.

`LedgerCalls.call` gives the reply to an ask from the ledger, from another worker that pays for it
now, or from a model. Retries are those of `models.retry`, states those of the ledger; here they
meet. What became of every sending is known or counted as paid: an answer without a price, a
connection that broke, a gateway that gave up while the model went on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol

from stepscope.errors import ConfigError, ModelError, StepscopeError
from stepscope.ledger import states
from stepscope.ledger.budget import Budget, to_nano_usd
from stepscope.ledger.ledger import Ledger, LedgerSession
from stepscope.ledger.states import LedgerAsk, Paid
from stepscope.model import Model, Reply, Request, Usage
from stepscope.models.batches import BatchClient
from stepscope.models.dialect import Ask, ignores_schema, request_hash
from stepscope.models.retry import RetryPolicy

CONCURRENCY = 32
GRACE_SECONDS = 30.0
# Subjects under way for each call in flight: some wait for others, or for a prefix to be cached.
_AHEAD = 4
# A quarter second: somebody else's call takes longer, and looking is cheap.
_POLL_SECONDS = 0.25
# No provider caches a shorter beginning: some 1,024 tokens.
_CACHED_CHARACTERS = 4_096
# A gateway gave up; the model behind it may have answered.
_PERHAPS_PAID = frozenset({408, 502, 504, 524})


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


class CallClients(NamedTuple):
    """What calls go through: the models, the retry loop, the prices, the ledger, the budget."""

    models: Mapping[str, Model]  # by name; what is paid already needs none
    retry: RetryPolicy
    prices: Pricing
    ledger: Ledger
    budget: Budget
    concurrency: int = CONCURRENCY  # the most calls in flight
    grace_seconds: float = GRACE_SECONDS  # how long a stop waits for calls in flight
    # By the model's name, where batches are used in place of single calls.
    batches: Mapping[str, BatchClient] | None = None


class Failed(NamedTuple):
    """Why there is no reply; a later call asks again."""

    word: Literal["stopped", "budget", "no_answer", "batched"]
    reason: str


class NotSent(StepscopeError):
    """An ask is not sent (again): the work stops, the money is gone, or another worker has it."""

    def __init__(self, why: Literal["stopped", "budget", "taken"]) -> None:
        super().__init__(why)
        self.why = why


def may_be_paid(error: ModelError) -> bool:
    """Tell whether a call that gave nothing usable may have been paid for all the same.

    Not where no connection was made, and not where the provider answered with an error of its own.
    """
    if error.status is None:
        return error.reached
    return error.status < 400 or error.status in _PERHAPS_PAID


class LedgerCalls:
    """Calls of one worker, each paid once; at most `concurrency` of them in flight."""

    def __init__(self, clients: CallClients, session: LedgerSession, halted: asyncio.Event) -> None:
        self.clients = clients
        self.session = session
        self.stopped = halted
        self.window = asyncio.Semaphore(clients.concurrency * _AHEAD)
        self._slots = asyncio.Semaphore(clients.concurrency)
        self._most_warm = clients.concurrency * _AHEAD * 2
        self._warm: OrderedDict[tuple[str, str, str], asyncio.Event] = OrderedDict()

    async def call(self, ask: Ask, subject: str) -> Paid | Failed:
        """Return the reply to an ask about a subject: a run's id.

        The first ask with a long beginning goes alone, so that the others find it cached.
        `ConfigError` where a budget holds and the price is not known, or the model is not open;
        `EnvironmentFault` where the disk is full.
        """
        request = ask.request
        if len(request.system) + len(request.context) < _CACHED_CHARACTERS:
            return await self._call(ask, subject)
        prefix = (ask.model, request.system, request.context)
        warm = self._warm.get(prefix)
        if warm is not None:
            await warm.wait()
            return await self._call(ask, subject)
        warm = self._warm[prefix] = asyncio.Event()
        while len(self._warm) > self._most_warm:
            self._warm.popitem(last=False)
        try:
            return await self._call(ask, subject)
        finally:
            warm.set()

    async def _call(self, ask: Ask, subject: str) -> Paid | Failed:
        worst = self.clients.prices.worst(ask.model, ask.request)
        known = None if worst is None else to_nano_usd(worst)
        wanted = LedgerAsk(ask.key, subject, ask.model, known)
        while not self.stopped.is_set():
            async with self._slots:
                found = await self._claim(ask, wanted)
            if found is not None:
                return found
            await asyncio.sleep(_POLL_SECONDS)
        return Failed("stopped", "the run was stopped")

    async def _claim(self, ask: Ask, wanted: LedgerAsk) -> Paid | Failed | None:
        """Return what came of an ask, None when it is worth looking again."""
        claim = await self.session.claim(wanted)
        if isinstance(claim, Paid):
            return claim
        match claim:
            case "unpriced":
                raise ConfigError(self.clients.prices.advice(ask.model))
            case "over":
                return Failed("budget", "the budget does not hold it")
            case "batched":
                return Failed("batched", "a batch under way holds it; ask by batches to fetch it")
            case "mine":
                return await LedgerModel(ask, self).pay()
        return None


class LedgerModel:
    """A model for one claimed ask that keeps the ledger: sent, then asked, then received."""

    def __init__(self, ask: Ask, calls: LedgerCalls) -> None:
        """Ask the model of that name, which asks once; `ConfigError` where it is not open."""
        model = calls.clients.models.get(ask.model)
        if model is None:
            raise ConfigError(f"no model is open for the judge {ask.model!r}, and nothing recorded")
        self._ask = ask
        self._model = model
        self.name = model.name
        self._calls = calls
        self._session = calls.session
        self.paid: Paid | None = None
        self._sent = False
        # Whether the last sending may have been paid for without an answer here.
        self._open = False

    async def pay(self) -> Paid | Failed | None:
        """Return the reply or why there is none; None where another worker has the ask by now."""
        ask = self._ask
        try:
            await self._calls.clients.retry.complete(self, ask.request, before=self._before)
        except ModelError as e:
            await self._give_up(str(e))
            # A deadline may strike while the reply is on its way to the disk: it is there by now.
            return self.paid or Failed("no_answer", str(e))
        except NotSent as e:
            await self._give_up("")
            if e.why == "stopped":
                return Failed("stopped", "the run was stopped")
            if e.why == "budget":
                why = "the budget holds no second sending after one without an answer"
                return Failed("budget", why)
            return None
        except asyncio.CancelledError:
            # A reply that came and may not be on disk is no reason to ask again unlisted.
            if not self._open and self.paid is None:
                self._session.drop(ask.key)
            raise
        assert self.paid is not None  # complete() returned, so it kept what came
        return self.paid

    async def complete(self, request: Request) -> Reply:
        """Ask once and keep the answer; `NotSent` where the ask is not to be sent."""
        ask = self._ask
        if not self._sent:
            if not await self._session.send(ask.key, request_hash(ask.model, ask.request)):
                raise NotSent("taken")
            self._sent = True
        elif self._open and not await self._session.again(ask.key):
            self._open = False
            raise NotSent("budget")
        self._open = True
        try:
            reply = states.bound_usage(await self._model.complete(request))
        except ModelError as e:
            self._open = may_be_paid(e)
            raise
        self._open = False
        known = self._calls.clients.prices.cost(ask.model, reply.usage, model=reply.model)
        cost = None if known is None else to_nano_usd(known)
        body = states.pack_reply(reply)
        # What is read now is what would be read again.
        ignored = ignores_schema(ask.request, reply)
        self.paid = Paid(states.unpack_reply(body), cost, fresh=True, ignored=ignored)
        first = await self._session.receive(ask.key, body, cost)
        if first is not None:
            self.paid = Paid(states.unpack_reply(first), cost, fresh=True)
        return self.paid.reply

    def _before(self, attempt: int, error: ModelError | None) -> None:
        """Let an attempt go, unless the work stops."""
        if self._calls.stopped.is_set():
            raise NotSent("stopped")

    async def _give_up(self, why: str) -> None:
        await self._session.fail(self._ask.key, why, unknown=states.NO_ANSWER if self._open else "")
