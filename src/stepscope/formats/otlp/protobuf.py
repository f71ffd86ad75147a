"""Read and write OTLP's spans as protobuf, without a library.

A span is read alone: one that is broken is refused alone, and no more is held in memory than the
request and one span. Lengths are checked before anything is sliced; groups, which Protocol Buffers
gave up before OTLP was written, are refused. A text that is too long is cut with a mark, NUL is
escaped, a number that is none becomes text; each is counted as a repair. A request may hold no more
values than memory has room for. Fields that the protocol did not have when this was written stay,
as base64 by field number, in `extra`. Of messages, only what `otlp.values` writes is encoded.
Source: Protocol Buffers documentation, "Encoding"; opentelemetry-proto 1.45.2,
`collector/trace/v1`, `trace/v1/trace.proto`, `common/v1/common.proto`,
`resource/v1/resource.proto`.
"""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stepscope.errors import LimitError, TraceError
from stepscope.formats.otlp.values import KINDS
from stepscope.formats.spans import RawSpan, SpanEvent, SpanStatus
from stepscope.model import Json
from stepscope.safety.json import Repair, list_repairs, truncate_text
from stepscope.safety.limits import Limits

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class ProtobufField(NamedTuple):
    """A field of a message: of a number `at` is the value; of all else the bytes from..to."""

    number: int
    kind: int
    at: int
    end: int


def read_fields(raw: bytes, at: int, end: int) -> Iterator[ProtobufField]:
    """Yield the fields of the message that `raw` holds from `at` to `end`.

    Raises:
        TraceError: a field reaches beyond the message, or is of a kind that is no more in use.
    """
    while at < end:
        key, at = _read_varint(raw, at, end)
        kind = key & 7
        if kind == BYTES:
            size, at = _read_varint(raw, at, end)
            after = at + size
        elif kind == VARINT:
            value, at = _read_varint(raw, at, end)
            yield ProtobufField(key >> 3, kind, value, at)
            continue
        elif kind == FIXED64:
            after = at + 8
        elif kind == FIXED32:
            after = at + 4
        else:
            raise TraceError(f"not protobuf: a field of kind {kind} at byte {at}")
        if after > end:
            raise TraceError(f"not protobuf: a field at byte {at} ends behind its message")
        yield ProtobufField(key >> 3, kind, at, after)
        at = after


def _read_varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the number at a place of a message, and the place behind it."""
    value = shift = 0
    while at < end and shift < 70:
        byte = raw[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
        shift += 7
    raise TraceError(f"not protobuf: a number at byte {at} has no end")


def to_signed(value: int) -> int:
    """Return a varint of 64 bits as the signed number that it stands for."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


# The fields of each message by their name in JSON: number, and scalar or message that they hold.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "Request": {"resourceSpans": (1, "ResourceSpans")},
    "ResourceSpans": {"resource": (1, "Resource"), "scopeSpans": (2, "ScopeSpans")},
    "Resource": {"attributes": (1, "KeyValue")},
    "ScopeSpans": {"scope": (1, "Scope"), "spans": (2, "Span")},
    "Scope": {"name": (1, "text"), "version": (2, "text")},
    "Span": {
        "traceId": (1, "hex"),
        "spanId": (2, "hex"),
        "traceState": (3, "text"),
        "parentSpanId": (4, "hex"),
        "name": (5, "text"),
        "kind": (6, "number"),
        "startTimeUnixNano": (7, "fixed64"),
        "endTimeUnixNano": (8, "fixed64"),
        "attributes": (9, "KeyValue"),
        "droppedAttributesCount": (10, "number"),
        "events": (11, "Event"),
        "droppedEventsCount": (12, "number"),
        "links": (13, "Link"),
        "droppedLinksCount": (14, "number"),
        "status": (15, "Status"),
        "flags": (16, "fixed32"),
    },
    "Event": {
        "timeUnixNano": (1, "fixed64"),
        "name": (2, "text"),
        "attributes": (3, "KeyValue"),
    },
    "Link": {"traceId": (1, "hex"), "spanId": (2, "hex"), "attributes": (4, "KeyValue")},
    "Status": {"message": (2, "text"), "code": (3, "number")},
    "KeyValue": {"key": (1, "text"), "value": (2, "AnyValue")},
    "AnyValue": {
        "stringValue": (1, "text"),
        "boolValue": (2, "number"),
        "intValue": (3, "number"),
        "doubleValue": (4, "double"),
        "arrayValue": (5, "ArrayValue"),
        "kvlistValue": (6, "KeyValueList"),
    },
    "ArrayValue": {"values": (1, "AnyValue")},
    "KeyValueList": {"values": (1, "KeyValue")},
}


def encode_protobuf(body: bytes) -> bytes:
    """Return a request that `otlp_write` made as protobuf."""
    return _encode_message("Request", msgspec.json.decode(body))


