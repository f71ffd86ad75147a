"""The web application: which address gives which page or file; the store is asked once for each.

Every request has passed `web.guard` before; no figure is computed here. Downloads leave as
attachments under names of ours; a text that a spreadsheet would take for a formula gets an
apostrophe before it (OWASP, CSV Injection), and hidden characters are spelt out. An open page
hears of changes by server-sent events of one kind, `store` (HTML Living Standard, 9.2).
"""

from __future__ import annotations

import asyncio
import csv
import io
import re
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib import import_module
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import combinations, islice
from pathlib import Path
from typing import NamedTuple, cast

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from stepscope.api.calibration import list_calibration
from stepscope.api.reader import StoreReader, StoreState
from stepscope.errors import EnvironmentFault, StepscopeError, UsageError
from stepscope.gates.looks import GateHistory, read_gate_history
from stepscope.report.build import build_report, read_chosen_runs
from stepscope.report.compare import compare_groups
from stepscope.report.document import EmptyNotice, ServerLinks
from stepscope.report.render import pages, run_page
from stepscope.report.render.data import read_gate_reports
from stepscope.report.rows import hide_texts
from stepscope.report.types import ComparisonReport, Report
from stepscope.report.views.run import RunData, read_run
from stepscope.report.views.runs import QUERY_FIELDS, RunListRow, RunQuery, make_run_rows
from stepscope.report.views.show import show_run_json
from stepscope.report.words import name_group
from stepscope.safety.offline import accepted_hosts
from stepscope.safety.redact import scrub_message
from stepscope.safety.text import escape_formula, render_json
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.where import Where, combine_filters
from stepscope.web.guard import WebGuard, WebPolicy


class RunSelection(NamedTuple):
    """Which runs a page speaks of, and how they are grouped, as the command line says it."""

    where: str | None
    since: str | None
    by: str | None


def parse_choice(query: QueryParams) -> RunSelection:
    """Return what an address chooses."""
    return RunSelection(*(query.get(name) or None for name in ("where", "since", "by")))


def parse_run_query(query: QueryParams) -> RunQuery:
    """Return which runs the table of an address shows, and how ordered."""
    fields = {name: query.get(name, "") for name in QUERY_FIELDS}
    down, page = query.get("desc") == "1", parse_whole_number(query, "page") or 0
    return RunQuery(text=query.get("q", ""), **fields, descending=down, page=page)


def parse_whole_number(query: QueryParams, name: str) -> int | None:
    """Return a whole number from 0 of an address; None without it, UsageError for anything else."""
    text = query.get(name)
    if text is None or text == "":
        return None
    # More digits than any step or page has; Python refuses thousands of them itself.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise UsageError(f"{name}={text!r} in the address: expected a whole number from 0")
    return int(text)


# Trials of one task that a run's page names.
MOST_TRIALS = 50


class ChosenRuns(NamedTuple):
    """The runs that an address chooses: the report over them, and a row for each."""

    report: Report
    runs: tuple[RunListRow, ...]


def get_reader(request: Request) -> StoreReader:
    """Return the one reader of the store."""
    return cast(StoreReader, request.app.state.reader)


def get_settings(request: Request) -> Settings:
    """Return the settings that hold for the store."""
    return cast(Settings, request.app.state.settings)


async def load_chosen(request: Request) -> ChosenRuns:
    """Return the report and the runs that an address chooses."""
    asked = parse_choice(request.query_params)
    seed = get_settings(request).seed

    def made(store: Store) -> ChosenRuns:
        where, since, by = combine_filters(asked.where), asked.since, asked.by
        table = read_chosen_runs(store, where=where, since=since, by=by)
        report = build_report(store, where=where, since=since, by=by, seed=seed, table=table)
        return ChosenRuns(report, make_run_rows(table, store.shown))

    return await get_reader(request).ask_once(("chosen", asked), made)


async def load_comparison(request: Request, by: str, first: str, second: str) -> ComparisonReport:
    """Return two groups compared, over the runs that an address chooses."""
    asked = parse_choice(request.query_params)
    seed = get_settings(request).seed
    where = combine_filters(asked.where, asked.since)
    return await get_reader(request).ask_once(
        ("compare", asked, by, first, second),
        lambda store: compare_groups(store, first, second, by=by, where=where, seed=seed),
    )


async def load_run_data(request: Request, run: str) -> RunData:
    """Return a run with everything that is said of it."""
    return await get_reader(request).ask_once(("run", run), lambda store: read_run(store, run))


