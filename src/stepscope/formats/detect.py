"""Find the format of a file by its content.

The installed format most sure of the first bytes is taken. Two nearly as sure as each other is an
error that names both; none is an error that says what the file looks like instead. Names and
extensions of files are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from stepscope import registry
from stepscope.errors import TraceError
from stepscope.formats.opening import opening
from stepscope.model import Format
from stepscope.safety.text import visible_line

# What formats see of a file. A tau-bench run of usual length ends within it.
HEAD_BYTES = 256 * 1024
# Below this a format is not sure enough; two closer than the margin cannot be told apart.
SURE = 0.5
MARGIN = 0.1
_ROUNDING = 1e-9

_MAGIC = (
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "gzip; give its content: `gunzip -c FILE | stepscope import -`"),
    (b"\x28\xb5\x2f\xfd", "zstd; give its content: `zstdcat FILE | stepscope import -`"),
    (b"%PDF", "PDF"),
    (b"\x89PNG", "an image"),
    (b"SQLite format 3\0", "an SQLite database; a store is opened, not imported"),
)
_SHOWN_KEYS = 6
_SHOWN_CHARACTERS = 40


def detect(head: bytes, uri: str) -> Format:
    """Return the installed format of a file that begins with `head`.

    Raises:
        TraceError: no format is sure, or two are nearly as sure as each other.
        ConfigError: a format fails to import.
    """
    return chosen(head, uri, registry.formats())


def chosen(head: bytes, uri: str, formats: Sequence[Format]) -> Format:
    """Return the one of `formats` that is sure of a file that begins with `head`.

    Raises:
        TraceError: none is sure, or two are nearly as sure as each other.
    """
    sure = sorted(((each.sniff(head), each) for each in formats), key=_by_confidence)
    if not sure or sure[0][0] < SURE:
        raise TraceError(f"{visible_line(uri)}: no known trace; it looks like {likeness(head)}")
    best, first = sure[0]
    if len(sure) > 1 and best - sure[1][0] < MARGIN + _ROUNDING:
        second = sure[1][1]
        raise TraceError(
            f"{visible_line(uri)}: may be {first.name} or {second.name}; say which with --format"
        )
    return first


def _by_confidence(found: tuple[float, Format]) -> tuple[float, str]:
    return -found[0], found[1].name


def likeness(head: bytes) -> str:
    r"""Say in a few words what a file that begins with `head` looks like.

    >>> likeness(b'{"spam": 1, "eggs": 2}')
    'a JSON object with keys spam, eggs'
    >>> likeness(b"\x00\x01\x02")
    'binary data'
    """
    if not head.strip():
        return "an empty file"
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    found = opening(head)
    if found.shape == "none":
        return _text(head)
    if not found.records:
        return "an empty JSON array"
    shape = {"object": "a JSON object", "array": "a JSON array of", "lines": "JSON lines of"}
    record = found.records[0]
    if not isinstance(record, dict):
        return f"{shape[found.shape]} {type(record).__name__}"
    keys = visible_line(", ".join(list(record)[:_SHOWN_KEYS]))
    kind = shape[found.shape] + (" objects" if found.shape != "object" else "")
    return f"{kind} with keys {keys}" if record else _text(head)


def _text(head: bytes) -> str:
    # The head may end within a character of four bytes.
    for end in range(4):
        try:
            text = head[: len(head) - end].decode()
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        start = " ".join(text[: 10 * _SHOWN_CHARACTERS].split())
        kind = "JSON" if start[:1] in {"{", "["} else "text"
        return f"{kind} beginning '{visible_line(start[:_SHOWN_CHARACTERS])}'"
    return "binary data"
