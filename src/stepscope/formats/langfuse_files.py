"""Read Langfuse exports: traces with observations and scores, pages of its API, single records.

A file is an export of a trace (bare, or `trace` beside `observations`), what the API answers
(`data`, `meta`), a list of observations, traces and scores, or lines of them. Observations of one
trace are one run, wherever they stand. A trace that comes without observations is read by its own
input and output. A score whose trace is nowhere in the file is set aside. Keys are read in the
API's spelling and in that of tables and of the Python SDK (`trace_id`). Of two forms of one record,
what either says is kept, and the later one holds where they differ.

Attributes that an observation was sent with stand in its metadata and are attributes again. What
only the API says (project, prices, times of storing) stays in the span's `extra`. A score of a
trace is of the whole run, one of an observation is at the step that it made; one of a session is at
every run of the session. A score of source EVAL is a model's opinion: a label, no outcome.
Source: langfuse 5.0.4, `api/resources`, `_client/attributes.py`, the API's `ObservationV2`, and
real exports of ten frameworks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats.fields import entries_at, expect_object, object_at, parse_ns, rest, text_at
from stepscope.formats.finish import Opinion, OpinionSource, Ordinals, add_opinions, first_steps
from stepscope.formats.format import FileFormat, decode_records, quarantine_record, quarantine_value
from stepscope.formats.opening import any_record
from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.attributes import decode_object, label_evaluation
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json, Quarantined, Source, Stream, TraceLabel, Trajectory, Warn
from stepscope.safety.json import Repair
from stepscope.safety.limits import DEFAULT_LIMITS, Limits

Kind = Literal["trace", "observation", "score"]
Record = dict[str, Json]

TYPES = frozenset(
    "GENERATION SPAN EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split()
)
# Spellings with an underscore of the keys that are read; the others stay as they are.
_SPELLINGS = {
    "".join(["_" + sign.lower() if sign.isupper() else sign for sign in name]): name
    for name in (
        "traceId parentObservationId observationId startTime endTime completionStartTime projectId "
        "statusMessage modelParameters providedModelName usageDetails costDetails totalCost "
        "calculatedTotalCost sessionId userId traceName promptName promptVersion dataType "
        "stringValue longStringValue authorUserId toolDefinitions promptTokens completionTokens "
        "totalTokens createdAt updatedAt isRootObservation"
    ).split()
}
_EMPTY: tuple[Json, ...] = (None, "", "{}", "[]", {}, [])


def is_langfuse(value: Json) -> bool:
    """Say whether a value looks like anything of Langfuse, by its keys."""
    if not isinstance(value, dict):
        return False
    listed = value.get("data")
    if isinstance(listed, list) and listed and "meta" in value:
        return is_langfuse(listed[0])
    inner = value.get("trace")
    if isinstance(inner, dict) and isinstance(value.get("observations"), list):
        return "id" in inner
    kind = _kind(respell_keys(value))
    if kind != "trace":
        return kind is not None
    if listed := entries_at(value, "observations"):
        return isinstance(listed[0], str) or _kind(respell_keys(listed[0])) == "observation"
    named = ("sessionId", "session_id", "htmlPath", "projectId", "project_id")
    return {"timestamp", "tags"} <= value.keys() and any(key in value for key in named)


def iter_entries(value: Json) -> Iterator[tuple[Kind, Record]]:
    """Yield the records of one value, a trace before what it holds; what is none is refused."""
    value = expect_object(value, "an export needs traces, observations or scores as objects")
    page = value.get("data")
    if isinstance(page, list) and "id" not in value:
        for entry in page:
            yield from iter_entries(entry)
        return
    inner = value.get("trace")
    if isinstance(inner, dict) and not isinstance(value.get("traceId"), str):
        found = {key: held for key, held in value.items() if key != "trace"}
        # Lists of both places are joined, those of the trace first.
        for key in ("observations", "scores"):
            held, more = inner.get(key), found.get(key)
            if isinstance(held, list) and isinstance(more, list):
                found[key] = [*held, *more]
        yield from _trace(respell_keys({**inner, **found}))
        return
    record = respell_keys(value)
    kind = _kind(record)
    if kind is None:
        raise TraceError(
            "a record needs what makes it a trace (`id` and `observations` or `timestamp`), an "
            "observation (`id`, `traceId`, `type`) or a score (`name`, `value`); "
            f"found the keys {sorted(record)[:6]}"
        )
    yield from _trace(record) if kind == "trace" else ((kind, record),)


def _trace(record: Record) -> Iterator[tuple[Kind, Record]]:
    listed = {key: record.get(key) for key in ("observations", "scores")}
    about = {key: held for key, held in record.items() if key not in listed}
    for key, held in listed.items():
        ids = isinstance(held, list)
        named = [entry for entry in held or () if isinstance(entry, str)] if ids else held
        if named:
            about[key] = named  # ids, as a list of traces gives them, or no list at all
    if text_at(about, "id") is None:
        raise TraceError(f"a trace needs an id; found the keys {sorted(record)[:6]}")
    yield "trace", about
    kinds: dict[str, Kind] = {"observations": "observation", "scores": "score"}
    for key, kind in kinds.items():
        held = listed[key]
        for entry in held if isinstance(held, list) else ():
            if isinstance(entry, dict):
                yield kind, {"traceId": about["id"], **respell_keys(entry)}
            elif not isinstance(entry, str):
                raise TraceError(f"a trace's `{key}` needs objects; found {str(entry)[:60]!r}")


def _kind(record: Record) -> Kind | None:
    if "traceId" in record or "observationId" in record or "sessionId" in record:
        kind = record.get("type")
        if isinstance(kind, str) and kind.upper() in TYPES and "id" in record:
            return "observation"
        if "value" in record and "name" in record and "observations" not in record:
            return "score"
    if "id" in record and "traceId" not in record:
        if isinstance(record.get("observations"), list) or "timestamp" in record:
            return "trace"
    return None


def respell_keys(record: Json) -> Record:
    """Return a record with the keys that are read in the API's spelling."""
    if not isinstance(record, dict):
        return {}
    if not record.keys() & _SPELLINGS.keys():
        return record
    return {_SPELLINGS.get(key) or key: held for key, held in record.items()}