async def load_trials(request: Request, data: RunData) -> tuple[RunListRow, ...]:
    """Return the trials of a run's task, itself among them, without their figures."""
    run = data.trajectory
    if run.task is None:
        return ()
    condition = Where("runs.workflow = ? AND runs.task = ?", (run.workflow, run.task))

    def read(store: Store) -> tuple[RunListRow, ...]:
        found = store.runs(condition)
        rows = [RunListRow.of(found, at) for at in range(min(len(found), MOST_TRIALS))]
        names = hide_texts(store.shown, [row.name for row in rows])
        return tuple(structs.replace(row, name=name) for row, name in zip(rows, names, strict=True))

    return await get_reader(request).ask(read)


async def load_gate_history(request: Request) -> tuple[GateHistory, ...]:
    """Return baselines and looks by workflow, and what the chosen runs differ in from them."""
    asked = parse_choice(request.query_params)
    gates = get_settings(request).policies
    if not gates:
        return ()
    where = combine_filters(asked.where, asked.since)
    return await get_reader(request).ask(lambda store: read_gate_history(store, gates, where=where))


_ESTIMATE = ("value", "low", "high", "level", "unit", "n", "unit_of_n", "n_tasks", "n_unmeasured")


def csv_response(rows: Sequence[dict[str, object]], name: str) -> Response:
    """Return rows as a CSV file; the keys of the first are its header."""
    out = io.StringIO()
    writer = csv.writer(out)
    if rows:
        writer.writerow(rows[0].keys())
    writer.writerows([escape_formula(value) for value in row.values()] for row in rows)
    return _attachment(out.getvalue().encode(), f"{name}.csv", "text/csv; charset=utf-8")


def json_response(value: object, name: str) -> Response:
    """Return any model value as a JSON file."""
    return _attachment(render_json(value).encode(), f"{name}.json", "application/json")


def flatten_runs(runs: Sequence[RunListRow]) -> list[dict[str, object]]:
    """Return the runs of a report, a row each; axes at fault as one text."""
    faults = (None if run.faults is None else " ".join(run.faults) for run in runs)
    rows = map(msgspec.structs.asdict, runs)
    return [row | {"faults": said} for row, said in zip(rows, faults, strict=True)]


def flatten_figures(report: Report) -> list[dict[str, object]]:
    """Return every figure of every group, a row each; an unmeasured one has kind and reason."""
    groups = [("all", report.whole), *((name_group(one), one) for one in report.profiles)]
    rows = []
    for name, profile in groups:
        for key, figure in profile.figures.items():
            row: dict[str, object] = {"group": name, "figure": key}
            # What an estimate has an absence lacks, and the other way round.
            row |= {field: getattr(figure, field, None) for field in _ESTIMATE}
            rows.append(row | {x: getattr(figure, x, "") for x in ("kind", "reason")})
    return rows


def _attachment(content: bytes, name: str, media_type: str) -> Response:
    disposition = f'attachment; filename="{name}"'
    return Response(content, media_type=media_type, headers={"Content-Disposition": disposition})


# Seconds between two looks at the store: a batch of `score` takes about a third of one.
POLL_SECONDS = 1.0
# Seconds after which an idle stream says that it lives, so that a closed one is noticed.
KEEP_ALIVE_SECONDS = 15.0


async def stream_states(reader: StoreReader, every: float = POLL_SECONDS) -> AsyncIterator[str]:
    """Yield an event for each new state of the store; end when it cannot be read any more."""
    told: StoreState | None = None
    silent = 0.0
    while True:
        try:
            found = await reader.state()
        except StepscopeError:
            # The next page that is asked says why.
            return
        if found != told:
            told, silent = found, 0.0
            yield f"event: store\ndata: {msgspec.json.encode(found._asdict()).decode()}\n\n"
        elif silent >= KEEP_ALIVE_SECONDS:
            silent = 0.0
            yield ": alive\n\n"
        await asyncio.sleep(every)
        silent += every


MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def files_below(folder: Traversable, at: str) -> Iterator[tuple[str, Response]]:
    """Yield the files of a folder as responses, by name."""
    for entry in folder.iterdir():
        name = at + entry.name
        if entry.is_dir():
            yield from files_below(entry, name + "/")
        elif (suffix := name[name.rfind(".") :]) in MEDIA_TYPES:
            content = entry.read_bytes()
            tag = f'"{sha256(content).hexdigest()[:32]}"'
            headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
            yield name, Response(content, media_type=MEDIA_TYPES[suffix], headers=headers)


