"""What the agent tells the user once results are in: amounts and identifiers, with their words.

A message counts when the agent calls nothing in it and the user speaks next, or nobody does: what
agents say between two calls, or to each other, is thinking aloud.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepscope.measures.axes.amounts import number_of
from stepscope.model import Step, ToolResult, Trajectory

# An amount of money: behind a currency's sign, or with exactly two decimals ($1,619.34; 95.08).
# Both patterns begin with a set of characters: so the engine skips to them at C speed.
AMOUNT = re.compile(
    r"[$€£\d](?:(?<=[$€£])\s?(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,9})(?:\.\d{1,2})?|"
    r"(?<=\d)(?<![\w.,#$€£/:-]\d)(?:\d{0,2}(?:,\d{3}){1,5}|\d{0,8})\.\d\d)(?![\w%]|[.,/:-]\d)"
)
# A name of one thing: letters before five or more digits, or eight digits and more.
IDENTIFIER = re.compile(
    r"[#A-Z\d](?<![\w.,$€£/:-][#A-Z\d])(?:(?<=#)[A-Z]{0,3}\d{5,20}|(?<=[A-Z])[A-Z]{0,2}\d{5,20}|"
    r"(?<=\d)\d{7,19})(?!\w|[.,/:-]\d)"
)
# On a text that is all ASCII the same, found in less time.
_ASCII_AMOUNT = re.compile(AMOUNT.pattern.replace(r"[$€£\d]", "[$0-9]", 1), re.ASCII)
_ASCII_IDENTIFIER = re.compile(IDENTIFIER.pattern.replace(r"[#A-Z\d]", "[#A-Z0-9]", 1), re.ASCII)
# What a text looks like with every digit a 0: without one of these no amount and no identifier, by
# far the cheaper to look for.
_SHAPE = bytes.maketrans(b"123456789", b"000000000")
_CENTS, _DIGITS = b".00", b"00000"
# So far before its first five digits an identifier begins.
_BEFORE_DIGITS = 4
# What may stand between a quantity and its name on one line.
LABEL_CHARACTERS = 48
# A name behind its quantity: "a $95.08 refund".
BEHIND_CHARACTERS = 20

_WORD = re.compile(r"[a-z]{3,}")
_CLAUSE = re.compile(r"[.;,(\n$€£]")


class Amount(NamedTuple):
    """An amount told: its value, the text it stands in, from where to where, and what ends before.

    `open` is where the amount before it ends: no word before that names this one.
    """

    value: float
    text: str
    open: int
    start: int
    end: int

    @property
    def before(self) -> str:
        """The text just before it, on its line."""
        begin = self.text.rfind("\n", 0, self.start) + 1
        return self.text[max(begin, self.open, self.start - LABEL_CHARACTERS) : self.start]

    @property
    def behind(self) -> str:
        """The text just behind it, on its line."""
        return self.text[self.end : self.end + BEHIND_CHARACTERS].partition("\n")[0]

    @property
    def line(self) -> str:
        """The line around it."""
        begin = self.text.rfind("\n", 0, self.start) + 1
        close = self.text.find("\n", self.end)
        return self.text[begin : close if close >= 0 else None]


class Message(NamedTuple):
    """A message to the user, and the results that came since the message before it."""

    step: Step
    text: str
    news: tuple[tuple[int, ToolResult], ...]


def messages(trajectory: Trajectory) -> Iterator[Message]:
    """Yield what the user was told after the first result, in order."""
    steps = trajectory.steps
    news: list[tuple[int, ToolResult]] = []
    looked = False
    for at, step in enumerate(steps):
        if step.results:
            looked = True
            news += [(step.index, result) for result in step.results]
        elif looked and step.actor == "agent" and not step.calls:
            if at + 1 < len(steps) and steps[at + 1].actor != "user":
                continue
            text = step.text
            if text:
                yield Message(step, text, tuple(news))
                news = []


def amounts(text: str) -> list[Amount]:
    """Return the amounts in a text.

    >>> [(a.value, a.before, a.behind) for a in amounts("Your refund: $95.08 in all")]
    [(95.08, 'Your refund: ', ' in all')]
    """
    pattern = AMOUNT
    if text.isascii():
        if "$" not in text and ("." not in text or _CENTS not in text.encode().translate(_SHAPE)):
            return []
        pattern = _ASCII_AMOUNT
    found: list[Amount] = []
    last = 0
    for match in pattern.finditer(text):
        value = number_of(match.group().lstrip("$€£ "))
        start, end = match.span()
        if value is not None:
            found.append(Amount(value, text, last, start, end))
        last = end
    return found


def identifiers(text: str) -> list[str]:
    """Return the names of things in a text.

    >>> identifiers("Order #W2378156 of 2024-05-15, item 1151293680")
    ['#W2378156', '1151293680']
    """
    if not text.isascii():
        return IDENTIFIER.findall(text)
    digits = text.encode().translate(_SHAPE).find(_DIGITS)
    return _ASCII_IDENTIFIER.findall(text, max(0, digits - _BEFORE_DIGITS)) if digits >= 0 else []


def words_around(amount: Amount) -> list[str]:
    """Return the words that may name an amount, the likeliest first: behind it, then before it.

    >>> words_around(amounts("Total refund: **$95.08** (card)")[0])
    ['refund', 'total']
    >>> words_around(amounts("you get a $95.08 refund")[0])
    ['refund', 'get', 'you']
    """
    behind = _WORD.findall(_CLAUSE.split(amount.behind, maxsplit=1)[0].casefold())
    return behind[:1] + _WORD.findall(amount.before.casefold())[::-1]
