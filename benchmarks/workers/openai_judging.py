"""Times the openai SDK alone, with structured output, over httpx or over aiohttp.

The transport is the first argument; those of `judging` follow.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any

import openai

from benchmarks.workers.judging import Given, Prompt, all_of, given
from benchmarks.workers.serve import serve


async def ask_all(told: Given, base: str, transport: str) -> dict[str, int]:
    """Make the calls of one round over one client."""
    over = openai.DefaultAioHttpClient() if transport == "aiohttp" else None
    # A machine that is busy takes longer than its five seconds to connect two hundred times.
    client = openai.AsyncOpenAI(
        timeout=60.0, base_url=f"{base}/v1", api_key="none", max_retries=0, http_client=over
    )

    # Its signature knows a type for every part of a question; these come from a file.
    create: Any = client.chat.completions.create

    async def ask(prompt: Prompt) -> int:
        shape = {"name": "axis", "strict": True, "schema": prompt["schema"]}
        system = {"role": "system", "content": prompt["system"]}
        reply = await create(
            model="gpt-4o",
            messages=[system, {"role": "user", "content": prompt["user"]}],
            max_completion_tokens=1_000,
            response_format={"type": "json_schema", "json_schema": shape},
        )
        return len(reply.choices[0].message.content or "")

    async with client:
        return await all_of(told, ask)


if __name__ == "__main__":
    transport = sys.argv.pop(1)
    told = given()
    serve(
        {
            name: partial(lambda base: asyncio.run(ask_all(told, base, transport)), base)
            for name, base in told.servers.items()
        }
    )
