"""The traffic to one provider: how many calls at once, and when nobody may send at all.

The number that may be in flight falls by half when the provider refuses for its rate, and grows by
one for every round of answers, between 1 and the most that was allowed. Source: Chiu and Jain
(1989), additive increase and multiplicative decrease, Computer Networks 17.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping

from stepscope.judges.models import pacing
from stepscope.model import Usage

# Seconds that a window is waited for at most because a *good* reply says that it is used up.
_AHEAD = 60.0


class Lane:
    """One provider; all times on the monotonic clock of the event loop."""

    def __init__(self, most: int) -> None:
        """Allow `most` in flight, until the provider says otherwise."""
        self.most = most
        self.allowed = float(most)
        self.inside = 0
        # Nobody sends before this moment.
        self.opens = 0.0
        self._cut = 0.0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place, in the order of asking."""
        if not self._waiting and self.inside < int(self.allowed):
            self.inside += 1
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.leave()  # the place was given at the very moment of giving up
            raise

    def leave(self) -> None:
        """Give the place to the next."""
        self.inside -= 1
        self._admit()

    def answered(self, headers: Mapping[str, str], usage: Usage | None, now: float) -> None:
        """Learn from a good reply: more at once, unless its headers say that little is left."""
        self.allowed = min(float(self.most), self.allowed + 1.0 / self.allowed)
        left = pacing.remaining(headers)
        if left:
            self._heed(left, headers, usage, now)
        self._admit()

    def refused(self, began: float, now: float, after: float | None) -> None:
        """Learn from a refusal for rate: half as many at once, and all wait as long as it says.

        Args:
            began: when the refused call was sent; calls of one burst count once.
            now: the moment.
            after: seconds that the provider asks for.
        """
        if began >= self._cut:
            self.allowed = max(1.0, self.allowed / 2)
            self._cut = now
        if after is not None:
            self.opens = max(self.opens, now + after)

    def _heed(
        self, left: Mapping[str, int], headers: Mapping[str, str], usage: Usage | None, now: float
    ) -> None:
        """Keep no more in flight than what is left of a window lets through."""
        for what, number in left.items():
            each = 1 if what == "requests" else _tokens(what, usage)
            fits = number // each if each else self.most
            self.allowed = max(1.0, min(self.allowed, float(fits)))
            if fits == 0 and (wait := pacing.reset_seconds(what, headers)) is not None:
                self.opens = max(self.opens, now + min(wait, _AHEAD))

    def _admit(self) -> None:
        while self._waiting and self.inside < int(self.allowed):
            place = self._waiting.popleft()
            if not place.done():
                self.inside += 1
                place.set_result(None)


def _tokens(what: str, usage: Usage | None) -> int:
    """Return what one more call of the same size takes of a limit; 0 where that is unknown."""
    if usage is None:
        return 0
    read, written = usage.input_total or 0, usage.output_total or 0
    return {"input-tokens": read, "output-tokens": written}.get(what, read + written)
