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
# NUL, which cannot be stored, and the colon, by which keys are counted.
_ODD_ESCAPE = re.compile(rb"\\u00(?:00|3a)", re.IGNORECASE)


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
    if (
        value is _ODD
        or len(raw) > limits.text_bytes
        or (b"\\u00" in raw and _ODD_ESCAPE.search(raw))
        or _colons(raw) != _colons(_write(value))
    ):
        return Decoded(*parse(raw, limits))
    return Decoded(value)


def _plain(raw: bytes, limits: Limits) -> Json:
    """Return the value of a JSON text; `_ODD` where it is too deep, or holds too large a number.

    Raises:
        msgspec.MsgspecError, UnicodeDecodeError, RecursionError: it is no JSON.
    """
    if limits.depth >= _SHALLOW:
        try:
            return _shallow()(raw)
        except msgspec.ValidationError:
            pass  # it is deeper, or holds a large number
    value = _read(raw)
    return value if _is_ordinary(value, limits.depth) else _ODD


@cache
def _shallow() -> Callable[[bytes], Json]:
    """Return what reads JSON of little depth, and whole numbers of 64 bits with a sign.

    Types that say so are checked as the text is read, which costs nothing; a walk over the value
    costs as much as reading it. They take some milliseconds to make.
    """
    whole = Annotated[int, msgspec.Meta(ge=INT_LOW, le=-INT_LOW - 1)]
    plain: Any = str | whole | float | bool | None
    value: Any = plain
    for _ in range(_SHALLOW):
        value = plain | GenericAlias(list, (value,)) | GenericAlias(dict, (str, value))
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


def drops_keys(raw: bytes, value: object) -> bool:
    """Whether writing `value` again may give fewer keys than the JSON that it was read from.

    Every key has its colon, and our encoder writes the colons of text as they are: where as many
    come out as went in, no key was lost. A colon written as an escape would upset the count, and is
    taken for a loss.
    """
    return _ODD_ESCAPE.search(raw) is not None or _colons(raw) != _colons(_write(value))


def _colons(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _COLON))
