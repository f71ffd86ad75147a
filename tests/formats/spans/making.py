"""Spans for tests: one of each sort in a line, and real lists written again as OTLP."""

from __future__ import annotations

import json
from typing import Any

from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus
from stepscope.model import Source, Trajectory

SECOND = 1_000_000_000
BEGIN = 1_700_000_000 * SECOND


def span(
    span_id: str,
    attributes: dict[str, Any] | None = None,
    *,
    parent: str | None = None,
    at: tuple[float, float] = (0, 1),
    status: SpanStatus = "unset",
    events: tuple[SpanEvent, ...] = (),
    name: str = "",
) -> RawSpan:
    return RawSpan(
        trace_id="t",
        span_id=span_id,
        parent_id=parent,
        name=name or span_id,
        start_ns=BEGIN + int(at[0] * SECOND),
        end_ns=BEGIN + int(at[1] * SECOND),
        status=status,
        attributes=attributes or {},
        events=events,
    )


def run_of(*spans: RawSpan) -> Trajectory:
    (run,) = assemble(spans, source=Source(format="spans", uri="f.json"))
    return run


def told(run: Trajectory) -> list[tuple[str, str, str]]:
    """Actor, kind, and what is said, called or answered, of each step."""
    return [
        (
            step.actor,
            step.kind,
            step.text
            or ", ".join([call.name for call in step.calls])
            or ", ".join([f"{result.status}: {result.text}" for result in step.results]),
        )
        for step in run.steps
    ]


def said(role: str, *parts: dict[str, Any], text: str | None = None) -> dict[str, Any]:
    texts = [] if text is None else [{"type": "text", "content": text}]
    return {"role": role, "parts": [*texts, *parts]}


def asks(name: str, call_id: str | None = None, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def chat(given: list[Any], made: list[Any], **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps(made),
        **more,
    }


def tool(name: str, arguments: Any, result: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        **({} if result is None else {"gen_ai.tool.call.result": result}),
        **more,
    }


def value(found: Any) -> dict[str, Any]:
    """An AnyValue, as the protocol's JSON writes it."""
    match found:
        case bool():
            return {"boolValue": found}
        case int():
            return {"intValue": str(found)}
        case float():
            return {"doubleValue": found}
        case list():
            return {"arrayValue": {"values": [value(entry) for entry in found]}}
        case dict():
            return {"kvlistValue": {"values": pairs(found)}}
        case _:
            return {} if found is None else {"stringValue": found}


def pairs(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(entry)} for key, entry in found.items()]


def as_otlp(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A flat list written again as OTLP: one export for each span, as batches may be cut."""
    codes = {"UNSET": 0, "OK": 1, "ERROR": 2}
    return [
        {
            "resourceSpans": [
                {
                    "resource": {"attributes": []},
                    "scopeSpans": [
                        {
                            "scope": entry["scope"],
                            "spans": [
                                {
                                    "traceId": entry["trace_id"],
                                    "spanId": entry["span_id"],
                                    "parentSpanId": entry["parent_span_id"] or "",
                                    "name": entry["name"],
                                    "kind": 1,
                                    "startTimeUnixNano": str(entry["start_time"]),
                                    "endTimeUnixNano": str(entry["end_time"]),
                                    "status": {"code": codes[entry["status"]["code"]]},
                                    "attributes": pairs(entry["attributes"]),
                                    "events": [
                                        {
                                            "name": event["event_name"],
                                            "timeUnixNano": str(event["timestamp"]),
                                            "attributes": pairs(event["attributes"]),
                                            **{k: event[k] for k in event.keys() & {"body"}},
                                        }
                                        for event in entry["span_events"]
                                    ],
                                }
                            ],
                        }
                    ],
                }
            ]
        }
        for entry in listed
    ]
