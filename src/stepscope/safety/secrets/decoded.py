r"""A text as it reads once an encoding is taken off, with where every character of it stood.

JSON escapes (`\n`, `\u002d`, `\/`), percent escapes (`%2D`) and base64 in either alphabet, also
broken into lines. What cannot be decoded stays as it is: these are views for finding secrets in,
not parsers, and none of them raises.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_JSON = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"'\\/bfnrt]))")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})")
# Characters of base64 that can hold the shortest secret worth looking for.
_SHORTEST = 20
_BASE64 = re.compile(
    # On after a line break only where the line has a length that encoders break at. The group
    # is not possessive: Python 3.11.2 loses its last round. Nothing after it can fail.
    r"[A-Za-z0-9+/_-]++(?:(?<=[A-Za-z0-9+/_-]{40})\r?\n[ \t]*+[A-Za-z0-9+/_-]++)*={0,2}",
    re.ASCII,
)
_LONG = re.compile(r"[A-Za-z0-9+/_-]{20,}+", re.ASCII)
# What is no text at all holds no secret; nearly everything that is not base64 decodes to that.
_READABLE = re.compile(r"[\t\n\r -~]{12}")
_BREAKS = str.maketrans("-_", "+/", "=\r\n\t ")
# Ids: hexadecimal digits and hyphens cannot be base64 of a secret.
_PLAIN = re.compile(r"[0-9a-fA-F-]+|[a-z_/-]+|[A-Z_/-]+|[0-9+/_-]+", re.ASCII)


Decode = Callable[[re.Match[str]], str]


class View(NamedTuple):
    """A decoded text; `starts[i]` is where its character i began, the last entry where it ended."""

    text: str
    starts: list[int]


class Run(NamedTuple):
    """A piece of base64: where it stands, and what it may say, by where it is taken to begin."""

    start: int
    end: int
    texts: tuple[str, ...]


def json_view(text: str) -> View | None:
    r"""Return a text without JSON escapes; None where it has none.

    >>> json_view(r"a\u002db")
    View(text='a-b', starts=[0, 1, 7, 8])
    """
    if "\\" not in text:
        return None
    return _view(text, _JSON, _unescaped)


def percent_view(text: str) -> View | None:
    """Return a text without percent escapes; None where it has none.

    >>> percent_view("a%2Db")
    View(text='a-b', starts=[0, 1, 4, 5])
    """
    if "%" not in text:
        return None
    return _view(text, _PERCENT, lambda found: chr(int(found[1], 16)))


def _unescaped(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _LETTERS.get(found[3], found[3])


def _view(text: str, pattern: re.Pattern[str], decode: Decode) -> View | None:
    pieces: list[str] = []
    starts: list[int] = []
    at = 0
    for found in pattern.finditer(text):
        pieces += (text[at : found.start()], decode(found))
        starts += range(at, found.start() + 1)
        at = found.end()
    if not pieces:
        return None
    pieces.append(text[at:])
    starts += range(at, len(text) + 1)
    return View("".join(pieces), starts)


def base64_runs(text: str) -> Iterator[Run]:
    """Yield the pieces of a text that may be base64 of something, in order.

    Where one begins is not always plain (a slash before it is of its alphabet), so it is decoded
    from each of the first four characters on.
    """
    past = 0
    while long := _LONG.search(text, past):
        whole = _BASE64.match(text, long.start())
        end = long.end() if whole is None else whole.end()
        past = max(end, long.end())
        packed = text[long.start() : past].translate(_BREAKS)
        if len(packed) >= _SHORTEST and not _PLAIN.fullmatch(packed):
            said = (_decoded(packed[skip:]) for skip in range(4))
            yield Run(long.start(), past, tuple(text for text in said if _READABLE.search(text)))


def _decoded(packed: str) -> str:
    whole = len(packed) & ~3
    rest = packed[whole:]
    # Two or three characters more hold one or two bytes more; one character holds none.
    tail = rest + "=" * (-len(rest) % 4) if len(rest) > 1 else ""
    return binascii.a2b_base64(packed[:whole] + tail).decode("latin-1")
