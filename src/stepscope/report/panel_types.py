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
    """A judge on a panel: who it is, and which of its answers are current.

    Attributes:
        judge: its name without a snapshot; "rules" for the evidence judge.
        family: who trained it.
        mode: how it was asked, where never in the usual way: "narration-off".
        version: of the rubric.
        n_prompts: under how many prompts the runs were judged; a judge with tools has several.
        snapshots: runs by the snapshot that answered, "" where it is the model that was asked for.
        older: runs with an answer of another version, by version.
    """

    judge: str
    family: str
    mode: str = ""
    version: str = ""
    n_prompts: int = 0
    snapshots: dict[str, int] = msgspec.field(default_factory=dict)
    older: dict[str, int] = msgspec.field(default_factory=dict)


class JudgeShare(msgspec.Struct, frozen=True, kw_only=True):
    """One judge in one group of runs.

    Attributes:
        judge: who.
        failing: share of the runs that it judged in which it found the fault.
        lost: runs without a yes or no, by why: "uncertain", "not_applicable", a kind of Unmeasured,
            or the word that the reason begins with ("hallucinated_citation").
        not_judged: runs of the group that it was not asked about; they are in no share.
    """

    judge: str
    failing: Figure
    lost: dict[str, int] = msgspec.field(default_factory=dict)
    not_judged: int = 0


class PanelVote(msgspec.Struct, frozen=True, kw_only=True):
    """A panel summed up, over the runs of one group that all of these judges answered.

    Attributes:
        judges: whose verdicts are counted.
        any: share of runs in which at least one of them found the fault.
        all: share of runs in which each of them did.
        incomplete: runs that some of them answered, and not all: in no share.
    """

    judges: tuple[str, ...]
    any: Figure
    all: Figure
    incomplete: int = 0


class PanelGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One group of runs before a panel.

    Attributes:
        title: the group's values.
        n_runs: runs of the group.
        seats: each judge alone.
        votes: the panel summed up; with rules among three judges or more, without them first.
    """

    title: str
    n_runs: int
    seats: tuple[JudgeShare, ...]
    votes: tuple[PanelVote, ...]


class PanelClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Two groups before one panel: how often any judge found the fault, second minus first.

    Attributes:
        first: title of a group.
        second: title of another.
        effect: the difference with its interval.
        p: two-sided p of "no difference"; None where there is no effect.
        p_adjusted: the same after Holm over every pair of groups and every panel of the report.
        survives: whether it survives at .05.
    """

    first: str
    second: str
    effect: Figure
    p: float | None = None
    p_adjusted: float | None = None
    survives: bool = False


class PairAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """How far two judges agree on one rubric.

    Attributes:
        rubric: its name.
        unit: what is compared: "runs", or "steps" where each step has an answer.
        judges: the two.
        families: theirs.
        raw: share of runs with the same answer.
        kappa: Cohen's.
        ac1: Gwet's, which rare faults do not drag down.
        cites: mean share of common steps among those that either cites (Jaccard's index).
        sentence: what to know before these are read; "" where they speak for themselves.
    """

    rubric: str
    unit: str
    judges: tuple[str, ...]
    families: tuple[str, ...]
    raw: Figure
    kappa: Figure
    ac1: Figure
    cites: Figure
    sentence: str = ""


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
    """One aspect of a rubric before its judges.

    Attributes:
        rubric: name of the rubric ("axes.termination").
        failing: the answer that speaks against the agent ("incorrect", "ERROR", "present").
        members: who judges, models by name, then rules.
        groups: what they found, by group of runs.
        claims: groups compared.
        drawn: whether the runs are a sample, and each share is weighed by how it was drawn.
    """

    rubric: str
    failing: str
    members: tuple[PanelMember, ...]
    groups: tuple[PanelGroup, ...]
    claims: tuple[PanelClaim, ...] = ()
    drawn: bool = False


class AnswerCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A rubric without a failing answer (whose failure it was, an own menu): answers counted.

    Attributes:
        rubric: its name, or that name and an aspect ("attribution.whose").
        judge: who answered.
        group: title of the group.
        counts: runs by answer.
        lost: runs without one, by why.
    """

    rubric: str
    judge: str
    group: str
    counts: dict[str, int]
    lost: dict[str, int] = msgspec.field(default_factory=dict)


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


class BehaviourOnset(msgspec.Struct, frozen=True, kw_only=True):
    """Where a behaviour shows in the runs of a group, by one judge.

    Attributes:
        rubric: the behaviour ("behaviour.sycophancy").
        judge: who says so.
        group: title of the group.
        runs: share of runs in which it shows at all.
        onset: median place of its first step, 0 the first step of the run and 1 the last.
        tenths: share of the judged steps in which it shows, by tenth of the run.
    """

    rubric: str
    judge: str
    group: str
    runs: Figure
    onset: Figure
    tenths: tuple[Figure, ...]


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
    """What a judge took, over every answer that is kept, the older ones included.

    Attributes:
        judge: who.
        calls: judgements with an answer of the provider.
        input_tokens: tokens read, cached ones included; None where the provider said none.
        cached_tokens: of these, read from its cache.
        output_tokens: tokens written.
        usd: what was paid, as far as prices are known; None where none is.
        unpriced: judgements without a known price.
        usd_saved: what reading from the cache saved; None where no price is known.
    """

    judge: str
    calls: int
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    usd: float | None = None
    unpriced: int = 0
    usd_saved: float | None = None


class Panels(msgspec.Struct, frozen=True, kw_only=True):
    """What judges say of the chosen runs.

    Attributes:
        panels: one for each aspect of each rubric with an answer that speaks against the agent.
        answers: the other rubrics, counted.
        patterns: patterns of step labels.
        onsets: behaviours over the run.
        agreement: each pair of judges that answered the same runs.
        queue: the runs and steps on which families disagree, the most telling ones.
        n_disputed: how many there are.
        trace: one run worked through; None where no run was answered by two judges.
        flags: what weakens these verdicts.
        costs: what each judge took.
        judges: every judge of any record, by name.
    """

    panels: tuple[Panel, ...] = ()
    answers: tuple[AnswerCounts, ...] = ()
    patterns: tuple[PatternShare, ...] = ()
    onsets: tuple[BehaviourOnset, ...] = ()
    agreement: tuple[PairAgreement, ...] = ()
    queue: tuple[DisputedRun, ...] = ()
    n_disputed: int = 0
    trace: WorkedTrace | None = None
    flags: tuple[VerdictFlag, ...] = ()
    costs: tuple[JudgeCost, ...] = ()
    judges: tuple[str, ...] = ()
