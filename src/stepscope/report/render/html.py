"""Write a report as one HTML file, or as HTML for a notebook.

Nothing is fetched, and only the file's own scripts run: a policy in the file allows them by hash.
The same rows give the same bytes. A script whose text would end its own element is refused. The
HTML of a notebook has no script; its pictures need the `plots` extra.
Source: Content Security Policy Level 3 (W3C), hash sources and the meta element.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Literal
from uuid import uuid4

from markupsafe import Markup

from stepscope.errors import StoreError
from stepscope.gates.looks import GateHistory
from stepscope.report.compare import compare_groups
from stepscope.report.document import Chart, FileLinks, Links, Page, Table, make_columns, make_row
from stepscope.report.formatting import describe_profile, describe_suspect
from stepscope.report.render import charts
from stepscope.report.render.pages import (
    NAVIGATION,
    PageShell,
    embed_specs,
    open_environment,
    render_body,
)
from stepscope.report.rows import combine_conditions
from stepscope.report.types import Curve, GateDocument, Report
from stepscope.report.views import curve as curve_views
from stepscope.report.views.compare import make_choice_page, make_groups_page, make_runs_page
from stepscope.report.views.gates import make_gates_page
from stepscope.report.views.overview import make_overview_page
from stepscope.report.views.panels import chart_panels
from stepscope.report.views.profile import chart_axes, chart_shapes, make_profile_page
from stepscope.report.views.run import make_run_choice_page, make_run_page
from stepscope.report.views.runs import RunListRow, read_runs
from stepscope.report.views.vector import chart_vector, tabulate_vector
from stepscope.report.views.verdicts import read_run
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import Where

Embed = int | Literal["all"]

# Runs whose steps are in the file unless it is said otherwise.
EMBED = 25
# Characters of one text in the file; `stepscope show` has the rest.
CLIP = 6_000
# Pairs of runs side by side.
PAIRS = 10
CHART_SCRIPTS = ("vendor/vega.min.js", "vendor/vega-lite.min.js", "vendor/vega-embed.min.js")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportScope:
    """What a file is about besides its report: which runs, and what gates said of them."""

    where: Where | None = None  # the choice that the report was built with
    since: str | None = None  # the same
    gates: Sequence[GateDocument] = ()  # reports that `gate --json` wrote, the latest last
    kept: Sequence[GateHistory] = ()  # baselines and looks, by workflow


def write_html(
    store: Rows,  # where the rows are; runs are opened only in a `Store`
    report: Report,  # what `build` made of them
    file: str | Path,  # where to; what is there is replaced
    *,
    embed: Embed = EMBED,  # of how many runs the steps are in it
    chosen: ReportScope | None = None,  # which runs, as the report was built
) -> None:
    """Write a report with the steps of the runs to look at first to one HTML file.

    The file is written beside its place and put there in one move: whatever goes wrong before the
    end, what was there stands, and nothing unfinished is left.

    Raises:
        OSError: the disk does not take it; the file as it was asked for is named.
    """
    # What a link leads to is replaced, not the link.
    place = Path(file).resolve()
    part = place.with_name(f".{uuid4().hex}.part")
    pieces = render_parts(store, report, embed=embed, chosen=chosen or ReportScope())
    if place.exists() and not place.is_file():
        # A pipe or a device takes what comes, and cannot be replaced.
        _written(pieces, place)
        return
    try:
        _written(pieces, part)
        part.replace(place)
    except OSError as e:
        raise OSError(e.errno, e.strerror, str(file)) from e
    finally:
        part.unlink(missing_ok=True)


def _written(pieces: Iterator[str], place: Path) -> None:
    with place.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(pieces)


def render_parts(
    store: Rows, report: Report, *, embed: Embed, chosen: ReportScope
) -> Iterator[str]:
    """Yield the file piece by piece: no more than a few runs are in memory at a time."""
    style = _asset("app.css")
    scripts = [_asset(name) for name in (*CHART_SCRIPTS, "app.js")]
    used: list[str] = []

    def bodies() -> Iterator[Markup]:
        for page in _pages(store, report, embed, chosen):
            used.extend(chart.spec for chart in page.charts)
            yield Markup(render_body(page))

    shell = PageShell(
        title=f"{report.whole.title or 'stepscope'} · stepscope",
        mode="file",
        navigation=tuple((f"#{name}", label, name == "overview") for name, label in NAVIGATION),
        about=f"stepscope {version('stepscope')}, seed {report.provenance.seed}",
    )
    yield from (
        open_environment()
        .get_template("file.html")
        .generate(
            shell=shell,
            bodies=bodies(),
            specs=lambda: embed_specs(used),
            policy=make_content_policy([style], scripts),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
        )
    )


def make_content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that allows these styles and scripts by their hashes, and nothing else.

    >>> make_content_policy(["a"], [])[:74]
    "default-src 'none'; script-src 'none'; style-src 'sha256-ypeBEsobvcr6wjGzm"
    """
    return (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hashes(texts: Sequence[str]) -> str:
    found = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in found) or "'none'"


