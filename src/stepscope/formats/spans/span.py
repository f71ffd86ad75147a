"""Spans as any exporter wrote them, and what one span says in the words of any dialect.

`RawSpan` is what OTLP, flat span lists and the exports of tracing backends have in common; a field
of the source that has no place in it stays in `extra`. `SpanContent` is what runs are made from. A
span with more attributes than the limit keeps the first; how many were left out stays in `extra`.
Source: OpenTelemetry protocol, `opentelemetry/proto/trace/v1/trace.proto`.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from typing import Literal, NamedTuple

import msgspec

from stepscope.errors import LimitError
from stepscope.formats.fields import ToolStatus
from stepscope.model import Actor, Json, Part, ToolCall, ToolDef, ToolResult, TraceLabel, Usage
from stepscope.safety.json import Repair, list_repairs
from stepscope.safety.limits import Limits

SpanStatus = Literal["ok", "error", "unset"]

# On a span of a trace that stepscope exported: the id of the run that it is.
RUN_KEY = "stepscope.run.id"
# The event of a verdict in the GenAI conventions; on a verdict of ours, the measure's version.
EVALUATION_EVENT = "gen_ai.evaluation.result"
VERSION_KEY = "stepscope.version"


class SpanEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something that happened within a span; `time_ns` is nanoseconds UTC since 1970."""

    name: str = ""
    time_ns: int | None = None
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    extra: dict[str, Json] | None = None


def make_event(
    name: str | None, time_ns: int | None, about: Json, extra: dict[str, Json] | None
) -> SpanEvent:
    """Return an event; attributes that are no object stay in `extra`."""
    if about is not None and not isinstance(about, dict):
        about, extra = {}, {**(extra or {}), "attributes": about}
    return SpanEvent(name=name or "", time_ns=time_ns, attributes=about or {}, extra=extra or None)


class RawSpan(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A node of a trace."""

    trace_id: str  # "" where the source names no trace
    span_id: str
    parent_id: str | None = None  # as recorded; nothing says that such a span exists
    name: str = ""
    kind: str = ""  # internal, server, client, producer, consumer, or what the source calls it
    start_ns: int | None = None  # nanoseconds UTC since 1970
    end_ns: int | None = None  # the same
    status: SpanStatus = "unset"
    status_message: str | None = None
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    # attributes of what sent the span
    resource: dict[str, Json] = msgspec.field(default_factory=dict)
    scope: str | None = None  # name of the instrumentation, and its version behind an `@`
    links: tuple[Json, ...] = ()  # as they came
    extra: dict[str, Json] | None = None  # what else the source says of the span

    def seconds_until(self, ns: int | None) -> float | None:
        """Return the seconds from the beginning to a time, None where that is not behind it."""
        if ns is None or self.start_ns is None or ns < self.start_ns:
            return None
        return (ns - self.start_ns) / 1e9


ATTRIBUTES_LEFT_OUT = "attributes_left_out"


def limit_attributes(span: RawSpan, limits: Limits) -> RawSpan:
    """Return the span with its first `limits.attributes`; the others' count and hash in `extra`."""
    about = span.attributes
    if len(about) <= limits.attributes:
        return span
    kept = dict(islice(about.items(), limits.attributes))
    others = dict(islice(about.items(), limits.attributes, None))
    told = {"count": len(others), "sha256": sha256(msgspec.json.encode(others)).hexdigest()}
    extra = {**(span.extra or {}), ATTRIBUTES_LEFT_OUT: told}
    return msgspec.structs.replace(span, attributes=kept, extra=extra)


def limit_trace(
    spans: Sequence[RawSpan], limits: Limits
) -> tuple[list[RawSpan], tuple[Repair, ...]]:
    """Return the spans of a trace, each with no more attributes than allowed, and the repairs."""
    if len(spans) > limits.spans:
        raise LimitError(
            f"a trace of {len(spans):,} spans; the limit is {limits.spans:,} "
            "(`limits.spans` in stepscope.toml)"
        )
    kept = [limit_attributes(span, limits) for span in spans]
    cut = sum([ours is not theirs for ours, theirs in zip(kept, spans, strict=True)])
    return kept, list_repairs({"attributes_cut": cut})


# What a span records. A `chain` is a frame around others, `other` nothing of an agent at all.
Operation = Literal[
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


class SpanMessage(NamedTuple):
    """One message within a span, whoever said it."""

    actor: Actor
    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    name: str | None = None
    finish: str | None = None
    extra: dict[str, Json] | None = None


class SpanContent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What a span says; None and () where it says nothing."""

    operation: Operation | None = None
    inputs: tuple[SpanMessage, ...] = ()
    outputs: tuple[SpanMessage, ...] = ()
    # its input as one value, where that is no list of messages
    input_value: tuple[SpanMessage, ...] = ()
    output_value: tuple[SpanMessage, ...] = ()  # its output, likewise
    agent: str | None = None
    target: str | None = None  # the agent that a handoff goes to, a tool's too
    model: str | None = None
    finish_reason: str | None = None
    response_id: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    first_token_seconds: float | None = None
    call: ToolCall | None = None  # the call that a tool's span carries out
    parts: tuple[Part, ...] = ()  # what a tool or a retrieval gave back
    status: ToolStatus | None = None  # what a tool says of its own result
    momentary: bool | None = None  # whether the span marks a moment, and its end is none
    tools: tuple[ToolDef, ...] = ()
    session: str | None = None
    workflow: str | None = None
    failed: str | None = None
    labels: tuple[TraceLabel, ...] = ()


_EMPTY = SpanContent()
_FIELDS = SpanContent.__struct_fields__


def merge_contents(sayings: list[SpanContent]) -> SpanContent:
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
    return SpanContent(**fields) if fields else _EMPTY
