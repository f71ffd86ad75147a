"""Read LangSmith's runs: lists and lines, nested runs, pages of its API, batches, bulk exports.

Runs of one trace are one trajectory, wherever they stand in the file. A run that is told of several
times (posted, then patched; listed twice) is one: what is said later counts, null says nothing, and
what was replaced is kept in the span's `replaced`. A parent, a trace or a beginning that a run does
not name is taken from its `dotted_order`. What has no field in a span becomes an attribute:
`langsmith.inputs`, `langsmith.metadata.KEY`, and so on. An agent at work within a tool's run is a
subagent: it is a run of its own, linked both ways; an agent that is a node of a graph speaks in the
graph's own run.

Bulk exports are Parquet, one run of a trace a row; fields that hold objects may be JSON text. Spans
of one trace that an export wrote to several files are one run a file: give the export days that
hold whole traces. Needs the extra `parquet`.
Format: langsmith 0.15.0, `schemas.py` (`Run`) and `types/run.py`; POST /runs/batch; langsmith-sdk,
`js/src/run_trees.ts`; the export script of langchain-ai/langchain-skills; LangSmith documentation,
Bulk export and Run data format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal
from uuid import UUID

import msgspec
from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats import files
from stepscope.formats.fields import entries_at, expect_object, parse_ns, parse_time, rest, text_at
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import FileFormat, decode_records, quarantine_record, quarantine_value
from stepscope.formats.opening import any_record
from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.attributes import find_text
from stepscope.formats.spans.dialects.langsmith import KIND, METADATA, is_agent_run
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus
from stepscope.formats.spans.tree import build_tree
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory, Warn
from stepscope.safety.json import Repair, decode
from stepscope.safety.limits import Limits

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


def parse_dotted_order(record: dict[str, Json]) -> list[tuple[str, str]]:
    """Return the way to a run from its root: when each began, and its id."""
    found: list[tuple[str, str]] = []
    for step in (text_at(record, "dotted_order") or "").split("."):
        if place := _PLACE.match(step):
            day, time, fraction, run_id = place.groups()
            moment = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}:{time[2:4]}:{time[4:]}"
            found.append((f"{moment}.{fraction or 0}Z", run_id))
    return found


def find_trace_id(record: dict[str, Json]) -> str | None:
    """Return the trace that a run names, else the first of its place."""
    way = parse_dotted_order(record)
    return text_at(record, "trace_id") or (way[0][1] if way else None)


def find_parent_id(record: dict[str, Json]) -> str | None:
    """Return the parent as named, else the last of the ancestors, else by the place."""
    above, way = record.get("parent_run_ids"), parse_dotted_order(record)
    named = text_at(record, "parent_run_id")
    if named is None and isinstance(above, list) and above and isinstance(above[-1], str):
        named = above[-1]
    return named or (way[-2][1] if len(way) > 1 else None)


def find_start_ns(run_id: str, record: dict[str, Json]) -> int | None:
    """Return when a run began, in ns: as told, finer by its place, or by an id with a time."""
    way = parse_dotted_order(record)
    told = parse_time(record.get("start_time"))
    place = parse_time(way[-1][0]) if way else None
    if told is None and place is None:
        try:
            own = UUID(run_id)
        except ValueError:
            return None
        return (own.int >> 80) * _MILLISECOND if own.version == _BY_TIME else None
    if told is None or (place is not None and 0 <= place.ns - told.ns < _MILLISECOND):
        return None if place is None else place.ns
    return told.ns


def find_end_ns(run_id: str, record: dict[str, Json]) -> int | None:
    """Return when a run ended, in nanoseconds; not before a beginning finer than it is told."""
    end, told = parse_time(record.get("end_time")), parse_time(record.get("start_time"))
    start = find_start_ns(run_id, record)
    if end is None or told is None or start is None or end.ns < told.ns:
        return None if end is None else end.ns
    return max(end.ns, start)


def extend_parents(spans: Sequence[RawSpan]) -> list[RawSpan]:
    """Return spans, none ended before what is in it began within the same, coarser millisecond."""
    first, found = {span.span_id: at for at, span in enumerate(spans)}, list(spans)
    for span in spans:
        at = first.get(span.parent_id or "")
        end = None if at is None else found[at].end_ns
        if at is None or end is None or span.start_ns is None:
            continue
        if 0 < span.start_ns - end < _MILLISECOND and "langsmith.start_time" in span.attributes:
            found[at].attributes.setdefault("langsmith.end_time", end)
            found[at] = replace(found[at], end_ns=span.start_ns)
    return found


def make_langsmith_span(
    run_id: str, trace: str, record: dict[str, Json], replaced: dict[str, Json] | None
) -> RawSpan:
    """Return a run as a span; `replaced` is what was told of it before and is no more true."""
    failed, beside = record.get("error"), record.get("extra")
    start, end = find_start_ns(run_id, record), find_end_ns(run_id, record)
    kind = (text_at(record, "run_type") or "").lower()
    found: dict[str, Json] = {KIND: kind}
    around = beside.get("metadata") if isinstance(beside, dict) else None
    for held in (around, record.get("metadata")):
        if isinstance(held, dict):
            found.update({f"{METADATA}{key}": value for key, value in held.items()})
        elif held is not None:
            found[METADATA.rstrip(".")] = held
    if isinstance(beside, dict):
        beside = rest(beside, frozenset({"metadata"}))
    kept = {key: record.get(key) for key in ("inputs", "outputs")}
    kept |= {"extra": beside, "child_runs": record.get("child_runs")}
    kept |= {key: record[key] for key in _TEXTS if not isinstance(record.get(key, ""), str)}
    for key, taken in {"start_time": start, "end_time": end}.items():
        if key in record and (taken is None or parse_ns(record[key]) != taken):
            kept[key] = record[key]
    kept |= rest(record, _OWN) or {}
    found.update({f"langsmith.{key}": held for key, held in kept.items() if held is not None})
    return RawSpan(
        trace_id=trace,
        span_id=run_id,
        parent_id=find_parent_id(record),
        name=text_at(record, "name") or "",
        kind=kind,
        start_ns=start,
        end_ns=end,
        status=_status(record, ended=end is not None),
        status_message=None if failed is None else str(failed),
        attributes=found,
        events=_events(record.get("events")),
        extra={"replaced": replaced} if replaced else None,
    )


def _status(record: dict[str, Json], *, ended: bool) -> SpanStatus:
    """Return error or ok as LangSmith itself concludes them: ended without an error is ok."""
    said = (text_at(record, "status") or "").lower()
    if (text_at(record, "error") or "").startswith(_PASSING):
        return "unset"
    if record.get("error") is not None or said == "error":
        return "error"
    return "ok" if ended and said in {"", "success"} else "unset"


def _events(listed: Json) -> tuple[SpanEvent, ...]:
    if not isinstance(listed, list):
        return () if listed is None else (SpanEvent(extra={"value": listed}),)
    found: list[SpanEvent] = []
    for event in listed:
        if not isinstance(event, dict):
            found.append(SpanEvent(extra={"value": event}))
            continue
        time, about = parse_time(event.get("time")), event.get("kwargs")
        odd = {} if time is not None or event.get("time") is None else {"time": event["time"]}
        if about is not None and not isinstance(about, dict):
            odd["kwargs"] = about
        made = SpanEvent(
            name=text_at(event, "name") or "",
            time_ns=None if time is None else time.ns,
            attributes=about if isinstance(about, dict) else {},
            extra={**(rest(event, _EVENT) or {}), **odd} or None,
        )
        found.append(made)
    return tuple(found)


RUN_TYPES = frozenset("llm chain tool retriever embedding prompt parser".split())
# What a run is a run by, where it names neither its trace nor its place in it.
_USUAL = frozenset({"id", "name", "start_time", "inputs"})
# Names in exports that LangSmith's own scripts write, and objects that they gather fields in.
_RENAMED = {"run_id": "id", "custom_metadata": "metadata"}
_GATHERED = ("token_usage", "costs")
_NO_RUN = "a LangSmith run is an object"


class LangSmithRuns:
    """Collects what a file tells of runs."""

    def __init__(self) -> None:
        self._told: dict[str, dict[str, Json]] = {}
        self._replaced: dict[str, dict[str, Json]] = {}
        self._again: dict[str, int] = {}

    def add(self, entry: Json, *, patch: bool = False) -> None:
        """Add a run with the runs that are nested in it; a patch adds to one told before."""
        waiting: list[tuple[dict[str, Json], str, str | None]] = []
        waiting.append((_usual(entry), _id(entry), None))
        trace = find_trace_id(waiting[0][0]) or waiting[0][1]
        for record, run_id, parent in waiting:  # grows while it is walked
            told = {key: held for key, held in record.items() if held is not None}
            if parent is not None:
                told = {"parent_run_id": parent, "trace_id": trace, **told}
            listed = told.pop("child_runs", [])
            odd: list[Json] = []
            for child in listed if isinstance(listed, list) else [listed]:
                try:
                    waiting.append((_usual(child), _id(child), run_id))
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
                metadata = [held for held in (old.get("metadata"), new.get("metadata")) if held]
                both = {**old, **new}
                if len(metadata) == 2 and all(isinstance(held, dict) for held in metadata):
                    both["metadata"] = {**metadata[0], **metadata[1]}
                new = both
            elif old and (not new or (key == "status" and str(new).lower() == "pending")):
                continue  # nothing is news that says less
            elif old not in (None, new) and old != [] and old != {}:
                lost[key] = old
            before[key] = new

    def traces(self) -> Iterator[tuple[list[RawSpan], list[tuple[str, Warn]]]]:
        """Yield the spans of every trace, in the order of their first runs, and their faults."""
        members: dict[str, list[str]] = {}
        # The trace of every run: its own, else that of the nearest ancestor that names one.
        told = self._told
        found: dict[str, str] = {}
        for own in told:
            way: list[str] = []
            at = own
            while at in told and at not in found:
                found[at] = own  # where a circle ends
                way.append(at)
                named, above = find_trace_id(told[at]), find_parent_id(told[at])
                if named is not None or above is None:
                    named = named or at
                    break
                at = above
            else:
                named = found.get(at, at)
            found.update(dict.fromkeys(way, named))
        for run_id, trace in found.items():
            members.setdefault(trace, []).append(run_id)
        for trace, ids in members.items():
            began = {x: find_start_ns(x, told[x]) or 0 for x in ids}
            ids.sort(key=lambda x: (began[x], text_at(told[x], "dotted_order") or ""))
            spans = [make_langsmith_span(x, trace, told[x], self._replaced.get(x)) for x in ids]
            yield extend_parents(spans), list(self._faults(ids))

    def _faults(self, ids: list[str]) -> Iterator[tuple[str, Warn]]:
        if len(ids) > 1 and all(find_start_ns(own, self._told[own]) is None for own in ids):
            reason = "no run says when it began: steps stand in the order of kinds, not of time"
            yield ids[0], Warn("runs_without_times", reason)
        for run_id in ids:
            if run_id in self._again:
                reason = f"run {run_id!r} is listed {self._again[run_id] + 1} times"
                yield run_id, Warn("duplicate_run_id", f"{reason}; what is said last counts")
            record = self._told[run_id]
            status = (text_at(record, "status") or "").lower()
            told = "start_time" not in record or "end_time" in record or "error" in record
            if status == "pending" or not (status or told):
                reason = f"run {run_id!r} has no end: it was still pending"
                yield run_id, Warn("run_without_end", reason)


def is_langsmith_run(record: Json) -> bool:
    """Say whether a record is a run of LangSmith: by its type, and by a place in a trace."""
    if not isinstance(record, dict):
        return False
    kind = record.get("run_type")
    if not isinstance(kind, str) or kind.lower() not in RUN_TYPES:
        return False
    return "dotted_order" in record or "trace_id" in record or _USUAL <= record.keys()


def _id(record: Json) -> str:
    """Return the id of a run, else the last of its place."""
    about = expect_object(record, _NO_RUN)
    way = parse_dotted_order(about)
    run_id = text_at(about, "id") or text_at(about, "run_id") or (way[-1][1] if way else None)
    if run_id is None:
        raise TraceError(f"a LangSmith run needs an `id`; found {str(record)[:60]!r}")
    return run_id


def _usual(entry: Json) -> dict[str, Json]:
    """Return a run as the API tells it; scripts that export runs name some fields anew."""
    record = expect_object(entry, _NO_RUN)
    if "id" in record or "run_id" not in record:
        return record
    found = {key: held for key, held in record.items() if key not in _RENAMED}
    for key in _GATHERED:
        held = found.get(key)
        if isinstance(held, dict) and not held.keys() & found.keys():
            found.update(found.pop(key))
    return {**found, **{new: record[old] for old, new in _RENAMED.items() if old in record}}


# What LangGraph calls a graph that nobody named.
_UNNAMED = "LangGraph"


def split_subagents(
    spans: list[RawSpan],
    faults: list[tuple[str, Warn]],
    read_group: Callable[..., Iterator[Trajectory]],
    *,
    extra: Mapping[str, Json] | None,
    repairs: Iterable[Repair],
) -> Iterator[Trajectory]:
    """Yield the run of a trace, then those of its subagents, each after the one that it is of."""
    groups, above = _groups(spans)
    heads = {group[0].span_id: group[0].parent_id for group in groups[1:]}
    runs: list[Trajectory] = []
    for group, parent in zip(groups, above, strict=True):
        if parent is not None:
            name = group[0].span_id
            group = [replace(span, trace_id=name) for span in group]
            group[0] = replace(group[0], parent_id=None)
        whole = {"extra": extra, "repairs": repairs} if parent is None else {}
        (run,) = read_group(group, **whole)
        nodes = [replace(x, parent=heads[x.id]) if x.id in heads else x for x in run.spans]
        # The example that a run was made for, where it was an experiment's.
        task = find_text(group[0].attributes, "langsmith.reference_example_id")
        above_id = None if parent is None else runs[parent].id
        runs.append(replace(run, task=task, parent=above_id, spans=tuple(nodes)))
    for number, run in enumerate(runs):
        children = [child.id for child, parent in zip(runs, above, strict=True) if parent == number]
        here = {node.id for node in run.spans}
        # What a model was given stands before what it said.
        last = {step.span: step.index for step in run.steps}
        warned = [replace(warn, step=last.get(run_id)) for run_id, warn in faults if run_id in here]
        yield replace(run, children=tuple(children), warnings=(*run.warnings, *warned))


def _groups(spans: list[RawSpan]) -> tuple[list[list[RawSpan]], list[int | None]]:
    """Return the spans of each run, the trace's own first, and which run each of them is below."""
    tree = build_tree(spans)
    inside: list[Literal["tool", "agent"] | None] = [None] * len(spans)
    member = [0] * len(spans)
    above: list[int | None] = [None]
    for at in tree.order:
        parent, span = tree.parents[at], spans[at]
        if parent is not None:
            inside[at], member[at] = inside[parent], member[parent]
        agent = span.kind == "chain" and (is_agent_run(span) or span.name == _UNNAMED)
        if agent and inside[at] == "tool":
            above.append(member[at])
            member[at] = len(above) - 1
        inside[at] = "agent" if agent else "tool" if span.kind == "tool" else inside[at]
    if len(above) == 1:
        return [spans], above
    groups: list[list[RawSpan]] = [[] for _ in above]
    for at in tree.order:
        groups[member[at]].append(spans[at])
    return groups, above


