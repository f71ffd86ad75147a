"""Calls that nothing has answered yet, found by id, by what they ask, or by their tool alone."""

from __future__ import annotations

from collections import deque

from stepscope.model import ToolCall, call_key


class Waiting:
    """Open calls, first come first found; each is given out once, in constant time."""

    def __init__(self) -> None:
        self._open: dict[int, ToolCall] = {}
        self._places: dict[tuple[str, ...], deque[int]] = {}
        self._count = 0

    def add(self, call: ToolCall) -> None:
        """Remember a call."""
        self._open[self._count] = call
        keys: list[tuple[str, ...]] = [("tool", call.name), ("asked", call_key(call))]
        if call.id is not None:
            keys.append(("id", call.name, call.id))
        for key in keys:
            self._places.setdefault(key, deque()).append(self._count)
        self._count += 1

    def take(self, call: ToolCall) -> ToolCall | None:
        """Return the open call that a tool's span carries out, and forget it.

        A span that knows its call's id answers that call alone.
        """
        if call.id is not None:
            return self._first(("id", call.name, call.id))
        return self._first(("asked", call_key(call))) or self._first(("tool", call.name))

    def _first(self, key: tuple[str, ...]) -> ToolCall | None:
        places = self._places.get(key)
        while places:
            place = places.popleft()
            if place in self._open:
                return self._open.pop(place)
        return None
