"""A request's JSON as protobuf, without a library: for receivers that take nothing else.

Only what `otlp_any` writes is known here. `otlp_wire` is the other direction.
Source: Protocol Buffers, "Encoding"; opentelemetry-proto 1.45.2, `collector/trace/v1`,
`trace/v1/trace.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`.
"""

from __future__ import annotations

import struct

import msgspec

from stepscope.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT
from stepscope.model import Json

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


def protobuf(body: bytes) -> bytes:
    """Return a request that `otlp_write` made as protobuf."""
    return _message("Request", msgspec.json.decode(body))


def _message(kind: str, found: dict[str, Json]) -> bytes:
    known = _MESSAGES[kind]
    parts: list[bytes] = []
    for name, value in found.items():
        number, holds = known[name]
        for entry in value if isinstance(value, list) else [value]:
            parts.append(_field(number, holds, entry))
    return b"".join(parts)


def _field(number: int, holds: str, value: Json) -> bytes:
    held: bytes
    match holds:
        case "number":
            return _key(number, VARINT) + _varint(int(value) & (2**64 - 1))
        case "fixed64":
            return _key(number, FIXED64) + struct.pack("<Q", int(value))
        case "fixed32":
            return _key(number, FIXED32) + struct.pack("<I", int(value))
        case "double":
            return _key(number, FIXED64) + struct.pack("<d", value)
        case "text":
            held = value.encode()
        case "hex":
            held = bytes.fromhex(value)
        case _:
            held = _message(holds, value)
    return _key(number, BYTES) + _varint(len(held)) + held


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
