"""Arguments against the JSON schema that a tool declares.

Checked: type, enum, const, required, properties, additionalProperties, items, prefixItems,
minItems, maxItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, minLength, maxLength,
pattern, anyOf, oneOf, allOf and local $ref. Every other keyword is left unread: it never condemns.
A library would check more of them, but a schema in a trace is hostile text: here patterns that
could run for ever are not run, and work is bounded (`BUDGET`, `DEPTH`).

Source: JSON Schema 2020-12, core and validation vocabularies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeGuard

import msgspec

from stepscope.measures.calls import agent_calls
from stepscope.model import Exchange, Json, ToolDef, Trajectory

# Schemas looked at for one call, and one inside the other: real ones take tens, and five; a $ref
# to itself never ends, and two of them in an anyOf explode.
BUDGET = 2_000
DEPTH = 64
# A pattern is run only on short texts, and only if no group of it repeats (see `_pattern`).
PATTERN_CHARACTERS = 200
TEXT_CHARACTERS = 256
# A value quoted in a reason.
QUOTE_CHARACTERS = 40

# A single value with no more than these needs only its type looked at: most arguments.
_PLAIN = frozenset({"type", "description", "title", "default", "enum"})
_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+]|,\}")
_UNBOUNDED_AT_MOST = 2


class Violation(NamedTuple):
    """One argument that breaks its schema: the call's step, its tool, where and why."""

    step: int
    tool: str
    reason: str


def definitions(trajectory: Trajectory, exchange: Exchange) -> list[ToolDef]:
    """Return the declared tools that a call may mean: of its name, offered to its agent.

    Where two agents have tools of one name, the caller's own counts; where the trace does not say
    who was offered what, any of them.
    """
    name = exchange.call.name
    named = [tool for tool in trajectory.tools or () if tool.name == name]
    caller = trajectory.steps[exchange.step].agent
    own = [tool for tool in named if tool.agent is not None and tool.agent == caller]
    if own:
        return own
    return [tool for tool in named if tool.agent is None or caller is None]


def violations(trajectory: Trajectory) -> tuple[list[Violation], int]:
    """Return what breaks a declared schema, and how many of the agent's calls had one."""
    found: list[Violation] = []
    checked = 0
    if not trajectory.tools:
        return found, checked
    for exchange in agent_calls(trajectory):
        schemas = [t.schema for t in definitions(trajectory, exchange) if t.schema is not None]
        if not schemas:
            continue
        checked += 1
        reason = min((why(exchange, schema) or "" for schema in schemas), key=len)
        if reason:
            found.append(Violation(exchange.step, exchange.call.name, reason))
    return found, checked


def why(exchange: Exchange, schema: dict[str, Json]) -> str | None:
    """Return why the arguments of a call break `schema`; None where they keep to it."""
    call = exchange.call
    if call.parse_error is not None:
        return f"the arguments are not JSON: {_short(call.raw)}"
    arguments = {} if call.arguments is None else call.arguments
    return next(_Check(schema).faults(arguments, schema, ""), None)


