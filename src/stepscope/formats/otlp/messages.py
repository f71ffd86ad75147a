"""A step as a message of the GenAI conventions, the step that such a message is, and our own keys.

`read_span_steps` reads back what is written here and nothing else: messages of other recorders are
read by `spans.messages`. Attributes of ours stand under `stepscope.*`.
Source: gen-ai-input-messages.json and gen-ai-output-messages.json of the GenAI conventions;
OpenTelemetry's naming rules for attributes of a vendor.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import data_part
from stepscope.formats.spans.attributes import decode_object
from stepscope.formats.spans.span import RawSpan
from stepscope.model import (
    Actor,
    Instant,
    Json,
    Part,
    PartKind,
    Step,
    StepKind,
    ToolCall,
    ToolResult,
    Usage,
)
from stepscope.safety.limits import Limits

# On a trace's root: what spans cannot say of the run, and the version of all that is kept so.
RUN_KEY = "stepscope.run"
SCHEMA_KEY = "stepscope.schema"
SCHEMA = 1
# On the root of recorded spans: the ids of all of them, in the order in which they were first read.
SPANS_KEY = "stepscope.spans"
# On a span that was recorded: what OTLP cannot say of it.
SPAN_KEY = "stepscope.span"
# On spans that we made: how many steps there are; what messages cannot say of the steps they tell;
# messages that no later answer was given.
COUNT_KEY = "stepscope.steps.count"
STEPS_KEY = "stepscope.steps"
MESSAGES_KEY = "stepscope.messages"

# The instrumentation that our own spans name.
SCOPE = "stepscope"

# Text of one attribute that readers keep whole; what is longer is written as a structure.
_TEXT_MOST = 1_000_000


def pack_attribute(value: Json) -> Json:
    """Return a structure as the JSON text that attributes hold; a very long one as it is."""
    text = msgspec.json.encode(value)
    return text.decode() if len(text) <= _TEXT_MOST else value


ROLES: dict[Actor, str] = {
    "system": "system",
    "user": "user",
    "agent": "assistant",
    "environment": "tool",
}
_ACTORS: dict[Json, Actor] = {role: actor for actor, role in ROLES.items()}
_MODALITIES: dict[PartKind, str] = {"image": "image", "audio": "audio", "file": "document"}
_KINDS: dict[Json, PartKind] = {modality: kind for kind, modality in _MODALITIES.items()}
_CALLS = frozenset({"tool_call", "server_tool_call"})
_ANSWER = "tool_call_response"
_USAGE = {
    "input_tokens": "input_total",
    "output_tokens": "output_total",
    "cache_read.input_tokens": "cache_read",
    "cache_creation.input_tokens": "cache_write",
    "reasoning.output_tokens": "reasoning",
}
# The conventions demand a reason of every answer.
_NO_REASON = "unknown"


def write_message(step: Step) -> dict[str, Json]:
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


def write_answer(step: Step) -> dict[str, Json]:
    """Return a step as what a model answered."""
    return {**write_message(step), "finish_reason": step.finish_reason or _NO_REASON}


def _part(part: Part) -> Json:
    beside = part.extra or {}
    if part.kind in {"text", "reasoning", "refusal"}:
        held = "refusal" if part.kind == "refusal" else "content"
        return {**beside, "type": part.kind, held: part.text or ""}
    modality = _MODALITIES.get(part.kind)
    if modality is None:
        return {**beside, "type": part.kind}
    about = {"modality": modality, "mime_type": part.media_type}
    if part.data is not None:
        return {**beside, **about, "type": "blob", "content": part.data}
    if part.uri is not None:
        return {**beside, **about, "type": "uri", "uri": part.uri}
    return {**beside, **about, "type": part.kind}


def _call(call: ToolCall) -> Json:
    asked = call.raw if call.parse_error is not None else call.arguments
    kind = "server_tool_call" if call.kind in {"server", "builtin"} else "tool_call"
    return {"type": kind, "id": call.id, "name": call.name, "arguments": asked}


def _result(result: ToolResult) -> Json:
    found: dict[str, Json] = {"type": _ANSWER, "id": result.call_id}
    if result.name is not None:
        found["name"] = result.name
    return {**found, "response": write_response(result)}


def write_response(result: ToolResult) -> Json:
    """Return what came back from a tool: a text, a structure, or blocks where it is of several."""
    if not result.parts:
        return "" if result.structured is None else result.structured
    only = result.parts[0]
    if len(result.parts) == 1 and only.kind == "text" and not only.extra:
        return only.text or ""
    return [_part(part) for part in result.parts]


def write_usage(usage: Usage | None) -> dict[str, Json]:
    """Return token counts under the names of the conventions; what is not known has none."""
    counts = {key: getattr(usage, field, None) for key, field in _USAGE.items()}
    return {f"gen_ai.usage.{key}": count for key, count in counts.items() if count is not None}


def read_span_steps(span: RawSpan, limits: Limits) -> list[Step]:
    """Return the steps that a span of ours tells, each as its message alone says it.

    Raises:
        TraceError: what stands where messages stand is none of ours.
    """
    about = span.attributes
    heard = about.get("gen_ai.input.messages", about.get(MESSAGES_KEY))
    told = [_step(message) for message in _listed(heard, limits)]
    for message in _listed(about.get("gen_ai.output.messages"), limits):
        told.append(_answered(_step(message), span))
    return told


def _listed(found: Json, limits: Limits) -> list[Json]:
    listed = decode_object(found, limits)
    if listed is None or isinstance(listed, list):
        return listed or []
    raise TraceError(f"messages are {str(listed)[:60]!r}; expected a list")


def _step(message: Json) -> Step:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        raise TraceError(f"a message is {str(message)[:60]!r}; expected one with parts")
    listed = [entry for entry in message["parts"] if isinstance(entry, dict)]
    calls = tuple([_call_in(entry) for entry in listed if entry.get("type") in _CALLS])
    results = tuple([_result_in(entry) for entry in listed if entry.get("type") == _ANSWER])
    others = [entry for entry in listed if entry.get("type") not in {*_CALLS, _ANSWER}]
    kind: StepKind = "call" if calls else "result" if results else "message"
    return Step(
        index=0,
        actor=_ACTORS.get(message.get("role"), "environment"),
        kind=kind,
        parts=tuple([_part_in(entry) for entry in others]),
        calls=calls,
        results=results,
        agent=_text_field(message, "name"),
    )


def _call_in(entry: dict[str, Json]) -> ToolCall:
    name, asked, call_id = (
        _text_field(entry, "name"),
        entry.get("arguments"),
        _text_field(entry, "id"),
    )
    call = ToolCall(name or "", asked, call_id)
    served = entry["type"] == "server_tool_call"
    return msgspec.structs.replace(call, kind="server") if served else call


def _result_in(entry: dict[str, Json]) -> ToolResult:
    held = entry.get("response")
    parts: tuple[Part, ...] = ()
    if isinstance(held, str):
        parts = (Part("text", held),) if held else ()
    elif isinstance(held, list):
        parts = tuple([_part_in(block) for block in held if isinstance(block, dict)])
    structured = held if isinstance(held, dict) else None
    return ToolResult(_text_field(entry, "id"), _text_field(entry, "name"), parts, structured)


def _part_in(entry: dict[str, Json]) -> Part:
    beside = dict(entry)
    kind = beside.pop("type", None)
    if kind in {"text", "reasoning", "refusal"}:
        said = beside.pop("refusal" if kind == "refusal" else "content", None)
        return Part(kind, said if isinstance(said, str) else None, extra=beside or None)
    modality, media_type = beside.pop("modality", None), beside.pop("mime_type", None)
    sort = _KINDS.get(modality)
    if sort is None:
        return Part("data", extra=beside or None)
    held = beside.pop("content" if kind == "blob" else "uri", None)
    told = media_type if isinstance(media_type, str) else None
    if kind == "blob" and isinstance(held, str):
        return data_part(sort, told, held, extra=beside or None)
    uri = held if isinstance(held, str) else None
    return Part(sort, media_type=told, uri=uri, extra=beside or None)


def _answered(step: Step, span: RawSpan) -> Step:
    """Return a step with what the span around its message says of it."""
    about = span.attributes
    reasons = about.get("gen_ai.response.finish_reasons")
    first = about.get("gen_ai.response.time_to_first_chunk")
    reason = reasons[0] if isinstance(reasons, list) and reasons else None
    return msgspec.structs.replace(
        step,
        agent=_text_field(about, "gen_ai.agent.name"),
        model=_text_field(about, "gen_ai.response.model"),
        usage=read_span_usage(about),
        finish_reason=reason if isinstance(reason, str) else None,
        first_token_seconds=float(first) if isinstance(first, int | float) else None,
        error=span.status_message if span.status == "error" else None,
        start=span_instant(span.start_ns),
        end=span_instant(span.end_ns),
    )


def read_span_usage(about: Mapping[str, Json]) -> Usage | None:
    """Return the token counts that attributes of ours hold, None where they hold none."""
    counts = {field: about.get(f"gen_ai.usage.{key}") for key, field in _USAGE.items()}
    told = {k: v for k, v in counts.items() if isinstance(v, int) and not isinstance(v, bool)}
    return msgspec.convert(told, Usage) if told else None


def span_instant(ns: int | None) -> Instant | None:
    """Return a time of a span as a time of ours, None where the span has none."""
    return None if ns is None else Instant(ns, str(ns))


def _text_field(about: Mapping[str, Json], key: str) -> str | None:
    value = about.get(key)
    return value if isinstance(value, str) else None
