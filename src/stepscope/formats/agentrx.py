"""Read AgentRx `failure_labels.json`: what people found wrong in runs that lie in the same folder.

A label file holds no runs, so reading it yields none; `beside` finds it from a file of runs, and
`attach` adds its labels to the run of the same task. `step_number` counts messages from 1, system
message included; labels count steps from 0. Categories are compared without regard to case.
Format: microsoft/AgentRx, `data/`, failure labels of tau-bench retail runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import rest
from stepscope.formats.format import DecodedRecord, FileFormat, decode_records, quarantine_record
from stepscope.formats.opening import Opening, read_opening
from stepscope.model import Json, Label, Quarantined, Stream, Trajectory, Warn
from stepscope.safety.limits import Limits

NAME = "agentrx_labels"
FILE_NAME = "failure_labels.json"
ANNOTATOR = "AgentRx"

_RECORD_KEYS = frozenset({"trajectory_id", "failures", "root_cause", "failure_summary"})
_FAILURE_KEYS = frozenset(
    "failure_id step_number step_reason failure_category category_reason failed_agent".split()
)


class _Failure(msgspec.Struct, gc=False):
    step_number: int
    failure_id: int | str | None = None
    step_reason: str = ""
    failure_category: str | None = None
    category_reason: str | None = None
    failed_agent: str | None = None


class _RootCause(msgspec.Struct, gc=False):
    failure_id: int | str | None = None
    reason_for_root_cause: str = ""


class _Labelled(msgspec.Struct, gc=False):
    trajectory_id: int | str
    failures: list[Any]
    root_cause: _RootCause | None = None
    failure_summary: str | None = None


class RunLabels:
    """The labels of one file by task, and which of them found their run."""

    def __init__(self, by_task: dict[str, tuple[Label, ...]]) -> None:
        self.by_task = by_task
        self._found: set[str] = set()

    def attach(self, run: Trajectory) -> Trajectory:
        """Return the run with the labels of its task added; without any, the run itself.

        Steps were labelled in one run of the task: the first that comes.
        """
        labels = self.by_task.get(run.task or "", ())
        if not labels or run.task in self._found:
            return run
        self._found.add(run.task or "")
        n = len(run.steps)
        beyond = [label for label in labels if label.step is not None and label.step >= n]
        fitting = [label for label in labels if label not in beyond]
        warnings = [
            Warn("label_beyond_run", f"a label names step {label.step}; the run has {n} steps")
            for label in beyond
        ]
        loose = [_without_step(label) for label in beyond]
        return msgspec.structs.replace(
            run,
            labels=(*run.labels, *fitting, *loose),
            warnings=(*run.warnings, *warnings),
        )

    @property
    def without_run(self) -> tuple[str, ...]:
        """Tasks whose run has not come, once any other has: the file is of these runs."""
        if not self._found:
            return ()
        return tuple([task for task in self.by_task if task not in self._found])


def _without_step(label: Label) -> Label:
    extra = {**(label.extra or {}), "step": label.step}
    return msgspec.structs.replace(label, step=None, extra=extra)


def find_label_file(uri: str) -> Path | None:
    """Return where labels lie beside a file of runs, None where there are none."""
    path = Path(uri).parent / FILE_NAME
    return None if uri == "-" or path == Path(uri) or not path.is_file() else path


def load_labels(uri: str, limits: Limits) -> RunLabels | None:
    """Return the labels that lie in the folder of a file of runs, None where none do.

    A file or record that cannot be read is not told here, but where the file itself is imported.
    """
    path = find_label_file(uri)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            records = decode_records(Stream(file, str(path), limits))
            good = [record for record in records if isinstance(record, DecodedRecord)]
    except OSError:
        return None
    by_task: dict[str, tuple[Label, ...]] = {}
    for record in good:
        try:
            task, labels = parse_labels(record.value)
        except (TraceError, msgspec.ValidationError):
            continue
        by_task[task] = (*by_task.get(task, ()), *labels)
    return RunLabels(by_task) if by_task else None


def parse_labels(record: Json) -> tuple[str, tuple[Label, ...]]:
    """Return the task of a record, and every label that it gives the task's run.

    Raises:
        TraceError: the record is no object, or names a step before the first.
        msgspec.ValidationError: a key is missing or of another type.
    """
    if not isinstance(record, dict):
        raise TraceError(f"a labelled run is an object; found {str(record)[:60]!r}")
    labelled = msgspec.convert(record, _Labelled)
    failures = [msgspec.convert(failure, _Failure) for failure in labelled.failures]
    labels = [
        _failure_label(failure, rest(raw, _FAILURE_KEYS))
        for failure, raw in zip(failures, labelled.failures, strict=True)
    ]
    cause = labelled.root_cause
    if cause is not None:
        labels.append(_root_cause_label(cause, failures, labelled, rest(record, _RECORD_KEYS)))
    return str(labelled.trajectory_id), tuple(labels)


def _failure_label(failure: _Failure, more: dict[str, Json] | None) -> Label:
    if failure.step_number < 1:
        raise TraceError(f"`step_number` is {failure.step_number}; it counts messages from 1")
    told = {"failure_id": _id_text(failure.failure_id), "category_reason": failure.category_reason}
    extra = {key: value for key, value in told.items() if value is not None} | (more or {})
    return Label(
        kind="failure",
        step=failure.step_number - 1,
        agent=failure.failed_agent,
        category=_category(failure.failure_category),
        reason=failure.step_reason,
        annotator=ANNOTATOR,
        extra=extra or None,
    )


def _root_cause_label(
    cause: _RootCause,
    failures: list[_Failure],
    labelled: _Labelled,
    more: dict[str, Json] | None,
) -> Label:
    named = _id_text(cause.failure_id)
    # The id is a number in one place and text in another.
    meant = next((f for f in failures if _id_text(f.failure_id) == named), None)
    told = {"failure_id": named, "failure_summary": labelled.failure_summary}
    extra = {key: value for key, value in told.items() if value is not None} | (more or {})
    return Label(
        kind="root_cause",
        step=None if meant is None else meant.step_number - 1,
        agent=None if meant is None else meant.failed_agent,
        category=None if meant is None else _category(meant.failure_category),
        reason=cause.reason_for_root_cause,
        annotator=ANNOTATOR,
        extra=extra or None,
    )


def _id_text(value: int | str | None) -> str | None:
    return None if value is None else str(value)


def _category(text: str | None) -> str | None:
    return None if text is None else " ".join(text.lower().split())


def is_labels(head: bytes) -> bool:
    """Say whether a file that begins with `head` holds such labels."""
    return _likeness(read_opening(head)) > 0


def _likeness(opening: Opening) -> float:
    record = opening.first("trajectory_id", "failures")
    return 0.95 if record is not None and isinstance(record["failures"], list) else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    """Yield no runs, only the records that cannot be read."""
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        try:
            parse_labels(record.value)
        except (TraceError, msgspec.ValidationError) as e:
            yield quarantine_record(record, e)


FORMAT = FileFormat(NAME, _likeness, _read)
