"""Read Anthropic messages: lists of them, API bodies, recorded requests and responses.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a request body (`messages`, with its `system` as the first step), a response body, or both as
recorded traffic. One message is one step, whatever blocks it holds. Tool results live in a user
message; a message of nothing but results is the environment speaking. A result's `is_error`, where
it stands, is explicit; where it is left out, the status is inferred from the text.
Format: Anthropic Messages API; Anthropic Python SDK 2.12.0, `types/message_param.py`,
`types/content_block.py`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat import messages as chat
from stepscope.formats.fields import Content, ToolStatus
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.model import Actor, Json, Part, PartKind, Step, ToolCall, ToolResult, Trajectory
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {"user": "user", "assistant": "agent", "system": "system"}
_CALL_KINDS: dict[str, Literal["function", "mcp", "server"]] = {
    "tool_use": "function",
    "mcp_tool_use": "mcp",
    "server_tool_use": "server",
}
_MESSAGE_KEYS = frozenset({"role", "content", "type", "model", "id", "stop_reason", "usage"})
_CALL_KEYS = frozenset({"type", "id", "name", "input"})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", "is_error"})
_COUNTED_KEYS = frozenset(
    "input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens".split()
)
_MEDIA_KINDS: dict[str, PartKind] = {"image": "image", "document": "file", "file": "file"}


def anthropic_step(message: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`."""
    if not isinstance(message, dict):
        raise chat.shape_error(index, "an object", message)
    role = message.get("role")
    actor = _ACTORS.get(role) if isinstance(role, str) else None
    if actor is None:
        raise chat.shape_error(index, "a `role` among user, assistant, system", role)
    blocks = parse_blocks(message.get("content"), index, limits)
    return Step(
        index=index,
        actor=blocks_actor(actor, blocks),
        kind=fields.step_kind(blocks.calls, blocks.results),
        parts=blocks.parts,
        calls=blocks.calls,
        results=blocks.results,
        model=fields.text_at(message, "model"),
        usage=fields.anthropic_usage(message.get("usage")),
        finish_reason=fields.text_at(message, "stop_reason"),
        id=fields.text_at(message, "id"),
        extra=message_extra(message),
    )


def blocks_actor(actor: Actor, blocks: Content) -> Actor:
    """Return who speaks: a user's message of nothing but results is the environment."""
    only_results = blocks.results and not blocks.parts and not blocks.calls
    return "environment" if actor == "user" and only_results else actor


def message_extra(message: dict[str, Json]) -> dict[str, Json] | None:
    """Return what a message says beyond the fields of a step, what `usage` says among it."""
    extra = fields.rest(message, _MESSAGE_KEYS) or {}
    usage = message.get("usage")
    if isinstance(usage, dict) and (more := fields.rest(usage, _COUNTED_KEYS)):
        extra = {**extra, "usage": more}
    return extra or None


def parse_blocks(content: Json, index: int, limits: Limits) -> Content:
    """Return a message's content sorted into parts, calls and results."""
    if content is None or content == "":
        return Content()
    if isinstance(content, str):
        return Content((Part("text", content),))
    if not isinstance(content, list):
        raise chat.shape_error(index, "text or a list of blocks under `content`", content)
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for block in content:
        if isinstance(block, str):
            parts.append(Part("text", block))
            continue
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            raise chat.shape_error(index, "a `type` in every block", block)
        if block["type"] in _CALL_KINDS:
            name, call_id = block.get("name"), block.get("id")
            if not isinstance(name, str):
                raise chat.shape_error(index, "a `name` in every tool_use block", name)
            if call_id is not None and not isinstance(call_id, str):
                raise chat.shape_error(index, "text as `id` of a tool_use block", call_id)
            extra = fields.rest(block, _CALL_KEYS)
            call = fields.parse_call(name, block.get("input"), call_id, limits=limits, extra=extra)
            kind = _CALL_KINDS[block["type"]]
            calls.append(call if kind == "function" else msgspec.structs.replace(call, kind=kind))
        elif "tool_use_id" in block:
            results.append(_block_result(block, index))
        else:
            parts.append(_block_part(block))
    return Content(tuple(parts), tuple(calls), tuple(results))


def _block_result(block: dict[str, Json], index: int) -> ToolResult:
    call_id = block["tool_use_id"]
    if call_id is not None and not isinstance(call_id, str):
        raise chat.shape_error(index, "text as `tool_use_id`", call_id)
    content = block.get("content")
    structured: Json = None
    if isinstance(content, dict):
        # A server tool's failure is one object in place of the list of results.
        structured, content = content, None
    pieces = content if isinstance(content, list) else [] if content is None else [content]
    for piece in pieces:
        if not isinstance(piece, str | dict):
            raise chat.shape_error(index, "text or blocks as a tool's result", piece)
    parts = tuple([Part("text", p) if isinstance(p, str) else _block_part(p) for p in pieces])
    extra = fields.rest(block, _RESULT_KEYS)
    if block["type"] != "tool_result":
        extra = {**(extra or {}), "type": block["type"]}
    flag, text = block.get("is_error"), fields.parts_text(parts)
    if isinstance(flag, bool):
        quoted = text.strip()[:200] or None if flag else None
        judged = ToolStatus("error" if flag else "ok", "explicit", quoted)
    elif isinstance(structured, dict) and "error_code" in structured:
        judged = ToolStatus("error", "protocol", str(structured["error_code"]))
    else:
        judged = fields.infer_text_status(text) if text else fields.UNKNOWN_STATUS
    return ToolResult(call_id, None, parts, structured, *judged, extra=extra)


