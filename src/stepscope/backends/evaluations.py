"""Verdicts as backends take them: a name, a score or a label, and the span that they are about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import msgspec

from stepscope.backends.target import BackendName
from stepscope.formats.otlp_any import SPAN_DIGITS, TRACE_DIGITS, id_of
from stepscope.formats.otlp_made import made
from stepscope.formats.otlp_recorded import recorded
from stepscope.model import Json, Record, Trajectory, Verdict

Annotator = Literal["CODE", "HUMAN", "LLM"]
_ANNOTATORS: dict[str, Annotator] = {"rules": "CODE", "human": "HUMAN"}


class Place(NamedTuple):
    """Where a run is in a backend: its trace, the trace's root, and the span of each step.

    `at_ns` is when the run ended, or began; None where nothing is known of it.
    """

    trace: str
    root: str
    steps: list[str]
    at_ns: int | None


class Evaluation(NamedTuple):
    """One verdict for one place.

    Attributes:
        key: tells this verdict from every other on the same run; the same whenever it is sent.
        name: the measure.
        trace: the trace's id.
        span: the span's id; None where it is about the whole run.
        root: the span that stands for the whole run, where a backend knows no traces.
        value: finite, or None where there is a label only.
        label: or None.
        reason: in words; may be "".
        annotator: who said it.
        at_ns: when the run ended, nanoseconds since 1970; None where that is not known.
        about: provenance, for people and for us.
    """

    key: str
    name: str
    trace: str
    span: str | None
    root: str
    value: float | None
    label: str | None
    reason: str
    annotator: Annotator
    at_ns: int | None
    about: dict[str, Json]


def place_of(run: Trajectory, backend: BackendName) -> Place:
    """Return where a run is: under the ids of its recorder, or those that it is written under."""
    if run.source.format == backend and run.spans:
        return _native(run, backend)
    if run.spans:
        spans, root, homes = recorded(run)
    else:
        spans, homes = made(run, {}, None)
        root = 0
    return Place(spans[root].trace_id, spans[root].span_id, homes, _time(run))


def _native(run: Trajectory, backend: BackendName) -> Place:
    """Return where a run is that was read from this very backend."""
    ids = {span.id for span in run.spans}
    root = next((span.id for span in run.spans if span.parent not in ids), run.spans[0].id)
    trace = run.source.run_id or root
    told = (run.extra or {}).get("trace")
    if backend == "mlflow" and isinstance(told, dict):
        trace = str(told.get("trace_id") or told.get("request_id") or trace)
    steps = [step.span if step.span in ids else root for step in run.steps]
    return Place(trace, root, steps, _time(run))


def _time(run: Trajectory) -> int | None:
    last = run.end or run.start
    return None if last is None else last.ns


def apart(run: Trajectory, given: set[str]) -> Trajectory:
    """Return a run under a trace of its own where another run was read from the same one."""
    wanted = id_of(run.source.run_id or run.id, TRACE_DIGITS)
    if wanted in given:
        source = msgspec.structs.replace(run.source, run_id=run.id)
        run, wanted = msgspec.structs.replace(run, source=source), id_of(run.id, TRACE_DIGITS)
    given.add(wanted)
    return run


def evaluations(records: Iterable[Record], place: Place) -> list[Evaluation]:
    """Return the verdicts among records, each at its place; what is unmeasured has no place."""
    return [
        _evaluation(record, record.answer, place)
        for record in records
        if isinstance(record.answer, Verdict)
    ]


def _evaluation(record: Record, answer: Verdict, place: Place) -> Evaluation:
    step = answer.step
    known = step is not None and 0 <= step < len(place.steps)
    question = (answer.measure, step, record.judge, record.repeat)
    about: dict[str, Json] = {
        "stepscope": answer.measure,
        "version": record.version,
        "step": step,
        "cites": list(answer.cites) or None,
        "confidence": answer.confidence,
        "judge": record.judge or None,
        "rubric": record.rubric or None,
    }
    return Evaluation(
        key=id_of(msgspec.json.encode(question).decode(), SPAN_DIGITS),
        name=answer.measure,
        trace=place.trace,
        span=place.steps[step] if step is not None and known else None,
        root=place.root,
        value=answer.value,
        label=answer.label,
        reason=answer.reason,
        annotator=_ANNOTATORS.get(record.family, "LLM"),
        at_ns=place.at_ns,
        about={key: value for key, value in about.items() if value is not None},
    )
