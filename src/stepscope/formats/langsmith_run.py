"""The runs of LangSmith that a file tells of, each once, gathered into traces.

A run that is nested in another has it for its parent. What a later telling replaced is kept in the
span's `replaced`.
Format: langsmith 0.15.0, `schemas.py`; the export script of langchain-ai/langchain-skills.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import text_at
from stepscope.formats.langsmith_span import (
    began,
    held_open,
    parent_of,
    places,
    span_of,
    trace_of,
)
from stepscope.formats.spans.span import Span
from stepscope.model import Json

RUN_TYPES = frozenset("llm chain tool retriever embedding prompt parser".split())
# What a run is a run by, where it names neither its trace nor its place in it.
_USUAL = frozenset({"id", "name", "start_time", "inputs"})
# Names in exports that LangSmith's own scripts write, and objects that they gather fields in.
_RENAMED = {"run_id": "id", "custom_metadata": "metadata"}
_GATHERED = ("token_usage", "costs")


class Fault(NamedTuple):
    """Something odd about a run: a code for counting, and the reason."""

    run_id: str
    code: str
    reason: str


class Trace(NamedTuple):
    """Spans of one trace by their place in it, and what is odd about the runs that they were."""

    spans: tuple[Span, ...]
    faults: tuple[Fault, ...]


class Runs:
    """Collects what a file tells of runs."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Json]] = {}
        self._replaced: dict[str, dict[str, Json]] = {}
        self._again: dict[str, int] = {}

    def add(self, entry: Json, *, patch: bool = False) -> None:
        """Add a run with the runs that are nested in it; a patch adds to one told before.

        Raises:
            TraceError: it has no id.
        """
        waiting: list[tuple[dict[str, Json], str, str | None]] = []
        waiting.append((_usual(_object(entry)), _id(entry), None))
        trace = trace_of(waiting[0][0]) or waiting[0][1]
        for record, run_id, parent in waiting:  # grows while it is walked
            told = {key: held for key, held in record.items() if held is not None}
            if parent is not None:
                told = {"parent_run_id": parent, "trace_id": trace, **told}
            listed = told.pop("child_runs", [])
            odd: list[Json] = []
            for child in listed if isinstance(listed, list) else [listed]:
                try:
                    waiting.append((_usual(_object(child)), _id(child), run_id))
                except TraceError:
                    odd.append(child)  # stays with the run that holds it
            if odd:
                told["child_runs"] = odd
            self._merge(run_id, told, patch=patch)

    def _merge(self, run_id: str, told: dict[str, Json], *, patch: bool) -> None:
        before = self._told.setdefault(run_id, told)
        if before is told:
            return
        # Only what says what kind of run it is tells of a whole run.
        if not patch and "run_type" in before and "run_type" in told:
            self._again[run_id] = self._again.get(run_id, 0) + 1
        lost = self._replaced.setdefault(run_id, {})
        for key, new in told.items():
            old = before.get(key)
            if key == "extra" and isinstance(old, dict) and isinstance(new, dict):
                new = _deeper(old, new)
            elif old and (not new or (key == "status" and str(new).lower() == "pending")):
                continue  # nothing is news that says less
            elif old not in (None, new) and old != [] and old != {}:
                lost[key] = old
            before[key] = new

    def traces(self) -> Iterator[Trace]:
        """Yield every trace, in the order of their first runs."""
        members: dict[str, list[str]] = {}
        for run_id, trace in _traces(self._told).items():
            members.setdefault(trace, []).append(run_id)
        for trace, ids in members.items():
            ids.sort(key=self._when)
            spans = held_open([self._span(run_id, trace) for run_id in ids])
            yield Trace(tuple(spans), tuple(self._faults(ids)))

    def _when(self, run_id: str) -> tuple[int, str]:
        told = self._told[run_id]
        return began(run_id, told) or 0, text_at(told, "dotted_order") or ""

    def _span(self, run_id: str, trace: str) -> Span:
        lost = self._replaced.get(run_id)
        return span_of(run_id, trace, self._told[run_id], {"replaced": lost} if lost else None)

    def _faults(self, ids: list[str]) -> Iterator[Fault]:
        if len(ids) > 1 and all(began(run_id, self._told[run_id]) is None for run_id in ids):
            reason = "no run says when it began: steps stand in the order of kinds, not of time"
            yield Fault(ids[0], "runs_without_times", reason)
        for run_id in ids:
            if run_id in self._again:
                reason = f"run {run_id!r} is listed {self._again[run_id] + 1} times"
                yield Fault(run_id, "duplicate_run_id", f"{reason}; what is said last counts")
            if _is_pending(self._told[run_id]):
                reason = f"run {run_id!r} has no end: it was still pending"
                yield Fault(run_id, "run_without_end", reason)


def _is_pending(record: dict[str, Json]) -> bool:
    status = (text_at(record, "status") or "").lower()
    told = "start_time" not in record or "end_time" in record or "error" in record
    return status == "pending" or not (status or told)


def is_run(record: Json) -> bool:
    """Say whether a record is a run of LangSmith: by its type, and by a place in a trace."""
    if not isinstance(record, dict):
        return False
    kind = record.get("run_type")
    if not isinstance(kind, str) or kind.lower() not in RUN_TYPES:
        return False
    return "dotted_order" in record or "trace_id" in record or _USUAL <= record.keys()


def _object(record: Json) -> dict[str, Json]:
    if isinstance(record, dict):
        return record
    raise TraceError(f"a LangSmith run is an object; found {str(record)[:60]!r}")


def _id(record: Json) -> str:
    """Return the id of a run, else the last of its place.

    Raises:
        TraceError: it has neither.
    """
    about = _object(record)
    way = places(about)
    run_id = text_at(about, "id") or text_at(about, "run_id") or (way[-1][1] if way else None)
    if run_id is None:
        raise TraceError(f"a LangSmith run needs an `id`; found {str(record)[:60]!r}")
    return run_id


def _traces(told: dict[str, dict[str, Json]]) -> dict[str, str]:
    """Return the trace of every run: its own, else that of the nearest ancestor that names one."""
    found: dict[str, str] = {}
    for run_id in told:
        way: list[str] = []
        at = run_id
        while at in told and at not in found:
            found[at] = run_id  # where a circle ends
            way.append(at)
            trace, above = trace_of(told[at]), parent_of(told[at])
            if trace is not None or above is None:
                trace = trace or at
                break
            at = above
        else:
            trace = found.get(at, at)
        found.update(dict.fromkeys(way, trace))
    return found


def _usual(record: dict[str, Json]) -> dict[str, Json]:
    """Return a run as the API tells it; scripts that export runs name some fields anew."""
    if "id" in record or "run_id" not in record:
        return record
    found = {key: held for key, held in record.items() if key not in _RENAMED}
    for key in _GATHERED:
        held = found.get(key)
        if isinstance(held, dict) and not held.keys() & found.keys():
            found.update(found.pop(key))
    return {**found, **{new: record[old] for old, new in _RENAMED.items() if old in record}}


def _deeper(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    metadata = [held for held in (old.get("metadata"), new.get("metadata")) if held]
    both = {**old, **new}
    if len(metadata) == 2 and all(isinstance(held, dict) for held in metadata):
        both["metadata"] = {**metadata[0], **metadata[1]}
    return both
