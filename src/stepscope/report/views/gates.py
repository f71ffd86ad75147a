"""A gate report as text and as a page, with earlier reports, looks and the baseline.

A page never decides a gate: each look at a commit spends some of its alpha. Case names, evidence
and reasons may hold text of a trace: they are made visible before they are printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from stepscope import values
from stepscope.gates.looks import GateHistory
from stepscope.gates.selftest import GateSelftest
from stepscope.gates.types import GateDecision, GateOutcome, GateReport, WorkflowDecision
from stepscope.report.document import (
    Document,
    Links,
    Paragraph,
    Section,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
    make_columns,
    make_row,
    make_table,
)
from stepscope.report.types import GateDocument
from stepscope.report.words import clip, list_some
from stepscope.safety.text import disarm_commands, visible_line

Counting = Literal["fail", "error", "skip", "pass"]

WORDS: dict[GateOutcome, str] = {
    "fail": "FAIL",
    "pass": "pass",
    "undecided": "undecided",
    "not_run": "not run",
}
# What an exit code says of the whole invocation.
CODES = {0: "passed", 3: "FAILED", 4: "NOT DECIDED"}
# Cases that vanished or are new are counted; so many are named.
NAMED = 5


def summarise_gates(report: GateReport, code: int) -> str:
    """Return the whole invocation in one line."""
    counts = [sum(gate.outcome == outcome for gate in report.gates) for outcome in WORDS]
    parts = [f"{n} {WORDS[o].lower()}" for o, n in zip(WORDS, counts, strict=True) if n]
    look = f", look {report.look} at this commit" if report.look > 1 else ""
    alpha = f"alpha {report.alpha:g}, this look may spend {report.alpha_look:.2g}"
    return f"Gates {CODES[code]}: {', '.join(parts) or 'none'} ({alpha}{look}, seed {report.seed})"


def resolve_outcome(workflow: WorkflowDecision) -> GateOutcome:
    """Return the outcome of a workflow; with a gate that could not be measured it never passes."""
    lost = any(gate.outcome != "not_run" and not gate.measured for gate in workflow.gates)
    return "undecided" if lost and workflow.outcome != "fail" else workflow.outcome


def describe_size(workflow: WorkflowDecision) -> str:
    """Return how many runs and cases there are, how they fit the baseline, and what is absent."""
    count = values.format_count
    said = f"{count(workflow.n_runs, 'run')} of {count(workflow.n_cases, 'case')}"
    shared = f"{count(workflow.n_shared, 'case')} shared"
    before = f"; baseline {count(workflow.n_baseline_runs, 'run')}, {shared}"
    said += before if workflow.n_baseline_runs else ", no baseline"
    return "; ".join(part for part in (said, workflow.design, workflow.absent) if part)


def describe_changes(workflow: WorkflowDecision) -> Iterator[str]:
    """Yield what vanished from the baseline, and what it does not know yet."""
    if workflow.vanished:
        yield f"not run, though in the baseline: {_named(workflow.vanished)}"
    if workflow.new:
        yield f"new, in no comparison: {_named(workflow.new)}"


def format_gate(gate: GateDecision) -> tuple[str, str]:
    """Return the estimate of a gate and its limits, each one-sided 95 %; "-" where it has none."""
    if gate.estimate is None or isinstance(gate.estimate, values.Unmeasured):
        return "-", "-"
    told = []
    for one in (gate.estimate, gate.uncorrected):
        if one is not None and not isinstance(one, values.Unmeasured):
            drop = gate.rule == "regression"
            said = (values.format_difference if drop else values.format_number)(one.value, one.unit)
            told.append(said.removeprefix("+"))
    return told[0], ", corrected from ".join([values.format_interval(gate.estimate), *told[1:]])


def explain_gate(gate: GateDecision) -> Iterator[str]:
    """Yield what stands below a gate: why, and what did not decide."""
    yield gate.reason
    yield from gate.notes


def list_steps(indexes: tuple[int, ...]) -> str:
    """Return the steps that a case is faulted for; "" for none."""
    return f"step{'s' * (len(indexes) > 1)} {list_some(indexes, 5)}" if indexes else ""


def list_failing_runs(names: tuple[str, ...]) -> str:
    """Return the first run in breach of a case, the others counted."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""


