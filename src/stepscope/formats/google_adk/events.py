"""Events of a Google ADK session as steps, and contents of the Gemini API, which events hold.

One event is one step. A transfer to another agent is a handoff. An event that a later one repeats
whole (`partial`) is marked as replayed. Keys are in snake case or camel case, by how the record was
saved. Whether a function's response is an error is guessed from what it says; what code gave is
told by its outcome.
Format: google-adk 2.13.0, `events/event.py`, `sessions/session.py` (sessions of versions before 1.0
keep what the model was asked and answered in `event_logs`); google-genai 2.34.0, `types.py`.
"""

from __future__ import annotations

import re

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.fields import Content, ToolStatus
from stepscope.formats.spans.attributes import find_count
from stepscope.formats.spans.messages import read_result_parts
from stepscope.model import Actor, Json, Part, PartKind, Step, ToolCall, ToolDef, ToolResult, Usage
from stepscope.values import sum_known

_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_CALL = frozenset({"id", "name", "args"})
_SERVED = frozenset({"id", "tool_type", "args"})
_RESPONSE = frozenset({"id", "name", "response"})
_CONTENT = frozenset({"parts", "role"})
_COUNTED = frozenset(
    "prompt_token_count tool_use_prompt_token_count candidates_token_count thoughts_token_count "
    "cached_content_token_count total_token_count".split()
)
# Keys of which a part that is no text has one.
_ONE_OF = (
    "function_call function_response tool_call tool_response executable_code "
    "code_execution_result inline_data file_data".split()
)
# JSON of the API's own library has base64 in the alphabet that is safe in URLs.
_URL_SAFE = str.maketrans("-_", "+/")


def to_snake_keys(record: Json) -> dict[str, Json]:
    """Return a record with its own keys in snake case, nulls left out; {} where it is no object."""
    found: dict[str, Json] = {}
    for key, value in record.items() if isinstance(record, dict) else ():
        plain = _CAPITAL.sub(r"_\1", key).lower() if "_" not in key else key
        if value is not None:
            found[key if plain in found else plain] = value
    return found


def read_adk_content(content: Json, where: str) -> Content:
    """Return a content's parts, calls and results; `where` is named in errors."""
    if content is None:
        return Content()
    listed = content.get("parts") if isinstance(content, dict) else content
    if listed is None and isinstance(content, dict):
        listed = []
    if not isinstance(listed, list):
        raise TraceError(f"{where} needs a list under `parts`; found {str(content)[:60]!r}")
    beside = fields.rest(content, _CONTENT) if isinstance(content, dict) else None
    return read_adk_parts(listed, where)._replace(extra=beside)


def read_adk_parts(listed: list[Json], where: str) -> Content:
    """Return a list of parts, sorted."""
    needed = f"{where} needs objects as `parts`"
    pieces = [_piece(to_snake_keys(fields.expect_object(entry, needed))) for entry in listed]
    return fields.sort_content(pieces)


def _piece(entry: dict[str, Json]) -> Part | ToolCall | ToolResult | None:
    key = next((key for key in _ONE_OF if isinstance(entry.get(key), dict)), None)
    if key is None and isinstance(text := entry.get("text"), str):
        thought = entry.get("thought") is True
        extra = fields.rest(entry, frozenset({"text", "thought"} if thought else {"text"}))
        return Part("reasoning" if thought else "text", text, extra=extra)
    if key is None:
        return Part("data", extra=entry) if entry else None
    about, beside = to_snake_keys(entry[key]), fields.rest(entry, frozenset({key}))
    match key:
        case "function_call" | "tool_call":
            return read_function_call(about, beside, served=key == "tool_call")
        case "function_response" | "tool_response":
            return read_function_response(about, beside)
        case "executable_code":
            return ToolCall("code_execution", about, kind="builtin", extra=beside)
        case "code_execution_result":
            outcome, known = fields.text_at(about, "outcome"), frozenset({"outcome", "output"})
            judged = ToolStatus("unknown", "none", None)
            if outcome == "OUTCOME_OK":
                judged = ToolStatus("ok", "explicit", None)
            elif outcome is not None and outcome != "OUTCOME_UNSPECIFIED":
                judged = ToolStatus("error", "explicit", outcome)
            extra = fields.merge_extra(fields.rest(about, known), beside)
            parts = read_result_parts(fields.text_at(about, "output"))
            return ToolResult(None, "code_execution", parts, None, *judged, extra=extra)
    key = "data" if key == "inline_data" else "file_uri"
    media_type, held = fields.text_at(about, "mime_type"), fields.text_at(about, key)
    sort = (media_type or "").partition("/")[0]
    kind: PartKind = "image" if sort == "image" else "audio" if sort == "audio" else "file"
    extra = fields.merge_extra(fields.rest(about, frozenset({"mime_type", key})), beside)
    if key == "data" and held is not None:
        return fields.data_part(kind, media_type, held.translate(_URL_SAFE), extra=extra)
    return Part(kind, media_type=media_type, uri=held, extra=extra)