_SHA256 = re.compile(r"[0-9a-f]{64}")


async def static_asset(request: Request) -> Response:
    """Return a script or a style of the package."""
    found = cast(dict[str, Response], request.app.state.files).get(request.path_params["name"])
    if found is None:
        raise HTTPException(404, "no such file")
    if request.headers.get("if-none-match") == found.headers["ETag"]:
        headers = {name: found.headers[name] for name in ("ETag", "Cache-Control")}
        return Response(status_code=304, headers=headers)
    return found


async def favicon(request: Request) -> Response:
    """Return nothing: a browser asks for it beside a record, which has no head to say so."""
    return Response(status_code=204)


async def event_stream(request: Request) -> Response:
    """Return a stream that says how far the store is, until the page is closed."""
    return StreamingResponse(stream_states(get_reader(request)), media_type="text/event-stream")


def chosen_file(make: Callable[[ChosenRuns], Response]) -> Callable[..., Awaitable[Response]]:
    """Return what answers a request with a file of the runs that its address chooses."""

    async def answer(request: Request) -> Response:
        return make(await load_chosen(request))

    return answer


async def run_json(request: Request) -> Response:
    """Return a run with its case, its records and its suspects as JSON."""
    name = request.path_params["run"]
    text = await get_reader(request).ask(lambda store: show_run_json(store, name))
    return json_response(msgspec.Raw(text.encode()), "run")


async def raw_step(request: Request) -> Response:
    """Return one step as it is stored, its hidden characters escaped: `?step=K`."""
    steps = (await load_run_data(request, request.path_params["run"])).trajectory.steps
    at = parse_whole_number(request.query_params, "step")
    if at is None or at >= len(steps):
        raise HTTPException(404, f"the run has no such step; its steps are 0 to {len(steps) - 1}")
    return Response(render_json(steps[at]), media_type="application/json")


async def media_blob(request: Request) -> Response:
    """Return an image, audio or file of a run as an attachment, by the sha256 of its bytes."""
    name = request.path_params["sha256"]
    content = None
    if _SHA256.fullmatch(name):
        content = await get_reader(request).ask(lambda store: store.blob(name))
    if content is None:
        raise HTTPException(404, "the store has no such blob")
    # Of a type that nothing opens by itself.
    return _attachment(content, f"{name[:16]}.bin", "application/octet-stream")


_figures_file = chosen_file(lambda x: csv_response(flatten_figures(x.report), "figures"))
FILE_ROUTES = [
    Route("/favicon.ico", favicon),
    Route("/static/{name:path}", static_asset),
    Route("/run/{run}/raw", raw_step),
    Route("/api/events", event_stream),
    Route("/api/runs.csv", chosen_file(lambda x: csv_response(flatten_runs(x.runs), "runs"))),
    Route("/api/runs.json", chosen_file(lambda x: json_response(x.runs, "runs"))),
    Route("/api/figures.csv", _figures_file),
    Route("/api/report.json", chosen_file(lambda x: json_response(x.report, "report"))),
    Route("/api/run/{run}", run_json),
    Route("/api/blob/{sha256}", media_blob),
]
# The last of them is on every page, the others only where there is a chart.
SCRIPTS = tuple(f"/static/{name}" for name in (*pages.CHART_SCRIPTS, "app.js"))
# Characters of one text on a page; the whole of it is a click away.
CLIP = 20_000
# Pairs of runs, and of groups, that the page of comparisons offers.
MOST_PAIRS = 20


async def overview_page(request: Request) -> Response:
    """Return the vector of every group, where to look first, and the runs."""
    found = await load_chosen(request)
    documents = read_gate_reports(request.app.state.gates)
    last = documents[-1].report if documents else None
    links, query = _links(request), parse_run_query(request.query_params)
    page = pages.make_overview_page(
        found.report, found.runs, links=links, query=query, decided=last
    )
    return render_response(request, page)


async def show_run(request: Request) -> Response:
    """Return one run around its first suspect, around `?step=K`, or from `?from=K` on."""
    data = await load_run_data(request, request.path_params["run"])
    step = parse_whole_number(request.query_params, "step")
    first = parse_whole_number(request.query_params, "from")
    count = len(data.trajectory.steps)
    window = None
    if first is not None:
        window = range(first, first + run_page.WINDOW)
    elif step is not None:
        window = run_page.choose_window(count, min(step, count - 1))
    others = await load_trials(request, data)
    links, find = _links(request), request.query_params.get("find", "")
    page = run_page.make_run_page(
        data, links=links, window=window, clip=CLIP, others=others, find=find
    )
    return render_response(request, page)