def _asset(name: str) -> str:
    """Return a script or style of the package as it stands between its tags."""
    text = files("stepscope.report.render").joinpath("static", *name.split("/")).read_text("utf-8")
    for end in ("</script", "</style", "<!--", "\r", "\0"):
        if end in text:
            raise ValueError(f"{name} holds {end!r}, which would not stand inside its element")
    return text


def _pages(store: Rows, report: Report, embed: Embed, chosen: ReportScope) -> Iterator[Page]:
    runs = read_runs(store, where=chosen.where, since=chosen.since)
    inside = _embedded(store, report, runs, embed)
    pairs = _pairs(runs, set(inside))[:PAIRS]
    groups = _two(runs)
    links = FileLinks(inside, pairs, groups=groups is not None)
    last = chosen.gates[-1].report if chosen.gates else None
    yield make_overview_page(report, runs, links=links, gates=last)
    yield make_run_choice_page(report, links=links)
    yield _choice(runs, pairs, groups, links)
    yield make_profile_page(report, links=links)
    yield make_gates_page(chosen.gates, links=links, kept=chosen.kept)
    if groups is not None:
        where = combine_conditions(chosen.where, chosen.since)
        seed = report.provenance.seed
        yield make_groups_page(
            compare_groups(store, *groups, by="agent", where=where, seed=seed), links=links
        )
    if not isinstance(store, Store):
        return
    of_task = _by_task(runs)
    rows = {row.id: row for row in runs}
    for id_ in inside:
        row = rows[id_]
        others = of_task.get((row.workflow, row.task), ())
        data = read_run(store, id_)
        yield make_run_page(data, links=links, clip=CLIP, others=others)
    for first, second in pairs:
        yield make_runs_page(read_run(store, first), read_run(store, second), links=links)


def _embedded(
    store: Rows, report: Report, runs: Sequence[RunListRow], embed: Embed
) -> tuple[str, ...]:
    """Return the runs whose steps are in the file: those to look at first, then by weight."""
    if not isinstance(store, Store):
        return ()
    order = dict.fromkeys([*(run.id for run in report.look_first), *(row.id for row in runs)])
    most = len(order) if embed == "all" else embed
    kept: list[str] = []
    for id_ in order:
        if len(kept) >= most:
            break
        if _readable(store, id_):
            kept.append(id_)
    return tuple(kept)


def _readable(store: Store, run: str) -> bool:
    """Tell whether a run's texts are there: a purged run is in the figures and in no page."""
    try:
        store.trajectory(run)
    except StoreError:
        return False
    return True


def _by_task(runs: Sequence[RunListRow]) -> dict[tuple[str, str], list[RunListRow]]:
    found: dict[tuple[str, str], list[RunListRow]] = {}
    for row in runs:
        if row.task:
            found.setdefault((row.workflow, row.task), []).append(row)
    return found


def _pairs(runs: Sequence[RunListRow], inside: Collection[str]) -> list[tuple[str, str]]:
    """Return a failing run of the file with a passing one of the same task beside it."""
    found = []
    for held in _by_task(runs).values():
        failed = [row.id for row in held if row.outcome == "fail" and row.id in inside]
        passed = [row.id for row in held if row.outcome == "pass"]
        passed.sort(key=lambda id_: id_ not in inside)
        if failed and passed:
            found.append((failed[0], passed[0]))
    return found


