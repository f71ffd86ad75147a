"""OpenAI chat messages as steps: one message is one step, its index the message's position.

Shared by every format that carries such messages (tau-bench among them). An assistant's message
with tool calls is a `call`, a tool's message a `result` of the environment. What a message says
beyond the API's own keys stays in `extra`; null is absence.
Format: OpenAI Python SDK 3.54.0, `types/chat/chat_completion_message_param.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.beliefs import Judged
from stepscope.formats.building import call_of, rest
from stepscope.formats.media import data_part, url_part
from stepscope.model import Actor, Json, Part, Step, StepKind, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "agent",
    "tool": "environment",
    "function": "environment",
}
ROLES = frozenset(_ACTORS)
_SPEAKERS = frozenset({"system", "user", "assistant"})
_PLAIN = frozenset({"role", "content"})
_ASSISTANT = frozenset({"role", "content", "tool_calls", "function_call"})
# What an assistant may say in a field of its own, in the order of its parts.
_THOUGHTS = ("reasoning", "reasoning_content")
_SPOKEN = frozenset({*_THOUGHTS, "refusal", "name"})
_RESULT = frozenset({"role", "content", "name", "tool_call_id"})
_CALL = frozenset({"id", "type", "function", "custom"})
_FUNCTION = frozenset({"name", "arguments", "input"})


class Reading(NamedTuple):
    """How messages are read: who judges a result's text, and the limits."""

    judge: Callable[[str], Judged]
    limits: Limits


def steps_of(messages: list[Json], reading: Reading) -> tuple[Step, ...]:
    """Return one step a message.

    Raises:
        TraceError: a message that is none, naming its position.
    """
    return tuple([step_of(message, index, reading) for index, message in enumerate(messages)])


def step_of(message: Json, index: int, reading: Reading) -> Step:
    """Return one message as the step at `index`.

    Raises:
        TraceError: no object, an unknown role, or a field of another type than the API's.
    """
    if type(message) is not dict:
        raise _unlike(index, "an object", message)
    role = message.get("role")
    actor = _ACTORS.get(role) if type(role) is str else None
    if actor is None:
        raise _unlike(index, f"a `role` among {', '.join(_ACTORS)}", role)
    if actor == "environment":
        return _result(message, index, reading)
    content = message.get("content")
    if type(content) is not str:
        parts = parts_of(content, index)
    elif not content:
        parts = ()
    else:
        parts = (Part("text", content),)
        if len(message) == 2 and role in _SPEAKERS:
            # Most messages of most runs: a role and its text.
            return Step(index=index, actor=actor, parts=parts)
    if actor == "agent":
        return _assistant(message, index, parts, reading)
    extra = rest(message, _PLAIN)
    if role == "developer":
        extra = {"role": role, **(extra or {})}
    return Step(index=index, actor=actor, parts=parts, extra=extra)


def _assistant(
    message: dict[str, Json], index: int, parts: tuple[Part, ...], reading: Reading
) -> Step:
    listed, legacy = message.get("tool_calls"), message.get("function_call")
    calls = () if listed is None and legacy is None else _calls(listed, legacy, index, reading)
    kind: StepKind = "call" if calls else "message"
    extra = rest(message, _ASSISTANT)
    if extra is None or _SPOKEN.isdisjoint(extra):
        return Step(index=index, actor="agent", kind=kind, parts=parts, calls=calls, extra=extra)
    said = {key: _text(extra.pop(key), key, index) for key in _SPOKEN & extra.keys()}
    thoughts = [Part("reasoning", said[key]) for key in _THOUGHTS if key in said]
    refusals = [Part("refusal", said["refusal"])] if "refusal" in said else []
    return Step(
        index=index,
        actor="agent",
        kind=kind,
        parts=(*thoughts, *parts, *refusals),
        calls=calls,
        agent=said.get("name"),
        extra=extra or None,
    )


def _calls(listed: Json, legacy: Json, index: int, reading: Reading) -> tuple[ToolCall, ...]:
    if listed is not None and type(listed) is not list:
        raise _unlike(index, "a list under `tool_calls`", listed)
    calls = tuple([_call(call, index, reading) for call in listed or ()])
    return calls if legacy is None else (*calls, _call({"function": legacy}, index, reading))


def _call(call: Json, index: int, reading: Reading) -> ToolCall:
    if type(call) is not dict:
        raise _unlike(index, "objects under `tool_calls`", call)
    function = call.get("function")
    if function is None:
        function = call.get("custom")
    if type(function) is not dict or type(function.get("name")) is not str:
        raise _unlike(index, "a `function` with a `name` in every tool call", function)
    call_id = call.get("id")
    extra = None
    if not (call.keys() <= _CALL and function.keys() <= _FUNCTION):
        extra = {**(rest(call, _CALL) or {}), **(rest(function, _FUNCTION) or {})} or None
    if "custom" in call:
        # A custom tool takes free text, which is no broken JSON.
        given = function.get("input")
        return ToolCall(function["name"], given, _id(call_id, index), extra=extra)
    return call_of(
        function["name"],
        function.get("arguments"),
        _id(call_id, index),
        limits=reading.limits,
        extra=extra,
    )


def _result(message: dict[str, Json], index: int, reading: Reading) -> Step:
    content = message.get("content")
    parts = parts_of(content, index)
    text = content if type(content) is str else "\n".join([p.text for p in parts if p.text])
    name = message.get("name")
    result = ToolResult(
        _id(message.get("tool_call_id"), index),
        None if name is None else _text(name, "name", index),
        parts,
        None,
        *reading.judge(text),
    )
    return Step(
        index=index,
        actor="environment",
        kind="result",
        results=(result,),
        extra=rest(message, _RESULT),
    )


def parts_of(content: Json, index: int) -> tuple[Part, ...]:
    """Return a message's content as parts: text, a list of content parts, or nothing.

    Raises:
        TraceError: content of another type.
    """
    if type(content) is str:
        return (Part("text", content),) if content else ()
    if content is None:
        return ()
    if type(content) is not list:
        raise _unlike(index, "text, a list or null under `content`", content)
    return tuple([_part(part, index) for part in content])


def _part(part: Json, index: int) -> Part:
    if isinstance(part, str):
        return Part("text", part)
    if isinstance(part, dict):
        return _typed_part(part)
    raise _unlike(index, "objects in a `content` list", part)


def _typed_part(part: dict[str, Json]) -> Part:
    match part:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            return Part("text", text, extra=rest(part, frozenset({"type", "text"})))
        case {"type": "refusal", "refusal": str(text)}:
            return Part("refusal", text, extra=rest(part, frozenset({"type", "refusal"})))
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return url_part("image", url, extra=rest(image, frozenset({"url"})))
        case {"type": "input_image", "image_url": str(url)}:
            return url_part("image", url, extra=rest(part, frozenset({"type", "image_url"})))
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(form)}}:
            return data_part("audio", f"audio/{form}", data)
        case {"type": "file", "file": {"file_data": str(data)} as file}:
            return url_part("file", data, extra=rest(file, frozenset({"file_data"})))
    return Part("data", extra=part)


def _text(value: Json, key: str, index: int) -> str:
    if isinstance(value, str):
        return value
    raise _unlike(index, f"text under `{key}`", value)


def _id(value: Json, index: int) -> str | None:
    if value is None or type(value) is str:
        return value
    raise _unlike(index, "text as a call's id", value)


def _unlike(index: int, expected: str, found: Json) -> TraceError:
    return TraceError(f"message {index} needs {expected}; found {str(found)[:60]!r}")
