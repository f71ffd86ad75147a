"""Pull traces from an MLflow tracking server, through its REST interface.

Searching gives what is known of each trace, without its spans; the spans are then asked for trace
by trace, from wherever the server keeps them. A server lists traces by when they began and not by
when they changed: `last` therefore looks back an hour behind the newest trace, and again at every
trace that was still being recorded.
Source: mlflow 3.17.2, `store/tracking/rest_store.py`, `server/handlers.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from stepscope.backends.asking import Asked, Found, aside, cursor, objects
from stepscope.backends.client import Client, Rejected, TooLarge
from stepscope.errors import EnvironmentFault, UsageError
from stepscope.formats.mlflow import runs_of
from stepscope.formats.spans.attributes import count, decoded, parsed
from stepscope.formats.times import instant
from stepscope.model import Json, Source, Trajectory
from stepscope.safety.limits import Limits

FORMAT = "mlflow"
# Of an assessment's metadata, where it was sent from here.
KEY = "stepscope.key"
_OWN_WORDS = "mlflow."
_OTHER_WORDS = ("gen_ai.", "openinference.", "llm.", "ai.", "traceloop.", "langfuse.")
# Traces on one page; servers refuse more than 500.
_PAGE = 200
# Milliseconds behind the newest trace of the previous pull in which late ones are looked for.
_LOOK_BACK_MS = 3_600_000
_NEWEST, _OPEN = "newest_ms", "in_progress"
# Ids of traces in progress that are remembered.
_OPEN_MOST = 10_000


class _Seen(NamedTuple):
    """What the mark is made of: when traces began, and which were not at their end."""

    began_ms: list[int]
    unfinished: list[str]


def fetch(asked: Asked) -> Iterator[Found]:
    """Yield the runs of the traces that are asked for.

    Raises:
        UsageError: no such experiment.
        EnvironmentFault: the server cannot be reached, or gives up half way.
    """
    mark = asked.mark or {}
    newest = mark.get(_NEWEST)
    first = newest - _LOOK_BACK_MS if isinstance(newest, int) else None
    if asked.since_ns is not None:
        first = -(-asked.since_ns // 1_000_000)
    seen = _Seen([newest] if isinstance(newest, int) else [], [])
    listed = set[str]()
    for info in _listed(_experiment(asked), first, asked):
        listed.add(str(info.get("trace_id")))
        yield from _run(info, seen, asked)
    for trace_id in mark.get(_OPEN) or ():
        if (
            trace_id not in listed
            and (again := trace_info(asked.client, str(trace_id))) is not None
        ):
            yield from _run(again, seen, asked)
    dropped = len(seen.unfinished) - _OPEN_MOST
    if dropped > 0:
        asked.told.withheld["traces in progress that `last` will not look at again"] += dropped
    asked.told.mark = {
        _NEWEST: max(seen.began_ms, default=None),
        _OPEN: seen.unfinished[-_OPEN_MOST:],
    }


def _experiment(asked: Asked) -> str:
    found = experiment_id(asked.client, asked.place)
    if found is None:
        raise UsageError(
            f"{asked.client.access.host} has no experiment {asked.place!r}; "
            "names are as its page of experiments shows them"
        )
    return found


def experiment_id(client: Client, name: str) -> str | None:
    """Return the id of the experiment of that name, None where there is none.

    Raises:
        EnvironmentFault: the server cannot be reached, or is none of MLflow.
    """
    path = "/api/2.0/mlflow/experiments/get-by-name"
    try:
        value = client.get(path, {"experiment_name": name}).value
    except Rejected as e:
        if e.status == 404:
            return None
        raise
    found = value.get("experiment") if isinstance(value, dict) else None
    named = found.get("experiment_id") if isinstance(found, dict) else None
    if named is None:
        raise EnvironmentFault(
            f"{client.access.host} answers without an experiment; is "
            f"{client.access.host_variable} its address?"
        )
    return str(named)


def _listed(experiment_id: str, first: int | None, asked: Asked) -> Iterator[dict[str, Json]]:
    """Yield what is known of each trace that began at `first` or later, the earliest first."""
    place = {
        "type": "MLFLOW_EXPERIMENT",
        "mlflow_experiment": {"experiment_id": experiment_id},
    }
    body: dict[str, Json] = {
        "locations": [place],
        "max_results": _PAGE,
        "order_by": ["timestamp_ms ASC"],
    }
    if first is not None:
        body["filter"] = f"timestamp_ms >= {first}"
    seen = set[str]()
    while True:
        page = asked.client.post("/api/3.0/mlflow/traces/search", body)
        yield from objects(page, "traces", asked)
        following = cursor(page, "next_page_token", seen, asked)
        if following is None:
            return
        body["page_token"] = following


def trace_info(client: Client, trace_id: str) -> dict[str, Json] | None:
    """Return what is known of one trace beside its spans, None where there is none."""
    try:
        value = client.get(f"/api/3.0/mlflow/traces/{quote(trace_id, safe='')}").value
    except Rejected as e:
        if e.status == 404:
            return None
        raise
    told = value.get("trace") if isinstance(value, dict) else None
    info = told.get("trace_info") if isinstance(told, dict) else None
    return info if isinstance(info, dict) else None


def _run(info: dict[str, Json], seen: _Seen, asked: Asked) -> Iterator[Found]:
    """Yield the run of one trace, and note what the mark needs of it."""
    trace_id = str(info.get("trace_id"))
    began = instant(info.get("request_time"))
    if began is not None:
        seen.began_ms.append(began.ns // 1_000_000)
    if info.get("state") == "IN_PROGRESS":
        seen.unfinished.append(trace_id)
    try:
        data = _spans(trace_id, asked)
    except TooLarge as e:
        yield aside(info, str(e), asked)
        return
    source = Source(format=FORMAT, uri=asked.uri)
    info = _without_ours(info, asked)
    value = info if data is None else {"info": info, "data": data}
    for found in runs_of([value], source=source, limits=asked.limits):
        if isinstance(found, Trajectory):
            _note_missing(found, info, data, asked)
        yield found


def _without_ours(info: dict[str, Json], asked: Asked) -> dict[str, Json]:
    """Return what is known of a trace without the verdicts that were sent to it from here."""
    listed = info.get("assessments")
    if not isinstance(listed, list):
        return info
    others = [held for held in listed if not key_of(held)]
    if len(others) == len(listed):
        return info
    asked.told.withheld["verdicts of ours, left there"] += len(listed) - len(others)
    return {**info, "assessments": others}


def key_of(assessment: Json) -> str:
    """Return by what a verdict of ours is told from others; "" where it is none of ours."""
    about = assessment.get("metadata") if isinstance(assessment, dict) else None
    return str(about.get(KEY, "")) if isinstance(about, dict) else ""


def _spans(trace_id: str, asked: Asked) -> dict[str, Json] | None:
    """Return the spans of a trace; None where the server has none of it."""
    try:
        path = "/ajax-api/2.0/mlflow/get-trace-artifact"
        value = asked.client.get(path, {"request_id": trace_id}).value
    except Rejected as e:
        if e.status in {400, 404, 500}:  # recorded by searching only, or its file is gone
            return None
        raise
    spans = value.get("spans") if isinstance(value, dict) else None
    if not isinstance(spans, list):
        return None
    return {**value, "spans": [_as_recorded(span, asked.limits) for span in spans]}


def _as_recorded(span: Json, limits: Limits) -> Json:
    """Return a span that came over OTLP as it was sent.

    The server keeps values as JSON text, and adds what it makes of other conventions in words of
    its own: that stays beside, and the span speaks as it was recorded.
    """
    held = span.get("attributes") if isinstance(span, dict) else None
    if not isinstance(held, dict) or not any(key.startswith(_OTHER_WORDS) for key in held):
        return span
    told = {key: parsed(v, limits) for key, v in held.items() if not key.startswith(_OWN_WORDS)}
    added = {key: value for key, value in held.items() if key.startswith(_OWN_WORDS)}
    return {**span, "attributes": told, "added_by_server": added}


def _note_missing(
    run: Trajectory, info: dict[str, Json], data: dict[str, Json] | None, asked: Asked
) -> None:
    withheld = asked.told.withheld
    if data is None:
        withheld["traces without their spans"] += 1
        return
    told = info.get("trace_metadata")
    sizes = told.get("mlflow.trace.sizeStats") if isinstance(told, dict) else None
    stats = decoded(sizes, asked.limits)
    recorded = count(stats, "num_spans") if isinstance(stats, dict) else None
    ids = {span.id for span in run.spans}
    missing = len({span.parent for span in run.spans if span.parent} - ids)
    if recorded is not None:
        missing = max(missing, recorded - len(ids))
    if missing:
        withheld["spans referenced and not returned"] += missing
    unresolved = sum("mlflow-attachment://" in str(span.attributes) for span in run.spans)
    if unresolved:
        withheld["spans with attachments, which are not fetched"] += unresolved
