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
    EmptyNotice,
    Links,
    Page,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
)
from stepscope.report.rows import DEFAULT_BY
from stepscope.report.types import OutcomeTable, Profile, Report
from stepscope.report.views import gates
from stepscope.report.views import profile as shape_views
from stepscope.report.views.profile import ShapesView
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
from stepscope.report.words import describe_flip, describe_profile, note_unearned
from stepscope.safety.text import visible_line
from stepscope.values import Unmeasured

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
        table=_table(rows),
    )


def _named(cases: Sequence[str]) -> str:
    more = f" and {len(cases) - NAMED_CASES} more" if len(cases) > NAMED_CASES else ""
    return visible_line(", ".join(cases[:NAMED_CASES])) + more


def _table(rows: Sequence[dict[str, object]]) -> Table:
    columns = (
        TableColumn(key="group", label="group"),
        TableColumn(key="path", label="path", number=True),
        TableColumn(key="passed", label="pass rate", number=True),
        TableColumn(key="cases", label="cases", number=True),
        TableColumn(key="named", label="which"),
    )
    return Table(
        id="earned-table",
        caption="Cases by path and outcome",
        columns=columns,
        rows=tuple(
            TableRow(cells=tuple(_cell(row[column.key]) for column in columns)) for row in rows
        ),
    )


def _cell(value: object) -> TableCell:
    if isinstance(value, float):
        return TableCell(text=f"{value:.2f}", sort=value)
    return TableCell(text=str(value), sort=value if isinstance(value, int) else None)


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
    shapes: ShapesView | None
    gates: tuple[tuple[str, str, Tone], ...]
    gates_href: str
    runs: RunList
    closing: str
    next: tuple[str, ...]


def make_overview_page(
    report: Report,
    runs: Sequence[RunListRow],
    *,
    links: Links,
    query: RunQuery | None = None,
    gates: GateReport | None = None,
) -> Page:
    """Return the first page of a report.

    Args:
        report: what `build` made.
        runs: what `read_runs` read with the same choice.
        links: where things are.
        query: which runs the table shows; all when left out.
        gates: the last gate report, where there is one.
    """
    several = len(report.profiles) > 1
    keys = choose_measured(report.profiles, report.profiles[0].figures)
    groups = tuple(
        _group(profile, report, f"vector-{at}") for at, profile in enumerate(report.profiles)
    )
    caption = "Outcome and path, by group"
    table = tabulate_groups(report.profiles, keys, "groups", caption) if several else None
    vector = chart_vector(report.profiles, table or groups[0].table)
    earned = plot_outcome_path(runs, report.provenance.by)
    shapes = shape_views.view_shapes(report.profiles)
    charts = [vector, earned, None if shapes is None else shapes.chart]
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
            _joint(table, report.whole, at, links) for at, table in enumerate(report.whole.earned)
        ),
        flips=_flips(report),
        shapes=shapes,
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


def _joint(joint: OutcomeTable, whole: Profile, at: int, links: Links) -> Table:
    notes = note_unearned(joint, whole)
    named = {"pass": whole.lucky[:1], "fail": whole.unlucky[:1]} if at == 0 else {}
    first = {name: links.run(run.id) for name, runs in named.items() for run in runs}
    columns = (
        TableColumn(key="outcome", label="outcome"),
        *(
            TableColumn(key=f"c{n}", label=name, number=True)
            for n, name in enumerate(joint.columns)
        ),
        *([TableColumn(key="note", label="note")] if any(notes.values()) else []),
    )
    rows = tuple(
        TableRow(
            cells=(
                TableCell(text=name, tone=OUTCOME[name]),
                *(TableCell(text=f"{count:,}", sort=count) for count in counts),
                *([_note(notes.get(name, ""), first.get(name))] if any(notes.values()) else []),
            )
        )
        for name, counts in (("pass", joint.passed), ("fail", joint.failed))
    )
    left = f"; {joint.unmeasured:,} runs without both grades" if joint.unmeasured else ""
    caption = f"Was it earned? Outcome against {joint.grade}{left}"
    return Table(id=f"joint-{at}", caption=caption, columns=columns, rows=rows)


def _note(said: str, href: str | None) -> TableCell:
    return TableCell(text=said, tone="quiet", href=href if said else None)


def _flips(report: Report) -> tuple[str, ...]:
    if isinstance(report.rank_flips, Unmeasured):
        return ()
    return tuple(describe_flip(flip) for flip in report.rank_flips)


def _gates(report: GateReport | None) -> tuple[tuple[str, str, Tone], ...]:
    if report is None:
        return ()
    return tuple(
        (workflow.workflow, gates.WORDS[found], OUTCOME.get(found, "quiet"))
        for workflow in report.workflows
        for found in (gates.resolve_outcome(workflow),)
    )