def merge_records(older: Record, newer: Record) -> tuple[Record, bool]:
    """Return what two forms of one record say, older words under `earlier`, and if they differ."""
    told = {key: held for key, held in newer.items() if held not in _EMPTY}
    against = {k: held for k, held in older.items() if k in told and held not in (*_EMPTY, told[k])}
    kept = {key: held for key, held in older.items() if held not in _EMPTY or key not in newer}
    found = {**newer, **kept, **told}
    if against:
        before = older.get("earlier")
        found["earlier"] = {**(before if isinstance(before, dict) else {}), **against}
    return found, bool(against)


_WHO: dict[str, OpinionSource] = {"ANNOTATION": "person", "API": "code", "EVAL": "model"}
_ANNOTATORS = {"ANNOTATION": "HUMAN", "EVAL": "LLM"}
_SCORE_KEYS = frozenset("name value stringValue comment traceId observationId".split())


def add_scores(run: Trajectory, scores: Sequence[Record]) -> Trajectory:
    """Return a run with what scores say of it."""
    if not scores:
        return run
    first = first_steps(run)
    opinions: list[Opinion] = []
    for score in scores:
        if text_at(score, "observationId") is None and text_at(score, "traceId") is not None:
            who = _WHO.get(text_at(score, "source") or "API", "model")
            name, reason = text_at(score, "name") or "", text_at(score, "comment") or ""
            opinions.append(Opinion(name, _value(score), who, reason))
    return add_opinions(run, [_label(score, first) for score in scores], opinions)


