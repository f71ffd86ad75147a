"""How far two scores of the same items order them alike: Spearman's rank correlation.

Items of one run are weighed together. Refuses a value where one of the two scores is the same
throughout: such a score orders nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, index
from stepscope.stats.sample import Frame, check, column, conclude
from stepscope.values import Estimate, Unmeasured

# Fewer items than this are ordered alike by chance too often to say anything.
FEWEST = 4
# Weights drawn at one time; of very many runs fewer draws, down to those that tell a spread.
MOST_WEIGHTS, FEWEST_DRAWS = 8_000_000, 200


def rank_correlation(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = 2_000,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "steps",
) -> Estimate | Unmeasured:
    """Spearman's rank correlation, with the interval of a Bayesian bootstrap over clusters.

    Args:
        first: shape (n,), any unit.
        second: shape (n,), any unit, of the same items.
        clusters: shape (n,), the run of each item; None makes every item its own.
        rng: draws the weights.
        level: coverage of the interval, a share.
        draws: weights drawn.
        unmeasured: items that lack one of the two, by kind.
        unit_of_n: what a row is.

    Returns:
        The correlation of the ranks, ties sharing theirs, from -1 to 1. `Unmeasured` with fewer
        than four items, with one cluster, and ("undefined") where one side is constant.

    Raises:
        DataError: shapes differ.

    Source:
        Spearman (1904), Amer. J. Psychol. 15:72-101; the draws are taken on Fisher's scale, where
        their spread is widened from clusters to clusters - 1 and from z to t.

    >>> found = rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], rng=np.random.default_rng(0))
    >>> round(found.value, 3)
    0.8
    """
    a, b = column(first, "first"), column(second, "second")
    if a.shape != b.shape:
        raise DataError(f"first has shape {a.shape}, second {b.shape}; expected the same items")
    run = index(clusters, len(a))
    runs = int(run.max(initial=-1)) + 1
    frame = Frame(
        level=level, unmeasured=unmeasured, unit="rank", unit_of_n=unit_of_n, n_tasks=runs
    )
    absent = check(a, frame) or check(b, frame)
    if absent is not None:
        return absent
    if len(a) < FEWEST or runs < 2:
        few = f"{len(a)} {unit_of_n} of {runs} runs; expected {FEWEST} of two runs or more"
        return Unmeasured("insufficient_data", few)
    ranks = np.stack([_ranks(a), _ranks(b)], axis=1)
    value = _pearson(np.ones((1, runs)), ranks, run)[0]
    if not np.isfinite(value):
        return Unmeasured("undefined", "one side gives every item the same score: no order")
    low, high = _limits(float(value), ranks, run, rng=rng, draws=draws, level=level)
    return conclude((float(value), low, high), method="bayesian bootstrap", n=len(a), frame=frame)


def _limits(
    value: float,
    ranks: Floats,
    run: npt.NDArray[np.int64],
    *,
    rng: np.random.Generator,
    draws: int,
    level: float,
) -> tuple[float | None, float | None]:
    from scipy.special import stdtrit

    if abs(value) >= 1 - 1e-12:
        return None, None
    runs = int(run.max()) + 1
    drawn = max(min(draws, MOST_WEIGHTS // runs), FEWEST_DRAWS)
    found = _pearson(rng.standard_gamma(1.0, (drawn, runs)), ranks, run)
    scaled = np.arctanh(np.clip(found[np.isfinite(found)], -1 + 1e-9, 1 - 1e-9))
    # Draws spread over C runs by C / (C + 1) of what they should.
    error = float(scaled.std()) * ((runs + 1) / (runs - 1)) ** 0.5
    reach = float(stdtrit(runs - 1, (1 + level) / 2)) * error
    centre = float(np.arctanh(value))
    return float(np.tanh(centre - reach)), float(np.tanh(centre + reach))


def _ranks(values: Floats) -> Floats:
    """Return midranks: those that are equal share the mean of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    upto = np.searchsorted(ordered, values, side="right")
    return np.asarray((below + upto + 1) / 2, np.float64)


def _pearson(weights: Floats, ranks: Floats, run: npt.NDArray[np.int64]) -> Floats:
    """Return the weighted correlation of ranks, one a row of weights, NaN where undefined."""
    x, y = (ranks - ranks.mean(axis=0)).T
    features = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
    sums = np.stack([np.bincount(run, weights=f) for f in features.T], axis=1)
    n, sx, sy, sxx, syy, sxy = (weights @ sums).T
    with np.errstate(all="ignore"):
        mx, my = sx / n, sy / n
        spread = (sxx / n - mx**2) * (syy / n - my**2)
        found = (sxy / n - mx * my) / np.sqrt(np.where(spread > 1e-12, spread, np.nan))
    return np.asarray(found)
