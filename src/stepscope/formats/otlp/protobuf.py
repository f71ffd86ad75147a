"""Read and write OTLP's spans as protobuf, without a library.

A span is read alone: one that is broken is refused alone. Lengths are checked before anything is
sliced; groups, which Protocol Buffers gave up, are refused. A text that is too long is cut, NUL is
escaped, a number that is none becomes text; each is counted as a repair. Fields that the protocol
did not have when this was written stay, as base64 by field number, in `extra`.
Source: Protocol Buffers documentation, "Encoding"; opentelemetry-proto 1.45.2,
`collector/trace/v1`, `trace.proto`, `common.proto` and `resource.proto`.
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
from stepscope.formats.otlp.values import KINDS, RequestSpan, attributes_json, name_extras
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus
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
    """Yield the fields of the message that `raw` holds from `at` to `end`."""
    while at < end:
        key, at = (raw[at], at + 1) if raw[at] < 0x80 else _read_varint(raw, at, end)
        kind = key & 7
        if kind == BYTES:
            # Most lengths are one byte, and are read without a call.
            short = at < end and raw[at] < 0x80
            size, at = (raw[at], at + 1) if short else _read_varint(raw, at, end)
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


# The fields of each message by their name in JSON, with the scalar or message that they hold, in
# the order of their numbers, which begin at 1 but where 1 was given up.
_FIRST = {"Status": 2}
_ATTRIBUTED = {"attributes": "KeyValue", "droppedAttributesCount": "number"}
_SPAN = {
    "traceId": "hex",
    "spanId": "hex",
    "traceState": "text",
    "parentSpanId": "hex",
    "name": "text",
    "kind": "number",
    "startTimeUnixNano": "fixed64",
    "endTimeUnixNano": "fixed64",
    **_ATTRIBUTED,
    "events": "Event",
    "droppedEventsCount": "number",
    "links": "Link",
    "droppedLinksCount": "number",
    "status": "Status",
    "flags": "fixed32",
}
_VALUE = {
    "stringValue": "text",
    "boolValue": "number",
    "intValue": "number",
    "doubleValue": "double",
    "arrayValue": "ArrayValue",
    "kvlistValue": "KeyValueList",
}
_FIELDS: dict[str, dict[str, str]] = {
    "Request": {"resourceSpans": "ResourceSpans"},
    "ResourceSpans": {"resource": "Resource", "scopeSpans": "ScopeSpans", "schemaUrl": "text"},
    "Resource": _ATTRIBUTED,
    "ScopeSpans": {"scope": "Scope", "spans": "Span", "schemaUrl": "text"},
    "Scope": {"name": "text", "version": "text", **_ATTRIBUTED},
    "Span": _SPAN,
    "Event": {"timeUnixNano": "fixed64", "name": "text", **_ATTRIBUTED},
    "Link": {"traceId": "hex", "spanId": "hex", "traceState": "text", **_ATTRIBUTED}
    | {"flags": "fixed32"},
    "Status": {"message": "text", "code": "number"},
    "KeyValue": {"key": "text", "value": "AnyValue"},
    "AnyValue": _VALUE,
    "ArrayValue": {"values": "AnyValue"},
    "KeyValueList": {"values": "KeyValue"},
}
_MESSAGES = {
    kind: {name: (at, holds) for at, (name, holds) in enumerate(of.items(), _FIRST.get(kind, 1))}
    for kind, of in _FIELDS.items()
}
# How each scalar is written; a text or a message is bytes.
_WIRE = {"number": VARINT, "fixed64": FIXED64, "double": FIXED64, "fixed32": FIXED32}
# The names of each message's fields by number and how they are written, to read them.
_NAMES = {
    kind: {(number, _WIRE.get(holds, BYTES)): (name, holds) for name, (number, holds) in of.items()}
    for kind, of in _MESSAGES.items()
}


def encode_protobuf(body: bytes) -> bytes:
    """Return a request that `otlp.write` made as protobuf."""
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
    key = encode_varint(number << 3 | _WIRE.get(holds, BYTES))
    held: bytes
    match holds:
        case "number":
            return key + encode_varint(int(value) & (2**64 - 1))
        case "fixed64":
            return key + struct.pack("<Q", int(value))
        case "fixed32":
            return key + struct.pack("<I", int(value))
        case "double":
            return key + struct.pack("<d", value)
        case "text":
            held = value.encode()
        case "hex":
            held = bytes.fromhex(value)
        case _:
            held = _encode_message(holds, value)
    return key + encode_varint(len(held)) + held


def encode_varint(value: int) -> bytes:
    """Return a number as protobuf writes it."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


# Values and keys within one request: 20 MiB of the smallest would fill ten times that in memory.
MAX_VALUES = 500_000

_STATUSES: tuple[SpanStatus, ...] = ("unset", "ok", "error")


