"""Pull traces from an MLflow tracking server through its REST interface, and send to it.

Searching gives what is known of each trace, without its spans; the spans are then asked for trace
by trace. A server lists traces by when they began and not by when they changed: `last` therefore
looks back an hour behind the newest trace, and again at every trace that was still being recorded.
Spans go in as OTLP, from MLflow 3 on with a database behind the server. Verdicts are assessments;
the server gives them ids, so those that are there are read first, and changed where they differ.
Source: mlflow 3.17.2, `store/tracking/rest_store.py`, `server/handlers.py`, `server/otel_api.py`,
`entities/assessment.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from urllib.parse import quote

from stepscope.backends import types
from stepscope.backends.client import Client, Rejected, TooLarge
from stepscope.errors import UsageError
from stepscope.formats.fields import parse_time
from stepscope.formats.mlflow_files import read_mlflow_runs
from stepscope.formats.spans.attributes import decode_object, decode_value, find_count
from stepscope.model import Json, Source, Trajectory
from stepscope.model.records import Annotator
from stepscope.safety.json import Decoded
from stepscope.safety.limits import Limits

FORMAT = "mlflow"
# Of an assessment's metadata, where it was sent from here.
VERDICT_KEY = "stepscope.key"
_OWN_WORDS = "mlflow."
_OTHER_WORDS = ("gen_ai.", "openinference.", "llm.", "ai.", "traceloop.", "langfuse.")
# Traces on one page; servers refuse more than 500.
_PAGE = 200
# Milliseconds behind the newest trace of the previous pull in which late ones are looked for.
_LOOK_BACK_MS = 3_600_000
_NEWEST, _OPEN = "newest_ms", "in_progress"
# Ids of traces in progress that are remembered.
_OPEN_MOST = 10_000


def fetch_mlflow(asked: types.PullQuery) -> Iterator[types.PulledItem]:
    """Yield the runs of the traces that are asked for."""
    experiment = find_experiment(asked.client, asked.place)
    if experiment is None:
        raise UsageError(
            f"{asked.client.access.host} has no experiment {asked.place!r}; "
            "names are as its page of experiments shows them"
        )
    mark = asked.mark or {}
    newest = mark.get(_NEWEST)
    first = newest - _LOOK_BACK_MS if isinstance(newest, int) else None
    if asked.since_ns is not None:
        first = -(-asked.since_ns // 1_000_000)
    began_ms = [newest] if isinstance(newest, int) else []
    unfinished: list[str] = []
    listed = set[str]()
    for info in _listed(experiment, first, asked):
        listed.add(str(info.get("trace_id")))
        yield from _run(info, began_ms, unfinished, asked)
    for trace_id in [str(one) for one in mark.get(_OPEN) or () if one not in listed]:
        if (again := read_trace_info(asked.client, trace_id)) is not None:
            yield from _run(again, began_ms, unfinished, asked)
    dropped = len(unfinished) - _OPEN_MOST
    asked.withhold("traces in progress that `last` will not look at again", dropped)
    asked.told.mark = {_NEWEST: max(began_ms, default=None), _OPEN: unfinished[-_OPEN_MOST:]}


def find_experiment(client: Client, name: str) -> str | None:
    """Return the id of the experiment of that name, None where there is none."""
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
        raise client.access.misdirected("an experiment")
    return str(named)


def _listed(number: str, first: int | None, asked: types.PullQuery) -> Iterator[dict[str, Json]]:
    """Yield what is known of each trace that began at `first` or later, the earliest first."""
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": number}}
    body: dict[str, Json] = {"locations": [place], "order_by": ["timestamp_ms ASC"]}
    if first is not None:
        body["filter"] = f"timestamp_ms >= {first}"

    def ask(most: int, cursor: dict[str, str]) -> Decoded:
        more = {**body, "max_results": most, **cursor}
        return asked.client.post("/api/3.0/mlflow/traces/search", more)

    for page in types.iter_pages(ask, _PAGE, asked, "next_page_token", name="page_token"):
        yield from types.list_objects(page, "traces", asked)


def read_trace_info(client: Client, trace_id: str) -> dict[str, Json] | None:
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


def _run(
    info: dict[str, Json], began_ms: list[int], unfinished: list[str], asked: types.PullQuery
) -> Iterator[types.PulledItem]:
    """Yield the run of one trace, and note what the mark needs of it."""
    trace_id = str(info.get("trace_id"))
    began = parse_time(info.get("request_time"))
    if began is not None:
        began_ms.append(began.ns // 1_000_000)
    if info.get("state") == "IN_PROGRESS":
        unfinished.append(trace_id)
    try:
        data = _spans(trace_id, asked)
    except TooLarge as e:
        yield types.quarantine_reply(info, str(e), asked)
        return
    source = Source(format=FORMAT, uri=asked.uri)
    info = _without_ours(info, asked)
    value = info if data is None else {"info": info, "data": data}
    for found in read_mlflow_runs([value], source=source, limits=asked.limits):
        if isinstance(found, Trajectory):
            _note_missing(found, info, data, asked)
        yield found


def _without_ours(info: dict[str, Json], asked: types.PullQuery) -> dict[str, Json]:
    """Return what is known of a trace without the verdicts that were sent to it from here."""
    listed = info.get("assessments")
    if not isinstance(listed, list):
        return info
    others = [held for held in listed if not verdict_key(held)]
    asked.withhold("verdicts of ours, left there", len(listed) - len(others))
    return {**info, "assessments": others}


def verdict_key(assessment: Json) -> str:
    """Return by what a verdict of ours is told from others; "" where it is none of ours."""
    about = assessment.get("metadata") if isinstance(assessment, dict) else None
    return str(about.get(VERDICT_KEY, "")) if isinstance(about, dict) else ""


def _spans(trace_id: str, asked: types.PullQuery) -> dict[str, Json] | None:
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
    """Return a span that came over OTLP as it was sent; words that the server added stay beside."""
    held = span.get("attributes") if isinstance(span, dict) else None
    if not isinstance(held, dict) or not any(key.startswith(_OTHER_WORDS) for key in held):
        return span
    told = {k: decode_value(v, limits) for k, v in held.items() if not k.startswith(_OWN_WORDS)}
    added = {key: value for key, value in held.items() if key.startswith(_OWN_WORDS)}
    return {**span, "attributes": told, "added_by_server": added}


def _note_missing(
    run: Trajectory, info: dict[str, Json], data: dict[str, Json] | None, asked: types.PullQuery
) -> None:
    if data is None:
        asked.withhold("traces without their spans", 1)
        return
    told = info.get("trace_metadata")
    sizes = told.get("mlflow.trace.sizeStats") if isinstance(told, dict) else None
    stats = decode_object(sizes, asked.limits)
    recorded = find_count(stats, "num_spans") if isinstance(stats, dict) else None
    ids = {span.id for span in run.spans}
    missing = len({span.parent for span in run.spans if span.parent} - ids)
    if recorded is not None:
        missing = max(missing, recorded - len(ids))
    asked.withhold("spans referenced and not returned", missing)
    unresolved = sum("mlflow-attachment://" in str(span.attributes) for span in run.spans)
    asked.withhold("spans with attachments, which are not fetched", unresolved)


_SOURCES: dict[Annotator, str] = {"CODE": "CODE", "HUMAN": "HUMAN", "LLM": "LLM_JUDGE"}


class MlflowSender:
    """One experiment of one server."""

    def __init__(self, client: Client, place: str) -> None:
        """Find the experiment called `place`, or make it."""
        self._client = client
        self._experiment = find_experiment(client, place)
        if self._experiment is None:
            made = client.post("/api/2.0/mlflow/experiments/create", {"name": place}).value
            self._experiment = str(made["experiment_id"])

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        kind, headers = "application/json", {"x-mlflow-experiment-id": self._experiment or ""}
        self._client.send("POST", "/v1/traces", content=body, kind=kind, headers=headers)

    def verdicts(self, found: Sequence[types.Evaluation], *, fresh: bool) -> int:
        """Assess the trace of a run and its spans."""
        trace_id = f"tr-{found[0].trace.removeprefix('tr-')}"
        info = read_trace_info(self._client, trace_id)
        if info is None:
            return len(found)
        there = {verdict_key(one): one for one in info.get("assessments") or () if verdict_key(one)}
        path = f"/api/3.0/mlflow/traces/{quote(trace_id, safe='')}/assessments"
        for each in found:
            wanted = _assessment(each, trace_id)
            held = there.get(each.key)
            if held is None:
                self._client.post(path, {"assessment": wanted})
            elif any(held.get(key) != wanted.get(key) for key in ("feedback", "rationale")):
                named = str(held.get("assessment_id"))
                fields = [key for key in ("feedback", "rationale", "metadata") if key in wanted]
                about = {**wanted, "assessment_id": named}
                body = {"assessment": about, "update_mask": ",".join(fields)}
                self._client.post(f"{path}/{quote(named, safe='')}", body, method="PATCH")
        return 0


def _assessment(each: types.Evaluation, trace_id: str) -> dict[str, Json]:
    """Return a verdict as an assessment; every value of its metadata is text."""
    metadata = {VERDICT_KEY: each.key, **{key: str(value) for key, value in each.about.items()}}
    if each.value is not None and each.label is not None:
        metadata["label"] = each.label
    value: Json = each.label if each.value is None else each.value
    about: dict[str, Json] = {
        "assessment_name": each.name,
        "trace_id": trace_id,
        "span_id": each.span,
        "source": {"source_type": _SOURCES[each.annotator], "source_id": "stepscope"},
        "feedback": {"value": value},
        "rationale": each.reason or None,
        "metadata": metadata,
    }
    return {key: held for key, held in about.items() if held is not None}
