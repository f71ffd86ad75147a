"""A gate report as text and as a page, with earlier reports, looks and the baseline.

A page never decides a gate: each look at a commit spends some of its alpha. Case names, evidence
and reasons may hold text of a trace: they are made visible before they are printed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from stepscope.gates.looks import GateHistory
from stepscope.gates.types import (
    CaseFailure,
    GateDecision,
    GateOutcome,
    GateReport,
    WorkflowDecision,
)
from stepscope.report.document import (
    EmptyNotice,
    Links,
    Page,
    Table,
    TableCell,
    TableColumn,
    TableRow,
    Tone,
)
from stepscope.report.types import GateDocument
from stepscope.report.words import clip, fold, format_share, shorten
from stepscope.safety.text import disarm_commands, visible_line
from stepscope.values import Unmeasured

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
    said = f"{_n(workflow.n_runs, 'run')} of {_n(workflow.n_cases, 'case')}"
    if workflow.n_baseline_runs:
        said += f"; baseline {_n(workflow.n_baseline_runs, 'run')}, "
        said += f"{_n(workflow.n_shared, 'case')} shared"
    else:
        said += ", no baseline"
    return "; ".join(part for part in (said, workflow.design, workflow.absent) if part)


def describe_changes(workflow: WorkflowDecision) -> Iterator[str]:
    """Yield what vanished from the baseline, and what it does not know yet."""
    if workflow.vanished:
        yield f"not run, though in the baseline: {_named(workflow.vanished)}"
    if workflow.new:
        yield f"new, in no comparison: {_named(workflow.new)}"


def format_estimate(gate: GateDecision) -> str:
    """Return the estimate as a number; "-" where there is none."""
    if gate.estimate is None or isinstance(gate.estimate, Unmeasured):
        return "-"
    return format_share(gate.estimate.value)


def format_limits(gate: GateDecision) -> str:
    """Return the limits of the estimate, each one-sided 95 %."""
    estimate = gate.estimate
    if estimate is None or isinstance(estimate, Unmeasured):
        return "-"
    if estimate.low is None and estimate.high is None:
        return "-"
    low, high = ("-" if x is None else format_share(x) for x in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def format_adjusted_p(gate: GateDecision) -> str:
    """Return p after adjustment; "-" where nothing was tested."""
    if gate.p_adjusted is None:
        return "-"
    return "<.001" if gate.p_adjusted < 0.001 else format_share(gate.p_adjusted)


def explain_gate(gate: GateDecision) -> Iterator[str]:
    """Yield what stands below a gate: why, with its cause, and what did not decide."""
    cause = f" ({gate.cause})" if gate.cause is not None else ""
    yield f"{gate.reason}{cause}"
    yield from gate.notes


def list_steps(indexes: tuple[int, ...]) -> str:
    """Return the steps that a case is faulted for; "" for none.

    >>> list_steps((3,)), list_steps((1, 2, 3, 4, 5, 6))
    ('step 3', 'steps 1 2 3 4 5 ...')
    """
    if not indexes:
        return ""
    shown = " ".join(str(index) for index in indexes[:5])
    return f"step{'s' * (len(indexes) > 1)} {shown}" + (" ..." if len(indexes) > 5 else "")


def list_failing_runs(names: tuple[str, ...]) -> str:
    """Return the first run in breach of a case, the others counted."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""


