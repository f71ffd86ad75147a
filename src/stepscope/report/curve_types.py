"""What a score curve is in a report: one run's scores with shape and break, and a fleet's shares.

A curve says where its scores come from and how noisy they were taken to be: a shape without its
sigma is no answer. Steps are indexes of the run, from 0; a curve may skip steps that nobody scored.
Where there are too few scores for a shape, the scores are still there to be drawn.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.shape.names import ShapeLabel, ShapeName
from stepscope.values import Estimate, Unmeasured

CurveSource = Literal[
    "imported",  # a file of step scores
    "judge",  # a judge's step scores, family in `judge`
    "step_labels",  # the evidence judge's step labels, mapped to scores with a large sigma
]

SigmaSource = Literal[
    "given",  # said by the user
    "repeats",  # the upper limit over duplicate scorings of this judge
    "assumed",  # stated for step labels, not measured
    "marginalised",  # unknown: averaged over a range
]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A number with its 90 % limits, in the unit of the scores."""

    value: float
    low: float
    high: float


class Slopes(msgspec.Struct, frozen=True, kw_only=True):
    """Change of the score a step in the first, middle and last third; for display only."""

    early: float
    mid: float
    late: float


class GateFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the highest weight whose score is below the gate, whatever the mean says.

    Attributes:
        step: the step's index in the run.
        score: its score.
        limit: the score that it had to reach.
        sure: whether the noise of the score is known, so that its upper limit is below the gate.
    """

    step: int
    score: float
    limit: float
    sure: bool


class Curve(msgspec.Struct, frozen=True, kw_only=True, tag="curve"):
    """The scores of one run's steps, what shape they have, and where it broke.

    Attributes:
        id: the run's id; "" for a curve that no run of a store stands behind.
        name: the run's name.
        steps: step indexes of the run, rising: one entry each in every tuple below.
        scores: 0 to 1; None where a step was not scored.
        source: where the scores come from.
        judge: who gave them ("" where the source says it all).
        repeats: scorings of each step that were averaged.
        sigma: the noise of one entry's score, one standard deviation; None where it was averaged
            over a range because nobody has measured it.
        sigma_source: where sigma comes from.
        latency_s: seconds a step took, None where the trace lacks them.
        cost_usd: what a step cost, None where the trace lacks it.
        weights: the importance of each step as fixed before scoring, None without weights.
        shape: the shape, "unresolved", or why there is none.
        best: the most probable shape, also of an unresolved curve; None without a posterior.
        runner_up: the second most probable shape.
        posterior: probability by shape, sums to 1; empty without a shape.
        unmodelled: no shape fits these scores: the posterior is not to be used.
        low_level: the mean, with its interval, lies below .6, whatever the shape.
        mean: mean score with its interval.
        depth: how far the score fell, where it fell.
        trough_length: scored steps spent below, of a recovery; 1 is a glitch.
        break_probability: probability that the run broke at this entry; what is missing to 1 is
            the probability of no break. Empty without a break analysis.
        break_step: step index of the most probable break; None where no break is declared.
        break_first: first step of the 90 % run of the break; None where no break is declared.
        break_last: last step of it.
        watch: steps where latency or cost spike and the score holds.
        slopes: change a step in each third; None where a third has fewer than two scores.
        weighted: mean score under the weights; None without weights, or without all scores.
        gate_failed: steps of the highest weight below the gate, in order.
        notes: what else a reader has to know of this curve.
    """

    id: str = ""
    name: str = ""
    steps: tuple[int, ...]
    scores: tuple[float | None, ...]
    source: CurveSource
    judge: str = ""
    repeats: int = 1
    sigma: float | None = None
    sigma_source: SigmaSource = "marginalised"
    latency_s: tuple[float | None, ...] | None = None
    cost_usd: tuple[float | None, ...] | None = None
    weights: tuple[float, ...] | None = None
    shape: ShapeLabel | Unmeasured
    best: ShapeName | None = None
    runner_up: ShapeName | None = None
    posterior: dict[str, float] = msgspec.field(default_factory=dict)
    unmodelled: bool = False
    low_level: bool = False
    mean: Span | None = None
    depth: Span | None = None
    trough_length: int | None = None
    break_probability: tuple[float, ...] = ()
    break_step: int | None = None
    break_first: int | None = None
    break_last: int | None = None
    watch: tuple[int, ...] = ()
    slopes: Slopes | None = None
    weighted: float | None = None
    gate_failed: tuple[GateFailure, ...] = ()
    notes: tuple[str, ...] = ()


class Shapes(msgspec.Struct, frozen=True, kw_only=True, tag="shapes"):
    """Which shapes the runs of a group have.

    The shares are estimated over all runs with a curve, the unresolved ones included: counting
    labels would be biased (docs/explanation/fleet-shapes.md).

    Attributes:
        shares: share of the runs by shape, with interval; empty where they cannot be estimated.
        no_shares: why there are no shares; None where there are.
        labels: runs counted by their own label; unresolved and unmodelled ones are not in it.
        n_runs: runs with a curve that could be asked for a shape.
        unresolved: of these, runs in which no shape is probable enough.
        unmodelled: of these, runs that no shape fits; they are in no share.
        low_level: of these, runs whose mean score is low, whatever their shape.
        gate_failed: of these, runs with a step of the highest weight below the gate.
        unmeasured: runs without a shape, by kind.
        source: where the scores come from, in words.
        sigma: the noise that was assumed and where it comes from, in words.
    """

    shares: dict[ShapeName, Estimate]
    no_shares: Unmeasured | None = None
    labels: dict[str, int]
    n_runs: int
    unresolved: int
    unmodelled: int
    low_level: int
    gate_failed: int = 0
    unmeasured: dict[str, int] = msgspec.field(default_factory=dict)
    source: str
    sigma: str


class ShapesDifference(msgspec.Struct, frozen=True, kw_only=True, tag="shapes_difference"):
    """The shapes of two groups of runs: shares of the second minus those of the first.

    Attributes:
        difference: by shape, each interval about that shape alone.
        p: by shape, chance of a difference as large in any of the five between groups that are
            alike: already adjusted for looking at five.
        method: how p came.
        source: where the scores come from, in words.
        sigma: their noise, in words.
    """

    difference: dict[ShapeName, Estimate]
    p: dict[ShapeName, float]
    method: str
    source: str
    sigma: str


NO_CURVES = Unmeasured(
    "missing_input", "no step scores; stepscope import scores.csv brings them, score makes labels"
)
