"""The one door for untrusted JSON: strict for our own words, forgiving of what recorders write.

`decode_strict` accepts JSON (RFC 8259) and nothing else. `decode` also accepts what recorders write
and keeps it as text, each kind counted as a repair: NaN and infinities, numbers beyond 64 bits,
lone surrogates, NUL, text over `limits.text_bytes`, a byte order mark. Both notice duplicate keys
(the last one wins) and refuse nesting beyond `limits.depth`. What is refused is a TraceError with
the offset in the text, or a LimitError; nothing else is raised, whatever the bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from stepscope.errors import TraceError
from stepscope.safety.forgiving import INT_HIGH, INT_LOW, Json, Repair, parse, refuse_depth
from stepscope.safety.limits import Limits

__all__ = ["Decoded", "Repair", "decode", "decode_strict", "drops_keys"]

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
    r"""Return the value of a JSON text as recorders write it.

    Raises:
        TraceError: it is no JSON; `offset` says where.
        LimitError: it nests deeper than `limits.depth`.

    >>> decode(b'{"score": NaN}', limits=Limits()).value
    {'score': 'NaN'}
    """
    try:
        value = _plain(raw, limits)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Decoded(*parse(raw, limits))
    if value is _ODD or b"\\u0000" in raw or drops_keys(raw, value):
        return Decoded(*parse(raw, limits))
    return Decoded(value)


def _plain(raw: bytes, limits: Limits) -> Json:
    """Return a JSON text's value; `_ODD` if too deep, or it holds too large a number or text.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is no JSON.
    """
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

    The only repair that it may report is `duplicate_key`.

    Raises:
        TraceError: it is no JSON, or holds a number that 64 bits cannot; `offset` says where.
        LimitError: it nests deeper than `limits.depth`.
    """
    try:
        value = _read(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as e:
        refuse_depth(raw, limits)
        raise TraceError(f"not JSON: {e}", offset=getattr(e, "start", None)) from e
    if not _is_ordinary(value, limits.depth):
        refuse_depth(raw, limits)
        raise TraceError("a whole number needs more than 64 bits", offset=0)
    return Decoded(value, _duplicates(raw, value, limits))


def _duplicates(raw: bytes, value: Json, limits: Limits) -> tuple[Repair, ...]:
    if not drops_keys(raw, value):
        return ()
    repairs = parse(raw, limits)[1]
    return tuple(repair for repair in repairs if repair.code == "duplicate_key")


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
    return written != raw and (
        _colons(raw) != _colons(written) or (b"\\u00" in raw and bool(_COLON_ESCAPE.search(raw)))
    )


def _colons(text: bytes) -> int:
    if len(text) < _SHORT_BYTES:
        return text.count(b":")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _COLON))
