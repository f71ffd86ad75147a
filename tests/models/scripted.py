"""Judge models at a scripted provider, and what is asked of them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Literal, TypeVar

import pytest

from stepscope.errors import ModelError
from stepscope.model import Media, Model, Reply, Request
from stepscope.models.configured import JudgesTable, JudgeTable
from stepscope.models.opening import close_models, open_model
from tests.faults.providers import Provider

T = TypeVar("T")
Protocol = Literal["openai", "anthropic"]
KEY = "sk-scripted-0123456789abcdefghij"

REQUEST = Request(
    system="Judge whether the agent stopped in time.",
    context="step 0: the user says goodbye; step 1: the agent calls a tool",
    question="Was the run ended in time?",
    schema_name="termination",
    schema={
        "type": "object",
        "properties": {"label": {"type": "string", "enum": ["correct", "incorrect"]}},
        "required": ["label"],
        "additionalProperties": False,
    },
)

IMAGES = (
    Media(content_type="image/png", data="cG5n", sha256="ab", words="image 1 of step 0"),
    Media(content_type="image/webp", data="d2VicA==", sha256="cd", words="image 2 of step 1"),
)


def table(provider: Provider, protocol: Protocol, **told: Any) -> JudgesTable:
    """Return settings with one judge, `local/claude-tiny`; `told` are its further keys."""
    base = provider.openai if protocol == "openai" else provider.anthropic
    judge = JudgeTable(protocol=protocol, base_url=base, **told)
    return JudgesTable(model={"local/claude-tiny": judge})


def model_at(provider: Provider, protocol: Protocol, *, key: str = "", **told: Any) -> Model:
    """Return the model of that judge, with a key where one is said."""
    if key:
        told["key"] = "SCRIPTED_KEY"
    judges = table(provider, protocol, **told)
    return open_model("local/claude-tiny", judges, keys={"SCRIPTED_KEY": key})


def run(work: Coroutine[Any, Any, T], *models: Model) -> T:
    """Return what a piece of work gives, on a loop of its own that closes the models."""

    async def whole() -> T:
        async with close_models(models):
            return await work

    return asyncio.run(whole())


def ask(model: Model, request: Request = REQUEST) -> Reply:
    """Return the reply to one question."""
    return run(model.complete(request), model)


def fault_of(model: Model, request: Request = REQUEST) -> ModelError:
    """Return what a question that must fail raises."""
    with pytest.raises(ModelError) as raised:
        ask(model, request)
    return raised.value