def read_function_call(
    record: dict[str, Json], beside: dict[str, Json] | None = None, *, served: bool = False
) -> ToolCall:
    """Return a call of a function or of a provider's tool; `beside` is what its part says of it."""
    about = to_snake_keys(record)
    name = fields.text_at(about, "tool_type" if served else "name") or ""
    own, args = fields.text_at(about, "id"), about.get("args")
    arguments = {} if args is None else args
    extra = fields.merge_extra(fields.rest(about, _SERVED if served else _CALL), beside)
    return ToolCall(name, arguments, own, kind="server" if served else "function", extra=extra)


def read_function_response(
    record: dict[str, Json], beside: dict[str, Json] | None = None
) -> ToolResult:
    """Return a function's response; one value under `result` is what it gave back."""
    about = to_snake_keys(record)
    held = about.get("response")
    bare = held["result"] if isinstance(held, dict) and held.keys() == {"result"} else held
    parts = () if bare == {} else read_result_parts(bare)
    said = fields.parts_text(parts)
    judged = fields.infer_text_status(said)
    if isinstance(bare, dict):
        judged = fields.infer_object_status(bare, said)
    structured = held if isinstance(held, dict) else None
    name, own = fields.text_at(about, "name"), fields.text_at(about, "id")
    extra = fields.merge_extra(fields.rest(about, _RESPONSE), beside)
    return ToolResult(own, name, parts, structured, *judged, extra=extra)


def read_adk_usage(metadata: Json) -> Usage | None:
    """Return the tokens of one answer: prompts include the cache, candidates exclude thoughts."""
    about = to_snake_keys(metadata)
    prompt = find_count(about, "prompt_token_count")
    served = find_count(about, "tool_use_prompt_token_count")
    made = find_count(about, "candidates_token_count")
    thought = find_count(about, "thoughts_token_count")
    counts = Usage(
        input_total=None if prompt is None else prompt + (served or 0),
        cache_read=find_count(about, "cached_content_token_count"),
        output_total=sum_known((made, thought)),
        reasoning=thought,
    )
    return fields.known_usage(counts)


_KNOWN = frozenset(
    "id author content timestamp usage_metadata model_version finish_reason error_code "
    "error_message".split()
)
_TRANSCRIPTS = ("input_transcription", "output_transcription")


def is_adk_event(record: Json) -> bool:
    """Say whether a record is one event of a session."""
    if not isinstance(record, dict) or not isinstance(record.get("author"), str):
        return False
    invoked = "invocation_id" in record or "invocationId" in record
    return invoked and bool(record.keys() & {"content", "actions", "options", "timestamp"})


