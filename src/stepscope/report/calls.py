"""A tool call in few words: for one line of `show`, and for the evidence of a suspect.

The words are for reading, not for parsing; they are cut by the caller and made visible at print.
"""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.model import Json, ToolCall
from stepscope.report.cutting import cut

# A text of one or two characters says nothing without the name of its argument.
SHORT_TEXT = 2
# Below this many arguments a repeated call is clearer in full than as a difference.
WORTH_A_DIFFERENCE = 3
# No evidence needs more of one value than this many characters.
VALUE_WIDTH = 60


def words(call: ToolCall, earlier: ToolCall | None = None) -> str:
    """Return the call as `name(values)`; against an `earlier` call, only what changed.

    >>> words(ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 0}))
    'book(DTW, SEA, bags=0)'
    >>> words(ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 1}),
    ...       ToolCall("book", {"from": "DTW", "to": "SEA", "bags": 0}))
    'book(... bags=1)'
    """
    given = call.arguments
    if not isinstance(given, dict):
        return f"{call.name}({call.raw or '' if given is None else value(given)})"
    if _close(given, earlier, call.name):
        before = earlier.arguments if earlier is not None else {}
        changed = [_named(path, new) for path, _, new in differences(before, given)]
        return f"{call.name}(... {', '.join(changed) or 'the same'})"
    return f"{call.name}({', '.join(_argument(name, item) for name, item in given.items())})"


def value(item: Json) -> str:
    """Return one argument in few words: members of a list joined by `+`, of an object by a space.

    >>> value([{"number": "HAT097", "day": 1}, {"number": "HAT251", "day": 2}])
    'HAT097 1 + HAT251 2'
    """
    if isinstance(item, dict):
        return " ".join(value(member) for member in item.values())
    if isinstance(item, list | tuple):
        return " + ".join(value(member) for member in item) if item else "[]"
    if isinstance(item, bool) or item is None:
        return {True: "true", False: "false", None: "null"}[item]
    return item if isinstance(item, str) else str(item)


def differences(before: Json, after: Json, path: str = "") -> Iterator[tuple[str, Json, Json]]:
    """Yield every place where two arguments differ: its path, the value before, the value after.

    >>> list(differences({"a": 1, "b": [{"c": 2}]}, {"a": 1, "b": [{"c": 3}]}))
    [('b.c', 2, 3)]
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*after, *(name for name in before if name not in after)]:
            inner = f"{path}.{name}" if path else str(name)
            yield from differences(before.get(name), after.get(name), inner)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for was, now in zip(before, after, strict=True):
            yield from differences(was, now, path)
    elif before != after:
        yield path, before, after


def brief(item: Json) -> str:
    """Return a value cut to a length that evidence can carry."""
    text = value(item)
    return cut(text, VALUE_WIDTH)


def _argument(name: str, item: Json) -> str:
    if isinstance(item, str) and len(item) > SHORT_TEXT:
        return item
    return value(item) if isinstance(item, list | dict) and item else _named(name, item)


def _named(path: str, item: Json) -> str:
    return f"{path}={value(item) or repr(item)}"


def _close(given: dict[str, Json], earlier: ToolCall | None, name: str) -> bool:
    if earlier is None or earlier.name != name or not isinstance(earlier.arguments, dict):
        return False
    if len(given) < WORTH_A_DIFFERENCE:
        return False
    same = sum(bool(given.get(key) == item) for key, item in earlier.arguments.items())
    return 2 * same > len(given)
