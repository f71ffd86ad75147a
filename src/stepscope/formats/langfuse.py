"""Read Langfuse exports: traces with observations and scores, pages of its API, single records.

A file is an export of a trace (bare, or `trace` beside `observations`), what the API answers
(`data`, `meta`), a list of observations, traces and scores, or lines of them. Observations of one
trace are one run, wherever they stand. A trace that comes without observations is read by its own
input and output. A score whose trace is nowhere in the file is set aside.
Source: langfuse 5.0.4, and real exports of ten frameworks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, text_at
from stepscope.formats.langfuse_records import Entry, Record, entries, is_export, joined
from stepscope.formats.langfuse_scores import scored
from stepscope.formats.langfuse_spans import span_of
from stepscope.formats.opening import Opening
from stepscope.formats.plain import PlainFormat, found, quarantine
from stepscope.formats.spans.assembling import assemble
from stepscope.formats.spans.span import Span
from stepscope.formats.times import instant
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory, Warn
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

_NAME = "langfuse"
_LIMITS = Limits()
# What a trace says that a run has a tag for.
_TAGS = {
    "sessionId": "session",
    "userId": "user",
    "environment": "environment",
    "release": "release",
    "version": "version",
}
_NAMED = frozenset({"id", "name", *_TAGS})


def _likeness(seen: Opening) -> float:
    return 0.97 if any(is_export(record) for record in seen.records) else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    gathered = Gathered(Source(format=_NAME, uri=stream.uri), stream.limits)
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        gathered.repairs.extend(record.repairs)
        try:
            for entry in entries(record.value):
                if (aside := gathered.add(entry, record.offset)) is not None:
                    yield aside
        except TraceError as e:
            yield quarantine(record, e)
    yield from gathered.runs()


def runs_of(
    values: Iterable[Json], *, source: Source, limits: Limits = _LIMITS
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs that decoded answers of the API hold, whatever they are of, in any order.

    Args:
        values: traces with or without their observations, pages, single observations and scores.
        source: where they came from; `run_id` becomes the trace's id.
        limits: of what is decoded within observations.
    """
    gathered = Gathered(source, limits)
    for value in values:
        try:
            for entry in entries(value):
                if (aside := gathered.add(entry, 0)) is not None:
                    yield aside
        except TraceError as e:
            yield Quarantined(
                reason=str(e), offset=0, raw=msgspec.json.encode(value), uri=source.uri
            )
    yield from gathered.runs()


