"""The first page of a report: vectors, outcome against path, shapes, gates, runs to look at first.

In outcome against path a case counts with the mean of its runs. Cases at one place are one point
whose area counts them; runs without both grades are left out and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.gates.types import GateReport
from stepscope.report.document import (
    Chart,
    Document,
    EmptyNotice,
    Heading,
    Links,
    Page,
    Paragraph,
    Section,
    Table,
    TableCell,
    TableColumn,
    Tone,
    make_columns,
    make_row,
)
from stepscope.report.formatting import (
    describe_flip,
    describe_profile,
    describe_suspect,
    note_unearned,
)
from stepscope.report.rows import DEFAULT_BY
from stepscope.report.types import OutcomeTable, Profile, Report
from stepscope.report.views import gates as gate_views
from stepscope.report.views.panels import tabulate_panels
from stepscope.report.views.profile import (
    chart_shapes,
    tabulate_axes,
    tabulate_shape_counts,
    tabulate_shapes,
)
from stepscope.report.views.runs import (
    OUTCOME,
    LookFirstView,
    RunList,
    RunListRow,
    RunQuery,
    make_run_list,
    view_look_first,
)
from stepscope.report.views.vector import (
    chart_vector,
    choose_measured,
    name_profile,
    tabulate_groups,
    tabulate_vector,
)
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

# Of many groups more pairs than this differ by chance alone; the JSON has them all.
SHOWN_FLIPS = 5
# Cases named of one spot.
NAMED_CASES = 4
# Spots closer than this are one: shares of few sub-goals, not measurements.
PLACES = 3


def name_group(row: RunListRow, by: str | None) -> str:
    """Return the title of the group that a run is in; "all runs" for fields that rows lack."""
    fields = DEFAULT_BY if by is None else (by,)
    values = [str(getattr(row, field)) for field in fields if field in RunListRow.__struct_fields__]
    return visible_line(" · ".join(value for value in values if value)) or "all runs"


def plot_outcome_path(runs: Sequence[RunListRow], by: str | None) -> Chart | None:
    """Return outcome against path over cases; None where no run has both grades."""
    cases: dict[tuple[str, str], list[RunListRow]] = {}
    graded = [row for row in runs if row.reached is not None and row.outcome != "unknown"]
    for row in graded:
        cases.setdefault((name_group(row, by), row.task or row.name), []).append(row)
    spots: dict[tuple[str, float, float], list[str]] = {}
    for (group, case), held in cases.items():
        path = sum(row.reached or 0.0 for row in held) / len(held)
        passed = sum(row.outcome == "pass" for row in held) / len(held)
        spots.setdefault((group, round(path, PLACES), round(passed, PLACES)), []).append(case)
    if not spots:
        return None
    rows = [
        {
            "group": group,
            "path": path,
            "passed": passed,
            "cases": len(named),
            "named": _named(named),
        }
        for (group, path, passed), named in sorted(spots.items())
    ]
    left = len(runs) - len(graded)
    return Chart(
        id="earned-chart",
        spec="earned",
        title="Outcome against path, by case",
        alt=(
            f"{len(cases)} cases by mean share of sub-goals reached and pass rate; "
            f"{left} runs without both grades are left out."
        ),
        rows=rows,
        table=Table(
            id="earned-table",
            caption="Cases by path and outcome",
            columns=make_columns(
                "group", "path", "pass rate", "cases", "which",
                numbers=("path", "pass rate", "cases"),
            ),
            rows=tuple(
                make_row(
                    group,
                    *(TableCell(f"{share:.2f}", sort=share) for share in (path, passed)),
                    TableCell(str(len(named)), sort=len(named)),
                    _named(named),
                )
                for (group, path, passed), named in sorted(spots.items())
            ),
        ),
    )  # fmt: skip


def _named(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - NAMED_CASES} more" if len(cases) > NAMED_CASES else ""
    return visible_line(", ".join(cases[:NAMED_CASES])) + more


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSection:
    """One group: what was read of it, and its vector."""

    title: str
    about: str
    table: Table
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewContent:
    """What the template of the overview reads."""

    about: str
    chosen: str
    kept: Mapping[str, str]
    looks: tuple[LookFirstView, ...]
    vector: Chart | None
    groups: tuple[GroupSection, ...]
    matrix: Table | None
    earned: Chart | None
    earned_empty: EmptyNotice
    joints: tuple[Table, ...]
    flips: tuple[str, ...]
    shapes: Table | None
    shapes_chart: Chart | None
    gates: tuple[tuple[str, str, Tone], ...]
    gates_href: str
    runs: RunList
    closing: str
    next: tuple[str, ...]


def make_overview_page(
    report: Report,  # what `build` made
    runs: Sequence[RunListRow],  # what `read_runs` read with the same choice
    *,
    links: Links,  # where things are
    query: RunQuery | None = None,  # which runs the table shows; all when left out
    gates: GateReport | None = None,  # the last gate report, where there is one
) -> Page:
    """Return the first page of a report."""
    several = len(report.profiles) > 1
    keys = choose_measured(report.profiles, report.profiles[0].figures)
    groups = tuple(
        _group(profile, report, f"vector-{at}") for at, profile in enumerate(report.profiles)
    )
    table = tabulate_groups(report.profiles, keys) if several else None
    vector = chart_vector(report.profiles, table or groups[0].table)
    earned = plot_outcome_path(runs, report.provenance.by)
    shapes_chart = chart_shapes(report.profiles)
    charts = [vector, earned, shapes_chart]
    content = OverviewContent(
        about=describe_profile(report.whole, report)[1].replace("   ", " · "),
        chosen=_chosen(report),
        kept=links.kept,
        looks=tuple(view_look_first(run, links) for run in report.look_first),
        vector=vector,
        groups=groups,
        matrix=table,
        earned=earned,
        earned_empty=EmptyNotice(
            said="No run has both an outcome and sub-goals: sub-goals come with a run's case.",
            commands=("stepscope score",),
        ),
        joints=tuple(
            tabulate_outcomes(table, report.whole, at, links)
            for at, table in enumerate(report.whole.earned)
        ),
        flips=()
        if isinstance(report.rank_flips, Unmeasured)
        else tuple(describe_flip(flip) for flip in report.rank_flips),
        shapes=tabulate_shape_counts(report.profiles),
        shapes_chart=shapes_chart,
        gates=_gates(gates),
        gates_href=links.page("gates"),
        runs=make_run_list(runs, query or RunQuery(), links),
        closing=f"Not claimed: {', '.join(report.not_claimed)}." if report.not_claimed else "",
        next=report.next,
    )
    return Page(
        name="overview",
        title="Overview",
        template="overview.html",
        anchor="overview",
        content=content,
        charts=tuple(chart for chart in charts if chart is not None),
    )


def _chosen(report: Report) -> str:
    asked = report.provenance
    parts = [
        f"only runs where {asked.where}" if asked.where else "",
        f"since {asked.since}" if asked.since else "",
        f"grouped by {asked.by}" if asked.by else "",
    ]
    said = ", ".join(part for part in parts if part)
    return said[:1].upper() + said[1:]


def _group(profile: Profile, report: Report, anchor: str) -> GroupSection:
    warning = profile.too_loose.reason if profile.too_loose.outcome == "fail" else ""
    return GroupSection(
        title=name_profile(profile),
        about=describe_profile(profile, report)[1].partition("   ")[0],
        table=tabulate_vector(profile, anchor),
        warning=warning,
    )


def tabulate_outcomes(
    joint: OutcomeTable, profile: Profile, at: int, links: Links | None = None
) -> Table:
    """Return outcome against one grade of the path; on a page the first note leads to its run."""
    notes = note_unearned(joint, profile)
    named = {"pass": profile.lucky[:1], "fail": profile.unlucky[:1]} if at == 0 and links else {}
    hrefs = {name: links.run(run.id) for name, runs in named.items() for run in runs if links}
    left = f"; {joint.unmeasured:,} runs without both grades" if joint.unmeasured else ""
    noted = any(notes.values())
    rows = []
    for name, counts in (("pass", joint.passed), ("fail", joint.failed)):
        said = notes.get(name, "")
        href = hrefs.get(name) if said else None
        note = TableCell(said, tone="quiet", href=href, code=bool(said))
        cells = [TableCell(f"{count:,}", sort=count) for count in counts]
        first = TableCell(name, tone=OUTCOME[name], level=1)
        rows.append(make_row(first, *cells, *([note] if noted else [])))
    return Table(
        id=f"joint-{at}",
        caption=f"Was it earned? Outcome against {joint.grade}{left}",
        corner="" if at else "Was it earned?",
        columns=(
            TableColumn("outcome", least=16),
            *(
                TableColumn(name, number=True, least=max(len(name) + 2, 7), gap=0)
                for name in joint.columns
            ),
            *([TableColumn("note" if links else "", gap=3, overflow="wrap")] if noted else []),
        ),
        rows=tuple(rows),
    )


def _gates(report: GateReport | None) -> tuple[tuple[str, str, Tone], ...]:
    if report is None:
        return ()
    return tuple(
        (workflow.workflow, gate_views.WORDS[found], OUTCOME.get(found, "quiet"))
        for workflow in report.workflows
        for found in (gate_views.resolve_outcome(workflow),)
    )


def make_report_document(report: Report) -> Document:
    """Return a report as text and Markdown have it."""
    out: list[Section] = []
    for profile in report.profiles:
        title, about = describe_profile(profile, report)
        joints = [tabulate_outcomes(table, profile, at) for at, table in enumerate(profile.earned)]
        out += [[Heading(title=title, about=about)], [tabulate_vector(profile, "vector")], joints]
        if profile.too_loose.outcome == "fail":
            out.append([Paragraph(lead="Warning: ", text=profile.too_loose.reason)])
    tables = [
        tabulate_axes(report.profiles),
        tabulate_shapes(report.profiles),
        *(tabulate_panels(report.panels) if report.panels else []),
        _look_first(report) if report.look_first else None,
    ]
    closing = []
    if report.not_claimed:
        closing.append(Paragraph(text=f"Not claimed: {', '.join(report.not_claimed)}."))
    if report.next:
        said = " · ".join(report.next)
        closing.append(Paragraph(lead="Next: ", text=said, hang=6, terminal=True))
    return [*out, _flips(report), *([table] for table in tables if table is not None), closing]


def _flips(report: Report) -> list[Paragraph]:
    flips = report.rank_flips
    if isinstance(flips, Unmeasured):
        said = f"Rank flips: unmeasured, {flips.reason}"
    elif not flips:
        said = "Rank flips: none; outcome and path order these groups alike."
    else:
        return [
            Paragraph(lead="Rank flip: ", text=describe_flip(flip), code=True)
            for flip in flips[:SHOWN_FLIPS]
        ]
    return [Paragraph(text=said, terminal=True)] if len(report.profiles) > 1 else []


def _look_first(report: Report) -> Table:
    rows = []
    for run in report.look_first:
        where, said = describe_suspect(run)
        # The last words of an error message say most.
        ends = bool(run.suspects) and run.suspects[0].kind == "error"
        evidence = TableCell(said, code=True, keep_end=ends)
        rows.append(
            make_row(TableCell(run.name, code=True, level=1), f"{run.steps:,}", where, evidence)
        )
    return Table(
        id="look-first",
        corner="Look first",
        columns=(
            TableColumn("run", least=16, most=32),
            TableColumn("steps", number=True, least=5, gap=1),
            TableColumn("suspect", least=8),
            TableColumn("evidence", gap=1, overflow="cut"),
        ),
        rows=tuple(rows),
        own=True,
    )
