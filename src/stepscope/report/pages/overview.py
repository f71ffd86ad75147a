"""The overview: the vector of every group, outcome against path, shapes, gates, where to look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stepscope.gates.types import GateReport
from stepscope.report import gate_lines
from stepscope.report.pages import shapes as shape_views
from stepscope.report.pages.earned import scatter
from stepscope.report.pages.figures import matrix, measured, title, vector_chart, vector_table
from stepscope.report.pages.links import Links
from stepscope.report.pages.look import OUTCOME, Look, look
from stepscope.report.pages.page import Cell, Chart, Column, Empty, Page, Row, Table, Tone
from stepscope.report.pages.run_table import RunList, run_list
from stepscope.report.pages.runs import RunQuery, RunRow
from stepscope.report.pages.shapes import ShapesView
from stepscope.report.text import flipped, headline, joint_notes
from stepscope.report.types import JointTable, Profile, Report
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group: what was read of it, and its vector."""

    title: str
    about: str
    table: Table
    warning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the template of the overview reads."""

    about: str
    chosen: str
    kept: Mapping[str, str]
    looks: tuple[Look, ...]
    vector: Chart | None
    groups: tuple[Group, ...]
    matrix: Table | None
    earned: Chart | None
    earned_empty: Empty
    joints: tuple[Table, ...]
    flips: tuple[str, ...]
    shapes: ShapesView | None
    gates: tuple[tuple[str, str, Tone], ...]
    gates_href: str
    runs: RunList
    closing: str
    next: tuple[str, ...]


def overview(
    report: Report,
    runs: Sequence[RunRow],
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
    keys = measured(report.profiles, report.profiles[0].figures)
    groups = tuple(
        _group(profile, report, f"vector-{at}") for at, profile in enumerate(report.profiles)
    )
    caption = "Outcome and path, by group"
    table = matrix(report.profiles, keys, "groups", caption) if several else None
    vector = vector_chart(report.profiles, table or groups[0].table)
    earned = scatter(runs, report.provenance.by)
    shapes = shape_views.view(report.profiles)
    charts = [vector, earned, None if shapes is None else shapes.chart]
    content = Overview(
        about=headline(report.whole, report)[1].replace("   ", " · "),
        chosen=_chosen(report),
        kept=links.kept,
        looks=tuple(look(run, links) for run in report.look_first),
        vector=vector,
        groups=groups,
        matrix=table,
        earned=earned,
        earned_empty=Empty(
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
        runs=run_list(runs, query or RunQuery(), links),
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


def _group(profile: Profile, report: Report, anchor: str) -> Group:
    warning = profile.too_loose.reason if profile.too_loose.outcome == "fail" else ""
    return Group(
        title=title(profile),
        about=headline(profile, report)[1].partition("   ")[0],
        table=vector_table(profile, anchor),
        warning=warning,
    )


def _joint(joint: JointTable, whole: Profile, at: int, links: Links) -> Table:
    notes = joint_notes(joint, whole)
    named = {"pass": whole.lucky[:1], "fail": whole.unlucky[:1]} if at == 0 else {}
    first = {name: links.run(run.id) for name, runs in named.items() for run in runs}
    columns = (
        Column(key="outcome", label="outcome"),
        *(Column(key=f"c{n}", label=name, number=True) for n, name in enumerate(joint.columns)),
        *([Column(key="note", label="note")] if any(notes.values()) else []),
    )
    rows = tuple(
        Row(
            cells=(
                Cell(text=name, tone=OUTCOME[name]),
                *(Cell(text=f"{count:,}", sort=count) for count in counts),
                *([_note(notes.get(name, ""), first.get(name))] if any(notes.values()) else []),
            )
        )
        for name, counts in (("pass", joint.passed), ("fail", joint.failed))
    )
    left = f"; {joint.unmeasured:,} runs without both grades" if joint.unmeasured else ""
    caption = f"Was it earned? Outcome against {joint.grade}{left}"
    return Table(id=f"joint-{at}", caption=caption, columns=columns, rows=rows)


def _note(said: str, href: str | None) -> Cell:
    return Cell(text=said, tone="quiet", href=href if said else None)


def _flips(report: Report) -> tuple[str, ...]:
    if isinstance(report.rank_flips, Unmeasured):
        return ()
    return tuple(flipped(flip) for flip in report.rank_flips)


def _gates(report: GateReport | None) -> tuple[tuple[str, str, Tone], ...]:
    if report is None:
        return ()
    return tuple(
        (workflow.workflow, gate_lines.WORDS[found], OUTCOME.get(found, "quiet"))
        for workflow in report.workflows
        for found in (gate_lines.outcome(workflow),)
    )
