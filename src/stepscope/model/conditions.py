"""Conditions of rules of conduct, as `amount > 100` or `amount <= order.total and kind = 'cash'`.

A condition compares values by `<`, `<=`, `>`, `>=`, `=` and `!=`; `and` binds closer than `or`. A
value is a number, a text in quotes, or a name that somebody looks up. Texts that are numbers
compare as numbers, with thousands separated and a currency beside them or not; other texts, and
true and false as texts, are equal or are not. Where a value is not known, neither is what it decides. Refused: whatever else.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from stepscope.errors import ConfigError
from stepscope.model.trajectory import Json

_TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?)(?![\w.])|'(?P<single>[^']*)'|\"(?P<double>[^\"]*)\""
    r"|(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)|(?P<sign><=|>=|!=|==|<|>|=))"
)
_NUMBER = re.compile(
    r"\s*(?:[A-Z]{3}\s*)?[$€£¥₹]?\s*(-?)\s*[$€£¥₹]?((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"\s*(?:[€%]|[A-Z]{3})?\s*",
    re.ASCII,
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
# Nobody writes more comparisons.
_MOST_CHARACTERS = 1000


class Operand(NamedTuple):
    """A side of a comparison: what it is as it stands, or the name to look it up by."""

    value: float | str
    is_name: bool


class Condition(NamedTuple):
    """Comparisons, all of one group of which must hold."""

    groups: tuple[tuple[tuple[Operand, str, Operand], ...], ...]

    def holds(self, look_up: Callable[[str], Json]) -> bool | None:
        """Return whether it holds, None where that is unknown; `look_up` gives None for unknown."""
        found = [_settle([_compare(x, look_up) for x in group], False) for group in self.groups]
        return _settle(found, True)


@lru_cache(maxsize=256)
def parse_condition(text: str, where: str) -> Condition:
    """Return a condition.

    Raises:
        ConfigError: it is none; `where` it stands is named.
    """
    tokens: list[str | Operand] = []
    at = 0
    while text[at:].strip() and len(text) <= _MOST_CHARACTERS:
        found = _TOKEN.match(text, at)
        if found is None:
            break
        kind, value, at = str(found.lastgroup), found[str(found.lastgroup)], found.end()
        if kind == "sign" or value in ("and", "or"):
            tokens.append(value)
        else:
            tokens.append(Operand(float(value) if kind == "number" else value, kind == "name"))
    # One comparison is three tokens, and one word stands between two of them.
    groups: list[list[tuple[Operand, str, Operand]]] = [[]]
    whole = not text[at:].strip() and len(tokens) % 4 == 3
    for start in range(0, len(tokens), 4) if whole else ():
        match tokens[start : start + 4]:
            case [Operand() as left, str(sign), Operand() as right, *word] if sign in _SIGNS:
                groups[-1].append((left, sign, right))
                if word == ["or"]:
                    groups.append([])
                whole = whole and word in ([], ["and"], ["or"])
            case _:
                whole = False
    if not whole:
        raise ConfigError(
            f"{where}: {text[:80]!r} is no condition; expected comparisons, as amount > 100, or "
            "amount <= order.total and kind = 'cash'"
        )
    return Condition(tuple(map(tuple, groups)))


def _settle(found: list[bool | None], decisive: bool) -> bool | None:
    """Return what several say together, of whom one that says `decisive` settles it."""
    return decisive if decisive in found else None if None in found else not decisive


def _compare(
    comparison: tuple[Operand, str, Operand], look_up: Callable[[str], Json]
) -> bool | None:
    left, sign, right = comparison
    sides = [look_up(str(x.value)) if x.is_name else x.value for x in (left, right)]
    if None in sides:
        return None
    one, other = map(read_number, sides)
    if one is not None and other is not None:
        return _SIGNS[sign](one, other)
    if sign not in ("=", "==", "!="):
        return None
    told = [str(side).lower() if isinstance(side, bool) else side for side in sides]
    return (one is other and told[0] == told[1]) is (sign != "!=")


def read_number(value: Json) -> float | None:
    """Return a value as a number; None for one that is none, as true.

    >>> read_number("$1,203.50"), read_number("833 USD"), read_number("1,2"), read_number(True)
    (1203.5, 833.0, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _NUMBER.fullmatch(value) if isinstance(value, str) else None
    if isinstance(value, str):
        return None if found is None else float(found[1] + found[2].replace(",", ""))
    return float(value) if abs(value) < 2**1000 else None
