"""The call that a tool's span carries out, from whatever its recorder wrote of the arguments."""

from __future__ import annotations

import ast

import msgspec

from stepscope.formats.building import call_of
from stepscope.formats.spans.attributes import decoded
from stepscope.model import Json, ToolCall
from stepscope.safety.limits import Limits

# The printed form of an object is read up to this many characters.
_PRINTED = 100_000


def tool_call(name: str, made: Json, call_id: str | None, limits: Limits) -> ToolCall:
    """Return the call of a tool's span; no arguments at all are an empty object."""
    held = arguments_of(made, limits)
    if isinstance(held, str) and (fields := printed(held)) is not None:
        return msgspec.structs.replace(call_of(name, fields, call_id, limits=limits), raw=held)
    return call_of(name, {} if held is None else held, call_id, limits=limits)


def printed(said: str) -> dict[str, Json] | None:
    """Return an object that Python printed, None where the text is none.

    >>> printed("{'query': 'x', 'n': None}"), printed('{"query": "x"}'), printed("{query}")
    ({'query': 'x', 'n': None}, None, None)
    """
    if not said.startswith("{'") or len(said) > _PRINTED:
        return None
    try:
        value = ast.literal_eval(said)
        msgspec.json.encode(value)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) and all(isinstance(key, str) for key in value) else None


def arguments_of(made: Json, limits: Limits) -> Json:
    """Return what a tool was called with, out of what decorators and callbacks wrap it in.

    A function is given `args` and `kwargs`; LangChain's callback tells its `inputs` twice.

    >>> arguments_of('{"args": [], "kwargs": {"city": "Oslo"}}', Limits())
    {'city': 'Oslo'}
    """
    held = decoded(made, limits)
    if not isinstance(held, dict):
        return made
    if held.keys() == {"args", "kwargs"} and held["args"] in ([], None):
        return held["kwargs"]
    if "input_str" in held and isinstance(held.get("inputs"), dict):
        return held["inputs"]
    return made
