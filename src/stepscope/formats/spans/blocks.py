"""One block of a message's content: a call, a result, or a part.

Names differ between dialects: `tool_call` (OpenTelemetry), `tool-call` (Vercel AI SDK), `tool_use`
(Anthropic), `function_call` (OpenAI Responses, Gemini), `tool_call.function` (OpenInference). The
conventions' schema names a response `response`, the example in their registry `result`.
"""

from __future__ import annotations

import ast
from typing import Literal

import msgspec

from stepscope.formats.beliefs import Judged, judge_text
from stepscope.formats.building import call_of, rest, text_at
from stepscope.formats.media import data_part, url_part
from stepscope.formats.spans import langchain
from stepscope.model import Json, Part, PartKind, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_CALLS: dict[str, Literal["function", "server", "mcp"]] = {
    "tool_call": "function",
    "tool-call": "function",
    "tool_use": "function",
    "function_call": "function",
    "custom_tool_call": "function",
    "function": "function",
    "server_tool_call": "server",
    "server_tool_use": "server",
    "mcp_tool_use": "mcp",
}
_RESULTS = frozenset(
    "tool_call_response tool-result tool_result function_call_output server_tool_call_response "
    "custom_tool_call_output server_tool_result".split()
)
_CALL_KEYS = frozenset(
    "type id call_id toolCallId name toolName arguments args input parameters function".split()
)
_RESULT_KEYS = frozenset(
    "type id call_id toolCallId tool_use_id tool_call_id name toolName response result output "
    "content is_error isError".split()
)
_REASONING = frozenset({"reasoning", "thinking", "summary_text", "reasoning_text"})
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "document": "file"}
# The printed form of a call is read up to this many characters.
_PRINTED = 100_000


def call(entry: Json, limits: Limits) -> ToolCall | None:
    """Return the call that a block or an entry of `tool_calls` makes, None where it is no call."""
    if isinstance(entry, str):
        entry = _printed(entry)
    if not isinstance(entry, dict):
        return None
    inner = entry.get("tool_call")
    if isinstance(inner, dict):
        return call({"type": "function", **inner}, limits)
    for key in ("function_call", "functionCall"):
        if isinstance(entry.get(key), dict):
            return call({"type": "function_call", **entry[key]}, limits)
    kind = text_at(entry, "type") or ""
    function = entry.get("function")
    about = function if isinstance(function, dict) else entry
    name = text_at(about, "name") or text_at(entry, "toolName")
    bare = not kind and not entry.get("role") and ("arguments" in about or "args" in about)
    # The AI SDK lists what a model called without a type.
    listed = not kind and "toolCallId" in entry and not entry.keys() & {"result", "output"}
    if name is None or not (kind in _CALLS or bare or listed):
        return None
    made: Json = None
    for key in ("arguments", "args", "input", "parameters"):
        made = about.get(key) if made is None else made
    own_id = None
    for key in ("call_id", "id", "toolCallId"):
        own_id = own_id or text_at(entry, key)
    extra = rest(entry, _CALL_KEYS)
    found = call_of(name, {} if made is None else made, own_id, limits=limits, extra=extra)
    sort = _CALLS.get(kind, "function")
    return found if sort == "function" else msgspec.structs.replace(found, kind=sort)


def _printed(said: str) -> Json:
    """Return a call printed by Python as the object it was, None where it is none."""
    if len(said) > _PRINTED:
        return None
    try:
        tree = ast.parse(said, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.Call):
        return None
    fields = {
        word.arg: word.value.value
        for word in tree.keywords
        if word.arg is not None
        and isinstance(word.value, ast.Constant)
        and isinstance(word.value.value, str)
    }
    return {**fields, "type": "function_call"}


