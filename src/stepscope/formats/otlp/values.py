"""OTLP's spans as JSON, read and written: typed values, ids in hex, 64-bit numbers as text.

Read: keys are lowerCamelCase; snake_case, numbers for texts and names for enumerations, which some
writers give, are understood. What a span says beyond the protocol stays in `extra`. Written: ids
are 16 and 8 bytes in hex, whole numbers text, enumerations numbers; what the protocol cannot say of
a span is left out.
Source: opentelemetry-proto 1.45.2, `trace/v1/trace.proto`, `common/v1/common.proto`; OTLP
specification 1.9, "JSON Protobuf Encoding".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.fields import expect_object, object_at, rest
from stepscope.formats.spans.attributes import decode_attributes, parse_whole, to_camel_case
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus, make_event
from stepscope.model import Json

KINDS = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES: dict[Json, SpanStatus] = {
    **dict.fromkeys((0, "STATUS_CODE_UNSET"), "unset"),
    **dict.fromkeys((1, "STATUS_CODE_OK"), "ok"),
    **dict.fromkeys((2, "STATUS_CODE_ERROR"), "error"),
}
_SPAN = frozenset(
    "traceId spanId parentSpanId name kind startTimeUnixNano endTimeUnixNano attributes events "
    "links status".split()
)
_EVENT = frozenset({"name", "timeUnixNano", "attributes"})
_ATTRIBUTES = frozenset({"attributes"})
_GROUP = frozenset({"resource", "scopeSpans", "instrumentationLibrarySpans"})
_SCOPED = frozenset({"scope", "instrumentationLibrary", "spans"})
_SCOPE = frozenset({"name", "version"})


def _camel(record: dict[str, Json]) -> dict[str, Json]:
    if not any("_" in key for key in record):
        return record
    return {to_camel_case(key): found for key, found in record.items()}


class RequestSpan(NamedTuple):
    """A span in a request, its resource and scope; `beside` is what groups say beyond those."""

    span: Json
    resource: dict[str, Json]
    scope: str | None
    beside: dict[str, Json]


def iter_request_spans(body: dict[str, Json]) -> Iterator[RequestSpan]:
    """Yield every span of a request or an export line, with its resource and its scope."""
    for group in _each(body, "resourceSpans"):
        about = object_at(group, "resource")
        attributes = decode_attributes(about.get("attributes"))
        of_group = name_extras(resource=rest(about, _ATTRIBUTES), group=rest(group, _GROUP))
        for scoped in [*_each(group, "scopeSpans"), *_each(group, "instrumentationLibrarySpans")]:
            scope = scoped.get("scope", scoped.get("instrumentationLibrary"))
            spans = scoped.get("spans")
            if spans is not None and not isinstance(spans, list):
                raise TraceError(f"`spans` needs a list; found {str(spans)[:60]!r}")
            known = rest(scope, _SCOPE) if isinstance(scope, dict) else None
            beside = {**of_group, **name_extras(scope=known, scope_group=rest(scoped, _SCOPED))}
            for span in spans or []:
                yield RequestSpan(span, attributes, _scope(scope), beside)


def name_extras(**found: dict[str, Json] | None) -> dict[str, Json]:
    """Return what parts of a request say beyond their known fields, as `NAME_more`."""
    return {f"{name}_more": more for name, more in found.items() if more}


def _each(record: dict[str, Json], key: str) -> list[dict[str, Json]]:
    listed = _camel(record).get(key)
    if listed is None:
        return []
    if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed):
        return [_camel(entry) for entry in listed]
    raise TraceError(f"`{key}` needs a list of objects; found {str(listed)[:60]!r}")


def _scope(scope: Json) -> str | None:
    if not isinstance(scope, dict) or not isinstance(scope.get("name"), str) or not scope["name"]:
        return None
    version = scope.get("version")
    return f"{scope['name']}@{version}" if version else str(scope["name"])


def decode_span(member: RequestSpan) -> RawSpan:
    """Return one span of a request."""
    span = _camel(expect_object(member.span, "a span needs an object"))
    status = span.get("status")
    told = status if isinstance(status, dict) else {}
    code = told.get("code", 0)
    extra = {**member.beside, **(rest(span, _SPAN) or {})}
    if not isinstance(code, int | str) or code not in _STATUSES:
        code, extra["status"] = 0, status
    trace_id, span_id = _hex(span, "traceId"), _hex(span, "spanId")
    if span_id is None:
        raise TraceError(f"a span needs a `spanId`; found keys {', '.join(list(span)[:6])}")
    return RawSpan(
        trace_id=trace_id or "",
        span_id=span_id,
        parent_id=_hex(span, "parentSpanId"),
        name=_text(span, "name") or "",
        kind=_kind(span.get("kind")),
        start_ns=_time(span, "startTimeUnixNano"),
        end_ns=_time(span, "endTimeUnixNano"),
        status=_STATUSES[code],
        status_message=_text(told, "message"),
        attributes=decode_attributes(span.get("attributes")),
        events=tuple([_decode_event(event) for event in _each(span, "events")]),
        resource=member.resource,
        scope=member.scope,
        links=tuple(
            {**link, "attributes": decode_attributes(link.get("attributes"))}
            for link in _each(span, "links")
        ),
        extra=extra or None,
    )


def _decode_event(event: dict[str, Json]) -> SpanEvent:
    name, about = _text(event, "name"), decode_attributes(event.get("attributes"))
    return make_event(name, _time(event, "timeUnixNano"), about, rest(event, _EVENT))


def _hex(span: dict[str, Json], key: str) -> str | None:
    """Return an id in lower case: hex may be written in either."""
    text = _text(span, key)
    return None if text is None else text.lower()


def _text(record: dict[str, Json], key: str) -> str | None:
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value or None
    raise TraceError(f"a span needs text under `{key}`; found {str(value)[:60]!r}")


def _kind(kind: Json) -> str:
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(KINDS):
        return KINDS[kind]
    return "" if kind is None else str(kind).removeprefix("SPAN_KIND_").lower()


def _time(record: dict[str, Json], key: str) -> int | None:
    value = record.get(key)
    whole = parse_whole(value) if isinstance(value, str) else value
    if whole is None or (whole == 0 and whole is not False):
        return None
    if not isinstance(whole, int) or isinstance(whole, bool):
        raise TraceError(f"a span needs nanoseconds under `{key}`; found {str(value)[:60]!r}")
    return whole if 0 < whole < 2**63 else None


TRACE_DIGITS, SPAN_DIGITS = 32, 16
_INT = 2**63
_HEX = re.compile(r"[0-9a-f]+").fullmatch
_CODES = {"unset": 0, "ok": 1, "error": 2}
_COUNTS = ("flags", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount")


def any_value_json(value: Json) -> dict[str, Json]:
    """Return a value as an AnyValue; a number that 64 bits with a sign cannot hold becomes text."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {("intValue" if -_INT <= value < _INT else "stringValue"): str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": attributes_json(value)}}
    return {"arrayValue": {"values": [any_value_json(entry) for entry in value]}}


