"""Attributes and their values as OTLP's protobuf has them, made fit to be stored.

A text that is too long is cut with a mark, NUL is escaped, a number that is none becomes text; each
is counted as a repair. A request may hold no more values than memory has room for.
Source: opentelemetry-proto 1.45.2, `common/v1/common.proto`.
"""

from __future__ import annotations

import base64
import math
import struct
from collections import Counter

from stepscope.errors import LimitError, TraceError
from stepscope.formats.protobuf import BYTES, FIXED64, VARINT, Field, fields, signed
from stepscope.model import Json
from stepscope.safety.forgiving import Repair, cut, told
from stepscope.safety.limits import Limits

# Values and keys within one request: 20 MiB of the smallest would fill ten times that in memory.
MAX_VALUES = 500_000


class Values:
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
        found = told(self._repairs)
        self._repairs.clear()
        return found

    def attribute(self, found: dict[str, Json], pair: Field, depth: int) -> None:
        """Put one key and its value into `found`; of a key given twice the last counts.

        Raises:
            TraceError: a text is not UTF-8, or the bytes are no message.
            LimitError: the value nests too deep.
        """
        self.spend()
        key, value = "", None
        for field in fields(self._raw, pair.at, pair.end):
            if field.number == 1 and field.kind == BYTES:
                key = self.text(field)
            elif field.number == 2 and field.kind == BYTES:
                value = self._value(field.at, field.end, depth)
        found[key] = value

    def _value(self, at: int, end: int, depth: int) -> Json:
        self.spend()
        value: Json = None
        for field in fields(self._raw, at, end):
            number, kind = field.number, field.kind
            if number == 1 and kind == BYTES:
                value = self.text(field)
            elif number == 2 and kind == VARINT:
                value = bool(field.at)
            elif number == 3 and kind == VARINT:
                value = signed(field.at)
            elif number == 4 and kind == FIXED64:
                value = self._number(field)
            elif number in {5, 6} and kind == BYTES:
                value = self._several(field, depth + 1)
            elif number == 7 and kind == BYTES:
                value = base64.b64encode(self._raw[field.at : field.end]).decode()
        return value

    def _several(self, several: Field, depth: int) -> Json:
        if depth > self._limits.depth:
            raise LimitError(f"a value nests deeper than limits.depth, {self._limits.depth}")
        entries = fields(self._raw, several.at, several.end)
        if several.number == 5:
            return [self._value(entry.at, entry.end, depth) for entry in entries if entry.kind == 2]
        found: dict[str, Json] = {}
        for entry in entries:
            if entry.kind == BYTES:
                self.attribute(found, entry, depth)
        return found

    def _number(self, field: Field) -> Json:
        value: float = struct.unpack("<d", self._raw[field.at : field.end])[0]
        if math.isfinite(value):
            return value
        self._repairs["non_finite"] += 1
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"

    def text(self, field: Field) -> str:
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
            return cut(text, self._limits.text_bytes)
        return text

    def unknown(self, extra: dict[str, Json], field: Field) -> None:
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


def as_json(value: Json) -> dict[str, Json]:
    """Return a value as OTLP's JSON has it."""
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [as_json(entry) for entry in value]}}
        case dict():
            pairs = [{"key": key, "value": as_json(entry)} for key, entry in value.items()]
            return {"kvlistValue": {"values": pairs}}
        case None:
            return {}
    return {"stringValue": value}