def result(entry: dict[str, Json]) -> ToolResult | None:
    """Return the result that a block holds, None where it holds none."""
    for key in ("function_response", "functionResponse"):
        if isinstance(entry.get(key), dict):
            return result({"type": "tool_result", **entry[key]})
    if text_at(entry, "type") not in _RESULTS:
        return None
    held: Json = None
    for key in ("response", "result", "output", "content"):
        held = entry.get(key) if held is None else held
    call_id = None
    for key in ("call_id", "tool_use_id", "toolCallId", "tool_call_id", "id"):
        call_id = call_id or text_at(entry, key)
    parts = result_parts(held)
    said = "\n".join([part.text for part in parts if part.text is not None])
    flag = entry.get("is_error", entry.get("isError"))
    verdict = langchain.verdict(entry, said)
    judged, known = verdict or judge_text(said), _RESULT_KEYS
    if verdict is not None:
        known |= {"status"}
    if isinstance(flag, bool):
        judged = Judged("error" if flag else "ok", "explicit", said[:200] if flag else None)
    name = text_at(entry, "name") or text_at(entry, "toolName")
    return ToolResult(call_id, name, parts, _structured(held), *judged, extra=rest(entry, known))


def _structured(held: Json) -> Json:
    return held if isinstance(held, dict) else None


# Beginnings of answers that frameworks wrap in JSON of their own, and where the answer stands:
# Microsoft's agent framework, Google ADK.
_WRAPPERS = {'{"type": "function_result"': "result", '{"id":"adk-': "response"}


def _unwrapped(held: str) -> Json:
    """Return what a tool gave back, out of what its framework wraps it in."""
    for beginning, key in _WRAPPERS.items():
        if held.startswith(beginning):
            try:
                told = msgspec.json.decode(held)
            except (msgspec.DecodeError, RecursionError):
                return held
            return told[key] if isinstance(told, dict) and key in told else held
    return held


def result_parts(held: Json) -> tuple[Part, ...]:
    """Return what a tool gave back as parts: blocks one by one, anything else as one text."""
    if held is None or held == "":
        return ()
    if isinstance(held, str):
        inner = _unwrapped(held)
        return (Part("text", held),) if inner is held else result_parts(inner)
    if isinstance(held, list) and held and all(_is_block(entry) for entry in held):
        return tuple([block(entry) for entry in held])
    if isinstance(held, dict) and held.keys() <= {"type", "value"} and "value" in held:
        return result_parts(held["value"])
    return (Part("text", msgspec.json.encode(held, order="deterministic").decode()),)


def _is_block(entry: Json) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("type"), str)


def block(entry: dict[str, Json]) -> Part:
    """Return a block that is neither call nor result as a part."""
    inner = entry.get("message_content")
    if isinstance(inner, dict):
        return block(inner)
    kind = text_at(entry, "type")
    said = text_at(entry, "content")
    if said is None:
        said = text_at(entry, "text")
    known = frozenset({"type", "content" if "content" in entry else "text"})
    if said is not None and kind in {"text", "input_text", "output_text", None}:
        return Part("text", said, extra=rest(entry, known))
    if kind in _REASONING:
        thoughts = [said, text_at(entry, "thinking"), text_at(entry, "reasoning")]
        thought = next((each for each in thoughts if each is not None), None)
        return Part("reasoning", thought, extra=rest(entry, known | {"thinking", "reasoning"}))
    if kind == "refusal":
        return Part("refusal", text_at(entry, "refusal") or said)
    return _medium(entry, kind or "")


def _medium(entry: dict[str, Json], kind: str) -> Part:
    modality = text_at(entry, "modality") or kind.removeprefix("input_").removesuffix("_url")
    sort: PartKind = _MEDIA.get(modality, "file")
    content, uri = text_at(entry, "content"), text_at(entry, "uri")
    if kind == "blob" and content is not None:
        extra = rest(entry, frozenset({"type", "content", "mime_type", "modality"}))
        return data_part(sort, text_at(entry, "mime_type"), content, extra=extra)
    image = entry.get("image_url", entry.get("image"))
    more: dict[str, Json] = {}
    while isinstance(image, dict):
        more.update(rest(image, frozenset({"url", "image"})) or {})
        image = image.get("url", image.get("image"))
    if uri is None and isinstance(image, str):
        uri, sort = image, "image"
    if uri is not None:
        about = rest(entry, frozenset({"type", "uri", "image_url"})) or {}
        return url_part(sort, uri, extra={**more, **about} or None)
    return langchain.medium(entry) or Part("data", extra=entry)