class Gathered:
    """Collects the records of one file; `runs` makes of them what they are, once all are there."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self.repairs: list[Repair] = []
        self._source = source
        self._limits = limits
        self._traces: dict[str, Record] = {}
        self._seen: dict[str, dict[str, Record]] = {}
        self._scores: list[tuple[Record, int]] = []
        self._known: dict[str, int] = {}
        self._faults: dict[str, list[Warn]] = {}
        self._offset: dict[str, int] = {}

    def add(self, entry: Entry, offset: int) -> Quarantined | None:
        """Take a record in; one that has no ids comes back, to be set aside."""
        record = entry.record
        if entry.kind == "score":
            own = text_at(record, "id") or ""
            at = self._known.setdefault(own, len(self._scores)) if own else len(self._scores)
            if at < len(self._scores):
                record = joined(self._scores[at][0], record)[0]
            self._scores[at : at + 1] = [(record, offset)]
            return None
        trace = text_at(record, "id" if entry.kind == "trace" else "traceId")
        name = text_at(record, "id")
        if not trace or not name:
            reason = f"{entry.kind} without ids of its trace and itself"
            return self._aside(reason, record, offset)
        self._offset.setdefault(trace, offset)
        members = self._traces if entry.kind == "trace" else self._seen.setdefault(trace, {})
        if name in members:
            record, differ = joined(members[name], record)
            if differ and entry.kind == "observation":
                reason = f"observation {name!r} comes twice; where they differ, the later one holds"
                self._faults.setdefault(trace, []).append(Warn("duplicate_span_id", reason))
        members[name] = record
        return None

    def runs(self) -> Iterator[Trajectory | Quarantined]:
        """Yield a run a trace, in the order in which traces were first named."""
        of_trace, of_session = self._sorted_scores()
        sessions: set[str] = set()
        ordinals = Ordinals()
        for trace, offset in self._offset.items():
            about = self._traces.get(trace, {})
            try:
                run = self._run(trace, about, ordinals, offset)
            except TraceError as e:
                held = {**about, "observations": list(self._seen.get(trace, {}).values())}
                yield self._aside(str(e), held, offset)
                continue
            scores = of_trace.pop(trace, [])
            session = run.tags.get("session")
            if session is not None:
                sessions.add(session)
                scores = [*scores, *of_session.get(session, [])]
            yield scored(run, [record for record, _ in scores])
        left = [entry for listed in of_trace.values() for entry in listed]
        left += [entry for key, held in of_session.items() if key not in sessions for entry in held]
        for record, offset in left:
            reason = f"score {record.get('name')!r:.60} is of a trace that is not in the file"
            yield self._aside(reason, record, offset)

    def _sorted_scores(
        self,
    ) -> tuple[dict[str, list[tuple[Record, int]]], dict[str, list[tuple[Record, int]]]]:
        of_trace: dict[str, list[tuple[Record, int]]] = {}
        of_session: dict[str, list[tuple[Record, int]]] = {}
        for record, offset in self._scores:
            trace, session = text_at(record, "traceId"), text_at(record, "sessionId")
            held, key = (of_session, session) if trace is None and session else (of_trace, trace)
            held.setdefault(key or "", []).append((record, offset))
        return of_trace, of_session

    def _run(self, trace: str, about: Record, ordinals: Ordinals, offset: int) -> Trajectory:
        held = list(self._seen.get(trace, {}).values())
        spans = [span_of(record, self._limits) for record in held]
        (run,) = assemble(
            spans or [_trace_span(trace, about, self._limits)],
            source=msgspec.structs.replace(self._source, offset=offset),
            ordinals=ordinals,
            limits=self._limits,
            extra=_beside(about),
            repairs=self.repairs,
        )
        warnings = [*run.warnings, *self._faults.get(trace, [])]
        if not spans:
            named = about.get("observations")
            count = len(named) if isinstance(named, list) else 0
            reason = f"none of its observations is in the file ({count} are named)"
            warnings.append(Warn("observations_absent", reason))
        return msgspec.structs.replace(
            run,
            workflow=_first(held, about, "name", "traceName") or run.workflow,
            tags={**run.tags, **_tags(about, held)},
            warnings=tuple(warnings),
        )

    def _aside(self, reason: str, record: Json, offset: int) -> Quarantined:
        raw = msgspec.json.encode(record)
        return Quarantined(reason=reason, offset=offset, raw=raw, uri=self._source.uri)


def _trace_span(trace: str, about: Record, limits: Limits) -> Span:
    """Return a trace itself as the one span that is known of it."""
    begin, latency = instant(about.get("timestamp")), about.get("latency")
    span = span_of({**about, "id": trace, "traceId": trace, "type": "SPAN"}, limits)
    start = None if begin is None else begin.ns
    end = None
    if start is not None and isinstance(latency, int | float) and not isinstance(latency, bool):
        end = start + round(latency * 1_000_000_000)
    return msgspec.structs.replace(span, start_ns=start, end_ns=end, extra=None)


def _beside(about: Record) -> dict[str, Json] | None:
    """Return what a trace says that its run has no field for, as `trace`."""
    told = {key: held for key, held in about.items() if key not in _NAMED and held is not None}
    return {"trace": told} if told else None


def _first(held: list[Record], about: Record, own: str, named: str) -> str | None:
    """Return what the trace says of itself, else what an observation says of it."""
    told = [text_at(about, own), *[text_at(record, named) for record in held]]
    return next((text for text in told if text), None)


def _tags(about: Record, held: list[Record]) -> dict[str, str]:
    found = {name: _first(held, about, key, key) for key, name in _TAGS.items()}
    listed = about.get("tags") or next((r["tags"] for r in held if r.get("tags")), None)
    if isinstance(listed, list):
        texts = [str(tag) for tag in listed]
        found["tags"] = ",".join(texts) or None
    return {name: text for name, text in found.items() if text is not None}


FORMAT = PlainFormat(_NAME, _likeness, _read)
