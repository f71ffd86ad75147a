"""What every renderer of gates says in the same words: headline, value, losses, failing cases.

Case names, evidence and reasons may hold text of a trace: nothing here is fit to be printed before
the renderer has made it harmless.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from stepscope.gates.types import GateDecision, GateOutcome, GateReport, WorkflowDecision
from stepscope.report.lines import share
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


def summary(report: GateReport, code: int) -> str:
    """Return the whole invocation in one line."""
    counts = [sum(gate.outcome == outcome for gate in report.gates) for outcome in WORDS]
    parts = [f"{n} {WORDS[o].lower()}" for o, n in zip(WORDS, counts, strict=True) if n]
    look = f", look {report.look} at this commit" if report.look > 1 else ""
    alpha = f"alpha {report.alpha:g}, this look may spend {report.alpha_look:.2g}"
    return f"Gates {CODES[code]}: {', '.join(parts) or 'none'} ({alpha}{look}, seed {report.seed})"


def outcome(workflow: WorkflowDecision) -> GateOutcome:
    """Return the outcome of a workflow; with a gate that could not be measured it never passes."""
    lost = any(gate.outcome != "not_run" and not gate.measured for gate in workflow.gates)
    return "undecided" if lost and workflow.outcome != "fail" else workflow.outcome


def size(workflow: WorkflowDecision) -> str:
    """Return how many runs and cases there are, how they fit the baseline, and what is absent."""
    said = f"{_n(workflow.n_runs, 'run')} of {_n(workflow.n_cases, 'case')}"
    if workflow.n_baseline_runs:
        said += f"; baseline {_n(workflow.n_baseline_runs, 'run')}, "
        said += f"{_n(workflow.n_shared, 'case')} shared"
    else:
        said += ", no baseline"
    return "; ".join(part for part in (said, workflow.design, workflow.absent) if part)


def changes(workflow: WorkflowDecision) -> Iterator[str]:
    """Yield what vanished from the baseline, and what it does not know yet."""
    if workflow.vanished:
        yield f"not run, though in the baseline: {_named(workflow.vanished)}"
    if workflow.new:
        yield f"new, in no comparison: {_named(workflow.new)}"


def value(gate: GateDecision) -> str:
    """Return the estimate as a number; "-" where there is none."""
    if gate.estimate is None or isinstance(gate.estimate, Unmeasured):
        return "-"
    return share(gate.estimate.value)


def interval(gate: GateDecision) -> str:
    """Return the limits of the estimate, each one-sided 95 %."""
    estimate = gate.estimate
    if estimate is None or isinstance(estimate, Unmeasured):
        return "-"
    if estimate.low is None and estimate.high is None:
        return "-"
    low, high = ("-" if x is None else share(x) for x in (estimate.low, estimate.high))
    return f"[{low}, {high}]"


def p_value(gate: GateDecision) -> str:
    """Return p after adjustment; "-" where nothing was tested."""
    if gate.p_adjusted is None:
        return "-"
    return "<.001" if gate.p_adjusted < 0.001 else share(gate.p_adjusted)


def more(gate: GateDecision) -> Iterator[str]:
    """Yield what stands below a gate: why, with its cause, and what did not decide."""
    cause = f" ({gate.cause})" if gate.cause is not None else ""
    yield f"{gate.reason}{cause}"
    yield from gate.notes


def steps(indexes: tuple[int, ...]) -> str:
    """Return the steps that a case is faulted for; "" for none.

    >>> steps((3,)), steps((1, 2, 3, 4, 5, 6))
    ('step 3', 'steps 1 2 3 4 5 ...')
    """
    if not indexes:
        return ""
    shown = " ".join(str(index) for index in indexes[:5])
    return f"step{'s' * (len(indexes) > 1)} {shown}" + (" ..." if len(indexes) > 5 else "")


def runs(names: tuple[str, ...]) -> str:
    """Return the first run in breach of a case, the others counted."""
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "") if names else ""


def _named(cases: tuple[str, ...]) -> str:
    rest = len(cases) - NAMED
    return ", ".join(cases[:NAMED]) + (f" and {rest:,} more" if rest > 0 else "")


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
