"""Pull traces from LangSmith through its API, and send spans and feedback to it.

Root runs are listed by when they began, and the runs of each of their traces then read whole.
Nothing tells which runs changed: `last` looks back an hour behind the newest root of the previous
pull, and again at every trace that was not at its end. Inputs and outputs that the API gives as
addresses of a file store are counted, and not fetched. Spans go in as OTLP; the server derives the
id of a run from that of its span. Feedback has an id of ours: sent again, it takes the place of
the earlier one. Source: langsmith 0.15.0, `client.py`, `list_runs`, `_get_cursor_paginated_list`,
`create_feedback`, `update_feedback`; `integrations/otel`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from uuid import UUID, uuid5

import msgspec

from stepscope.backends import types
from stepscope.backends.client import Client, Rejected
from stepscope.errors import UsageError
from stepscope.formats.fields import parse_time
from stepscope.formats.langsmith_files import FORMAT as READER
from stepscope.model import Json, Stream
from stepscope.safety.json import Decoded

FORMAT = "langsmith"
_QUERY = "/runs/query"
_PAGE = 100
_LOOK_BACK_NS = 3_600_000_000_000
# LangSmith is younger; without a time it would list the last days only.
_EVER = "2020-01-01T00:00:00+00:00"
_NEWEST, _OPEN = "newest_ns", "in_progress"
_OPEN_MOST = 10_000
# What is asked of a run: the server leaves out fields that are not named.
_FIELDS = (
    "app_path completion_cost completion_cost_details completion_token_details completion_tokens"
    " dotted_order end_time error events extra feedback_stats first_token_time id inputs"
    " inputs_s3_urls name outputs outputs_s3_urls parent_run_id prompt_cost prompt_cost_details"
    " prompt_token_details prompt_tokens reference_example_id run_type s3_urls session_id"
    " start_time status tags total_cost total_tokens trace_id"
).split()
_ELSEWHERE = ("inputs", "outputs")
# Of a key of feedback that was sent from here.
OUR_PREFIX = "stepscope."


def fetch_langsmith(asked: types.PullQuery) -> Iterator[types.PulledItem]:
    """Yield the runs of the traces that are asked for."""
    project = find_project(asked.client, asked.place)
    if project is None:
        raise UsageError(f"{asked.client.access.host} has no project {asked.place!r}")
    mark = asked.mark or {}
    began = newest if isinstance(newest := mark.get(_NEWEST), int) else None
    first = asked.since_ns if began is None else began - _LOOK_BACK_NS
    unfinished: list[str] = []
    known = set[str]()
    body: dict[str, Json] = {
        "session": [project],
        "is_root": True,
        "start_time": _EVER if first is None else types.iso_time(first),
        "select": ["id", "trace_id", "start_time", "end_time", "status"],
    }
    for root in _pages(body, asked):
        trace_id = str(root.get("trace_id") or root.get("id"))
        start = parse_time(root.get("start_time"))
        if start is not None:
            began = start.ns if began is None else max(began, start.ns)
        if root.get("end_time") is None:
            unfinished.append(trace_id)
        if trace_id not in known:
            known.add(trace_id)
            yield from _read(project, trace_id, asked)
    for trace_id in mark.get(_OPEN) or ():
        if trace_id not in known:
            yield from _read(project, str(trace_id), asked)
    dropped = len(unfinished) - _OPEN_MOST
    asked.withhold("traces in progress that `last` will not look at again", dropped)
    asked.told.mark = {_NEWEST: began, _OPEN: unfinished[-_OPEN_MOST:]}


def find_project(client: Client, name: str) -> str | None:
    """Return the id of the project of that name, None where there is none."""
    value = client.get("/sessions", {"name": name, "limit": 1}).value
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise client.access.misdirected("a list of projects")
    return next((str(each["id"]) for each in value if each.get("name") == name), None)


def _pages(body: dict[str, Json], asked: types.PullQuery) -> Iterator[dict[str, Json]]:

    def ask(limit: int, cursor: dict[str, str]) -> Decoded:
        return asked.client.post(_QUERY, {**body, "limit": limit, **cursor})

    for page in types.iter_pages(ask, _PAGE, asked, "cursors", "next"):
        yield from types.list_objects(page, "runs", asked)


def _read(project: str, trace_id: str, asked: types.PullQuery) -> Iterator[types.PulledItem]:
    body: dict[str, Json]
    body = {"session": [project], "trace": trace_id, "start_time": _EVER, "select": _FIELDS}
    listed = [_without_ours(run) for run in _pages(body, asked)]
    withheld = asked.told.withheld
    if not listed:
        withheld["traces listed and not returned"] += 1
        return
    ids = {run.get("id") for run in listed}
    named = {run.get("parent_run_id") for run in listed} - {None}
    for run in listed:
        for side in _ELSEWHERE:
            if run.get(f"{side}_s3_urls") and not run.get(side):
                withheld[f"{side} kept in a file store, not fetched"] += 1
        if run.get("s3_urls"):
            withheld["runs with attachments, which are not fetched"] += 1
        if run.get("feedback_stats"):
            withheld["runs with feedback, of which the sums are taken"] += 1
    asked.withhold("spans referenced and not returned", len(named - ids))
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in listed)
    yield from READER.read(Stream(io.BytesIO(lines), asked.uri, asked.limits))


def _without_ours(run: dict[str, Json]) -> dict[str, Json]:
    """Return a run without the sums of feedback that was sent from here."""
    stats = run.get("feedback_stats")
    if not isinstance(stats, dict):
        return run
    others = {key: held for key, held in stats.items() if not key.startswith(OUR_PREFIX)}
    return {**run, "feedback_stats": others or None}


# The namespace of the ids that are made here; any fixed one will do.
_NAMESPACE = UUID("6f0d6a0e-9d0f-5b1e-8f52-0d2b3a7c5e11")


class LangsmithSender:
    """One project of one workspace."""

    def __init__(self, client: Client, place: str) -> None:
        """Send to the project called `place`, which LangSmith makes where there is none."""
        self._client = client
        self._place = place

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        headers = {"langsmith-project": self._place}
        types.send_protobuf(self._client, "/otel/v1/traces", body, headers)

    def verdicts(self, found: Sequence[types.Evaluation], *, fresh: bool) -> int:
        """Give feedback on the runs of a trace; return how many are about runs not there."""
        absent = 0
        for each in found:
            run_id = _run_id(each.span or each.root)
            about: dict[str, Json] = {
                "id": str(uuid5(_NAMESPACE, f"{run_id} {each.key}")),
                "run_id": run_id,
                "key": f"{OUR_PREFIX}{each.name}",
                "score": each.value,
                "value": each.label,
                "comment": each.reason or None,
                "feedback_source": {
                    "type": "model" if each.annotator == "LLM" else "api",
                    "metadata": each.about,
                },
            }
            feedback = {key: held for key, held in about.items() if held is not None}
            try:
                self._client.post("/feedback", feedback)
            except Rejected as e:
                if e.status == 404:
                    absent += 1
                elif e.status == 409:  # it is there: what may have changed is changed
                    changed = {key: feedback.get(key) for key in ("score", "value", "comment")}
                    self._client.post(f"/feedback/{feedback['id']}", changed, method="PATCH")
                else:
                    raise
        return absent


def _run_id(span: str) -> str:
    """Return the id of the run that a span is: its own, or what the server derives from it."""
    try:
        return str(UUID(hex=span))
    except ValueError:
        return str(UUID(int=int(span, 16)))
