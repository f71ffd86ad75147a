"""The wire format of Protocol Buffers: the fields of a message, nothing of what they mean.

Lengths are checked against the message before anything is sliced. Groups, which the format gave up
before OTLP was written, are refused.
Source: Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import TraceError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field(NamedTuple):
    """A field of a message: of a number `at` is the value; of all else the bytes from..to."""

    number: int
    kind: int
    at: int
    end: int


def fields(raw: bytes, at: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message that `raw` holds from `at` to `end`.

    Raises:
        TraceError: a field reaches beyond the message, or is of a kind that is no more in use.
    """
    while at < end:
        key, at = _varint(raw, at, end)
        kind = key & 7
        if kind == BYTES:
            size, at = _varint(raw, at, end)
            after = at + size
        elif kind == VARINT:
            value, at = _varint(raw, at, end)
            yield Field(key >> 3, kind, value, at)
            continue
        elif kind == FIXED64:
            after = at + 8
        elif kind == FIXED32:
            after = at + 4
        else:
            raise TraceError(f"not protobuf: a field of kind {kind} at byte {at}")
        if after > end:
            raise TraceError(f"not protobuf: a field at byte {at} ends behind its message")
        yield Field(key >> 3, kind, at, after)
        at = after


def _varint(raw: bytes, at: int, end: int) -> tuple[int, int]:
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


def signed(value: int) -> int:
    """Return a varint of 64 bits as the signed number that it stands for."""
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value
