"""Read OpenAI chat messages, bare or in whatever wraps them.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a record with `messages`; a recorded call (`request` and `response`, or an HTTP exchange); a Chat
Completions body. An item of the Responses API among messages is read by itself; files of such items
are `openai_responses`. Messages carry no error flag and no times: whether a result is an
error is guessed from its text and marked so.
Format: OpenAI API reference; OpenAI Python SDK 3.54.0.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat import messages as chat
from stepscope.formats.chat.response_items import is_response_item, item_step
from stepscope.formats.fields import infer_text_status, openai_usage, rest, text_at
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.model import Json, Step, Trajectory
from stepscope.safety.limits import Limits

NAME = "openai_messages"
_DIALECT_LIKENESS: dict[chat.Dialect, float] = {"openai": 0.9, "either": 0.7, "anthropic-like": 0.4}
# A chat whose fenced commands were run is more than a chat; it can be read as one all the same.
_FENCED_LIKENESS = 0.5
_WHOLE_KEYS = frozenset({"messages", "choices", "request", "response", "body"})
# Keys beside messages that only a run has.
_RECORDED_KEYS = frozenset("id run_id task task_id trial reward success outcome".split())
_BODY_KEYS = frozenset({"messages", "choices", "usage"})


def _likeness(opening: Opening) -> float:
    messages = chat.opening_messages(opening, chat.is_chat_message)
    if messages is None:
        first = opening.first_record
        return _body_likeness(first) if isinstance(first, dict) else 0.0
    if any(map(is_response_item, messages)) or not chat.has_conversation(messages):
        return 0.0
    likeness = _DIALECT_LIKENESS.get(chat.detect_dialect(messages), 0.0)
    return min(likeness, _FENCED_LIKENESS) if chat.has_run_fences(messages) else likeness


def _body_likeness(record: dict[str, Json]) -> float:
    if chat.is_other_run(record):
        return 0.0
    if isinstance(record.get("body"), str) and "status" in record:
        return 0.9 if '"choices"' in record["body"] else 0.0
    for key in ("response", "request"):
        inner = record.get(key)
        if isinstance(inner, dict):
            return _body_likeness(inner)
    if text_at(record, "object") == "chat.completion":
        return 0.95
    if isinstance(record.get("messages"), list):
        if "system" in record and "max_tokens" in record:
            return 0.1
        return _DIALECT_LIKENESS.get(chat.detect_dialect(record["messages"]), 0.0)
    return 0.0


def _read_step(value: Json, index: int, limits: Limits) -> Step:
    options = chat.MessageOptions(infer_text_status, limits)
    if isinstance(value, dict) and "type" in value:
        if "role" not in value or value["type"] == "message" or is_response_item(value):
            return item_step(value, index, options)
    return chat.chat_step(value, index, options)


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record, limits = found.value, found.limits
    if isinstance(record, list):
        steps = tuple([_read_step(item, index, limits) for index, item in enumerate(record)])
        return (found.finish(chat.MessageEnvelope().draft(NAME, steps, found), ordinals),)
    record = fields.expect_object(record, "expected messages")
    request, response, extra = chat.unwrap_exchange(record, limits)
    if request is record and text_at(record, "object") == "chat.completion":
        request, response = {}, record
    envelope, unexpected = convert_record(request, chat.MessageEnvelope)
    asked = request.get("messages", [])
    if not isinstance(asked, list):
        raise TraceError(f"`messages` is {str(asked)[:60]!r}; expected a list")
    known = response is not None or request.keys() & _RECORDED_KEYS
    if asked and not known and not chat.has_conversation(asked):
        raise TraceError("`messages` has only calls and results; give it a `task`")
    made = [_read_step(item, index, limits) for index, item in enumerate(asked)]
    if response is not None:
        choices = response.get("choices")
        first = choices[0] if choices and isinstance(choices, list) else None
        if choices is None or not isinstance(first, dict) or "message" not in first:
            raise TraceError("a response without `choices`")
        step = chat.chat_step(first["message"], 0, chat.MessageOptions(infer_text_status, limits))
        beside = {"choices": choices[1:], "usage": fields.uncounted_usage(response.get("usage"))}
        step = msgspec.structs.replace(
            step,
            index=len(made),
            usage=openai_usage(response.get("usage")),
            model=text_at(response, "model"),
            finish_reason=text_at(first, "finish_reason"),
            extra=fields.merge_extra(step.extra, {k: v for k, v in beside.items() if v}),
        )
        made.append(step)
    if not made:
        raise TraceError("a record without a single message; expected a list under `messages`")
    for body in (request, response or {}):
        extra |= rest(body, chat.ENVELOPE_KEYS | _BODY_KEYS) or {}
    run_id = envelope.source_id
    if run_id is None and response is not None:
        run_id = text_at(response, "id")
    draft = envelope.draft(NAME, tuple(made), found, run_id=run_id, extra=extra)
    draft = unexpected.keep_in(draft)
    if draft.usage is None:
        draft = msgspec.structs.replace(draft, usage=openai_usage(request.get("usage")))
    return (found.finish(draft, ordinals),)


FORMAT = message_format(
    NAME,
    _likeness,
    is_part=chat.parts_without(_WHOLE_KEYS, lambda one: "role" in one or is_response_item(one)),
    step=_read_step,
    whole=_read_record,
    run=lambda steps, at, ids: at.finish(chat.MessageEnvelope().draft(NAME, steps, at), ids),
)
