"""One run of LangSmith as a span: what it says in words of its own becomes attributes.

Ids, parent, trace and times of a run are a span's own; everything else that it says becomes an
attribute: `langsmith.inputs`, `langsmith.metadata.KEY`, and so on. `dotted_order` tells what a run
does not: its trace, its parent, when it began, and in JavaScript also in which order runs of one
millisecond did.
Source: langsmith 0.15.0, `schemas.py` for `dotted_order`; langsmith-sdk, `js/src/run_trees.ts`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from uuid import UUID

import msgspec

from stepscope.formats.building import rest, text_at
from stepscope.formats.spans.langsmith import KIND, METADATA
from stepscope.formats.spans.span import Span, SpanEvent, SpanStatus
from stepscope.formats.times import instant
from stepscope.model import Json

# One step of the way to a run: when it began, to the microsecond, and its id.
_PLACE = re.compile(r"(\d{8})T(\d{6})(\d{1,9})?Z(.+)\Z")
# What LangGraph raises where nothing went wrong: a handoff, a pause for a person.
_PASSING = ("ParentCommand(", "GraphInterrupt(", "NodeInterrupt(")
_OWN = frozenset(
    "id name trace_id parent_run_id start_time end_time error events child_runs inputs outputs "
    "run_type metadata extra".split()
)
_TEXTS = ("name", "id", "trace_id", "parent_run_id", "run_type")
_EVENT = frozenset({"name", "time", "kwargs"})
_MILLISECOND = 1_000_000  # nanoseconds
_BY_TIME = 7  # the version of UUIDs that begin with a time


def places(record: dict[str, Json]) -> list[tuple[str, str]]:
    """Return the way to a run from its root: when each began, and its id."""
    found: list[tuple[str, str]] = []
    for step in (text_at(record, "dotted_order") or "").split("."):
        if place := _PLACE.match(step):
            day, time, fraction, run_id = place.groups()
            moment = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
            found.append((f"{moment}.{fraction or 0}Z", run_id))
    return found


def trace_of(record: dict[str, Json]) -> str | None:
    """Return the trace that a run names, else the first of its place."""
    way = places(record)
    return text_at(record, "trace_id") or (way[0][1] if way else None)


def parent_of(record: dict[str, Json]) -> str | None:
    """Return the parent as named, else the last of the ancestors, else by the place."""
    above, way = record.get("parent_run_ids"), places(record)
    named = text_at(record, "parent_run_id")
    if named is None and isinstance(above, list) and above and isinstance(above[-1], str):
        named = above[-1]
    return named or (way[-2][1] if len(way) > 1 else None)


def began(run_id: str, record: dict[str, Json]) -> int | None:
    """Return when a run began, in nanoseconds: as it says, by its place, or by an id with a time.

    A place is finer than a time that is told in milliseconds.
    """
    way = places(record)
    told = instant(record.get("start_time"))
    place = instant(way[-1][0]) if way else None
    if told is None and place is None:
        return _by_id(run_id)
    if told is None or (place is not None and 0 <= place.ns - told.ns < _MILLISECOND):
        return None if place is None else place.ns
    return told.ns


def ended(run_id: str, record: dict[str, Json]) -> int | None:
    """Return when a run ended, in nanoseconds; not before a beginning finer than it is told."""
    end, told = instant(record.get("end_time")), instant(record.get("start_time"))
    start = began(run_id, record)
    if end is None or told is None or start is None or end.ns < told.ns:
        return None if end is None else end.ns
    return max(end.ns, start)


def held_open(spans: Sequence[Span]) -> list[Span]:
    """Return spans, none ended before what is in it began within the same millisecond.

    A beginning that is finer than the end that it is compared with would look like a clock's fault.
    """
    first = {span.span_id: at for at, span in enumerate(spans)}
    found = list(spans)
    for span in spans:
        at = first.get(span.parent_id or "")
        end = None if at is None else found[at].end_ns
        if at is None or end is None or span.start_ns is None:
            continue
        if 0 < span.start_ns - end < _MILLISECOND and "langsmith.start_time" in span.attributes:
            about = found[at].attributes
            about.setdefault("langsmith.end_time", end)
            found[at] = msgspec.structs.replace(found[at], end_ns=span.start_ns)
    return found


def _by_id(run_id: str) -> int | None:
    try:
        own = UUID(run_id)
    except ValueError:
        return None
    return (own.int >> 80) * _MILLISECOND if own.version == _BY_TIME else None


def span_of(
    run_id: str, trace: str, record: dict[str, Json], extra: dict[str, Json] | None
) -> Span:
    """Return a run as a span."""
    failed, start, end = record.get("error"), began(run_id, record), ended(run_id, record)
    return Span(
        trace_id=trace,
        span_id=run_id,
        parent_id=parent_of(record),
        name=text_at(record, "name") or "",
        kind=(text_at(record, "run_type") or "").lower(),
        start_ns=start,
        end_ns=end,
        status=_status(record, ended=end is not None),
        status_message=None if failed is None else str(failed),
        attributes=_attributes(record, {"start_time": start, "end_time": end}),
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


def _attributes(record: dict[str, Json], times: dict[str, int | None]) -> dict[str, Json]:
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
    for key, taken in times.items():
        told = instant(record.get(key))
        if key in record and (told is None or told.ns != taken):
            kept[key] = record[key]
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
