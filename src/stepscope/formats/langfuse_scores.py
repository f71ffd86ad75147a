"""Scores of Langfuse as labels, and the outcome that some of them are.

A score of a trace is of the whole run, one of an observation is at the step that it made; one of a
session is at every run of the session. What EVAL says is a model's opinion: a label, no outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stepscope.formats.building import rest, text_at
from stepscope.formats.langfuse_records import Record
from stepscope.formats.outcomes import Opinion, Who, outcome_of
from stepscope.formats.spans.valued import evaluation
from stepscope.model import Json, Label, Trajectory

_WHO: dict[str, Who] = {"ANNOTATION": "person", "API": "code", "EVAL": "model"}
_ANNOTATORS = {"ANNOTATION": "HUMAN", "EVAL": "LLM"}
_KNOWN = frozenset("name value stringValue comment traceId observationId".split())


def scored(run: Trajectory, scores: Sequence[Record]) -> Trajectory:
    """Return a run with what scores say of it."""
    if not scores:
        return run
    first: dict[str, int] = {}
    for step in run.steps:
        if step.span is not None:
            first.setdefault(step.span, step.index)
    labels = [_label(score, first) for score in scores]
    opinions = [_opinion(score) for score in scores if _is_whole(score)]
    outcome = outcome_of(opinions)
    return msgspec.structs.replace(
        run,
        labels=(*run.labels, *labels),
        outcome=outcome if outcome.status != "unknown" or outcome.reason else run.outcome,
    )


def _label(score: Record, first: dict[str, int]) -> Label:
    source = text_at(score, "source")
    own = text_at(score, "observationId")
    value = _value(score)
    about: dict[str, Json] = {"name": score.get("name"), "explanation": score.get("comment")}
    about["label" if isinstance(value, str) else "score"] = value
    if source is not None:
        about["annotator_kind"] = _ANNOTATORS.get(source, source)
    about = {key: held for key, held in about.items() if held is not None}
    more: dict[str, Json] = {**(rest(score, _KNOWN) or {})}
    if own is not None and own not in first:
        more["observation"] = own
    elif own is None:
        more["of"] = "trace" if score.get("traceId") else "session"
    return msgspec.structs.replace(evaluation(about, more), step=first.get(own) if own else None)


def _value(score: Record) -> Json:
    """Return what a score says: of a category its name, of a yes or no a truth value."""
    said, value = score.get("stringValue"), score.get("value")
    if score.get("dataType") == "BOOLEAN" and value in (0, 1):
        return bool(value)
    return said if isinstance(said, str) and said else value


def _is_whole(score: Record) -> bool:
    return text_at(score, "observationId") is None and text_at(score, "traceId") is not None


def _opinion(score: Record) -> Opinion:
    source = text_at(score, "source") or "API"
    return Opinion(
        text_at(score, "name") or "",
        _value(score),
        _WHO.get(source, "model"),
        text_at(score, "comment") or "",
    )
