"""Read messages, and blocks of messages, out of attributes, in whatever dialect they are written.

One reader for the OpenTelemetry conventions, OpenAI's chat and Responses items, Anthropic's blocks,
Gemini's contents, LangChain's messages and generations, and the Vercel AI SDK's content: they
differ in names, not in what they say. A value that is no message at all is one message of text.
Nothing is refused. LangChain keeps a call whose arguments were no JSON in `invalid_tool_calls`; its
tool messages have a `status`, and an `artifact` that the model was not shown.
Format of LangChain's messages: langchain-core 1.7.2, `langchain_core/messages`.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from stepscope.formats.fields import (
    ToolStatus,
    data_part,
    entries_at,
    infer_text_status,
    object_at,
    parse_call,
    parts_text,
    rest,
    text_at,
    url_part,
)
from stepscope.formats.spans import attributes
from stepscope.formats.spans.span import SpanMessage
from stepscope.model import Actor, Json, Part, PartKind, ToolCall, ToolResult, Usage
from stepscope.safety.limits import Limits

_INVALID = frozenset({"type", "id", "name", "args", "error", "index"})
# Classes of messages, and the types that they write.
_CLASSES = {f"{one}Message": one.lower() for one in "Human AI System Tool Function".split()}
_LANGCHAIN_MEDIA: dict[str, PartKind] = {
    "image": "image",
    "audio": "audio",
    **dict.fromkeys(("file", "video", "document"), "file"),
}
_MEDIUM_KEYS = frozenset("type source source_type base64 data url mime_type media_type".split())
# Where a message's metadata names the model, and why it stopped.
MODEL_KEYS = ("model_name", "model", "model_id")
REASON_KEYS = ("finish_reason", "stop_reason", "done_reason", "stopReason")
# What is quoted of an error: enough to recognise it.
_QUOTE = 200


def find_constructor(value: Mapping[str, Json]) -> str | None:
    """Return the type of message that a serialised constructor makes, None where it makes none."""
    path = value.get("id")
    name = path[-1] if isinstance(path, list) and path else None
    return _CLASSES.get(name.removesuffix("Chunk")) if isinstance(name, str) else None


def unwrap_message(value: dict[str, Json]) -> dict[str, Json] | None:
    """Return what a constructor is given, or what stands under `data`; None where it is neither."""
    for key in ("kwargs", "data"):
        held = value.get(key)
        if isinstance(held, dict):
            role = find_constructor(value) if key == "kwargs" else value.get("type")
            return {"type": role, **held} if isinstance(role, str) else held
    return None


def read_invalid_calls(message: Mapping[str, Json]) -> tuple[ToolCall, ...]:
    """Return the calls that LangChain could not take apart, with what was wrong."""
    found: list[ToolCall] = []
    for entry in entries_at(message, "invalid_tool_calls"):
        if not isinstance(entry, dict):
            entry = {"args": str(entry)}
        made, why = entry.get("args"), text_at(entry, "error")
        raw = made if isinstance(made, str) else None if made is None else str(made)
        name, own, extra = text_at(entry, "name"), text_at(entry, "id"), rest(entry, _INVALID)
        why = why or "the arguments are no JSON"
        found.append(ToolCall(name or "", None, own, raw, why, extra=extra))
    return tuple(found)


def judge_tool_status(message: Mapping[str, Json], said: str) -> ToolStatus | None:
    """Return what a tool's message says of its own call, None where it says nothing."""
    match message.get("status"):
        case "success":
            return ToolStatus("ok", "explicit", None)
        case "error":
            return ToolStatus("error", "explicit", said.strip()[:_QUOTE])
    return None


def read_media_block(block: dict[str, Json]) -> Part | None:
    """Return a block's medium, Anthropic's under `source`, as a part; None where none is known."""
    sort = _LANGCHAIN_MEDIA.get(text_at(block, "type") or "")
    source = block.get("source")
    held = source if isinstance(source, dict) else block
    data = text_at(held, "base64") or text_at(held, "data")
    url = text_at(held, "url")
    if sort is None or (data is None and url is None):
        return None
    extra = rest(block, _MEDIUM_KEYS) or {}
    if held is not block and (more := rest(held, _MEDIUM_KEYS)):
        extra["source"] = more
    if data is not None:
        kind = text_at(held, "mime_type") or text_at(held, "media_type")
        return data_part(sort, kind, data, extra=extra or None)
    return url_part(sort, url or "", extra=extra or None)


