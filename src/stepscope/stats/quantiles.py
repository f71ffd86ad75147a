"""Median, p95 and other quantiles, with intervals between two of the values seen.

Runs that are independent get the exact order-statistic interval. Where trials of one task repeat
each other, the count of values below the quantile is taken as binomial at an effective size: the
design effect of "at or below the quantile", clustered as a share is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats, Ints, by_cluster, index
from stepscope.stats.intervals import effective_size
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.values import Estimate, Target, Unmeasured

# Half the pull that shares get (intervals.PRIOR_TASKS): order statistics are conservative already.
PRIOR_TASKS = 0.05


def quantile(
    values: npt.ArrayLike,
    q: float,
    clusters: npt.ArrayLike | None = None,
    *,
    target: Target = "tasks like these",
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "",
    unit_of_n: str = "runs",
) -> Estimate | Unmeasured:
    """Sample quantile (.5 the median, .95 p95) with an interval between two observed values.

    Args:
        values: shape (n,), any unit.
        q: which quantile, a share strictly between 0 and 1.
        clusters: shape (n,), the task of each value; None when values are independent.
        target: "these cases" takes every value as independent.
        level: coverage of the interval, a share.
        unmeasured: runs that have no value, by kind.
        unit: unit of the values.
        unit_of_n: what a row is.

    Returns:
        The quantile in `unit`, interpolated between the two nearest values. A limit that so few
        values cannot give is None, with a diagnostic (p95 has no upper limit below 72 independent
        values). `Unmeasured` when neither limit exists, without values, with one cluster, with
        values that are not finite or ("undefined") all the same.

    Raises:
        DataError: shapes differ, or q outside (0, 1).

    Source:
        David and Nagaraja (2003), Order Statistics, section 7.1; Woodruff (1952), JASA 47:635-646,
        for the effective size at the quantile.

    >>> found = quantile(list(range(1, 101)), 0.5)
    >>> found.value, found.low, found.high
    (50.5, 40.0, 61.0)
    """
    numbers = column(values, "values")
    frame = Frame(target=target, level=level, unmeasured=unmeasured, unit=unit, unit_of_n=unit_of_n)
    if not 0 < q < 1:
        raise DataError(f"q is {q!r}; expected a share between 0 and 1, such as 0.95")
    absent = check(numbers, frame)
    if absent is not None:
        return absent
    dense = index(clusters, len(numbers))
    frame = replace(frame, n_tasks=int(np.count_nonzero(np.bincount(dense))))
    absent = too_few(frame.n_tasks, len(numbers), frame)
    if absent is not None:
        return absent
    ordered = np.sort(numbers)
    if ordered[0] == ordered[-1]:
        return Unmeasured("undefined", f"all {len(numbers)} values are {ordered[0]:g}: no spread")
    return _between(numbers, ordered, dense, q, frame)


def _between(
    numbers: Floats, ordered: Floats, dense: Ints, q: float, frame: Frame
) -> Estimate | Unmeasured:
    """Find the two values that hold the quantile between them; the values are finite and vary."""
    n = len(numbers)
    size, method = float(n), "order statistics"
    if frame.target == "tasks like these" and frame.n_tasks < n:
        below = numbers <= ordered[nearest_rank(n, q) - 1]
        tasks = by_cluster(below.astype(np.float64), dense)
        _, found = effective_size(tasks.sums, tasks.sizes, most=n, prior=PRIOR_TASKS)
        size, method = float(found), "order statistics clustered"
    lower, upper = (int(x) for x in ranks(n, size, q, frame.level))
    if lower < 1 and upper > n:
        return Unmeasured(
            "insufficient_data",
            f"{n} values, worth {size:.0f} independent ones, are too few for limits of this"
            " quantile",
        )
    low = float(ordered[lower - 1]) if lower >= 1 else None
    high = float(ordered[upper - 1]) if upper <= n else None
    open_ends = tuple(
        f"no {side} limit: too few {frame.unit_of_n}"
        for side, limit in (("lower", low), ("upper", high))
        if limit is None
    )
    with np.errstate(all="ignore"):
        value = float(np.quantile(ordered, q))
    frame = replace(frame, diagnostics=open_ends)
    return conclude((value, low, high), method=method, n=n, frame=frame)


def nearest_rank(n: int, q: float) -> int:
    """Rank from 1 of the smallest value with at least a share q of values at or below it."""
    return max(1, min(n, int(np.ceil(q * n - 1e-9))))


def ranks(n: int, size: npt.ArrayLike, q: float, level: float) -> tuple[Ints, Ints]:
    """Ranks from 1 of the two order statistics that hold the q quantile between them.

    Exact for `size` equal to n: the values below the quantile number Binomial(n, q). Else the
    binomial of `size` values is stretched to n.

    Args:
        n: values.
        size: shape (...,), effective number of values, at most n.
        q: which quantile.
        level: coverage, a share.

    Returns:
        Lower rank, 0 where there is no such value; upper rank, n + 1 where there is none.

    >>> [int(x) for x in ranks(100, 100.0, 0.5, 0.95)]
    [40, 61]
    """
    from scipy.special import bdtrik  # lazy: .25 s of import

    effective = np.asarray(size, np.float64)
    tail = (1 - level) / 2
    stretch = n / effective
    # P(X < x_(r)) <= tail wants r - 1 <= k where the binomial's lower tail is `tail` at k.
    none_low, none_high = (1 - q) ** effective > tail, q**effective > tail
    with np.errstate(all="ignore"):
        below = np.where(none_low, 0.0, bdtrik(tail, effective, q) + 1) * stretch
        above = np.where(none_high, np.inf, bdtrik(1 - tail, effective, q) + 1) * stretch
    exact = effective >= n
    lower = np.floor(np.where(exact, np.floor(below + 1e-9), below))
    upper = np.ceil(np.minimum(np.where(exact, np.ceil(above - 1e-9), above), n + 1.0))
    lower = np.where(none_low, 0.0, np.clip(lower, 0, n))
    return lower.astype(np.int64), np.clip(upper, 1, n + 1).astype(np.int64)
