"""Anthropic messages as steps: one message is one step, whatever blocks it holds.

Tool results live in a user message; a message of nothing but results is the environment speaking.
A result's `is_error`, where it stands, is explicit; where it is left out its text is judged.
Format: Anthropic Python SDK 2.12.0, `types/message_param.py`, `types/content_block.py`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.beliefs import UNKNOWN, Judged, judge_text
from stepscope.formats.building import call_of, rest
from stepscope.formats.media import data_part, url_part
from stepscope.formats.tokens import anthropic_usage
from stepscope.model import Actor, Json, Part, PartKind, Step, StepKind, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {"user": "user", "assistant": "agent", "system": "system"}
_CALLS: dict[str, Literal["function", "mcp", "server"]] = {
    "tool_use": "function",
    "mcp_tool_use": "mcp",
    "server_tool_use": "server",
}
_MESSAGE = frozenset({"role", "content", "type", "model", "id", "stop_reason", "usage"})
_CALL = frozenset({"type", "id", "name", "input"})
_RESULT = frozenset({"type", "tool_use_id", "content", "is_error"})
_MEDIA: dict[str, PartKind] = {"image": "image", "document": "file", "file": "file"}


class Blocks(NamedTuple):
    """The content of a message, sorted by what it is."""

    parts: tuple[Part, ...]
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]


def message_step(message: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`.

    Raises:
        TraceError: no object, an unknown role, or a block that lacks what its type promises.
    """
    if not isinstance(message, dict):
        raise _unlike(index, "an object", message)
    role = message.get("role")
    actor = _ACTORS.get(role) if isinstance(role, str) else None
    if actor is None:
        raise _unlike(index, "a `role` among user, assistant, system", role)
    blocks = blocks_of(message.get("content"), index, limits)
    model, reason, own_id = (message.get(key) for key in ("model", "stop_reason", "id"))
    return Step(
        index=index,
        actor=speaker(actor, blocks),
        kind=kind_of(blocks),
        parts=blocks.parts,
        calls=blocks.calls,
        results=blocks.results,
        model=model if isinstance(model, str) else None,
        usage=anthropic_usage(message.get("usage")),
        finish_reason=reason if isinstance(reason, str) else None,
        id=own_id if isinstance(own_id, str) else None,
        extra=message_extra(message),
    )


def speaker(actor: Actor, blocks: Blocks) -> Actor:
    """Return who speaks: a user's message of nothing but results is the environment."""
    only_results = blocks.results and not blocks.parts and not blocks.calls
    return "environment" if actor == "user" and only_results else actor


def kind_of(blocks: Blocks) -> StepKind:
    """Return what kind of step blocks make."""
    if blocks.calls:
        return "call"
    return "result" if blocks.results else "message"


def message_extra(message: dict[str, Json]) -> dict[str, Json] | None:
    """Return what a message says beyond the fields of a step, what `usage` says among it."""
    extra = rest(message, _MESSAGE) or {}
    usage = message.get("usage")
    if isinstance(usage, dict):
        counted = frozenset(
            "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens".split()
        )
        more = rest(usage, counted)
        extra = {**extra, "usage": more} if more else extra
    return extra or None


def blocks_of(content: Json, index: int, limits: Limits) -> Blocks:
    """Return a message's content sorted into parts, calls and results.

    Raises:
        TraceError: content that is neither text nor a list of blocks.
    """
    if content is None or content == "":
        return Blocks((), (), ())
    if isinstance(content, str):
        return Blocks((Part("text", content),), (), ())
    if not isinstance(content, list):
        raise _unlike(index, "text or a list of blocks under `content`", content)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in content:
        if isinstance(block, str):
            parts.append(Part("text", block))
            continue
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise _unlike(index, "a `type` in every block", block)
        if block["type"] in _CALLS:
            calls.append(_call(block, index, limits))
        elif "tool_use_id" in block:
            results.append(_result(block, index))
        else:
            parts.append(_part(block))
    return Blocks(tuple(parts), tuple(calls), tuple(results))


def _call(block: dict[str, Json], index: int, limits: Limits) -> ToolCall:
    name, call_id = block.get("name"), block.get("id")
    if not isinstance(name, str):
        raise _unlike(index, "a `name` in every tool_use block", name)
    if call_id is not None and not isinstance(call_id, str):
        raise _unlike(index, "text as `id` of a tool_use block", call_id)
    call = call_of(name, block.get("input"), call_id, limits=limits, extra=rest(block, _CALL))
    kind = _CALLS[block["type"]]
    if kind == "function":
        return call
    return ToolCall(
        name, call.arguments, call_id, call.raw, call.parse_error, kind=kind, extra=call.extra
    )


def _result(block: dict[str, Json], index: int) -> ToolResult:
    call_id = block["tool_use_id"]
    if call_id is not None and not isinstance(call_id, str):
        raise _unlike(index, "text as `tool_use_id`", call_id)
    content = block.get("content")
    structured: Json = None
    if isinstance(content, dict):
        # A server tool's failure is one object in place of the list of results.
        structured, content = content, None
    pieces = content if isinstance(content, list) else [] if content is None else [content]
    parts = tuple([_piece(piece, index) for piece in pieces])
    extra = rest(block, _RESULT)
    if block["type"] != "tool_result":
        extra = {**(extra or {}), "type": block["type"]}
    judged = _judged(block.get("is_error"), structured, parts)
    return ToolResult(call_id, None, parts, structured, *judged, extra=extra)


def _judged(flag: Json, structured: Json, parts: tuple[Part, ...]) -> Judged:
    text = "\n".join([part.text for part in parts if part.text is not None])
    if flag is True:
        return Judged("error", "explicit", text.strip()[:200] or None)
    if flag is False:
        return Judged("ok", "explicit", None)
    if isinstance(structured, dict) and "error_code" in structured:
        return Judged("error", "protocol", str(structured["error_code"]))
    return judge_text(text) if text else UNKNOWN


def _piece(piece: Json, index: int) -> Part:
    if isinstance(piece, str):
        return Part("text", piece)
    if isinstance(piece, dict):
        return _part(piece)
    raise _unlike(index, "text or blocks as a tool's result", piece)


def _part(block: dict[str, Json]) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Part("text", text, extra=rest(block, frozenset({"type", "text"})))
        case {"type": "thinking", "thinking": str(text)}:
            return Part("reasoning", text, extra=rest(block, frozenset({"type", "thinking"})))
        case {"type": "image" | "document" | "file" as kind, "source": dict(source)}:
            return _media(_MEDIA[kind], block, source)
        case {"type": "redacted_thinking"}:
            return Part("reasoning", extra=block)
    return Part("data", extra=block)


def _media(kind: PartKind, block: dict[str, Json], source: dict[str, Json]) -> Part:
    extra = rest(block, frozenset({"type", "source"}))
    match source:
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            return data_part(kind, media_type, data, extra=extra)
        case {"type": "url", "url": str(url)}:
            return url_part(kind, url, extra=extra)
    return Part(kind, extra={**(extra or {}), "source": source})


def _unlike(index: int, expected: str, found: Json) -> TraceError:
    return TraceError(f"message {index} needs {expected}; found {str(found)[:60]!r}")
