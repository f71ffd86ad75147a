"""JSON from untrusted files: strict and fast where it can be, lenient and counted where it must be.

`decode` reads what recorders write, makes NaN, huge numbers and half characters storable, and
counts every such repair; `decode_strict` reads our own files to the letter of the standard.
Refuses texts that nest deeper than the limits. A bracket scanner finds where records of a large
text begin and end, chunk by chunk. Source: RFC 8259.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import LimitError, TraceError
from stepscope.safety.limits import Limits

# A block of this many bytes and its masks stay in a core's own cache.
BLOCK_BYTES = 256 * 1024

_QUOTE = 0x22
_BACKSLASH = 0x5C
# Change of depth by byte: +1 for { and [, -1 for } and ], 0 for all others.
_CHANGE = np.zeros(256, np.int8)
_CHANGE[[0x7B, 0x5B]] = 1
_CHANGE[[0x7D, 0x5D]] = -1


class Brackets(NamedTuple):
    """The brackets of one chunk that stand outside strings, in order."""

    at: npt.NDArray[np.int64]  # shape (n,), positions within the chunk
    opens: npt.NDArray[np.bool_]  # shape (n,), whether each one opens
    # shape (n,), open containers after each one; negative where more close than opened
    depth: npt.NDArray[np.int64]


class BracketScanner:
    """Reads chunks of one JSON text in order, and remembers between them where it stands."""

    def __init__(self) -> None:
        self.depth = 0
        self.in_string = False
        self._escaping = False

    def scan(self, chunk: bytes) -> Brackets:
        """Return the brackets of the next chunk."""
        text = np.frombuffer(chunk, np.uint8)
        # {, }, [ and ] are the bytes that these two bits of slack leave, once 0x20 is set.
        folded = text | 0x20
        folded -= 0x7B
        folded &= 0xFD
        marks = folded == 0
        marks |= text == _QUOTE
        marks |= text == _BACKSLASH
        at = np.flatnonzero(marks)
        kind = text[at]
        quotes = kind == _QUOTE
        quotes[self._escaped(at, kind, text.size)] = False
        quoted = np.cumsum(quotes)
        if self.in_string:
            quoted += 1
        if quoted.size:
            self.in_string = bool(quoted[-1] & 1)
        change = _CHANGE[kind]
        outside = ((quoted & 1) == 0) & (change != 0)
        at, change = at[outside], change[outside]
        depth = np.cumsum(change, dtype=np.int64) + self.depth
        if depth.size:
            self.depth = int(depth[-1])
        return Brackets(at, change > 0, depth)

    def _escaped(
        self, at: npt.NDArray[np.int64], kind: npt.NDArray[np.uint8], size: int
    ) -> npt.NDArray[np.int64]:
        """Return which of the marked bytes an odd run of backslashes precedes, as indexes."""
        carried, slashes = self._escaping, np.flatnonzero(kind == _BACKSLASH)
        if not size:
            return slashes
        self._escaping = False
        first_escaped = slashes[:0]
        if carried and at.size and at[0] == 0 and kind[0] != _BACKSLASH:
            first_escaped = np.zeros(1, np.int64)
        if not slashes.size:
            return first_escaped
        where = at[slashes]
        last = np.flatnonzero(np.diff(where, append=size + 1) != 1)
        length = np.diff(last, prepend=-1)
        if carried and where[0] == 0:
            length[0] += 1
        odd = slashes[last[length % 2 == 1]]
        if odd.size and at[odd[-1]] == size - 1:
            self._escaping = True
            odd = odd[:-1]
        odd = odd[odd + 1 < at.size]
        return np.concatenate((first_escaped, odd[at[odd + 1] == at[odd] + 1] + 1))


def deepest_nesting(raw: bytes) -> int:
    """Return how many containers are open at once, at most, in a JSON text."""
    index, most = BracketScanner(), 0
    for start in range(0, len(raw), BLOCK_BYTES):
        most = max(most, int(index.scan(raw[start : start + BLOCK_BYTES]).depth.max(initial=0)))
    return most


# Anything that JSON can say. `Any` is the trace's own freedom, not ours.
Json = Any

INT_LOW, INT_HIGH = -(2**63), 2**64 - 1
BOM = b"\xef\xbb\xbf"

_REASONS = {
    "attributes_cut": "{n} span(s) over limits.attributes: the first kept, with a mark and a hash",
    "bom": "{n} byte order mark removed",
    "duplicate_key": "{n} key(s) of an object came twice; the last one is kept",
    "huge_number": "{n} number(s) beyond 64 bits kept as text",
    "lone_surrogate": "{n} text(s) with half a character kept with the half escaped",
    "non_finite": "{n} NaN or infinite number(s) kept as text",
    "nul": "{n} text(s) with a NUL character kept with it escaped",
    "truncated": "{n} text(s) over limits.text_bytes cut, with a mark and a hash",
}
REPAIR_CODES = frozenset(_REASONS)

_SURROGATE = re.compile("[\ud800-\udfff]")
# 19 digits hold every number below 2**63; shorter ones need no second look.
_SAFE_DIGITS = 18


class Repair(NamedTuple):
    """Something that was not JSON, or not storable, and was kept in another form."""

    code: str
    reason: str


def list_repairs(counted: Mapping[str, int]) -> tuple[Repair, ...]:
    """Return one repair for each code that was counted, by code."""
    return tuple(Repair(key, _REASONS[key].format(n=n)) for key, n in sorted(counted.items()) if n)


def refuse_depth(raw: bytes, limits: Limits) -> None:
    """Raise LimitError if a JSON text nests deeper than `limits.depth`."""
    depth = deepest_nesting(raw)
    if depth > limits.depth:
        said = f"{depth} containers inside each other; limits.depth is {limits.depth}"
        raise LimitError(said, offset=0)


class _LenientParser:
    """One text being parsed: its limits, and the repairs so far by code."""

    def __init__(self, limits: Limits) -> None:
        self.text_bytes = limits.text_bytes
        self.limits = limits
        self.repairs: Counter[str] = Counter()

    def parse(self, raw: bytes) -> tuple[Json, tuple[Repair, ...]]:
        """Return the value and the repairs it took, one for each kind."""
        body = raw.removeprefix(BOM)
        skipped = len(raw) - len(body)
        self.repairs["bom"] += skipped > 0
        refuse_depth(body, self.limits)
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as e:
            raise TraceError(f"not UTF-8: {e.reason}", offset=e.start + skipped) from e
        try:
            loose = json.loads(
                text,
                object_pairs_hook=self._object,
                parse_constant=self._constant,
                parse_int=self._int,
                parse_float=self._float,
            )
            value = self._kept(loose)
        except json.JSONDecodeError as e:
            at = len(text[: e.pos].encode("utf-8", "surrogatepass")) + skipped
            raise TraceError(f"not JSON: {e.msg} (byte {at})", offset=at) from e
        except RecursionError as e:
            said = "nested too deep for this machine; lower limits.depth, now"
            raise LimitError(f"{said} {self.limits.depth}", offset=0) from e
        return value, list_repairs(self.repairs)

    def _object(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        value = dict(pairs)
        self.repairs["duplicate_key"] += len(pairs) - len(value)
        return value

    def _constant(self, text: str) -> str:
        self.repairs["non_finite"] += 1
        return text

    def _int(self, text: str) -> int | str:
        if len(text) <= _SAFE_DIGITS or (
            len(text) <= _SAFE_DIGITS + 3 and INT_LOW <= int(text) <= INT_HIGH
        ):
            return int(text)
        self.repairs["huge_number"] += 1
        return text

    def _float(self, text: str) -> float | str:
        value = float(text)
        if math.isinf(value):
            self.repairs["huge_number"] += 1
            return text
        return value

    def _kept(self, value: Json) -> Json:
        """Return the value with every text, keys included, fit to be stored and printed."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self._kept(item) for item in value]
        if isinstance(value, dict):
            kept = {self._text(key): self._kept(item) for key, item in value.items()}
            self.repairs["duplicate_key"] += len(value) - len(kept)
            return kept
        return value

    def _text(self, text: str) -> str:
        if _SURROGATE.search(text):
            self.repairs["lone_surrogate"] += 1
            text = _SURROGATE.sub(lambda half: f"\\u{ord(half.group()):04x}", text)
        if "\0" in text:
            self.repairs["nul"] += 1
            text = text.replace("\0", "\\u0000")
        if len(text) * 4 > self.text_bytes and len(text.encode()) > self.text_bytes:
            self.repairs["truncated"] += 1
            return truncate_text(text, self.text_bytes)
        return text


