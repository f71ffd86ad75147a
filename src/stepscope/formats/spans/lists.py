"""Read flat lists of spans: what SDKs' in-memory and console exporters give when written as JSON.

A file is an array of spans, spans one a line, or objects with such an array under `spans`, which
may say something of the whole beside it. Three spellings: Python's (`trace_id`, `span_id`,
`start_time`, `span_events`), its `to_json` (`context`, ISO times), JavaScript's (`spanContext`,
times as seconds and nanoseconds). Spans of one trace are one run, wherever they stand in the file.
Attributes may be objects within objects, as Phoenix writes its spans: "llm.model_name" under "llm".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import parse_ns, rest, text_at
from stepscope.formats.format import DecodedRecord, FileFormat, quarantine_record
from stepscope.formats.opening import any_record
from stepscope.formats.spans.assemble import read_span_file
from stepscope.formats.spans.attributes import find_text
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus, make_event
from stepscope.model import Json, Quarantined

_NAME = "spans"
_STATUSES: dict[str, SpanStatus] = {
    **dict.fromkeys(("OK", "STATUS_CODE_OK", "1"), "ok"),
    **dict.fromkeys(("ERROR", "STATUS_CODE_ERROR", "2"), "error"),
    **dict.fromkeys(("UNSET", "STATUS_CODE_UNSET", "0"), "unset"),
}
_KNOWN = frozenset(
    "trace_id traceId span_id spanId context spanContext parent_span_id parentSpanId parent_id "
    "parentId name kind start_time startTime start_time_unix_nano startTimeUnixNano end_time "
    "endTime end_time_unix_nano endTimeUnixNano status attributes span_events events resource "
    "scope instrumentationScope instrumentationLibrary links".split()
)
# Keys beside a list of spans that make it a trace of MLflow.
_ELSEWHERE = frozenset({"trace_info", "trace_metadata", "request_metadata"})
_STARTS = ("start_time", "startTime", "start_time_unix_nano", "startTimeUnixNano")
_ENDS = ("end_time", "endTime", "end_time_unix_nano", "endTimeUnixNano")
_SCOPES = ("scope", "instrumentationScope", "instrumentationLibrary")
_STATUS = frozenset({"code", "status_code", "message", "description"})
_EVENT = frozenset({"name", "event_name", "timestamp", "time", "attributes"})
# Where one of these holds an object, keys are cut at their dots; not so what is JSON itself.
_ROOTS = ("openinference", "gen_ai", "llm")
_WHOLE = frozenset({"metadata", "tool.parameters", "llm.prompt_template.variables"})


def _is_like(record: Json) -> bool:
    if _is_span(record):
        return True
    if not isinstance(record, dict) or record.keys() & _ELSEWHERE:
        return False
    listed = record.get("spans")
    return isinstance(listed, list) and bool(listed) and _is_span(listed[0])


def _is_span(held: Json) -> bool:
    if not isinstance(held, dict) or not isinstance(held.get("name"), str):
        return False
    return _ids(held) is not None and ("attributes" in held or find_ns(held, *_STARTS) is not None)


def _ids(record: dict[str, Json]) -> tuple[str, str] | None:
    """Return the ids of trace and span, where the record has a span's."""
    for key in ("context", "spanContext"):
        if isinstance(record.get(key), dict):
            record = record[key]
            break
    span_id = text_at(record, "span_id") or text_at(record, "spanId")
    trace_id = text_at(record, "trace_id") or text_at(record, "traceId")
    if span_id is None or trace_id is None:
        return None
    return trace_id.removeprefix("0x"), span_id.removeprefix("0x")


def _members(record: DecodedRecord, beside: dict[str, Json]) -> Iterator[RawSpan | Quarantined]:
    value = record.value
    listed = value.get("spans") if isinstance(value, dict) and not _is_span(value) else None
    if isinstance(value, dict) and isinstance(listed, list):
        beside.update(rest(value, frozenset({"spans"})) or {})
    else:
        listed = [value]
    for entry in listed:
        try:
            yield read_flat_span(entry)
        except (TraceError, msgspec.ValidationError) as e:
            raw = record.raw if len(listed) == 1 else msgspec.json.encode(entry)
            yield quarantine_record(record._replace(raw=raw), e)


