"""Times DeepEval's model, through which all of its metrics ask, with a schema of the answer."""

from __future__ import annotations

import asyncio
from functools import partial

from deepeval.models import GPTModel  # type: ignore[import-not-found]
from pydantic import BaseModel, ConfigDict  # type: ignore[import-not-found,unused-ignore]

from benchmarks.workers.judging import Given, Prompt, all_of, given
from benchmarks.workers.serve import serve


class Evidence(BaseModel):  # type: ignore[misc,unused-ignore]
    """Words of a step."""

    model_config = ConfigDict(extra="forbid")
    step: int
    quote: str


class Answer(BaseModel):  # type: ignore[misc,unused-ignore]
    """The answer to an axis, as the schema of the others says it."""

    model_config = ConfigDict(extra="forbid")
    evidence: list[Evidence]
    cited_step_indices: list[int]
    rationale: str
    label: str
    confidence: float


async def ask_all(told: Given, base: str) -> dict[str, int]:
    """Make the calls of one round over one model."""
    model = GPTModel(model="gpt-4o", api_key="none", base_url=f"{base}/v1")

    async def ask(prompt: Prompt) -> int:
        answer, _ = await model.a_generate(f"{prompt['system']}\n\n{prompt['user']}", Answer)
        return len(answer.rationale)

    return await all_of(told, ask)


if __name__ == "__main__":
    told = given()
    serve(
        {
            name: partial(lambda base: asyncio.run(ask_all(told, base)), base)
            for name, base in told.servers.items()
        }
    )
