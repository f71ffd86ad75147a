"""Contents of the Gemini API, as Google ADK records them: parts, calls, responses, tokens.

Keys are written in snake case or camel case, by how the record was saved; both are read. A part
says what it is by the one key that is not null. Whether a function's response is an error is
guessed from what it says; what code gave is told by its outcome.
Format: google-genai 2.34.0, `types.py`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.beliefs import Judged, judge_object, judge_text
from stepscope.formats.building import rest, text_at
from stepscope.formats.media import data_part
from stepscope.formats.spans.attributes import count
from stepscope.formats.spans.blocks import result_parts
from stepscope.model import Json, Part, PartKind, ToolCall, ToolResult, Usage

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_CALL = frozenset({"id", "name", "args"})
_SERVED = frozenset({"id", "tool_type", "args"})
_RESPONSE = frozenset({"id", "name", "response"})
_CONTENT = frozenset({"parts", "role"})
_COUNTED = frozenset(
    "prompt_token_count tool_use_prompt_token_count candidates_token_count thoughts_token_count "
    "cached_content_token_count total_token_count".split()
)
# JSON of the API's own library has base64 in the alphabet that is safe in URLs.
_URL_SAFE = str.maketrans("-_", "+/")


class Content(NamedTuple):
    """What a content holds, sorted by what it is; `extra` is what it says beside its parts."""

    parts: tuple[Part, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    extra: dict[str, Json] | None = None


def snaked(record: dict[str, Json]) -> dict[str, Json]:
    """Return a record with its own keys in snake case, nulls left out; values are as they were.

    >>> snaked({"invocationId": "e", "author": None})
    {'invocation_id': 'e'}
    """
    found: dict[str, Json] = {}
    for key, value in record.items():
        plain = _CAPITAL.sub(r"_\1", key).lower() if "_" not in key else key
        if value is not None:
            found[key if plain in found else plain] = value
    return found


def content_of(content: Json, where: str) -> Content:
    """Return a content's parts, calls and results; `where` is named in errors.

    Raises:
        TraceError: it is no object with a list of objects under `parts`.
    """
    if content is None:
        return Content()
    listed = content.get("parts") if isinstance(content, dict) else content
    if listed is None and isinstance(content, dict):
        listed = []
    if not isinstance(listed, list):
        raise TraceError(f"{where} needs a list under `parts`; found {str(content)[:60]!r}")
    beside = rest(content, _CONTENT) if isinstance(content, dict) else None
    return parts_of(listed, where)._replace(extra=beside)


def parts_of(listed: list[Json], where: str) -> Content:
    """Return a list of parts, sorted.

    Raises:
        TraceError: one is no object.
    """
    parts: list[Part] = []
    calls: list[ToolCall] = []
    results: list[ToolResult] = []
    for entry in listed:
        if not isinstance(entry, dict):
            raise TraceError(f"{where} needs objects as `parts`; found {str(entry)[:60]!r}")
        piece = _piece(snaked(entry))
        if isinstance(piece, Part):
            parts.append(piece)
        elif isinstance(piece, ToolCall):
            calls.append(piece)
        elif isinstance(piece, ToolResult):
            results.append(piece)
    return Content(tuple(parts), tuple(calls), tuple(results))


def _piece(entry: dict[str, Json]) -> Part | ToolCall | ToolResult | None:
    """Return what one part is, None where it says nothing."""
    match entry:
        case {"function_call": dict(inner)}:
            return call(inner, rest(entry, frozenset({"function_call"})))
        case {"function_response": dict(inner)}:
            return response(inner, rest(entry, frozenset({"function_response"})))
        case {"tool_call": dict(inner)}:
            return _served(snaked(inner), rest(entry, frozenset({"tool_call"})))
        case {"tool_response": dict(inner)}:
            return response(inner, rest(entry, frozenset({"tool_response"})))
        case {"executable_code": dict(inner)}:
            beside = rest(entry, frozenset({"executable_code"}))
            return ToolCall("code_execution", snaked(inner), kind="builtin", extra=beside)
        case {"code_execution_result": dict(inner)}:
            return _ran(snaked(inner), rest(entry, frozenset({"code_execution_result"})))
        case {"inline_data": dict(inner)}:
            return _medium(snaked(inner), rest(entry, frozenset({"inline_data"})))
        case {"file_data": dict(inner)}:
            return _linked(snaked(inner), rest(entry, frozenset({"file_data"})))
        case {"text": str(text)}:
            thought = entry.get("thought") is True
            extra = rest(entry, frozenset({"text", "thought"} if thought else {"text"}))
            return Part("reasoning" if thought else "text", text, extra=extra)
    return Part("data", extra=entry) if entry else None


def call(record: dict[str, Json], beside: dict[str, Json] | None = None) -> ToolCall:
    """Return a function's call; `beside` is what its part says of it."""
    about = snaked(record)
    extra = {**(rest(about, _CALL) or {}), **(beside or {})} or None
    name, own, args = text_at(about, "name") or "", text_at(about, "id"), about.get("args")
    return ToolCall(name, {} if args is None else args, own, extra=extra)