def _named(cases: tuple[str, ...]) -> str:
    rest = len(cases) - NAMED
    return ", ".join(cases[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


# Columns of the table in text; a gate's name may need more than its own.
GATE_COLUMNS = (
    TableColumn("gate", least=20, most=80),
    TableColumn("", least=6, gap=0),
    TableColumn("result", least=11, gap=0),
    TableColumn("value", number=True, least=8, gap=0),
    TableColumn("90 % interval", least=17),
    TableColumn("adj. p", number=True, least=8, gap=0),
)
# Cases listed below a gate; the JSON has more.
CASES = 5


def make_gate_document(report: GateReport, *, code: int, remarks: Sequence[str] = ()) -> Document:
    """Return the report as text has it: a table a workflow, reasons and cases below each gate."""
    out: list[Section] = []
    for workflow in report.workflows:
        about = f"{WORDS[resolve_outcome(workflow)]}   {describe_size(workflow)}"
        rows = tuple(_gate(gate) for gate in workflow.gates)
        head = Paragraph(about, heading=_shown(workflow.workflow))
        changes = [Paragraph(_shown(line), indent=2) for line in describe_changes(workflow)]
        out.append([head, *changes, Table("gates", GATE_COLUMNS, rows, indent=2)])
    notes = [Paragraph(lead="Note: ", text=_shown(remark), hang=6) for remark in remarks]
    return [*out, [*notes, Paragraph(summarise_gates(report, code))]]


def _gate(gate: GateDecision) -> TableRow:
    first, *rest = explain_gate(gate)
    why = (f"{gate.threshold}: {first}", *rest)
    below = [Paragraph(_shown(line), indent=4) for line in why]
    for case in gate.failing[:CASES]:
        parts = (list_failing_runs(case.runs), list_steps(case.steps))
        where = clip(_shown(", ".join(part for part in parts if part)), 46)
        said = f": {_shown(case.evidence)}" if case.evidence else ""
        text = f"case {clip(_shown(case.case), 20)}: {where}{said}"
        below.append(Paragraph(text, indent=4, one_line=True))
    unseen = gate.n_failing - min(len(gate.failing), CASES)
    if unseen > 0:
        below.append(Paragraph(f"... {values.format_count(unseen, 'more case')}", indent=4))
    outcome, p = WORDS[gate.outcome], values.format_p(gate.p_adjusted)
    row = make_row(_shown(gate.name), gate.severity, outcome, *format_gate(gate), p)
    return replace(row, below=tuple(below))


def _shown(text: str) -> str:
    return disarm_commands(visible_line(text))


# Columns of a selftest in text; each share stands with its interval.
SELFTEST_COLUMNS = (
    TableColumn("gate", least=18, most=80),
    TableColumn("", least=4),
    *(TableColumn(name, least=17, gap=1) for name in ("false alarm", "undecided")),
    *(TableColumn(name, least=17, gap=1) for name in ("missed", "undecided then")),
)


def make_selftest_document(found: Sequence[GateSelftest]) -> Document:
    """Return how often gates are wrong: a table a workflow, what its shares cannot say below."""
    out: list[Section] = []
    for one in found:
        count = values.format_count
        size = f"{count(one.n_runs, 'run')} of {count(one.n_cases, 'case')}"
        alarms, drop = values.format_estimate(one.false_alarms), values.format_percent(one.drop)
        about = (
            f"{count(one.invocations, 'invocation')} of {one.drawn:,} runs each, drawn from a "
            f"baseline of {size}. With nothing changed a hard gate fails in {alarms} (alpha "
            f"{one.alpha:g}, a first look, seed {one.seed}). Missed: {drop} fewer runs are good, "
            "or runs take so much longer, and the gate passes."
        )
        rows = []
        for gate in one.gates:
            shares = (gate.false_alarms, gate.undecided, gate.missed, gate.undecided_worse)
            cells = [
                "not run" if gate.not_run else values.format_estimate(share) for share in shares
            ]
            rows.append(make_row(_shown(gate.name), gate.severity, *cells))
        head = Paragraph(about, heading=_shown(one.workflow))
        notes = [Paragraph(_shown(note), lead="Note: ", hang=6) for note in one.notes]
        out.append([head, Table("selftest", SELFTEST_COLUMNS, rows, indent=2), *notes])
    return out


TONES: dict[GateOutcome, Tone] = {
    "fail": "bad",
    "pass": "good",
    "undecided": "warn",
    "not_run": "quiet",
}
# Characters of a commit that people tell it by.
COMMIT = 12


def tabulate_history(documents: Sequence[GateDocument], workflow: str, at: int) -> Table | None:
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
    rows = []
    for place, commit, decided in found[::-1]:
        word = resolve_outcome(decided)
        gates = {gate.name: gate for gate in decided.gates}
        number = TableCell(str(place + 1), sort=place)
        all_of_them = TableCell(WORDS[word], tone=TONES[word])
        runs = TableCell(f"{decided.n_runs:,}", sort=decided.n_runs)
        each = (_decided(gates.get(name)) for name in names)
        rows.append(make_row(number, _commit(commit), all_of_them, runs, *each))
    first = TableColumn("report", number=True, help="In the order in which they were named")
    columns = first, *make_columns("commit", "all gates", "runs", *names, numbers=["runs"])
    caption = f"Reports on {workflow}, the last first"
    return Table(f"gate-history-{at}", columns, rows, caption=caption)


def _decided(gate: GateDecision | None) -> TableCell:
    if gate is None:
        return TableCell("no such gate", tone="quiet")
    value, limits = format_gate(gate)
    note = "" if value == "-" else f"{value}, {limits}"
    return TableCell(WORDS[gate.outcome], note=note, tone=TONES[gate.outcome], title=gate.reason)


def _commit(commit: str | None) -> str:
    return (commit or "none said")[:COMMIT]


def tabulate_looks(kept: GateHistory, at: int) -> Table | None:
    """Return the looks at each commit; None where nothing was looked at."""
    if not kept.looked:
        return None
    looks = TableColumn("looks", number=True, help="Each may spend less of alpha")
    columns = TableColumn("commit"), looks, *make_columns("runs", "policy", numbers=["runs"])
    rows = []
    for one in reversed(kept.looked):
        policy = TableCell("the present one" if one.current else "an earlier one", tone="quiet")
        counts = (TableCell(f"{count:,}", sort=count) for count in (one.looks, one.runs))
        rows.append(make_row(_commit(one.commit), *counts, policy))
    caption = f"Looks at each commit of {kept.workflow}, the last first"
    return Table(f"gate-looks-{at}", columns, rows, caption=caption)


def tabulate_gates(workflow: WorkflowDecision, at: int) -> Table:
    """Return the gates of a workflow, a row each."""
    out = []
    for gate in workflow.gates:
        value, limits = format_gate(gate)
        name = TableCell(gate.name, note=gate.measure)
        decided = TableCell(WORDS[gate.outcome], tone=TONES[gate.outcome])
        estimate = TableCell(value, sort=getattr(gate.estimate, "value", None))
        p = TableCell(values.format_p(gate.p_adjusted), sort=gate.p_adjusted)
        why = TableCell("; ".join(explain_gate(gate)), tone="quiet")
        out.append((name, decided, gate.severity, estimate, limits, p, gate.threshold, why))
    labels = ("gate", "decision", "severity", "value", "90 % interval", "adjusted p", "threshold")
    caption, numbers = f"Gates of {workflow.workflow}", ("value", "adjusted p")
    return make_table(f"gates-{at}", (*labels, "why"), out, numbers=numbers, caption=caption)


def tabulate_failing(workflow: WorkflowDecision, at: int, links: Links) -> Table | None:
    """Return the cases in breach; None where there is none."""
    rows = []
    for gate in workflow.gates:
        for case in gate.failing:
            step = case.steps[0] if case.steps else None
            href = links.run(case.ids[0], step) if case.ids else None
            runs = TableCell(list_failing_runs(case.runs), href=href)
            rows.append((gate.name, case.case, runs, list_steps(case.steps), case.evidence))
    labels = ("gate", "case", "runs", "steps", "evidence")
    caption = f"Cases in breach, {workflow.workflow}"
    return make_table(f"failing-{at}", labels, rows, caption=caption) if rows else None