def _label(score: Record, first: dict[str, int]) -> TraceLabel:
    source = text_at(score, "source")
    own = text_at(score, "observationId")
    value = _value(score)
    about: dict[str, Json] = {"name": score.get("name"), "explanation": score.get("comment")}
    about["label" if isinstance(value, str) else "score"] = value
    if source is not None:
        about["annotator_kind"] = _ANNOTATORS.get(source, source)
    about = {key: held for key, held in about.items() if held is not None}
    more = rest(score, _SCORE_KEYS) or {}
    if own is not None and own not in first:
        more["observation"] = own
    elif own is None:
        more["of"] = "trace" if score.get("traceId") else "session"
    return replace(label_evaluation(about, more), step=first.get(own) if own else None)


def _value(score: Record) -> Json:
    """Return what a score says: of a category its name, of a yes or no a truth value."""
    said, value = score.get("stringValue"), score.get("value")
    if score.get("dataType") == "BOOLEAN" and value in (0, 1):
        return bool(value)
    return said if isinstance(said, str) and said else value


_OWN = "langfuse.observation."
# Fields of an observation as attributes of its span.
_ATTRIBUTES = {
    "type": f"{_OWN}type",
    "level": f"{_OWN}level",
    "statusMessage": f"{_OWN}status_message",
    "input": f"{_OWN}input",
    "output": f"{_OWN}output",
    "model": f"{_OWN}model.name",
    "modelParameters": f"{_OWN}model.parameters",
    "usageDetails": f"{_OWN}usage_details",
    "costDetails": f"{_OWN}cost_details",
    "completionStartTime": f"{_OWN}completion_start_time",
    "promptName": f"{_OWN}prompt.name",
    "promptVersion": f"{_OWN}prompt.version",
    "toolDefinitions": f"{_OWN}tool_definitions",
    "sessionId": "session.id",
    "userId": "user.id",
    "traceName": "langfuse.trace.name",
}
_SPAN_KEYS = frozenset(_ATTRIBUTES) | frozenset(
    "id traceId parentObservationId name startTime endTime metadata".split()
)
# Counts of a time before `usageDetails`, by the name that they have there.
_COUNTS = {"promptTokens": "input", "completionTokens": "output", "totalTokens": "total"}
_COSTS = ("totalCost", "calculatedTotalCost")
_PARTS = ("attributes", "resourceAttributes", "scope")


def make_langfuse_span(record: Record, limits: Limits) -> RawSpan:
    """Return an observation as a span of its trace."""
    own, trace = text_at(record, "id"), text_at(record, "traceId")
    if not own or trace is None:
        raise TraceError(
            f"an observation needs texts under `id` and `traceId`; found {record.get('id')!r:.40} "
            f"and {record.get('traceId')!r:.40}"
        )
    metadata = decode_object(record.get("metadata"), limits)
    told = metadata if isinstance(metadata, dict) else {}
    scope, version = _scope(told.get("scope"))
    failed = text_at(record, "level") == "ERROR"
    start, end = parse_ns(record.get("startTime")), parse_ns(record.get("endTime"))
    extra = rest(record, _SPAN_KEYS) or {}
    # Times that are none, and ids of parents that are no text, as they stood.
    parent, name = text_at(record, "parentObservationId"), text_at(record, "name")
    read = {"startTime": start, "endTime": end, "parentObservationId": parent, "name": name}
    for key, held in read.items():
        if record.get(key) is not None and held is None:
            extra[key] = record[key]
    if told and version is not None:
        extra["scope"] = version
    return RawSpan(
        trace_id=trace,
        span_id=own,
        parent_id=parent or None,
        name=name or "",
        start_ns=start,
        end_ns=end,
        status="error" if failed else "unset",
        status_message=text_at(record, "statusMessage") or None,
        attributes=_attributes(record, metadata, told),
        resource=object_at(told, "resourceAttributes"),
        scope=scope,
        extra=extra or None,
    )


