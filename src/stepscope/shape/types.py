"""What the classifier answers: `Shape` for one run, `Batch` for many.

Nothing here is NaN or infinite. A run that cannot be classified is an `Unmeasured`; in a batch it
has no row, and `Batch.reasons` says which absence it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.shape.names import ShapeLabel, ShapeName
from stepscope.values import Unmeasured

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SigmaSource = Literal["given", "marginalised"]


@dataclass(frozen=True, slots=True)
class CredibleInterval:
    """A number with the limits of its 90 % interval, in the unit of the scores."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakSteps:
    """Where the scores broke, steps counted from 0 over all n steps, missing ones included.

    Attributes:
        probability: one entry a step; what is missing to 1 is the probability of no break. Healthy
            runs and steady declines have no break.
        step: the most probable step; None where no break is more probable than a break.
        first: first step of the shortest run of steps that holds 90 % of the probability, given
            that there is a break; None with `step`.
        last: last step of that run.
        onset: the most probable first step below the level before, given a break at all; a slow
            drop has its onset before its break, which is where half of it has happened.
    """

    probability: tuple[float, ...]
    step: int | None
    first: int | None
    last: int | None
    onset: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one run's scores.

    Attributes:
        posterior: probability by shape, sums to 1.
        log_likelihood: log density of the scores under each shape, in the order of `SHAPES`; not
            more than 80 below the best template's.
        label: the most probable shape, or "unresolved" below `RESOLVED`, or where `unmodelled`.
        best: the most probable shape, whatever its probability.
        runner_up: the second most probable.
        bayes_factor: evidence of `best` over `runner_up`, the prior taken out; at most 1e12.
        unmodelled: no shape fits, or a collapse in two stages explains the scores ten times better
            than any: the posterior is not to be used.
        gof_p: probability of residuals as large as these, were the best template true.
        low_level: the mean with its interval lies below .6, whatever the shape.
        mean: mean of the observed scores; its interval is that of the scorer's noise.
        break_: where it broke.
        depth: how far it fell; None where the best shape is healthy.
        trough_length: steps spent below, of a recovery; None for other shapes. 1 is a glitch.
        sigma: noise of one score, one standard deviation; the mean over steps or over the range
            that was averaged.
        sigma_source: "given", or "marginalised" over a range because it was not.
        n: steps, missing ones included.
        missing: steps without a score.
    """

    posterior: dict[ShapeName, float]
    log_likelihood: tuple[float, ...]
    label: ShapeLabel
    best: ShapeName
    runner_up: ShapeName
    bayes_factor: float
    unmodelled: bool
    gof_p: float
    low_level: bool
    mean: CredibleInterval
    break_: BreakSteps
    depth: CredibleInterval | None
    trough_length: int | None
    sigma: float
    sigma_source: SigmaSource
    n: int
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeBatch:
    """The shapes of many runs; every array has one row for each run that could be classified.

    Attributes:
        rows: shape (k,), which run of the input each row is, rising.
        reasons: shape (m,), for each run of the input 0 where it has a row, else one more than the
            index of its absence in `absences`.
        absences: why runs have no row.
        log_likelihood: shape (k, 5), log density of the run's scores under each shape; not more
            than 80 below the best template's.
        posterior: shape (k, 5), rows sum to 1.
        label: shape (k,), index into `SHAPES`, or -1 where unresolved or unmodelled.
        best: shape (k,), index of the most probable shape.
        unmodelled: shape (k,), no shape fits.
        gof_p: shape (k,).
        low_level: shape (k,).
        mean: shape (k,), of the observed scores.
        sigma: shape (k,), noise of a score: the mean over the run's observed steps, or over the
            range that was averaged because it was not given.
        missing: shape (k,), steps without a score.
        break_probability: shape (k,), probability of any break.
        break_step: shape (k,), -1 where no break is declared.
        break_low: shape (k,), first step of the 90 % run, -1 where none is declared.
        break_high: shape (k,), last step of it.
    """

    rows: npt.NDArray[np.int64]
    reasons: npt.NDArray[np.int8]
    absences: tuple[Unmeasured, ...]
    log_likelihood: Floats
    posterior: Floats
    label: npt.NDArray[np.int8]
    best: npt.NDArray[np.int8]
    unmodelled: Bools
    gof_p: Floats
    low_level: Bools
    mean: Floats
    sigma: Floats
    missing: npt.NDArray[np.int16]
    break_probability: Floats
    break_step: npt.NDArray[np.int16]
    break_low: npt.NDArray[np.int16]
    break_high: npt.NDArray[np.int16]
