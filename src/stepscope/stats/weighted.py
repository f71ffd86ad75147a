"""Shares of all runs from a sample in which runs had different chances to be drawn.

Each run counts for as many as it was drawn from, one over its inclusion probability, and the sum of
these weights stands for the number of runs (Hajek's estimator). Refuses a probability of 0: what
could not be drawn is not spoken of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, Ints, by_cluster, index
from stepscope.stats.intervals import share_limits
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.values import Estimate, Unmeasured


def weighted_proportion(
    successes: npt.ArrayLike,
    probabilities: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    lost: npt.ArrayLike = (),
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Share of successes among all runs that could have been drawn, each weighed by 1/p.

    Args:
        successes: shape (n,), True or False (1 or 0), one a run drawn.
        probabilities: shape (n,), in (0, 1]: with which each of them was drawn.
        clusters: shape (n,), the task of each run; None when runs are independent.
        lost: shape (m,), probabilities of drawn runs that should have an answer and have none; they
            make the worst case, weighed like the others.
        level: coverage of the interval, a share.
        unmeasured: runs drawn that have no answer, by kind.
        unit_of_n: what a row is.

    Returns:
        A share with Wilson's interval at the effective size p(1-p)/v, v being the linearised
        variance of a ratio of weighted sums over clusters, and never above (sum w)^2/sum w^2; `n`
        counts the runs drawn. `Unmeasured` as in `proportion`.

    Raises:
        DataError: shapes differ, a success is neither 0 nor 1, or a probability not in (0, 1].

    Source:
        Hajek (1971), in Foundations of Statistical Inference, 236; Sarndal, Swensson and Wretman
        (1992), Model Assisted Survey Sampling, section 5.7, with the variance between clusters as
        if drawn with replacement; Kish (1965) for the effective number; Korn and Graubard (1998)
        for Wilson at it.

    >>> found = weighted_proportion([1, 0, 0, 1], [0.1, 0.1, 1.0, 1.0])
    >>> found.value, found.n
    (0.5, 4)
    """
    values, drawn = column(successes, "successes"), column(probabilities, "probabilities")
    outside = column(lost, "lost")
    if values.shape != drawn.shape:
        raise DataError(f"successes have shape {values.shape}, probabilities {drawn.shape}")
    chances = np.concatenate([drawn, outside])
    if not ((chances > 0) & (chances <= 1)).all():
        raise DataError("weighted_proportion takes probabilities above 0 and up to 1")
    frame = Frame(level=level, unmeasured=unmeasured, unit_of_n=unit_of_n)
    absent = check(values, frame)
    if absent is not None:
        return absent
    if not ((values == 0) | (values == 1)).all():
        raise DataError("weighted_proportion takes successes 0 or 1")
    return _weighted(values, 1 / drawn, index(clusters, len(values)), (1 / outside).sum(), frame)


def _weighted(
    values: Floats, weights: Floats, clusters: Ints, lost: float, frame: Frame
) -> Estimate | Unmeasured:
    above, below = by_cluster(values * weights, clusters).sums, by_cluster(weights, clusters).sums
    frame = replace(frame, n_tasks=len(below))
    absent = too_few(len(below), len(values), frame)
    if absent is not None:
        return absent
    most = float(weights.sum() ** 2 / (weights**2).sum())
    value, low, high = (float(x) for x in share_limits(above, below, frame.level, most=most))
    part, whole = float(above.sum()), float(below.sum()) + lost
    frame = replace(frame, bounds=(part / whole, (part + lost) / whole))
    return conclude((value, low, high), method="hajek, wilson", n=len(values), frame=frame)
