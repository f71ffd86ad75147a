"""What came before the last gate report of a workflow: earlier reports, looks, and the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.gates.kept import Kept
from stepscope.gates.types import GateDecision, GateOutcome, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.gate_json import GateDocument
from stepscope.report.pages.page import Cell, Column, Row, Table, Tone

TONES: dict[GateOutcome, Tone] = {
    "fail": "bad",
    "pass": "good",
    "undecided": "warn",
    "not_run": "quiet",
}
# Characters of a commit that people tell it by.
COMMIT = 12
# Lines of a difference that a page shows; the command that writes the baseline prints all.
MOST_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineView:
    """The baseline of a workflow: what it holds, and what the runs of the store would change."""

    title: str
    holds: str
    changes: tuple[str, ...]
    more: int
    problems: tuple[str, ...]
    looked: Table | None


def history(documents: Sequence[GateDocument], workflow: str, at: int) -> Table | None:
    """Return a row for each report that decides a workflow, the last first; None for one alone."""
    found = [
        (number, document.report.commit, decided)
        for number, document in enumerate(documents)
        for decided in document.report.workflows
        if decided.workflow == workflow
    ]
    if len(found) < 2:
        return None
    names = list(dict.fromkeys(gate.name for _, _, decided in found for gate in decided.gates))
    columns = (
        Column(key="at", label="report", number=True, help="In the order in which they were named"),
        Column(key="commit", label="commit"),
        Column(key="outcome", label="all gates"),
        Column(key="runs", label="runs", number=True),
        *(Column(key=f"g{n}", label=name) for n, name in enumerate(names)),
    )
    rows = tuple(_row(number, commit, decided, names) for number, commit, decided in found[::-1])
    caption = f"Reports on {workflow}, the last first"
    return Table(id=f"gate-history-{at}", caption=caption, columns=columns, rows=rows)


def _row(number: int, commit: str | None, decided: WorkflowDecision, names: Sequence[str]) -> Row:
    word = gate_lines.outcome(decided)
    gates = {gate.name: gate for gate in decided.gates}
    return Row(
        cells=(
            Cell(text=str(number + 1), sort=number),
            Cell(text=_commit(commit)),
            Cell(text=gate_lines.WORDS[word], tone=TONES[word]),
            Cell(text=f"{decided.n_runs:,}", sort=decided.n_runs),
            *(_decided(gates.get(name)) for name in names),
        )
    )


def _decided(gate: GateDecision | None) -> Cell:
    if gate is None:
        return Cell(text="no such gate", tone="quiet")
    value, interval = gate_lines.value(gate), gate_lines.interval(gate)
    note = "" if value == "-" else f"{value} {interval}".removesuffix(" -")
    word = gate_lines.WORDS[gate.outcome]
    return Cell(text=word, note=note, tone=TONES[gate.outcome], title=gate.reason)


def _commit(commit: str | None) -> str:
    return (commit or "none said")[:COMMIT]


def baseline(kept: Kept, at: int) -> BaselineView:
    """Return what is kept of a workflow as a page shows it."""
    return BaselineView(
        title=f"Baseline {kept.file}" if kept.file else "Baseline",
        holds=kept.holds,
        changes=kept.changes[:MOST_LINES],
        more=max(len(kept.changes) - MOST_LINES, 0),
        problems=kept.problems,
        looked=_looked(kept, at),
    )


def _looked(kept: Kept, at: int) -> Table | None:
    if not kept.looked:
        return None
    columns = (
        Column(key="commit", label="commit"),
        Column(key="looks", label="looks", number=True, help="Each may spend less of alpha"),
        Column(key="runs", label="runs", number=True),
        Column(key="policy", label="policy"),
    )
    rows = tuple(
        Row(
            cells=(
                Cell(text=_commit(one.commit)),
                Cell(text=f"{one.looks:,}", sort=one.looks),
                Cell(text=f"{one.runs:,}", sort=one.runs),
                Cell(text="the present one" if one.current else "an earlier one", tone="quiet"),
            )
        )
        for one in reversed(kept.looked)
    )
    caption = f"Looks at each commit of {kept.workflow}, the last first"
    return Table(id=f"gate-looks-{at}", caption=caption, columns=columns, rows=rows)
