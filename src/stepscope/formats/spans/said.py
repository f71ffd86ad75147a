"""What one span says in words of any dialect: the common ground that runs are made from."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from stepscope.formats.beliefs import Judged
from stepscope.model import Actor, Json, Label, Part, ToolCall, ToolDef, ToolResult, Usage

# What a span records. A `chain` is a frame around others, `other` nothing of an agent at all.
Sort = Literal[
    "model",
    "tool",
    "agent",
    "chain",
    "handoff",
    "retrieval",
    "guardrail",
    "embedding",
    "evaluation",
    "other",
]


class Message(NamedTuple):
    """One message within a span, whoever said it."""

    actor: Actor
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    name: str | None = None
    finish: str | None = None
    extra: dict[str, Json] | None = None


class Said(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a span says; None and () where it says nothing.

    Attributes:
        given: its input as one value, where that is no list of messages.
        made: its output, likewise.
        call: the call that a tool's span carries out.
        parts: what a tool or a retrieval gave back.
        belief: what a tool says of its own result.
        momentary: whether the span marks a moment, and its end is none.
        target: the agent that a handoff goes to, a tool's too.
    """

    sort: Sort | None = None
    inputs: tuple[Message, ...] = ()
    outputs: tuple[Message, ...] = ()
    given: tuple[Message, ...] = ()
    made: tuple[Message, ...] = ()
    agent: str | None = None
    target: str | None = None
    model: str | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    first_token_seconds: float | None = None
    call: ToolCall | None = None
    parts: tuple[Part, ...] = ()
    belief: Judged | None = None
    momentary: bool | None = None
    tools: tuple[ToolDef, ...] = ()
    session: str | None = None
    workflow: str | None = None
    failed: str | None = None
    labels: tuple[Label, ...] = ()


_EMPTY = Said()
_FIELDS = Said.__struct_fields__


def joined(sayings: list[Said]) -> Said:
    """Return what several dialects say of one span: the first to say anything of a field holds."""
    if len(sayings) == 1:
        return sayings[0]
    fields = {}
    for name in _FIELDS:
        for said in sayings:
            value = getattr(said, name)
            if value is not None and value != ():
                fields[name] = value
                break
    return Said(**fields) if fields else _EMPTY
