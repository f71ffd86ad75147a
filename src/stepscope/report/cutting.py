"""Evidence made to fit a line: it ends between words, and one ellipsis says that there was more.

What a reader needs least goes first: the name of a tool that its step shows anyway, then the words
between a claim and the end of its evidence.
"""

from __future__ import annotations

import re

# A tool's name before what it did, as `suspects` writes it ("same " before it stays); what was
# called last, before what never was; that the error quoted is the last one.
_SPARE = re.compile(
    r"^(same )?\S+ (?=(?:fails|error|not as asked|as asked)\b)"
    r"|^stops after \S+; (?=never calls )"
    r"|; last error(?=: )"
)
# A word longer than this is cut inside: going back to its start would lose more than it saves.
LONGEST_WORD = 24
# What may not stand before an ellipsis: an opened bracket, a joint, half a list.
_LOOSE = " ,;:.(+-…"


def cut(text: str, width: int) -> str:
    """Cut `text` to `width` columns between words, its end marked.

    >>> cut("two words here", 11), cut("two words", 9)
    ('two words…', 'two words')
    """
    if len(text) <= width:
        return text
    kept = text[: max(width - 1, 0)]
    space = kept.rfind(" ")
    if text[len(kept)] != " " and space > len(kept) - LONGEST_WORD:
        kept = kept[: max(space, 0)]
    return kept.rstrip(_LOOSE) + "…"


def shorten(text: str, width: int, *, ends: bool) -> str:
    """Cut `text` to `width` columns; with `ends` its last words are kept as well as its first.

    The claim before a colon stays whole where it leaves room for the end of its evidence.

    >>> shorten("book fails 5 times: total price is 1203, but paid 833", 36, ends=True)
    'fails 5 times: …1203, but paid 833'
    """
    if len(text) > width:
        text = _SPARE.sub(r"\1", text)
    if len(text) <= width or not ends:
        return cut(text, width)
    head = text.find(": ") + 2
    if not 2 < head <= 3 * width // 4:
        head = text.rfind(" ", 0, 3 * width // 5) + 1 or 3 * width // 5
    tail = text[len(text) - (width - 1 - head) :]
    before = text[len(text) - len(tail) - 1]
    start = 0 if before == " " else tail.find(" ") + 1
    return text[:head] + "…" + tail[start if start <= LONGEST_WORD else 0 :].lstrip()


def first_lines(lines: list[str], most: int, width: int) -> list[str]:
    """Return at most so many lines of a folded text; where more follow, the last one says so.

    >>> first_lines(["one two", "  three", "  four"], 2, 8)
    ['one two', '  three…']
    """
    if len(lines) <= most:
        return lines
    last = lines[most - 1]
    kept = last if len(last) < width else last.rpartition(" ")[0]
    return [*lines[: most - 1], kept.rstrip(_LOOSE) + "…"]
