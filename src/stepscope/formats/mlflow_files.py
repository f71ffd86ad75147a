"""Read MLflow traces: what `Trace.to_json` and `mlflow.search_traces` give, and its server answers.

A file is one trace, lines or a list of them, a table of traces as JSON (by records or by columns),
or a page of the server. Every trace is one run; one that comes without its spans is read by its own
input and output. Ids become hex as OpenTelemetry writes them: version 3 of the schema has base64 of
their bytes, 3.5 text, the versions before hex behind `0x`. Feedback says what a run or a span was
worth, an expectation what it should have given; both are labels and keep their source. What was
overridden later (`valid` is false) decides no outcome.
Source: mlflow-skinny 3.17.2, `entities/trace.py`, `entities/span.py`, `entities/assessment.py`,
`tracing/utils/search.py`, and traces recorded with it; 2.22 for the schema before version 3.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats.fields import entries_at, expect_object, object_at, rest, text_at
from stepscope.formats.finish import Opinion, OpinionSource, Ordinals, add_opinions, first_steps
from stepscope.formats.format import FileFormat, decode_records, quarantine_record, quarantine_value
from stepscope.formats.opening import any_record
from stepscope.formats.spans import attributes
from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.lists import find_ns, parse_nanoseconds, read_span_attributes
from stepscope.formats.spans.span import RawSpan, SpanEvent, SpanStatus, make_event
from stepscope.model import Json, Quarantined, Source, Stream, TraceLabel, Trajectory, Warn
from stepscope.safety.json import Repair
from stepscope.safety.limits import DEFAULT_LIMITS, Limits

Record = dict[str, Json]

_IDS = ("trace_id", "request_id", "client_request_id")
# Columns of a row that its spans' or the whole trace's own column says, or that are its facts.
_COLUMNS = frozenset(
    "trace_id request_id client_request_id state status request_time timestamp_ms "
    "execution_duration execution_time_ms trace_metadata request_metadata tags assessments "
    "request response".split()
)
# The traces of a page, and where the next one begins.
_PAGE = frozenset({"traces", "next_page_token"})


class MlflowTrace(NamedTuple):
    """What is known of one trace, its spans, and what else stood beside them."""

    info: Record
    spans: list[Json]
    beside: Record | None


def is_mlflow_trace(value: Json) -> bool:
    """Say whether a value looks like anything of MLflow, by its keys."""
    if not isinstance(value, dict):
        return False
    listed = value.get("traces")
    if isinstance(listed, list) and listed:
        return is_mlflow_trace(listed[0])
    info, held = value.get("info"), value.get("data")
    if isinstance(info, dict) and isinstance(held, dict):
        return "spans" in held and _named(info)
    if isinstance(value.get("trace_info"), dict):
        return "spans" in value and _named(value["trace_info"])
    if isinstance(value.get("trace"), dict) and is_mlflow_trace(value["trace"]):
        return True
    if not _named(value) or not value.keys() & {"trace_metadata", "request_metadata"}:
        return False
    return bool(value.keys() & {"spans", "state", "status", "request_time", "timestamp_ms"})


def _named(info: Record) -> bool:
    return any(key in info for key in _IDS)


def iter_mlflow_traces(value: Json, limits: Limits) -> Iterator[MlflowTrace]:
    """Yield the traces of one value; what is none is refused behind them."""
    value = expect_object(value, "a trace needs an object")
    listed = value.get("traces")
    if isinstance(listed, list):
        for entry in listed:
            yield from _besides(iter_mlflow_traces(entry, limits), rest(value, _PAGE))
        return
    ids = value.get("trace_id", value.get("request_id"))
    if isinstance(ids, dict) and all(isinstance(held, dict) for held in value.values()):
        # A table that was written by columns.
        for row in ids:
            about = {key: held.get(row) for key, held in value.items()}
            yield from iter_mlflow_traces(about, limits)
        return
    held = value.get("trace")
    # Version 2's table has in `trace` an object that only Python could use; its columns say all.
    whole = held if "spans" not in value else None
    whole = attributes.decode_object(held, limits) if isinstance(held, str) else whole
    if isinstance(whole, dict):
        more = rest(value, _COLUMNS | {"trace", "spans"})
        yield from _besides(iter_mlflow_traces(whole, limits), more)
        return
    yield _trace(value, limits)


def _besides(found: Iterator[MlflowTrace], more: Record | None) -> Iterator[MlflowTrace]:
    for trace in found:
        yield trace._replace(beside={**(more or {}), **(trace.beside or {})} or None)


def _trace(value: Record, limits: Limits) -> MlflowTrace:
    info = value.get("info", value.get("trace_info"))
    if isinstance(info, dict):
        held = value.get("data", value)
        spans = held.get("spans") if isinstance(held, dict) else None
        beside = rest(value, frozenset({"info", "trace_info", "data", "spans"})) or {}
        if isinstance(value.get("data"), dict):
            beside.update(rest(value["data"], frozenset({"spans"})) or {})
        return MlflowTrace(info, _listed(spans), beside or None)
    if _named(value):
        told = {k: attributes.decode_object(value[k], limits) for k in value if k in _COLUMNS}
        spans = attributes.decode_object(value.get("spans"), limits)
        about = {key: held for key, held in told.items() if held is not None}
        beside = rest(value, _COLUMNS | {"spans"}) or {}
        if "trace" in beside:
            beside["column"] = beside.pop("trace")
        return MlflowTrace(about, _listed(spans), beside or None)
    raise TraceError(
        "a trace needs `info` and `data.spans`, or a row's `trace_id` and `spans`; "
        f"found the keys {sorted(value)[:6]}"
    )


_HEX = re.compile(r"[0-9a-f]{16}(?:[0-9a-f]{16})?\Z").match
# Bytes of a span's and of a trace's id.
_SIZES = (8, 16)
_STATUSES: dict[str, SpanStatus] = {"OK": "ok", "ERROR": "error", "UNSET": "unset"}
_SPAN_KEYS = frozenset(
    "trace_id span_id parent_span_id context parent_id name start_time_unix_nano "
    "end_time_unix_nano start_time end_time status status_code status_message events attributes "
    "links kind".split()
)
_EVENT = frozenset({"name", "time_unix_nano", "timestamp", "attributes"})


def to_otel_id(value: Json) -> str | None:
    """Return an id of a trace or a span in hex, as it is where no form of one is known."""
    if not isinstance(value, str) or not value:
        return None
    plain = value.rpartition("/")[2] if value.startswith("trace:/") else value
    plain = plain.removeprefix("tr-").removeprefix("0x")
    if _HEX(plain):
        return plain
    try:
        held = base64.b64decode(value, validate=True)
    except ValueError:
        return plain
    return held.hex() if len(held) in _SIZES else plain


def find_span_trace(record: Record) -> str | None:
    """Return the id of the trace that a span itself names, in hex."""
    context = record.get("context")
    return to_otel_id((context if isinstance(context, dict) else record).get("trace_id"))


def make_mlflow_span(record: Json, trace_id: str) -> RawSpan:
    """Return one span of a trace; another trace that it names itself stays in its `extra`."""
    record = expect_object(record, "a span needs an object")
    context = record.get("context")
    ids = context if isinstance(context, dict) else record
    own = to_otel_id(ids.get("span_id"))
    if own is None:
        raise TraceError(f"a span needs text under `span_id`; found {str(ids)[:60]!r}")
    told = record.get("status")
    if not isinstance(told, dict):
        code = told if told is not None else record.get("status_code")
        told = {"code": code, "message": record.get("status_message")}
    code = str(told.get("code") or "UNSET").removeprefix("STATUS_CODE_").upper()
    known = code in _STATUSES and told.keys() <= {"code", "message"}
    extra = {**(rest(record, _SPAN_KEYS) or {}), **({} if known else {"status": told})}
    if find_span_trace(record) not in (None, trace_id):
        extra["trace_id"] = ids.get("trace_id")
    links, about = record.get("links") or [], record.get("attributes")
    listed = record.get("events") or []
    return RawSpan(
        trace_id=trace_id,
        span_id=own,
        parent_id=to_otel_id(record.get("parent_span_id") or record.get("parent_id")),
        name=text_at(record, "name") or "",
        kind=str(record.get("kind") or "").removeprefix("SPAN_KIND_").lower(),
        start_ns=find_ns(record, "start_time_unix_nano", "start_time"),
        end_ns=find_ns(record, "end_time_unix_nano", "end_time"),
        status=_STATUSES.get(code, "unset"),
        status_message=text_at(told, "message") or None,
        attributes=attributes.decode_attributes(about)
        if isinstance(about, list)
        else read_span_attributes(about),
        events=tuple([_event(one) for one in (listed if isinstance(listed, list) else [listed])]),
        links=tuple(links) if isinstance(links, list) else (links,),
        extra=extra or None,
    )


def _event(event: Json) -> SpanEvent:
    if not isinstance(event, dict):
        return SpanEvent(extra={"value": event})
    held = event.get("attributes")
    about = attributes.decode_attributes(held) if isinstance(held, list) else held
    time = find_ns(event, "time_unix_nano", "timestamp")
    return make_event(text_at(event, "name"), time, about, rest(event, _EVENT))


_WHO: dict[str, OpinionSource] = {"HUMAN": "person", "CODE": "code"}
_ANNOTATORS = {"LLM_JUDGE": "LLM", "AI_JUDGE": "LLM"}
_ASSESSMENT_KEYS = frozenset("assessment_name name rationale span_id feedback expectation".split())


def add_assessments(run: Trajectory, assessments: Sequence[Json], limits: Limits) -> Trajectory:
    """Return a run with what assessments say of it; one that is no object stays in `extra`."""
    first = first_steps(run)
    records = [entry for entry in assessments if isinstance(entry, dict)]
    others: list[Json] = [entry for entry in assessments if not isinstance(entry, dict)]
    labels = [_label(record, first, limits) for record in records]
    opinions: list[Opinion] = []
    for record in records:
        of_run = isinstance(record.get("feedback"), dict) and not record.get("span_id")
        if of_run and record.get("valid") is not False:
            name, who = _assessment_name(record), _WHO.get(_source(record), "model")
            reason = text_at(record, "rationale") or ""
            opinions.append(Opinion(name, _told(record, limits)[0], who, reason))
    if others:
        run = replace(run, extra={**(run.extra or {}), "assessments": others})
    return add_opinions(run, labels, opinions)


def _label(record: Record, first: Mapping[str, int], limits: Limits) -> TraceLabel:
    own = to_otel_id(record.get("span_id"))
    value, more = _told(record, limits)
    about: dict[str, Json] = {
        "name": _assessment_name(record),
        "explanation": record.get("rationale"),
        "annotator_kind": _ANNOTATORS.get(_source(record), _source(record)) or None,
    }
    kind = "label" if isinstance(value, str) else "score"
    about["expectation" if isinstance(record.get("expectation"), dict) else kind] = value
    about = {key: held for key, held in about.items() if held is not None}
    beside: dict[str, Json] = {**(rest(record, _ASSESSMENT_KEYS) or {}), **more}
    if own is None:
        beside["of"] = "trace"
    elif own not in first:
        beside["span"] = own
    return replace(attributes.label_evaluation(about, beside), step=first.get(own) if own else None)


def _told(record: Record, limits: Limits) -> tuple[Json, Record]:
    for key in ("feedback", "expectation"):
        held = record.get(key)
        if not isinstance(held, dict):
            continue
        written = held.get("serialized_value")
        if isinstance(written, dict):
            value = attributes.decode_value(written.get("value"), limits)
            more = rest(written, frozenset({"value", "serialization_format"})) or {}
            return value, {**more, **(rest(held, frozenset({"serialized_value"})) or {})}
        return held.get("value"), rest(held, frozenset({"value"})) or {}
    return record.get("value"), {}


def _assessment_name(record: Record) -> str:
    return text_at(record, "assessment_name") or text_at(record, "name") or ""


def _source(record: Record) -> str:
    return text_at(object_at(record, "source"), "source_type") or ""


_NAME = "mlflow"
_METADATA = ("trace_metadata", "request_metadata")
_SCHEMA = "mlflow.trace_schema.version"
# What a trace's metadata says that a run has a tag for.
_TAGS = {"mlflow.trace.session": "session", "mlflow.trace.user": "user"}


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        source = Source(format=_NAME, uri=stream.uri, offset=record.offset)
        try:
            came = 0
            for trace in iter_mlflow_traces(record.value, stream.limits):
                came += 1
                yield from _runs(trace, source, ordinals, stream.limits, record.repairs)
            if not came and isinstance(record.value, dict) and record.value.get("traces") != []:
                raise TraceError("columns of traces without a row")
        except TraceError as e:
            yield quarantine_record(record, e)


def read_mlflow_runs(
    values: Iterable[Json], *, source: Source, limits: Limits = DEFAULT_LIMITS
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs that decoded answers of the server, or traces, hold."""
    ordinals = Ordinals()
    for value in values:
        try:
            for trace in iter_mlflow_traces(value, limits):
                yield from _runs(trace, source, ordinals, limits, ())
        except TraceError as e:
            yield quarantine_value(source, value, e)


