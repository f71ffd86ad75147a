"""The values that a report consists of, and the values of a comparison of two groups.

A report holds no wall-clock time, no path and no process id: the same rows give the same bytes.
Every number is an `Estimate` or an `Unmeasured` with its reason; counts are counts of rows. A curve
names the source and the noise of its scores: a shape without its sigma is not reported. The
published schemas (`report.schema.json`, `gate.schema.json`) are generated from these structs.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.errors import UsageError
from stepscope.findings.modes import NO_SIGNS, FailureModes
from stepscope.gates.types import GateOutcome, GateReport
from stepscope.model.records import Figure, Input
from stepscope.report.panel_types import Panels
from stepscope.shape.types import CredibleInterval, ShapeLabel, ShapeName, Slopes
from stepscope.values import Decision, Estimate, RankFlips, Unmeasured

CurveSource = Literal[
    "imported",  # a file of step scores
    "judge",  # a judge's step scores, family in `judge`
]

SigmaSource = Literal[
    "given",  # said by the user
    "repeats",  # the upper limit over duplicate scorings of this judge
    "marginalised",  # unknown: averaged over a range
]


class Curve(msgspec.Struct, frozen=True, kw_only=True, tag="curve"):
    """The scores of one run's steps, what shape they have, and where it broke."""

    id: str = ""  # the run's id; "" for a curve that no run of a store stands behind
    name: str = ""  # the run's name
    steps: tuple[int, ...]  # step indexes of the run, rising: one entry each in every tuple below
    scores: tuple[float | None, ...]  # 0 to 1; None where a step was not scored
    source: CurveSource  # where the scores come from
    judge: str = ""  # who gave them ("" where the source says it all)
    repeats: int = 1  # scorings of each step that were averaged
    # the noise of one entry's score, one standard deviation; None where it was averaged over a
    # range because nobody has measured it
    sigma: float | None = None
    sigma_source: SigmaSource = "marginalised"  # where sigma comes from
    # seconds a step took, None where the trace lacks them
    latency_s: tuple[float | None, ...] | None = None
    # what a step cost, None where the trace lacks it
    cost_usd: tuple[float | None, ...] | None = None
    # the importance of each step as fixed before scoring, None without weights
    weights: tuple[float, ...] | None = None
    shape: ShapeLabel | Unmeasured  # the shape, "unresolved", or why there is none
    # the most probable shape, also of an unresolved curve; None without a posterior
    best: ShapeName | None = None
    runner_up: ShapeName | None = None  # the second most probable shape
    # probability by shape, sums to 1; empty without a shape
    posterior: dict[str, float] = msgspec.field(default_factory=dict)
    unmodelled: bool = False  # no shape fits these scores: the posterior is not to be used
    low_level: bool = False  # the mean, with its interval, lies below .6, whatever the shape
    mean: CredibleInterval | None = None  # mean score with its interval
    depth: CredibleInterval | None = None  # how far the score fell, where it fell
    trough_length: int | None = None  # scored steps spent below, of a recovery; 1 is a glitch
    # probability that the run broke at this entry; what is missing to 1 is the probability of no
    # break. Empty without a break analysis.
    break_probability: tuple[float, ...] = ()
    # step index of the most probable break; None where no break is declared
    break_step: int | None = None
    # first step of the 90 % run of the break; None where no break is declared
    break_first: int | None = None
    break_last: int | None = None  # last step of it
    watch: tuple[int, ...] = ()  # steps where latency or cost spike and the score holds
    # change a step in each third; None where a third has fewer than two scores
    slopes: Slopes | None = None
    # mean score under the weights; None without weights, or without all scores
    weighted: float | None = None
    # steps of the highest weight below the gate, as the run counts them
    gate_failed: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()  # what else a reader has to know of this curve


