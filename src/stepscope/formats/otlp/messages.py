"""Write steps as messages of the GenAI conventions, and verdicts on spans.

A verdict is an event `gen_ai.evaluation.result` of the span that it is about, or OpenInference's
attributes `evaluations.{i}.evaluation.*` of it. What could not be measured has no score: an event
carries `error.type`, an attribute the kind in its metadata. Provenance stands under `stepscope.*`.
Messages are read by `spans.messages`, whoever wrote them.
Source: gen-ai-input-messages.json, gen-ai-output-messages.json and `gen-ai-events.md` of the GenAI
conventions; openinference-semantic-conventions 0.1.42, `EvaluationAttributes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from stepscope.formats.spans.span import EVALUATION_EVENT, RawSpan, SpanEvent
from stepscope.model import (
    Actor,
    Json,
    Part,
    PartKind,
    Record,
    Step,
    ToolCall,
    ToolResult,
    Usage,
    Verdict,
)
from stepscope.model.records import ANNOTATORS

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
_MODALITIES: dict[PartKind, str] = {"image": "image", "audio": "audio", "file": "document"}
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
    found: dict[str, Json] = {"type": "tool_call_response", "id": result.call_id}
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


Verdicts = Literal["gen_ai", "openinference", "none"]

_PREFIX = "evaluations."


def attach_verdicts(
    spans: list[RawSpan], records: Mapping[int, Iterable[Record]], how: Verdicts
) -> list[RawSpan]:
    """Return spans with the records about each of them, by position."""
    return [
        _with(span, list(records[at]), how) if at in records else span
        for at, span in enumerate(spans)
    ]


def _with(span: RawSpan, records: list[Record], how: Verdicts) -> RawSpan:
    if how == "gen_ai":
        events = [_event(record, span) for record in records]
        return msgspec.structs.replace(span, events=(*span.events, *events))
    # The first place behind the evaluations that a span has already.
    taken = [
        int(place)
        for key in span.attributes
        if key.startswith(_PREFIX)
        and (place := key.removeprefix(_PREFIX).split(".")[0]).isdecimal()
        and len(place) < 7
    ]
    added: dict[str, Json] = {}
    for at, record in enumerate(records, max(taken, default=-1) + 1):
        added |= {f"{_PREFIX}{at}.evaluation.{key}": found for key, found in _fields(record)}
    return msgspec.structs.replace(span, attributes={**span.attributes, **added})


def _event(record: Record, span: RawSpan) -> SpanEvent:
    answer = record.answer
    prefix = "gen_ai.evaluation."
    about: dict[str, Json] = {f"{prefix}name": answer.measure}
    if isinstance(answer, Verdict):
        about |= {f"{prefix}score.value": answer.value, f"{prefix}score.label": answer.label}
    else:
        about["error.type"] = answer.kind
    about[f"{prefix}explanation"] = answer.reason or None
    about["gen_ai.response.id"] = span.attributes.get("gen_ai.response.id")
    about |= {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    told = {key: value for key, value in about.items() if value is not None}
    return SpanEvent(name=EVALUATION_EVENT, time_ns=span.end_ns or span.start_ns, attributes=told)


def _provenance(record: Record) -> dict[str, Json]:
    """Return what the conventions have no name for; the version marks a verdict of ours."""
    answer = record.answer
    about: dict[str, Json] = {
        "version": record.version,
        "family": record.family,
        "step": answer.step,
        "case": record.case,
        "facts": record.facts,
        "judge": record.judge,
        "rubric": record.rubric,
        "prompt": record.prompt,
        "repeat": record.repeat or None,
        "cost_usd": record.cost_usd,
        "seconds": record.seconds,
    }
    if isinstance(answer, Verdict):
        about |= {"cites": list(answer.cites) or None, "confidence": answer.confidence}
    if record.usage is not None:
        about["usage"] = pack_attribute(msgspec.to_builtins(record.usage))
    return {key: value for key, value in about.items() if value is not None and value != ""}


def _fields(record: Record) -> list[tuple[str, Json]]:
    answer = record.answer
    beside = {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    about: dict[str, Json] = {"name": answer.measure}
    if isinstance(answer, Verdict):
        about |= {"score": answer.value, "label": answer.label}
    else:
        beside["stepscope.unmeasured"] = answer.kind
    about |= {
        "explanation": answer.reason or None,
        "annotator_kind": ANNOTATORS.get(record.family, "LLM"),
        "identifier": record.judge or f"stepscope {answer.measure} {record.version}",
        "metadata": pack_attribute(beside),
    }
    return [(key, value) for key, value in about.items() if value is not None]