def read_flat_span(record: Json) -> RawSpan:
    """Return one span of a list."""
    ids = _ids(record) if isinstance(record, dict) else None
    if ids is None:
        found = str(record)[:60]
        raise TraceError(f"a span needs the ids of its trace and its own; found {found!r}")
    kind = record.get("kind", record.get("span_kind"))
    status = record.get("status", record.get("status_code"))
    message = text_at(record, "status_message")
    told = status if isinstance(status, dict) else {"code": status, "message": message}
    code = str(told.get("code", told.get("status_code", ""))).removeprefix("StatusCode.")
    message = text_at(told, "message") or text_at(told, "description")
    above, links = record.get("parentSpanContext"), record.get("links") or []
    parent = find_text(record, "parent_span_id", "parentSpanId", "parent_id", "parentId")
    parent = None if parent is None else parent.removeprefix("0x")
    resource = record.get("resource")
    inner = resource.get("attributes") if isinstance(resource, dict) else None
    if not isinstance(resource, dict):
        resource = {} if resource is None else {"resource": resource}
    events = record.get("span_events", record.get("events"))
    listed = events if isinstance(events, list) else [] if events is None else [events]
    extra = {**(rest(record, _KNOWN) or {}), **_more(record)}
    if status is not None and (code.upper() not in _STATUSES or not told.keys() <= _STATUS):
        extra["status"] = status
    return RawSpan(
        trace_id=ids[0],
        span_id=ids[1],
        parent_id=text_at(above, "spanId") if isinstance(above, dict) else parent,
        name=text_at(record, "name") or "",
        kind="" if kind is None else str(kind).removeprefix("SpanKind.").lower(),
        start_ns=find_ns(record, *_STARTS),
        end_ns=find_ns(record, *_ENDS),
        status=_STATUSES.get(code.upper(), "unset"),
        status_message=message,
        attributes=read_span_attributes(record.get("attributes")),
        events=tuple([_event(event) for event in listed]),
        resource=inner if isinstance(inner, dict) and len(resource) <= 2 else resource,
        scope=_scope(record),
        links=tuple(links) if isinstance(links, list) else (links,),
        extra=extra or None,
    )


def _more(record: dict[str, Json]) -> dict[str, Json]:
    """Return what ids and scope say beyond what a span has fields for."""
    known = {
        "context": frozenset({"trace_id", "span_id"}),
        "spanContext": frozenset({"traceId", "spanId"}),
        **dict.fromkeys(_SCOPES, frozenset({"name", "version"})),
    }
    found: dict[str, Json] = {}
    for key, names in known.items():
        held = record.get(key)
        if isinstance(held, dict) and (more := rest(held, names)):
            found[f"{key}_more"] = more
    return found


def read_span_attributes(value: Json) -> dict[str, Json]:
    """Return what stands under `attributes`; an empty object where nothing does."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise TraceError(f"a span needs an object under `attributes`; found {str(value)[:60]!r}")
    if not any([isinstance(value.get(root), dict) for root in _ROOTS]):
        return value
    return {key: held for name, found in value.items() for key, held in _joined(name, found)}


def _joined(key: str, value: Json) -> Iterator[tuple[str, Json]]:
    """Yield attributes by their whole keys: "llm.input_messages.0.message.role"."""
    inner: Iterable[tuple[object, Json]] = ()
    if isinstance(value, dict) and key not in _WHOLE:
        inner = value.items()
    elif isinstance(value, list) and all(isinstance(one, dict) for one in value):
        inner = enumerate(value)
    found = [one for name, held in inner for one in _joined(f"{key}.{name}", held)]
    yield from found or [(key, value)]


def find_ns(record: dict[str, Json], *keys: str) -> int | None:
    """Return the first time under any of the keys, in nanoseconds UTC since 1970."""
    times = (parse_nanoseconds(record.get(key)) for key in keys)
    return next((time for time in times if time is not None), None)


def parse_nanoseconds(value: Json) -> int | None:
    """Return nanoseconds UTC since 1970 of a number, digits, ISO, or seconds and the rest."""
    match value:
        case [int(seconds), int(rest_of_it)]:
            return seconds * 1_000_000_000 + rest_of_it
        case str() if value.isdecimal() and len(value) < 20:
            value = int(value)
    return parse_ns(value)


def _event(record: Json) -> SpanEvent:
    if not isinstance(record, dict):
        return SpanEvent(extra={"value": record})
    name = text_at(record, "name") or text_at(record, "event_name")
    time = parse_nanoseconds(record.get("timestamp", record.get("time")))
    return make_event(name, time, record.get("attributes"), rest(record, _EVENT))


def _scope(record: dict[str, Json]) -> str | None:
    for key in _SCOPES:
        scope = record.get(key)
        if isinstance(scope, dict) and isinstance(scope.get("name"), str):
            version = scope.get("version")
            return f"{scope['name']}@{version}" if version else str(scope["name"])
        if isinstance(scope, str):
            return scope
    return None


FORMAT = FileFormat(
    _NAME, any_record(_is_like, 0.95), partial(read_span_file, name=_NAME, members=_members)
)
