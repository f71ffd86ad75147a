"""Means of figures of any unit, and counts of events a run.

Not for shares: `proportion` and `share` know the ends of their scale and are better there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, by_cluster
from stepscope.stats.intervals import mean_limits, poisson_limits
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.values import Estimate, Target, Unmeasured

# An interval narrower than this share of its ends is rounding, not spread.
ROUNDING = 1e-12


def mean(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "",
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Mean with Student's interval over clusters; on the log scale where no value is negative.

    Args:
        values: shape (n,), any unit.
        clusters: shape (n,), the task of each value; None when values are independent.
        target: "these cases" takes every value as independent.
        level: coverage of the interval, a share.
        unmeasured: runs that have no value, by kind.
        unit: unit of the values.
        unit_of_n: what a row is.

    Returns:
        The mean in `unit`. `Unmeasured` without values, with one cluster, with values that are not
        finite, and ("undefined") when all values are the same: then nothing is known of spread.

    Raises:
        DataError: shapes differ.

    Source:
        Cameron and Miller (2015), J. Human Resources 50:317-372: t with (clusters - 1).

    >>> found = mean([-1.0, 0.0, 1.0])
    >>> found.value, round(found.high, 3)
    (0.0, 2.484)
    """
    numbers = column(values, "values")
    frame = Frame(target=target, level=level, unmeasured=unmeasured, unit=unit, unit_of_n=unit_of_n)
    absent = check(numbers, frame)
    if absent is not None:
        return absent
    if numbers.min() == numbers.max():
        return Unmeasured("undefined", f"all {len(numbers)} values are {numbers[0]:g}: no spread")
    return _mean(numbers, clusters, frame)


def rate(
    counts: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "calls",
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Events a run (redundant calls, violations), with an upper limit even when none was seen.

    Where all runs count the same, the clusters are taken as that many independent runs with a
    Poisson count each: no event in 50 tasks leaves up to 3.69/50 = .074 a run.

    Args:
        counts: shape (n,), events of each run, 0 or more.
        clusters: shape (n,), the task of each run; None when runs are independent.
        target: "these cases" takes every run as independent.
        level: coverage of the interval, a share.
        unmeasured: runs that have no count, by kind.
        unit: what is counted.
        unit_of_n: what a row is.

    Returns:
        Events a run. `Unmeasured` without runs, with one cluster, with counts not finite.

    Raises:
        DataError: shapes differ, or a count is negative.

    Source:
        as `mean`; Garwood (1936), Biometrika 28:437-442, where all counts are the same.

    >>> round(rate([0] * 50).high, 3)
    0.074
    """
    numbers = column(counts, "counts")
    frame = Frame(target=target, level=level, unmeasured=unmeasured, unit=unit, unit_of_n=unit_of_n)
    absent = check(numbers, frame)
    if absent is not None:
        return absent
    if numbers.min() < 0:
        raise DataError(f"rate takes counts of 0 or more; found {numbers.min():g}")
    if numbers.min() < numbers.max():
        return _mean(numbers, clusters, frame)
    n_tasks = len(by_cluster(numbers, clusters).sums)
    frame = replace(frame, n_tasks=n_tasks)
    absent = too_few(n_tasks, len(numbers), frame)
    if absent is not None:
        return absent
    clustered = n_tasks if target == "tasks like these" else len(numbers)
    value = float(numbers[0])
    low, high = poisson_limits(value * clustered, clustered, level)
    return conclude((value, low, high), method="poisson", n=len(numbers), frame=frame)


def _mean(numbers: Floats, clusters: npt.ArrayLike | None, frame: Frame) -> Estimate | Unmeasured:
    """Student over clusters; the values are finite and not all the same."""
    tasks = by_cluster(numbers, clusters)
    frame = replace(frame, n_tasks=len(tasks.sums))
    absent = too_few(len(tasks.sums), len(numbers), frame)
    if absent is not None:
        return absent
    if frame.target == "these cases":
        tasks = by_cluster(numbers, None)
    positive = bool(numbers.min() >= 0)
    with np.errstate(all="ignore"):
        value, low, high = mean_limits(tasks.sums, tasks.sizes, frame.level, positive=positive)
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return Unmeasured("undefined", "all clusters have the same mean: no spread between them")
    method = "t log" if positive else "t"
    return conclude(
        (float(value), float(low), float(high)), method=method, n=len(numbers), frame=frame
    )