async def runs_page(request: Request) -> Response:
    """Return the runs to look at first, one of which is to be chosen."""
    found = await load_chosen(request)
    return render_response(request, pages.make_run_choice_page(found.report, links=_links(request)))


async def compare_page(request: Request) -> Response:
    """Return two runs (`?run=&with=`) or two groups (`?by=&a=&b=`) side by side, or a choice."""
    query = request.query_params
    links = _links(request)
    if query.get("run") and query.get("with"):
        first = await load_run_data(request, query["run"])
        second = await load_run_data(request, query["with"])
        return render_response(request, pages.make_runs_page(first, second, links=links))
    if query.get("a") and query.get("b"):
        report = await load_comparison(request, query.get("by") or "agent", query["a"], query["b"])
        return render_response(request, pages.make_groups_page(report))
    found = await load_chosen(request)
    pairs, groups = pair_unlike_trials(found.runs, links), pair_groups(found.report, links)
    page = pages.make_choice_page(links=links, pairs=tuple(pairs), groups=tuple(groups))
    return render_response(request, page)


async def profile_page(request: Request) -> Response:
    """Return how often each axis was at fault, in every group."""
    found = await load_chosen(request)
    return render_response(request, pages.make_profile_page(found.report, links=_links(request)))


async def label_notice(request: Request) -> Response:
    """Return how labelling is started, and how many labels there are."""

    def count(store: Store) -> dict[str, int]:
        return dict(Counter(label.annotator for label in store.labels()))

    found = await get_reader(request).ask(count)
    names = ", ".join(f"{n:,} by {who}" for who, n in sorted(found.items()))
    said = f"Labels so far: {names}." if names else "Nobody has labelled anything here yet."
    why = EmptyNotice(said, commands=("stepscope label --annotator NAME",))
    body = pages.lay_out("message_page", anchor="label", title="Labels of people", why=why)
    return render_response(request, pages.Page(name="label", title="Label", body=body))


async def calibration_page(request: Request) -> Response:
    """Return whether the judges can be trusted, over all runs of the store."""
    settings = get_settings(request)
    found = await get_reader(request).ask_once(
        ("calibration",), lambda store: list_calibration(store, settings)
    )
    return render_response(request, pages.make_calibration_page(*found))


async def gates_page(request: Request) -> Response:
    """Return the gates as they were decided, and what the runs would change in a baseline."""
    documents = read_gate_reports(request.app.state.gates)
    held = await load_gate_history(request)
    page = pages.make_gates_page(documents, links=_links(request), kept=held)
    return render_response(request, page)


def pair_unlike_trials(runs: Iterable[RunListRow], links: ServerLinks) -> Iterator[tuple[str, str]]:
    """Yield a passing and a failing run of the same task, by name and address."""
    tasks: dict[tuple[str, str], dict[str, RunListRow]] = {}
    for row in runs:
        if row.task:
            tasks.setdefault((row.workflow, row.task), {}).setdefault(row.outcome, row)
    both = (found for found in tasks.values() if {"pass", "fail"} <= found.keys())
    for found in islice(both, MOST_PAIRS):
        failed, passed = found["fail"], found["pass"]
        address = links.pair(failed.id, passed.id)
        if address is not None:
            yield f"{failed.name} and {passed.name}", address


def pair_groups(report: Report, links: ServerLinks) -> Iterator[tuple[str, str]]:
    """Yield the groups of a report that differ in one field, two by two, by name and address."""
    for first, second in islice(combinations(report.profiles, 2), MOST_PAIRS):
        fields = [f for f, value in first.group.items() if second.group.get(f) != value]
        values = [(p.group[fields[0]] or "") for p in (first, second)] if len(fields) == 1 else []
        if all(values) and values:
            address = links.groups(fields[0], *values)
            if address is not None:
                yield f"{name_group(first)} and {name_group(second)}", address


def message_page(request: Request, status: int, title: str, said: EmptyNotice) -> Response:
    """Return why there is no page, and what to run."""
    body = pages.lay_out("message_page", anchor="message", title=title, why=said)
    page = pages.Page(name="overview", title=title, body=body)
    # What was chosen may be what is wrong: no address keeps it.
    return render_response(request, page, status, links=ServerLinks())


