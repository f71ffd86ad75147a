"""Pull traces from Langfuse through its public API, and send spans and scores to it.

Observations are listed by when they began; the traces that they are of are then read whole, with
their scores. Nothing tells which observations changed: `last` looks back an hour behind the newest
one of the previous pull. Values of metadata come cut to 200 characters unless their keys are
named, so they are asked for once more by name. Spans go in as OTLP; a score with the id and the
time of an earlier one takes its place. Source: langfuse 5.0.4, `api/observations/client.py`,
`api/scores/client.py`, `api/scores/types/create_score_request.py`, `api/opentelemetry`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.backends import types
from stepscope.backends.client import Client, QueryValue
from stepscope.errors import EnvironmentFault
from stepscope.formats.fields import parse_time
from stepscope.formats.langfuse_files import read_langfuse_runs
from stepscope.formats.otlp.values import TRACE_DIGITS, make_id
from stepscope.model import Json, Source
from stepscope.safety.json import Decoded

FORMAT = "langfuse"
_OBSERVATIONS = "/api/public/v2/observations"
_SCORES = "/api/public/v3/scores"
# Every group of fields that there is.
_FIELDS = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
_LISTED, _WHOLE, _SCORED = 1000, 200, 100
_TRACES = 20
_METADATA_CUT = 200
_LOOK_BACK_NS = 3_600_000_000_000
_NEWEST = "newest_ns"


def fetch_langfuse(asked: types.PullQuery) -> Iterator[types.PulledItem]:
    """Yield the runs of the traces that are asked for."""
    newest = (asked.mark or {}).get(_NEWEST)
    first = newest - _LOOK_BACK_NS if isinstance(newest, int) else asked.since_ns
    began = [newest] if isinstance(newest, int) else []
    for batch in types.in_batches(_traces(first, began, asked), _TRACES):
        values: list[Json] = []
        for trace_id in batch:
            found = _whole({"traceId": trace_id, "fields": _FIELDS}, asked)
            if not found:
                asked.told.withheld["traces listed and not returned"] += 1
            values += found
        told = {observation.get("id") for observation in values}
        named = {observation.get("parentObservationId") for observation in values} - {None, ""}
        asked.withhold("spans referenced and not returned", len(named - told))
        # Models and tools that were recorded without what went in and came out.
        recorded = [one for one in values if one.get("type") in {"GENERATION", "TOOL"}]
        bare = [x for x in recorded if (x.get("input"), x.get("output")) == (None, None)]
        asked.withhold("observations without input and output", len(bare))
        about: dict[str, QueryValue] = {"traceId": ",".join(batch)}
        about["fields"] = "details,subject,annotation"
        for score in _entries(_SCORES, about, _SCORED, asked):
            metadata = score.get("metadata")
            if isinstance(metadata, dict) and "stepscope" in metadata:
                asked.told.withheld["verdicts of ours, left there"] += 1
                continue
            if isinstance(subject := score.get("subject"), dict):
                # The ids of the trace and the observation that it is about.
                score["traceId"] = subject.get("traceId")
                if subject.get("kind") == "observation":
                    score["observationId"] = subject.get("id")
                elif not score["traceId"]:
                    score["traceId"] = subject.get("id")
            values.append(score)
        source = Source(format=FORMAT, uri=asked.uri)
        yield from read_langfuse_runs(values, source=source, limits=asked.limits)
    asked.told.mark = {_NEWEST: max(began, default=None)}


def _traces(first: int | None, began: list[int], asked: types.PullQuery) -> Iterator[str]:
    """Yield the ids of traces of which an observation began at `first` or later, each once."""
    query: dict[str, QueryValue] = {"fields": "core"}
    if first is not None:
        query["fromStartTime"] = types.iso_time(first)
    known = set[str]()
    for observation in _entries(_OBSERVATIONS, query, _LISTED, asked):
        start = parse_time(observation.get("startTime"))
        if start is not None:
            began.append(start.ns)
            began[:] = [max(began)]
        trace_id = observation.get("traceId")
        if not isinstance(trace_id, str):
            asked.told.withheld["observations of no trace"] += 1
        elif trace_id not in known:
            known.add(trace_id)
            yield trace_id


def _entries(
    path: str, query: dict[str, QueryValue], most: int, asked: types.PullQuery
) -> Iterator[dict[str, Json]]:

    def ask(limit: int, cursor: dict[str, str]) -> Decoded:
        return asked.client.get(path, {**query, **cursor, "limit": limit})

    for page in types.iter_pages(ask, most, asked, "meta", "cursor"):
        yield from types.list_objects(page, "data", asked)


def _whole(query: dict[str, QueryValue], asked: types.PullQuery) -> list[dict[str, Json]]:
    found = list(_entries(_OBSERVATIONS, query, _WHOLE, asked))
    keys = sorted({key for entry in found for key in _cut(entry)})
    named = [key for key in keys if "," not in key]
    if not named:
        asked.told.withheld["metadata cut to 200 characters"] += len(keys)
        return found
    again = {**query, "expandMetadata": ",".join(named)}
    asked.told.withheld["metadata cut to 200 characters"] += len(keys) - len(named)
    return list(_entries(_OBSERVATIONS, again, _WHOLE, asked))


def _cut(observation: dict[str, Json]) -> Iterator[str]:
    """Yield the keys of metadata whose values may have been cut."""
    metadata = observation.get("metadata")
    for key, value in metadata.items() if isinstance(metadata, dict) else ():
        if isinstance(value, str) and len(value) >= _METADATA_CUT:
            yield key


_BATCH = 100
# Characters of a score that is a text.
_LABEL_MOST = 500


class LangfuseSender:
    """The project that the keys open."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        path, headers = "/api/public/otel/v1/traces", {"x-langfuse-ingestion-version": "4"}
        self._client.send("POST", path, content=body, kind="application/json", headers=headers)

    def verdicts(self, found: Sequence[types.Evaluation], *, fresh: bool) -> int:
        """Score the trace of a run and its observations; Langfuse takes scores of any id."""
        for batch in types.in_batches(found, _BATCH):
            told = self._client.post("/api/public/scores", [_score(each) for each in batch]).value
            rejected = told.get("rejected") if isinstance(told, dict) else None
            if rejected:
                access, errors = self._client.access, str(told.get("errors"))
                refused = f"{access.host} refused {rejected} of {len(batch)} scores"
                raise EnvironmentFault(f"{refused}: {access.scrubbed(errors)[:200]!r}")
        return 0


def _score(each: types.Evaluation) -> dict[str, Json]:
    metadata = dict(each.about)
    if each.value is not None and each.label is not None:
        metadata["label"] = each.label
    about: dict[str, Json] = {
        "id": f"stepscope-{make_id(f'{each.trace} {each.span} {each.key}', TRACE_DIGITS)}",
        "traceId": each.trace,
        "observationId": each.span,
        "name": each.name,
        "value": (each.label or "")[:_LABEL_MOST] if each.value is None else each.value,
        "dataType": "CATEGORICAL" if each.value is None else "NUMERIC",
        "comment": each.reason or None,
        "metadata": metadata,
        "timestamp": types.iso_time(each.at_ns or 0),
    }
    return {key: held for key, held in about.items() if held is not None}
