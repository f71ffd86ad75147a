"""A gate report as text for a terminal or a log: fits 100 columns, readable at 80.

Whatever came from a trace passes through `visible_line`, and the whole through `calm`: no escape
sequence reaches the terminal, and no line is a command to a CI system.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepscope.gates.types import CaseFailure, GateDecision, GateReport, WorkflowDecision
from stepscope.report import gate_lines
from stepscope.report.cutting import shorten
from stepscope.report.text import clip, fold
from stepscope.safety.logs import calm
from stepscope.safety.text import visible_line

# Columns of the table; a gate's name may need more than its own.
NAME, SEVERITY, OUTCOME, VALUE, INTERVAL, P = 22, 6, 11, 8, 17, 8
# Cases listed below a gate; the JSON has more.
CASES = 5


def render(report: GateReport, *, code: int, remarks: Sequence[str] = (), width: int = 100) -> str:
    """Return the report as text, no line longer than `width` columns; ends in a line break."""
    # Calming a line that a fold begins with `::` adds a column.
    width -= 1
    out: list[str] = []
    for workflow in report.workflows:
        out += [*_workflow(workflow, width), ""]
    for remark in remarks:
        out += fold(f"Note: {_shown(remark)}", width, 6)
    out += fold(gate_lines.summary(report, code), width, 2)
    return calm("\n".join(out)) + "\n"


def _workflow(workflow: WorkflowDecision, width: int) -> Iterator[str]:
    word = gate_lines.WORDS[gate_lines.outcome(workflow)]
    title = f"{workflow.workflow}   {word}   {gate_lines.size(workflow)}"
    yield from fold(_shown(title), width, 2)
    for line in gate_lines.changes(workflow):
        yield from fold(f"  {_shown(line)}", width, 4)
    wide = max([NAME, *(len(_shown(gate.name)) + 2 for gate in workflow.gates)])
    wide = min(wide, width - 58)
    yield _row("", ("", "outcome", "value", "90 % interval", "adj. p"), wide)
    for gate in workflow.gates:
        yield from _gate(gate, wide, width)


def _gate(gate: GateDecision, wide: int, width: int) -> Iterator[str]:
    cells = (
        gate.severity,
        gate_lines.WORDS[gate.outcome],
        gate_lines.value(gate),
        gate_lines.interval(gate),
        gate_lines.p_value(gate),
    )
    yield _row(_shown(gate.name), cells, wide)
    first, *rest = gate_lines.more(gate)
    for line in (f"{gate.threshold}: {first}", *rest):
        yield from fold(f"    {_shown(line)}", width, 6)
    for case in gate.failing[:CASES]:
        yield _case(case, width)
    unseen = gate.n_failing - min(len(gate.failing), CASES)
    if unseen > 0:
        yield f"    ... {unseen:,} more case{'s' * (unseen > 1)}"


def _case(case: CaseFailure, width: int) -> str:
    parts = (gate_lines.runs(case.runs), gate_lines.steps(case.steps))
    where = ", ".join(part for part in parts if part)
    head = f"    case {clip(_shown(case.case), 20)}: {clip(_shown(where), 46)}"
    if not case.evidence:
        return clip(head, width)
    room = max(width - len(head) - 2, 20)
    return clip(f"{head}: {shorten(_shown(case.evidence), room, ends=False)}", width)


def _row(name: str, cells: tuple[str, ...], wide: int) -> str:
    severity, outcome, value, interval, p = cells
    head = f"  {clip(name, wide - 2):<{wide - 2}}{severity:<{SEVERITY}}{outcome:<{OUTCOME}}"
    return f"{head}{value:>{VALUE}}  {interval:<{INTERVAL}}{p:>{P}}".rstrip()


def _shown(text: str) -> str:
    return calm(visible_line(text))
