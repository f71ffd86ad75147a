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
from stepscope.formats.beliefs import judge_text
from stepscope.formats.bodies import unwrapped
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.chat import Reading, step_of, steps_of
from stepscope.formats.dialects import Dialect, dialect, is_message, runs_fences
from stepscope.formats.envelope import KEYS, Envelope, tool_defs
from stepscope.formats.gathering import gathered
from stepscope.formats.items import is_item, item_step
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat
from stepscope.formats.tokens import openai_usage, total, uncounted
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

NAME = "openai_messages"
_LIKE: dict[Dialect, float] = {"openai": 0.9, "either": 0.7, "anthropic-like": 0.4}
# A chat whose fenced commands were run is more than a chat; it can be read as one all the same.
_FENCED = 0.5
_WHOLE = frozenset({"messages", "choices", "request", "response", "body"})
_BODY = frozenset({"messages", "choices", "usage"})


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if opening.shape in {"array", "lines"} and is_message(first):
        return _chat_likeness(opening.records)
    if isinstance(first, list):
        return _chat_likeness(first)
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _chat_likeness(messages: Sequence[Json]) -> float:
    if any(map(is_item, messages)):
        return 0.0
    likeness = _LIKE.get(dialect(messages), 0.0)
    return min(likeness, _FENCED) if runs_fences(messages) else likeness


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
        return _LIKE.get(dialect(record["messages"]), 0.0)
    return 0.0


def _is_part(record: Json) -> bool:
    """Say whether a record is one message of the file's run rather than a run of its own."""
    if isinstance(record, dict):
        return "role" in record or is_item(record) or not record.keys() & _WHOLE
    return not isinstance(record, list)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    yield from gathered(
        stream,
        is_part=_is_part,
        step=lambda found, index: _step(found.value, index, _reading(found)),
        whole=lambda found: (_whole(found, ordinals),),
        run=lambda steps, first: _bare(steps, first, ordinals),
    )


def _reading(found: Found) -> Reading:
    return Reading(judge_text, found.limits)


def _step(value: Json, index: int, reading: Reading) -> Step:
    if isinstance(value, dict) and "type" in value and ("role" not in value or is_item(value)):
        return item_step(value, index, reading)
    if isinstance(value, dict) and value.get("type") == "message":
        return item_step(value, index, reading)
    return step_of(value, index, reading)


def _bare(steps: tuple[Step, ...], first: Found, ordinals: Ordinals) -> Trajectory:
    draft = Trajectory(
        id="",
        name="",
        steps=steps,
        source=Source(format=NAME, uri=first.uri, offset=first.offset),
        workflow=NAME,
        usage=total(steps),
    )
    return finish(draft, ordinals, limits=first.limits, repairs=first.repairs)


def _whole(found: Found, ordinals: Ordinals) -> Trajectory:
    record = found.value
    reading = _reading(found)
    if isinstance(record, list):
        steps = tuple([_step(item, index, reading) for index, item in enumerate(record)])
        return _bare(steps, found, ordinals)
    if not isinstance(record, dict):
        raise TraceError(f"expected messages; found {str(record)[:60]!r}")
    bodies = unwrapped(record, found.limits)
    request = record if bodies is None else (bodies.request or {})
    response = None if bodies is None else bodies.response
    if bodies is None and text_at(record, "object") == "chat.completion":
        request, response = {}, record
    envelope = msgspec.convert(request, Envelope)
    steps = _steps(request, response, reading)
    extra = {**((bodies and bodies.extra) or {}), **(rest(request, KEYS | _BODY) or {})}
    if response is not None:
        extra.update(rest(response, KEYS | _BODY) or {})
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
        usage=total(steps) or openai_usage(request.get("usage")),
        extra=extra or None,
    )
    return finish(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _steps(
    request: dict[str, Json], response: dict[str, Json] | None, reading: Reading
) -> tuple[Step, ...]:
    """Return the steps of what was asked, then of what was answered."""
    asked = request.get("messages", [])
    if not isinstance(asked, list):
        raise TraceError(f"`messages` is {str(asked)[:60]!r}; expected a list")
    steps = [_step(item, index, reading) for index, item in enumerate(asked)]
    if response is not None:
        steps.append(_answer(response, len(steps), reading))
    if not steps:
        raise TraceError("a record without a single message; expected a list under `messages`")
    return tuple(steps)


def _answer(response: dict[str, Json], index: int, reading: Reading) -> Step:
    """Return the step of a response body, with the call's usage."""
    match response.get("choices"):
        case [{"message": message, **more}, *others]:
            (step,) = steps_of([message], reading)
            extra = {**(step.extra or {}), "choices": others} if others else step.extra
            reason, model = more.get("finish_reason"), response.get("model")
            if beside := uncounted(response.get("usage")):
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


FORMAT = PlainFormat(NAME, _likeness, _read)