def _attributes(record: Record, metadata: Json, told: Record) -> dict[str, Json]:
    found = dict(object_at(told, "attributes"))
    for key, name in _ATTRIBUTES.items():
        held = record.get(key)
        if held is not None and held != {}:
            found[name] = held
    if f"{_OWN}model.name" not in found and record.get("providedModelName") is not None:
        found[f"{_OWN}model.name"] = record["providedModelName"]
    if f"{_OWN}usage_details" not in found and (counts := _counts(record)):
        found[f"{_OWN}usage_details"] = counts
    if f"{_OWN}cost_details" not in found and (cost := _cost(record)) is not None:
        found[f"{_OWN}cost_details"] = {"total": cost}
    for key, held in told.items():
        if held is not None and not (key in _PARTS and isinstance(held, dict)):
            found[f"{_OWN}metadata.{key}"] = held
    if not isinstance(metadata, dict) and metadata not in (None, ""):
        found[f"{_OWN}metadata"] = metadata
    return found


def _counts(record: Record) -> dict[str, Json]:
    """Return the counts of older exports; all of them 0 is how those say that there are none."""
    usage = record.get("usage")
    found: dict[str, Json] = {}
    if isinstance(usage, dict) and usage.get("unit") in (None, "TOKENS"):
        found = {_COUNTS.get(key) or key: held for key, held in usage.items()}
    for key, name in _COUNTS.items():
        found.setdefault(name, record.get(key))
    counts: dict[str, Json] = {key: n for key, n in found.items() if isinstance(n, int)}
    return counts if any(counts.values()) else {}


def _cost(record: Record) -> float | None:
    """Return a cost that is said without its details; 0 is how the API says that there is none."""
    for key in _COSTS:
        cost = record.get(key)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
            return cost
    return None


def _scope(value: Json) -> tuple[str | None, Json]:
    """Return the instrumentation as spans name it, and the whole where it says more."""
    if not isinstance(value, dict):
        return None, None
    name, version = text_at(value, "name"), text_at(value, "version")
    known = frozenset({"name"} if version is None else {"name", "version"})
    joined = f"{name}@{version}" if name and version else name
    return joined, None if name is not None and not rest(value, known) else value


_NAME = "langfuse"
# What a trace says that a run has a tag for.
_TAGS = {"sessionId": "session", "userId": "user"} | {
    name: name for name in ("environment", "release", "version")
}
_NAMED = frozenset({"id", "name", *_TAGS})


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    gathered = LangfuseRecords(Source(format=_NAME, uri=stream.uri), stream.limits)
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        gathered.repairs.extend(record.repairs)
        try:
            yield from gathered.take(record.value, record.offset)
        except TraceError as e:
            yield quarantine_record(record, e)
    yield from gathered.runs()


