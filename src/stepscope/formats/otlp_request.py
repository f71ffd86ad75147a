"""What an exporter sends in one request: its spans one by one, and why some of them are none.

Each span is read alone, so that a broken one is refused alone and no more than one of them stands
in memory beside the request. Protobuf and JSON give the same spans.
Source: OTLP specification 1.9, "OTLP/HTTP".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from stepscope.errors import LimitError, TraceError
from stepscope.formats.otlp_values import Member, groups, span_of
from stepscope.formats.otlp_wire import Reader
from stepscope.formats.otlp_wire_values import MAX_VALUES
from stepscope.formats.spans import Span
from stepscope.formats.spans.limiting import limited
from stepscope.safety.door import Repair, decode
from stepscope.safety.forgiving import told
from stepscope.safety.limits import Limits

PROTOBUF = "application/x-protobuf"
JSON = "application/json"


class Received(NamedTuple):
    """A span, and what was repaired in it."""

    span: Span
    repairs: tuple[Repair, ...] = ()


class Refused(NamedTuple):
    """Why something that stands where a span should is none."""

    reason: str


_Raws = dict[str, msgspec.Raw]
_objects = msgspec.json.Decoder(_Raws).decode
_lists = msgspec.json.Decoder(list[_Raws]).decode
_spans = msgspec.json.Decoder(list[msgspec.Raw]).decode
# Both spellings of the protocol's names; the older one of scopes too.
_GROUPS = ("resourceSpans", "resource_spans")
_SCOPES = (
    "scopeSpans",
    "scope_spans",
    "instrumentationLibrarySpans",
    "instrumentation_library_spans",
)


def kind_of(content_type: str) -> str:
    """Return a content type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def read(body: bytes, kind: str, limits: Limits) -> Iterator[Received | Refused]:
    """Yield every span of a request, and every one that is none.

    Args:
        body: the request, decompressed.
        kind: `PROTOBUF` or `JSON`.
        limits: of texts, depth and attributes; of spans as well, since a trace may not have more.

    Raises:
        TraceError: the body as a whole is no request.
        LimitError: it holds more values, or more spans, than fit into memory.
    """
    found = _protobuf(body, limits) if kind == PROTOBUF else _json(body, limits)
    for count, item in enumerate(found):
        if count >= limits.spans:
            raise LimitError(f"a request of more than {limits.spans:,} spans (limits.spans)")
        yield _within(item, limits) if isinstance(item, Received) else item


def _within(item: Received, limits: Limits) -> Received:
    kept = limited(item.span, limits)
    if kept is item.span:
        return item
    return Received(kept, (*item.repairs, *told({"attributes_cut": 1})))


def _protobuf(body: bytes, limits: Limits) -> Iterator[Received | Refused]:
    reader = Reader(body, limits)
    for place in reader.places():
        try:
            span = reader.span(place)
        except LimitError:
            raise
        except TraceError as e:
            reader.repairs()
            yield Refused(str(e))
        else:
            yield Received(span, reader.repairs())


def _json(body: bytes, limits: Limits) -> Iterator[Received | Refused]:
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
        raise TraceError(
            f"a request needs `resourceSpans`; found keys {', '.join(list(whole)[:6])}"
        )


def _group(name: str, group: _Raws, limits: Limits) -> Iterator[Received | Refused]:
    for key, scoped in _each(group, _SCOPES):
        spans = scoped.pop("spans", None)
        if spans is None or _is_null(spans):
            continue
        around = {at: _value(held, limits) for at, held in group.items() if at not in _SCOPES}
        inner = {at: _value(held, limits) for at, held in scoped.items()}
        # One span that is none yet stands for all: what is around it is read once.
        (frame,) = groups({name: [{**around, key: [{**inner, "spans": [None]}]}]})
        for raw in _spans(spans):
            yield _span(raw, frame, limits)


def _span(raw: msgspec.Raw, frame: Member, limits: Limits) -> Received | Refused:
    try:
        value, repairs = decode(bytes(raw), limits=limits)
        return Received(span_of(frame._replace(span=value)), repairs)
    except TraceError as e:
        return Refused(str(e))


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