def _encode_message(kind: str, found: dict[str, Json]) -> bytes:
    known = _MESSAGES[kind]
    parts: list[bytes] = []
    for name, value in found.items():
        number, holds = known[name]
        for entry in value if isinstance(value, list) else [value]:
            parts.append(_encode_field(number, holds, entry))
    return b"".join(parts)


def _encode_field(number: int, holds: str, value: Json) -> bytes:
    held: bytes
    match holds:
        case "number":
            return _encode_key(number, VARINT) + _encode_varint(int(value) & (2**64 - 1))
        case "fixed64":
            return _encode_key(number, FIXED64) + struct.pack("<Q", int(value))
        case "fixed32":
            return _encode_key(number, FIXED32) + struct.pack("<I", int(value))
        case "double":
            return _encode_key(number, FIXED64) + struct.pack("<d", value)
        case "text":
            held = value.encode()
        case "hex":
            held = bytes.fromhex(value)
        case _:
            held = _encode_message(holds, value)
    return _encode_key(number, BYTES) + _encode_varint(len(held)) + held


def _encode_key(number: int, kind: int) -> bytes:
    return _encode_varint(number << 3 | kind)


def _encode_varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


# Values and keys within one request: 20 MiB of the smallest would fill ten times that in memory.
MAX_VALUES = 500_000


class ProtobufValues:
    """The values of one request: its bytes, its limits, and what was repaired since last asked."""

    def __init__(self, raw: bytes, limits: Limits, values: int) -> None:
        """Read values of `raw`, so many `values` at most."""
        self._raw = raw
        self._limits = limits
        self._most = self._left = values
        self._repairs: Counter[str] = Counter()

    def repairs(self) -> tuple[Repair, ...]:
        """Return what was repaired since this was last asked."""
        if not self._repairs:
            return ()
        found = list_repairs(self._repairs)
        self._repairs.clear()
        return found

    def attribute(self, found: dict[str, Json], pair: ProtobufField, depth: int) -> None:
        """Put one key and its value into `found`; of a key given twice the last counts.

        Raises:
            TraceError: a text is not UTF-8, or the bytes are no message.
            LimitError: the value nests too deep.
        """
        self.spend()
        key, value = "", None
        for field in read_fields(self._raw, pair.at, pair.end):
            if field.number == 1 and field.kind == BYTES:
                key = self.text(field)
            elif field.number == 2 and field.kind == BYTES:
                value = self._value(field.at, field.end, depth)
        found[key] = value

    def _value(self, at: int, end: int, depth: int) -> Json:
        self.spend()
        value: Json = None
        for field in read_fields(self._raw, at, end):
            number, kind = field.number, field.kind
            if number == 1 and kind == BYTES:
                value = self.text(field)
            elif number == 2 and kind == VARINT:
                value = bool(field.at)
            elif number == 3 and kind == VARINT:
                value = to_signed(field.at)
            elif number == 4 and kind == FIXED64:
                value = self._number(field)
            elif number in {5, 6} and kind == BYTES:
                value = self._several(field, depth + 1)
            elif number == 7 and kind == BYTES:
                value = base64.b64encode(self._raw[field.at : field.end]).decode()
        return value

    def _several(self, several: ProtobufField, depth: int) -> Json:
        if depth > self._limits.depth:
            raise LimitError(f"a value nests deeper than limits.depth, {self._limits.depth}")
        entries = read_fields(self._raw, several.at, several.end)
        if several.number == 5:
            return [self._value(entry.at, entry.end, depth) for entry in entries if entry.kind == 2]
        found: dict[str, Json] = {}
        for entry in entries:
            if entry.kind == BYTES:
                self.attribute(found, entry, depth)
        return found

    def _number(self, field: ProtobufField) -> Json:
        value: float = struct.unpack("<d", self._raw[field.at : field.end])[0]
        if math.isfinite(value):
            return value
        self._repairs["non_finite"] += 1
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def text(self, field: ProtobufField) -> str:
        """Return a text, fit to be stored.

        Raises:
            TraceError: it is not UTF-8.
        """
        try:
            text = self._raw[field.at : field.end].decode()
        except UnicodeDecodeError as e:
            raise TraceError(f"a text at byte {field.at + e.start} is not UTF-8") from e
        if "\0" in text:
            self._repairs["nul"] += 1
            text = text.replace("\0", "\\u0000")
        if field.end - field.at > self._limits.text_bytes:
            self._repairs["truncated"] += 1
            return truncate_text(text, self._limits.text_bytes)
        return text

    def unknown(self, extra: dict[str, Json], field: ProtobufField) -> None:
        """Keep a field that the protocol did not have, by its number."""
        self.spend()
        held: Json = field.at
        if field.kind != VARINT:
            held = base64.b64encode(self._raw[field.at : field.end]).decode()
        extra.setdefault("unknown_fields", {})[str(field.number)] = held

    def spend(self) -> None:
        """Count one more value.

        Raises:
            LimitError: there are more than a request may hold.
        """
        self._left -= 1
        if self._left < 0:
            raise LimitError(
                f"a request holds more than {self._most:,} values; let the exporter send less at "
                "once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
            )