def _named(cases: tuple[str, ...]) -> str:
    rest = len(cases) - NAMED
    return ", ".join(cases[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


# Columns of the table; a gate's name may need more than its own.
NAME, SEVERITY, OUTCOME, VALUE, INTERVAL, P = 22, 6, 11, 8, 17, 8
# Cases listed below a gate; the JSON has more.
CASES = 5


def render_gate_text(
    report: GateReport, *, code: int, remarks: Sequence[str] = (), width: int = 100
) -> str:
    """Return the report as text, no line longer than `width` columns; ends in a line break."""
    # Calming a line that a fold begins with `::` adds a column.
    width -= 1
    out: list[str] = []
    for workflow in report.workflows:
        out += [*_workflow(workflow, width), ""]
    for remark in remarks:
        out += fold(f"Note: {_shown(remark)}", width, 6)
    out += fold(summarise_gates(report, code), width, 2)
    return disarm_commands("\n".join(out)) + "\n"


def _workflow(workflow: WorkflowDecision, width: int) -> Iterator[str]:
    word = WORDS[resolve_outcome(workflow)]
    title = f"{workflow.workflow}   {word}   {describe_size(workflow)}"
    yield from fold(_shown(title), width, 2)
    for line in describe_changes(workflow):
        yield from fold(f"  {_shown(line)}", width, 4)
    wide = max([NAME, *(len(_shown(gate.name)) + 2 for gate in workflow.gates)])
    wide = min(wide, width - 58)
    yield _lay_out_gate("", ("", "outcome", "value", "90 % interval", "adj. p"), wide)
    for gate in workflow.gates:
        yield from _gate(gate, wide, width)


def _gate(gate: GateDecision, wide: int, width: int) -> Iterator[str]:
    cells = (
        gate.severity,
        WORDS[gate.outcome],
        format_estimate(gate),
        format_limits(gate),
        format_adjusted_p(gate),
    )
    yield _lay_out_gate(_shown(gate.name), cells, wide)
    first, *rest = explain_gate(gate)
    for line in (f"{gate.threshold}: {first}", *rest):
        yield from fold(f"    {_shown(line)}", width, 6)
    for case in gate.failing[:CASES]:
        yield _case(case, width)
    unseen = gate.n_failing - min(len(gate.failing), CASES)
    if unseen > 0:
        yield f"    ... {unseen:,} more case{'s' * (unseen > 1)}"


def _case(case: CaseFailure, width: int) -> str:
    parts = (list_failing_runs(case.runs), list_steps(case.steps))
    where = ", ".join(part for part in parts if part)
    head = f"    case {clip(_shown(case.case), 20)}: {clip(_shown(where), 46)}"
    if not case.evidence:
        return clip(head, width)
    room = max(width - len(head) - 2, 20)
    return clip(f"{head}: {shorten(_shown(case.evidence), room, ends=False)}", width)


def _lay_out_gate(name: str, cells: tuple[str, ...], wide: int) -> str:
    severity, outcome, value, interval, p = cells
    head = f"  {clip(name, wide - 2):<{wide - 2}}{severity:<{SEVERITY}}{outcome:<{OUTCOME}}"
    return f"{head}{value:>{VALUE}}  {interval:<{INTERVAL}}{p:>{P}}".rstrip()


def _shown(text: str) -> str:
    return disarm_commands(visible_line(text))


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
    columns = (
        TableColumn(
            key="at", label="report", number=True, help="In the order in which they were named"
        ),
        TableColumn(key="commit", label="commit"),
        TableColumn(key="outcome", label="all gates"),
        TableColumn(key="runs", label="runs", number=True),
        *(TableColumn(key=f"g{n}", label=name) for n, name in enumerate(names)),
    )
    rows = tuple(
        _history_row(number, commit, decided, names) for number, commit, decided in found[::-1]
    )
    caption = f"Reports on {workflow}, the last first"
    return Table(id=f"gate-history-{at}", caption=caption, columns=columns, rows=rows)


def _history_row(
    number: int, commit: str | None, decided: WorkflowDecision, names: Sequence[str]
) -> TableRow:
    word = resolve_outcome(decided)
    gates = {gate.name: gate for gate in decided.gates}
    return TableRow(
        cells=(
            TableCell(text=str(number + 1), sort=number),
            TableCell(text=_commit(commit)),
            TableCell(text=WORDS[word], tone=TONES[word]),
            TableCell(text=f"{decided.n_runs:,}", sort=decided.n_runs),
            *(_decided(gates.get(name)) for name in names),
        )
    )


def _decided(gate: GateDecision | None) -> TableCell:
    if gate is None:
        return TableCell(text="no such gate", tone="quiet")
    value, interval = format_estimate(gate), format_limits(gate)
    note = "" if value == "-" else f"{value} {interval}".removesuffix(" -")
    word = WORDS[gate.outcome]
    return TableCell(text=word, note=note, tone=TONES[gate.outcome], title=gate.reason)


def _commit(commit: str | None) -> str:
    return (commit or "none said")[:COMMIT]


def view_baseline(kept: GateHistory, at: int) -> BaselineView:
    """Return what is kept of a workflow as a page shows it."""
    return BaselineView(
        title=f"Baseline {kept.file}" if kept.file else "Baseline",
        holds=kept.holds,
        changes=kept.changes[:MOST_LINES],
        more=max(len(kept.changes) - MOST_LINES, 0),
        problems=kept.problems,
        looked=_looked(kept, at),
    )


def _looked(kept: GateHistory, at: int) -> Table | None:
    if not kept.looked:
        return None
    columns = (
        TableColumn(key="commit", label="commit"),
        TableColumn(key="looks", label="looks", number=True, help="Each may spend less of alpha"),
        TableColumn(key="runs", label="runs", number=True),
        TableColumn(key="policy", label="policy"),
    )
    rows = tuple(
        TableRow(
            cells=(
                TableCell(text=_commit(one.commit)),
                TableCell(text=f"{one.looks:,}", sort=one.looks),
                TableCell(text=f"{one.runs:,}", sort=one.runs),
                TableCell(
                    text="the present one" if one.current else "an earlier one", tone="quiet"
                ),
            )
        )
        for one in reversed(kept.looked)
    )
    caption = f"Looks at each commit of {kept.workflow}, the last first"
    return Table(id=f"gate-looks-{at}", caption=caption, columns=columns, rows=rows)


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
    empty: EmptyNotice | None


def make_gates_page(
    documents: Sequence[GateDocument],
    *,
    links: Links,
    kept: Sequence[GateHistory] = (),
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
        summary="" if last is None else summarise_gates(last.report, last.exit_code),
        remarks=() if last is None else last.remarks,
        alone=ALONE if alone else "",
        empty=_empty(bool(kept), links) if last is None else None,
    )
    return Page(name="gates", title="Gates", template="gates.html", anchor="gates", content=content)


def _empty(declared: bool, links: Links) -> EmptyNotice:
    said = (
        "No gate was decided for this page: decide the gates, and name the report."
        if declared
        else "No gate was decided for this page: declare [workflow.NAME.gates] in stepscope.toml, "
        "decide them, and name the report."
    )
    served = links.runs() is not None
    shown = "stepscope view" if served else "stepscope report --html report.html"
    return EmptyNotice(
        said=said,
        commands=("stepscope gate --json --out gate.json", f"{shown} --gates gate.json"),
    )


def _views(
    documents: Sequence[GateDocument], kept: Sequence[GateHistory], links: Links
) -> Iterable[WorkflowView]:
    last = {w.workflow: w for w in documents[-1].report.workflows} if documents else {}
    held = {one.workflow: one for one in kept}
    earlier = [w.workflow for document in documents for w in document.report.workflows]
    for at, name in enumerate(dict.fromkeys([*last, *held, *earlier])):
        workflow = last.get(name)
        found = None if workflow is None else resolve_outcome(workflow)
        yield WorkflowView(
            name=name,
            word="not decided" if found is None else WORDS[found],
            tone="quiet" if found is None else TONES[found],
            size="" if workflow is None else describe_size(workflow),
            table=None if workflow is None else _table(workflow, at),
            failing=None if workflow is None else _failing(workflow, at, links),
            changes=() if workflow is None else tuple(describe_changes(workflow)),
            history=tabulate_history(documents, name, at),
            baseline=view_baseline(held[name], at) if name in held else None,
        )


def _table(workflow: WorkflowDecision, at: int) -> Table:
    columns = (
        TableColumn(key="gate", label="gate"),
        TableColumn(key="decision", label="decision"),
        TableColumn(key="severity", label="severity"),
        TableColumn(key="value", label="value", number=True),
        TableColumn(key="interval", label="90 % interval"),
        TableColumn(key="p", label="adjusted p", number=True),
        TableColumn(key="threshold", label="threshold"),
        TableColumn(key="why", label="why"),
    )
    return Table(
        id=f"gates-{at}",
        caption=f"Gates of {workflow.workflow}",
        columns=columns,
        rows=tuple(_gate_row(gate) for gate in workflow.gates),
    )


def _gate_row(gate: GateDecision) -> TableRow:
    value = format_estimate(gate)
    return TableRow(
        cells=(
            TableCell(text=gate.name, note=gate.measure),
            TableCell(text=WORDS[gate.outcome], tone=TONES[gate.outcome]),
            TableCell(text=gate.severity),
            TableCell(text=value, sort=None if value == "-" else float(value)),
            TableCell(text=format_limits(gate)),
            TableCell(text=format_adjusted_p(gate), sort=gate.p_adjusted),
            TableCell(text=gate.threshold),
            TableCell(text="; ".join(explain_gate(gate)), tone="quiet"),
        )
    )


def _failing(workflow: WorkflowDecision, at: int, links: Links) -> Table | None:
    rows = tuple(
        TableRow(
            cells=(
                TableCell(text=gate.name),
                TableCell(text=case.case),
                TableCell(
                    text=list_failing_runs(case.runs),
                    href=links.run(case.ids[0], case.steps[0] if case.steps else None)
                    if case.ids
                    else None,
                ),
                TableCell(text=list_steps(case.steps)),
                TableCell(text=case.evidence),
            )
        )
        for gate in workflow.gates
        for case in gate.failing
    )
    if not rows:
        return None
    columns = tuple(
        TableColumn(key=key, label=key) for key in ("gate", "case", "runs", "steps", "evidence")
    )
    return Table(
        id=f"failing-{at}",
        caption=f"Cases in breach, {workflow.workflow}",
        columns=columns,
        rows=rows,
    )