class ProtobufReader:
    """One request being read: its bytes, its limits, and what was repaired since last asked."""

    def __init__(self, raw: bytes, limits: Limits, *, values: int = MAX_VALUES) -> None:
        """Read `raw`, which may hold so many `values`; nothing is looked at yet."""
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

    def places(self) -> Iterator[RequestSpan]:
        """Yield where each span stands, as a field, and what the groups around it say."""
        for field in read_fields(self._raw, 0, len(self._raw)):
            if field.number != 1 or field.kind != BYTES:
                continue
            group = self._message("ResourceSpans", field)
            resource = group.pop("resource", {})
            attributes = resource.pop("attributes", {})
            for scoped in group.pop("scopeSpans", ()):
                inner = self._message("ScopeSpans", scoped)
                scope, spans = inner.pop("scope", {}), inner.pop("spans", ())
                name, version = scope.pop("name", ""), scope.pop("version", "")
                if "attributes" in scope:
                    scope["attributes"] = attributes_json(scope["attributes"])
                beside = name_extras(resource=resource, group=group, scope=scope, scope_group=inner)
                named = f"{name}@{version}" if name and version else name or None
                for span in spans:
                    yield RequestSpan(span, attributes, named, beside)

    def span(self, place: RequestSpan) -> RawSpan:
        """Return one span."""
        found = self._message("Span", place.span)
        if not found.get("spanId"):
            raise TraceError("a span needs a `spanId`; found none")
        take = found.pop
        kind, status = take("kind", 0), take("status", {})
        code, message = status.pop("code", 0), status.pop("message", "") or None
        if code >= len(_STATUSES):
            found["status"] = {"code": code} | ({"message": message} if message else {})
            code = 0
        return RawSpan(
            trace_id=take("traceId", ""),
            span_id=take("spanId"),
            parent_id=take("parentSpanId", "") or None,
            name=take("name", ""),
            kind=KINDS[kind] if kind < len(KINDS) else str(kind),
            start_ns=_time(take("startTimeUnixNano", 0)),
            end_ns=_time(take("endTimeUnixNano", 0)),
            status=_STATUSES[code],
            status_message=message,
            attributes=take("attributes", {}),
            events=tuple(
                [
                    SpanEvent(
                        name=event.pop("name", ""),
                        time_ns=_time(event.pop("timeUnixNano", 0)),
                        attributes=event.pop("attributes", {}),
                        extra=event or None,
                    )
                    for event in take("events", ())
                ]
            ),
            resource=place.resource,
            scope=place.scope,
            links=tuple([{"attributes": {}, **link} for link in take("links", ())]),
            extra={**place.beside, **found, **name_extras(status=status)} or None,
        )

    def _message(self, kind: str, message: ProtobufField) -> dict[str, Json]:
        """Return a message under the names of JSON; scopes and spans in it are left as fields."""
        known = _NAMES[kind]
        found: dict[str, Json] = {}
        for field in read_fields(self._raw, message.at, message.end):
            name, holds = known.get(field[:2], ("", ""))
            match holds:
                case "KeyValue":
                    self._attribute(found.setdefault(name, {}), field, 0)
                case "text":
                    found[name] = self._text(field)
                case "hex":
                    found[name] = self._raw[field.at : field.end].hex()
                case "number":
                    found[name] = field.at
                case "fixed64" | "fixed32":
                    found[name] = int.from_bytes(self._raw[field.at : field.end], "little")
                case "Event" | "Link":
                    self._spend()
                    found.setdefault(name, []).append(self._message(holds, field))
                case "ScopeSpans":
                    found.setdefault(name, []).append(field)
                case "":
                    self._unknown(found, field)
                case "Span":
                    self._spend()
                    listed = found.setdefault(name, [])
                    listed.append(field)
                    if len(listed) > self._limits.spans:
                        raise LimitError(f"more than {self._limits.spans:,} spans (limits.spans)")
                case _:
                    found[name] = self._message(holds, field)
        return found

    def _attribute(self, found: dict[str, Json], pair: ProtobufField, depth: int) -> None:
        """Put one key and its value into `found`; of a key given twice the last counts."""
        self._spend()
        key, value = "", None
        for field in read_fields(self._raw, pair.at, pair.end):
            if field.number == 1 and field.kind == BYTES:
                key = self._text(field)
            elif field.number == 2 and field.kind == BYTES:
                value = self._value(field.at, field.end, depth)
        found[key] = value

    def _value(self, at: int, end: int, depth: int) -> Json:
        self._spend()
        value: Json = None
        for field in read_fields(self._raw, at, end):
            number, kind = field.number, field.kind
            if number == 1 and kind == BYTES:
                value = self._text(field)
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
                self._attribute(found, entry, depth)
        return found

    def _number(self, field: ProtobufField) -> Json:
        value: float = struct.unpack("<d", self._raw[field.at : field.end])[0]
        if math.isfinite(value):
            return value
        self._repairs["non_finite"] += 1
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def _text(self, field: ProtobufField) -> str:
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

    def _unknown(self, extra: dict[str, Json], field: ProtobufField) -> None:
        """Keep a field that the protocol did not have, by its number."""
        self._spend()
        held: Json = field.at
        if field.kind != VARINT:
            held = base64.b64encode(self._raw[field.at : field.end]).decode()
        extra.setdefault("unknown_fields", {})[str(field.number)] = held

    def _spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise LimitError(
                f"a request holds more than {self._most:,} values; let the exporter send less at "
                "once (OTEL_BSP_MAX_EXPORT_BATCH_SIZE)"
            )


def _time(value: int) -> int | None:
    """Return nanoseconds; 0 is the protocol's absence."""
    return value if 0 < value < 2**63 else None
