"""A step and what it is made of: parts, tool calls, tool results, tokens, times, spans."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Actor = Literal["system", "user", "agent", "environment"]
StepKind = Literal[
    "message", "call", "result", "plan", "handoff", "retrieval", "guardrail", "compaction", "other"
]
PartKind = Literal["text", "reasoning", "refusal", "image", "audio", "file", "data"]
ResultStatus = Literal["ok", "error", "unknown"]
Belief = Literal["explicit", "protocol", "heuristic", "none"]
Effect = Literal["read", "write", "unknown"]

# Anything that JSON can say. `Any` here is the trace's own freedom, not ours.
Json = Any


class Instant(msgspec.Struct, frozen=True, gc=False):
    """A point in time: nanoseconds UTC since 1970, and the text that the trace had."""

    ns: int
    text: str


class Usage(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Tokens, one meaning everywhere.

    `input_total` includes cache reads and writes; `output_total` includes reasoning.
    """

    input_total: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    output_total: int | None = None
    reasoning: int | None = None
    source: Literal["reported", "estimated"] = "reported"


class Part(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One piece of a step's content.

    Media carry type, size in bytes and sha256; `data` (base64) is moved to the blob folder when the
    run is stored. A `uri` found in a trace is never fetched.
    """

    kind: PartKind
    text: str | None = None
    media_type: str | None = None
    size: int | None = None
    sha256: str | None = None
    data: str | None = None
    uri: str | None = None
    extra: dict[str, Json] | None = None


class ToolCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool call as the agent (or the user) made it.

    `arguments` is the decoded value, or None with `parse_error` when `raw` could not be decoded:
    malformed arguments are data. `raw` is the text, where the format carries arguments as text.
    """

    name: str
    arguments: Json = None
    id: str | None = None
    raw: str | None = None
    parse_error: str | None = None
    requestor: Literal["agent", "user"] = "agent"
    kind: Literal["function", "mcp", "server", "builtin"] = "function"
    extra: dict[str, Json] | None = None


class ToolResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What came back from a tool: ok, error or unknown, and where that belief comes from."""

    call_id: str | None = None
    name: str | None = None
    parts: tuple[Part, ...] = ()
    structured: Json = None
    status: ResultStatus = "unknown"
    source: Belief = "none"
    error: str | None = None
    truncated: bool = False
    extra: dict[str, Json] | None = None

    @property
    def text(self) -> str:
        """The text of the result, its parts joined by line breaks."""
        parts = self.parts
        if len(parts) == 1:
            return parts[0].text or ""
        return "\n".join([p.text for p in parts if p.text is not None])


class Step(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One entry of a run in file order: what a citation points at."""

    index: int
    actor: Actor
    kind: StepKind = "message"
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    agent: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    start: Instant | None = None
    end: Instant | None = None
    first_token_seconds: float | None = None
    finish_reason: str | None = None
    error: str | None = None
    span: str | None = None
    id: str | None = None
    replayed: bool = False
    sidechain: bool = False
    extra: dict[str, Json] | None = None

    @property
    def text(self) -> str:
        """What the step says aloud: its text parts, without reasoning or tool results."""
        parts = self.parts
        if len(parts) == 1 and parts[0].kind == "text":
            return parts[0].text or ""
        return "\n".join([p.text for p in parts if p.kind == "text" and p.text is not None])


class Span(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A node of the recorded trace tree, kept as it came."""

    id: str
    parent: str | None = None
    name: str = ""
    kind: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: ResultStatus = "unknown"
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    events: tuple[Json, ...] = ()
    links: tuple[Json, ...] = ()


class ToolDef(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A tool that the agent was offered; `schema` is the JSON schema of its arguments, if known."""

    name: str
    description: str | None = None
    schema: dict[str, Json] | None = None
    agent: str | None = None
    extra: dict[str, Json] | None = None