def _two(runs: Sequence[RunListRow]) -> tuple[str, str] | None:
    """Return the two agents that share most tasks, by name; None where no two share any."""
    of_task: dict[tuple[str, str], set[str]] = {}
    for row in runs:
        if row.agent and row.task:
            of_task.setdefault((row.workflow, row.task), set()).add(row.agent)
    shared = Counter(
        pair for agents in of_task.values() for pair in combinations(sorted(agents), 2)
    )
    return max(shared, key=lambda pair: (shared[pair], pair)) if shared else None


def _choice(
    runs: Sequence[RunListRow],
    pairs: Sequence[tuple[str, str]],
    groups: tuple[str, str] | None,
    links: Links,
) -> Page:
    names = {row.id: row.name for row in runs}
    addresses = [
        (f"{names[first]} (fail) and {names[second]} (pass)", address)
        for first, second in pairs
        if (address := links.pair(first, second)) is not None
    ]
    several = []
    if groups is not None and (address := links.groups("agent", *groups)) is not None:
        several = [(f"{groups[0]} and {groups[1]}", address)]
    return make_choice_page(links=links, pairs=addresses, groups=several)


LOOKS = make_columns("run", "outcome", "steps", "suspect", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A chart as a picture inside the page."""

    alt: str
    address: str


def make_report_charts(report: Report) -> dict[str, Chart]:
    """Return the charts of a report by name: vector, axes, shapes; those that have anything.

    Where judges were asked there is a panel for each group: panel, panel-1, panel-2.
    """
    tables = [tabulate_vector(profile, "vector") for profile in report.profiles[:1]]
    found = {
        "vector": chart_vector(report.profiles, tables[0]),
        "axes": chart_axes(report.profiles),
        "shapes": chart_shapes(report.profiles),
    }
    drawn = chart_panels(report.panels) if report.panels else ()
    panels = {f"panel-{at}" if at else "panel": chart for at, chart in enumerate(drawn)}
    return {name: chart for name, chart in found.items() if chart is not None} | panels


def make_curve_chart(curve: Curve) -> Chart:
    """Return the chart of one curve."""
    last = curve.steps[-1] + 1 if curve.steps else 0
    return curve_views.view_curve(curve, last, "curve", lambda step: None).chart


def render_report_html(report: Report) -> str:
    """Return the vector of each group, where to look first, and pictures of the charts."""
    tables = [
        *(tabulate_vector(profile, f"v{at}") for at, profile in enumerate(report.profiles)),
        *([_looks(report)] if report.look_first else []),
    ]
    headings = [describe_profile(report.whole, report)[1].replace("   ", " · ")]
    return _html(headings, tables, list(make_report_charts(report).values()))


def render_curve_html(curve: Curve) -> str:
    """Return what is concluded from a curve, its scores, and its picture."""
    shown = curve_views.view_curve(curve, 0, "curve", lambda step: None)
    return _html([*shown.said, shown.rests_on], [shown.chart.table], [shown.chart])


def _html(headings: Sequence[str], tables: Sequence[Table], drawn: Sequence[Chart]) -> str:
    template = open_environment().get_template("notebook.html")
    return template.render(
        headings=headings,
        tables=tables,
        pictures=list(map(_picture, drawn)) if (find_spec("vl_convert") is not None) else [],
    )


def _picture(chart: Chart) -> Picture:
    import vl_convert

    spec = charts.make_chart(chart.spec, chart.rows).to_dict()
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    return Picture(alt=f"{chart.title}: {chart.alt}", address=address)


def _looks(report: Report) -> Table:
    rows = []
    for run in report.look_first:
        where, why = describe_suspect(run)
        words = (run.name, run.outcome, f"{run.steps:,}", where, why)
        rows.append(make_row(*words))
    return Table(id="looks", caption="Look first", columns=LOOKS, rows=tuple(rows))