NAME = "langsmith"
# Keys under which the API and the client's pages hold their runs.
_PAGES = ("runs", "items")
_BATCH = frozenset({"post", "patch"})


def _is_like(record: Json) -> bool:
    firsts = [held[0] for key in (*_PAGES, *_BATCH) if (held := entries_at(record, key))]
    return is_langsmith_run(record) or any(
        is_langsmith_run(one)
        or (isinstance(one, dict) and {"dotted_order", "trace_id"} <= one.keys())
        for one in firsts
    )


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    runs, beside, repairs = LangSmithRuns(), dict[str, Json](), list[Repair]()
    first: int | None = None
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        entries, more = _entries(record.value)
        beside.update(more or {})
        repairs.extend(record.repairs)
        for entry, patch in entries:
            try:
                runs.add(entry, patch=patch)
            except (TraceError, msgspec.ValidationError) as e:
                raw = record.raw if len(entries) == 1 else msgspec.json.encode(entry)
                yield quarantine_record(record._replace(raw=raw), e)
            else:
                first = record.offset if first is None else first
    source = Source(format=NAME, uri=stream.uri, offset=first)
    yield from emit_traces(
        runs, source=source, limits=stream.limits, extra=beside or None, repairs=tuple(repairs)
    )


def emit_traces(
    runs: LangSmithRuns,
    *,
    source: Source,
    limits: Limits,
    extra: dict[str, Json] | None = None,
    repairs: tuple[Repair, ...] = (),
) -> Iterator[Trajectory | Quarantined]:
    """Yield what was gathered, trace by trace; one that makes no run is quarantined whole."""
    read_group = partial(assemble, source=source, ordinals=Ordinals(), limits=limits)
    for spans, faults in runs.traces():
        try:
            yield from split_subagents(spans, faults, read_group, extra=extra, repairs=repairs)
        except TraceError as e:
            yield quarantine_value(source, spans, e)