def truncate_text(text: str, text_bytes: int) -> str:
    """Return a text's beginning with a mark and the hash of the whole, `text_bytes` at most."""
    raw = text.encode()
    mark = f"[truncated: {len(raw)} bytes in all, sha256 {hashlib.sha256(raw).hexdigest()[:32]}]"
    return raw[: max(0, text_bytes - len(mark))].decode("utf-8", "ignore") + mark


_read = msgspec.json.Decoder(Any).decode
_write = msgspec.json.Encoder().encode
_COLON = 0x3A
# Containers inside each other in nearly every record of every format. Types grow as two to this.
_SHALLOW = 8
_ODD = object()
_COLON_ESCAPE = re.compile(rb"\\u003a", re.IGNORECASE)
# Below it, numpy costs more to call than it saves.
_SHORT_BYTES = 2048


class Decoded(NamedTuple):
    """A decoded value, and what was repaired in it."""

    value: Json
    repairs: tuple[Repair, ...] = ()


def decode(raw: bytes, *, limits: Limits) -> Decoded:
    """Return the value of a JSON text as recorders write it.

    `TraceError` where it is no JSON, `LimitError` where it nests deeper than `limits.depth`.
    """
    try:
        value = _plain(raw, limits)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Decoded(*_LenientParser(limits).parse(raw))
    if value is _ODD or b"\\u0000" in raw or drops_keys(raw, value):
        return Decoded(*_LenientParser(limits).parse(raw))
    return Decoded(value)


