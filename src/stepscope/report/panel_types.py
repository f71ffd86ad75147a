"""The values that a report holds about judges: panels, agreement, patterns, flags, costs.

A panel is summed up twice, over the runs that every judge of it answered: the share in which *any*
judge found the fault, and the share in which *all* did. Over different runs, three judges with 10 %
false alarms would find more faults than one.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.records import Figure

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
    # under how many prompts the runs were judged; a judge with tools has several
    n_prompts: int = 0
    # runs by the snapshot that answered, "" where it is the model that was asked for
    snapshots: dict[str, int] = msgspec.field(default_factory=dict)
    # runs with an answer of another version, by version
    older: dict[str, int] = msgspec.field(default_factory=dict)


class JudgeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One judge in one group of runs."""

    judge: str  # who
    failing: Figure  # share of the runs that it judged in which it found the fault
    # runs without a yes or no, by why: "uncertain", "not_applicable", a kind of Unmeasured, or the
    # word that the reason begins with ("hallucinated_citation")
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    not_judged: int = 0  # runs of the group that it was not asked about; they are in no share


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
    # the panel summed up; with rules among three judges or more, without them first
    votes: tuple[PanelVote, ...]


class PanelClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups before one panel: how often any judge found the fault, second minus first."""

    first: str  # title of a group
    second: str  # title of another
    effect: Figure  # the difference with its interval
    p: float | None = None  # two-sided p of "no difference"; None where there is no effect
    # the same after Holm over every pair of groups and every panel of the report
    p_adjusted: float | None = None
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
    # whether the runs are a sample, and each share is weighed by how it was drawn
    drawn: bool = False


class AnswerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A rubric without a failing answer (whose failure it was, an own menu): answers counted."""

    rubric: str  # its name, or that name and an aspect ("attribution.whose")
    judge: str  # who answered
    group: str  # title of the group
    counts: dict[str, int]  # runs by answer
    lost: dict[str, int] = msgspec.field(default_factory=dict)  # runs without one, by why


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
    patterns: tuple[PatternShare, ...] = ()  # patterns of step labels
    onsets: tuple[BehaviourOnset, ...] = ()  # behaviours over the run
    agreement: tuple[PairAgreement, ...] = ()  # each pair of judges that answered the same runs
    # the runs and steps on which families disagree, the most telling ones
    queue: tuple[DisputedRun, ...] = ()
    n_disputed: int = 0  # how many there are
    # one run worked through; None where no run was answered by two judges
    trace: WorkedTrace | None = None
    flags: tuple[VerdictFlag, ...] = ()  # what weakens these verdicts
    costs: tuple[JudgeCost, ...] = ()  # what each judge took
    judges: tuple[str, ...] = ()  # every judge of any record, by name
