"""A small agent, recorded with the real OpenTelemetry SDK and sent with its real exporter.

It is asked to cancel an order, looks for it, fails to find it, and says so: four spans a trace, in
the words of OpenInference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

START = 1_767_000_000_000_000_000
SECOND = 1_000_000_000
FIRST = 0xA0A0A0A0A0A0A0A0A0A0A0A0A0A0A001
THEN, LATER = FIRST + 1, FIRST + 2
# All spans of both traces, or a third trace without its late span, or that span alone.
Which = Literal["both", "early", "late"]
Attributes = dict[str, str | int]


class Fixed(IdGenerator):
    """Ids as they are asked for, so that a test can say them."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_span_id(self) -> int:
        return self.span

    def generate_trace_id(self) -> int:
        return self.trace


class Made(NamedTuple):
    """One span: `late` where it is sent after the others."""

    span_id: int
    parent: int | None
    name: str
    attributes: Attributes
    seconds: tuple[float, float]
    failed: bool = False
    late: bool = False


def spans() -> Iterator[Made]:
    """Yield the spans of one trace, times in seconds from its begin."""
    asked = "Cancel order 17"
    yield Made(
        0x11, None, "agent", {"openinference.span.kind": "AGENT", "input.value": asked}, (0, 4)
    )
    heard: Attributes = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "m-1",
        "llm.token_count.prompt": 12,
        "llm.token_count.completion": 5,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": asked,
    }
    said = "llm.output_messages.0.message"
    call = f"{said}.tool_calls.0.tool_call"
    calls: Attributes = {
        f"{said}.role": "assistant",
        f"{call}.id": "c1",
        f"{call}.function.name": "find_order",
        f"{call}.function.arguments": '{"id": 17}',
    }
    yield Made(0x12, 0x11, "chat", {**heard, **calls}, (0.5, 1))
    tool: Attributes = {
        "openinference.span.kind": "TOOL",
        "tool.name": "find_order",
        "tool.parameters": '{"id": 17, "tags": ["a"]}',
        "input.value": '{"id": 17}',
        "output.value": "no order 17",
    }
    yield Made(0x13, 0x11, "find_order", tool, (1, 2), failed=True, late=True)
    answers: Attributes = {f"{said}.role": "assistant", f"{said}.content": "There is no order 17."}
    yield Made(0x14, 0x11, "chat", {**heard, **answers}, (3, 3.5))


def record(endpoint: str, headers: dict[str, str], which: Which) -> None:
    """Send both traces, or a third one without its late span, or that span alone."""
    ids = Fixed()
    provider = TracerProvider(id_generator=ids, resource=Resource.create({"service.name": "shop"}))
    exporter = OTLPSpanExporter(endpoint=endpoint, headers=headers)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("shop.instrumentation", "1.0")
    for number, trace in enumerate([FIRST, THEN] if which == "both" else [LATER]):
        for made in spans():
            if which != "both" and made.late != (which == "late"):
                continue
            own = trace - FIRST
            ids.trace, ids.span = trace, own + (made.span_id << 8)
            above = None
            if made.parent is not None:
                of = SpanContext(trace, own + (made.parent << 8), False, TraceFlags(1))
                above = set_span_in_context(NonRecordingSpan(of))
            begin, end = [START + int((number * 60 + at) * SECOND) for at in made.seconds]
            span = tracer.start_span(
                made.name,
                context=above,
                kind=SpanKind.INTERNAL,
                attributes=made.attributes,
                start_time=begin,
            )
            if made.failed:
                span.set_status(Status(StatusCode.ERROR, "not found"))
                span.add_event("exception", {"exception.message": "not found"}, timestamp=begin)
            span.end(end)
    provider.shutdown()
