"""Times bare aiohttp, requests made beforehand, replies thrown away: what is attainable."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import aiohttp

from benchmarks.workers.judging import Given, Prompt, all_of, given
from benchmarks.workers.serve import serve


def body(prompt: Prompt) -> str:
    """Return the request of a prompt, as the openai SDK writes it."""
    shape = {"name": "axis", "strict": True, "schema": prompt["schema"]}
    system = {"role": "system", "content": prompt["system"]}
    asked = {
        "model": "gpt-4o",
        "messages": [system, {"role": "user", "content": prompt["user"]}],
        "max_completion_tokens": 1_000,
        "response_format": {"type": "json_schema", "json_schema": shape},
    }
    return json.dumps(asked)


async def ask_all(told: Given, base: str) -> dict[str, int]:
    """Make the calls of one round over one session."""
    over = aiohttp.TCPConnector(limit=told.in_flight)
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    async with aiohttp.ClientSession(connector=over, headers=headers) as session:

        async def ask(prompt: Prompt) -> int:
            url = f"{base}/v1/chat/completions"
            async with session.post(url, data=prompt["body"]) as reply:
                return len(await reply.read())

        return await all_of(told, ask)


if __name__ == "__main__":
    told = given()
    ready = told._replace(prompts=[{"body": body(prompt).encode()} for prompt in told.prompts])
    serve(
        {
            name: partial(lambda base: asyncio.run(ask_all(ready, base)), base)
            for name, base in told.servers.items()
        }
    )
