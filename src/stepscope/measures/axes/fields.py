"""The quantities of a tool's result by their names, and the records they stand in.

A quantity is named by the last word of its key that says something (`exchange_price_difference`:
difference; `refund_amount`: refund). Where the key says nothing of its own (`amount`, `value`), the
record's type does: `{"transaction_type": "refund", "amount": 5}` is a refund of 5. Under `prices`
everything is a price.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec

from stepscope.effects import words_of
from stepscope.model import Json, ToolResult

# Words in keys that name no quantity by themselves.
GENERIC = frozenset("amount amt currency eur gbp in number of quantity sum usd val value".split())
# Words that name a quantity of money: the nearest one before an amount is its name, and "price
# difference" is no price.
QUANTITIES = frozenset(
    "balance charge cost credit deposit difference discount fare fee payment penalty price rebate "
    "refund saving subtotal surcharge tax tip total".split()
)
# What people call a quantity that they give no better name.
AMOUNT_NAME = "amount"
# Keys whose text says what a record is.
TYPES = frozenset("category kind label type".split())
# Longer texts are no names of a type.
TYPE_CHARACTERS = 24
# Larger results are data to work on; naming their quantities would take longer than all else.
LARGEST_RESULT = 65_536  # characters

_NESTED = frozenset((dict, list))
_decode = msgspec.json.Decoder().decode


class Field(NamedTuple):
    """A quantity of a result: its names (stems), and its value without sign."""

    names: frozenset[str]
    value: float


def parsed(result: ToolResult) -> Json:
    """Return a result's value where it is a JSON object or array, else None."""
    if result.structured is not None:
        return result.structured
    text = result.text
    if text[:1] not in ("{", "[") or len(text) > LARGEST_RESULT:
        return None
    try:
        return _decode(text)
    except msgspec.DecodeError:
        return None


def fields(value: Json) -> list[Field]:
    """Return every named quantity of a decoded result.

    >>> sorted(fields({"history": [{"transaction_type": "refund", "amount": 5}]})[0].names)
    ['amount', 'refund']
    """
    return [Field(names, abs(float(number))) for names, number in _numbers(value)]


def values_of(name: str, value: Json, most: int) -> list[float]:
    """Return the different values that a decoded result has under a name, in order of size.

    Once they are more than `most` no more are looked for.

    >>> values_of("fee", [{"fee": 2}, {"fees": -1.5}, {"fee": 2.0}, {"price": 9}], 4)
    [1.5, 2.0]
    """
    found: set[float] = set()
    for names, number in _numbers(value):
        if name in names:
            found.add(abs(float(number)))
            if len(found) > most:
                break
    return sorted(found)


def _numbers(value: Json) -> Iterator[tuple[frozenset[str], int | float]]:
    waiting: list[tuple[Json, str]] = [(value, "")]
    # By type, not isinstance: what was decoded from JSON has no subclasses.
    while waiting:
        here, parent = waiting.pop()
        if type(here) is list:
            waiting += [(member, parent) for member in here if type(member) in _NESTED]
        elif type(here) is dict:
            for key, member in here.items():
                kind = type(member)
                if kind is int or kind is float:
                    yield _names_by_keys(key, parent) or _names_by_record(key, here, parent), member
                elif kind in _NESTED:
                    waiting.append((member, key))


@lru_cache(maxsize=8192)
def _names_by_keys(key: str, parent: str) -> frozenset[str]:
    """Return the names that a key gives by itself, none where it says nothing of its own."""
    own, above = name_of(key), name_of(parent)
    if not own:
        return frozenset()
    return frozenset((own, above)) if above in QUANTITIES else frozenset((own,))


def _names_by_record(key: str, record: dict[str, Json], parent: str) -> frozenset[str]:
    kinds = [
        name_of(text)
        for other, text in record.items()
        if isinstance(text, str) and len(text) <= TYPE_CHARACTERS and _is_type(other)
    ]
    above = "" if kinds else name_of(parent)
    generic = AMOUNT_NAME if _is_amount(key) else ""
    return frozenset(kind for kind in (*kinds, above, generic) if kind)


@lru_cache(maxsize=8192)
def name_of(key: str) -> str:
    """Return the stem that a key names its quantity by, "" where it says nothing.

    >>> name_of("refund_amount"), name_of("totalUsd"), name_of("amount")
    ('refund', 'total', '')
    """
    words = [word for word in words_of(key) if word not in GENERIC]
    return stem(words[-1]) if words else ""


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Return a word without its usual endings.

    >>> stem("refunded"), stem("refunds"), stem("prices")
    ('refund', 'refund', 'price')
    """
    if word.endswith("ed") and len(word) > 5:
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


@lru_cache(maxsize=8192)
def _is_type(key: str) -> bool:
    return not TYPES.isdisjoint(words_of(key)[-1:])


@lru_cache(maxsize=8192)
def _is_amount(key: str) -> bool:
    return AMOUNT_NAME in words_of(key)


def leaf_records(value: Json) -> Iterator[dict[str, Json]]:
    """Yield the records that hold no list and no further record with a quantity."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if type(here) is list:
            waiting += [member for member in here if type(member) in _NESTED]
        elif type(here) is dict:
            inner = [member for member in here.values() if type(member) in _NESTED]
            if not inner:
                yield here
            elif any(type(m) is list or any(type(x) in _NESTED for x in m.values()) for m in inner):
                waiting += inner
            else:
                yield here