class Shapes(msgspec.Struct, frozen=True, kw_only=True, tag="shapes"):
    """Which shapes the runs of a group have.

    The shares are estimated over all runs with a curve, the unresolved ones included: counting
    labels would be biased (docs/explanation/fleet-shapes.md).
    """

    # share of the runs by shape, with interval; empty where they cannot be estimated
    shares: dict[ShapeName, Estimate]
    no_shares: Unmeasured | None = None  # why there are no shares; None where there are
    # runs counted by their own label; unresolved and unmodelled ones are not in it
    labels: dict[str, int]
    n_runs: int  # runs with a curve that could be asked for a shape
    unresolved: int  # of these, runs in which no shape is probable enough
    unmodelled: int  # of these, runs that no shape fits; they are in no share
    low_level: int  # of these, runs whose mean score is low, whatever their shape
    gate_failed: int = 0  # of these, runs with a step of the highest weight below the gate
    # runs without a shape, by kind
    unmeasured: dict[str, int] = msgspec.field(default_factory=dict)
    source: str  # where the scores come from, in words
    sigma: str  # the noise that was assumed and where it comes from, in words


class ShapesDifference(msgspec.Struct, frozen=True, kw_only=True, tag="shapes_difference"):
    """The shapes of two groups of runs: shares of the second minus those of the first."""

    difference: dict[ShapeName, Estimate]  # by shape, each interval about that shape alone
    # by shape, chance of a difference as large in any of the five between groups that are alike:
    # already adjusted for looking at five
    p: dict[ShapeName, float]
    method: str  # how p came
    source: str  # where the scores come from, in words
    sigma: str  # their noise, in words


NO_CURVES = Unmeasured("missing_input", "no step scores; stepscope import scores.csv brings them")


class GateDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `stepscope gate --json` prints."""

    exit_code: int  # 0 pass, 3 a gate failed, 4 undecided or unmeasured
    outcome: GateOutcome  # what the exit code says: pass, fail, or undecided
    remarks: tuple[str, ...] = ()  # what was read and could not be used, one line each
    report: GateReport  # every decision


SuspectKind = Literal[
    "break",  # the step scores fall here
    "gate",  # a step of the highest weight scored below the gate
    "violation",  # a declared rule of conduct was broken
    "new_write",  # the first successful write that no passing trial of the task makes
    "fault",  # an axis of the rules is at fault here
    "judge",  # a judge says that it went wrong here
    "error",  # a tool error that was ignored, repeated, or never got over
    "loop",  # a cycle of calls
    "other_write",  # a successful mutating call that no sub-goal asks for
    "missed",  # the nearest attempt at a sub-goal that was never reached
    "repeat",  # a call that asks again what is already known
    "end",  # stopped too early, too late, or at a limit
    "localised",  # other evidence of `localise`
    "place",  # nothing was found: ranked by its place in the run and what stands around it
]


class SuspectSteps(msgspec.Struct, frozen=True, kw_only=True):
    """A step, or a range of steps, that may be where a run broke, with its evidence.

    `first` and `last` are step indexes, both included.
    """

    first: int
    last: int
    kind: SuspectKind
    evidence: str
    # probability that the run went wrong here; None where the run is not ranked
    share: float | None = None
    cites: tuple[int, ...] = ()  # steps that show it

    @property
    def step(self) -> int:
        """The step to look at first."""
        return self.first

    @property
    def where(self) -> str:
        """The step or the range as people write it: `14` or `14-34`."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run by id and name, with why it is on a list."""

    id: str
    name: str
    reason: str = ""
    sure: bool = True  # False where nobody can tell whether what is wrong had an effect


