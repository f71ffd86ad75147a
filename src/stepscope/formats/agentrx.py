"""Read AgentRx failure labels: what people found wrong in runs that lie in the same folder.

A label file, whatever its name, holds no runs, so reading it yields none; whoever reads runs from
the same folder adds its labels to the run of the same task. `step_number` counts messages from 1,
system message included; labels count steps from 0. Categories are compared without regard to case.
Format: microsoft/AgentRx, `data/`, failure labels of tau-bench retail runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import expect_object, rest
from stepscope.formats.format import FileFormat, RunLabels, parse_records, quarantine_record
from stepscope.formats.opening import Opening
from stepscope.model import Json, Quarantined, Stream, TraceLabel, Trajectory
from stepscope.safety.limits import Limits, open_file

NAME = "agentrx_labels"
ANNOTATOR = "AgentRx"


class _Failure(msgspec.Struct, gc=False):
    step_number: int
    failure_id: int | str | None = None
    step_reason: str = ""
    failure_category: str | None = None
    category_reason: str | None = None
    failed_agent: str | None = None


class _Labelled(msgspec.Struct, gc=False):
    trajectory_id: int | str
    failures: list[Any]
    root_cause: dict[str, Any] | None = None
    failure_summary: str | None = None


_FAILURE_KEYS = frozenset(_Failure.__struct_fields__)
_RECORD_KEYS = frozenset(_Labelled.__struct_fields__)


def load_labels(path: Path, limits: Limits) -> RunLabels | None:
    """Return the labels of a file, None without any; its faults are told where it is imported."""
    by_task: dict[str, tuple[TraceLabel, ...]] = {}
    try:
        with open_file(path) as file:
            for item in parse_records(Stream(file, str(path), limits), parse_labels):
                if not isinstance(item, Quarantined):
                    task, labels = item[1]
                    by_task[task] = (*by_task.get(task, ()), *labels)
    except OSError:
        return None
    return RunLabels(by_task) if by_task else None


def parse_labels(record: Json) -> tuple[str, tuple[TraceLabel, ...]]:
    """Return the task of a record, and every label that it gives the task's run."""
    labelled = msgspec.convert(expect_object(record, "a labelled run is an object"), _Labelled)
    failures = [msgspec.convert(failure, _Failure) for failure in labelled.failures]
    labels = [
        _failure_label(failure, rest(raw, _FAILURE_KEYS))
        for failure, raw in zip(failures, labelled.failures, strict=True)
    ]
    cause = labelled.root_cause
    if cause is not None:
        more = rest(record, _RECORD_KEYS)
        named = _id_text(msgspec.convert(cause.get("failure_id"), int | str | None))
        # The id is a number in one place and text in another.
        meant = next((f for f in failures if _id_text(f.failure_id) == named), None)
        told = {"failure_id": named, "failure_summary": labelled.failure_summary}
        extra = {key: value for key, value in told.items() if value is not None} | (more or {})
        label = TraceLabel(
            kind="root_cause",
            step=None if meant is None else meant.step_number - 1,
            agent=None if meant is None else meant.failed_agent,
            category=None if meant is None else _category(meant.failure_category),
            reason=msgspec.convert(cause.get("reason_for_root_cause", ""), str),
            annotator=ANNOTATOR,
            extra=extra or None,
        )
        labels.append(label)
    return str(labelled.trajectory_id), tuple(labels)


def _failure_label(failure: _Failure, more: dict[str, Json] | None) -> TraceLabel:
    if failure.step_number < 1:
        raise TraceError(f"`step_number` is {failure.step_number}; it counts messages from 1")
    told = {"failure_id": _id_text(failure.failure_id), "category_reason": failure.category_reason}
    extra = {key: value for key, value in told.items() if value is not None} | (more or {})
    return TraceLabel(
        kind="failure",
        step=failure.step_number - 1,
        agent=failure.failed_agent,
        category=_category(failure.failure_category),
        reason=failure.step_reason,
        annotator=ANNOTATOR,
        extra=extra or None,
    )


def _id_text(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def _category(text: str | None) -> str | None:
    return None if text is None else " ".join(text.lower().split())


def _likeness(opening: Opening) -> float:
    record = opening.first("trajectory_id", "failures")
    return 0.95 if record is not None and isinstance(record["failures"], list) else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    """Yield no runs, only the records that cannot be read."""
    for item in parse_records(stream, parse_labels):
        if isinstance(item, Quarantined):
            yield item
        elif told := [one.reason for one in item[0].repairs if one.code == "duplicate_key"]:
            yield quarantine_record(item[0], "; ".join(told))


FORMAT = FileFormat(NAME, _likeness, _read, load_labels=load_labels)
