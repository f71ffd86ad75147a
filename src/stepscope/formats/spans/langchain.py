"""What only LangChain's messages say: calls that could not be read, a tool's own verdict, tokens.

A call whose arguments were no JSON stands in `invalid_tool_calls`; a tool's message has a `status`,
and an `artifact` that the model was not shown. Input tokens include the cache.
Format: langchain-core 1.7.2, `langchain_core/messages`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.beliefs import Judged
from stepscope.formats.building import rest, text_at
from stepscope.formats.media import data_part, url_part
from stepscope.formats.spans.attributes import count, text, usage
from stepscope.model import Json, Part, PartKind, ToolCall, Usage

_INVALID = frozenset({"type", "id", "name", "args", "error", "index"})
# Classes of messages, and the types that they write.
_CLASSES = {
    "HumanMessage": "human",
    "AIMessage": "ai",
    "SystemMessage": "system",
    "ToolMessage": "tool",
    "FunctionMessage": "function",
}
_MEDIA: dict[str, PartKind] = {
    "image": "image",
    "audio": "audio",
    "file": "file",
    "video": "file",
    "document": "file",
}
_MEDIUM = frozenset("type source source_type base64 data url mime_type media_type".split())
# What is quoted of an error: enough to recognise it.
_QUOTE = 200


def constructed(value: Mapping[str, Json]) -> str | None:
    """Return the type of message that a serialised constructor makes, None where it makes none.

    >>> constructed({"lc": 1, "id": ["langchain_core", "messages", "AIMessageChunk"]})
    'ai'
    """
    path = value.get("id")
    name = path[-1] if isinstance(path, list) and path else None
    return _CLASSES.get(name.removesuffix("Chunk")) if isinstance(name, str) else None


def unwrapped(value: dict[str, Json]) -> dict[str, Json] | None:
    """Return what a constructor is given, or what stands under `data`; None where it is neither.

    >>> unwrapped({"type": "ai", "data": {"content": "hi"}})
    {'type': 'ai', 'content': 'hi'}
    """
    for key in ("kwargs", "data"):
        held = value.get(key)
        if isinstance(held, dict):
            role = constructed(value) if key == "kwargs" else value.get("type")
            return {"type": role, **held} if isinstance(role, str) else held
    return None


def invalid_calls(message: Mapping[str, Json]) -> tuple[ToolCall, ...]:
    """Return the calls that LangChain could not take apart, with what was wrong.

    >>> invalid_calls({"invalid_tool_calls": [{"name": "rm", "args": "{", "id": "c"}]})[0].raw
    '{'
    """
    listed = message.get("invalid_tool_calls")
    found: list[ToolCall] = []
    for entry in listed if isinstance(listed, list) else ():
        if not isinstance(entry, dict):
            entry = {"args": str(entry)}
        made, why = entry.get("args"), text_at(entry, "error")
        found.append(
            ToolCall(
                text_at(entry, "name") or "",
                None,
                text_at(entry, "id"),
                made if isinstance(made, str) else None if made is None else str(made),
                why or "the arguments are no JSON",
                extra=rest(entry, _INVALID),
            )
        )
    return tuple(found)


def verdict(message: Mapping[str, Json], said: str) -> Judged | None:
    """Return what a tool's message says of its own call, None where it says nothing."""
    match message.get("status"):
        case "success":
            return Judged("ok", "explicit", None)
        case "error":
            return Judged("error", "explicit", said.strip()[:_QUOTE])
    return None


def medium(block: dict[str, Json]) -> Part | None:
    """Return a block that holds a medium as a part, None where it holds none that is known.

    The medium stands in the block, or under `source` as Anthropic has it.

    >>> medium({"type": "image", "base64": "aGk=", "mime_type": "image/png"}).size
    2
    """
    sort = _MEDIA.get(text_at(block, "type") or "")
    source = block.get("source")
    held = source if isinstance(source, dict) else block
    data = text_at(held, "base64") or text_at(held, "data")
    url = text_at(held, "url")
    if sort is None or (data is None and url is None):
        return None
    extra = rest(block, _MEDIUM) or {}
    if held is not block and (more := rest(held, _MEDIUM)):
        extra["source"] = more
    if data is not None:
        kind = text_at(held, "mime_type") or text_at(held, "media_type")
        return data_part(sort, kind, data, extra=extra or None)
    return url_part(sort, url or "", extra=extra or None)


def usage_of(told: Json) -> Usage | None:
    """Return the tokens that a `usage_metadata` counts, None where it counts none.

    >>> usage_of({"input_tokens": 9, "input_token_details": {"cache_read": 4}}).cache_read
    4
    """
    if not isinstance(told, dict):
        return None
    inputs, outputs = _details(told, "input"), _details(told, "output")
    return usage(
        count(told, "input_tokens"),
        count(told, "output_tokens"),
        read=count(inputs, "cache_read"),
        written=count(inputs, "cache_creation", "cache_write"),
        reasoning=count(outputs, "reasoning"),
    )


def _details(told: dict[str, Json], side: str) -> dict[str, Json]:
    held = told.get(f"{side}_token_details")
    return held if isinstance(held, dict) else {}


def model_of(message: Mapping[str, Json]) -> str | None:
    """Return the model that a message of the assistant names."""
    about = message.get("response_metadata")
    return text(about, "model_name", "model", "model_id") if isinstance(about, dict) else None


def reason_of(message: Mapping[str, Json]) -> str | None:
    """Return why the model stopped, as a message of the assistant says it."""
    about = message.get("response_metadata")
    names = ("finish_reason", "stop_reason", "done_reason", "stopReason")
    return text(about, *names) if isinstance(about, dict) else None
