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
from stepscope.shape.types import CredibleInterval, ShapeLabel, ShapeName, Slopes
from stepscope.values import Decision, Estimate, RankFlips, Unmeasured

VerdictFlagKind = Literal[
    "self_family",  # a judge of the family that the agent is of
    "narration_dependent",  # a verdict that turns when the agent's own words are left out
    "flips",  # a verdict that turns when the same question is asked again
    "outranked",  # no fault found in a run whose state check failed
    "canary_missed",  # answers set aside because the judge missed a planted step
    "unequal_panels",  # groups judged by other judges, or in few common runs
    "snapshots_mixed",  # answers of several snapshots of one model
    "prompts_mixed",  # answers under several prompts of one version
    "older_answers",  # answers of another version, set aside
    "schema_ignored",  # an endpoint whose answers often do not have the form that was asked for
    "not_drawn",  # judged runs outside of the sample that the estimates speak from
]


class PanelMember(msgspec.Struct, frozen=True, kw_only=True):
    """A judge on a panel: who it is, and which of its answers are current."""

    judge: str  # its name without a snapshot; "rules" for the evidence judge
    family: str  # who trained it
    mode: str = ""  # how it was asked, where never in the usual way: "narration-off"
    version: str = ""  # of the rubric
    n_prompts: int = 0  # prompts that the runs were judged under; with tools there are several
    # runs by the snapshot that answered, "" where it is the model that was asked for
    snapshots: dict[str, int] = msgspec.field(default_factory=dict)
    # runs with an answer of another version, by version
    older: dict[str, int] = msgspec.field(default_factory=dict)