def _entries(value: Json) -> tuple[list[tuple[Json, bool]], dict[str, Json] | None]:
    """Return what a record tells of runs, each with whether it adds to one, and what is beside."""
    if isinstance(value, dict) and not is_langsmith_run(value):
        for key in _PAGES:
            if isinstance(value.get(key), list):
                return [(entry, False) for entry in value[key]], rest(value, frozenset({key}))
        if value and value.keys() <= _BATCH and all(isinstance(v, list) for v in value.values()):
            posted = [(entry, False) for entry in value.get("post", [])]
            return [*posted, *[(entry, True) for entry in value.get("patch", [])]], None
    return [(entry, False) for entry in (value if isinstance(value, list) else [value])], None


FORMAT = FileFormat(NAME, any_record(_is_like, 0.95), _read)

PARQUET_NAME = "langsmith_parquet"
# Columns that no other table is likely to have together.
_COLUMNS = (b"run_type", b"trace_id", b"dotted_order", b"inputs")
_NEEDED = frozenset({"id", "run_type"})
# Fields that are objects or lists, and may be written as JSON text.
_OBJECTS = frozenset(
    "inputs outputs extra metadata events feedback_stats tags serialized manifest attachments "
    "child_run_ids parent_run_ids prompt_token_details completion_token_details "
    "prompt_cost_details completion_cost_details".split()
)
# Rows decoded at a time; a row may hold whole conversations.
_BATCH_ROWS = 256


