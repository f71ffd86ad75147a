"""Read OpenAI chat messages, bare or in whatever wraps them.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a record with `messages`; a recorded call (`request` and `response`, or an HTTP exchange); a Chat
Completions body. An item of the Responses API among messages is read by itself; files of such items
are `openai_responses`. Messages carry no error flag and no times: whether a result is an
error is guessed from its text and marked so.
Format: OpenAI API reference; OpenAI Python SDK 3.54.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.chat.messages import (
    ENVELOPE_KEYS,
    Dialect,
    MessageEnvelope,
    MessageOptions,
    chat_step,
    chat_steps,
    detect_dialect,
    has_run_fences,
    is_chat_message,
    unwrap_exchange,
)
from stepscope.formats.chat.response_items import is_response_item, item_step
from stepscope.formats.fields import (
    openai_usage,
    rest,
    text_at,
    tool_defs,
    total_usage,
    uncounted_usage,
)
from stepscope.formats.finish import Ordinals, finish
from stepscope.formats.format import DecodedRecord, FileFormat, join_messages
from stepscope.formats.opening import Opening
from stepscope.formats.tool_status import infer_text_status
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

NAME = "openai_messages"
_DIALECT_LIKENESS: dict[Dialect, float] = {"openai": 0.9, "either": 0.7, "anthropic-like": 0.4}
# A chat whose fenced commands were run is more than a chat; it can be read as one all the same.
_FENCED_LIKENESS = 0.5
_WHOLE_KEYS = frozenset({"messages", "choices", "request", "response", "body"})
_BODY_KEYS = frozenset({"messages", "choices", "usage"})


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if opening.shape in {"array", "lines"} and is_chat_message(first):
        return _chat_likeness(opening.records)
    if isinstance(first, list):
        return _chat_likeness(first)
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _chat_likeness(messages: Sequence[Json]) -> float:
    if any(map(is_response_item, messages)):
        return 0.0
    likeness = _DIALECT_LIKENESS.get(detect_dialect(messages), 0.0)
    return min(likeness, _FENCED_LIKENESS) if has_run_fences(messages) else likeness


def _body_likeness(record: dict[str, Json]) -> float:
    if "traj" in record or "history" in record or "trajectory_format" in record:
        return 0.0
    if isinstance(record.get("info"), dict) and "mini_version" in record["info"]:
        return 0.0
    if "termination_reason" in record and "task_id" in record:
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
        return _DIALECT_LIKENESS.get(detect_dialect(record["messages"]), 0.0)
    return 0.0


def _is_part(record: Json) -> bool:
    """Say whether a record is one message of the file's run rather than a run of its own."""
    if isinstance(record, dict):
        return "role" in record or is_response_item(record) or not record.keys() & _WHOLE_KEYS
    return not isinstance(record, list)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    yield from join_messages(
        stream,
        is_part=_is_part,
        step=lambda found, index: _read_step(found.value, index, _message_options(found)),
        whole=lambda found: (_read_record(found, ordinals),),
        run=lambda steps, first: _finish_messages(steps, first, ordinals),
    )


def _message_options(found: DecodedRecord) -> MessageOptions:
    return MessageOptions(infer_text_status, found.limits)


def _read_step(value: Json, index: int, reading: MessageOptions) -> Step:
    if (
        isinstance(value, dict)
        and "type" in value
        and ("role" not in value or is_response_item(value))
    ):
        return item_step(value, index, reading)
    if isinstance(value, dict) and value.get("type") == "message":
        return item_step(value, index, reading)
    return chat_step(value, index, reading)


def _finish_messages(
    steps: tuple[Step, ...], first: DecodedRecord, ordinals: Ordinals
) -> Trajectory:
    draft = Trajectory(
        id="",
        name="",
        steps=steps,
        source=Source(format=NAME, uri=first.uri, offset=first.offset),
        workflow=NAME,
        usage=total_usage(steps),
    )
    return finish(draft, ordinals, limits=first.limits, repairs=first.repairs)


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    record = found.value
    reading = _message_options(found)
    if isinstance(record, list):
        steps = tuple([_read_step(item, index, reading) for index, item in enumerate(record)])
        return _finish_messages(steps, found, ordinals)
    if not isinstance(record, dict):
        raise TraceError(f"expected messages; found {str(record)[:60]!r}")
    bodies = unwrap_exchange(record, found.limits)
    request = record if bodies is None else (bodies.request or {})
    response = None if bodies is None else bodies.response
    if bodies is None and text_at(record, "object") == "chat.completion":
        request, response = {}, record
    envelope = msgspec.convert(request, MessageEnvelope)
    steps = _exchange_steps(request, response, reading)
    extra = {
        **((bodies and bodies.extra) or {}),
        **(rest(request, ENVELOPE_KEYS | _BODY_KEYS) or {}),
    }
    if response is not None:
        extra.update(rest(response, ENVELOPE_KEYS | _BODY_KEYS) or {})
    workflow = envelope.workflow or NAME
    run_id = envelope.source_id
    if run_id is None and response is not None and isinstance(response.get("id"), str):
        run_id = response["id"]
    named = (workflow, envelope.task_name, envelope.trial_name)
    draft = Trajectory(
        id="",
        name="/".join([n for n in named if n is not None]) if envelope.task_name else run_id or "",
        steps=steps,
        source=Source(format=NAME, uri=found.uri, offset=found.offset, run_id=run_id),
        workflow=workflow,
        task=envelope.task_name,
        trial=envelope.trial_name,
        agent=envelope.agent,
        agent_version=envelope.agent_version,
        tags=envelope.tags,
        tools=tool_defs(envelope.tools if envelope.tools is not None else envelope.functions),
        outcome=envelope.outcome,
        usage=total_usage(steps) or openai_usage(request.get("usage")),
        extra=extra or None,
    )
    return finish(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _exchange_steps(
    request: dict[str, Json], response: dict[str, Json] | None, reading: MessageOptions
) -> tuple[Step, ...]:
    """Return the steps of what was asked, then of what was answered."""
    asked = request.get("messages", [])
    if not isinstance(asked, list):
        raise TraceError(f"`messages` is {str(asked)[:60]!r}; expected a list")
    steps = [_read_step(item, index, reading) for index, item in enumerate(asked)]
    if response is not None:
        steps.append(_answer_step(response, len(steps), reading))
    if not steps:
        raise TraceError("a record without a single message; expected a list under `messages`")
    return tuple(steps)


def _answer_step(response: dict[str, Json], index: int, reading: MessageOptions) -> Step:
    """Return the step of a response body, with the call's usage."""
    match response.get("choices"):
        case [{"message": message, **more}, *others]:
            (step,) = chat_steps([message], reading)
            extra = {**(step.extra or {}), "choices": others} if others else step.extra
            reason, model = more.get("finish_reason"), response.get("model")
            if beside := uncounted_usage(response.get("usage")):
                extra = {**(extra or {}), "usage": beside}
        case _:
            raise TraceError("a response without `choices`")
    return msgspec.structs.replace(
        step,
        index=index,
        usage=openai_usage(response.get("usage")),
        model=model if isinstance(model, str) else None,
        finish_reason=reason if isinstance(reason, str) else None,
        extra=extra,
    )


FORMAT = FileFormat(NAME, _likeness, _read)