class _Check:
    """One walk over a value and its schema, with what is left of the budget."""

    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._left = BUDGET
        self._depth = 0

    def faults(self, value: Json, schema: Json, at: str) -> Iterator[str]:
        """Yield one sentence for each breach."""
        if schema is False:
            yield f"{at or 'it'} is not allowed"
        self._left -= 1
        if self._left < 0 or self._depth >= DEPTH or not isinstance(schema, dict):
            return
        if schema.keys() <= _PLAIN and not isinstance(value, dict | list):
            yield from _of_type(value, schema, at)
            return
        self._depth += 1
        yield from _of_type(value, schema, at)
        yield from _of_range(value, schema, at)
        if "$ref" in schema:
            yield from self.faults(value, self._referred(schema["$ref"]), at)
        if isinstance(value, dict):
            yield from self._object(value, schema, at)
        elif isinstance(value, list):
            yield from self._array(value, schema, at)
        yield from self._combined(value, schema, at)
        self._depth -= 1

    def _referred(self, pointer: Json) -> Json:
        target: Json = self._root
        if not isinstance(pointer, str) or not pointer.startswith("#"):
            return None
        for name in pointer[1:].split("/")[1:]:
            if not isinstance(target, dict):
                return None
            target = target.get(name.replace("~1", "/").replace("~0", "~"))
        return target

    def _object(self, value: dict[str, Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        required = schema.get("required")
        for name in required if isinstance(required, list) else ():
            if isinstance(name, str) and name not in value:
                yield f"{_path(at, name)} is required and missing"
        given = schema.get("properties")
        properties = given if isinstance(given, dict) else {}
        others = schema.get("additionalProperties", True)
        patterns = schema.get("patternProperties")
        for name, member in value.items():
            if name in properties:
                yield from self.faults(member, properties[name], _path(at, name))
            elif others is False and not patterns:
                yield f"{_path(at, name)} is not declared"
            elif isinstance(others, dict) and not patterns:
                yield from self.faults(member, others, _path(at, name))

    def _array(self, value: list[Json], schema: dict[str, Json], at: str) -> Iterator[str]:
        low, high = schema.get("minItems"), schema.get("maxItems")
        if _is_number(low) and len(value) < low:
            yield f"{at} has {len(value)} entries, at least {low} expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} entries, at most {high} expected"
        given = schema.get("prefixItems")
        first = given if isinstance(given, list) else []
        for number, member in enumerate(value):
            each = first[number] if number < len(first) else schema.get("items")
            yield from self.faults(member, each, f"{at}[{number}]")

    def _combined(self, value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
        every = schema.get("allOf")
        for part in every if isinstance(every, list) else ():
            yield from self.faults(value, part, at)
        for keyword in ("anyOf", "oneOf"):
            options = schema.get(keyword)
            if not isinstance(options, list) or not options:
                continue
            reasons = [self._first(value, option, at) for option in options]
            if all(reasons) and self._left > 0:
                yield f"{at or 'it'} is none of {len(options)} allowed forms: {reasons[0]}"
            elif keyword == "oneOf" and self._left > 0 and reasons.count(None) > 1:
                yield f"{at or 'it'} is {reasons.count(None)} of the forms, exactly one expected"

    def _first(self, value: Json, schema: Json, at: str) -> str | None:
        depth = self._depth
        reason = next(self.faults(value, schema, at), None)
        self._depth = depth  # a walk left half-way does not count itself out
        return reason


def _of_type(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    wanted = schema.get("type")
    names = wanted if isinstance(wanted, list) else [wanted]
    tests = [_TYPES[name] for name in names if isinstance(name, str) and name in _TYPES]
    if len(tests) == len(names) and not any(test(value) for test in tests):
        if not (value is None and schema.get("nullable") is True):
            yield f"{at or 'it'} is {_short(value)}, expected {' or '.join(map(str, names))}"
            return
    options = schema.get("enum")
    if isinstance(options, list) and not any(_same(value, option) for option in options):
        yield f"{at or 'it'} is {_short(value)}, expected one of {_short(options)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{at or 'it'} is {_short(value)}, expected {_short(schema['const'])}"


def _of_range(value: Json, schema: dict[str, Json], at: str) -> Iterator[str]:
    if isinstance(value, str):
        low, high = schema.get("minLength"), schema.get("maxLength")
        if _is_number(low) and len(value) < low:
            yield f"{at} is {_short(value)}, at least {low} characters expected"
        if _is_number(high) and len(value) > high:
            yield f"{at} has {len(value)} characters, at most {high} expected"
        pattern = schema.get("pattern")
        compiled = _pattern(pattern) if isinstance(pattern, str) else None
        if compiled and len(value) <= TEXT_CHARACTERS and not compiled.search(value):
            yield f"{at} is {_short(value)}, expected the form {_short(pattern)}"
    elif _is_number(value):
        for keyword, holds, said in _BOUNDS:
            bound = schema.get(keyword)
            if _is_number(bound) and not holds(value, bound):
                yield f"{at} is {_short(value)}, expected {said} {_short(bound)}"


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str] | None:
    """Return a pattern that is safe to run; None for one that could backtrack for ever."""
    risky = _REPEATED_GROUP.search(text) or len(_UNBOUNDED.findall(text)) > _UNBOUNDED_AT_MOST
    if len(text) > PATTERN_CHARACTERS or risky:
        return None
    try:
        return re.compile(text)
    except (re.error, OverflowError):
        return None  # the dialect of JSON Schema is JavaScript's: what Python cannot read is unread


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Json) -> bool:
    return _is_number(value) and float(value).is_integer()


_TYPES: dict[str, Callable[[Json], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_BOUNDS: Sequence[tuple[str, Callable[[float, float], bool], str]] = (
    ("minimum", lambda value, bound: value >= bound, "at least"),
    ("maximum", lambda value, bound: value <= bound, "at most"),
    ("exclusiveMinimum", lambda value, bound: value > bound, "more than"),
    ("exclusiveMaximum", lambda value, bound: value < bound, "less than"),
)


def _same(value: Json, other: Json) -> bool:
    """Equality of JSON, where 1 is 1.0 and is not true."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    return bool(value == other)


def _path(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _short(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= QUOTE_CHARACTERS else text[: QUOTE_CHARACTERS - 1] + "…"
