"""Spans as OTLP's JSON: what `otlp_values` reads, written.

Ids are 16 and 8 bytes in hex, whole numbers text, enumerations numbers. What the protocol cannot
say of a span stays under the span's own attribute `stepscope.span`, so that reading it back gives
an equal span: `sealed` proves it for every span.
Source: opentelemetry-proto 1.45.2; OTLP specification 1.9, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from stepscope.formats.otlp_marks import SPAN_KEY, packed
from stepscope.formats.otlp_residue import difference
from stepscope.formats.otlp_values import KINDS, groups, span_of
from stepscope.formats.spans.span import Span, SpanEvent
from stepscope.model import Json

TRACE_DIGITS, SPAN_DIGITS = 32, 16
_INT = 2**63
_HEX = re.compile(r"[0-9a-f]+").fullmatch
_CODES = {"unset": 0, "ok": 1, "error": 2}
_COUNTS = ("flags", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")


def any_value(value: Json) -> dict[str, Json]:
    """Return a value as an AnyValue; a number that 64 bits with a sign cannot hold becomes text.

    >>> any_value([1, "a", None])
    {'arrayValue': {'values': [{'intValue': '1'}, {'stringValue': 'a'}, {}]}}
    """
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        held = "intValue" if -_INT <= value < _INT else "stringValue"
        return {held: str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": attributes(value)}}
    return {"arrayValue": {"values": [any_value(entry) for entry in value]}}


def attributes(found: Mapping[str, Json]) -> list[Json]:
    """Return attributes as the list of keys and values that they are in OTLP."""
    return [{"key": key, "value": any_value(value)} for key, value in found.items()]


def id_of(text: str, digits: int) -> str:
    """Return an id of this many hex digits: the text itself where it is one, else its hash.

    >>> id_of("00f067aa0ba902b7", 16), id_of("span-1", 16)
    ('00f067aa0ba902b7', '9ada893a7bf38e94')
    """
    if len(text) == digits and _HEX(text) and text.strip("0"):
        return text
    return sha256(text.encode()).hexdigest()[:digits]


def sealed(span: Span, trace_id: str) -> Span:
    """Return a span with ids that OTLP can hold, and what that changes of it kept beside."""
    parent = None if span.parent_id is None else id_of(span.parent_id, SPAN_DIGITS)
    told = msgspec.structs.replace(
        span, trace_id=trace_id, span_id=id_of(span.span_id, SPAN_DIGITS), parent_id=parent
    )
    lost = difference(span, read_back(told))
    if not lost:
        return told
    about = {**told.attributes, SPAN_KEY: packed(lost)}
    return msgspec.structs.replace(told, attributes=about)


def read_back(span: Span) -> Span:
    """Return a span as reading it again gives it."""
    inside = {**scoped(span), "spans": [record(span)]}
    (member,) = groups({"resourceSpans": [{**group(span), "scopeSpans": [inside]}]})
    return span_of(member)


def group(span: Span) -> dict[str, Json]:
    """Return the resource of a span, as the group that holds it has it."""
    return {"resource": {"attributes": attributes(span.resource)}}


def scoped(span: Span) -> dict[str, Json]:
    """Return the scope of a span, as the group that holds it has it."""
    if span.scope is None:
        return {}
    name, at, version = span.scope.rpartition("@")
    return {"scope": {"name": name, "version": version} if at and name else {"name": span.scope}}


def record(span: Span) -> dict[str, Json]:
    """Return a span whose ids are hex already as OTLP's JSON."""
    found: dict[str, Json] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        found["parentSpanId"] = span.parent_id
    found |= {"name": span.name, "kind": KINDS.index(span.kind) if span.kind in KINDS else 0}
    for key, ns in (("startTimeUnixNano", span.start_ns), ("endTimeUnixNano", span.end_ns)):
        if ns is not None and 0 < ns < _INT:
            found[key] = str(ns)
    if span.attributes:
        found["attributes"] = attributes(span.attributes)
    if span.events:
        found["events"] = [_event(event) for event in span.events]
    if links := [_link(link) for link in span.links if _is_link(link)]:
        found["links"] = links
    if span.status != "unset" or span.status_message is not None:
        message = {} if span.status_message is None else {"message": span.status_message}
        found["status"] = {"code": _CODES[span.status], **message}
    return {**found, **_known(span.extra or {})}


def _known(extra: Mapping[str, Json]) -> dict[str, Json]:
    """Return what the protocol has fields for, of all that a span says beside."""
    counts = {key: extra[key] for key in _COUNTS if _is_count(extra.get(key))}
    state = extra.get("traceState")
    return {**counts, **({"traceState": state} if isinstance(state, str) else {})}


def _is_count(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32


def _event(event: SpanEvent) -> dict[str, Json]:
    found: dict[str, Json] = {"name": event.name}
    if event.time_ns is not None and 0 < event.time_ns < _INT:
        found["timeUnixNano"] = str(event.time_ns)
    if event.attributes:
        found["attributes"] = attributes(event.attributes)
    return found


def _is_link(link: Json) -> bool:
    return isinstance(link, dict) and all(
        isinstance(link.get(key), str) for key in ("traceId", "spanId")
    )


def _link(link: dict[str, Json]) -> dict[str, Json]:
    found: dict[str, Json] = {
        "traceId": id_of(link["traceId"], TRACE_DIGITS),
        "spanId": id_of(link["spanId"], SPAN_DIGITS),
    }
    if isinstance(link.get("attributes"), dict) and link["attributes"]:
        found["attributes"] = attributes(link["attributes"])
    return found
