"""Gates as they were decided: what `gate --json` wrote, and what a baseline would change.

A page never decides a gate: every look at a commit spends of its alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stepscope.gates.types import GateDecision, GateReport, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.gate_json import GateDocument
from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Cell, Column, Empty, Page, Row, Table, Tone

TONES: dict[str, Tone] = {"fail": "bad", "pass": "good", "undecided": "warn", "not_run": "quiet"}
# Characters of a commit that people tell it by.
COMMIT = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    """The gates of one workflow: the word for all, a row a gate, and its failing cases."""

    name: str
    word: str
    tone: Tone
    size: str
    table: Table
    failing: Table | None
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatesContent:
    """What the template of the gates reads.

    Attributes:
        latest: the workflows of the last document.
        summary: its one line.
        remarks: what was read and could not be used.
        history: a row a document and workflow, the last first.
        baselines: lines of what a baseline would change, by workflow.
    """

    latest: tuple[WorkflowView, ...]
    summary: str
    remarks: tuple[str, ...]
    history: Table | None
    baselines: tuple[tuple[str, tuple[str, ...]], ...]
    empty: Empty | None


def gates(
    documents: Sequence[GateDocument],
    *,
    links: Links,
    baselines: Mapping[str, Sequence[str]] | None = None,
) -> Page:
    """Return the page of gates.

    Args:
        documents: what `stepscope gate --json` wrote, the latest last.
        links: where things are.
        baselines: by workflow, the lines of what `baseline update` would change.
    """
    last = documents[-1] if documents else None
    empty = Empty(
        said="No gate was decided for this page: declare gates in stepscope.toml, and decide them.",
        commands=(
            "stepscope gate --json --out gate.json",
            "stepscope report --html r.html --gates gate.json",
        ),
    )
    content = GatesContent(
        latest=() if last is None else tuple(_views(last.report, links)),
        summary="" if last is None else gate_lines.summary(last.report, last.exit_code),
        remarks=() if last is None else last.remarks,
        history=_history(documents) if len(documents) > 1 else None,
        baselines=tuple((name, tuple(said)) for name, said in (baselines or {}).items()),
        empty=empty if last is None else None,
    )
    return Page(name="gates", title="Gates", template="gates.html", anchor="gates", content=content)


def _views(report: GateReport, links: Links) -> Iterable[WorkflowView]:
    for at, workflow in enumerate(report.workflows):
        found = gate_lines.outcome(workflow)
        yield WorkflowView(
            name=workflow.workflow,
            word=gate_lines.WORDS[found],
            tone=TONES[found],
            size=gate_lines.size(workflow),
            table=_table(workflow, at),
            failing=_failing(workflow, at, links),
            changes=tuple(gate_lines.changes(workflow)),
        )


def _table(workflow: WorkflowDecision, at: int) -> Table:
    columns = (
        Column(key="gate", label="gate"),
        Column(key="decision", label="decision"),
        Column(key="severity", label="severity"),
        Column(key="value", label="value", number=True),
        Column(key="interval", label="90 % interval"),
        Column(key="p", label="adjusted p", number=True),
        Column(key="threshold", label="threshold"),
        Column(key="why", label="why"),
    )
    return Table(
        id=f"gates-{at}",
        caption=f"Gates of {workflow.workflow}",
        columns=columns,
        rows=tuple(_row(gate) for gate in workflow.gates),
    )


def _row(gate: GateDecision) -> Row:
    value = gate_lines.value(gate)
    return Row(
        cells=(
            Cell(text=gate.name, note=gate.measure),
            Cell(text=gate_lines.WORDS[gate.outcome], tone=TONES[gate.outcome]),
            Cell(text=gate.severity),
            Cell(text=value, sort=None if value == "-" else float(value)),
            Cell(text=gate_lines.interval(gate)),
            Cell(text=gate_lines.p_value(gate), sort=gate.p_adjusted),
            Cell(text=gate.threshold),
            Cell(text="; ".join(gate_lines.more(gate)), tone="quiet"),
        )
    )


def _failing(workflow: WorkflowDecision, at: int, links: Links) -> Table | None:
    rows = tuple(
        Row(
            cells=(
                Cell(text=gate.name),
                Cell(text=case.case),
                Cell(
                    text=gate_lines.runs(case.runs),
                    href=links.run(case.ids[0], case.steps[0] if case.steps else None)
                    if case.ids
                    else None,
                ),
                Cell(text=gate_lines.steps(case.steps)),
                Cell(text=case.evidence),
            )
        )
        for gate in workflow.gates
        for case in gate.failing
    )
    if not rows:
        return None
    columns = tuple(
        Column(key=key, label=key) for key in ("gate", "case", "runs", "steps", "evidence")
    )
    return Table(
        id=f"failing-{at}",
        caption=f"Cases in breach, {workflow.workflow}",
        columns=columns,
        rows=rows,
    )


def _history(documents: Sequence[GateDocument]) -> Table:
    rows = tuple(
        Row(
            cells=(
                Cell(text=str(number + 1), sort=number),
                Cell(text=(document.report.commit or "none said")[:COMMIT]),
                Cell(text=workflow.workflow),
                Cell(text=gate_lines.WORDS[found], tone=TONES[found]),
                Cell(text=f"{workflow.n_runs:,}", sort=workflow.n_runs),
                Cell(text=", ".join(g.name for g in workflow.gates if g.outcome == "fail")),
            )
        )
        for number, document in reversed(list(enumerate(documents)))
        for workflow in document.report.workflows
        for found in (gate_lines.outcome(workflow),)
    )
    columns = (
        Column(key="at", label="report", number=True),
        Column(key="commit", label="commit"),
        Column(key="workflow", label="workflow"),
        Column(key="outcome", label="outcome"),
        Column(key="runs", label="runs", number=True),
        Column(key="failed", label="failed gates"),
    )
    return Table(id="gate-history", caption="Reports, the last first", columns=columns, rows=rows)
