"""Read contents of the Gemini API: requests, responses, both as recorded, histories of a chat.

One run is a file that is a list of contents (or one a line), a request (`contents`, with its system
instruction as the first step), a response (`candidates`), or both under `request` and `response`.
One content is one step; one of nothing but responses of functions is the environment speaking. The
keys around `contents` mean what they do around OpenAI's messages; keys are in snake or camel case.
Format: Gemini API, `generateContent`; google-genai 2.34.0, `types.py`.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.messages import ENVELOPE_KEYS, MessageEnvelope, unwrap_exchange
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.google_adk.events import (
    read_adk_content,
    read_adk_usage,
    read_declarations,
    to_snake_keys,
    uncounted_adk_usage,
)
from stepscope.formats.opening import Opening
from stepscope.model import Actor, Json, Step, Trajectory
from stepscope.safety.limits import Limits

NAME = "gemini_contents"
_ACTORS: dict[str, Actor] = {
    "user": "user", "model": "agent", "function": "environment", "tool": "environment",
}  # fmt: skip
# Keys of which a part has one; parts of other APIs say their kind by a `type`.
_PARTS = frozenset(
    "text function_call function_response executable_code code_execution_result inline_data "
    "file_data".split()
)
_WHOLE = frozenset({"contents", "candidates", "request", "response", "body"})
_REQUEST = frozenset({"contents", "system_instruction", "tools", "config"})
_RESPONSE = frozenset({"candidates", "usage_metadata", "model_version", "response_id"})


def is_gemini_content(record: Json) -> bool:
    """Say whether a record is one content: who speaks, and parts."""
    role = record.get("role", "user") if isinstance(record, dict) else None
    if not isinstance(role, str) or role not in _ACTORS:
        return False
    parts = record.get("parts")
    return isinstance(parts, list) and all(
        isinstance(part, dict) and bool(_PARTS & to_snake_keys(part).keys()) and "type" not in part
        for part in parts
    )


def _likeness(opening: Opening) -> float:
    first = opening.records[0] if opening.records else None
    listed = first if isinstance(first, list) else opening.records
    if opening.shape != "object" and listed and all(map(is_gemini_content, listed[:-1] or listed)):
        return 0.95 if any("role" in one for one in listed) else 0.0
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _body_likeness(record: dict[str, Json]) -> float:
    for key in ("request", "response"):
        inner = record.get(key)
        if isinstance(inner, dict) and (found := _body_likeness(inner)):
            return found
    listed = record.get("contents")
    if isinstance(listed, list):
        return 0.95 if listed and is_gemini_content(listed[0]) else 0.0
    answers = fields.entries_at(record, "candidates")
    return 0.95 if answers and is_gemini_content(fields.object_at(answers[0], "content")) else 0.0


def content_step(value: Json, index: int) -> Step:
    """Return one content as the step at `index`.

    Raises:
        TraceError: no object, an unknown role, or parts that are none.
    """
    at = f"content {index}"
    role = value.get("role", "user") if isinstance(value, dict) else None
    if not isinstance(role, str) or role not in _ACTORS:
        raise TraceError(
            f"{at} needs a `role` among {', '.join(_ACTORS)}; found {str(role)[:60]!r}"
        )
    held = read_adk_content(value, at)
    only_results = bool(held.results) and not held.parts and not held.calls
    return Step(
        index=index,
        actor="environment" if only_results else _ACTORS[role],
        kind=fields.step_kind(held.calls, held.results),
        parts=held.parts,
        calls=held.calls,
        results=held.results,
        extra=held.extra,
    )


def _is_part(record: Json) -> bool:
    if isinstance(record, dict):
        return "parts" in record or not record.keys() & _WHOLE
    return not isinstance(record, list)


def _answer_step(response: dict[str, Json], index: int) -> Step:
    """Return the first candidate as a step, with what is told of the answer."""
    answers = fields.entries_at(response, "candidates")
    first = to_snake_keys(answers[0]) if answers else {}
    if "content" not in first:
        raise TraceError("a response without a content under `candidates`")
    step = content_step({"role": "model", **fields.object_at(first, "content")}, index)
    extra = fields.rest(first, frozenset({"content", "finish_reason", "index"})) or {}
    used = uncounted_adk_usage(response.get("usage_metadata"))
    beside = {"candidates": answers[1:], "usage_metadata": used}
    extra |= {key: value for key, value in beside.items() if value}
    return msgspec.structs.replace(
        step,
        usage=read_adk_usage(response.get("usage_metadata")),
        model=fields.text_at(response, "model_version"),
        finish_reason=fields.text_at(first, "finish_reason"),
        extra=fields.merge_extra(step.extra, extra),
    )


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    if isinstance(record, list):
        steps = tuple([content_step(one, index) for index, one in enumerate(record)])
        return (_finish(steps, found, ordinals),)
    request, response, extra = unwrap_exchange(record, found.limits)
    if response is None and "candidates" in request:
        request, response = {}, request
    about, answer = to_snake_keys(request), to_snake_keys(response)
    config = to_snake_keys(about.get("config"))
    system = about.get("system_instruction", config.get("system_instruction"))
    listed = about.get("contents") or []
    listed = [listed] if isinstance(listed, dict) else listed
    if isinstance(listed, str):
        listed = [{"parts": [{"text": listed}]}]
    if not isinstance(listed, list):
        raise TraceError(f"`contents` is {str(listed)[:60]!r}; expected a list")
    made: list[Step] = []
    if system:
        told = {"parts": [{"text": system}]} if isinstance(system, str) else system
        held = read_adk_content(told, "the system instruction")
        made.append(Step(index=0, actor="system", parts=held.parts, extra=held.extra))
    made += [content_step(one, at) for at, one in enumerate(listed, len(made))]
    if answer:
        made.append(_answer_step(answer, len(made)))
    if not made:
        raise TraceError("a record without a single content; expected a list under `contents`")
    for side, known in ((about, _REQUEST), (answer, _RESPONSE)):
        extra |= fields.rest(side, ENVELOPE_KEYS | known) or {}
    offered = about.get("tools", config.get("tools"))
    named = frozenset({"function_declarations"})
    others = [
        fields.rest(to_snake_keys(tool), named) if isinstance(tool, dict) else {"tool": tool}
        for tool in (offered if isinstance(offered, list) else [])
    ]
    if any(others):
        extra["tools"] = others
    if more := fields.rest(config, frozenset({"system_instruction", "tools"})):
        extra["config"] = more
    around = {key: value for key, value in about.items() if key != "tools"}
    envelope, unexpected = convert_record(around, MessageEnvelope)
    run_id = envelope.source_id or fields.text_at(answer, "response_id")
    draft = envelope.draft(NAME, tuple(made), found, run_id=run_id, extra=extra)
    tools = read_declarations(offered) or None
    draft = msgspec.structs.replace(unexpected.keep_in(draft), tools=tools)
    return (finish_run(draft, ordinals, limits=found.limits, repairs=found.repairs),)


def _finish(steps: tuple[Step, ...], first: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    draft = MessageEnvelope().draft(NAME, steps, first)
    return finish_run(draft, ordinals, limits=first.limits, repairs=first.repairs)


def _read_step(value: Json, index: int, limits: Limits) -> Step:
    return content_step(value, index)


FORMAT = message_format(
    NAME, _likeness, is_part=_is_part, step=_read_step, whole=_read_record, run=_finish
)