def read_event_step(event: Json, index: int) -> Step:
    """Return one event as the step at `index`."""
    if not isinstance(event, dict):
        raise TraceError(f"event {index} is {str(event)[:60]!r}; expected an object")
    about = to_snake_keys(event)
    held = _content(about, index)
    done = to_snake_keys(about.get("actions"))
    target = fields.text_at(done, "transfer_to_agent")
    author = fields.text_at(about, "author") or ""
    actor: Actor = "user" if author == "user" else "agent"
    kind, results = fields.step_kind(held.calls, held.results), held.results
    if target is not None:
        actor, kind, results = "agent", "handoff", tuple(map(fields.passed_control, results))
    elif results and not held.calls and not held.parts:
        actor = "environment"
    if target is None and "compaction" in done:
        kind = "compaction"
    found = _said(fields.rest(about, _KNOWN) or {})
    # What a usage says beyond the counts that `read_adk_usage` reads.
    used = fields.rest(to_snake_keys(about.get("usage_metadata")), _COUNTED)
    found |= {k: v for k, v in (("content", held.extra), ("usage_metadata", used)) if v is not None}
    acted = _said(done)
    acted.pop("transfer_to_agent", None)
    if isinstance(about.get("actions"), dict):
        found.pop("actions", None)
    if acted:
        found["actions"] = acted
    node = found.get("node_info")
    if isinstance(node, dict) and not any(node.values()):
        del found["node_info"]
    return Step(
        index=index,
        actor=actor,
        kind=kind,
        parts=held.parts,
        calls=held.calls,
        results=results,
        agent=author or None if actor == "agent" else None,
        model=fields.text_at(about, "model_version"),
        usage=read_adk_usage(about.get("usage_metadata")),
        start=fields.parse_time(about.get("timestamp")),
        finish_reason=fields.text_at(about, "finish_reason"),
        error=_failure(about),
        id=fields.text_at(about, "id") or None,
        replayed=about.get("partial") is True,
        extra=({"to": target} if target is not None else {}) | found or None,
    )


def _content(about: dict[str, Json], index: int) -> Content:
    held = read_adk_content(about.get("content"), f"event {index}")
    if held.parts or held.calls or held.results:
        return held
    for key in _TRANSCRIPTS:
        spoken = about.get(key)
        if isinstance(spoken, dict) and isinstance(spoken.get("text"), str):
            return held._replace(parts=(Part("text", spoken["text"]),))
    return held


def _failure(about: dict[str, Json]) -> str | None:
    code, message = about.get("error_code"), fields.text_at(about, "error_message")
    if code is None and message is None:
        return None
    return ": ".join([str(said) for said in (code, message) if said is not None])


def _said(about: dict[str, Json]) -> dict[str, Json]:
    """Return what is no default: the SDK writes empty objects and lists where there is nothing."""
    return {key: value for key, value in about.items() if value not in ({}, [], "")}


def add_model_logs(steps: list[Step], logs: Json) -> list[Step]:
    """Return steps with the tokens and models that a session's log of model calls has of them."""
    answers: dict[str, dict[str, Json]] = {}
    for log in logs if isinstance(logs, list) else ():
        match log:
            case {"event_id": str(event_id), "model_response": dict(answer)}:
                answers[event_id] = answer
    made: list[Step] = []
    for step in steps:
        if step.id is not None and (told := answers.get(step.id)) is not None:
            first = next(iter(fields.entries_at(told, "candidates")), None)
            reason = fields.text_at(first, "finish_reason") if isinstance(first, dict) else None
            step = msgspec.structs.replace(
                step,
                usage=step.usage or read_adk_usage(told.get("usage_metadata")),
                model=step.model or fields.text_at(told, "model_version"),
                finish_reason=step.finish_reason or reason,
            )
        made.append(step)
    return made


def read_declarations(listed: Json, agent: str | None = None) -> tuple[ToolDef, ...]:
    """Return the functions that a model was offered, in lists of declarations."""
    found: dict[str, ToolDef] = {}
    for tool in listed if isinstance(listed, list) else ():
        for function in fields.entries_at(to_snake_keys(tool), "function_declarations"):
            if not isinstance(function, dict):
                continue
            plain = to_snake_keys(function)
            if "parameters_json_schema" in plain:
                plain["parameters"] = plain.pop("parameters_json_schema")
            (one,) = fields.tool_defs([plain]) or ()
            found.setdefault(one.name, msgspec.structs.replace(one, agent=agent))
    return tuple(found.values())


def list_offered_tools(logs: Json) -> tuple[ToolDef, ...]:
    """Return the functions that the model calls of a log offered, each once."""
    offered: list[Json] = []
    for log in logs if isinstance(logs, list) else ():
        match log:
            case {"model_request": {"config": {"tools": list(listed)}}}:
                offered += listed
    return read_declarations(offered)