class LookFirst(msgspec.Struct, frozen=True, kw_only=True):
    """Where one run may have broken, and why it counts as failed.

    Runs are selected, so no rate may be computed on these. `note` says why a run could not be read,
    where it could not; then there are no suspects.
    """

    id: str
    name: str
    outcome: Literal["pass", "fail", "unknown"]
    steps: int
    suspects: tuple[SuspectSteps, ...]  # most telling first; of a failed run every agent step
    command: str = ""  # the one that shows the run
    handle: str = ""  # what names the run on a command line, quoted where a shell needs it
    note: str = ""
    because: str = ""  # why the run failed; no suspect
    # probability that no step of the agent is at fault; None where the run is not ranked
    nobody: float | None = None
    reliability: str = ""  # how often such a list is right, or why the run is not ranked
    same_as: str = ""  # id of the run before it, in a list, that shows the same fault first

    @property
    def verdict(self) -> str:
        """`clean` for a passing run in which nothing was found, else `suspects` or `unexplained`.

        An unexplained run failed, and the rules found nothing to point at.
        """
        if self.suspects or self.because:
            return "suspects"
        return "clean" if self.outcome == "pass" else "unexplained"


class OutcomeTable(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome against one grade of the path: runs counted, both grades measured."""

    grade: str  # what the columns grade: "sub-goals", "policy", "errors"
    columns: tuple[str, ...]  # names of the columns
    passed: tuple[int, ...]  # runs that passed, by column
    failed: tuple[int, ...]  # runs that failed, by column
    unmeasured: int  # runs where one of the two grades is absent
    # one remark a row ("pass", "fail"), where there is one
    notes: dict[str, str] = msgspec.field(default_factory=dict)


class TrialCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Repeated trials: tasks by how many of their trials passed.

    `low` and `high` are the fewest and the most trials of a task.
    """

    low: int
    high: int
    always: int
    mixed: int
    never: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The report vector of one group of runs: never one number."""

    # the fields that make the group and their values; empty for all runs together
    group: dict[str, str | None]
    n_runs: int
    n_tasks: int
    n_steps: int
    n_calls: int
    trials: TrialCounts | None
    figures: dict[str, Figure]  # the vector, by key ("outcome.pass", "steps.median")
    notes: dict[str, str]  # a remark on a figure, by its key
    earned: tuple[OutcomeTable, ...]  # outcome against each grade of the path
    # runs that passed although a fault in them had an effect, or may have had one
    lucky: tuple[RunLine, ...]
    unlucky: tuple[RunLine, ...]  # runs that failed although their path did what was asked
    disagreement: Figure  # share of runs in which outcome and path disagree
    # "fail" where that share is shown to be so low that the path's grade adds nothing
    too_loose: Decision
    # which shapes the score curves of the runs have, or why there is none to say
    shapes: Shapes | Unmeasured = NO_CURVES
    # whether what the verdicts need is in the traces; none where no run was asked
    inputs: tuple[InputCount, ...] = ()
    # the runs in which an axis proved a fault, the worst first; no axis that proved none
    faulty: dict[str, tuple[RunLine, ...]] = msgspec.field(default_factory=dict)

    def __getitem__(self, key: str) -> Figure:
        """Return one figure of the vector.

        Raises:
            UsageError: no such figure; the message lists them.
        """
        if key not in self.figures:
            raise UsageError(
                f"no figure {key!r} in the report; there are: {', '.join(self.figures)}"
            )
        return self.figures[key]

    @property
    def title(self) -> str:
        """The group's values as people write them."""
        named = [value for value in self.group.values() if value]
        return " · ".join(named or [f"no {field}" for field in self.group])


class InputCount(msgspec.Struct, frozen=True, kw_only=True):
    """In how many runs one input of the verdicts is not there, or not whole."""

    input: Input
    runs: int  # scored runs that should have it; inputs of calls: those that made some
    lost: dict[str, int]  # "not_recorded", "redacted" or "cut", in all or in part -> runs


class CheckAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """How often the checks of an axis were right where the truth is known."""

    axis: str
    version: str  # of the axis that was measured
    good_runs: int  # runs that people or state checks call good
    false_faults: int  # of these, runs in which a fault is proved all the same
    planted: dict[str, tuple[int, int]]  # by kind of planted fault: proved, of how many


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, of which rows, by which measures."""

    where: str | None
    since: str | None
    by: str | None
    seed: int
    judges: tuple[str, ...]
    measures: dict[str, str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One answer to `report`: all runs together, each group, and where to look."""

    schema: int = 2  # version of the published JSON schema
    whole: Profile  # the vector over all chosen runs
    # one vector a group (an agent in a workflow, or the field of `by`)
    profiles: tuple[Profile, ...]
    # pairs of groups that outcome and a path figure order differently
    rank_flips: RankFlips | Unmeasured
    # runs selected for reading; people's labels on them are marked so
    look_first: tuple[LookFirst, ...]
    not_claimed: tuple[str, ...]  # what this report does not say, one line each
    next: tuple[str, ...]  # commands to run next
    provenance: Provenance
    # what judges say of the runs; absent where none was asked: not None, so that a report without
    # judges has the bytes that it always had
    panels: Panels | msgspec.UnsetType = msgspec.UNSET
    # how often the rules' checks of each axis were right, where the truth is known
    checks: tuple[CheckAccuracy, ...] = ()
    # what went wrong in several runs, each with what is shown of it, or why nothing is known
    modes: FailureModes | Unmeasured = NO_SIGNS

    def __getitem__(self, key: str) -> Figure:
        """Return one figure over all chosen runs; `profile` gives those of one group.

        Raises:
            UsageError: no such figure.
        """
        return self.whole[key]

    def profile(self, value: str) -> Profile:
        """Return the vector of the group whose title is, or one of whose values is, `value`.

        Raises:
            UsageError: no group or several groups match.
        """
        found = [p for p in self.profiles if p.title == value or value in p.group.values()]
        if len(found) != 1:
            have = ", ".join(repr(p.title) for p in self.profiles) or "none"
            raise UsageError(f"{len(found)} groups match {value!r}; the report has: {have}")
        return found[0]

    def scalar(self) -> None:
        """Refuse to be one number.

        Raises:
            UsageError: always, with the reason and the way to one figure.
        """
        raise UsageError(
            "a report is a table of figures: one number would hide the path behind the outcome, or "
            "the outcome behind the path; take a figure by name, such as report['outcome.pass']"
        )

    __float__ = scalar


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of the vector in two groups: `effect` is the second minus the first."""

    first: Figure  # the figure of the first group, over its own runs
    second: Figure  # the figure of the second group
    effect: Figure  # the difference with its interval, paired by case where cases are shared
    p: float | None = None  # two-sided p of "no difference"; None where there is no effect
    p_adjusted: float | None = None  # the same after Holm over every figure compared
    survives: bool = False  # whether the claim survives Holm at .05
    paired: bool = False  # whether cases were paired
    n_cases: int = 0  # cases that both groups ran, when paired
    # the smallest difference that these runs would find in 80 % of repetitions
    detectable: float | None = None
    cases_needed: int | None = None  # cases that would be needed to see `worth_seeing`


class ComparisonReport(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups of runs, figure by figure; never one verdict."""

    schema: int = 2
    first: Profile  # the vector of the first group
    second: Profile  # the vector of the second group
    # the comparison of each figure that both groups have, by key
    differences: dict[str, Difference]
    n_shared: int  # cases that both groups ran
    n_only_first: int  # cases that only the first group ran: outside every paired comparison
    n_only_second: int  # cases that only the second group ran
    worth_seeing: float  # the difference in a share that `cases_needed` speaks of
    rank_flips: RankFlips | Unmeasured  # path figures that order the two unlike their outcome
    provenance: Provenance
    # the shapes of the two groups compared, or why they cannot be
    shapes: ShapesDifference | Unmeasured = NO_CURVES

    def __getitem__(self, key: str) -> Difference:
        """Return the comparison of one figure.

        Raises:
            UsageError: that figure was not compared; the message lists those that were.
        """
        if key not in self.differences:
            have = ", ".join(self.differences) or "none"
            raise UsageError(f"{key!r} was not compared; compared: {have}")
        return self.differences[key]
