"""Ways to spoil a trace: of its bytes, of its structure, of its texts; each made from a number.

The same number of the same trace gives the same bytes. Sources of the texts: what breaks programs
in practice (controls, directions, halves of characters, other line ends, template and format
signs, names of prototypes), written down here; after the idea of the Big List of Naughty Strings.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

SPOILERS = (
    b"", b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\n", b"\r\n", b"\x00", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"NaN", b"-Infinity", b"null", b"true",
    b"-1", b"1e999", b"18446744073709551616", b"9" * 400, b'"\\ud800"', b'"\\u0000"', b"[" * 300,
    b'{"a":' * 200, b'{"role": 7}', b'{"a":1,"a":2}', b"/* */", b"\x1f\x8b\x08", b"PK\x03\x04",
    b"(\xb5/\xfd", b"%PDF", b"PAR1", b" " * 2000,
)  # fmt: skip
NAUGHTY = (
    "", " ", "\t", "\n\n", "\r", "\x00", "\x1b[2J", "\x7f", "\u0085", "\u2028\u2029", "\ufeff",
    "\u202eabc", "\u2066a\u2069", "\U000e0041", "\ud83d", "\udc00\ud83d", "e\u0301", "\ufffd",
    "Z\u0351\u036b\u0343a\u0321l\u0322g\u0348o", "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\u0627\u0644\u0639\u0631\u0628\u064a\u0629", "\uff11\uff12", "\u0661\u0662",
    "\u0130\u0131\u1e9e", "null", "None", "undefined", "NaN", "Infinity", "-1", "0x10", "1e309",
    "1_000", "0", "-0", "1.0", "true", "False", "__proto__", "constructor", "../../etc/passwd",
    "file:///etc/passwd", "C:\\", "{{7*7}}", "${x}", "%s%n%x", "{0.__class__}",
    "<script>alert(1)</script>", "' OR 1=1 --", "::stop-commands::", "`id`", "$(id)",
    "2024-02-30T25:61:61Z", "9999-12-31T23:59:59.999999999Z", "1970-01-01T00:00:00", "Error: ",
    "Traceback (most recent call last):", "exit code: " + "9" * 40, "HTTP/1.1 500", "[]", "{}",
    '[{"', '[{"role": "user"}]', '{"a": [', "```bash\nls\n```", "a" * 3000, "\\" * 99, "eJw",
    "data:image/png;base64,!!", "data:,", "=" * 50, "-" * 40,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, -0.0, 2**63, 2**64, -(2**63) - 1, 10**30, 1e308, "", "x", [],
    {}, [[]], [{}], [None], {"": None}, {"a": {"b": []}}, ["x", 1, None, {}], [[[[1]]]],
    {"role": "user"}, {"type": "text", "text": None}, {"__proto__": {}}, [{"type": "tool_use"}],
    {"content": [{}]},
)  # fmt: skip


class Mutant(NamedTuple):
    """Spoilt bytes, and in which way they were spoilt."""

    way: str
    content: bytes


def mutant(content: bytes, others: Sequence[bytes], rng: random.Random) -> Mutant:
    """Return `content` spoilt in one way, up to three times over.

    Args:
        content: a trace.
        others: of which parts are taken, or which stand in for it.
        rng: decides all.
    """
    way = rng.choices(list(WAYS), [weight for weight, _ in WAYS.values()])[0]
    spoil = WAYS[way][1]
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = spoil(content, others, rng)
    return Mutant(way, content)


def _flipped(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if found:
            found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found)


def _replaced(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + rng.choice(SPOILERS) + content[at + rng.choice((0, 1, 5, 40)) :]


def _cut(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _repeated(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    piece = content[start : start + rng.choice((1, 20, 300))]
    return content[:start] + piece * rng.choice((2, 3, 20)) + content[start + len(piece) :]


def _spliced(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    other = rng.choice(others)
    return content[: rng.randint(0, len(content))] + other[rng.randint(0, len(other)) :]


def _exchanged(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return rng.choice(others)


def _relined(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """Drop, double, swap, join or indent lines."""
    lines = content.split(b"\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            del lines[at]
        case 1:
            lines.insert(to, lines[at])
        case 2:
            lines[at], lines[to] = lines[to], lines[at]
        case 3:
            lines[at : at + 2] = [b"".join(lines[at : at + 2])]
        case _:
            lines[at] = rng.choice((b" ", b"\xef\xbb\xbf", b"\r", b"\x00", b"//")) + lines[at]
    return b"\n".join(lines)


def _restructured(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return _edited(content, rng, _change_value)


def _retexted(content: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    return _edited(content, rng, _change_text)


def _edited(
    content: bytes, rng: random.Random, change: Callable[[Any, Any, random.Random], None]
) -> bytes:
    """Return JSON, or one of its lines, with a place in it changed; other bytes with a flip."""
    try:
        return _changed(content, rng, change)
    except ValueError:
        lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        lines[at] = _changed(lines[at], rng, change)
    except ValueError:
        return _flipped(content, (), rng)
    return b"\n".join(lines)


def _changed(
    text: bytes, rng: random.Random, change: Callable[[Any, Any, random.Random], None]
) -> bytes:
    held = [json.loads(text)]
    for _ in range(rng.choice((1, 1, 2, 5))):
        places = list(_places(held))
        container, key = rng.choice(places)
        change(container, key, rng)
    value = held[0] if held else None
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _places(root: list[Any]) -> list[tuple[Any, Any]]:
    """Return every container with every key or index in it, the root's included."""
    found: list[tuple[Any, Any]] = []
    left: list[Any] = [root]
    while left:
        container = left.pop()
        entries = container.items() if isinstance(container, dict) else enumerate(container)
        for key, value in entries:
            found.append((container, key))
            if isinstance(value, dict | list):
                left.append(value)
    return found or [(root, 0)]


def _change_value(container: Any, key: Any, rng: random.Random) -> None:
    if not container:
        return
    value = container[key]
    match rng.randrange(6):
        case 0:
            del container[key]
        case 1:
            container[key] = [value]
        case 2:
            container[key] = {"value": value}
        case 3 if isinstance(container, dict):
            container[rng.choice((*container, "id", "type", "parent_id", ""))] = value
        case 3:
            container.insert(key, copy.deepcopy(value))
        case 4:
            container[key] = json.dumps(value)
        case _:
            container[key] = copy.deepcopy(rng.choice(VALUES))


def _change_text(container: Any, key: Any, rng: random.Random) -> None:
    if not container:
        return
    value = container[key]
    if isinstance(value, str):
        said = rng.choice(NAUGHTY)
        at = rng.randint(0, len(value))
        container[key] = rng.choice((said, value[:at] + said + value[at:]))
    elif isinstance(container, dict) and rng.random() < 0.3:
        container[rng.choice(NAUGHTY)] = container.pop(key)
    else:
        container[key] = rng.choice(NAUGHTY)


# Name -> how often, and how.
WAYS: dict[str, tuple[int, Callable[[bytes, Sequence[bytes], random.Random], bytes]]] = {
    "bits flipped": (10, _flipped),
    "bytes replaced": (15, _replaced),
    "cut": (10, _cut),
    "a piece repeated": (5, _repeated),
    "spliced with another": (5, _spliced),
    "another in its place": (3, _exchanged),
    "lines moved": (7, _relined),
    "values changed": (30, _restructured),
    "texts changed": (15, _retexted),
}
