"""Read OTLP as JSON: a request or an export as one object, or one object a line.

Spans of one trace are one run, over however many lines, batches and resources they are spread. A
span that is none is quarantined alone. `decode_request` reads what an exporter sends, JSON or
protobuf.
Source: OTLP specification 1.9; the OpenTelemetry Collector's file exporter writes the lines.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import rest
from stepscope.formats.opening import Opening
from stepscope.formats.otlp_request import JSON, PROTOBUF, Refused, kind_of, read
from stepscope.formats.otlp_values import groups, span_of
from stepscope.formats.plain import Found, PlainFormat, found
from stepscope.formats.spans import Span
from stepscope.formats.spans.assembling import runs_of_file
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

_NAME = "otlp"
_KEYS = ("resourceSpans", "resource_spans")
_LIMITS = Limits()


def _likeness(seen: Opening) -> float:
    return 0.99 if any(_is_export(record) for record in seen.records) else 0.0


def _is_export(record: Json) -> bool:
    return isinstance(record, dict) and any(isinstance(record.get(key), list) for key in _KEYS)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    spans: list[Span] = []
    repairs: list[Repair] = []
    beside: dict[str, Json] = {}
    first: int | None = None
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        repairs.extend(record.repairs)
        for item in _members(record):
            if isinstance(item, Quarantined):
                yield item
            else:
                spans.append(item)
                first = record.offset if first is None else first
        if isinstance(record.value, dict):
            beside.update(rest(record.value, frozenset(_KEYS)) or {})
    source = Source(format=_NAME, uri=stream.uri, offset=first)
    yield from runs_of_file(
        spans, source=source, limits=stream.limits, extra=beside or None, repairs=repairs
    )


def _members(record: Found) -> Iterator[Span | Quarantined]:
    """Yield the spans of one record; what is none is quarantined, the others are kept."""
    if not _is_export(record.value):
        yield _aside(record, record.raw, "an OTLP export needs a list under `resourceSpans`")
        return
    try:
        listed = list(groups(record.value))
    except TraceError as e:
        yield _aside(record, record.raw, str(e))
        return
    if not listed and (len(record.value) > 1 or any(record.value.values())):
        yield _aside(record, record.raw, "an OTLP export without a span in it")
    for member in listed:
        try:
            yield span_of(member)
        except TraceError as e:
            yield _aside(record, msgspec.json.encode(member.span), str(e))


def _aside(record: Found, raw: bytes, reason: str) -> Quarantined:
    return Quarantined(reason=reason, offset=record.offset, raw=raw, uri=record.uri)


def decode_request(body: bytes, content_type: str, limits: Limits = _LIMITS) -> list[Span]:
    """Return the spans of one export request, as its content type says it is written.

    Raises:
        TraceError: the body is not what its content type says, or a span in it is none.
    """
    kind = kind_of(content_type)
    if kind not in {JSON, PROTOBUF}:
        raise TraceError(
            f"a request needs content of type {JSON} or {PROTOBUF}; found {content_type[:60]!r}"
        )
    spans: list[Span] = []
    for item in read(body, kind, limits):
        if isinstance(item, Refused):
            raise TraceError(item.reason)
        spans.append(item.span)
    return spans


FORMAT = PlainFormat(_NAME, _likeness, _read)
