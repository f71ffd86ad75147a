"""Read OTLP: files of JSON (one object, or one object a line) and requests of exporters.

Spans of one trace are one run, over however many lines, batches and resources they are spread. Each
span is read alone, so that a broken one is refused alone, and of a request no more than one span
stands in memory beside it. Protobuf and JSON give the same spans.
Source: OTLP specification 1.9, "OTLP/HTTP"; the OpenTelemetry Collector's file exporter writes the
lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from stepscope.errors import LimitError, TraceError
from stepscope.formats.fields import rest
from stepscope.formats.format import DecodedRecord, FileFormat, quarantine_record
from stepscope.formats.opening import any_record
from stepscope.formats.otlp.protobuf import MAX_VALUES, ProtobufReader
from stepscope.formats.otlp.values import RequestSpan, decode_span, iter_request_spans
from stepscope.formats.spans.assemble import read_span_file
from stepscope.formats.spans.span import RawSpan, limit_attributes
from stepscope.model import Json, Quarantined
from stepscope.safety.json import Repair, decode, list_repairs
from stepscope.safety.limits import Limits

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


class ReceivedSpan(NamedTuple):
    """A span, and what was repaired in it."""

    span: RawSpan
    repairs: tuple[Repair, ...] = ()


_Raws = dict[str, msgspec.Raw]
_objects = msgspec.json.Decoder(_Raws).decode
_lists = msgspec.json.Decoder(list[_Raws]).decode
_spans = msgspec.json.Decoder(list[msgspec.Raw]).decode
# Both spellings of the protocol's names; the older one of scopes too.
_GROUPS = ("resourceSpans", "resource_spans")
_LIBRARIES = ("instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPES = ("scopeSpans", "scope_spans", *_LIBRARIES)


def media_type(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def read_request(body: bytes, kind: str, limits: Limits) -> Iterator[ReceivedSpan | TraceError]:
    """Yield every span of a decompressed request; of one that is none, the error that says why.

    `kind` is `PROTOBUF` or `JSON`; no request may have more spans than a trace may. `TraceError`
    where the body as a whole is no request, `LimitError` where it does not fit into memory.
    """
    found = _protobuf(body, limits) if kind == PROTOBUF else _json(body, limits)
    for count, item in enumerate(found):
        if count >= limits.spans:
            raise LimitError(f"a request of more than {limits.spans:,} spans (limits.spans)")
        yield _within(item, limits) if isinstance(item, ReceivedSpan) else item


def _within(item: ReceivedSpan, limits: Limits) -> ReceivedSpan:
    kept = limit_attributes(item.span, limits)
    if kept is item.span:
        return item
    return ReceivedSpan(kept, (*item.repairs, *list_repairs({"attributes_cut": 1})))


def _protobuf(body: bytes, limits: Limits) -> Iterator[ReceivedSpan | TraceError]:
    reader = ProtobufReader(body, limits)
    for place in reader.places():
        try:
            span = reader.span(place)
        except LimitError:
            raise
        except TraceError as e:
            reader.repairs()
            yield TraceError(str(e))  # without the frames that a raised one holds
        else:
            yield ReceivedSpan(span, reader.repairs())


def _json(body: bytes, limits: Limits) -> Iterator[ReceivedSpan | TraceError]:
    """Yield the spans of a request in JSON; every record is decoded by the one door."""
    # In JSON the smallest values take the most memory: they are counted before they are made.
    if body.count(b"{") + body.count(b"[") > MAX_VALUES or body.count(b",") > 3 * MAX_VALUES:
        raise LimitError(f"a request of more than {MAX_VALUES:,} values; send less at once")
    try:
        whole = _objects(body)
        for name, group in _each(whole, _GROUPS):
            yield from _group(name, group, limits)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        decode(body, limits=limits)  # says where it is no JSON
        raise TraceError(f"a request needs lists of objects under `resourceSpans`: {e}") from e
    if not any(key in whole for key in _GROUPS) and whole:
        keys = ", ".join(list(whole)[:6])
        raise TraceError(f"a request needs `resourceSpans`; found keys {keys}")


def _group(name: str, group: _Raws, limits: Limits) -> Iterator[ReceivedSpan | TraceError]:
    for key, scoped in _each(group, _SCOPES):
        spans = scoped.pop("spans", None)
        if spans is None or _is_null(spans):
            continue
        around = {at: _value(held, limits) for at, held in group.items() if at not in _SCOPES}
        inner = {at: _value(held, limits) for at, held in scoped.items()}
        # One span that is none yet stands for all: what is around it is read once.
        (frame,) = iter_request_spans({name: [{**around, key: [{**inner, "spans": [None]}]}]})
        for raw in _spans(spans):
            yield _span(raw, frame, limits)


def _span(raw: msgspec.Raw, frame: RequestSpan, limits: Limits) -> ReceivedSpan | TraceError:
    try:
        value, repairs = decode(bytes(raw), limits=limits)
        return ReceivedSpan(decode_span(frame._replace(span=value)), repairs)
    except TraceError as e:
        return TraceError(str(e))


def _each(record: _Raws, keys: tuple[str, ...]) -> Iterator[tuple[str, _Raws]]:
    for key in keys:
        held = record.get(key)
        if held is not None and not _is_null(held):
            for entry in _lists(held):
                yield key, entry


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(memoryview(raw)[:4]) == b"null"


def _value(raw: msgspec.Raw, limits: Limits) -> Any:  # JSON of the sender's making
    return decode(bytes(raw), limits=limits).value


_NAME = "otlp"


def _is_export(record: Json) -> bool:
    return isinstance(record, dict) and any(isinstance(record.get(key), list) for key in _GROUPS)


def _members(record: DecodedRecord, beside: dict[str, Json]) -> Iterator[RawSpan | Quarantined]:
    """Yield the spans of one record; what is none is quarantined, the others are kept."""
    if isinstance(record.value, dict):
        beside.update(rest(record.value, frozenset(_GROUPS)) or {})
    if not _is_export(record.value):
        yield quarantine_record(record, "an OTLP export needs a list under `resourceSpans`")
        return
    try:
        listed = list(iter_request_spans(record.value))
    except TraceError as e:
        yield quarantine_record(record, e)
        return
    if not listed and (len(record.value) > 1 or any(record.value.values())):
        yield quarantine_record(record, "an OTLP export without a span in it")
    for member in listed:
        try:
            yield decode_span(member)
        except TraceError as e:
            yield quarantine_record(record._replace(raw=msgspec.json.encode(member.span)), e)


FORMAT = FileFormat(
    _NAME, any_record(_is_export, 0.99), partial(read_span_file, name=_NAME, members=_members)
)
