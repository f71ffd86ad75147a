"""What the first bytes of a file say: the records that are there, the last one mended where cut.

Sniffing looks at keys and types, not at substrings, so that a run *about* a format is not taken for
one *in* it. The head of a large file ends anywhere; everything up to the last whole value is read.
Refuses nothing: what is no JSON has no records.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Literal, NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.records import RawRecord, records
from stepscope.model import Json, Stream
from stepscope.safety.door import decode
from stepscope.safety.limits import Limits

# Opening a file is a look; the limits that the user set hold when it is read.
_LIMITS = Limits()

# The next byte that matters for structure, behind whole strings and all that does not matter.
_TOKEN = re.compile(rb'(?:[^"\[\]{},]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+([\[\]{},])', re.DOTALL)
_CLOSER = {b"[": b"]", b"{": b"}"}
# Deeper than any format nests near its beginning; beyond it, sniffing gives up.
_DEPTH = 100
# Records are looked at to tell a format, not to read it.
_LINES = 20


class Opening(NamedTuple):
    """The first records of a file and how the file holds them."""

    shape: Literal["object", "array", "lines", "none"]
    records: tuple[Json, ...]

    def first(self, *keys: str) -> dict[str, Json] | None:
        """Return the first record that is an object with all of `keys`."""
        for record in self.records:
            if isinstance(record, dict) and all(key in record for key in keys):
                return record
        return None


@lru_cache(maxsize=4)
def opening(head: bytes) -> Opening:
    r"""Return the records at the beginning of a file.

    >>> opening(b'[{"role": "user", "content": "he')
    Opening(shape='array', records=({'role': 'user'},))
    >>> opening(b'{"a": 1}\n{"b": 2}\n').shape
    'lines'
    """
    text = head.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    if text[:1] not in {b"{", b"["}:
        return Opening("none", ())
    whole = _value(text)
    if whole is None and b"\n" in text:
        line, *others = text.split(b"\n", _LINES)[:_LINES]
        if (first := _value(line)) is not None:
            values = [first, *map(_value, others)]
            return Opening("lines", tuple(value for value in values if value is not None))
    if whole is None:
        whole = _value(mended(text))
    if whole is None and text[:1] == b"[":
        # One broken record near the beginning must not hide what the others are.
        whole = list(islice(_elements(text), _LINES)) or None
    if isinstance(whole, list):
        return Opening("array", tuple(whole[:_LINES]))
    return Opening("none", ()) if whole is None else Opening("object", (whole,))


def _elements(text: bytes) -> Iterator[Json]:
    for record in records(Stream(io.BytesIO(text), "")):
        if isinstance(record, RawRecord) and (value := _value(record.raw)) is not None:
            yield value


def mended(text: bytes) -> bytes:
    """Return cut JSON up to its last whole value, with every open bracket closed.

    >>> mended(b'{"a": [1, 2], "b": {"c": "x')
    b'{"a": [1, 2], "b": {}}'
    """
    stack: list[bytes] = []
    at = end = 0
    while token := _TOKEN.match(text, at):
        sign, at = token[1], token.end()
        if sign in _CLOSER:
            stack.append(_CLOSER[sign])
        elif sign != b"," and (not stack or stack.pop() != sign):
            return b""
        if len(stack) > _DEPTH:
            return b""
        # Before a comma, after a bracket: both places where a container may end.
        end = at - 1 if sign == b"," else at
        if not stack:
            break
    return text[:end] + b"".join(reversed(stack))


def _value(text: bytes) -> Json:
    try:
        return decode(text, limits=_LIMITS).value
    except TraceError:
        return None