class CorrectedShare(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's share, or its mean score, corrected by people's labels of some of the runs."""

    rate: Figure  # share of the judged runs that fail, or mean score, as people would say
    weak: str  # why it is no headline; "" where it takes the place of the judge's own share
    rogan_gladen: Figure  # by sensitivity and specificity, for comparison
    n_labels: int  # runs, or steps, with a label from a random draw that decides
    n_judged: int  # runs, or steps, that the rate is of
    refused: dict[str, int] = msgspec.field(default_factory=dict)  # labels for no rate, by why
    warnings: tuple[str, ...] = ()  # what weakens it


class JudgeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One judge in one group of runs."""

    judge: str  # who
    failing: Figure  # share of the runs that it judged in which it found the fault
    # runs without a yes or no, by why: "uncertain", "not_applicable", a kind of Unmeasured, or the
    # word that the reason begins with ("hallucinated_citation")
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    not_judged: int = 0  # runs of the group that it was not asked about; they are in no share
    # by people's labels of whole runs; None without labels, and of rules and steps
    corrected: CorrectedShare | None = None


class PanelVote(msgspec.Struct, frozen=True, kw_only=True):
    """A panel summed up, over the runs of one group that all of these judges answered."""

    judges: tuple[str, ...]  # whose verdicts are counted
    any: Figure  # share of runs in which at least one of them found the fault
    all: Figure  # share of runs in which each of them did
    incomplete: int = 0  # runs that some of them answered, and not all: in no share


class PanelGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group of runs before a panel."""

    title: str  # the group's values
    n_runs: int  # runs of the group
    seats: tuple[JudgeShare, ...]  # each judge alone
    votes: tuple[PanelVote, ...]  # summed up; of three judges or more, first without rules


class PanelClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups before one panel: how often any judge found the fault, second minus first."""

    first: str  # title of a group
    second: str  # title of another
    effect: Figure  # the difference with its interval
    p: float | None = None  # two-sided p of "no difference"; None where there is no effect
    p_adjusted: float | None = None  # after Holm over every pair of groups and every panel
    survives: bool = False  # whether it survives at .05


class PairAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two judges agree on one rubric."""

    rubric: str  # its name
    unit: str  # what is compared: "runs", or "steps" where each step has an answer
    judges: tuple[str, ...]  # the two
    families: tuple[str, ...]  # theirs
    raw: Figure  # share of runs with the same answer
    kappa: Figure  # Cohen's
    ac1: Figure  # Gwet's, which rare faults do not drag down
    cites: Figure  # mean share of common steps among those that either cites (Jaccard's index)
    sentence: str = ""  # what to know before these are read; "" where they speak for themselves


class DisputedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run or step on which families disagree; selected, so no rate may be computed on these.

    `step` is None for a whole run; `answers` is what each judge says, `steps` what they cite.
    """

    id: str
    name: str
    rubric: str
    step: int | None = None
    answers: dict[str, str]
    steps: tuple[int, ...] = ()


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """One aspect of a rubric before its judges."""

    rubric: str  # name of the rubric ("axes.termination")
    failing: str  # the answer that speaks against the agent ("incorrect", "ERROR", "present")
    members: tuple[PanelMember, ...]  # who judges, models by name, then rules
    groups: tuple[PanelGroup, ...]  # what they found, by group of runs
    claims: tuple[PanelClaim, ...] = ()  # groups compared
    drawn: bool = False  # whether runs are a sample; each share is weighed by how it was drawn


class AnswerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A rubric without a failing answer (whose failure it was, an own menu): answers counted."""

    rubric: str  # its name, or that name and an aspect ("attribution.whose")
    judge: str  # who answered
    group: str  # title of the group
    counts: dict[str, int]  # runs by answer
    lost: dict[str, int] = msgspec.field(default_factory=dict)  # runs without one, by why


class ScoreMean(msgspec.Struct, frozen=True, kw_only=True):
    """The mean score that a judge gives the steps of a group of runs."""

    judge: str  # who
    group: str  # title of the group
    mean: Figure  # over all steps that it scored
    corrected: CorrectedShare | None = None  # by people's scores of steps; None without any


class PatternShare(msgspec.Struct, frozen=True, kw_only=True):
    """How often a pattern of step labels shows in the runs of a group, by one judge.

    `share` is over the runs that the judge labelled; `runs` names the first of them, `advice` says
    what to do about it.
    """

    name: str
    judge: str
    group: str
    share: Figure
    n: int
    runs: tuple[str, ...]
    advice: str
    unknown: int = 0  # runs that may show it, their outcome being unknown


class BehaviourOnset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a behaviour shows in the runs of a group, by one judge."""

    rubric: str  # the behaviour ("behaviour.sycophancy")
    judge: str  # who says so
    group: str  # title of the group
    runs: Figure  # share of runs in which it shows at all
    onset: Figure  # median place of its first step, 0 the first step of the run and 1 the last
    tenths: tuple[Figure, ...]  # share of the judged steps in which it shows, by tenth of the run


class TraceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one judge says of one aspect of one run.

    A confidence is that judge's own: those of two judges cannot be compared.
    """

    judge: str
    label: str
    confidence: float | None = None
    cites: tuple[int, ...] = ()


class TraceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One aspect of one run: every judge's answer, and the steps that two or more of them cite."""

    rubric: str
    answers: tuple[TraceAnswer, ...]
    common: tuple[int, ...] = ()


class TraceStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that judges cite in common, in one line."""

    step: int
    actor: str
    text: str


class WorkedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One run worked through: its aspects by judge, and the steps that they rest on."""

    id: str
    name: str
    outcome: str
    lines: tuple[TraceLine, ...]
    steps: tuple[TraceStep, ...] = ()


class VerdictFlag(msgspec.Struct, frozen=True, kw_only=True):
    """What weakens verdicts: of whom, how often, and in which runs (the first of them)."""

    kind: VerdictFlagKind
    judge: str
    said: str
    n: int = 0
    runs: tuple[str, ...] = ()


class JudgeCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a judge took, over every answer that is kept, the older ones included."""

    judge: str  # who
    calls: int  # judgements with an answer of the provider
    # tokens read, cached ones included; None where the provider said none
    input_tokens: int | None = None
    cached_tokens: int | None = None  # of these, read from its cache
    output_tokens: int | None = None  # tokens written
    usd: float | None = None  # what was paid, as far as prices are known; None where none is
    unpriced: int = 0  # judgements without a known price
    # what reading from the cache saved; None where no price is known
    usd_saved: float | None = None


class Panels(msgspec.Struct, frozen=True, kw_only=True):
    """What judges say of the chosen runs."""

    # one for each aspect of each rubric with an answer that speaks against the agent
    panels: tuple[Panel, ...] = ()
    answers: tuple[AnswerCounts, ...] = ()  # the other rubrics, counted
    scores: tuple[ScoreMean, ...] = ()  # step scores
    patterns: tuple[PatternShare, ...] = ()  # patterns of step labels
    onsets: tuple[BehaviourOnset, ...] = ()  # behaviours over the run
    agreement: tuple[PairAgreement, ...] = ()  # each pair of judges that answered the same runs
    queue: tuple[DisputedRun, ...] = ()  # where families disagree, the most telling first
    n_disputed: int = 0  # how many there are
    trace: WorkedTrace | None = None  # one run worked through; None where none has two judges
    flags: tuple[VerdictFlag, ...] = ()  # what weakens these verdicts
    costs: tuple[JudgeCost, ...] = ()  # what each judge took
    judges: tuple[str, ...] = ()  # every judge of any record, by name


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
    sigma: float | None = None  # noise, one standard deviation; None where averaged over a range
    sigma_source: SigmaSource = "marginalised"  # where sigma comes from
    latency_s: tuple[float | None, ...] | None = None  # seconds, None where the trace lacks them
    cost_usd: tuple[float | None, ...] | None = None  # None where the trace lacks it
    weights: tuple[float, ...] | None = None  # of each step as fixed before scoring, None without
    shape: ShapeLabel | Unmeasured  # the shape, "unresolved", or why there is none
    best: ShapeName | None = None  # the most probable shape, also of an unresolved curve
    runner_up: ShapeName | None = None  # the second most probable shape
    posterior: dict[str, float] = msgspec.field(default_factory=dict)  # probability by shape
    unmodelled: bool = False  # no shape fits these scores: the posterior is not to be used
    low_level: bool = False  # the mean, with its interval, lies below .6, whatever the shape
    mean: CredibleInterval | None = None  # mean score with its interval
    depth: CredibleInterval | None = None  # how far the score fell, where it fell
    trough_length: int | None = None  # scored steps spent below, of a recovery; 1 is a glitch
    break_probability: tuple[float, ...] = ()  # of each entry, the rest is that of no break
    break_step: int | None = None  # of the most probable break; None where no break is declared
    break_first: int | None = None  # first step of the 90 % run of the break
    break_last: int | None = None  # last step of it
    watch: tuple[int, ...] = ()  # steps where latency or cost spike and the score holds
    slopes: Slopes | None = None  # a step in each third; None with fewer than two scores in one
    weighted: float | None = None  # mean; None without weights, or with a score missing
    gate_failed: tuple[int, ...] = ()  # steps of the highest weight below the gate
    notes: tuple[str, ...] = ()  # what else a reader has to know of this curve


class Shapes(msgspec.Struct, frozen=True, kw_only=True, tag="shapes"):
    """Which shapes the runs of a group have.

    The shares are estimated over all runs with a curve, the unresolved ones included: counting
    labels would be biased (docs/explanation/fleet-shapes.md).
    """

    shares: dict[ShapeName, Estimate]  # of the runs by shape; empty where they cannot be estimated
    no_shares: Unmeasured | None = None  # why there are no shares; None where there are
    labels: dict[str, int]  # runs by their own label; unresolved and unmodelled ones are not in it
    n_runs: int  # runs with a curve that could be asked for a shape
    unresolved: int  # of these, runs in which no shape is probable enough
    unmodelled: int  # of these, runs that no shape fits; they are in no share
    low_level: int  # of these, runs whose mean score is low, whatever their shape
    gate_failed: int = 0  # of these, runs with a step of the highest weight below the gate
    unmeasured: dict[str, int] = msgspec.field(default_factory=dict)  # runs by kind
    source: str  # where the scores come from, in words
    sigma: str  # the noise that was assumed and where it comes from, in words


class ShapesDifference(msgspec.Struct, frozen=True, kw_only=True, tag="shapes_difference"):
    """The shapes of two groups of runs: shares of the second minus those of the first."""

    difference: dict[ShapeName, Estimate]  # by shape, each interval about that shape alone
    p: dict[ShapeName, float]  # by shape, of as large a difference in any, adjusted for all five
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
    share: float | None = None  # probability that the run went wrong here; None where not ranked
    cites: tuple[int, ...] = ()  # steps that show it

    @property
    def step(self) -> int:
        """The step to look at first."""
        return self.first


class RunLine(msgspec.Struct, frozen=True, gc=False):
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
    nobody: float | None = None  # probability that no agent step is at fault; None where not ranked
    reliability: str = ""  # how often such a list is right, or why the run is not ranked
    same_as: str = ""  # id of the run before it, in a list, that shows the same fault first

    @property
    def verdict(self) -> str:
        """`clean` for a pass without findings, `unexplained` for another, else `suspects`."""
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
    notes: dict[str, str] = msgspec.field(default_factory=dict)  # remarks on "pass" and "fail"


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

    group: dict[str, str | None]  # fields that make the group, and values; empty for all runs
    n_runs: int
    n_tasks: int
    n_steps: int
    n_calls: int
    trials: TrialCounts | None
    figures: dict[str, Figure]  # the vector, by key ("outcome.pass", "steps.median")
    notes: dict[str, str]  # a remark on a figure, by its key
    earned: tuple[OutcomeTable, ...]  # outcome against each grade of the path
    lucky: tuple[RunLine, ...]  # passed although a fault had an effect, or may have had one
    unlucky: tuple[RunLine, ...]  # runs that failed although their path did what was asked
    disagreement: Figure  # share of runs in which outcome and path disagree
    # "fail" where that share is shown to be so low that the path's grade adds nothing
    too_loose: Decision
    shapes: Shapes | Unmeasured = NO_CURVES  # of the score curves, or why none is known
    inputs: tuple[InputCount, ...] = ()  # whether what verdicts need is in the traces
    # the runs in which an axis proved a fault, the worst first; no axis that proved none
    faulty: dict[str, tuple[RunLine, ...]] = msgspec.field(default_factory=dict)

    def __getitem__(self, key: str) -> Figure:
        """Return one figure of the vector; UsageError for another name, with a list of them."""
        if key not in self.figures:
            have = ", ".join(self.figures)
            raise UsageError(f"no figure {key!r} in the report; there are: {have}")
        return self.figures[key]


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
    profiles: tuple[Profile, ...]  # one a group (an agent in a workflow, or the field of `by`)
    rank_flips: RankFlips | Unmeasured  # groups that outcome and path figures order differently
    look_first: tuple[LookFirst, ...]  # selected for reading; people's labels on them are marked so
    not_claimed: tuple[str, ...]  # what this report does not say, one line each
    next: tuple[str, ...]  # commands to run next
    provenance: Provenance
    # what judges say of the runs; absent where none was asked: not None, so that a report without
    # judges has the bytes that it always had
    panels: Panels | msgspec.UnsetType = msgspec.UNSET
    checks: tuple[CheckAccuracy, ...] = ()  # how often rules were right where the truth is known
    modes: FailureModes | Unmeasured = NO_SIGNS  # what went wrong in several runs, if known

    def __getitem__(self, key: str) -> Figure:
        """Return one figure over all chosen runs; `profiles` has those of each group."""
        return self.whole[key]

    def scalar(self) -> None:
        """Raise UsageError: a report is never one number."""
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
    detectable: float | None = None  # what these runs would find in 80 % of repetitions
    cases_needed: int | None = None  # cases that would be needed to see `worth_seeing`


class ComparisonReport(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups of runs, figure by figure; never one verdict."""

    schema: int = 2
    first: Profile  # the vector of the first group
    second: Profile  # the vector of the second group
    differences: dict[str, Difference]  # of each figure that both groups have, by key
    n_shared: int  # cases that both groups ran
    n_only_first: int  # cases that only the first group ran: outside every paired comparison
    n_only_second: int  # cases that only the second group ran
    worth_seeing: float  # the difference in a share that `cases_needed` speaks of
    rank_flips: RankFlips | Unmeasured  # path figures that order the two unlike their outcome
    provenance: Provenance
    shapes: ShapesDifference | Unmeasured = NO_CURVES  # compared, or why they cannot be

    def __getitem__(self, key: str) -> Difference:
        """Return the comparison of a figure; UsageError for another name, with a list of them."""
        if key not in self.differences:
            have = ", ".join(self.differences) or "none"
            raise UsageError(f"{key!r} was not compared; compared: {have}")
        return self.differences[key]
