"""Attributes of a span: JSON in text, keys with indexes in them, numbers that may be text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from stepscope.errors import TraceError
from stepscope.model import Json, Usage
from stepscope.safety.door import decode
from stepscope.safety.limits import Limits

_OBJECT = re.compile(r"\s*[\[{]").match
# An index beyond this is no place in a list that any exporter wrote.
_ENTRIES = 100_000


def decoded(value: Json, limits: Limits) -> Json:
    """Return a value; text that holds a JSON object or list is taken apart.

    >>> decoded('{"a": 1}', Limits()), decoded("{no", Limits())
    ({'a': 1}, '{no')
    """
    return parsed(value, limits) if isinstance(value, str) and _OBJECT(value) else value


def parsed(value: Json, limits: Limits) -> Json:
    """Return a value; text that holds any JSON, a text or a number too, is taken apart.

    >>> parsed('"a"', Limits()), parsed("a", Limits())
    ('a', 'a')
    """
    if not isinstance(value, str):
        return value
    try:
        return decode(value.encode(), limits=limits).value
    except (TraceError, UnicodeEncodeError):
        return value


def text(attributes: Mapping[str, Json], *keys: str) -> str | None:
    """Return the first text under any of the keys, None where there is none."""
    for key in keys:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def value(attributes: Mapping[str, Json], *keys: str) -> Json:
    """Return what stands under the first of the keys that holds anything."""
    for key in keys:
        found = attributes.get(key)
        if found is not None:
            return found
    return None


def count(attributes: Mapping[str, Json], *keys: str) -> int | None:
    """Return the first whole number, 0 or above, under any of the keys."""
    for key in keys:
        found = attributes.get(key)
        if isinstance(found, str) and found.isdecimal() and len(found) < 19:
            return int(found)
        if isinstance(found, float) and found.is_integer():
            found = int(found)
        if isinstance(found, int) and not isinstance(found, bool) and found >= 0:
            return found
    return None


def number(attributes: Mapping[str, Json], *keys: str) -> float | None:
    """Return the first finite number, 0 or above, under any of the keys."""
    for key in keys:
        found = attributes.get(key)
        if isinstance(found, int | float) and not isinstance(found, bool):
            if found >= 0 and math.isfinite(found):
                return float(found)
    return None


def usage(
    given: int | None,
    made: int | None,
    *,
    read: int | None = None,
    written: int | None = None,
    reasoning: int | None = None,
) -> Usage | None:
    """Return token counts with one meaning; None where nothing is told.

    Conventions say that input includes the cache, and some exporters leave it out: an input smaller
    than its own cache does not include it.

    >>> usage(4, 767, read=29447, written=2861).input_total
    32312
    """
    cached = (read or 0) + (written or 0)
    if given is not None and given < cached:
        given += cached
    told = Usage(
        input_total=given,
        cache_read=read,
        cache_write=written,
        output_total=made,
        reasoning=reasoning,
    )
    return None if told == Usage() else told


def flattened(attributes: Mapping[str, Json], prefix: str) -> list[Json]:
    """Return what stands under indexed keys as a list of nested values, gaps left out.

    >>> flattened({"m.1.role": "user", "m.0.tools.0": "x", "n": 1}, "m.")
    [{'tools': ['x']}, {'role': 'user'}]
    """
    listed = nested(attributes, prefix)
    return listed if isinstance(listed, list) else []


def nested(attributes: Mapping[str, Json], prefix: str) -> Json:
    """Return what stands under dotted keys as the value that was spread over them.

    >>> nested({"t.id": 17, "t.tags.0": "a", "n": 1}, "t.")
    {'id': 17, 'tags': ['a']}
    """
    tree: dict[str, Json] = {}
    for key, found in attributes.items():
        if not key.startswith(prefix):
            continue
        *path, last = key[len(prefix) :].split(".")
        at = tree
        for name in path:
            under = at.get(name)
            if not isinstance(under, dict):
                under = at[name] = {}
            at = under
        at[last] = found
    return _listed(tree)


def _listed(tree: Json) -> Json:
    """Return a tree with every node whose keys are all indexes made a list."""
    if not isinstance(tree, dict):
        return tree
    inner = {key: _listed(found) for key, found in tree.items()}
    if inner and all(key.isdecimal() and len(key) < 7 and int(key) < _ENTRIES for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner
