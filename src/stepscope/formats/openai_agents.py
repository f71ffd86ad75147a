"""Read what the OpenAI Agents SDK exports: traces and their spans, and run states to be resumed.

A file is a list of exports, one a line, a request as sent to the API (`data`), or traces with their
spans in them; spans of one trace are one run. A span of a response has no messages, which stay with
the API: its step says when and at what cost, and a warning that they are missing. A serialised run
state is one run, its items in order.
Format: openai-agents 0.24.0, `tracing/traces.py`, `tracing/spans.py`, `run_state.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat, attempt, found
from stepscope.formats.run_state import is_state, run_of_state
from stepscope.formats.spans import Span, assemble
from stepscope.formats.spans.assembling import by_trace
from stepscope.formats.spans.openai_agents import PREFIX
from stepscope.formats.times import instant
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory, Warn
from stepscope.safety.door import Repair

NAME = "openai_agents"
_SPAN = frozenset("object id trace_id parent_id started_at ended_at span_data error".split())
_TRACE = frozenset({"object", "id", "workflow_name"})
# Spans whose failure is the run's; a tool's or a model's may be got over.
_FRAMES = frozenset({"agent", "custom"})
# Where users' processors put what the SDK leaves out of a response's span.
_BODIES = frozenset({f"{PREFIX}input", f"{PREFIX}response", f"{PREFIX}output"})


def _likeness(seen: Opening) -> float:
    return 0.95 if any(_is_export(record) for record in seen.records) else 0.0


def _is_export(record: Json) -> bool:
    if not isinstance(record, dict):
        return False
    if record.get("object") == "trace.span" or is_state(record):
        return True
    if record.get("object") == "trace":
        return "workflow_name" in record or isinstance(record.get("spans"), list)
    listed = record.get("data")
    first = listed[0] if isinstance(listed, list) and listed else None
    return isinstance(first, dict) and first.get("object") in ("trace", "trace.span")


@dataclass(slots=True)
class _Seen:
    """What a file holds: its spans, and its traces by id."""

    spans: list[Span] = field(default_factory=list)
    traces: dict[str, dict[str, Json]] = field(default_factory=dict)
    repairs: list[Repair] = field(default_factory=list)
    beside: dict[str, Json] = field(default_factory=dict)
    first: int | None = None

    def take(self, record: Json) -> None:
        """Take one export.

        Raises:
            TraceError: it is neither a trace nor a span.
        """
        if isinstance(record, dict) and record.get("object") == "trace":
            trace_id = text_at(record, "id")
            if trace_id is None:
                raise TraceError(f"a trace needs text under `id`; found {record.get('id')!r:.60}")
            self.traces[trace_id] = {**self.traces.get(trace_id, {}), **record}
        else:
            self.spans.append(span_of(record))


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    seen, ordinals = _Seen(), Ordinals()
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        if isinstance(record.value, dict) and is_state(record.value):
            yield from attempt(record, lambda one: (run_of_state(one, NAME, ordinals),))
            continue
        seen.repairs.extend(record.repairs)
        for entry in _members(record.value, seen):
            try:
                seen.take(entry)
            except TraceError as e:
                yield _aside(record, entry, str(e))
            else:
                seen.first = record.offset if seen.first is None else seen.first
    yield from _runs(seen, stream, ordinals)


def _members(value: Json, seen: _Seen) -> Iterable[Json]:
    """Return the exports that a record holds: a request's, a trace's own, or itself."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and "object" not in value and isinstance(value.get("data"), list):
        seen.beside.update(rest(value, frozenset({"data"})) or {})
        return list(value["data"])
    inner = value.get("spans") if isinstance(value, dict) else None
    if isinstance(value, dict) and value.get("object") == "trace" and isinstance(inner, list):
        return [{key: held for key, held in value.items() if key != "spans"}, *inner]
    return [value]


def _aside(record: Found, entry: Json, reason: str) -> Quarantined:
    raw = record.raw if entry is record.value else msgspec.json.encode(entry)
    return Quarantined(reason=reason, offset=record.offset, raw=raw, uri=record.uri)


