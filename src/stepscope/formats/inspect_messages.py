"""Messages of an Inspect log as steps: one message is one step.

A tool's message says whether its call failed, so what it says is explicit. A tool that the model's
provider ran is call and result in one message.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `model/_chat_message.py`, `_util/content.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from stepscope.formats import building
from stepscope.formats.building import rest, text_at
from stepscope.formats.inspect_texts import Texts
from stepscope.formats.media import url_part
from stepscope.model import Actor, Json, Part, PartKind, Step, StepKind, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {
    "system": "system",
    "user": "user",
    "assistant": "agent",
    "tool": "environment",
}
_MESSAGE = frozenset("id role content tool_calls tool_call_id function error model".split())
_CALL = frozenset({"id", "function", "arguments", "parse_error", "type"})
_SERVED = frozenset({"type", "tool_type", "id", "name", "arguments", "result", "error"})
_MEDIA: dict[str, tuple[PartKind, str]] = {
    "image": ("image", "image"),
    "audio": ("audio", "audio"),
    "video": ("file", "video"),
    "document": ("file", "document"),
}
_TEXT, _REASONING = frozenset({"type", "text"}), frozenset({"type", "reasoning"})


class Failure(msgspec.Struct, gc=False):
    """A tool's error: its `type` is one of Inspect's `ToolCallError`."""

    message: str = ""
    type: str = "unknown"

    @property
    def text(self) -> str:
        """Type and message in one line of text."""
        return f"{self.type}: {self.message}" if self.message else self.type


class Call(msgspec.Struct, gc=False):
    """A tool call that a model made."""

    function: str
    id: str | None = None
    arguments: Any = None
    parse_error: str | None = None
    type: str | None = None


class Message(msgspec.Struct, gc=False):
    """A message, in any role."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | list[Any] | None = None
    id: str | None = None
    tool_calls: list[Any] | None = None
    tool_call_id: str | list[str] | None = None
    function: str | None = None
    error: Failure | None = None
    model: str | None = None
    source: str | None = None


class Said(NamedTuple):
    """A message as the step that it makes, and what tells it from others."""

    step: Step
    key: tuple[str, ...]
    generated: bool


class _Content(NamedTuple):
    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()


_message: Callable[[Json, type[Message]], Message] = msgspec.convert


def said(value: Json, texts: Texts) -> Said:
    """Return a message as a step; its index is the business of who adds it.

    The message stays as it is: it is compared with what models are given later.

    Raises:
        msgspec.ValidationError: it is no message.
    """
    message = _message(value, Message)
    actor = _ACTORS[message.role]
    content = content_of(message.content, texts)
    if message.role == "tool":
        call_id = message.tool_call_id if isinstance(message.tool_call_id, str) else None
        result = result_of(call_id, message.function, content.parts, message.error)
        step = Step(
            index=0,
            actor=actor,
            kind="result",
            results=(result,),
            id=message.id,
            extra=rest(value, _MESSAGE),
        )
        return Said(step, _key(message, step), generated=False)
    calls = tuple([call_of(call, texts) for call in message.tool_calls or ()]) + content.calls
    kind: StepKind = "call" if calls else "message"
    step = Step(
        index=0,
        actor=actor,
        kind=kind,
        parts=content.parts,
        calls=calls,
        results=content.results,
        model=message.model,
        id=message.id,
        extra=rest(value, _MESSAGE),
    )
    return Said(step, _key(message, step), message.source == "generate")


def _key(message: Message, step: Step) -> tuple[str, ...]:
    """Return what a message repeated elsewhere, maybe under another id, has in common."""
    if step.results and step.results[0].call_id is not None and message.role == "tool":
        return ("tool", step.results[0].call_id)
    ids = [call.id for call in step.calls if call.id is not None]
    if ids and len(ids) == len(step.calls):
        return ("calls", *ids)
    told = [part.text if part.text is not None else repr(part) for part in step.parts]
    told += [result.text for result in step.results]
    return (message.role, *told, *[call.name for call in step.calls])


def result_of(
    call_id: str | None, name: str | None, parts: tuple[Part, ...], error: Failure | None
) -> ToolResult:
    """Return a tool's result; without an error it went well, since Inspect would tell."""
    if error is None:
        return ToolResult(call_id, name, parts, None, "ok", "explicit")
    told: dict[str, Json] = {"error_type": error.type}
    return ToolResult(call_id, name, parts, None, "error", "explicit", error.text, extra=told)


def call_of(value: Json, texts: Texts) -> ToolCall:
    """Return a tool call; arguments that could not be parsed are kept as the text that came.

    Raises:
        msgspec.ValidationError: it is none.
    """
    call = msgspec.convert(value, Call)
    extra = rest(value, _CALL)
    if call.type not in {None, "function"}:
        extra = {"type": call.type, **(extra or {})}
    arguments = texts.copied(call.arguments)
    if call.parse_error is None:
        return ToolCall(call.function, arguments, call.id, extra=extra)
    raw = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return ToolCall(call.function, None, call.id, raw, call.parse_error, extra=extra)


def content_of(content: Json, texts: Texts) -> _Content:
    """Return content, text or blocks, sorted by what it is; anything else is data."""
    if isinstance(content, str):
        return _Content((Part("text", texts.of(content)),) if content else ())
    if content is None:
        return _Content(())
    blocks = content if isinstance(content, list) else [content]
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in blocks:
        value = texts.copied(block)
        if isinstance(value, dict) and value.get("type") == "tool_use" and text_at(value, "name"):
            call, result = _served(value, texts.limits)
            calls.append(call)
            results.append(result)
        else:
            parts.append(_part(value))
    return _Content(tuple(parts), tuple(calls), tuple(results))


def _served(block: dict[str, Json], limits: Limits) -> tuple[ToolCall, ToolResult]:
    """Return a call that the provider ran, and what came of it."""
    name, call_id, error = str(block["name"]), text_at(block, "id"), text_at(block, "error")
    told = building.call_of(
        name, block.get("arguments"), call_id, limits=limits, extra=rest(block, _SERVED)
    )
    kind: Literal["mcp", "server"] = "mcp" if block.get("tool_type") == "mcp_call" else "server"
    call = msgspec.structs.replace(told, kind=kind)
    answer = text_at(block, "result")
    parts = (Part("text", answer),) if answer else ()
    failure = None if error is None else Failure(error)
    return call, result_of(call_id, name, parts, failure)


def _part(block: Json) -> Part:
    match block:
        case str(text):
            return Part("text", text)
        case {"type": "text", "text": str(text)}:
            kind: PartKind = "refusal" if block.get("refusal") is True else "text"
            return Part(kind, text, extra=rest(block, _TEXT))
        case {"type": "reasoning", "reasoning": str(text)}:
            return Part("reasoning", text or None, extra=rest(block, _REASONING))
        case {"type": "image" | "audio" | "video" | "document" as sort}:
            kind, key = _MEDIA[sort]
            link = block.get(key)
            if isinstance(link, str):
                return url_part(kind, link, extra=rest(block, frozenset({"type", key})))
        case dict():
            return Part("data", extra=block)
    return Part("data", extra=block if isinstance(block, dict) else {"value": block})
