"""Messages within attributes, whatever dialect they are written in.

One reader for the parts of the OpenTelemetry conventions, OpenAI's chat and Responses items,
Anthropic's blocks, Gemini's contents, LangChain's messages and generations, and the Vercel AI SDK's
content: they differ in names, not in what they say. A value that is no message at all is one
message of text. Refuses nothing.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from stepscope.formats.beliefs import judge_text
from stepscope.formats.building import rest, text_at
from stepscope.formats.spans import langchain
from stepscope.formats.spans.attributes import decoded
from stepscope.formats.spans.blocks import block, call, result
from stepscope.formats.spans.said import Message
from stepscope.model import Actor, Json, Part, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "agent",
    "ai": "agent",
    "aimessagechunk": "agent",
    "model": "agent",
    "tool": "environment",
    "function": "environment",
}
_KNOWN = frozenset(
    "role type content contents parts text tool_calls tool_call_id name finish_reason message "
    "reasoning_content refusal id function_call additional_kwargs response_metadata "
    "invalid_tool_calls usage_metadata".split()
)
_ANSWER = _KNOWN | {"status", "artifact"}
# Keys under which a body holds its messages, most telling first.
_BODIES = ("messages", "contents", "choices", "generations", "output", "candidates")
_ITEMS = frozenset("function_call function_call_output message reasoning custom_tool_call".split())


class _Told(NamedTuple):
    """A list of messages that was read: its text but for the closing bracket, what it says."""

    head: str
    actor: Actor
    limits: Limits
    messages: tuple[Message, ...]


# Conversations may go on in turn: agents of a run, runs recorded side by side.
_latest: deque[_Told] = deque(maxlen=8)
# Reading a text shorter than this costs less than remembering it.
_SHORT = 500

# The order of keys in a trace says nothing: two of one content are one text.
_encode = msgspec.json.Encoder(order="deterministic").encode


def read(found: Json, actor: Actor, limits: Limits) -> tuple[Message, ...]:
    """Return the messages that a value holds; `actor` said those that do not say who did.

    Every call of a model is recorded with all the messages before it. A list that begins with the
    text of one that was read lately is read from there on: its elements are those, then the others.
    """
    if not isinstance(found, str) or len(found) < _SHORT or found[0] != "[" or found[-1] != "]":
        return _read(found, actor, limits)
    for told in tuple(_latest):
        if found.startswith(told.head) and (told.actor, told.limits) == (actor, limits):
            more = found[len(told.head) :].lstrip()
            listed = decoded("[" + more.removeprefix(","), limits) if more[0] in ",]" else None
            if _are_objects(listed) and (listed or more == "]"):
                return _remembered(
                    found, actor, limits, (*told.messages, *_read(listed, actor, limits))
                )
    listed = decoded(found, limits)
    if _are_objects(listed):
        return _remembered(found, actor, limits, _read(listed, actor, limits))
    return _read(found, actor, limits)


def _are_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _remembered(
    found: str, actor: Actor, limits: Limits, messages: tuple[Message, ...]
) -> tuple[Message, ...]:
    _latest.appendleft(_Told(found[:-1].rstrip(), actor, limits, messages))
    return messages


def _read(found: Json, actor: Actor, limits: Limits) -> tuple[Message, ...]:
    value = decoded(found, limits)
    if value is None or value in ("", [], {}):
        return ()
    if isinstance(value, dict):
        # The AI SDK lists what a model called without a word about who did.
        made = call(value, limits) if "toolCallId" in value else None
        return (Message("agent", calls=(made,)),) if made else _body(value, actor, limits)
    if isinstance(value, list):
        if all(isinstance(entry, dict | list) for entry in value):
            return tuple([said for entry in value for said in _read(entry, actor, limits)])
        if all(isinstance(entry, str) for entry in value):
            return tuple([said for entry in value for said in _read(entry, actor, limits)])
    return (Message(actor, (Part("text", plain(found)),)),)


def plain(value: Json) -> str:
    """Return a value as text: text as it is, anything else as JSON, keys in their order."""
    return value if isinstance(value, str) else _encode(value).decode()


def _body(value: dict[str, Json], actor: Actor, limits: Limits) -> tuple[Message, ...]:
    if is_message(value) and not isinstance(value.get("data"), dict):
        return (_message(value, actor, limits),)
    if (inner := langchain.unwrapped(value)) is not None:
        return read(inner, actor, limits)
    for key in _BODIES:
        held = value.get(key)
        if isinstance(held, list) and held:
            return (*_instructions(value, limits), *read(held, actor, limits))
    message = value.get("message")
    if isinstance(message, dict):
        return _generation(value, message, actor, limits)
    content = value.get("content")
    if isinstance(content, dict):
        return read(content, actor, limits)
    for key in ("text", "content", "answer"):
        if isinstance(said := value.get(key), str) and len(value) <= 3:
            extra = {k: v for k, v in value.items() if k != key} or None
            return (Message(actor, (Part("text", said),), extra=extra),)
    if "kind" not in value and isinstance(value.get("type"), str):
        return (_message({"parts": [value]}, actor, limits),)
    return (Message(actor, (Part("text", plain(value)),)),)


def _generation(
    value: dict[str, Json], message: dict[str, Json], actor: Actor, limits: Limits
) -> tuple[Message, ...]:
    """Return a choice or generation: its message, whose text may stand beside it."""
    inner = message["kwargs"] if isinstance(message.get("kwargs"), dict) else message
    if not inner.get("content") and isinstance(value.get("text"), str):
        inner = {**inner, "content": value["text"]}
    reason = value.get("finish_reason")
    said = _message({"role": "assistant", **inner}, actor, limits)
    return (said._replace(finish=reason if isinstance(reason, str) else said.finish),)


def _instructions(value: dict[str, Json], limits: Limits) -> tuple[Message, ...]:
    config = value.get("config")
    held = config if isinstance(config, dict) else value
    for key in ("system_instruction", "systemInstruction", "system", "instructions"):
        if said := held.get(key):
            return read(said, "system", limits)
    return ()


def is_message(value: Json) -> bool:
    """Say whether a value is one message of any dialect."""
    if not isinstance(value, dict):
        return False
    role = value.get("role", value.get("type"))
    if isinstance(role, str) and role.lower() in _ACTORS:
        return "function" not in value
    return isinstance(role, str) and role in _ITEMS


def _message(value: dict[str, Json], actor: Actor, limits: Limits) -> Message:
    role = text_at(value, "role") or text_at(value, "type") or ""
    actor = _ACTORS.get(role.lower(), actor)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    if text_at(value, "type") in _ITEMS - {"message"}:
        _sort(value, limits, parts, calls, results)
        who: Actor = "environment" if results else "agent"
        return Message(who, tuple(parts), tuple(calls), tuple(results))
    thought = value.get("reasoning_content")
    if isinstance(thought, str) and thought:
        parts.append(Part("reasoning", thought))
    for key in ("parts", "content", "contents"):
        _content(value.get(key), limits, parts, calls, results)
    for listed in _calls(value):
        made = call(listed, limits)
        if made is not None and all(made.id is None or made.id != c.id for c in calls):
            calls.append(made)
    calls.extend(langchain.invalid_calls(value))
    known = _KNOWN
    if actor == "environment" and calls and not results and not parts:
        actor = "agent"
    if actor == "environment" and not results:
        results.append(_answer(value, tuple(parts)))
        parts, known = [], _ANSWER if results[0].source == "explicit" else _KNOWN
    if results and not parts and not calls:
        actor = "environment"
    finish, name = value.get("finish_reason"), value.get("name")
    return Message(
        actor,
        tuple(parts),
        tuple(calls),
        tuple(results),
        name if isinstance(name, str) and actor != "environment" else None,
        finish if isinstance(finish, str) else None,
        rest(value, known),
    )


def _calls(value: dict[str, Json]) -> list[Json]:
    listed = value.get("tool_calls")
    more = value.get("additional_kwargs")
    if not listed and isinstance(more, dict):
        listed = more.get("tool_calls")
    legacy = value.get("function_call")
    calls = list(listed) if isinstance(listed, list) else []
    return [*calls, legacy] if isinstance(legacy, dict) else calls


def _answer(value: dict[str, Json], parts: tuple[Part, ...]) -> ToolResult:
    said = "\n".join([part.text for part in parts if part.text is not None])
    judged = langchain.verdict(value, said) or judge_text(said)
    call_id, name = text_at(value, "tool_call_id"), text_at(value, "name")
    return ToolResult(call_id, name, parts, value.get("artifact"), *judged)


def _content(
    content: Json,
    limits: Limits,
    parts: list[Part],
    calls: list[ToolCall],
    results: list[ToolResult],
) -> None:
    if isinstance(content, str):
        if content:
            _text(content, limits, parts, calls)
        return
    listed = [content] if isinstance(content, dict) else content
    if not isinstance(listed, list):
        return
    for entry in listed:
        if isinstance(entry, str):
            _text(entry, limits, parts, calls)
        elif isinstance(entry, dict):
            _sort(entry, limits, parts, calls, results)
        elif entry is not None:
            parts.append(Part("data", extra={"value": entry}))


def _text(said: str, limits: Limits, parts: list[Part], calls: list[ToolCall]) -> None:
    """Add a text, unless it is the printed form of a call that an exporter left unread."""
    made = call(said, limits) if said.startswith("ResponseFunctionToolCall(") else None
    found = (made,) if made is not None else _written(said, limits)
    if found:
        calls.extend(found)
    else:
        parts.append(Part("text", said))


def _written(said: str, limits: Limits) -> tuple[ToolCall, ...]:
    """Return the calls of a text that is nothing but a list of them, as Koog writes them."""
    if not said.startswith('[{"'):
        return ()
    listed = decoded(said, limits)
    if not isinstance(listed, list) or not all(_is_call(entry) for entry in listed):
        return ()
    made = [call(entry, limits) for entry in listed]
    return tuple([found for found in made if found is not None])


def _is_call(entry: Json) -> bool:
    function = entry.get("function") if isinstance(entry, dict) else None
    return isinstance(function, dict) and {"name", "arguments"} <= function.keys()


def _sort(
    entry: dict[str, Json],
    limits: Limits,
    parts: list[Part],
    calls: list[ToolCall],
    results: list[ToolResult],
) -> None:
    found = call(entry, limits)
    if found is not None:
        calls.append(found)
        return
    answer = result(entry)
    if answer is not None:
        results.append(answer)
        return
    said = block(entry)
    if said.kind == "text" and said.extra is None and said.text is not None:
        _text(said.text, limits, parts, calls)
    else:
        parts.append(said)