def load_libraries() -> None:
    """Load what the first page would wait for: statistics and templates."""
    import_module("scipy.special")
    pages.open_macros()


def render_response(
    request: Request, page: pages.Page, status: int = 200, *, links: ServerLinks | None = None
) -> Response:
    """Return a page as a document with its navigation."""
    links = links or _links(request)
    named = pages.NAVIGATION.items()
    listed = [(links.page(name), label, name == page.name) for name, label in named]
    head = lay_out_head(page, listed, kept=links.kept, events="/api/events")
    specs = pages.embed_specs(chart.spec for chart in page.charts)
    scripts = SCRIPTS if page.charts else SCRIPTS[-1:]
    foot = pages.lay_out("foot", str(get_reader(request).path), specs, addresses=scripts)
    return HTMLResponse(head + page.body + foot, status)


def lay_out_head(page: pages.Page, listed: Sequence[tuple[str, str, bool]], **more: object) -> str:
    """Return the head of a document of a server; `listed` are addresses, names, and which is it."""
    title, styles = f"{page.title} · stepscope", ("/static/app.css",)
    return pages.lay_out("head", title, "server", listed, page=page.name, styles=styles, **more)


def _links(request: Request) -> ServerLinks:
    query = request.query_params
    return ServerLinks({key: query[key] for key in ("where", "since", "by") if query.get(key)})


PAGE_ROUTES = [
    Route("/", overview_page),
    Route("/run", runs_page),
    Route("/run/{run}", show_run),
    Route("/compare", compare_page),
    Route("/profile", profile_page),
    Route("/label", label_notice),
    Route("/calibration", calibration_page),
    Route("/gates", gates_page),
]


def new_token() -> str:
    """Return a secret that opens one start of the server: 256 random bits."""
    return secrets.token_urlsafe(32)


def make_web_app(
    store_path: str | Path,  # the store, which must be there
    *,
    token: str,  # what opens the printed address
    port: int,  # where the server listens: part of the only Host it answers to
    host: str = "127.0.0.1",  # the address it listens at
    settings: Settings | None = None,  # of the store; the defaults when left out
    gates: Sequence[Path] = (),  # files that `stepscope gate --json` wrote, the latest last
) -> WebGuard:
    """Return the application for one store, behind its door."""
    held = settings or Settings()
    reader = StoreReader(store_path, held.redaction)

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        # Beside the server, which answers already: a browser takes as long to open.
        warming = asyncio.get_running_loop().run_in_executor(None, load_libraries)
        yield
        await warming
        await reader.close()

    errors = {StepscopeError: _error_page, HTTPException: _show_http_error, Exception: show_bug}
    routes = [*PAGE_ROUTES, *FILE_ROUTES]
    app = Starlette(routes=routes, lifespan=living, exception_handlers=errors)
    app.state.reader = reader
    app.state.settings = held
    app.state.files = dict(files_below(files("stepscope.report.render") / "static", ""))
    app.state.gates = tuple(gates)
    hosts, cookie = accepted_hosts(host, port), f"stepscope-{port}"
    return WebGuard(app, WebPolicy(hosts=hosts, cookie=cookie, session=new_token()), token)


async def _error_page(request: Request, error: Exception) -> Response:
    # The first page of a new store is no error: it says what to run.
    if request.url.path == "/" and not request.url.query and isinstance(error, UsageError):
        commands = ("stepscope import PATHS", "stepscope score")
        said = EmptyNotice(scrub_message(str(error)), commands=commands)
        return message_page(request, 200, "Nothing to see yet", said)
    status = 503 if isinstance(error, EnvironmentFault) else 400
    said = EmptyNotice(scrub_message(str(error)))
    return message_page(request, status, "This cannot be shown", said)


async def _show_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = EmptyNotice(error.detail if error.detail != "Not Found" else "no page is here")
    return message_page(request, error.status_code, "This is not here", said)


async def show_bug(request: Request, error: Exception) -> Response:
    """Return that there is a bug, without what it quotes."""
    # The command line writes it down, as for every bug; the browser is not told what it quotes.
    sys.excepthook(type(error), error, error.__traceback__)
    said = f"a bug in stepscope ({type(error).__name__}), not in your store; see the terminal"
    return PlainTextResponse(f"{said}\n", 500)
