"""The five shapes, in the order of every array and table, and the classifier's answers.

`Shape` is the answer for one run, `ShapeBatch` for many. Nothing here is NaN or infinite. A run
that cannot be classified is an `Unmeasured`; in a batch it has no row, and `reasons` says why.

Source: the taxonomy of ARC (Tribbia); where a step is "early" or "late" is a convention of ours,
see `stepscope.shape.templates`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from stepscope.values import Unmeasured

if TYPE_CHECKING:  # a report names shapes without numpy
    import numpy as np
    import numpy.typing as npt

    from stepscope.stats.sample import Bools, Floats

ShapeName = Literal["healthy", "early_collapse", "late_drift", "steady_degradation", "recovery"]
ShapeLabel = ShapeName | Literal["unresolved"]
SHAPES: tuple[ShapeName, ...] = get_args(ShapeName)
HEALTHY, EARLY_COLLAPSE, LATE_DRIFT, STEADY_DEGRADATION, RECOVERY = range(5)
# Code of a label that no shape earned, in arrays of codes.
UNRESOLVED = -1
SigmaSource = Literal["given", "marginalised"]


@dataclass(frozen=True, slots=True)
class CredibleInterval:
    """A number with the limits of its 90 % interval, in the unit of the scores."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """Change of the score a step in each third of the run."""

    early: float
    mid: float
    late: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """Where a run broke, steps counted from 0 over all n steps, missing ones included."""

    probability: tuple[float, ...]  # one entry a step; with `none` they sum to 1
    none: float  # probability of no break. Healthy runs and steady declines have none.
    step: int | None  # the most probable step; None where no break is more probable than a break
    # first step of the shortest run that holds 90 % of the probability of a break; None with `step`
    first: int | None
    last: int | None  # last step of that run
    unmodelled: bool  # no shape fits the scores: none of this is to be relied on
    # the most probable first step below the level before, given a break at all; a slow drop has its
    # onset before its break, which is where half of it has happened. Of scores alone.
    onset: int | None = None
    watch: tuple[int, ...] = ()  # steps where latency or cost spike and the score holds
    # what was used: "scores", and "latency" and "cost" where they had values
    sources: tuple[str, ...] = ("scores",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one run's scores."""

    posterior: dict[ShapeName, float]  # probability by shape, sums to 1
    # log density of the scores by shape, in the order of `SHAPES`; at most 80 below the best one's
    log_likelihood: tuple[float, ...]
    # the most probable shape, or "unresolved" below `RESOLVED`, or where `unmodelled`
    label: ShapeLabel
    best: ShapeName  # the most probable shape, whatever its probability
    runner_up: ShapeName  # the second most probable
    bayes_factor: float  # evidence of `best` over `runner_up`, the prior taken out; at most 1e12
    # no shape fits, or a collapse in two stages explains the scores ten times better than any: the
    # posterior is not to be used
    unmodelled: bool
    gof_p: float  # probability of residuals as large as these, were the best template true
    low_level: bool  # the mean with its interval lies below .6, whatever the shape
    # mean of the observed scores; its interval is that of the scorer's noise
    mean: CredibleInterval
    break_: Break  # where it broke, by the scores
    depth: CredibleInterval | None  # how far it fell; None where the best shape is healthy
    # steps spent below, of a recovery; None for other shapes. 1 is a glitch.
    trough_length: int | None
    # noise of one score, one standard deviation: the mean over steps, or over the range averaged
    sigma: float
    sigma_source: SigmaSource  # "given", or "marginalised" over a range because it was not
    n: int  # steps, missing ones included
    missing: int  # steps without a score


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeBatch:
    """The shapes of many runs; every array has one row for each run that could be classified."""

    rows: npt.NDArray[np.int64]  # shape (k,), which run of the input each row is, rising
    # shape (m,), for each run of the input 0 where it has a row, else 1 + its place in `absences`
    reasons: npt.NDArray[np.int8]
    absences: tuple[Unmeasured, ...]  # why runs have no row
    # shape (k, 5), log density of the run's scores under each shape; not more than 80 below the
    # best template's
    log_likelihood: Floats
    posterior: Floats  # shape (k, 5), rows sum to 1
    # shape (k,), index into `SHAPES`, or -1 where unresolved or unmodelled
    label: npt.NDArray[np.int8]
    best: npt.NDArray[np.int8]  # shape (k,), index of the most probable shape
    unmodelled: Bools  # shape (k,), no shape fits
    gof_p: Floats  # shape (k,)
    low_level: Bools  # shape (k,)
    mean: Floats  # shape (k,), of the observed scores
    # shape (k,), noise of a score: the mean over the run's observed steps, or over the range that
    # was averaged because it was not given
    sigma: Floats
    missing: npt.NDArray[np.int16]  # shape (k,), steps without a score
    break_probability: Floats  # shape (k,), probability of any break
    break_step: npt.NDArray[np.int16]  # shape (k,), -1 where no break is declared
    # shape (k,), first step of the 90 % run, -1 where none is declared
    break_low: npt.NDArray[np.int16]
    break_high: npt.NDArray[np.int16]  # shape (k,), last step of it
