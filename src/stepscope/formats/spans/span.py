"""One span as any exporter wrote it, its ids and attributes as they came.

What OTLP, flat span lists and the exports of tracing backends have in common; a field of the source
that has no place here stays in `extra`.
Source: OpenTelemetry protocol, `opentelemetry/proto/trace/v1/trace.proto`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model import Json

SpanStatus = Literal["ok", "error", "unset"]


class SpanEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something that happened within a span; `time_ns` is nanoseconds UTC since 1970."""

    name: str = ""
    time_ns: int | None = None
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    extra: dict[str, Json] | None = None


class Span(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A node of a trace.

    Attributes:
        trace_id: "" where the source names no trace.
        parent_id: as recorded; nothing says that such a span exists.
        kind: internal, server, client, producer, consumer, or what the source calls it.
        start_ns: nanoseconds UTC since 1970.
        end_ns: the same.
        resource: attributes of what sent the span.
        scope: name of the instrumentation, and its version behind an `@`.
        links: as they came.
        extra: what else the source says of the span.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    name: str = ""
    kind: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: SpanStatus = "unset"
    status_message: str | None = None
    attributes: dict[str, Json] = msgspec.field(default_factory=dict)
    events: tuple[SpanEvent, ...] = ()
    resource: dict[str, Json] = msgspec.field(default_factory=dict)
    scope: str | None = None
    links: tuple[Json, ...] = ()
    extra: dict[str, Json] | None = None