def span_of(record: Json) -> Span:
    """Return one exported span.

    Raises:
        TraceError: it lacks its own id, its trace's, or its data.
    """
    about = record.get("span_data") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(about, dict):
        raise TraceError(f"a span needs an object under `span_data`; found {str(record)[:60]!r}")
    own, trace = text_at(record, "id"), text_at(record, "trace_id")
    if own is None or trace is None:
        raise TraceError(f"a span needs text under `id` and `trace_id`; found {str(record)[:60]!r}")
    start, end = instant(record.get("started_at")), instant(record.get("ended_at"))
    failure = record.get("error")
    extra = rest(record, _SPAN) or {}
    if failure is not None:
        extra["error"] = failure
    # Spans have their times as numbers; here is the text that they were.
    extra.update({k: record[k] for k in ("started_at", "ended_at") if record.get(k) is not None})
    kind = text_at(about, "type") or ""
    ended = "error" in record and end is not None
    return Span(
        trace_id=trace,
        span_id=own,
        parent_id=text_at(record, "parent_id"),
        name=text_at(about, "name") or kind,
        kind=kind,
        start_ns=None if start is None else start.ns,
        end_ns=None if end is None else end.ns,
        status="error" if failure is not None else "ok" if ended else "unset",
        status_message=_failure(failure),
        attributes={f"{PREFIX}{key}": value for key, value in about.items() if value is not None},
        extra=extra or None,
    )


def _failure(failure: Json) -> str | None:
    """Return what an error says: its message, and the most telling of its data."""
    match failure:
        case None:
            return None
        case {"message": str(message), "data": {"error": str(more)}}:
            return f"{message}: {more}"
        case {"message": str(message), "data": {"guardrail": str(more)}}:
            return f"{message}: {more}"
        case {"message": str(message)}:
            return message
    return str(failure)[:200]


def _runs(seen: _Seen, stream: Stream, ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    source = Source(format=NAME, uri=stream.uri, offset=seen.first)
    traces = by_trace(seen.spans)
    for trace_id in [*traces, *[named for named in seen.traces if named not in traces]]:
        spans, about = traces.get(trace_id, []), seen.traces.get(trace_id, {})
        extra = {**seen.beside, **(rest(about, _TRACE) or {})} or None
        try:
            if spans:
                (run,) = assemble(
                    spans,
                    source=source,
                    ordinals=ordinals,
                    limits=stream.limits,
                    extra=extra,
                    repairs=seen.repairs,
                )
            else:
                run = finish(_empty(trace_id, source, extra), ordinals, limits=stream.limits)
        except TraceError as e:
            raw = msgspec.json.encode([about, *spans])
            yield Quarantined(reason=str(e), offset=source.offset or 0, raw=raw, uri=source.uri)
        else:
            yield _named(run, spans, about)


def _empty(trace_id: str, source: Source, extra: dict[str, Json] | None) -> Trajectory:
    return Trajectory(
        id="",
        name=trace_id,
        steps=(),
        source=msgspec.structs.replace(source, run_id=trace_id),
        warnings=(Warn("no_agent_span", "a trace without spans"),),
        extra=extra,
    )


def _named(run: Trajectory, spans: list[Span], about: dict[str, Json]) -> Trajectory:
    """Return a run with what its trace says of it, how it ended, and what it lacks."""
    group = text_at(about, "group_id")
    bodiless = {
        span.span_id
        for span in spans
        if span.kind == "response" and not span.attributes.keys() & _BODIES
    }
    missing = [
        Warn("response_without_body", f"response {step.id!r} came without its messages", step.index)
        for step in run.steps
        if step.span in bodiless and not step.calls and not step.results and not step.parts
    ]
    return msgspec.structs.replace(
        run,
        workflow=text_at(about, "workflow_name") or run.workflow or NAME,
        agent=run.agent or next((span.name for span in spans if span.kind == "agent"), None),
        tags=run.tags if group is None else {**run.tags, "session": group},
        termination=run.termination or _ending(spans),
        warnings=(*run.warnings, *missing),
    )


def _ending(spans: list[Span]) -> str | None:
    """Return the failure of the outermost frame that failed, None where none did."""
    frames = _outer_frames(spans)
    failed = [span for span in spans if span.status == "error" and span.span_id in frames]
    first = min(failed, key=lambda span: span.start_ns or 0, default=None)
    return None if first is None else first.status_message or "error"


def _outer_frames(spans: list[Span]) -> set[str]:
    """Return the ids of spans with nothing but frames around them, themselves frames."""
    inner: dict[str | None, list[str]] = {}
    known = {span.span_id for span in spans}
    for span in spans:
        if span.kind in _FRAMES:
            above = span.parent_id if span.parent_id in known else None
            inner.setdefault(above, []).append(span.span_id)
    reached = list(inner.get(None, ()))
    for own in reached:  # grows while it is walked
        reached.extend(inner.pop(own, ()))
    return set(reached)


FORMAT = PlainFormat(NAME, _likeness, _read)
