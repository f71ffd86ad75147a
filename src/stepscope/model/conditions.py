"""Conditions of rules of conduct, as `amount > 100` or `amount <= order.total and kind = 'cash'`.

A condition compares values by `<`, `<=`, `>`, `>=`, `=` and `!=`; `and` binds closer than `or`. A
value is a number, a text in quotes, or a name that somebody looks up. Texts that are numbers
compare as numbers, with thousands separated and a currency beside them or not; other texts, and
true and false as texts, are equal or are not. Where a value is not known, neither is what it
decides. Refused: whatever else.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import lru_cache

from stepscope.errors import ConfigError
from stepscope.model.trajectory import Json

_VALUE = r"(-?\d+(?:\.\d+)?(?![\w.])|'[^']*'|\"[^\"]*\"|[A-Za-z_][\w-]*(?:\.[\w-]+)*)"
_COMPARISON = re.compile(rf"\s*{_VALUE}\s*(<=|>=|!=|==|<|>|=)\s*{_VALUE}\s*(?:\b(and|or)\b|$)")
_NUMBER = re.compile(
    r"\s*(?:[A-Z]{3}\s*)?[$€£¥₹]?\s*(-?)\s*[$€£¥₹]?((?:\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?:\.\d+)?|\.\d+)"
    r"\s*(?:[€%]|[A-Z]{3})?\s*",
    re.ASCII,
)
_SIGNS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
# Nobody writes more comparisons.
_MOST_CHARACTERS = 1000

# Two values as written and the sign between them. A condition is groups of comparisons, all of one
# of which must hold.
Comparison = tuple[str, str, str]
Condition = tuple[tuple[Comparison, ...], ...]


@lru_cache(maxsize=256)
def parse_condition(text: str, where: str) -> Condition:
    """Return a condition; `ConfigError` where it is none, which names `where` it stands."""
    groups: list[list[Comparison]] = [[]]
    at, word = 0, "and"
    while word and len(text) <= _MOST_CHARACTERS:
        if (found := _COMPARISON.match(text, at)) is None:
            break
        groups += [[]] if word == "or" else []
        groups[-1].append((found[1], found[2], found[3]))
        at, word = found.end(), found[4] or ""
    if word:
        expected = "comparisons, as amount > 100, or amount <= order.total and kind = 'cash'"
        raise ConfigError(f"{where}: {text[:80]!r} is no condition; expected {expected}")
    return tuple(map(tuple, groups))


def holds(condition: Condition, look_up: Callable[[str], Json]) -> bool | None:
    """Return whether a condition holds, None where that is unknown, as `look_up` says by None."""
    found = [_settle([_compare(x, look_up) for x in group], False) for group in condition]
    return _settle(found, True)


def _settle(found: list[bool | None], decisive: bool) -> bool | None:
    """Return what several say together, of whom one that says `decisive` settles it."""
    return decisive if decisive in found else None if None in found else not decisive


def _compare(comparison: Comparison, look_up: Callable[[str], Json]) -> bool | None:
    left, sign, right = comparison
    sides = [
        x[1:-1] if x[0] in "'\"" else x if x[0] in "-0123456789" else look_up(x)
        for x in (left, right)
    ]
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
    """Return a value as a number; None for one that is none, as true, or is not held exactly."""
    if isinstance(value, str):
        found = _NUMBER.fullmatch(value)
        return None if found is None else float(found[1] + found[2].replace(",", ""))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < 2**53 else None
