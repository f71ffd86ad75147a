"""Shares: pass rates, part shares in [0, 1], and ratios of sums such as errors recovered per error.

Wilson's interval, at the number of runs where they are independent and at the effective number
where trials of one task repeat each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, Ints, by_cluster, index
from stepscope.stats.intervals import share_limits, wilson
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.stats.worstcase import nothing_measured
from stepscope.values import Estimate, Target, Unmeasured


def proportion(
    successes: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Share of successes with Wilson's interval, at the effective size where runs are clustered.

    Args:
        successes: shape (n,), True or False (1 or 0), one a run.
        clusters: shape (n,), the task of each run; None when runs are independent.
        target: "these cases" takes every run as independent.
        level: coverage of the interval, a share.
        unmeasured: runs that have no answer, by kind.
        unit_of_n: what a row is.

    Returns:
        A share. `Unmeasured` without runs, with one task when tasks are the target, or with values
        that are not finite.

    Raises:
        DataError: shapes differ, or a value is neither 0 nor 1.

    Source:
        Wilson (1927), JASA 22:209-212; clustered as in `intervals.effective_size`.

    >>> rate = proportion([True] * 84 + [False] * 116)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.354, 0.489)
    """
    values = column(successes, "successes")
    frame = Frame(
        target=target, level=level, unmeasured=unmeasured, unit_of_n=unit_of_n, scale=(0.0, 1.0)
    )
    absent = check(values, frame)
    if absent is not None:
        return absent
    if not ((values == 0) | (values == 1)).all():
        raise DataError("proportion takes successes 0 or 1; for part shares in [0, 1] use share")
    ones = np.ones(len(values))
    return _share(values, ones, index(clusters, len(values)), frame, whole=True)


def share(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Mean of part shares (sub-goals reached) with Wilson's interval at the effective size.

    Args:
        values: shape (n,), each in [0, 1].
        clusters: shape (n,), the task of each run; None when runs are independent.
        target: "these cases" takes every run as independent.
        level: coverage of the interval, a share.
        unmeasured: runs that have no answer, by kind.
        unit_of_n: what a row is.

    Returns:
        A share. `Unmeasured` as in `proportion`.

    Raises:
        DataError: shapes differ, or a value lies outside [0, 1].

    Source:
        as `proportion`; a yes or no has the largest variance of all values in [0, 1] with its mean.

    >>> share([1.0, 0.5, 0.5, 0.0]).value
    0.5
    """
    numbers = column(values, "values")
    frame = Frame(
        target=target, level=level, unmeasured=unmeasured, unit_of_n=unit_of_n, scale=(0.0, 1.0)
    )
    absent = check(numbers, frame)
    if absent is not None:
        return absent
    if numbers.min() < 0 or numbers.max() > 1:
        raise DataError(f"share takes values in [0, 1]; found {numbers.min()!r}, {numbers.max()!r}")
    ones = np.ones(len(numbers))
    return _share(numbers, ones, index(clusters, len(numbers)), frame, whole=False)


def ratio(
    numerators: npt.ArrayLike,
    denominators: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "errors",
) -> Estimate | Unmeasured:
    """Sum over sum, where each numerator counts some of its denominator (recovered errors).

    Args:
        numerators: shape (n,), each between 0 and its denominator.
        denominators: shape (n,), counts of one run; runs with 0 say nothing and drop out.
        clusters: shape (n,), the task of each run; None when runs are independent.
        target: "these cases" takes every run as independent.
        level: coverage of the interval, a share.
        unmeasured: units (errors) that have no answer, by kind.
        unit_of_n: what the denominators count.

    Returns:
        A share of all counted units, n being their number. `Unmeasured` when nothing was counted,
        when all of it lies in one task, or when a value is not finite.

    Raises:
        DataError: shapes differ, or a numerator is negative or above its denominator.

    Source:
        as `proportion`, the cluster of an error being its task.

    >>> ratio([1, 0, 2], [2, 1, 2]).value
    0.6
    """
    top, bottom = column(numerators, "numerators"), column(denominators, "denominators")
    if top.shape != bottom.shape:
        raise DataError(f"numerators have shape {top.shape}, denominators {bottom.shape}")
    frame = Frame(
        target=target, level=level, unmeasured=unmeasured, unit_of_n=unit_of_n, scale=(0.0, 1.0)
    )
    dense = index(clusters, len(top))
    absent = check(np.concatenate([top, bottom]), frame)
    if absent is not None:
        return absent
    if (top < 0).any() or (top > bottom).any():
        raise DataError("ratio takes numerators between 0 and their denominators")
    if not (bottom > 0).any():
        return nothing_measured(unmeasured, unit_of_n)
    counted = bottom > 0
    return _share(top[counted], bottom[counted], dense[counted], frame, whole=True)


def _share(
    top: Floats, bottom: Floats, clusters: Ints, frame: Frame, *, whole: bool
) -> Estimate | Unmeasured:
    """Sum over sum; `whole` says that numerators count whole units, each a yes or a no."""
    above, below = by_cluster(top, clusters).sums, by_cluster(bottom, clusters).sums
    units = float(below.sum())
    frame = replace(frame, n_tasks=len(below))
    alone = frame.target == "these cases" or len(below) == units
    absent = too_few(len(below), len(top) if not (whole and alone) else 2, frame)
    if absent is not None:
        return absent
    if whole and alone:
        value = float(above.sum()) / units
        low, high = wilson(value, units, frame.level)
        method = "wilson"
    else:
        sums, sizes = (top, bottom) if frame.target == "these cases" else (above, below)
        found, low, high = share_limits(sums, sizes, frame.level, most=units if whole else np.inf)
        value, method = float(found), "wilson clustered"
    return conclude((value, float(low), float(high)), method=method, n=round(units), frame=frame)
