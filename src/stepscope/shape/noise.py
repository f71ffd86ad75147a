"""How noisy the scores of a fleet are, learned from the scores alone.

Runs are few curves and much noise: the sigma, and the correlation of neighbouring errors, under
which the templates explain the fleet best, are those of its judge, without one repeated scoring.
What of a curve no template explains counts as noise. Duplicate scorings measure the judge alone,
and are better; where both are there and disagree, the told sigma is wrong or the curves are rough.
Source: type II maximum likelihood; Bishop (2006), Pattern Recognition and Machine Learning, 3.5.
The intervals are of the likelihood's curvature at its top.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.shape import inputs
from stepscope.shape.classifier import log_density
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.values import Estimate, Unmeasured

Peak = tuple[float, float]

# Fewer runs tell too little.
FEWEST_RUNS = 30
# So do shorter ones, and a few very long ones; of so many the common patterns are looked for.
FEWEST_SCORES, MOST_STEPS, LOOKED_AT = 7, 400, 3_000
# More runs than this, or more patterns of observed steps, sharpen nothing worth the time.
MOST_RUNS, MOST_PATTERNS = 300, 12
SIGMAS = np.geomspace(0.01, 0.4, 14)
CORRELATIONS = np.arange(-0.3, 0.91, 0.15)
# Curves are not the templates: a sigma is off by a fifth beside what the likelihood says.
ROUGH = math.log(1.2)
# Two-sided 95 %, in standard errors.
NORMAL_95 = 1.959963984540054
# A correlation below this changes no answer worth the change.
SLIGHT = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetNoise:
    """The noise under which the templates explain a fleet best."""

    sigma: Estimate  # of one score, in its unit
    # of the errors of neighbouring steps, at the told sigma where one was told
    correlation: Estimate

    def correlation_to_tell(self) -> float:
        """Return the correlation to classify with: 0 unless it is surely more than slight."""
        low = self.correlation.low
        return self.correlation.value if low is not None and low > SLIGHT else 0.0


def learn_noise(
    values: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    sigma: float | None = None,
    quantum: float | None = None,
) -> FleetNoise | Unmeasured:
    """Return sigma and correlation of the noise of a fleet's scores, runs laid end to end.

    Where the judge's sigma was measured, the correlation is the one that goes with it. Noise above
    .1 is cut off at the ends of the scale, and seems smaller than it is. `Unmeasured` with fewer
    than 30 runs of seven scores that could be classified, or where no sigma from .01 to .4 is best.
    """
    flat, counts = inputs.check_lengths(values, lengths)
    what = inputs.check_assumptions(flat, quantum=quantum)
    patterns = _patterns(flat, counts)
    runs = sum(len(scores) for scores, _ in patterns)
    if runs < FEWEST_RUNS:
        why = f"{runs} runs have {FEWEST_SCORES} scores; {FEWEST_RUNS} are needed to estimate noise"
        return Unmeasured("insufficient_data", why)
    seen: dict[Peak, float] = {}

    def fits(log_sigma: float, correlation: float) -> float:
        key = (round(log_sigma, 9), round(correlation, 9))
        if key not in seen:
            here = replace(what, correlation=correlation)
            noise = math.exp(log_sigma)
            seen[key] = sum(
                float(log_density(scores, there, np.full(len(there), noise), here).sum())
                for scores, there in patterns
            )
        return seen[key]

    found = _noise(fits, runs)
    if sigma is None or isinstance(found, Unmeasured):
        return found
    if not 0 < sigma <= 1:
        return inputs.BAD_SIGMA
    # The correlation that is best at this sigma.
    log_sigma = math.log(sigma)
    rhos = CORRELATIONS.tolist()
    likely = [fits(log_sigma, rho) for rho in rhos]
    top = min(max(int(np.argmax(likely)), 1), len(rhos) - 2)
    before, here, after = likely[top - 1 : top + 2]
    bend = before - 2 * here + after
    if bend >= 0:
        return found
    step, height = float(np.clip((before - after) / 2 / bend, -1, 1)), rhos[1] - rhos[0]
    peak = (rhos[top] + step * height, NORMAL_95 * height / math.sqrt(-bend))
    return replace(found, correlation=_correlation(peak, found.correlation.n))


def _patterns(flat: Floats, counts: Ints) -> list[tuple[Floats, Bools]]:
    """Return scores (k, n) with the steps (n,) that they share, the commonest patterns first."""
    begins = np.cumsum(counts) - counts
    found: dict[bytes, list[Floats]] = {}
    long = np.flatnonzero((counts >= FEWEST_SCORES) & (counts <= MOST_STEPS))
    for run in long[:: -(-len(long) // LOOKED_AT) or 1].tolist():
        scores = flat[begins[run] : begins[run] + counts[run]]
        there = ~np.isnan(scores)
        told = there.sum() >= FEWEST_SCORES
        if told and inputs.find_absence_of_shape(scores, there, None) is None:
            found.setdefault(there.tobytes(), []).append(scores)
    common = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:MOST_PATTERNS]
    every = [(key, scores) for key, group in common for scores in group]
    # Evenly from all of them, whatever their order means.
    taken = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_RUNS)).astype(np.int64))
    kept: dict[bytes, list[Floats]] = {}
    for i in taken.tolist():
        key, scores = every[i]
        kept.setdefault(key, []).append(scores)
    return [(np.stack(rows), np.frombuffer(key, np.bool_)) for key, rows in kept.items()]


def _noise(fits: Callable[[float, float], float], runs: int) -> FleetNoise | Unmeasured:
    """Climb the grid, one axis after the other, and take the parabola at its top."""
    logs = np.log(SIGMAS).tolist()
    rhos = CORRELATIONS.tolist()
    at, lag = int(np.argmax([fits(x, 0.0) for x in logs])), 0
    for _ in range(len(logs)):
        before = (at, lag)
        lag = int(np.argmax([fits(logs[at], rho) for rho in rhos]))
        at = int(np.argmax([fits(x, rhos[lag]) for x in logs]))
        if (at, lag) == before:
            break
    if at in (0, len(logs) - 1) or lag in (0, len(rhos) - 1):
        why = "the scores are explained best by a noise at the end of what is looked at"
        return Unmeasured("undefined", why)
    width, height = logs[1] - logs[0], rhos[1] - rhos[0]
    table = np.array([[fits(logs[at + i], rhos[lag + j]) for j in (-1, 0, 1)] for i in (-1, 0, 1)])
    (x, x_error), (y, y_error) = _parabola(table)
    top = (logs[at] + x * width, NORMAL_95 * x_error * width + ROUGH)
    return FleetNoise(
        sigma=_estimate(top, math.exp, runs=runs, unit="score"),
        correlation=_correlation((rhos[lag] + y * height, NORMAL_95 * y_error * height), runs),
    )


def _parabola(table: Floats) -> tuple[Peak, Peak]:
    """Return the top of a surface known at nine points, and its standard errors, in grid steps.

    Where the nine points have no top, the middle one and an error of a whole step are returned.
    """
    slope = np.array([table[2, 1] - table[0, 1], table[1, 2] - table[1, 0]]) / 2
    bend = np.empty((2, 2))
    bend[0, 0] = table[2, 1] - 2 * table[1, 1] + table[0, 1]
    bend[1, 1] = table[1, 2] - 2 * table[1, 1] + table[1, 0]
    bend[0, 1] = bend[1, 0] = (table[2, 2] - table[2, 0] - table[0, 2] + table[0, 0]) / 4
    if bend[0, 0] >= 0 or np.linalg.det(bend) <= 0:
        return (0.0, 1.0), (0.0, 1.0)
    spread = np.linalg.inv(-bend)
    top = np.clip(spread @ slope, -1.0, 1.0)
    errors = np.sqrt(np.diag(spread))
    return (float(top[0]), float(errors[0])), (float(top[1]), float(errors[1]))


def _correlation(top: Peak, runs: int) -> Estimate:
    most = inputs.MOST_CORRELATION
    return _estimate(top, lambda value: min(max(value, -most), most), runs=runs, unit="correlation")


def _estimate(top: Peak, scale: Callable[[float], float], *, runs: int, unit: str) -> Estimate:
    value, half = top
    return Estimate(
        value=scale(value),
        low=scale(value - half),
        high=scale(value + half),
        method="evidence",
        n=runs,
        n_tasks=runs,
        unit=unit,
        diagnostics=("runs taken as independent",),
    )
