"""One run of LangSmith as a span, and the runs of a file gathered into traces.

Ids, parent, trace and times of a run are a span's own; everything else that it says becomes an
attribute: `langsmith.inputs`, `langsmith.metadata.KEY`, and so on. A run that is nested in another
has it for its parent. What a later telling replaced is kept in the span's `replaced`.
Source: langsmith 0.15.0, `schemas.py`; `dotted_order` as its docstring has it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import rest, text_at
from stepscope.formats.spans.langsmith import KIND, METADATA
from stepscope.formats.spans.span import Span, SpanEvent, SpanStatus
from stepscope.formats.times import instant
from stepscope.model import Json

RUN_TYPES = frozenset("llm chain tool retriever embedding prompt parser".split())
# What a run is a run by, where it names neither its trace nor its place in it.
_USUAL = frozenset({"id", "name", "start_time", "inputs"})
# One step of the way to a run: when it began, to the microsecond, and its id.
_PLACE = re.compile(r"(\d{8})T(\d{6})(\d{1,9})?Z(.+)\Z")
# What LangGraph raises where nothing went wrong: a handoff, a pause for a person.
_PASSING = ("ParentCommand(", "GraphInterrupt(", "NodeInterrupt(")
_OWN = frozenset(
    "id name trace_id parent_run_id start_time end_time error events child_runs inputs outputs "
    "run_type metadata extra".split()
)
_TEXTS = ("name", "id", "trace_id", "parent_run_id", "run_type")
_TIMES = ("start_time", "end_time")
_EVENT = frozenset({"name", "time", "kwargs"})


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
        waiting.append((_object(entry), _id(entry), None))
        for record, run_id, parent in waiting:  # grows while it is walked
            told = {key: held for key, held in record.items() if held is not None}
            if parent is not None:
                told = {"parent_run_id": parent, "trace_id": waiting[0][1], **told}
            listed = told.pop("child_runs", [])
            odd: list[Json] = []
            for child in listed if isinstance(listed, list) else [listed]:
                try:
                    waiting.append((_object(child), _id(child), run_id))
                except TraceError:
                    odd.append(child)  # stays with the run that holds it
            if odd:
                told["child_runs"] = odd
            self._merge(run_id, told, patch=patch)

    def _merge(self, run_id: str, told: dict[str, Json], *, patch: bool) -> None:
        before = self._told.setdefault(run_id, told)
        if before is told:
            return
        if not patch:
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
            ids.sort(key=lambda run_id: _when(self._told[run_id]))
            spans = tuple([self._span(run_id, trace) for run_id in ids])
            yield Trace(spans, tuple(self._faults(ids)))

    def _span(self, run_id: str, trace: str) -> Span:
        lost = self._replaced.get(run_id)
        return span_of(run_id, trace, self._told[run_id], {"replaced": lost} if lost else None)

    def _faults(self, ids: list[str]) -> Iterator[Fault]:
        for run_id in ids:
            if run_id in self._again:
                reason = f"run {run_id!r} is listed {self._again[run_id] + 1} times"
                yield Fault(run_id, "duplicate_run_id", f"{reason}; what is said last counts")
            if _is_pending(self._told[run_id]):
                reason = f"run {run_id!r} has no end: it was still pending"
                yield Fault(run_id, "run_without_end", reason)


def _is_pending(record: dict[str, Json]) -> bool:
    status = (text_at(record, "status") or "").lower()
    told = "end_time" in record or "error" in record
    return status == "pending" or (not status and not told)


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
    places = _places(about)
    run_id = text_at(about, "id") or (places[-1][1] if places else None)
    if run_id is None:
        raise TraceError(f"a LangSmith run needs an `id`; found {str(record)[:60]!r}")
    return run_id


def _places(record: dict[str, Json]) -> list[tuple[str, str]]:
    """Return the way to a run from its root: when each began, and its id."""
    found: list[tuple[str, str]] = []
    for step in (text_at(record, "dotted_order") or "").split("."):
        if place := _PLACE.match(step):
            day, time, fraction, run_id = place.groups()
            moment = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
            found.append((f"{moment}.{fraction or 0}Z", run_id))
    return found


def _when(record: dict[str, Json]) -> tuple[int, str]:
    """Return where a run stands among others: by its place, else by its beginning."""
    places = _places(record)
    start = instant(places[-1][0] if places else record.get("start_time"))
    return 0 if start is None else start.ns, text_at(record, "dotted_order") or ""


def _trace(record: dict[str, Json]) -> str | None:
    places = _places(record)
    return text_at(record, "trace_id") or (places[0][1] if places else None)


def _parent(record: dict[str, Json]) -> str | None:
    """Return the parent as named, else the last of the ancestors, else by the place."""
    above, places = record.get("parent_run_ids"), _places(record)
    named = text_at(record, "parent_run_id")
    if named is None and isinstance(above, list) and above and isinstance(above[-1], str):
        named = above[-1]
    return named or (places[-2][1] if len(places) > 1 else None)


def _traces(told: dict[str, dict[str, Json]]) -> dict[str, str]:
    """Return the trace of every run: its own, else that of the nearest ancestor that names one."""
    found: dict[str, str] = {}
    for run_id in told:
        way: list[str] = []
        at = run_id
        while at in told and at not in found:
            found[at] = run_id  # where a circle ends
            way.append(at)
            trace, above = _trace(told[at]), _parent(told[at])
            if trace is not None or above is None:
                trace = trace or at
                break
            at = above
        else:
            trace = found.get(at, at)
        found.update(dict.fromkeys(way, trace))
    return found


def _deeper(old: dict[str, Json], new: dict[str, Json]) -> dict[str, Json]:
    metadata = [held for held in (old.get("metadata"), new.get("metadata")) if held]
    both = {**old, **new}
    if len(metadata) == 2 and all(isinstance(held, dict) for held in metadata):
        both["metadata"] = {**metadata[0], **metadata[1]}
    return both


def span_of(
    run_id: str, trace: str, record: dict[str, Json], extra: dict[str, Json] | None
) -> Span:
    """Return a run as a span."""
    places, failed = _places(record), record.get("error")
    start = instant(record.get("start_time")) or (instant(places[-1][0]) if places else None)
    end = instant(record.get("end_time"))
    return Span(
        trace_id=trace,
        span_id=run_id,
        parent_id=_parent(record),
        name=text_at(record, "name") or "",
        kind=(text_at(record, "run_type") or "").lower(),
        start_ns=None if start is None else start.ns,
        end_ns=None if end is None else end.ns,
        status=_status(record, ended=end is not None),
        status_message=None if failed is None else str(failed),
        attributes=_attributes(record),
        events=_events(record.get("events")),
        extra=extra,
    )


def _status(record: dict[str, Json], *, ended: bool) -> SpanStatus:
    """Return error or ok as LangSmith itself concludes them: ended without an error is ok.

    LangGraph passes control by raising; that is an end, and no error.
    """
    said = (text_at(record, "status") or "").lower()
    if (text_at(record, "error") or "").startswith(_PASSING):
        return "unset"
    if record.get("error") is not None or said == "error":
        return "error"
    return "ok" if ended and said in {"", "success"} else "unset"


def _attributes(record: dict[str, Json]) -> dict[str, Json]:
    beside = record.get("extra")
    found: dict[str, Json] = {KIND: (text_at(record, "run_type") or "").lower()}
    for held in (
        beside.get("metadata") if isinstance(beside, dict) else None,
        record.get("metadata"),
    ):
        if isinstance(held, dict):
            found.update({f"{METADATA}{key}": value for key, value in held.items()})
        elif held is not None:
            found[METADATA.rstrip(".")] = held
    if isinstance(beside, dict):
        beside = rest(beside, frozenset({"metadata"}))
    kept = {"inputs": record.get("inputs"), "outputs": record.get("outputs"), "extra": beside}
    if "child_runs" in record:
        kept["child_runs"] = record["child_runs"]
    kept |= {key: record[key] for key in _TEXTS if not isinstance(record.get(key, ""), str)}
    kept |= {key: record[key] for key in _TIMES if key in record and instant(record[key]) is None}
    kept |= rest(record, _OWN) or {}
    found.update({f"langsmith.{key}": held for key, held in kept.items() if held is not None})
    return found


def _events(listed: Json) -> tuple[SpanEvent, ...]:
    if not isinstance(listed, list):
        return () if listed is None else (SpanEvent(extra={"value": listed}),)
    found: list[SpanEvent] = []
    for event in listed:
        if not isinstance(event, dict):
            found.append(SpanEvent(extra={"value": event}))
            continue
        time, about = instant(event.get("time")), event.get("kwargs")
        odd = {} if time is not None or event.get("time") is None else {"time": event["time"]}
        if about is not None and not isinstance(about, dict):
            odd["kwargs"] = about
        found.append(
            SpanEvent(
                name=text_at(event, "name") or "",
                time_ns=None if time is None else time.ns,
                attributes=about if isinstance(about, dict) else {},
                extra={**(rest(event, _EVENT) or {}), **odd} or None,
            )
        )
    return tuple(found)
