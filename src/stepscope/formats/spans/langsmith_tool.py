"""A tool's run of LangSmith: the call that it carries out, and what came back.

LangChain wraps what a tool gave back in a message with the call's id and a status; a command of
LangGraph holds such a message among others, and where to go next. Older tracers print arguments as
Python does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stepscope.formats.beliefs import Judged
from stepscope.formats.building import call_of
from stepscope.formats.spans import langchain
from stepscope.formats.spans.attributes import parsed, text
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.said import Said
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Part
from stepscope.safety.limits import Limits

# Arguments printed by Python are read up to this many characters.
_PRINTED = 100_000


class _Answer(NamedTuple):
    parts: tuple[Part, ...]
    call_id: str | None = None
    belief: Judged | None = None
    target: str | None = None


def tool(span: Span, base: Said, given: Json, made: Json, limits: Limits) -> Said:
    """Return what a tool's run says."""
    about, beside = span.attributes, span.attributes.get("langsmith.extra")
    call_id = text(beside, "tool_call_id") if isinstance(beside, dict) else None
    call_id = call_id or text(about, "langsmith.metadata.tool_call_id", "gen_ai.tool.call.id")
    answer = _answer(lone(made), call_id)
    call = call_of(span.name, _arguments(given, limits), call_id or answer.call_id, limits=limits)
    return msgspec.structs.replace(
        base, call=call, parts=answer.parts, belief=answer.belief, target=answer.target
    )


def lone(held: Json) -> Json:
    """Return the only thing that stands in an object, text or list; anything else as it is.

    >>> lone({"output": "done"}), lone({"a": 1})
    ('done', {'a': 1})
    """
    if isinstance(held, dict):
        told = [found for found in held.values() if found is not None]
        if not told:
            return None
        inner = told[0]
        if len(told) == 1 and (isinstance(inner, str | list) or "output" in held):
            return inner
    return held


def _arguments(given: Json, limits: Limits) -> Json:
    """Return a call's arguments; text that holds them as JSON or as Python prints them is read."""
    held = given.get("input") if isinstance(given, dict) and given.keys() == {"input"} else None
    if not isinstance(held, str):
        return {} if given is None else given
    found = parsed(held, limits)
    if isinstance(found, str) and held.startswith("{") and len(held) <= _PRINTED:
        try:
            found = ast.literal_eval(held)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            return given
        found = _plain(found)
    return found if isinstance(found, dict) else given


def _plain(found: object) -> Json:
    """Return what Python printed as JSON has it, None where JSON cannot say it."""
    try:
        return msgspec.json.decode(msgspec.json.encode(found))
    except (TypeError, msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError):
        return None


def _answer(held: Json, call_id: str | None) -> _Answer:
    found = next(_told(held, call_id), None)
    goto = held.get("goto") if isinstance(held, dict) and "update" in held else None
    target = goto if isinstance(goto, str) and goto else None
    if found is None:
        return _Answer(result_parts(held), target=target)
    parts = result_parts(found.get("content"))
    said = "\n".join([part.text for part in parts if part.text is not None])
    belief = langchain.verdict(found, said)
    return _Answer(parts, text(found, "tool_call_id"), belief, target)


def _told(held: Json, call_id: str | None) -> Iterator[dict[str, Json]]:
    """Yield tools' messages: the value itself, one of a list, or within the update of a command."""
    if isinstance(held, dict):
        inner = held.get("kwargs") if langchain.constructed(held) == "tool" else held
        if isinstance(inner, dict) and "content" in inner and "tool_call_id" in inner:
            if call_id is None or inner["tool_call_id"] == call_id:
                yield inner
            return
        update = held.get("update")
        yield from _told(update.get("messages") if isinstance(update, dict) else None, call_id)
    elif isinstance(held, list):
        for entry in reversed(held):
            if isinstance(entry, dict):
                yield from _told(entry, call_id)