def encode_any_value(value: Json) -> dict[str, Json]:
    """Return a value as OTLP's JSON has it."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [encode_any_value(entry) for entry in value]}}
        case dict():
            pairs = [{"key": key, "value": encode_any_value(entry)} for key, entry in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case None:
            return {}
    return {"stringValue": value}


_STATUSES: tuple[SpanStatus, ...] = ("unset", "ok", "error")
_COUNTS = {10: "droppedAttributesCount", 12: "droppedEventsCount", 14: "droppedLinksCount"}


class SpanGroup(NamedTuple):
    """What the groups around a span say of it; as `otlp_values.Member` has it."""

    resource: dict[str, Json]
    scope: str | None
    beside: dict[str, Json]


class SpanPlace(NamedTuple):
    """A span's bytes in a request, and its frame."""

    frame: SpanGroup
    at: int
    end: int


class _Read:
    """What was read of a span so far; ids and times by the numbers of their fields."""

    def __init__(self, extra: dict[str, Json]) -> None:
        self.ids: dict[int, str] = {}
        self.times: dict[int, int] = {}
        self.attributes: dict[str, Json] = {}
        self.events: list[SpanEvent] = []
        self.links: list[Json] = []
        self.extra = extra
        self.name, self.kind = "", ""
        self.status: SpanStatus = "unset"
        self.said: str | None = None


