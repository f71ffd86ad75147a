"""Verdicts on spans, in the two ways that tracing backends show them.

As events `gen_ai.evaluation.result` of the span that a verdict is about, or as OpenInference's
attributes `evaluations.{i}.evaluation.*` of it. What could not be measured has no score: an event
carries `error.type`, an attribute the kind in its metadata. Provenance stands under `stepscope.*`.
Source: open-telemetry/semantic-conventions-genai, `gen-ai-events.md`;
openinference-semantic-conventions 0.1.42, `EvaluationAttributes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from stepscope.formats.otlp_marks import packed
from stepscope.formats.spans.attributes import decoded
from stepscope.formats.spans.span import Span, SpanEvent
from stepscope.model import Json, Record, Verdict
from stepscope.safety.limits import Limits

Verdicts = Literal["gen_ai", "openinference", "none"]

EVENT = "gen_ai.evaluation.result"
_OURS = "stepscope.version"
_KINDS = {"rules": "CODE", "human": "HUMAN"}
_PREFIX = "evaluations."
_LIMITS = Limits()


def judged(spans: list[Span], records: Mapping[int, Iterable[Record]], how: Verdicts) -> list[Span]:
    """Return spans with the records about each of them, by position."""
    return [
        _with(span, list(records[at]), how) if at in records else span
        for at, span in enumerate(spans)
    ]


def _with(span: Span, records: list[Record], how: Verdicts) -> Span:
    if how == "gen_ai":
        events = [_event(record, span) for record in records]
        return msgspec.structs.replace(span, events=(*span.events, *events))
    first = _next(span.attributes)
    added: dict[str, Json] = {}
    for at, record in enumerate(records, first):
        added |= {f"{_PREFIX}{at}.evaluation.{key}": found for key, found in _fields(record)}
    return msgspec.structs.replace(span, attributes={**span.attributes, **added})


def _event(record: Record, span: Span) -> SpanEvent:
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
    return SpanEvent(name=EVENT, time_ns=span.end_ns or span.start_ns, attributes=told)


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
        about["usage"] = packed(msgspec.to_builtins(record.usage))
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
        "annotator_kind": _KINDS.get(record.family, "LLM"),
        "identifier": record.judge or f"stepscope {answer.measure} {record.version}",
        "metadata": packed(beside),
    }
    return [(key, value) for key, value in about.items() if value is not None]


def _next(about: Mapping[str, Json]) -> int:
    """Return the first place behind the evaluations that a span has already."""
    taken = [
        int(place)
        for key in about
        if key.startswith(_PREFIX)
        and (place := key.removeprefix(_PREFIX).split(".")[0]).isdecimal()
        and len(place) < 7
    ]
    return max(taken, default=-1) + 1


def unjudged(span: Span) -> tuple[Span, int]:
    """Return a span without the verdicts that we wrote on it, and how many those are."""
    events = tuple([event for event in span.events if not _is_ours(event)])
    count = len(span.events) - len(events)
    ours = [
        key.removesuffix("metadata")
        for key, value in span.attributes.items()
        if key.startswith(_PREFIX) and key.endswith(".evaluation.metadata") and _is_mark(value)
    ]
    if not count and not ours:
        return span, 0
    about = {
        key: value
        for key, value in span.attributes.items()
        if not key.startswith(_PREFIX) or not key.startswith(tuple(ours))
    }
    return msgspec.structs.replace(span, events=events, attributes=about), count + len(ours)


def _is_ours(event: SpanEvent) -> bool:
    return event.name == EVENT and _OURS in event.attributes


def _is_mark(value: Json) -> bool:
    found = decoded(value, _LIMITS)
    return isinstance(found, dict) and _OURS in found
