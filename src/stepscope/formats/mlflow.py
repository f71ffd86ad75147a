"""Read MLflow traces: what `Trace.to_json` and `mlflow.search_traces` give, and its server answers.

A file is one trace, lines or a list of them, a table of traces as JSON (by records or by columns),
or a page of the server. Every trace is one run; one that comes without its spans, as searching for
traces gives them, is read by its own input and output.
Source: mlflow-skinny 3.17.2, and traces recorded with it; the schema before version 3 too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, text_at
from stepscope.formats.mlflow_labels import assessed
from stepscope.formats.mlflow_records import Record, Trace, is_trace, traces
from stepscope.formats.mlflow_spans import otel_id, span_of, span_trace
from stepscope.formats.opening import Opening
from stepscope.formats.plain import PlainFormat, found, quarantine
from stepscope.formats.spans.assembling import assemble
from stepscope.formats.spans.attributes import decoded, number
from stepscope.formats.spans.langfuse import details
from stepscope.formats.spans.lists import nanoseconds
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Quarantined, Source, Stream, Trajectory, Warn
from stepscope.safety.door import Repair
from stepscope.safety.limits import Limits

_NAME = "mlflow"
_LIMITS = Limits()
_METADATA = ("trace_metadata", "request_metadata")
_SCHEMA = "mlflow.trace_schema.version"
# What a trace's metadata says that a run has a tag for.
_TAGS = {"mlflow.trace.session": "session", "mlflow.trace.user": "user"}


def _likeness(seen: Opening) -> float:
    return 0.97 if any(is_trace(record) for record in seen.records) else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        source = Source(format=_NAME, uri=stream.uri, offset=record.offset)
        try:
            came = 0
            for trace in traces(record.value, stream.limits):
                came += 1
                yield from _runs(trace, source, ordinals, stream.limits, record.repairs)
            if not came and isinstance(record.value, dict) and not _is_empty_page(record.value):
                raise TraceError("columns of traces without a row")
        except TraceError as e:
            yield quarantine(record, e)


def _is_empty_page(value: Record) -> bool:
    return value.get("traces") == []


def runs_of(
    values: Iterable[Json], *, source: Source, limits: Limits = _LIMITS
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs that decoded answers of the server, or traces, hold.

    Args:
        values: traces, pages of them (`traces`), rows of `search_traces`; with or without spans.
        source: where they came from; `run_id` becomes the trace's id, in hex.
        limits: of what is decoded within attributes.
    """
    ordinals = Ordinals()
    for value in values:
        try:
            for trace in traces(value, limits):
                yield from _runs(trace, source, ordinals, limits, ())
        except TraceError as e:
            raw = msgspec.json.encode(value)
            yield Quarantined(reason=str(e), offset=source.offset or 0, raw=raw, uri=source.uri)