class ProtobufReader:
    """One request being read."""

    def __init__(self, raw: bytes, limits: Limits, *, values: int = MAX_VALUES) -> None:
        """Read `raw`, which may hold so many `values`; nothing is looked at yet."""
        self._raw = raw
        self._limits = limits
        self._values = ProtobufValues(raw, limits, values)

    def repairs(self) -> tuple[Repair, ...]:
        """Return what was repaired since this was last asked."""
        return self._values.repairs()

    def places(self) -> Iterator[SpanPlace]:
        """Yield where each span stands.

        Raises:
            TraceError: the groups around the spans are no protobuf of an export request.
            LimitError: there are more values than a request may hold.
        """
        for field in read_fields(self._raw, 0, len(self._raw)):
            if field.number == 1 and field.kind == BYTES:
                yield from self._group(field.at, field.end)

    def _group(self, at: int, end: int) -> Iterator[SpanPlace]:
        resource: dict[str, Json] = {}
        beside: dict[str, Json] = {}
        scoped: list[ProtobufField] = []
        group: dict[str, Json] = {}
        for field in read_fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                resource, more = self._resource(field.at, field.end)
                beside.update({"resource_more": more} if more else {})
            elif field.number == 2 and field.kind == BYTES:
                scoped.append(field)
            elif field.number == 3 and field.kind == BYTES:
                group["schemaUrl"] = self._values.text(field)
            else:
                self._values.unknown(group, field)
        beside.update({"group_more": group} if group else {})
        for field in scoped:
            yield from self._scoped(field, resource, beside)

    def _resource(self, at: int, end: int) -> tuple[dict[str, Json], dict[str, Json]]:
        found: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in read_fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                self._values.attribute(found, field, 0)
            elif field.number == 2 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        return found, more

    def _scoped(
        self, scoped: ProtobufField, resource: dict[str, Json], outer: dict[str, Json]
    ) -> Iterator[SpanPlace]:
        scope: str | None = None
        beside, group = dict(outer), dict[str, Json]()
        spans: list[ProtobufField] = []
        for field in read_fields(self._raw, scoped.at, scoped.end):
            if field.number == 2 and field.kind == BYTES:
                self._values.spend()
                spans.append(field)
                if len(spans) > self._limits.spans:
                    raise LimitError(f"more than {self._limits.spans:,} spans (limits.spans)")
            elif field.number == 1 and field.kind == BYTES:
                scope, more = self._scope(field.at, field.end)
                beside.update({"scope_more": more} if more else {})
            elif field.number == 3 and field.kind == BYTES:
                group["schemaUrl"] = self._values.text(field)
            else:
                self._values.unknown(group, field)
        beside.update({"scope_group_more": group} if group else {})
        frame = SpanGroup(resource, scope, beside)
        for field in spans:
            yield SpanPlace(frame, field.at, field.end)

    def _scope(self, at: int, end: int) -> tuple[str | None, dict[str, Json]]:
        name = version = ""
        about: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in read_fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                name = self._values.text(field)
            elif field.number == 2 and field.kind == BYTES:
                version = self._values.text(field)
            elif field.number == 3 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 4 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        if about:
            more["attributes"] = [
                {"key": key, "value": encode_any_value(value)} for key, value in about.items()
            ]
        return (f"{name}@{version}" if version else name) if name else None, more

    def span(self, place: SpanPlace) -> RawSpan:
        """Return one span.

        Raises:
            TraceError: its bytes are no span, or it has no id.
            LimitError: it nests deeper than `limits.depth`, or holds too many values.
        """
        frame, read = place.frame, _Read(dict(place.frame.beside))
        for field in read_fields(self._raw, place.at, place.end):
            if field.kind == BYTES:
                self._part(read, field)
            elif field.kind == FIXED64 and field.number in {7, 8}:
                read.times[field.number] = self._fixed(field)
            elif field.kind == VARINT and field.number == 6:
                read.kind = KINDS[field.at] if field.at < len(KINDS) else str(field.at)
            else:
                self._beside(read.extra, field)
        if not read.ids.get(2):
            raise TraceError("a span needs a `spanId`; found none")
        return RawSpan(
            trace_id=read.ids.get(1, ""),
            span_id=read.ids[2],
            parent_id=read.ids.get(4) or None,
            name=read.name,
            kind=read.kind,
            start_ns=_time(read.times.get(7)),
            end_ns=_time(read.times.get(8)),
            status=read.status,
            status_message=read.said,
            attributes=read.attributes,
            events=tuple(read.events),
            resource=frame.resource,
            scope=frame.scope,
            links=tuple(read.links),
            extra=read.extra or None,
        )

    def _part(self, read: _Read, field: ProtobufField) -> None:
        """Read one text, id or message of a span."""
        match field.number:
            case 9:
                self._values.attribute(read.attributes, field, 0)
            case 1 | 2 | 4:
                read.ids[field.number] = self._raw[field.at : field.end].hex()
            case 5:
                read.name = self._values.text(field)
            case 11:
                read.events.append(self._event(field))
            case 13:
                read.links.append(self._link(field))
            case 15:
                read.status, read.said = self._status(field, read.extra)
            case _:
                self._beside(read.extra, field)

    def _fixed(self, field: ProtobufField) -> int:
        return int.from_bytes(self._raw[field.at : field.end], "little")

    def _beside(self, extra: dict[str, Json], field: ProtobufField) -> None:
        if field.number == 3 and field.kind == BYTES:
            extra["traceState"] = self._values.text(field)
        elif field.number in _COUNTS and field.kind == VARINT:
            extra[_COUNTS[field.number]] = field.at
        elif field.number == 16 and field.kind == FIXED32:
            extra["flags"] = self._fixed(field)
        else:
            self._values.unknown(extra, field)

    def _status(
        self, status: ProtobufField, extra: dict[str, Json]
    ) -> tuple[SpanStatus, str | None]:
        message, code = "", 0
        for field in read_fields(self._raw, status.at, status.end):
            if field.number == 2 and field.kind == BYTES:
                message = self._values.text(field)
            elif field.number == 3 and field.kind == VARINT:
                code = field.at
            else:
                self._values.unknown(extra, field)
        if code >= len(_STATUSES):
            extra["status"] = {"code": code} | ({"message": message} if message else {})
            code = 0
        return _STATUSES[code], message or None

    def _event(self, event: ProtobufField) -> SpanEvent:
        self._values.spend()
        name, time = "", None
        about: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in read_fields(self._raw, event.at, event.end):
            if field.number == 1 and field.kind == FIXED64:
                time = self._fixed(field)
            elif field.number == 2 and field.kind == BYTES:
                name = self._values.text(field)
            elif field.number == 3 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 4 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        return SpanEvent(name=name, time_ns=_time(time), attributes=about, extra=more or None)

    def _link(self, link: ProtobufField) -> dict[str, Json]:
        self._values.spend()
        about: dict[str, Json] = {}
        found: dict[str, Json] = {}
        for field in read_fields(self._raw, link.at, link.end):
            if field.number in {1, 2} and field.kind == BYTES:
                key = "traceId" if field.number == 1 else "spanId"
                found[key] = self._raw[field.at : field.end].hex()
            elif field.number == 3 and field.kind == BYTES:
                found["traceState"] = self._values.text(field)
            elif field.number == 4 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 5 and field.kind == VARINT:
                found["droppedAttributesCount"] = field.at
            elif field.number == 6 and field.kind == FIXED32:
                found["flags"] = self._fixed(field)
            else:
                self._values.unknown(found, field)
        return {**found, "attributes": about}


def _time(value: int | None) -> int | None:
    """Return nanoseconds; 0 is the protocol's absence."""
    return value if value is not None and 0 < value < 2**63 else None
