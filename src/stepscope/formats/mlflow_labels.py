"""Assessments of MLflow as labels, and the outcome that some feedback is.

Feedback says what a run or a span was worth, an expectation what it should have given; both keep
their source. What was overridden later (`valid` is false) stays a label, and decides nothing.
Source: mlflow-skinny 3.17.2, `entities/assessment.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from stepscope.formats.building import rest, text_at
from stepscope.formats.mlflow_records import Record
from stepscope.formats.mlflow_spans import otel_id
from stepscope.formats.outcomes import Opinion, Who, outcome_of
from stepscope.formats.spans.attributes import parsed
from stepscope.formats.spans.valued import evaluation
from stepscope.model import Json, Label, Trajectory
from stepscope.safety.limits import Limits

_WHO: dict[str, Who] = {"HUMAN": "person", "CODE": "code"}
_ANNOTATORS = {"LLM_JUDGE": "LLM", "AI_JUDGE": "LLM"}
_KNOWN = frozenset("assessment_name name rationale span_id feedback expectation".split())


def assessed(run: Trajectory, assessments: Sequence[Json], limits: Limits) -> Trajectory:
    """Return a run with what assessments say of it; one that is no object stays in `extra`."""
    first: dict[str, int] = {}
    for step in run.steps:
        if step.span is not None:
            first.setdefault(step.span, step.index)
    records = [entry for entry in assessments if isinstance(entry, dict)]
    others: list[Json] = [entry for entry in assessments if not isinstance(entry, dict)]
    labels = [_label(record, first, limits) for record in records]
    outcome = outcome_of([_opinion(record, limits) for record in records if _decides(record)])
    known = outcome.status != "unknown" or outcome.reason
    return msgspec.structs.replace(
        run,
        labels=(*run.labels, *labels),
        outcome=outcome if known else run.outcome,
        extra={**(run.extra or {}), "assessments": others} if others else run.extra,
    )


def _label(record: Record, first: Mapping[str, int], limits: Limits) -> Label:
    own = otel_id(record.get("span_id"))
    value, more = _told(record, limits)
    about: dict[str, Json] = {
        "name": _name(record),
        "explanation": record.get("rationale"),
        "annotator_kind": _ANNOTATORS.get(_source(record), _source(record)) or None,
    }
    if isinstance(record.get("expectation"), dict):
        about["expectation"] = value
    else:
        about["label" if isinstance(value, str) else "score"] = value
    about = {key: held for key, held in about.items() if held is not None}
    beside: dict[str, Json] = {**(rest(record, _KNOWN) or {}), **more}
    if own is None:
        beside["of"] = "trace"
    elif own not in first:
        beside["span"] = own
    return msgspec.structs.replace(evaluation(about, beside), step=first.get(own) if own else None)


def _told(record: Record, limits: Limits) -> tuple[Json, Record]:
    """Return the value of an assessment, and what stands beside the value."""
    for key in ("feedback", "expectation"):
        held = record.get(key)
        if not isinstance(held, dict):
            continue
        written = held.get("serialized_value")
        if isinstance(written, dict):
            value = parsed(written.get("value"), limits)
            more = rest(written, frozenset({"value", "serialization_format"})) or {}
            return value, {**more, **(rest(held, frozenset({"serialized_value"})) or {})}
        return held.get("value"), rest(held, frozenset({"value"})) or {}
    return record.get("value"), {}


def _name(record: Record) -> str:
    return text_at(record, "assessment_name") or text_at(record, "name") or ""


def _source(record: Record) -> str:
    source = record.get("source")
    return text_at(source, "source_type") or "" if isinstance(source, dict) else ""


def _decides(record: Record) -> bool:
    return (
        isinstance(record.get("feedback"), dict)
        and not record.get("span_id")
        and record.get("valid") is not False
    )


def _opinion(record: Record, limits: Limits) -> Opinion:
    who = _WHO.get(_source(record), "model")
    reason = text_at(record, "rationale") or ""
    return Opinion(_name(record), _told(record, limits)[0], who, reason)
