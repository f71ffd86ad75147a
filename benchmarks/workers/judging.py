"""What the workers of J4 share: so many calls, at most so many at once. Standard library only.

Arguments: the file of prompts, how many calls a round makes, how many are in flight, and the
address of a server for each round, as NAME=URL.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

Prompt = dict[str, Any]
# Answers one prompt; returns how many characters the model wrote.
Asking = Callable[[Prompt], Awaitable[int]]


class Given(NamedTuple):
    """The arguments of a worker."""

    prompts: list[Prompt]
    calls: int
    in_flight: int
    servers: dict[str, str]


def given() -> Given:
    """Return the arguments."""
    path, calls, in_flight, *servers = sys.argv[1:]
    with Path(path).open(encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file]
    addresses = dict(server.split("=", 1) for server in servers)
    return Given(prompts, int(calls), int(in_flight), addresses)


async def all_of(told: Given, ask: Asking) -> dict[str, int]:
    """Ask every prompt, over and over until the calls are made; return what was counted."""
    slots = asyncio.Semaphore(told.in_flight)

    async def one(at: int) -> int:
        async with slots:
            return await ask(told.prompts[at % len(told.prompts)])

    written = await asyncio.gather(*(one(at) for at in range(told.calls)))
    return counted(answered=sum(1 for characters in written if characters))


def counted(answered: int) -> dict[str, int]:
    """Return how many calls were answered, and the most memory that the process ever had, KiB."""
    return {"answered": answered, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
