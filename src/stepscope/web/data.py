"""Addresses that give files, not pages: scripts, tables to take away, records, media, events."""

from __future__ import annotations

import re
from typing import cast

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from stepscope.report.show import show_json
from stepscope.safety.text import escaped_json
from stepscope.web import downloads
from stepscope.web.answers import chosen, reader, run_data
from stepscope.web.asked import number
from stepscope.web.events import states
from stepscope.web.files import StaticFile

_SHA256 = re.compile(r"[0-9a-f]{64}")


async def static(request: Request) -> Response:
    """Return a script or a style of the package."""
    files = cast(dict[str, StaticFile], request.app.state.files)
    found = files.get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "no such file")
    headers = {"ETag": found.etag, "Cache-Control": "private, no-cache"}
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


async def favicon(request: Request) -> Response:
    """Return nothing: a browser asks for it beside a record, which has no head to say so."""
    return Response(status_code=204)


async def events(request: Request) -> Response:
    """Return a stream that says how far the store is, until the page is closed."""
    return StreamingResponse(states(reader(request)), media_type="text/event-stream")


async def runs_csv(request: Request) -> Response:
    """Return the chosen runs as CSV."""
    return downloads.as_csv(downloads.run_rows((await chosen(request)).runs), "runs")


async def runs_json(request: Request) -> Response:
    """Return the chosen runs as JSON."""
    return downloads.as_json((await chosen(request)).runs, "runs")


async def figures_csv(request: Request) -> Response:
    """Return every figure of the chosen runs as CSV."""
    return downloads.as_csv(downloads.figure_rows((await chosen(request)).report), "figures")


async def report_json(request: Request) -> Response:
    """Return the report over the chosen runs as JSON."""
    return downloads.as_json((await chosen(request)).report, "report")


async def run_json(request: Request) -> Response:
    """Return a run with its case, its records and its suspects as JSON."""
    name = request.path_params["run"]
    text = await reader(request).ask(lambda store: show_json(store, name))
    return downloads.as_json(msgspec.Raw(text.encode()), "run")


async def raw(request: Request) -> Response:
    """Return one step as it is stored, its hidden characters escaped: `?step=K`."""
    steps = (await run_data(request, request.path_params["run"])).trajectory.steps
    at = number(request.query_params, "step")
    if at is None or at >= len(steps):
        raise HTTPException(404, f"the run has no such step; its steps are 0 to {len(steps) - 1}")
    text = msgspec.json.format(msgspec.json.encode(steps[at])).decode()
    return Response(escaped_json(text), media_type="application/json")


async def blob(request: Request) -> Response:
    """Return an image, audio or file of a run as an attachment, by the sha256 of its bytes."""
    name = request.path_params["sha256"]
    content = None
    if _SHA256.fullmatch(name):
        content = await reader(request).ask(lambda store: store.blob(name))
    if content is None:
        raise HTTPException(404, "the store has no such blob")
    return downloads.as_blob(content, name[:16])


ROUTES = [
    Route("/favicon.ico", favicon),
    Route("/static/{name:path}", static),
    Route("/run/{run}/raw", raw),
    Route("/api/events", events),
    Route("/api/runs.csv", runs_csv),
    Route("/api/runs.json", runs_json),
    Route("/api/figures.csv", figures_csv),
    Route("/api/report.json", report_json),
    Route("/api/run/{run}", run_json),
    Route("/api/blob/{sha256}", blob),
]