def _runs(
    trace: MlflowTrace,
    source: Source,
    ordinals: Ordinals,
    limits: Limits,
    repairs: Iterable[Repair],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the run of a trace; spans that are none, or a trace that makes no run, set aside."""
    info, spans = trace.info, list[RawSpan]()
    named = _trace_id(trace)
    for record in trace.spans:
        try:
            spans.append(make_mlflow_span(record, named))
        except TraceError as e:
            yield quarantine_value(source, record, e)
    # Every value of a trace's metadata is text, and some of them JSON.
    texts = [attributes.decode_object(info.get(key), limits) for key in _METADATA]
    metadata: Record = next((held for held in texts if isinstance(held, dict)), {})
    version = metadata.get(_SCHEMA)
    told = replace(source, format_version=str(version) if version else None)
    read = frozenset({"assessments"} if isinstance(info.get("assessments"), list) else ())
    try:
        (run,) = assemble(
            spans or [_whole(named, info, metadata)],
            source=told,
            ordinals=ordinals,
            limits=limits,
            extra={**(trace.beside or {}), "trace": rest(info, read) or {}},
            repairs=repairs,
        )
    except TraceError as e:
        yield quarantine_value(source, {"info": info, "data": {"spans": trace.spans}}, e)
        return
    whole = _known(run, info, metadata, spans, limits)
    yield add_assessments(whole, entries_at(info, "assessments"), limits)


def _trace_id(trace: MlflowTrace) -> str:
    """Return the id of a trace in hex; where it is only MLflow's own, that of the first span."""
    told = trace.info.get("trace_id") or trace.info.get("request_id")
    if not (isinstance(told, str) and told.startswith(("tr-", "trace:/"))):
        for record in trace.spans:
            if isinstance(record, dict) and (held := find_span_trace(record)) is not None:
                return held
    return to_otel_id(told) or ""


def _listed(spans: Json) -> list[Json]:
    if spans is None or isinstance(spans, list):
        return spans or []
    raise TraceError(f"a trace needs a list under `spans`; found {str(spans)[:60]!r}")


def _whole(named: str, info: Record, metadata: Record) -> RawSpan:
    """Return a trace as the one span that is known of it."""
    given = metadata.get("mlflow.traceInputs", info.get("request", info.get("request_preview")))
    made = metadata.get("mlflow.traceOutputs", info.get("response", info.get("response_preview")))
    sides = {"mlflow.spanInputs": given, "mlflow.spanOutputs": made}
    told = {key: held for key, held in sides.items() if held is not None}
    start = parse_nanoseconds(info.get("request_time", info.get("timestamp_ms")))
    name, about = _trace_name(info), {"mlflow.spanType": '"CHAIN"', **told}
    return RawSpan(trace_id=named, span_id=named, name=name, start_ns=start, attributes=about)


def _known(
    run: Trajectory, info: Record, metadata: Record, spans: list[RawSpan], limits: Limits
) -> Trajectory:
    state = str(info.get("state", info.get("status", "")))
    warnings = list(run.warnings)
    if not spans:
        warnings.append(Warn("spans_absent", "the trace comes without its spans"))
    if state == "IN_PROGRESS":
        warnings.append(Warn("trace_in_progress", "the trace was still being recorded"))
    failed = "the state of the trace is ERROR" if state == "ERROR" else None
    usage = attributes.read_usage_details(metadata.get("mlflow.trace.tokenUsage"), limits)
    cost = attributes.decode_object(metadata.get("mlflow.trace.cost"), limits)
    costed = run.cost_usd is not None or any(step.cost_usd is not None for step in run.steps)
    whole = attributes.find_number(cost, "total_cost", "total") if isinstance(cost, dict) else None
    named = {tag: metadata.get(key) for key, tag in _TAGS.items()}
    listed = attributes.decode_object(info.get("tags"), limits)
    own = listed if isinstance(listed, dict) else {}
    texts = {**{k: v for k, v in own.items() if not k.startswith("mlflow.")}, **named}
    return replace(
        run,
        workflow=run.workflow or _trace_name(info),
        tags={**run.tags, **{k: str(v) for k, v in texts.items() if v not in (None, "")}},
        termination=run.termination or failed,
        usage=usage if run.usage is None else run.usage,
        cost_usd=run.cost_usd if costed else whole,
        warnings=tuple(warnings),
    )


def _trace_name(info: Record) -> str:
    return text_at(object_at(info, "tags"), "mlflow.traceName") or ""


FORMAT = FileFormat(_NAME, any_record(is_mlflow_trace, 0.97), _read)