def _block_part(block: dict[str, Json]) -> Part:
    match block:
        case {"type": "text", "text": str(text)}:
            return Part("text", text, extra=fields.rest(block, frozenset({"type", "text"})))
        case {"type": "thinking", "thinking": str(text)}:
            extra = fields.rest(block, frozenset({"type", "thinking"}))
            return Part("reasoning", text, extra=extra)
        case {"type": "image" | "document" | "file" as kind, "source": dict(source)}:
            extra = fields.rest(block, frozenset({"type", "source"}))
            match source:
                case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
                    return fields.data_part(_MEDIA_KINDS[kind], media_type, data, extra=extra)
                case {"type": "url", "url": str(url)}:
                    return fields.url_part(_MEDIA_KINDS[kind], url, extra=extra)
            return Part(_MEDIA_KINDS[kind], extra={**(extra or {}), "source": source})
        case {"type": "redacted_thinking"}:
            return Part("reasoning", extra=block)
    return Part("data", extra=block)


NAME = "anthropic_messages"
_LIKENESS: dict[chat.Dialect, float] = {"anthropic": 0.95, "anthropic-like": 0.75, "either": 0.4}
_WHOLE_KEYS = frozenset({"messages", "request", "response", "body"})


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if _is_response(first):
        return 0.95
    messages = chat.opening_messages(opening, chat.is_chat_message)
    if messages is not None:
        return _LIKENESS.get(chat.detect_dialect(messages), 0.0)
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _is_response(record: Json) -> bool:
    match record:
        case {"type": "message", "role": "assistant", "content": list(), "stop_reason": _}:
            return True
    return False


def _body_likeness(record: dict[str, Json]) -> float:
    if chat.is_other_run(record):
        return 0.0
    text = record.get("body")
    if isinstance(text, str) and "status" in record:
        return 0.95 if '"type":"message"' in text.replace('": "', '":"') else 0.0
    for key in ("response", "request"):
        inner = record.get(key)
        if isinstance(inner, dict):
            return 0.95 if _is_response(inner) else _body_likeness(inner)
    if not isinstance(record.get("messages"), list):
        return 0.0
    likeness = _LIKENESS.get(chat.detect_dialect(record["messages"]), 0.0)
    # Both keys together are Anthropic's alone: OpenAI says its system prompt as a message.
    both = {"system", "max_tokens"} <= record.keys()
    return max(likeness, 0.9) if likeness and both else likeness


def _finish(steps: tuple[Step, ...], first: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    # A file that is one response body has the run's only id; a list of messages has none.
    run_id = steps[0].id if len(steps) == 1 else None
    return first.finish(chat.MessageEnvelope().draft(NAME, steps, first, run_id=run_id), ordinals)


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record, limits = found.value, found.limits
    if isinstance(record, list):
        listed = [anthropic_step(message, index, limits) for index, message in enumerate(record)]
        return (_finish(tuple(listed), found, ordinals),)
    request, response, extra = chat.unwrap_exchange(record, limits)
    if response is not None and "messages" in response:
        # A recorded HTTP body may as well be what was sent.
        request, response = response, None
    envelope, unexpected = convert_record(request, chat.MessageEnvelope)
    messages = request.get("messages", [])
    if not isinstance(messages, list):
        raise TraceError(f"`messages` is {str(messages)[:60]!r}; expected a list")
    made: list[Step] = []
    system = request.get("system")
    if system is not None:
        parts = parse_blocks(system, 0, found.limits).parts
        made.append(Step(index=0, actor="system", parts=parts))
    made += [anthropic_step(one, at, found.limits) for at, one in enumerate(messages, len(made))]
    if response is not None:
        made.append(anthropic_step(response, len(made), found.limits))
    if not made:
        raise TraceError("a record without a single message; expected a list under `messages`")
    extra |= fields.rest(request, chat.ENVELOPE_KEYS | {"messages", "system"}) or {}
    run_id = envelope.source_id or (made[-1].id if response is not None else None)
    draft = envelope.draft(NAME, tuple(made), found, run_id=run_id, extra=extra)
    return (found.finish(draft, ordinals, unexpected),)


FORMAT = message_format(
    NAME,
    _likeness,
    is_part=chat.parts_without(_WHOLE_KEYS, lambda record: "role" in record),
    step=anthropic_step,
    whole=_read_record,
    run=_finish,
)
