"""The one retry loop: how often, how long, how many at once, and when to give up.

A call that may help to be made again is made again after the time that the provider asks for, else
after a random time below a bound that doubles (full jitter). What one call learns of a provider's
limits, all calls to it heed. Every call has a deadline that no number of tries can move, on the
monotonic clock; waiting for its turn does not count. Refuses to wait longer than is left.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import msgspec

from stepscope.errors import ModelError
from stepscope.judges.models.lanes import Lane
from stepscope.model import Model, Reply, Request

Before = Callable[[int, ModelError | None], None]

# Too many requests; and overloaded, as two providers say it.
_RATE = frozenset({429, 503, 529})
# After a shared wait, calls begin spread over this share of it, at most over a second.
_SPREAD = 0.1


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a call may take.

    Attributes:
        tries: how often it is made at most.
        tries_unreadable: how often where a reply comes that cannot be read: each may be paid for.
        attempt_seconds: one try, from sending to the last byte.
        whole_seconds: all of them with the pauses between, from when the first one begins.
        base_seconds: the bound of the first random pause; it doubles with each.
        cap_seconds: where it stops doubling.
    """

    tries: int = 8
    tries_unreadable: int = 2
    attempt_seconds: float = 300.0
    whole_seconds: float = 900.0
    base_seconds: float = 0.5
    cap_seconds: float = 60.0


LIMITS = Limits()


class Patience:
    """Calls to all providers of one command."""

    def __init__(
        self,
        rng: random.Random,
        *,
        most: int = 32,
        limits: Limits = LIMITS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Wait for nothing yet.

        Args:
            rng: draws the pauses.
            most: calls in flight to one provider.
            limits: how long a call may take.
            sleep: waits so many seconds.
        """
        self._rng = rng
        self._most = most
        self._limits = limits
        self._sleep = sleep
        self._lanes: dict[str, Lane] = {}

    def lane(self, provider: str) -> Lane:
        """Return the traffic to a provider."""
        return self._lanes.setdefault(provider, Lane(self._most))

    async def complete(self, model: Model, request: Request, *, before: Before) -> Reply:
        """Return the reply to a request, however many tries it takes.

        Args:
            model: whom to ask.
            request: what.
            before: called with the number of the try and the error of the one before it (0 and None
                at first), when nothing stands between it and sending; what it raises ends the call.

        Raises:
            ModelError: the last try gave nothing, or the next would come too late.
        """
        lane = self.lane(model.name.partition("/")[0])
        await lane.enter()
        try:
            return await self._tried(lane, model, request, before)
        finally:
            lane.leave()

    async def _tried(self, lane: Lane, model: Model, request: Request, before: Before) -> Reply:
        clock = asyncio.get_running_loop().time
        end = clock() + self._limits.whole_seconds
        error: ModelError | None = None
        unreadable = 0
        for number in range(self._limits.tries):
            await self._until_open(lane, end, error)
            before(number, error)
            began = clock()
            try:
                async with asyncio.timeout_at(min(end, began + self._limits.attempt_seconds)):
                    reply = await model.complete(request)
            except TimeoutError:
                seconds = clock() - began
                error = ModelError(f"{model.name}: no answer within {seconds:.3g} s", again=True)
            except ModelError as e:
                error = e
            else:
                lane.answered(reply.headers, reply.usage, clock())
                return reply
            if error.status in _RATE:
                lane.refused(began, clock(), error.after)
            unreadable += error.status is not None and error.status < 300
            used_up = number + 1 == self._limits.tries
            if unreadable == self._limits.tries_unreadable or used_up:
                raise error
            if not error.again or clock() >= end:
                raise error
            await self._pause(number, error, end)
        raise AssertionError("the last try returns or raises")

    async def _until_open(self, lane: Lane, end: float, error: ModelError | None) -> None:
        """Wait until the provider's pause is over, and a little, so that not all begin at once."""
        clock = asyncio.get_running_loop().time
        while (wait := lane.opens - clock()) > 0:
            spread = self._rng.uniform(0.0, min(1.0, _SPREAD * wait))
            await self._wait(wait + spread, end, error)

    async def _pause(self, number: int, error: ModelError, end: float) -> None:
        """Wait before the next try: as long as was asked for, else a random time."""
        if error.after is not None:
            seconds = error.after
            if error.status in _RATE:
                return  # all wait together, for the lane to open
        else:
            bound = min(self._limits.cap_seconds, self._limits.base_seconds * 2.0**number)
            seconds = self._rng.uniform(0.0, bound)
        if seconds > 0:
            await self._wait(seconds, end, error)

    async def _wait(self, seconds: float, end: float, error: ModelError | None) -> None:
        """Wait, unless the deadline comes first."""
        left = end - asyncio.get_running_loop().time()
        if seconds > left:
            told = f"{error}; " if error else ""
            raise ModelError(
                f"{told}the next try would be in {seconds:,.0f} s, over the "
                f"{self._limits.whole_seconds:g} s of one call; run the same command again then",
                again=True,
                after=seconds,
                status=error.status if error else None,
            )
        await self._sleep(seconds)