def _parquet_likeness(head: bytes) -> float:
    told = files.parquet_footer(head)
    return 1.0 if all(name in told for name in _COLUMNS) else 0.0


def _read_parquet(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    runs, repairs = LangSmithRuns(), list[Repair]()
    with files.open_parquet(stream) as file:
        if not set(file.schema_arrow.names) >= _NEEDED:
            raise TraceError(f"{stream.uri}: Parquet without the columns `id` and `run_type`")
        files.check_parquet_sizes(file, stream)
        number = 0
        for batch in files.read_batches(file, stream, _BATCH_ROWS):
            # Times become text in pyarrow, which keeps nanoseconds.
            pa = files.pyarrow_module("pyarrow")
            columns = [
                column.cast(pa.string()) if pa.types.is_timestamp(column.type) else column
                for column in batch.columns
            ]
            for row in pa.RecordBatch.from_arrays(columns, names=batch.schema.names).to_pylist():
                record: dict[str, Json] = {}
                try:
                    told = {key: held for key, held in row.items() if held is not None}
                    record = msgspec.to_builtins(told, enc_hook=str)
                    for key in _OBJECTS & record.keys():
                        record[key] = _decoded(record[key], stream.limits, repairs)
                    runs.add(record)
                except TraceError as e:
                    raw = msgspec.json.encode(record)
                    yield Quarantined(reason=str(e), offset=number, raw=raw, uri=stream.uri)
                number += 1
    source = Source(format=PARQUET_NAME, uri=stream.uri, offset=0)
    yield from emit_traces(runs, source=source, limits=stream.limits, repairs=tuple(repairs))


def _decoded(held: Json, limits: Limits, repairs: list[Repair]) -> Json:
    if not isinstance(held, str) or held[:1] not in {"{", "["}:
        return held
    try:
        value, repaired = decode(held.encode(), limits=limits)
    except (TraceError, UnicodeEncodeError):
        return held
    repairs.extend(repaired)
    return value


PARQUET_FORMAT = FileFormat(PARQUET_NAME, lambda _: 0.0, _read_parquet, _parquet_likeness)
