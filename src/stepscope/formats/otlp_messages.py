"""A step as a message of the GenAI conventions, and the step that reading it back gives.

Content and calls are written in the words of the conventions; `steps_in` reads them with the reader
that reads every other recorder's messages, so that what is kept beside a message is what that
reader cannot know.
Source: gen-ai-input-messages.json and gen-ai-output-messages.json of the GenAI conventions.
"""

from __future__ import annotations

import msgspec

from stepscope.formats.otlp_marks import MESSAGES_KEY
from stepscope.formats.spans.attributes import decoded
from stepscope.formats.spans.gen_ai import said
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Message
from stepscope.formats.spans.span import Span
from stepscope.model import Actor, Instant, Json, Part, Step, ToolCall, ToolResult
from stepscope.safety.limits import Limits

ROLES: dict[Actor, str] = {
    "system": "system",
    "user": "user",
    "agent": "assistant",
    "environment": "tool",
}
_MODALITIES = {"image": "image", "audio": "audio", "file": "document"}
# The conventions demand a reason of every answer.
_NO_REASON = "unknown"


def message_of(step: Step) -> dict[str, Json]:
    """Return what a step says, calls and brings back as one message."""
    found: dict[str, Json] = {"role": ROLES[step.actor]}
    if step.agent is not None and step.actor != "agent":
        found["name"] = step.agent
    found["parts"] = [
        *[_part(part) for part in step.parts],
        *[_call(call) for call in step.calls],
        *[_result(result) for result in step.results],
    ]
    return found


def answer_of(step: Step) -> dict[str, Json]:
    """Return a step as what a model answered."""
    return {**message_of(step), "finish_reason": step.finish_reason or _NO_REASON}


def _part(part: Part) -> Json:
    beside = {k: v for k, v in (part.extra or {}).items() if k not in {"type", "content", "text"}}
    if part.kind in {"text", "reasoning"}:
        return {**beside, "type": part.kind, "content": part.text or ""}
    if part.kind == "refusal":
        return {**beside, "type": "refusal", "refusal": part.text or ""}
    modality = _MODALITIES.get(part.kind)
    if modality is None:
        return {"type": part.kind, **(part.extra or {})}
    about = {**beside, "modality": modality, "mime_type": part.media_type}
    if part.data is not None:
        return {**about, "type": "blob", "content": part.data}
    if part.uri is not None:
        return {**about, "type": "uri", "uri": part.uri}
    return {**about, "type": part.kind}


def _call(call: ToolCall) -> Json:
    asked = call.raw if call.parse_error is not None else call.arguments
    kind = "server_tool_call" if call.kind in {"server", "builtin"} else "tool_call"
    return {"type": kind, "id": call.id, "name": call.name, "arguments": asked}


def _result(result: ToolResult) -> Json:
    found: dict[str, Json] = {"type": "tool_call_response", "id": result.call_id}
    if result.name is not None:
        found["name"] = result.name
    return {**found, "response": response_of(result)}


def response_of(result: ToolResult) -> Json:
    """Return what came back from a tool: a text, a structure, or blocks where it is of several."""
    if not result.parts:
        return "" if result.structured is None else result.structured
    only = result.parts[0]
    if len(result.parts) == 1 and only.kind == "text" and not only.extra:
        return only.text or ""
    return [_part(part) for part in result.parts]


def steps_in(span: Span, limits: Limits) -> list[Step]:
    """Return the steps that a span of ours tells, each as its message alone says it."""
    about = span.attributes
    heard = about.get("gen_ai.input.messages", about.get(MESSAGES_KEY))
    return [
        *[_step(message, limits) for message in _listed(heard, limits)],
        *[
            _step(message, limits, span)
            for message in _listed(about.get("gen_ai.output.messages"), limits)
        ],
    ]


def _listed(found: Json, limits: Limits) -> list[Json]:
    listed = decoded(found, limits)
    return listed if isinstance(listed, list) else []


def _step(message: Json, limits: Limits, span: Span | None = None) -> Step:
    """Return the step that a message is by itself; `span` is the one that it answers in."""
    listed = read(message, "user", limits)
    told = listed[0] if len(listed) == 1 else Message("environment")
    step = Step(
        index=0,
        actor=told.actor,
        kind="call" if told.calls else "result" if told.results else "message",
        parts=told.parts,
        calls=told.calls,
        results=told.results,
        agent=told.name,
        extra=told.extra,
    )
    return step if span is None else _answered(step, span, limits)


def _answered(step: Step, span: Span, limits: Limits) -> Step:
    """Return a step with what the span around its message says of it."""
    about = said(span, limits)
    if about is None:
        return step
    return msgspec.structs.replace(
        step,
        agent=about.agent,
        model=about.model,
        usage=about.usage,
        finish_reason=about.finish_reason,
        first_token_seconds=about.first_token_seconds,
        error=span.status_message if span.status == "error" else None,
        start=_instant(span.start_ns),
        end=_instant(span.end_ns),
    )


def _instant(ns: int | None) -> Instant | None:
    return None if ns is None else Instant(ns, str(ns))
