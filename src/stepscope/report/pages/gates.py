"""Gates as they were decided: what `gate --json` wrote, and what a baseline would change.

A page never decides a gate: every look at a commit spends of its alpha.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stepscope.gates.kept import Kept
from stepscope.gates.types import GateDecision, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.gate_json import GateDocument
from stepscope.report.pages import gate_history
from stepscope.report.pages.gate_history import TONES, BaselineView
from stepscope.report.pages.links import Links
from stepscope.report.pages.page import Cell, Column, Empty, Page, Row, Table, Tone

# A report says nothing of those before it.
ALONE = "One report, so no history: name earlier ones as well, --gates FILE for each, latest last."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowView:
    """The gates of one workflow: the word for all, a row a gate, failing cases, what came before.

    A workflow that is not in the last report has its history and its baseline alone.
    """

    name: str
    word: str
    tone: Tone
    size: str
    table: Table | None
    failing: Table | None
    changes: tuple[str, ...]
    history: Table | None
    baseline: BaselineView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GatesContent:
    """What the template of the gates reads.

    Attributes:
        workflows: those of the last document, then those of which something else is kept.
        summary: the one line of the last document.
        remarks: what was read and could not be used.
        alone: why there is no history yet; "" where there is, or no report at all.
        empty: what to run where no gate was decided.
    """

    workflows: tuple[WorkflowView, ...]
    summary: str
    remarks: tuple[str, ...]
    alone: str
    empty: Empty | None


def gates(
    documents: Sequence[GateDocument],
    *,
    links: Links,
    kept: Sequence[Kept] = (),
) -> Page:
    """Return the page of gates.

    Args:
        documents: what `stepscope gate --json` wrote, the latest last.
        links: where things are.
        kept: baselines and looks, by workflow.
    """
    last = documents[-1] if documents else None
    workflows = tuple(_views(documents, kept, links))
    alone = last is not None and not any(view.history for view in workflows)
    content = GatesContent(
        workflows=workflows,
        summary="" if last is None else gate_lines.summary(last.report, last.exit_code),
        remarks=() if last is None else last.remarks,
        alone=ALONE if alone else "",
        empty=_empty(bool(kept), links) if last is None else None,
    )
    return Page(name="gates", title="Gates", template="gates.html", anchor="gates", content=content)


def _empty(declared: bool, links: Links) -> Empty:
    said = (
        "No gate was decided for this page: decide the gates, and name the report."
        if declared
        else "No gate was decided for this page: declare [workflow.NAME.gates] in stepscope.toml, "
        "decide them, and name the report."
    )
    served = links.runs() is not None
    shown = "stepscope view" if served else "stepscope report --html report.html"
    return Empty(
        said=said,
        commands=("stepscope gate --json --out gate.json", f"{shown} --gates gate.json"),
    )


def _views(
    documents: Sequence[GateDocument], kept: Sequence[Kept], links: Links
) -> Iterable[WorkflowView]:
    last = {w.workflow: w for w in documents[-1].report.workflows} if documents else {}
    held = {one.workflow: one for one in kept}
    earlier = [w.workflow for document in documents for w in document.report.workflows]
    for at, name in enumerate(dict.fromkeys([*last, *held, *earlier])):
        workflow = last.get(name)
        found = None if workflow is None else gate_lines.outcome(workflow)
        yield WorkflowView(
            name=name,
            word="not decided" if found is None else gate_lines.WORDS[found],
            tone="quiet" if found is None else TONES[found],
            size="" if workflow is None else gate_lines.size(workflow),
            table=None if workflow is None else _table(workflow, at),
            failing=None if workflow is None else _failing(workflow, at, links),
            changes=() if workflow is None else tuple(gate_lines.changes(workflow)),
            history=gate_history.history(documents, name, at),
            baseline=gate_history.baseline(held[name], at) if name in held else None,
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