def attributes_json(found: Mapping[str, Json]) -> list[Json]:
    """Return attributes as the list of keys and values that they are in OTLP."""
    return [{"key": key, "value": any_value_json(value)} for key, value in found.items()]


def make_id(text: str, digits: int) -> str:
    """Return an id of this many hex digits: the text itself where it is one, else its hash."""
    if len(text) == digits and _HEX(text) and text.strip("0"):
        return text
    return sha256(text.encode()).hexdigest()[:digits]


def scope_json(span: RawSpan) -> dict[str, Json]:
    """Return the scope of a span, as the group that holds it has it."""
    if span.scope is None:
        return {}
    name, at, version = span.scope.rpartition("@")
    return {"scope": {"name": name, "version": version} if at and name else {"name": span.scope}}


def span_json(span: RawSpan) -> dict[str, Json]:
    """Return a span whose ids are hex already as OTLP's JSON."""
    found: dict[str, Json] = {"traceId": span.trace_id, "spanId": span.span_id}
    if span.parent_id is not None:
        found["parentSpanId"] = span.parent_id
    found |= {"name": span.name, "kind": KINDS.index(span.kind) if span.kind in KINDS else 0}
    for key, ns in (("startTimeUnixNano", span.start_ns), ("endTimeUnixNano", span.end_ns)):
        if ns is not None and 0 < ns < _INT:
            found[key] = str(ns)
    if span.attributes:
        found["attributes"] = attributes_json(span.attributes)
    if span.events:
        found["events"] = [_event_json(event) for event in span.events]
    if links := [made for link in span.links if (made := _link_json(link)) is not None]:
        found["links"] = links
    if span.status != "unset" or span.status_message is not None:
        message = {} if span.status_message is None else {"message": span.status_message}
        found["status"] = {"code": _CODES[span.status], **message}
    # Of all that a span says beside, what the protocol has fields for.
    extra = span.extra or {}
    found |= {key: n for key in _COUNTS if type(n := extra.get(key)) is int and 0 <= n < 2**32}
    if isinstance(state := extra.get("traceState"), str):
        found["traceState"] = state
    return found


def _event_json(event: SpanEvent) -> dict[str, Json]:
    found: dict[str, Json] = {"name": event.name}
    if event.time_ns is not None and 0 < event.time_ns < _INT:
        found["timeUnixNano"] = str(event.time_ns)
    if event.attributes:
        found["attributes"] = attributes_json(event.attributes)
    return found


def _link_json(link: Json) -> dict[str, Json] | None:
    """Return a link, None where it names no span."""
    match link:
        case {"traceId": str(trace_id), "spanId": str(span_id)}:
            about = object_at(link, "attributes")
            return {
                "traceId": make_id(trace_id, TRACE_DIGITS),
                "spanId": make_id(span_id, SPAN_DIGITS),
                **({"attributes": attributes_json(about)} if about else {}),
            }
    return None