def _runs(
    trace: Trace,
    source: Source,
    ordinals: Ordinals,
    limits: Limits,
    repairs: Iterable[Repair],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the run of a trace; spans that are none, or a trace that makes no run, set aside."""
    info, spans = trace.info, list[Span]()
    named = _trace_id(trace)
    for record in trace.spans:
        try:
            spans.append(span_of(record, named))
        except TraceError as e:
            yield _aside(str(e), record, source)
    metadata = _metadata(info, limits)
    version = metadata.get(_SCHEMA)
    told = msgspec.structs.replace(source, format_version=str(version) if version else None)
    try:
        (run,) = assemble(
            spans or [_whole(named, info, metadata)],
            source=told,
            ordinals=ordinals,
            limits=limits,
            extra=_beside(trace),
            repairs=repairs,
        )
    except TraceError as e:
        yield _aside(str(e), {"info": info, "data": {"spans": trace.spans}}, source)
        return
    yield assessed(_known(run, info, metadata, spans, limits), _assessments(info), limits)


def _trace_id(trace: Trace) -> str:
    """Return the id of a trace in hex: its own, of which the first span's is another form.

    Before version 3 of the schema a trace had an id of MLflow's own, which stays in `extra`.
    """
    told = trace.info.get("trace_id") or trace.info.get("request_id")
    if not (isinstance(told, str) and told.startswith(("tr-", "trace:/"))):
        for record in trace.spans:
            if isinstance(record, dict) and (held := span_trace(record)) is not None:
                return held
    return otel_id(told) or ""


def _aside(reason: str, value: Json, source: Source) -> Quarantined:
    raw = msgspec.json.encode(value)
    return Quarantined(reason=reason, offset=source.offset or 0, raw=raw, uri=source.uri)


def _metadata(info: Record, limits: Limits) -> Record:
    """Return a trace's metadata; every value of it is text, and some of them JSON."""
    for key in _METADATA:
        held = decoded(info.get(key), limits)
        if isinstance(held, dict):
            return held
    return {}


def _whole(named: str, info: Record, metadata: Record) -> Span:
    """Return a trace as the one span that is known of it."""
    begin = nanoseconds(info.get("request_time", info.get("timestamp_ms")))
    given = metadata.get("mlflow.traceInputs", info.get("request", info.get("request_preview")))
    made = metadata.get("mlflow.traceOutputs", info.get("response", info.get("response_preview")))
    sides = {"mlflow.spanInputs": given, "mlflow.spanOutputs": made}
    return Span(
        trace_id=named,
        span_id=named,
        name=_name(info),
        start_ns=begin,
        attributes={
            "mlflow.spanType": '"CHAIN"',
            **{key: held for key, held in sides.items() if held is not None},
        },
    )


def _known(
    run: Trajectory, info: Record, metadata: Record, spans: list[Span], limits: Limits
) -> Trajectory:
    """Return a run with what its trace says of the whole."""
    state = str(info.get("state", info.get("status", "")))
    warnings = list(run.warnings)
    if not spans:
        warnings.append(Warn("spans_absent", "the trace comes without its spans"))
    if state == "IN_PROGRESS":
        warnings.append(Warn("trace_in_progress", "the trace was still being recorded"))
    failed = "the state of the trace is ERROR" if state == "ERROR" else None
    usage = details(metadata.get("mlflow.trace.tokenUsage"), limits)
    cost = decoded(metadata.get("mlflow.trace.cost"), limits)
    costed = run.cost_usd is not None or any(step.cost_usd is not None for step in run.steps)
    whole = number(cost, "total_cost", "total") if isinstance(cost, dict) else None
    named = {tag: metadata.get(key) for key, tag in _TAGS.items()}
    listed = decoded(info.get("tags"), limits)
    own = listed if isinstance(listed, dict) else {}
    texts = {**{k: v for k, v in own.items() if not k.startswith("mlflow.")}, **named}
    return msgspec.structs.replace(
        run,
        workflow=run.workflow or _name(info),
        tags={**run.tags, **{k: str(v) for k, v in texts.items() if v not in (None, "")}},
        termination=run.termination or failed,
        usage=usage if run.usage is None else run.usage,
        cost_usd=run.cost_usd if costed else whole,
        warnings=tuple(warnings),
    )


def _name(info: Record) -> str:
    tags = info.get("tags")
    found = text_at(tags, "mlflow.traceName") if isinstance(tags, dict) else None
    return found or ""


def _assessments(info: Record) -> list[Json]:
    listed = info.get("assessments")
    return listed if isinstance(listed, list) else []


def _beside(trace: Trace) -> dict[str, Json] | None:
    """Return what a trace says that its run has no field for, as `trace`."""
    told = {
        key: held
        for key, held in trace.info.items()
        if held is not None and not (key == "assessments" and isinstance(held, list))
    }
    found: dict[str, Json] = {**(trace.beside or {}), "trace": told}
    return found


FORMAT = PlainFormat(_NAME, _likeness, _read)