def _served(about: dict[str, Json], beside: dict[str, Json] | None) -> ToolCall:
    """Return a call of a tool that the provider runs."""
    extra = {**(rest(about, _SERVED) or {}), **(beside or {})} or None
    name, args = text_at(about, "tool_type") or "", about.get("args")
    arguments = {} if args is None else args
    return ToolCall(name, arguments, text_at(about, "id"), kind="server", extra=extra)


def response(record: dict[str, Json], beside: dict[str, Json] | None = None) -> ToolResult:
    """Return a function's response; one value under `result` is what it gave back."""
    about = snaked(record)
    held = about.get("response")
    bare = held["result"] if isinstance(held, dict) and held.keys() == {"result"} else held
    parts = () if bare == {} else result_parts(bare)
    said = "\n".join([part.text for part in parts if part.text is not None])
    judged = judge_object(bare, said) if isinstance(bare, dict) else judge_text(said)
    extra = {**(rest(about, _RESPONSE) or {}), **(beside or {})} or None
    structured = held if isinstance(held, dict) else None
    name, own = text_at(about, "name"), text_at(about, "id")
    return ToolResult(own, name, parts, structured, *judged, extra=extra)


def _ran(about: dict[str, Json], beside: dict[str, Json] | None) -> ToolResult:
    outcome, output = text_at(about, "outcome"), text_at(about, "output")
    judged = Judged("unknown", "none", None)
    if outcome == "OUTCOME_OK":
        judged = Judged("ok", "explicit", None)
    elif outcome is not None and outcome != "OUTCOME_UNSPECIFIED":
        judged = Judged("error", "explicit", outcome)
    extra = {**(rest(about, frozenset({"outcome", "output"})) or {}), **(beside or {})} or None
    return ToolResult(None, "code_execution", result_parts(output), None, *judged, extra=extra)


def _kind(media_type: str | None) -> PartKind:
    sort = (media_type or "").partition("/")[0]
    return "image" if sort == "image" else "audio" if sort == "audio" else "file"


def _medium(about: dict[str, Json], beside: dict[str, Json] | None) -> Part:
    media_type, data = text_at(about, "mime_type"), text_at(about, "data")
    extra = {**(rest(about, frozenset({"mime_type", "data"})) or {}), **(beside or {})} or None
    if data is None:
        return Part(_kind(media_type), media_type=media_type, extra=extra)
    return data_part(_kind(media_type), media_type, data.translate(_URL_SAFE), extra=extra)


def _linked(about: dict[str, Json], beside: dict[str, Json] | None) -> Part:
    media_type, uri = text_at(about, "mime_type"), text_at(about, "file_uri")
    extra = {**(rest(about, frozenset({"mime_type", "file_uri"})) or {}), **(beside or {})} or None
    return Part(_kind(media_type), media_type=media_type, uri=uri, extra=extra)


def tokens(metadata: Json) -> Usage | None:
    """Return the tokens of one answer, None where none are told.

    The prompt includes what was cached, but not the results of the provider's own tools; the
    candidates exclude thoughts.
    """
    if not isinstance(metadata, dict):
        return None
    about = snaked(metadata)
    prompt, served = count(about, "prompt_token_count"), count(about, "tool_use_prompt_token_count")
    made, thought = count(about, "candidates_token_count"), count(about, "thoughts_token_count")
    known = [tokens for tokens in (made, thought) if tokens is not None]
    usage = Usage(
        input_total=None if prompt is None else prompt + (served or 0),
        cache_read=count(about, "cached_content_token_count"),
        output_total=sum(known) if known else None,
        reasoning=thought,
    )
    return None if usage == Usage() else usage


def uncounted(metadata: Json) -> dict[str, Json] | None:
    """Return what a usage says beyond the counts that `tokens` reads, None for nothing."""
    return rest(snaked(metadata), _COUNTED) if isinstance(metadata, dict) else None
