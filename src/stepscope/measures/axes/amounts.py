"""How numbers and dates are written, and which numbers follow from others by simple arithmetic.

Simple is: a sum or difference of two, a small multiple of one, a sum of neighbours in one list.
Nothing deeper: with hundreds of prices in view every amount is the sum of some three, and a rule
that accepts everything finds nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from math import isfinite
from typing import NamedTuple

# A number as people and programs write it: 1,619.34 or 1619.34; not the digits of W2378156, of
# 2024-05-15, of 07:30 or of 4.2.1.
# The first digit stands before the looks behind it: so the engine skips to digits at C speed.
_NUMBER = (
    r"\d(?<![\w#]\d)(?<!\w[-./:]\d)"
    r"(?:\d{0,2}(?:,\d{3}){1,5}|\d{0,20})(?:\.\d+)?(?![\w%]|[-/:.,]\d|[-/]\w)"
)
# On a text that is all ASCII both find the same, the second in half the time.
NUMBER = re.compile(_NUMBER)
_ASCII_NUMBER = re.compile(_NUMBER.replace(r"\d", "[0-9]", 1), re.ASCII)
# Longer whole numbers are names of things (item 1151293680), and no quantity to calculate with.
QUANTITY_DIGITS = 7
# How many numbers, the latest first, arithmetic may draw on: 60 make 3,600 pairs, a chance hit in
# about one of thirty amounts with cents below 1,000.
TERMS = 60
# Counts, ranks and list numbers are no terms of a sum: with them every amount is a sum.
SMALLEST_TERM = 10
# Longest list whose sum counts as derived, and the counts of equal things.
LONGEST_SUM = 8
MULTIPLES = range(2, 10)
# Half a cent: amounts are printed with two decimals.
TOLERANCE = 0.005

_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_ISO_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})")


class Said(NamedTuple):
    """A number as it was said: its value, and the step."""

    value: float
    step: int


class Derivation(NamedTuple):
    """How a number follows from numbers said: the formula, and the steps that hold its terms."""

    formula: str
    steps: tuple[int, ...]


@lru_cache(maxsize=4096)
def number_of(text: str) -> float | None:
    """Return the quantity that a text of digits says; None for a name made of digits.

    >>> number_of("1,619.34"), number_of("1151293680"), number_of("019122")
    (1619.34, None, None)
    """
    plain = text.replace(",", "").lstrip("$")
    whole = plain.partition(".")[0]
    if len(whole) > QUANTITY_DIGITS or (len(whole) > 1 and whole.startswith("0")):
        return None
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if isfinite(value) else None


def quantities(text: str) -> tuple[float, ...]:
    """Return the quantities that a text says, in order.

    >>> quantities("2 bags at $1,050.50 on 2024-05-15, reservation W2378156")
    (2.0, 1050.5)
    """
    pattern = _ASCII_NUMBER if text.isascii() else NUMBER
    return tuple([value for value in map(number_of, pattern.findall(text)) if value is not None])


def derive(value: float, said: Sequence[Said]) -> Derivation | None:
    """Return how `value` follows from numbers said, the latest of them first.

    >>> derive(-16.63, [Said(25, 1), Said(269.16, 1), Said(285.79, 2)])
    Derivation(formula='269.16 - 285.79', steps=(1, 2))
    >>> derive(90.0, [Said(30.0, 4)]).formula
    '3 x 30'
    """
    by_step = groupby(said, key=lambda number: number.step)
    return Terms([(step, [n.value for n in numbers]) for step, numbers in by_step]).derive(value)


class Terms:
    """Numbers said, ready for arithmetic: sets of cents tell fast what follows from none of them.

    Attributes:
        count: how many numbers were said.
    """

    def __init__(self, said: Sequence[tuple[int, Sequence[float]]]) -> None:
        """Take the numbers said at each step, in order."""
        self._said = said
        everything = [value for _, values in said for value in values]
        self.count = len(everything)
        self._latest: dict[float, int] = {}
        for step, values in reversed(said):
            for value in reversed(values):
                if len(self._latest) >= TERMS:
                    break
                self._latest.setdefault(value, step)
        self._cents = [round(100 * term) for term in self._latest]
        self._near = _near_cents(self._cents)
        terms = [value for value in everything if value >= SMALLEST_TERM]
        self._totals = [round(100 * total) for total in accumulate(terms, initial=0.0)]
        self._all_totals = frozenset(self._totals)

    def derive(self, value: float) -> Derivation | None:
        """Return how `value` follows; see the function `derive`."""
        target = abs(value)
        cents, near = round(100 * target), self._near
        found = None
        if not near.isdisjoint([cents - term for term in self._cents]) or not near.isdisjoint(
            [term - cents for term in self._cents]
        ):
            found = _pair(target, self._latest, value)
        if found is None and not near.isdisjoint([round(cents / n) for n in MULTIPLES]):
            found = _multiple(target, self._latest)
        return self._list_sum(target, cents) if found is None else found

    def _list_sum(self, target: float, cents: int) -> Derivation | None:
        """Look for a sum of neighbours: it is the difference of two totals."""
        for sum_ in (cents - 1, cents, cents + 1):
            if not self._all_totals.isdisjoint([total + sum_ for total in self._totals]):
                return _list_sum(target, self._said)
        return None


def _near_cents(cents: Sequence[int]) -> set[int]:
    return {near for cent in cents for near in (cent - 1, cent, cent + 1)}


def _pair(target: float, terms: dict[float, int], value: float) -> Derivation | None:
    ordered = sorted(term for term in terms if term >= SMALLEST_TERM)
    for first in ordered:
        for wanted, sign in ((target - first, "+"), (first - target, "-")):
            second = _near(ordered, wanted)
            if second is None:
                continue
            # a - b and b - a are the same claim: which sign was meant stands in its words.
            left, right = (second, first) if sign == "-" and value < 0 else (first, second)
            steps = tuple(sorted({terms[first], terms[second]}))
            return Derivation(f"{left:g} {sign} {right:g}", steps)
    return None


def _multiple(target: float, terms: dict[float, int]) -> Derivation | None:
    for count in MULTIPLES:
        for term, step in terms.items():
            if term and abs(count * term - target) < TOLERANCE:
                return Derivation(f"{count} x {term:g}", (step,))
    return None


def _list_sum(target: float, said: Sequence[tuple[int, Sequence[float]]]) -> Derivation | None:
    for step, values in said:
        terms = [value for value in values if value >= SMALLEST_TERM]
        for at, total in enumerate(terms):
            for term in terms[at + 1 : at + LONGEST_SUM]:
                total += term
                # No term is negative: the sum only grows.
                if total - target >= TOLERANCE:
                    break
                if abs(total - target) < TOLERANCE:
                    return Derivation(f"sum of a list, {total:g}", (step,))
    return None


def _near(ordered: Sequence[float], wanted: float) -> float | None:
    at = bisect_left(ordered, wanted - TOLERANCE)
    if at < len(ordered) and abs(ordered[at] - wanted) < TOLERANCE:
        return ordered[at]
    return None


def date_forms(iso: str) -> list[str]:
    """Return the ways to write a date, most exact first; the text itself where it is no date.

    >>> date_forms("2024-05-07")[:4]
    ['2024-05-07', 'may 7', '7 may', 'may 7th']
    """
    match = _ISO_DATE.match(iso)
    if match is None or not 1 <= int(match[2]) <= 12:
        return [iso]
    year, month, day = match[1], int(match[2]), int(match[3])
    forms = [match.group()]
    for name in (_MONTHS[month - 1], _MONTHS[month - 1][:3]):
        for spoken in (f"{day}", f"{day}{_ordinal(day)}"):
            forms += [f"{name} {spoken}", f"{spoken} {name}"]
        forms += [f"{day}{_ordinal(day)} of {name}", f"{name} {day:02d}"]
    for first, second in ((month, day), (day, month)):
        for a, b in ((f"{first}", f"{second}"), (f"{first:02d}", f"{second:02d}")):
            forms += [f"{a}{c}{b}{c}{y}" for c in "/-." for y in (year, year[2:])]
    forms += [f"{month}/{day}", f"{month:02d}/{day:02d}", f"{year}/{month:02d}/{day:02d}"]
    return list(dict.fromkeys(forms))


@lru_cache(maxsize=1024)
def date_cores(iso: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the ways to write a date by a text that they contain: without it there is none.

    >>> len(date_forms("2024-05-24")), len(date_cores("2024-05-24"))
    (33, 14)
    """
    forms = date_forms(iso)
    if len(forms) == 1:
        return ((iso, (iso,)),)
    _, month, day = (int(part) for part in forms[0].split("-"))
    cores = [
        f"{first}{sign}{second}"
        for sign in "/-."
        for a, b in ((month, day), (day, month))
        for first, second in ((a, f"{b}"), (a, f"{b:02d}"))
    ]
    found: dict[str, list[str]] = {}
    for form in forms:
        found.setdefault(next((c for c in cores if c in form), form), []).append(form)
    return tuple((core, tuple(some)) for core, some in found.items())


def _ordinal(day: int) -> str:
    return "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


def plain_number(value: float) -> str:
    """Return how programs write a number, without sign."""
    size = abs(value)
    return f"{size:.0f}" if size == int(size) else repr(size)


def number_forms(value: float) -> list[str]:
    """Return the ways to write a number, without sign and currency.

    >>> number_forms(-1232.7)
    ['1232.7', '1232.70', '1,232.70']
    """
    size = abs(value)
    forms = [plain_number(value), f"{size:.2f}", f"{size:,.2f}"]
    if size >= 1 and size == int(size):
        forms += [f"{size:,.0f}", f"{size:.1f}"]
    return list(dict.fromkeys(forms))
