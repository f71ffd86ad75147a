"""Chat completions of OpenAI and messages of Anthropic, as a scripted provider speaks them.

Requests are read as the real ones read them (schemas that they refuse are refused), replies have
every field that the SDKs look at. Tokens are bytes over four; what was shown before, up to the same
place, counts as cached, as the providers count it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from tests.faults.answers import ANSWERS, AnswerFunction, Schema, Shown, schema_in
from tests.faults.quoting import quoting
from tests.faults.script import Fault, Script, Structure

Body = dict[str, Any]
_BYTES_A_TOKEN = 4
# Prefixes that are shorter are not cached by either provider.
_CACHED_FROM = 1024
# JSON Schema words that Anthropic's constrained decoding refuses.
_REFUSED_WORDS = ("minimum", "maximum", "multipleOf", "minLength", "maxLength", "maxItems")
# Those that OpenAI's refuses.
_REFUSED_BY_OPENAI = ("oneOf", "allOf", "not", "patternProperties", "default")


class Refused(Exception):
    """The request itself is wrong: status 400, with these words."""


class Asking(NamedTuple):
    """A request to a model, read."""

    model: str
    shown: Shown
    structure: Structure
    tool: str = ""


class Cache:
    """The prefixes that were shown before."""

    def __init__(self) -> None:
        """Begin with none."""
        self._seen: set[bytes] = set()

    def tokens(self, texts: Iterable[str], marked: Iterable[bool]) -> tuple[int, int]:
        """Return tokens read from the cache and written to it; `marked` says where prefixes end."""
        digest = sha256()
        long = read = written = 0
        new = []
        for text, ends in zip(texts, marked, strict=True):
            digest.update(text.encode() + b"\0")
            long += tokens(text)
            if ends and long >= _CACHED_FROM:
                prefix = digest.digest()
                if prefix in self._seen:
                    read = long
                else:
                    written = long
                    new.append(prefix)
        self._seen.update(new)
        return read, max(0, written - read)


def tokens(text: str) -> int:
    """Return how many tokens a text counts as."""
    return (len(text.encode()) + _BYTES_A_TOKEN - 1) // _BYTES_A_TOKEN


def read_openai(body: Body, script: Script) -> Asking:
    """Read a request for a chat completion.

    Raises:
        Refused: the provider would refuse it.
    """
    texts = tuple(text for message in body["messages"] for text in _texts(message["content"]))
    shape = body.get("response_format") or {"type": "text"}
    tools = body.get("tools") or []
    if shape["type"] == "json_schema":
        held = shape["json_schema"]
        _known("json_schema", script)
        if script.strict and held.get("strict"):
            _fits(held["schema"], words=_REFUSED_BY_OPENAI)
        return Asking(body["model"], Shown(texts, held["schema"]), "json_schema")
    if shape["type"] == "json_object":
        _known("json_object_schema", script)
        schema = shape.get("schema") or schema_in("\n".join(texts))
        return Asking(body["model"], Shown(texts, schema), "json_object_schema")
    if tools:
        _known("forced_tool", script)
        function = tools[0]["function"]
        shown = Shown(texts, function.get("parameters"))
        return Asking(body["model"], shown, "forced_tool", function["name"])
    _known("prompt_only", script)
    return Asking(body["model"], Shown(texts, schema_in("\n".join(texts))), "prompt_only")


def read_anthropic(body: Body, script: Script) -> Asking:
    """Read a request for a message.

    Raises:
        Refused: the provider would refuse it.
    """
    if "max_tokens" not in body:
        raise Refused("max_tokens: Field required")
    texts = tuple(text for text, _ in _blocks(body))
    shape = (body.get("output_config") or {}).get("format")
    tools = body.get("tools") or []
    if shape:
        _known("json_schema", script)
        if script.strict:
            _fits(shape["schema"], words=_REFUSED_WORDS)
        return Asking(body["model"], Shown(texts, shape["schema"]), "json_schema")
    if tools:
        _known("forced_tool", script)
        tool = tools[0]
        if script.strict and tool.get("strict"):
            _fits(tool["input_schema"], words=_REFUSED_WORDS)
        shown = Shown(texts, tool["input_schema"])
        return Asking(body["model"], shown, "forced_tool", tool["name"])
    _known("prompt_only", script)
    return Asking(body["model"], Shown(texts, schema_in("\n".join(texts))), "prompt_only")


def completion(asking: Asking, body: Body, how: Fault, *, script: Script, cache: Cache) -> Body:
    """Return the chat completion that answers."""
    text, refusal = _said(asking, how, script)
    called = asking.structure == "forced_tool" and not refusal and how.text is None
    message: Body = {"role": "assistant", "content": text, "refusal": None}
    reason = "stop"
    if refusal:
        message |= {"content": None, "refusal": refusal}
    elif called:
        function = {"name": asking.tool, "arguments": text}
        call = {"id": f"call_{_id(asking)}", "type": "function", "function": function}
        message |= {"content": None, "tool_calls": [call]}
    shown = asking.shown.texts
    read, _ = cache.tokens(shown, [True] * len(shown))
    given, made = sum(map(tokens, shown)), tokens(refusal or text)
    usage = {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": read, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }
    choice = {"index": 0, "message": message, "logprobs": None}
    return {
        "id": f"chatcmpl-{_id(asking)}",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": how.snapshot or asking.model,
        "choices": [{**choice, "finish_reason": how.stop or reason}],
        "service_tier": "default",
        "system_fingerprint": "fp_scripted",
        **({"usage": usage} if how.usage else {}),
    }


def message(asking: Asking, body: Body, how: Fault, *, script: Script, cache: Cache) -> Body:
    """Return the message that answers."""
    text, refusal = _said(asking, how, script)
    content: list[Body] = [{"type": "text", "text": text}]
    reason = "end_turn"
    if refusal:
        content, reason = [{"type": "text", "text": refusal}], "refusal"
    elif asking.structure == "forced_tool" and how.text is None:
        held = {"type": "tool_use", "id": f"toolu_{_id(asking)}", "name": asking.tool}
        content, reason = [{**held, "input": _input(text)}], "tool_use"
    blocks = _blocks(body)
    read, written = cache.tokens((text for text, _ in blocks), (marked for _, marked in blocks))
    given = sum(tokens(text) for text, _ in blocks)
    usage = {
        "input_tokens": given - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens(refusal or text),
        "service_tier": "standard",
    }
    return {
        "id": f"msg_{_id(asking)}",
        "type": "message",
        "role": "assistant",
        "model": how.snapshot or asking.model,
        "content": content,
        "stop_reason": how.stop or reason,
        "stop_sequence": None,
        **({"usage": usage} if how.usage else {}),
    }


def openai_error(status: int, text: str) -> Body:
    """Return OpenAI's body of an error."""
    kinds = {401: "invalid_request_error", 429: "requests", 400: "invalid_request_error"}
    codes = {401: "invalid_api_key", 429: "rate_limit_exceeded"}
    kind = kinds.get(status, "server_error")
    return {"error": {"message": text, "type": kind, "param": None, "code": codes.get(status)}}


