"""Read Anthropic messages: lists of them, API bodies, recorded requests and responses.

One run is: a file that is a list of messages (or one message a line); a record that is such a list;
a request body (`messages`, with its `system` as the first step), a response body, or both as
recorded traffic. Input tokens exclude cache in this API; here both cache counts are added.
Format: Anthropic Messages API; Anthropic Python SDK 2.12.0.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.anthropic_blocks import blocks_of, message_step
from stepscope.formats.bodies import unwrapped
from stepscope.formats.building import Ordinals, finish, rest
from stepscope.formats.dialects import Dialect, dialect, is_message
from stepscope.formats.envelope import KEYS, Envelope, tool_defs
from stepscope.formats.gathering import gathered
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat
from stepscope.formats.tokens import total
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

NAME = "anthropic_messages"
_LIKE: dict[Dialect, float] = {"anthropic": 0.95, "anthropic-like": 0.75, "either": 0.4}
_WHOLE = frozenset({"messages", "request", "response", "body"})


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if _is_response(first):
        return 0.95
    if opening.shape in {"array", "lines"} and is_message(first):
        return _LIKE.get(dialect(opening.records), 0.0)
    if isinstance(first, list):
        return _LIKE.get(dialect(first), 0.0)
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _body_likeness(record: dict[str, Json]) -> float:
    if "traj" in record or "history" in record or "trajectory_format" in record:
        return 0.0
    if isinstance(record.get("info"), dict) and "mini_version" in record["info"]:
        return 0.0
    if "termination_reason" in record and "task_id" in record:
        return 0.0
    text = record.get("body")
    if isinstance(text, str) and "status" in record:
        return 0.95 if '"type":"message"' in text.replace('": "', '":"') else 0.0
    for key in ("response", "request"):
        inner = record.get(key)
        if isinstance(inner, dict):
            return 0.95 if _is_response(inner) else _body_likeness(inner)
    if not isinstance(record.get("messages"), list):
        return 0.0
    likeness = _LIKE.get(dialect(record["messages"]), 0.0)
    # Both keys together are Anthropic's alone: OpenAI says its system prompt as a message.
    return (
        max(likeness, 0.9) if likeness and {"system", "max_tokens"} <= record.keys() else likeness
    )


def _is_response(record: Json) -> bool:
    return (
        isinstance(record, dict)
        and record.get("type") == "message"
        and record.get("role") == "assistant"
        and isinstance(record.get("content"), list)
        and "stop_reason" in record
    )


def _is_part(record: Json) -> bool:
    if isinstance(record, dict):
        return "role" in record or not record.keys() & _WHOLE
    return not isinstance(record, list)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    return gathered(
        stream,
        is_part=_is_part,
        step=lambda found, index: message_step(found.value, index, found.limits),
        whole=lambda found: (_whole(found, ordinals),),
        run=lambda steps, first: _bare(steps, first, ordinals),
    )


def _bare(steps: tuple[Step, ...], first: Found, ordinals: Ordinals) -> Trajectory:
    # A file that is one response body has the run's only id; a list of messages has none.
    run_id = steps[0].id if len(steps) == 1 else None
    draft = Trajectory(
        id="",
        name=run_id or "",
        steps=steps,
        source=Source(format=NAME, uri=first.uri, offset=first.offset, run_id=run_id),
        workflow=NAME,
        usage=total(steps),
    )
    return finish(draft, ordinals, limits=first.limits, repairs=first.repairs)


def _whole(found: Found, ordinals: Ordinals) -> Trajectory:
    record, limits = found.value, found.limits
    if isinstance(record, list):
        listed = [message_step(message, index, limits) for index, message in enumerate(record)]
        return _bare(tuple(listed), found, ordinals)
    bodies = unwrapped(record, limits)
    request = record if bodies is None else (bodies.request or {})
    response = None if bodies is None else bodies.response
    if bodies is not None and response is not None and "messages" in response:
        # A recorded HTTP body may as well be what was sent.
        request, response = response, None
    envelope = msgspec.convert(request, Envelope)
    steps = _steps(found, request, response)
    extra = {
        **((bodies and bodies.extra) or {}),
        **(rest(request, KEYS | {"messages", "system"}) or {}),
    }
    run_id = envelope.source_id or (steps[-1].id if response is not None else None)
    named = (envelope.workflow or NAME, envelope.task_name, envelope.trial_name)
    draft = Trajectory(
        id="",
        name="/".join([n for n in named if n is not None]) if envelope.task_name else run_id or "",
        steps=steps,
        source=Source(format=NAME, uri=found.uri, offset=found.offset, run_id=run_id),
        workflow=envelope.workflow or NAME,
        task=envelope.task_name,
        trial=envelope.trial_name,
        agent=envelope.agent,
        agent_version=envelope.agent_version,
        tags=envelope.tags,
        tools=tool_defs(envelope.tools),
        outcome=envelope.outcome,
        usage=total(steps),
        extra=extra or None,
    )
    return finish(draft, ordinals, limits=limits, repairs=found.repairs)


def _steps(
    found: Found, request: dict[str, Json], response: dict[str, Json] | None
) -> tuple[Step, ...]:
    messages = request.get("messages", [])
    if not isinstance(messages, list):
        raise TraceError(f"`messages` is {str(messages)[:60]!r}; expected a list")
    steps: list[Step] = []
    system = request.get("system")
    if system is not None:
        parts = blocks_of(system, 0, found.limits).parts
        steps.append(Step(index=0, actor="system", parts=parts))
    for message in messages:
        steps.append(message_step(message, len(steps), found.limits))
    if response is not None:
        steps.append(message_step(response, len(steps), found.limits))
    if not steps:
        raise TraceError("a record without a single message; expected a list under `messages`")
    return tuple(steps)


FORMAT = PlainFormat(NAME, _likeness, _read)
