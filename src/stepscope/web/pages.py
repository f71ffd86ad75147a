"""Addresses that give pages: what was read is laid out by `report.pages` and rendered there."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from stepscope.report.pages import overview as overview_page
from stepscope.report.pages import run as run_page
from stepscope.report.pages.links import ServerLinks
from stepscope.report.pages.page import Page
from stepscope.report.pages.rendering import NAVIGATION, Shell, document
from stepscope.safety.text import visible_line
from stepscope.web.answers import chosen, reader, run_data
from stepscope.web.asked import kept, number, run_query

STYLES = ("/static/app.css",)
SCRIPTS = ("/static/app.js",)
CHARTS = (
    "/static/vendor/vega.min.js",
    "/static/vendor/vega-lite.min.js",
    "/static/vendor/vega-embed.min.js",
)
# Characters of one text on a page; the whole of it is a click away.
CLIP = 20_000


async def overview(request: Request) -> Response:
    """Return the vector of every group, where to look first, and the runs."""
    found = await chosen(request)
    query = run_query(request.query_params)
    page = overview_page.overview(found.report, found.runs, links=_links(request), query=query)
    return rendered(request, page)


async def run(request: Request) -> Response:
    """Return one run around its first suspect, around `?step=K`, or from `?from=K` on."""
    data = await run_data(request, request.path_params["run"])
    step = number(request.query_params, "step")
    first = number(request.query_params, "from")
    count = len(data.trajectory.steps)
    window = None
    if first is not None:
        window = range(first, first + run_page.WINDOW)
    elif step is not None:
        window = run_page.window_around(count, min(step, count - 1))
    page = run_page.run(data, links=_links(request), window=window, clip=CLIP)
    return rendered(request, page)


def message(request: Request, status: int, said: str) -> Response:
    """Return why there is no page, in one line."""
    return PlainTextResponse(visible_line(said) + "\n", status)


def rendered(request: Request, page: Page, status: int = 200) -> Response:
    """Return a page as a document with its navigation."""
    links = _links(request)
    shell = Shell(
        title=f"{page.title} · stepscope",
        mode="server",
        navigation=tuple(
            (links.page(name), label, name == page.name) for name, label in NAVIGATION
        ),
        styles=STYLES,
        scripts=(*CHARTS, *SCRIPTS) if page.charts else SCRIPTS,
        events="/api/events",
        about=str(reader(request).path),
    )
    return HTMLResponse(document(page, shell), status)


def _links(request: Request) -> ServerLinks:
    return ServerLinks(kept(request.query_params))


ROUTES = [Route("/", overview), Route("/run/{run}", run)]
