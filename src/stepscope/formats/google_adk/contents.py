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
from stepscope.formats.chat import messages
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.google_adk import events
from stepscope.formats.opening import Opening
from stepscope.model import Json, Step, Trajectory
from stepscope.safety.limits import Limits

NAME = "gemini_contents"
_ROLES = ("user", "model", "function", "tool")
# Keys of which a part has one; parts of other APIs say their kind by a `type`.
_PARTS = frozenset(
    "text function_call function_response executable_code code_execution_result inline_data "
    "file_data".split()
)
_WHOLE = frozenset({"contents", "candidates", "request", "response", "body"})
_REQUEST = frozenset({"contents", "system_instruction"})
_RESPONSE = frozenset({"candidates", "usage_metadata", "model_version", "response_id"})


def is_gemini_content(record: Json) -> bool:
    """Say whether a record is one content: who speaks, and parts, also of unknown kinds."""
    parts = [part for part in fields.entries_at(record, "parts") if isinstance(part, dict)]
    if not (isinstance(record, dict) and parts) or any("type" in part for part in parts):
        return False
    known = any(_PARTS & events.to_snake_keys(part).keys() for part in parts)
    return record.get("role", "user" if known else None) in _ROLES


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    listed = first if isinstance(first, list) else opening.records
    if isinstance(first, dict) and (opening.shape == "object" or "role" not in first):
        listed = []
        # The contents of a request, a response, or a record of both.
        for side in (first, *(fields.object_at(first, key) for key in ("request", "response"))):
            answers = fields.entries_at(side, "candidates")
            told = [fields.object_at(answer, "content") for answer in answers]
            listed = listed or fields.entries_at(side, "contents") or told
    whole = [is_gemini_content(one) for one in listed]
    return 0.95 if whole and all(whole[:-1] or whole) else 0.0


def content_step(value: Json, index: int, limits: Limits) -> Step:
    """Return one content as the step at `index`."""
    role = value.get("role", "user") if isinstance(value, dict) else None
    if role not in _ROLES:
        known, found = ", ".join(_ROLES), str(role)[:60]
        raise TraceError(f"content {index} needs a `role` among {known}; found {found!r}")
    author = "model" if role == "model" else "user"
    step = events.read_event_step({"author": author, "content": value}, index)
    extra = {**(step.extra or {})}
    beside = extra.pop("content", None)
    return msgspec.structs.replace(step, agent=None, extra=fields.merge_extra(extra, beside))


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = {"contents": found.value} if isinstance(found.value, list) else found.value
    request, response, extra = messages.unwrap_exchange(record, found.limits)
    if response is None and "candidates" in request:
        request, response = {}, request
    about, answer = events.to_snake_keys(request), events.to_snake_keys(response)
    listed, system = about.get("contents") or [], about.get("system_instruction")
    if not isinstance(listed, list):
        listed = [{"parts": [{"text": listed}]} if isinstance(listed, str) else listed]
    made: list[Step] = []
    if system:
        given = {"parts": [{"text": system}]} if isinstance(system, str) else system
        held = events.read_adk_content(given, "the system instruction")
        made.append(Step(index=0, actor="system", parts=held.parts, extra=held.extra))
    made += [content_step(one, at, found.limits) for at, one in enumerate(listed, len(made))]
    if answer:
        # The first candidate is a step, with what is told of the answer.
        answers = fields.entries_at(answer, "candidates")
        about_answer = events.to_snake_keys(answers[0]) if answers else {}
        if "content" not in about_answer:
            raise TraceError("a response without a content under `candidates`")
        event: dict[str, Json] = dict(about_answer)
        event |= {key: answer[key] for key in ("usage_metadata", "model_version") if key in answer}
        event |= {"candidates": answers[1:] or None, "author": "model"}
        step = events.read_event_step(event, len(made))
        made.append(msgspec.structs.replace(step, agent=None))
    if not made:
        raise TraceError("a record without a single content; expected a list under `contents`")
    offered = about.pop("tools", None)
    others = [events.to_snake_keys(one) for one in offered] if isinstance(offered, list) else []
    for side, known in ((about, _REQUEST), (answer, _RESPONSE)):
        extra |= fields.rest(side, messages.ENVELOPE_KEYS | known) or {}
    if more := [one for one in others if one.keys() - {"function_declarations"}]:
        extra["tools"] = more
    envelope, unexpected = convert_record(about, messages.MessageEnvelope)
    run_id = envelope.source_id or fields.text_at(answer, "response_id")
    draft = envelope.draft(NAME, tuple(made), found, run_id=run_id, extra=extra)
    draft = msgspec.structs.replace(draft, tools=events.read_declarations(offered) or None)
    return (found.finish(draft, ordinals, unexpected),)


FORMAT = message_format(
    NAME,
    _likeness,
    is_part=messages.parts_without(_WHOLE, lambda record: "parts" in record),
    step=content_step,
    whole=_read_record,
    run=lambda steps, at, ids: at.finish(messages.MessageEnvelope().draft(NAME, steps, at), ids),
)