def read_langfuse_runs(
    values: Iterable[Json], *, source: Source, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs that decoded answers of the API hold, whatever they are of, in any order."""
    gathered = LangfuseRecords(source, limits)
    for value in values:
        try:
            yield from gathered.take(value, 0)
        except TraceError as e:
            yield quarantine_value(source, value, e)
    yield from gathered.runs()


class LangfuseRecords:
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

    def take(self, value: Json, offset: int) -> Iterator[Quarantined]:
        """Take in the records of a value; yields those that have no ids, set aside."""
        for kind, entry in iter_entries(value):
            if (aside := self.add(kind, entry, offset)) is not None:
                yield aside

    def add(self, kind: Kind, record: Record, offset: int) -> Quarantined | None:
        """Take a record in; one that has no ids comes back, to be set aside."""
        if kind == "score":
            own = text_at(record, "id") or ""
            at = self._known.setdefault(own, len(self._scores)) if own else len(self._scores)
            if at < len(self._scores):
                record = merge_records(self._scores[at][0], record)[0]
            self._scores[at : at + 1] = [(record, offset)]
            return None
        trace = text_at(record, "id" if kind == "trace" else "traceId")
        name = text_at(record, "id")
        if not trace or not name:
            return self._aside(f"{kind} without ids of its trace and itself", record, offset)
        self._offset.setdefault(trace, offset)
        members = self._traces if kind == "trace" else self._seen.setdefault(trace, {})
        if name in members:
            record, differ = merge_records(members[name], record)
            if differ and kind == "observation":
                reason = f"observation {name!r} comes twice; where they differ, the later one holds"
                self._faults.setdefault(trace, []).append(Warn("duplicate_span_id", reason))
        members[name] = record
        return None

    def runs(self) -> Iterator[Trajectory | Quarantined]:
        """Yield a run a trace, in the order in which traces were first named."""
        of_trace: dict[str, list[tuple[Record, int]]] = {}
        of_session: dict[str, list[tuple[Record, int]]] = {}
        for record, offset in self._scores:
            named, session = text_at(record, "traceId"), text_at(record, "sessionId")
            group, key = (of_session, session) if named is None and session else (of_trace, named)
            group.setdefault(key or "", []).append((record, offset))
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
            yield add_scores(run, [record for record, _ in scores])
        left = [entry for listed in of_trace.values() for entry in listed]
        left += [entry for key, held in of_session.items() if key not in sessions for entry in held]
        for record, offset in left:
            reason = f"score {record.get('name')!r:.60} is of a trace that is not in the file"
            yield self._aside(reason, record, offset)

    def _run(self, trace: str, about: Record, ordinals: Ordinals, offset: int) -> Trajectory:
        held, told = list(self._seen.get(trace, {}).values()), rest(about, _NAMED)
        spans = [make_langfuse_span(record, self._limits) for record in held]
        if not held:
            # The trace itself, by its own input and output.
            whole = {**about, "id": trace, "traceId": trace, "type": "SPAN"}
            start, end = parse_ns(about.get("timestamp")), None
            latency: Json = about.get("latency")
            timed = isinstance(latency, int | float) and not isinstance(latency, bool)
            if start is not None and timed:
                end = start + round(latency * 1_000_000_000)
            span = make_langfuse_span(whole, self._limits)
            spans = [replace(span, start_ns=start, end_ns=end, extra=None)]
        (run,) = assemble(
            spans,
            source=replace(self._source, offset=offset),
            ordinals=ordinals,
            limits=self._limits,
            extra={"trace": told} if told else None,
            repairs=self.repairs,
        )
        warnings = [*run.warnings, *self._faults.get(trace, [])]
        if not held:
            count = len(entries_at(about, "observations"))
            reason = f"none of its observations is in the file ({count} are named)"
            warnings.append(Warn("observations_absent", reason))
        tags = {name: _first(held, about, key, key) for key, name in _TAGS.items()}
        listed = about.get("tags") or next((r["tags"] for r in held if r.get("tags")), None)
        if isinstance(listed, list):
            tags["tags"] = ",".join(map(str, listed)) or None
        workflow = _first(held, about, "name", "traceName") or run.workflow
        kept = {**run.tags, **{name: text for name, text in tags.items() if text is not None}}
        return replace(run, workflow=workflow, tags=kept, warnings=tuple(warnings))

    def _aside(self, reason: str, record: Json, offset: int) -> Quarantined:
        raw = msgspec.json.encode(record)
        return Quarantined(reason=reason, offset=offset, raw=raw, uri=self._source.uri)


def _first(held: list[Record], about: Record, own: str, named: str) -> str | None:
    """Return what the trace says of itself, else what an observation says of it."""
    told = [text_at(about, own), *[text_at(record, named) for record in held]]
    return next((text for text in told if text), None)


FORMAT = FileFormat(_NAME, any_record(is_langfuse, 0.97), _read)
