"""A span of MLflow as a span: ids as OpenTelemetry writes them, whatever form they came in.

Version 3 of the schema has ids as base64 of their bytes, 3.5 as text, the versions before as hex
behind `0x`, within `context`; the server answers in OTLP's own fields. Attributes stay as they
came, each JSON in text.
Source: mlflow-skinny 3.17.2, `entities/span.py`.
"""

from __future__ import annotations

import base64
import binascii
import re

from stepscope.errors import TraceError
from stepscope.formats.building import rest, text_at
from stepscope.formats.mlflow_records import Record
from stepscope.formats.otlp_values import attributes_of
from stepscope.formats.spans.lists import nanoseconds
from stepscope.formats.spans.span import Span, SpanEvent, SpanStatus
from stepscope.model import Json

_HEX = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?\Z").match
# Bytes of a span's and of a trace's id.
_SIZES = (8, 16)
_STATUSES: dict[str, SpanStatus] = {"OK": "ok", "ERROR": "error", "UNSET": "unset"}
_KNOWN = frozenset(
    "trace_id span_id parent_span_id context parent_id name start_time_unix_nano "
    "end_time_unix_nano start_time end_time status status_code status_message events attributes "
    "links kind".split()
)
_EVENT = frozenset({"name", "time_unix_nano", "timestamp", "attributes"})


def otel_id(value: Json) -> str | None:
    """Return an id of a trace or a span in hex, as it is where no form of one is known.

    >>> otel_id("EkIz6dXEn2k="), otel_id("0x124233e9d5c49f69"), otel_id("tr-1")
    ('124233e9d5c49f69', '124233e9d5c49f69', '1')
    """
    if not isinstance(value, str) or not value:
        return None
    plain = value.rpartition("/")[2] if value.startswith("trace:/") else value
    plain = plain.removeprefix("tr-").removeprefix("0x")
    if _HEX(plain):
        return plain
    try:
        held = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return plain
    return held.hex() if len(held) in _SIZES else plain


def span_trace(record: Record) -> str | None:
    """Return the id of the trace that a span itself names, in hex."""
    context = record.get("context")
    return otel_id((context if isinstance(context, dict) else record).get("trace_id"))


def span_of(record: Json, trace_id: str) -> Span:
    """Return one span of a trace; another trace that it names itself stays in its `extra`.

    Raises:
        TraceError: no object, no id, or no object under its attributes.
    """
    if not isinstance(record, dict):
        raise TraceError(f"a span needs an object; found {str(record)[:60]!r}")
    context = record.get("context")
    ids = context if isinstance(context, dict) else record
    own = otel_id(ids.get("span_id"))
    if own is None:
        raise TraceError(f"a span needs text under `span_id`; found {str(ids)[:60]!r}")
    status, message, unread = _status(record)
    extra = {**(rest(record, _KNOWN) or {}), **unread}
    if span_trace(record) not in (None, trace_id):
        extra["trace_id"] = ids.get("trace_id")
    links = record.get("links") or []
    return Span(
        trace_id=trace_id,
        span_id=own,
        parent_id=otel_id(record.get("parent_span_id") or record.get("parent_id")),
        name=text_at(record, "name") or "",
        kind=str(record.get("kind") or "").removeprefix("SPAN_KIND_").lower(),
        start_ns=_time(record, "start_time_unix_nano", "start_time"),
        end_ns=_time(record, "end_time_unix_nano", "end_time"),
        status=status,
        status_message=message,
        attributes=_attributes(record),
        events=_events(record),
        links=tuple(links) if isinstance(links, list) else (links,),
        extra=extra or None,
    )


def _status(record: Record) -> tuple[SpanStatus, str | None, Record]:
    """Return what the span came to, its message, and what of the status is not understood."""
    told = record.get("status")
    if not isinstance(told, dict):
        told = {
            "code": told if told is not None else record.get("status_code"),
            "message": record.get("status_message"),
        }
    code = str(told.get("code") or "UNSET").removeprefix("STATUS_CODE_").upper()
    known = code in _STATUSES and told.keys() <= {"code", "message"}
    message = text_at(told, "message") or None
    return _STATUSES.get(code, "unset"), message, {} if known else {"status": told}


def _time(record: Record, *keys: str) -> int | None:
    for key in keys:
        time = nanoseconds(record.get(key))
        if time is not None:
            return time
    return None


def _attributes(record: Record) -> dict[str, Json]:
    found = record.get("attributes")
    if isinstance(found, list):
        return attributes_of(found)
    if found is None or isinstance(found, dict):
        return found or {}
    raise TraceError(f"a span needs an object under `attributes`; found {str(found)[:60]!r}")


def _events(record: Record) -> tuple[SpanEvent, ...]:
    listed = record.get("events") or []
    return tuple([_event(event) for event in (listed if isinstance(listed, list) else [listed])])


def _event(event: Json) -> SpanEvent:
    if not isinstance(event, dict):
        return SpanEvent(extra={"value": event})
    held = event.get("attributes")
    about = attributes_of(held) if isinstance(held, list) else held
    extra = rest(event, _EVENT) or {}
    if about is not None and not isinstance(about, dict):
        extra["attributes"] = about
    return SpanEvent(
        name=text_at(event, "name") or "",
        time_ns=_time(event, "time_unix_nano", "timestamp"),
        attributes=about if isinstance(about, dict) else {},
        extra=extra or None,
    )
