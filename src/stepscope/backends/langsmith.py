"""Pull traces from LangSmith, through its API.

Root runs are listed by when they began, and the runs of each of their traces then read whole.
Nothing tells which runs changed: `last` looks back an hour behind the newest root of the previous
pull, and again at every trace that was not at its end. Inputs and outputs that the API gives as
addresses of a file store are counted, and not fetched: an address in a trace is not followed.
Source: langsmith 0.15.0, `client.py`, `list_runs` and `_get_cursor_paginated_list`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import msgspec

from stepscope.backends.asking import Asked, Found, cursor, objects
from stepscope.backends.client import Client, TooLarge
from stepscope.backends.phoenix import iso
from stepscope.errors import EnvironmentFault, UsageError
from stepscope.formats.langsmith import FORMAT as READER
from stepscope.formats.times import instant
from stepscope.model import Json, Stream
from stepscope.safety.door import Decoded

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
OURS = "stepscope."


def fetch(asked: Asked) -> Iterator[Found]:
    """Yield the runs of the traces that are asked for.

    Raises:
        UsageError: no such project.
        EnvironmentFault: the server cannot be reached, or gives up half way.
    """
    project = _project(asked)
    mark = asked.mark or {}
    newest = mark.get(_NEWEST)
    first = newest - _LOOK_BACK_NS if isinstance(newest, int) else asked.since_ns
    began = newest if isinstance(newest, int) else None
    unfinished: list[str] = []
    known = set[str]()
    for root in _roots(project, first, asked):
        trace_id = str(root.get("trace_id") or root.get("id"))
        start = instant(root.get("start_time"))
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
    if (dropped := len(unfinished) - _OPEN_MOST) > 0:
        asked.told.withheld["traces in progress that `last` will not look at again"] += dropped
    asked.told.mark = {_NEWEST: began, _OPEN: unfinished[-_OPEN_MOST:]}


def _project(asked: Asked) -> str:
    found = project_id(asked.client, asked.place)
    if found is None:
        raise UsageError(f"{asked.client.access.host} has no project {asked.place!r}")
    return found


def project_id(client: Client, name: str) -> str | None:
    """Return the id of the project of that name, None where there is none.

    Raises:
        EnvironmentFault: the server cannot be reached, or is none of LangSmith.
    """
    value = client.get("/sessions", {"name": name, "limit": 1}).value
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise EnvironmentFault(
            f"{client.access.host} answers without a list of projects; is "
            f"{client.access.host_variable} its address?"
        )
    return next((str(each["id"]) for each in value if each.get("name") == name), None)


def _roots(project: str, first: int | None, asked: Asked) -> Iterator[dict[str, Json]]:
    body: dict[str, Json] = {
        "session": [project],
        "is_root": True,
        "start_time": _EVER if first is None else iso(first),
        "select": ["id", "trace_id", "start_time", "end_time", "status"],
    }
    return _pages(body, asked)


def _pages(body: dict[str, Json], asked: Asked) -> Iterator[dict[str, Json]]:
    """Yield runs; a page that is too large is asked for in parts."""
    body, seen = {**body, "limit": _PAGE}, set[str]()
    while True:
        try:
            page = asked.client.post(_QUERY, body)
        except TooLarge:
            if body["limit"] == 1:
                raise
            body["limit"] = max(1, body["limit"] // 8)
            continue
        yield from objects(page, "runs", asked)
        cursors = page.value.get("cursors") if isinstance(page.value, dict) else None
        following = cursor(Decoded(cursors), "next", seen, asked)
        if following is None:
            return
        body["cursor"] = following


def _read(project: str, trace_id: str, asked: Asked) -> Iterator[Found]:
    """Yield the run of one whole trace."""
    body: dict[str, Json] = {
        "session": [project],
        "trace": trace_id,
        "start_time": _EVER,
        "select": _FIELDS,
    }
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
    if missing := len(named - ids):
        withheld["spans referenced and not returned"] += missing
    lines = b"".join(msgspec.json.encode(run) + b"\n" for run in listed)
    yield from READER.read(Stream(io.BytesIO(lines), asked.uri, asked.limits))


def _without_ours(run: dict[str, Json]) -> dict[str, Json]:
    """Return a run without the sums of feedback that was sent from here."""
    stats = run.get("feedback_stats")
    if not isinstance(stats, dict):
        return run
    others = {key: held for key, held in stats.items() if not key.startswith(OURS)}
    return {**run, "feedback_stats": others or None}
