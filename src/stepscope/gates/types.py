"""The decision of a gate and of a report of gates, with the exit code that it gives.

Nothing here holds a wall-clock time or a path of this machine: the same rows, policy and baseline
give the same bytes. A gate that could not be measured is `undecided` with a `cause`, never `pass`.
Exit codes: 0 pass, 3 a gate failed, 4 undecided or unmeasured, so that "the agent is bad" and "the
instrument is broken" never share a code. Case names and evidence come from traces: whoever prints
them makes them visible and harmless first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from stepscope.model.records import RULES
from stepscope.values import Estimate, Unmeasured

GateOutcome = Literal["pass", "fail", "undecided", "not_run"]
Severity = Literal["soft", "hard"]
Rule = Literal["count", "proof", "regression"]

# Why a gate did not decide. Only `interval` is a matter of more runs, and only of it does
# `--undecided` speak; `source_not_in_tier` is not run; all others: it could not be measured.
Cause = Literal[
    "interval",  # the data allow both answers
    "no_runs",  # no run of this workflow
    "no_verdicts",  # runs, but none has an answer of the measure
    "not_measured",  # the answer depends on runs that have none
    "too_few_cases",  # no regression, however large, could have been seen
    "no_shared_cases",  # no case of the baseline was run
    "baseline_missing",  # none is named, or there is no such file
    "baseline_corrupt",  # the file is no baseline
    "baseline_other_version",  # of a newer stepscope, another measure version or other rules
    "baseline_other_workflow",  # of another workflow
    "baseline_lacks_measure",  # it was made before this gate
    "judge_drifted",  # the judge answers fixed runs differently from before
    "judge_not_calibrated",  # a count gate on a judge whose false alarms nobody measured
    "out_of_time",  # --max-minutes was over before this gate
    "source_not_in_tier",  # its judge is not part of this run: not_run
]


@dataclass(frozen=True, slots=True)
class GateAnswer:
    """Outcome of a gate with its reason; see `GateDecision` for each field."""

    outcome: GateOutcome
    reason: str
    cause: Cause | None = None
    estimate: Estimate | Unmeasured | None = None
    detectable: float | None = None
    runs_needed: int | None = None
    uncorrected: Estimate | Unmeasured | None = None


def answer_undecided(
    cause: Cause,
    reason: str,
    estimate: Estimate | Unmeasured | None = None,
    *,
    runs_needed: int | None = None,
) -> GateAnswer:
    """Return that a gate did not decide, and why."""
    return GateAnswer("undecided", reason, cause, estimate, runs_needed=runs_needed)


class CaseFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A case that speaks against the agent: its runs in breach, worst case first in a gate."""

    case: str  # the task, or the run's name where it names no task
    runs: tuple[str, ...]  # names of the runs in breach
    ids: tuple[str, ...]  # ids of the same runs, for `stepscope show`
    # the steps that the first of these runs is faulted for, where a measure cites any
    steps: tuple[int, ...] = ()
    evidence: str = ""  # what the measure says of that run, or what changed against the baseline


class GateDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one gate."""

    name: str  # the gate as the policy calls it
    measure: str  # what it reads, with its aspect ("redundant_calls.count")
    rule: Rule  # how runs become a decision; see docs/explanation/gates.md
    threshold: str  # the threshold as the policy writes it ("max_drop = 0.05")
    source: str = RULES  # whose records it reads
    # a soft failure is shown and does not set the exit code, unless asked to
    severity: Severity = "hard"
    file_on: Severity = "soft"  # from which severity on the issue loop files it
    outcome: GateOutcome  # the decision
    cause: Cause | None = None  # why it is undecided or was not run; None otherwise
    reason: str  # one line, with the numbers
    # the rate, or what got worse (baseline minus current: positive is worse; or the ratio of
    # medians), with its 90 % interval: each limit is one-sided 95 %
    estimate: Estimate | Unmeasured | None = None
    # the judge's own estimate where people's labels corrected it, and the corrected one decided
    uncorrected: Estimate | Unmeasured | None = None
    # one-sided chance of such runs if nothing is wrong; None where nothing is tested
    p: float | None = None
    p_adjusted: float | None = None  # p after Holm over all gates of this invocation
    # regression: the smallest true worsening seen in 80 % of repetitions, in the unit of the
    # estimate
    detectable: float | None = None
    # runs in all that would decide in 80 % of repetitions, where undecided
    runs_needed: int | None = None
    n_runs: int = 0  # runs of the workflow, measured or not
    # the cases in breach, worst first; at most `decide.CASES_LISTED`
    failing: tuple[CaseFailure, ...] = ()
    n_failing: int = 0  # how many cases there are in breach, listed or not
    notes: tuple[str, ...] = ()  # remarks that did not decide, one line each

    @property
    def measured(self) -> bool:
        """Whether the gate had what it needs: it passed, failed, or more runs would decide it."""
        return self.outcome in ("pass", "fail") or self.cause == "interval"


class WorkflowDecision(msgspec.Struct, frozen=True, kw_only=True):
    """All gates of one workflow, and how its runs and its baseline fit together."""

    workflow: str  # its name
    n_runs: int  # current runs, reruns of the commit pooled
    n_cases: int  # their cases
    n_baseline_runs: int = 0  # runs of the baseline, 0 without one
    n_shared: int = 0  # cases that both have
    vanished: tuple[str, ...] = ()  # cases of the baseline that were not run
    # cases that the baseline does not know: outside every comparison with it
    new: tuple[str, ...] = ()
    # trials of the design that are missing, and records that could not be read, in words; each
    # counts at its worst in every gate
    absent: str = ""
    design: str = ""  # what was declared, in words, where it asks for less than the baseline
    gates: tuple[GateDecision, ...]  # one decision a gate, in the order of the policy

    @property
    def outcome(self) -> GateOutcome:
        """The gravest outcome of its hard gates; of all gates where none is hard."""
        hard = tuple(g.outcome for g in self.gates if g.severity == "hard")
        return gravest_outcome(hard or tuple(g.outcome for g in self.gates))


class GateReport(msgspec.Struct, frozen=True, kw_only=True):
    """One invocation of `gate`."""

    schema: int = 2  # version of the published JSON schema
    workflows: tuple[WorkflowDecision, ...]  # one decision a workflow, in the order of the policy
    commit: str | None  # what was under test; None: reruns cannot be seen
    policy_hash: str  # sixteen hex digits over all policies of this invocation
    look: int  # which look at this commit under this policy it is, from 1
    alpha: float  # chance of a false alarm over all gates and all looks
    alpha_look: float  # the part of alpha that this look may spend
    tier: tuple[str, ...]  # the sources whose gates are run
    seed: int  # where permutations that are drawn start

    @property
    def gates(self) -> tuple[GateDecision, ...]:
        """Every gate of every workflow."""
        return tuple(gate for workflow in self.workflows for gate in workflow.gates)

    @property
    def outcome(self) -> GateOutcome:
        """The gravest outcome of its workflows."""
        return gravest_outcome(tuple(workflow.outcome for workflow in self.workflows))


def gravest_outcome(outcomes: tuple[GateOutcome, ...]) -> GateOutcome:
    """Return the outcome that speaks for all; nothing at all was not run."""
    order: tuple[GateOutcome, ...] = ("fail", "undecided", "pass")
    return next((outcome for outcome in order if outcome in outcomes), "not_run")


PASSED, FAILED, UNDECIDED = 0, 3, 4


def exit_code(
    report: GateReport,  # what was decided
    *,
    # counts gates that more runs would decide as passed or failed; left out, they are code 4. It
    # never speaks of a gate that could not be measured: that is code 4, soft or hard, as is a
    # report in which no gate was run.
    undecided: Literal["pass", "fail"] | None = None,
    fail_on: Severity = "hard",  # the least severity that counts
) -> int:
    """Return 3 when a gate that counts failed, else 4 when one could not be decided, else 0."""
    run = [gate for gate in report.gates if gate.outcome != "not_run"]
    counted = [gate for gate in run if gate.severity == "hard" or fail_on == "soft"]
    open_ = any(gate.outcome == "undecided" and gate.measured for gate in counted)
    if any(gate.outcome == "fail" for gate in counted) or (open_ and undecided == "fail"):
        return FAILED
    if not run or not all(gate.measured for gate in run):
        return UNDECIDED
    return UNDECIDED if open_ and undecided is None else PASSED