def anthropic_error(status: int, text: str) -> Body:
    """Return Anthropic's body of an error."""
    kinds = {
        400: "invalid_request_error",
        401: "authentication_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    error = {"type": kinds.get(status, "api_error"), "message": text}
    return {"type": "error", "error": error, "request_id": "req_scripted"}


def _said(asking: Asking, how: Fault, script: Script) -> tuple[str, str]:
    """Return text and refusal, one of them empty."""
    if how.text is not None:
        return how.text, ""
    if how.refusal:
        return "", how.refusal
    name = "prose" if asking.structure in script.ignores else script.answer
    quotes: dict[str, AnswerFunction] = {
        "quoting": quoting,
        "exact": partial(quoting, exact=True),
    }
    said = (quotes.get(name) or ANSWERS[name])(asking.shown)
    return said.text, said.refusal


def _known(structure: Structure, script: Script) -> None:
    if structure not in script.structures:
        raise Refused(f"Invalid parameter: {structure} is not supported by this endpoint")


def _fits(schema: Schema, *, words: tuple[str, ...]) -> None:
    """Raise where constrained decoding would refuse the schema."""
    for word in words:
        if word in schema:
            raise Refused(f"Invalid schema: {word!r} is not supported")
    if schema.get("type") == "object":
        names = set(schema.get("properties", {}))
        if schema.get("additionalProperties") is not False:
            raise Refused("Invalid schema: 'additionalProperties' must be false")
        if words is _REFUSED_BY_OPENAI and set(schema.get("required", ())) != names:
            raise Refused("Invalid schema: 'required' must name every property")
    held = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    held += [*schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    for part in held:
        _fits(part, words=words)


def _texts(content: str | list[Body]) -> list[str]:
    """Return the texts of a message's content."""
    if isinstance(content, str):
        return [content]
    return [part["text"] for part in content if part["type"] == "text"]


def _blocks(body: Body) -> list[tuple[str, bool]]:
    """Return the texts of an Anthropic request in order, and whether a cache marker ends each."""
    contents = [body.get("system") or [], *(message["content"] for message in body["messages"])]
    found = []
    for content in contents:
        if isinstance(content, str):
            found.append((content, False))
        else:
            found += [(part["text"], "cache_control" in part) for part in content if _is_text(part)]
    return found


def _is_text(part: Mapping[str, Any]) -> bool:
    return bool(part["type"] == "text")


def _input(text: str) -> Any:
    """Return the arguments of a tool; what is no JSON stays text, as no real provider does."""
    try:
        return json.loads(text)
    except ValueError:
        return {"text": text}


def _id(asking: Asking) -> str:
    return f"{asking.shown.seed:016x}"
