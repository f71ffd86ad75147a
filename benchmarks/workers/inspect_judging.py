"""Times Inspect's model API with a response schema, as its model-graded scorers call it."""

from __future__ import annotations

import asyncio
from functools import partial

from inspect_ai.model import (  # type: ignore[import-not-found]
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    ResponseSchema,
    get_model,
)
from inspect_ai.util import JSONSchema  # type: ignore[import-not-found]

from benchmarks.workers.judging import Given, Prompt, all_of, given
from benchmarks.workers.serve import serve


async def ask_all(told: Given, base: str) -> dict[str, int]:
    """Make the calls of one round over one model."""
    schema = JSONSchema.model_validate(told.prompts[0]["schema"])
    config = GenerateConfig(
        max_connections=told.in_flight,
        max_tokens=1_000,
        response_schema=ResponseSchema(name="axis", json_schema=schema, strict=True),
    )
    model = get_model(
        "openai/gpt-4o",
        base_url=f"{base}/v1",
        api_key="none",
        config=config,
        memoize=False,
        responses_api=False,
    )

    async def ask(prompt: Prompt) -> int:
        system, user = prompt["system"], prompt["user"]
        reply = await model.generate(
            [ChatMessageSystem(content=system), ChatMessageUser(content=user)]
        )
        return len(reply.completion)

    return await all_of(told, ask)


if __name__ == "__main__":
    told = given()
    serve(
        {
            name: partial(lambda base: asyncio.run(ask_all(told, base)), base)
            for name, base in told.servers.items()
        }
    )
