"""What an open page hears: how far a running `score` is, and that the store has changed.

Server-sent events of one kind, `store`, with the state as JSON: at once, then whenever it is
another one. Source: HTML Living Standard, 9.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec

from stepscope.errors import StepscopeError
from stepscope.web.reader import Reader, State

# Seconds between two looks at the store: a batch of `score` takes about a third of one.
EVERY = 1.0
# Seconds after which an idle stream says that it lives, so that a closed one is noticed.
ALIVE = 15.0


async def states(reader: Reader, every: float = EVERY) -> AsyncIterator[str]:
    """Yield an event for each new state of the store; end when it cannot be read any more."""
    told: State | None = None
    silent = 0.0
    while True:
        try:
            found = await reader.state()
        except StepscopeError:
            # The next page that is asked says why.
            return
        if found != told:
            told, silent = found, 0.0
            yield f"event: store\ndata: {msgspec.json.encode(found._asdict()).decode()}\n\n"
        elif silent >= ALIVE:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(every)
        silent += every
