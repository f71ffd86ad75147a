"""Addresses that give pages: what was read is laid out by `report.pages` and rendered there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import combinations, islice

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from stepscope.report import charts, pages
from stepscope.report.gate_json import gate_documents
from stepscope.report.pages.links import ServerLinks
from stepscope.report.pages.page import Empty, Page
from stepscope.report.pages.rendering import NAVIGATION, Shell, document, environment
from stepscope.report.pages.run import WINDOW
from stepscope.report.pages.runs import RunRow
from stepscope.report.types import Report
from stepscope.web.answers import (
    chosen,
    comparison,
    kept_of_gates,
    reader,
    run_data,
    same_task,
)
from stepscope.web.asked import kept, number, run_query

STYLES = ("/static/app.css",)
SCRIPTS = ("/static/app.js",)
CHARTS = (
    "/static/vendor/vega.min.js",
    "/static/vendor/vega-lite.min.js",
    "/static/vendor/vega-embed.min.js",
)
# Charts that most stores show; each of the others is made when it is first asked for.
FIRST_CHARTS = ("vector", "earned", "labels_break", "curve_break", "axes", "shapes")
# Characters of one text on a page; the whole of it is a click away.
CLIP = 20_000
# Pairs of runs, and of groups, that the page of comparisons offers.
MOST_PAIRS = 20


async def overview(request: Request) -> Response:
    """Return the vector of every group, where to look first, and the runs."""
    found = await chosen(request)
    documents = gate_documents(request.app.state.gates)
    page = pages.overview(
        found.report,
        found.runs,
        links=_links(request),
        query=run_query(request.query_params),
        gates=documents[-1].report if documents else None,
    )
    return rendered(request, page)


async def run(request: Request) -> Response:
    """Return one run around its first suspect, around `?step=K`, or from `?from=K` on."""
    data = await run_data(request, request.path_params["run"])
    step = number(request.query_params, "step")
    first = number(request.query_params, "from")
    count = len(data.trajectory.steps)
    window = None
    if first is not None:
        window = range(first, first + WINDOW)
    elif step is not None:
        window = pages.window_around(count, min(step, count - 1))
    others = await same_task(request, data)
    links = _links(request)
    page = pages.run(data, links=links, window=window, clip=CLIP, others=others)
    return rendered(request, page)


async def runs(request: Request) -> Response:
    """Return the runs to look at first, one of which is to be chosen."""
    found = await chosen(request)
    return rendered(request, pages.no_run(found.report, links=_links(request)))


async def compared(request: Request) -> Response:
    """Return two runs (`?run=&with=`) or two groups (`?by=&a=&b=`) side by side, or a choice."""
    query = request.query_params
    links = _links(request)
    if query.get("run") and query.get("with"):
        first = await run_data(request, query["run"])
        second = await run_data(request, query["with"])
        return rendered(request, pages.compare_runs(first, second, links=links))
    if query.get("a") and query.get("b"):
        by = query.get("by") or "agent"
        report = await comparison(request, by, query["a"], query["b"])
        return rendered(request, pages.compare_groups(report, links=links))
    found = await chosen(request)
    page = pages.compare_choice(
        links=links,
        pairs=tuple(unlike_trials(found.runs, links)),
        groups=tuple(groups(found.report, links)),
    )
    return rendered(request, page)


async def profile(request: Request) -> Response:
    """Return how often each axis was at fault, in every group."""
    found = await chosen(request)
    return rendered(request, pages.profile(found.report, links=_links(request)))


async def gates(request: Request) -> Response:
    """Return the gates as they were decided, and what the runs would change in a baseline."""
    documents = gate_documents(request.app.state.gates)
    held = await kept_of_gates(request)
    page = pages.gates(documents, links=_links(request), kept=held)
    return rendered(request, page)


def unlike_trials(runs: Iterable[RunRow], links: ServerLinks) -> Iterator[tuple[str, str]]:
    """Yield a passing and a failing run of the same task, by name and address."""
    tasks: dict[tuple[str, str], dict[str, RunRow]] = {}
    for row in runs:
        if row.task:
            tasks.setdefault((row.workflow, row.task), {}).setdefault(row.outcome, row)
    both = (found for found in tasks.values() if {"pass", "fail"} <= found.keys())
    for found in islice(both, MOST_PAIRS):
        failed, passed = found["fail"], found["pass"]
        address = links.pair(failed.id, passed.id)
        if address is not None:
            yield f"{failed.name} and {passed.name}", address


def groups(report: Report, links: ServerLinks) -> Iterator[tuple[str, str]]:
    """Yield the groups of a report that differ in one field, two by two, by name and address."""
    for first, second in islice(combinations(report.profiles, 2), MOST_PAIRS):
        fields = [f for f, value in first.group.items() if second.group.get(f) != value]
        values = [(p.group[fields[0]] or "") for p in (first, second)] if len(fields) == 1 else []
        if all(values) and values:
            address = links.groups(fields[0], *values)
            if address is not None:
                yield f"{first.title} and {second.title}", address


def message(request: Request, status: int, title: str, said: Empty) -> Response:
    """Return why there is no page, and what to run."""
    page = Page(
        name="overview", title=title, template="message.html", anchor="message", content=said
    )
    # What was chosen may be what is wrong: no address keeps it.
    return rendered(request, page, status, links=ServerLinks())


def warm() -> None:
    """Load what the first page would wait for: statistics, templates, charts."""
    import_module("scipy.special")
    for name in environment().list_templates():
        environment().get_template(name)
    for name in FIRST_CHARTS:
        charts.spec(name)


def rendered(
    request: Request, page: Page, status: int = 200, *, links: ServerLinks | None = None
) -> Response:
    """Return a page as a document with its navigation."""
    links = links or _links(request)
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


ROUTES = [
    Route("/", overview),
    Route("/run", runs),
    Route("/run/{run}", run),
    Route("/compare", compared),
    Route("/profile", profile),
    Route("/gates", gates),
]