def read_langchain_usage(told: Json) -> Usage | None:
    """Return the tokens that a `usage_metadata` counts, None where it counts none."""
    if not isinstance(told, dict):
        return None
    inputs = object_at(told, "input_token_details")
    return attributes.normalise_usage(
        attributes.find_count(told, "input_tokens"),
        attributes.find_count(told, "output_tokens"),
        read=attributes.find_count(inputs, "cache_read"),
        written=attributes.find_count(inputs, "cache_creation", "cache_write"),
        reasoning=attributes.find_count(object_at(told, "output_token_details"), "reasoning"),
    )


def find_langchain_model(message: Mapping[str, Json]) -> str | None:
    """Return the model that a message of the assistant names."""
    return attributes.find_text(object_at(message, "response_metadata"), *MODEL_KEYS)


def find_stop_reason(message: Mapping[str, Json]) -> str | None:
    """Return why the model stopped, as a message of the assistant says it."""
    return attributes.find_text(object_at(message, "response_metadata"), *REASON_KEYS)


_CALLS: dict[str, Literal["function", "server", "mcp"]] = {
    **dict.fromkeys(("tool_call", "tool-call", "tool_use", "function"), "function"),
    **dict.fromkeys(("function_call", "custom_tool_call"), "function"),
    **dict.fromkeys(("server_tool_call", "server_tool_use"), "server"),
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
_BLOCK_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio", "document": "file"}
# The printed form of a call is read up to this many characters.
_MAX_PRINTED_CHARS = 100_000


def read_call(entry: Json, limits: Limits) -> ToolCall | None:
    """Return the call that a block or an entry of `tool_calls` makes, None where it is no call."""
    if isinstance(entry, str):
        entry = _parse_printed_result(entry)
    if not isinstance(entry, dict):
        return None
    inner = entry.get("tool_call")
    if isinstance(inner, dict):
        return read_call({"type": "function", **inner}, limits)
    for key in ("function_call", "functionCall"):
        if isinstance(entry.get(key), dict):
            return read_call({"type": "function_call", **entry[key]}, limits)
    kind = text_at(entry, "type") or ""
    function = entry.get("function")
    about = function if isinstance(function, dict) else entry
    name = text_at(about, "name") or text_at(entry, "toolName")
    bare = not kind and not entry.get("role") and ("arguments" in about or "args" in about)
    # The AI SDK lists what a model called without a type.
    listed = not kind and "toolCallId" in entry and not entry.keys() & {"result", "output"}
    if name is None or not (kind in _CALLS or bare or listed):
        return None
    made = attributes.find_value(about, "arguments", "args", "input", "parameters")
    own_id = None
    for key in ("call_id", "id", "toolCallId"):
        own_id = own_id or text_at(entry, key)
    extra = rest(entry, _CALL_KEYS)
    found = parse_call(name, {} if made is None else made, own_id, limits=limits, extra=extra)
    sort = _CALLS.get(kind, "function")
    return found if sort == "function" else msgspec.structs.replace(found, kind=sort)


def _parse_printed_result(said: str) -> Json:
    """Return a call printed by Python as the object it was, None where it is none."""
    if len(said) > _MAX_PRINTED_CHARS:
        return None
    try:
        tree = ast.parse(said, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.Call):
        return None
    found: dict[str, Json] = {}
    for word in tree.keywords:
        match word:
            case ast.keyword(arg=str(name), value=ast.Constant(value=str(text))):
                found[name] = text
    return {**found, "type": "function_call"}


def read_result(entry: dict[str, Json]) -> ToolResult | None:
    """Return the result that a block holds, None where it holds none."""
    for key in ("function_response", "functionResponse"):
        if isinstance(entry.get(key), dict):
            return read_result({"type": "tool_result", **entry[key]})
    if text_at(entry, "type") not in _RESULTS:
        return None
    held = attributes.find_value(entry, "response", "result", "output", "content")
    call_id = None
    for key in ("call_id", "tool_use_id", "toolCallId", "tool_call_id", "id"):
        call_id = call_id or text_at(entry, key)
    parts = read_result_parts(held)
    said = parts_text(parts)
    flag = entry.get("is_error", entry.get("isError"))
    verdict = judge_tool_status(entry, said)
    judged, known = verdict or infer_text_status(said), _RESULT_KEYS
    if verdict is not None:
        known |= {"status"}
    if isinstance(flag, bool):
        judged = ToolStatus("error" if flag else "ok", "explicit", said[:200] if flag else None)
    name = text_at(entry, "name") or text_at(entry, "toolName")
    structured = held if isinstance(held, dict) else None
    return ToolResult(call_id, name, parts, structured, *judged, extra=rest(entry, known))


# Beginnings of answers that frameworks wrap in JSON of their own, and where the answer stands:
# Microsoft's agent framework, Google ADK.
_WRAPPERS = {'{"type": "function_result"': "result", '{"id":"adk-': "response"}


def _unwrap_result(held: str) -> Json:
    """Return what a tool gave back, out of what its framework wraps it in."""
    for beginning, key in _WRAPPERS.items():
        if held.startswith(beginning):
            try:
                told = msgspec.json.decode(held)
            except (msgspec.DecodeError, RecursionError):
                return held
            return told[key] if isinstance(told, dict) and key in told else held
    return held


def read_result_parts(held: Json) -> tuple[Part, ...]:
    """Return what a tool gave back as parts: blocks one by one, anything else as one text."""
    if held is None or held == "":
        return ()
    if isinstance(held, str):
        inner = _unwrap_result(held)
        return (Part("text", held),) if inner is held else read_result_parts(inner)
    if isinstance(held, list) and held:
        if all((isinstance(entry, dict) and isinstance(entry.get("type"), str)) for entry in held):
            return tuple([read_block(entry) for entry in held])
    if isinstance(held, dict) and held.keys() <= {"type", "value"} and "value" in held:
        return read_result_parts(held["value"])
    return (Part("text", msgspec.json.encode(held, order="deterministic").decode()),)


def read_block(entry: dict[str, Json]) -> Part:
    """Return a block that is neither call nor result as a part."""
    inner = entry.get("message_content")
    if isinstance(inner, dict):
        return read_block(inner)
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
    kind = kind or ""
    modality = text_at(entry, "modality") or kind.removeprefix("input_").removesuffix("_url")
    sort: PartKind = _BLOCK_MEDIA.get(modality, "file")
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
    return read_media_block(entry) or Part("data", extra=entry)


_ACTORS: dict[str, Actor] = {
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(("user", "human"), "user"),
    **dict.fromkeys(("assistant", "ai", "aimessagechunk", "model"), "agent"),
    **dict.fromkeys(("tool", "function"), "environment"),
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


class _ReadMessages(NamedTuple):
    """A list of messages that was read: its text but for the closing bracket, what it says."""

    head: str
    actor: Actor
    limits: Limits
    messages: tuple[SpanMessage, ...]


# Conversations may go on in turn: agents of a run, runs recorded side by side.
_latest: deque[_ReadMessages] = deque(maxlen=8)
# Reading a text shorter than this costs less than remembering it.
_SHORT = 500

# The order of keys in a trace says nothing: two of one content are one text.
_encode = msgspec.json.Encoder(order="deterministic").encode


def read_messages(found: Json, actor: Actor, limits: Limits) -> tuple[SpanMessage, ...]:
    """Return the messages that a value holds; `actor` said those that do not say who did.

    Every call of a model is recorded with all the messages before it. A list that begins with the
    text of one that was read lately is read from there on: its elements are those, then the others.
    """
    if not isinstance(found, str) or len(found) < _SHORT or found[0] != "[" or found[-1] != "]":
        return _read(found, actor, limits)
    for told in tuple(_latest):
        if found.startswith(told.head) and (told.actor, told.limits) == (actor, limits):
            more = found[len(told.head) :].lstrip()
            rest_of_it = "[" + more.removeprefix(",")
            listed = attributes.decode_object(rest_of_it, limits) if more[0] in ",]" else None
            if _are_objects(listed) and (listed or more == "]"):
                whole = (*told.messages, *_read(listed, actor, limits))
                return _remembered(found, actor, limits, whole)
    listed = attributes.decode_object(found, limits)
    if _are_objects(listed):
        return _remembered(found, actor, limits, _read(listed, actor, limits))
    return _read(found, actor, limits)


def _are_objects(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _remembered(
    found: str, actor: Actor, limits: Limits, messages: tuple[SpanMessage, ...]
) -> tuple[SpanMessage, ...]:
    _latest.appendleft(_ReadMessages(found[:-1].rstrip(), actor, limits, messages))
    return messages


def _read(found: Json, actor: Actor, limits: Limits) -> tuple[SpanMessage, ...]:
    value = attributes.decode_object(found, limits)
    if value is None or value in ("", [], {}):
        return ()
    if isinstance(value, dict):
        # The AI SDK lists what a model called without a word about who did.
        made = read_call(value, limits) if "toolCallId" in value else None
        return (SpanMessage("agent", calls=(made,)),) if made else _body(value, actor, limits)
    if isinstance(value, list):
        if any(all(isinstance(entry, kind) for entry in value) for kind in (dict | list, str)):
            return tuple([said for entry in value for said in _read(entry, actor, limits)])
    return (SpanMessage(actor, (Part("text", plain_text(found)),)),)


def plain_text(value: Json) -> str:
    """Return a value as text: text as it is, anything else as JSON, keys in their order."""
    return value if isinstance(value, str) else _encode(value).decode()


def _body(value: dict[str, Json], actor: Actor, limits: Limits) -> tuple[SpanMessage, ...]:
    if is_message_like(value) and not isinstance(value.get("data"), dict):
        return (_message(value, actor, limits),)
    if (inner := unwrap_message(value)) is not None:
        return read_messages(inner, actor, limits)
    for key in _BODIES:
        held = value.get(key)
        if isinstance(held, list) and held:
            return (*_instructions(value, limits), *read_messages(held, actor, limits))
    message = value.get("message")
    if isinstance(message, dict):
        # A choice or generation: its text may stand beside its message.
        inner = message["kwargs"] if isinstance(message.get("kwargs"), dict) else message
        if not inner.get("content") and isinstance(value.get("text"), str):
            inner = {**inner, "content": value["text"]}
        reason = value.get("finish_reason")
        made = _message({"role": "assistant", **inner}, actor, limits)
        return (made._replace(finish=reason if isinstance(reason, str) else made.finish),)
    content = value.get("content")
    if isinstance(content, dict):
        return read_messages(content, actor, limits)
    for key in ("text", "content", "answer"):
        if isinstance(said := value.get(key), str) and len(value) <= 3:
            extra = {k: v for k, v in value.items() if k != key} or None
            return (SpanMessage(actor, (Part("text", said),), extra=extra),)
    if "kind" not in value and isinstance(value.get("type"), str):
        return (_message({"parts": [value]}, actor, limits),)
    return (SpanMessage(actor, (Part("text", plain_text(value)),)),)


def _instructions(value: dict[str, Json], limits: Limits) -> tuple[SpanMessage, ...]:
    config = value.get("config")
    held = config if isinstance(config, dict) else value
    for key in ("system_instruction", "systemInstruction", "system", "instructions"):
        if said := held.get(key):
            return read_messages(said, "system", limits)
    return ()


def is_message_like(value: Json) -> bool:
    """Say whether a value is one message of any dialect."""
    if not isinstance(value, dict):
        return False
    role = value.get("role", value.get("type"))
    if isinstance(role, str) and role.lower() in _ACTORS:
        return "function" not in value
    return isinstance(role, str) and role in _ITEMS


def _message(value: dict[str, Json], actor: Actor, limits: Limits) -> SpanMessage:
    actor = _ACTORS.get((text_at(value, "role") or text_at(value, "type") or "").lower(), actor)
    content = _Content(limits)
    parts, calls, results = content.parts, content.calls, content.results
    if text_at(value, "type") in _ITEMS - {"message"}:
        content.sort(value)
        who: Actor = "environment" if results else "agent"
        return SpanMessage(who, tuple(parts), tuple(calls), tuple(results))
    thought = value.get("reasoning_content")
    if isinstance(thought, str) and thought:
        parts.append(Part("reasoning", thought))
    for key in ("parts", "content", "contents"):
        content.add(value.get(key))
    for listed in _calls(value):
        made = read_call(listed, limits)
        if made is not None and all(made.id is None or made.id != c.id for c in calls):
            calls.append(made)
    calls.extend(read_invalid_calls(value))
    known = _KNOWN
    if actor == "environment" and calls and not results and not parts:
        actor = "agent"
    if actor == "environment" and not results:
        said = parts_text(parts)
        judged = judge_tool_status(value, said) or infer_text_status(said)
        call_id, name = text_at(value, "tool_call_id"), text_at(value, "name")
        results.append(ToolResult(call_id, name, tuple(parts), value.get("artifact"), *judged))
        parts, known = [], _ANSWER if results[0].source == "explicit" else _KNOWN
    if results and not parts and not calls:
        actor = "environment"
    finish, name = text_at(value, "finish_reason"), text_at(value, "name")
    name = None if actor == "environment" else name
    held = tuple(parts), tuple(calls), tuple(results)
    return SpanMessage(actor, *held, name, finish, rest(value, known))


def _calls(value: dict[str, Json]) -> list[Json]:
    listed = value.get("tool_calls")
    more = value.get("additional_kwargs")
    if not listed and isinstance(more, dict):
        listed = more.get("tool_calls")
    legacy = value.get("function_call")
    calls = list(listed) if isinstance(listed, list) else []
    return [*calls, legacy] if isinstance(legacy, dict) else calls


class _Content:
    def __init__(self, limits: Limits) -> None:
        self.parts: list[Part] = []
        self.calls: list[ToolCall] = []
        self.results: list[ToolResult] = []
        self._limits = limits

    def add(self, content: Json) -> None:
        """Take what stands under one key of the message."""
        if isinstance(content, str):
            if content:
                self._text(content)
            return
        listed = [content] if isinstance(content, dict) else content
        for entry in listed if isinstance(listed, list) else ():
            if isinstance(entry, str):
                self._text(entry)
            elif isinstance(entry, dict):
                self.sort(entry)
            elif entry is not None:
                self.parts.append(Part("data", extra={"value": entry}))

    def _text(self, said: str) -> None:
        """Add a text, unless it is the printed form of a call that an exporter left unread."""
        printed = said.startswith("ResponseFunctionToolCall(")
        made = read_call(said, self._limits) if printed else None
        found = (made,) if made is not None else _written(said, self._limits)
        if found:
            self.calls.extend(found)
        else:
            self.parts.append(Part("text", said))

    def sort(self, entry: dict[str, Json]) -> None:
        if (call := read_call(entry, self._limits)) is not None:
            self.calls.append(call)
        elif (result := read_result(entry)) is not None:
            self.results.append(result)
        else:
            said = read_block(entry)
            if said.kind == "text" and said.extra is None and said.text is not None:
                self._text(said.text)
            else:
                self.parts.append(said)


def _written(said: str, limits: Limits) -> tuple[ToolCall, ...]:
    """Return the calls of a text that is nothing but a list of them, as Koog writes them."""
    if not said.startswith('[{"'):
        return ()
    listed = attributes.decode_object(said, limits)
    needed = {"name", "arguments"}
    if not isinstance(listed, list) or not all(
        needed <= object_at(entry, "function").keys() for entry in listed
    ):
        return ()
    made = [read_call(entry, limits) for entry in listed]
    return tuple([found for found in made if found is not None])
