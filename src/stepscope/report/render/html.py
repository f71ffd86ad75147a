"""Write a report as one HTML file, or as HTML for a notebook.

Nothing is fetched, and only the file's own scripts run: a policy in the file allows them by hash. A
script whose text would end its own element is refused. The HTML of a notebook has no script.
Source: Content Security Policy Level 3 (W3C), hash sources and the meta element.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from itertools import chain, combinations, islice
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from stepscope.errors import StoreError
from stepscope.gates.looks import GateHistory
from stepscope.report import document as doc
from stepscope.report import words
from stepscope.report.compare import compare_groups
from stepscope.report.render import charts, pages, run_page
from stepscope.report.render.pages import Page
from stepscope.report.rows import read_table
from stepscope.report.types import Curve, GateDocument, Report
from stepscope.report.views import overview
from stepscope.report.views.judges import chart_panels
from stepscope.report.views.profile import chart_axes
from stepscope.report.views.run import chart_curve, describe_curve, describe_curve_basis, read_run
from stepscope.report.views.runs import RunListRow, make_run_rows
from stepscope.safety.limits import open_output
from stepscope.safety.redact import hide_in
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.where import Where, combine_filters

Embed = int | Literal["all"]

# Runs whose steps are in the file unless it is said otherwise.
EMBED = 25
# Characters of one text in the file; `stepscope show` has the rest.
CLIP = 6_000
# Pairs of runs side by side.
PAIRS = 10


def write_html(
    store: Rows,  # where the rows are; runs are opened only in a `Store`
    report: Report,  # what `build` made of them
    file: str | Path,  # where to; what is there is replaced
    *,
    embed: Embed = EMBED,  # of how many runs the steps are in it
    where: Where | None = None,  # the choice that the report was built with
    since: str | None = None,  # the same
    gates: Sequence[GateDocument] = (),  # reports that `gate --json` wrote, the latest last
    kept: Sequence[GateHistory] = (),  # baselines and looks, by workflow
    calibration: tuple[str, Mapping[str, doc.Document | doc.EmptyNotice]] | None = None,  # its page
) -> None:
    """Write a report and its first runs to one HTML file, whole, or leave what was there."""
    made = _pages(store, report, embed, combine_filters(where, since), gates, kept)
    if calibration is not None:
        made = chain(made, [pages.make_calibration_page(*calibration)])
    with open_output(file) as raw:
        for piece in _render(made, report, calibrated=calibration is not None):
            raw.write(piece.encode())


def _render(made: Iterator[Page], report: Report, *, calibrated: bool) -> Iterator[str]:
    """Yield the file piece by piece: no more than a few runs are in memory at a time."""
    style = _asset("app.css")
    scripts = [_asset(name) for name in (*pages.CHART_SCRIPTS, "app.js")]
    used: set[str] = set()
    # Nothing can be labelled in a file.
    absent = ("label",) if calibrated else ("label", "calibration")
    named = [(name, label) for name, label in pages.NAVIGATION.items() if name not in absent]
    yield pages.lay_out(
        "head",
        title=f"{words.name_group(report.whole) or 'stepscope'} · stepscope",
        mode="file",
        navigation=[(f"#{name}", label, name == "overview") for name, label in named],
        style=Markup(style),
        policy=make_content_policy([style], scripts),
    )
    held = 0
    for page in made:
        used.update(chart.spec for chart in page.charts)
        held += page.name == "run"
        yield page.body
    # The first of them is the choice of a run.
    yield pages.lay_out("missing", held=f"{held - 1:,}", runs=f"{report.whole.n_runs:,}")
    yield pages.lay_out(
        "foot",
        about=f"stepscope {version('stepscope')}, seed {report.provenance.seed}",
        specs=pages.embed_specs(used),
        # What draws charts is a megabyte, and few files have any.
        scripts=[Markup(script) for script in (scripts if used else scripts[-1:])],
    )


def make_content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return a policy that allows these styles and scripts by their hashes, and nothing else."""
    allowed = []
    for texts in (scripts, styles):
        found = [b64encode(sha256(text.encode()).digest()).decode() for text in texts]
        allowed.append(" ".join(f"'sha256-{digest}'" for digest in found) or "'none'")
    return (
        f"default-src 'none'; script-src {allowed[0]}; style-src {allowed[1]}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    """Return a script or style of the package as it stands between its tags."""
    text = files("stepscope.report.render").joinpath("static", *name.split("/")).read_text("utf-8")
    for end in ("</script", "</style", "<!--", "\r", "\0"):
        if end in text:
            raise ValueError(f"{name} holds {end!r}, which would not stand inside its element")
    return text


def _pages(
    store: Rows,
    report: Report,
    embed: Embed,
    where: Where | None,
    gates: Sequence[GateDocument],
    kept: Sequence[GateHistory],
) -> Iterator[Page]:
    table = read_table(store, where)
    shown = store.shown if isinstance(store, Store) else None
    runs = make_run_rows(table, shown)
    inside = _embedded(store, report, runs, embed)
    of_task: dict[tuple[str, str], list[RunListRow]] = {}
    for row in runs:
        if row.task:
            of_task.setdefault((row.workflow, row.task), []).append(row)
    pairs = _pairs(of_task.values(), set(inside))[:PAIRS]
    agent = dict(zip(table.runs.id, table.runs.agent, strict=True))
    agents = ({agent[row.id] for row in held if row.agent} for held in of_task.values())
    shared = Counter(pair for some in agents for pair in combinations(sorted(some), 2))
    groups = max(shared, key=lambda pair: (shared[pair], pair)) if shared else None
    links = doc.Links(inside, pairs, groups=groups is not None)
    last = gates[-1].report if gates else None
    yield pages.make_overview_page(report, runs, links=links, decided=last)
    yield pages.make_run_choice_page(report, links=links)
    yield _choice(runs, pairs, hide_in(shown, groups), links)
    yield pages.make_profile_page(report, links=links)
    yield pages.make_gates_page(gates, links=links, kept=kept)
    if groups is not None:
        found = compare_groups(store, *groups, by="agent", where=where, seed=report.provenance.seed)
        yield pages.make_groups_page(found)
    if not isinstance(store, Store):
        return
    rows = {row.id: row for row in runs}
    for id_ in inside:
        others = of_task.get((rows[id_].workflow, rows[id_].task), ())
        yield run_page.make_run_page(read_run(store, id_), links=links, clip=CLIP, others=others)
    for first, second in pairs:
        yield pages.make_runs_page(read_run(store, first), read_run(store, second), links=links)


def _embedded(
    store: Rows, report: Report, runs: Sequence[RunListRow], embed: Embed
) -> tuple[str, ...]:
    """Return the runs whose steps are in the file: those to look at first, then by weight."""
    if not isinstance(store, Store):
        return ()
    order = dict.fromkeys([*(run.id for run in report.look_first), *(row.id for row in runs)])
    most = len(order) if embed == "all" else embed
    return tuple(islice((id_ for id_ in order if _readable(store, id_)), max(most, 0)))


def _readable(store: Store, run: str) -> bool:
    """Tell whether a run's texts are there: a purged run is in the figures and in no page."""
    try:
        store.trajectory(run)
    except StoreError:
        return False
    return True


def _pairs(tasks: Iterable[Sequence[RunListRow]], inside: Collection[str]) -> list[tuple[str, str]]:
    """Return a failing run of the file with a passing one of the same task beside it."""
    found = []
    for held in tasks:
        failed = [row.id for row in held if row.outcome == "fail" and row.id in inside]
        passed = [row.id for row in held if row.outcome == "pass"]
        passed.sort(key=lambda id_: id_ not in inside)
        if failed and passed:
            found.append((failed[0], passed[0]))
    return found


def _choice(
    runs: Sequence[RunListRow],
    pairs: Sequence[tuple[str, str]],
    groups: tuple[str, str] | None,
    links: doc.Links,
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
    return pages.make_choice_page(links=links, pairs=addresses, groups=several)


def make_report_charts(report: Report) -> dict[str, doc.Chart]:
    """Return the charts that a report has: vector, axes, shapes; panel, panel-1 for each group."""
    table = overview.tabulate_vector(report.profiles[0], "vector")
    found = {
        "vector": overview.chart_vector(report.profiles, table),
        "axes": chart_axes(report.profiles),
        "shapes": overview.chart_shapes(report.profiles),
    }
    drawn = chart_panels(report.panels) if report.panels else ()
    panels = {f"panel-{at}" if at else "panel": chart for at, chart in enumerate(drawn)}
    return {name: chart for name, chart in found.items() if chart is not None} | panels


def make_curve_chart(curve: Curve) -> doc.Chart:
    """Return the chart of one curve, up to its last step."""
    return chart_curve(curve, 0, "curve", lambda step: None)


def render_report_html(report: Report) -> str:
    """Return the vector of each group, where to look first, and pictures of the charts."""
    groups = enumerate(report.profiles)
    tables = [overview.tabulate_vector(profile, f"v{at}") for at, profile in groups]
    rows = []
    for run, others in words.group_looks(report.look_first):
        where, why = words.describe_suspect(run)
        same = f"the same fault in {words.name_alike(others)}" if others else ""
        alike = doc.TableCell(why, note=same)
        rows.append((run.name, run.outcome, f"{run.steps:,}", where, alike))
    if rows:
        labels = ("run", "outcome", "steps", "suspect", "why")
        tables.append(doc.make_table("looks", labels, rows, caption="Look first"))
    headings = [words.describe_profile(report.whole, report)[1].replace("   ", " · ")]
    return _html(headings, tables, list(make_report_charts(report).values()))


def render_curve_html(curve: Curve) -> str:
    """Return what is concluded from a curve, its scores, and its picture."""
    chart = make_curve_chart(curve)
    return _html([*describe_curve(curve), describe_curve_basis(curve)], [chart.table], [chart])


def _html(headings: Sequence[str], tables: Sequence[doc.Table], drawn: Sequence[doc.Chart]) -> str:
    pictures = list(map(_picture, drawn)) if find_spec("vl_convert") is not None else []
    return pages.lay_out("notebook", headings=headings, tables=tables, pictures=pictures)


def _picture(chart: doc.Chart) -> Markup:
    import vl_convert

    spec = charts.make_chart(chart.spec, chart.rows).to_dict()
    svg = vl_convert.vegalite_to_svg(spec, allowed_base_urls=[])
    address = "data:image/svg+xml;base64," + b64encode(svg.encode()).decode()
    return pages.lay_out("picture", alt=f"{chart.title}: {chart.alt}", address=address)