def _plain(raw: bytes, limits: Limits) -> Json:
    """Return a JSON text's value; `_ODD` if too deep, or it holds too large a number or text."""
    # A character is four bytes at most; no text is longer than the whole.
    longest = None if len(raw) <= limits.text_bytes else limits.text_bytes // 4
    if limits.depth >= _SHALLOW:
        try:
            return _shallow(longest)(raw)
        except msgspec.ValidationError:
            pass  # it is deeper, or holds a large number or text
    value = _read(raw)
    if longest is not None and _holds_longer(value, longest):
        return _ODD
    return value if _is_ordinary(value, limits.depth) else _ODD


@cache
def _shallow(longest: int | None) -> Callable[[bytes], Json]:
    """Return what reads JSON of little depth, whole numbers of 64 bits with a sign, short texts.

    Types that say so are checked as the text is read, which costs nothing; a walk over the value
    costs as much as reading it. They take some milliseconds to make.
    """
    whole = Annotated[int, msgspec.Meta(ge=INT_LOW, le=-INT_LOW - 1)]
    text: Any = str if longest is None else Annotated[str, msgspec.Meta(max_length=longest)]
    plain: Any = text | whole | float | bool | None
    value: Any = plain
    for _ in range(_SHALLOW):
        value = plain | GenericAlias(list, (value,)) | GenericAlias(dict, (text, value))
    return msgspec.json.Decoder(value).decode


def decode_strict(raw: bytes, *, limits: Limits) -> Decoded:
    """Return the value of a JSON text by the letter of the standard; for verdicts and our files.

    The only repair that it may report is `duplicate_key`. `TraceError` where it is no JSON or holds
    a number that 64 bits cannot, `LimitError` where it nests deeper than `limits.depth`.
    """
    try:
        value = _read(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        refuse_depth(raw, limits)
        raise TraceError(f"not JSON: {e}", offset=getattr(e, "start", None)) from e
    if not _is_ordinary(value, limits.depth):
        refuse_depth(raw, limits)
        raise TraceError("a whole number needs more than 64 bits", offset=0)
    repairs = _LenientParser(limits).parse(raw)[1] if drops_keys(raw, value) else ()
    return Decoded(value, tuple(one for one in repairs if one.code == "duplicate_key"))


def _is_ordinary(value: Json, depth: int) -> bool:
    """Whether nothing nests deeper than `depth` and every whole number fits 64 bits."""
    level: list[Any] = [[value]]
    for _ in range(depth + 1):
        below: list[Any] = []
        for container in level:
            for item in container.values() if type(container) is dict else container:
                kind = type(item)
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    below.append(item)
                elif kind is int and not INT_LOW <= item <= INT_HIGH:
                    return False
        if not below:
            return True
        level = below
    return False


def _holds_longer(value: Json, longest: int) -> bool:
    """Whether a text or a key has more characters than `longest`."""
    left = [value]
    while left:
        item = left.pop()
        if type(item) is str:
            if len(item) > longest:
                return True
        elif type(item) is dict:
            if max(map(len, item), default=0) > longest:
                return True
            left.extend(item.values())
        elif type(item) is list:
            left.extend(item)
    return False


def drops_keys(raw: bytes, value: object) -> bool:
    """Whether writing `value` again may give fewer keys than the JSON that it was read from.

    What comes out as it was has lost none. Else: every key has its colon, and our encoder writes
    the colons of text as they are: where as many come out as went in, no key was lost. A colon
    written as an escape would upset the count, and is taken for a loss.
    """
    written = _write(value)
    if written == raw:
        return False
    if len(raw) < _SHORT_BYTES:
        lost = raw.count(b":") != written.count(b":")
    else:
        colons = np.count_nonzero(np.frombuffer(raw, np.uint8) == _COLON)
        lost = colons != np.count_nonzero(np.frombuffer(written, np.uint8) == _COLON)
    return lost or (b"\\u00" in raw and bool(_COLON_ESCAPE.search(raw)))
