"""Estimates of one group of runs: shares, ratios of sums, means, event rates, quantiles, pass^k.

Shares have Wilson's interval, at the effective number of runs where trials of one task repeat each
other. Means have Student's over clusters. Quantiles have the exact order-statistic interval, with
an effective size where runs are clustered. `weighted_proportion` speaks of all runs from a sample
drawn with unequal chances (Hajek's estimator); it refuses a probability of 0. Two grades of the
same runs are crossed in a joint table: a trajectory scorer that never disagrees with the outcome is
no second grade. It is too loose when the upper limit of the disagreement rate is below 5 %, which
takes 59 runs without one.

pass^k and pass@k are unbiased from c successes in n >= k trials of each task; their averages have
Wilson's interval at the effective size. The cluster bootstrap, prescribed first, covers .40 at its
worst, because a sample without any such task resamples to nothing else (docs/design/intervals.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats import intervals
from stepscope.stats.intervals import count_limits, effective_size, share_limits, wilson
from stepscope.stats.sample import (
    Clusters,
    EstimateFrame,
    Floats,
    FrameOptions,
    Ints,
    LevelOptions,
    TargetOptions,
    as_column,
    cluster_index,
    explain_no_spread,
    find_absence,
    make_estimate,
    make_frame,
    make_value,
    nothing_measured,
    sum_by_cluster,
)
from stepscope.values import Estimate, Unmeasured

# An interval narrower than this share of its ends is rounding, not spread.
ROUNDING = 1e-12
# Why a value has no interval where no two values differ.
ALL_EQUAL = "all equal"


def mean(
    values: ArrayLike,
    clusters: Clusters = None,
    *,
    unit: str = "",
    **options: Unpack[TargetOptions],
) -> Estimate | Unmeasured:
    """Mean with Student's interval over clusters; on the log scale where no value is negative.

    Source: Cameron and Miller (2015), J. Human Resources 50:317-372: t with (clusters - 1).

    >>> found = mean([-1.0, 0.0, 1.0])
    >>> found.value, round(found.high, 3)
    (0.0, 2.484)
    """
    numbers = as_column(values, "values")
    frame = make_frame(TargetOptions, options, unit=unit)
    if (absent := find_absence(numbers, frame)) is not None:
        return absent
    return _mean(numbers, clusters, frame)


def rate(
    counts: ArrayLike,
    clusters: Clusters = None,
    *,
    unit: str = "calls",
    **options: Unpack[TargetOptions],
) -> Estimate | Unmeasured:
    """Events a run (redundant calls, violations), with an upper limit even when none was seen.

    Counts, 0 or more, are taken as Poisson ones or wider: no event in 200 runs of 50 tasks leaves
    up to .019 a run, and none in 20 runs of 5 tasks up to .37.

    Source: `intervals.count_limits`: Garwood's limits, widened by what tasks differ more than
    chance.

    >>> round(rate([0] * 50).high, 3)
    0.078
    """
    numbers = as_column(counts, "counts")
    frame = make_frame(TargetOptions, options, unit=unit)
    if (absent := find_absence(numbers, frame)) is not None:
        return absent
    if numbers.min() < 0:
        raise DataError(f"rate takes counts of 0 or more; found {numbers.min():g}")
    tasks = sum_by_cluster(numbers, clusters)
    frame = replace(frame, n_tasks=len(tasks.sums))
    if why := explain_no_spread(frame.n_tasks, len(numbers), frame):
        with np.errstate(all="ignore"):
            return make_value(float(numbers.mean()), why, n=len(numbers), frame=frame)
    if frame.target == "these cases":
        tasks = sum_by_cluster(numbers, None)
    with np.errstate(all="ignore"):
        found = count_limits(tasks.sums, tasks.sizes, frame.level)
    return make_estimate(found, method="gamma", n=len(numbers), frame=frame)


def _mean(numbers: Floats, clusters: Clusters, frame: EstimateFrame) -> Estimate | Unmeasured:
    """Student over clusters; the values are finite."""
    tasks, n = sum_by_cluster(numbers, clusters), len(numbers)
    frame = replace(frame, n_tasks=len(tasks.sums))
    why = explain_no_spread(len(tasks.sums), n, frame)
    if why or numbers.min() == numbers.max():
        with np.errstate(all="ignore"):
            return make_value(
                float(numbers[0] if not why else numbers.mean()), why or ALL_EQUAL, n=n, frame=frame
            )
    if frame.target == "these cases":
        tasks = sum_by_cluster(numbers, None)
    positive = bool(numbers.min() >= 0)
    with np.errstate(all="ignore"):
        value, low, high = intervals.mean_limits(
            tasks.sums, tasks.sizes, frame.level, positive=positive
        )
    if high - low <= ROUNDING * max(abs(low), abs(high)):
        return make_value(float(value), "all tasks have the same mean", n=n, frame=frame)
    method = "t log" if positive else "t"
    return make_estimate((value, low, high), method=method, n=n, frame=frame)


def proportion(
    successes: ArrayLike, clusters: Clusters = None, **options: Unpack[TargetOptions]
) -> Estimate | Unmeasured:
    """Share of successes with Wilson's interval, at the effective size where runs are clustered.

    Source: Wilson (1927), JASA 22:209-212; clustered as in `intervals.effective_size`.

    >>> rate = proportion([True] * 84 + [False] * 116)
    >>> round(rate.low, 3), round(rate.high, 3)
    (0.354, 0.489)
    """
    values = as_column(successes, "successes")
    frame = make_frame(TargetOptions, options, scale=(0.0, 1.0))
    if (absent := find_absence(values, frame)) is not None:
        return absent
    if not ((values == 0) | (values == 1)).all():
        raise DataError("proportion takes successes 0 or 1; for part shares in [0, 1] use share")
    ones = np.ones(len(values))
    return _share(values, ones, cluster_index(clusters, len(values)), frame, whole=True)


def mean_share(
    values: ArrayLike, clusters: Clusters = None, **options: Unpack[TargetOptions]
) -> Estimate | Unmeasured:
    """Mean of part shares (sub-goals reached) with Wilson's interval at the effective size.

    Source: as `proportion`; a yes or no has the largest variance of all values in [0, 1] with its
    mean.

    >>> mean_share([1.0, 0.5, 0.5, 0.0]).value
    0.5
    """
    numbers = as_column(values, "values")
    frame = make_frame(TargetOptions, options, scale=(0.0, 1.0))
    if (absent := find_absence(numbers, frame)) is not None:
        return absent
    if numbers.min() < 0 or numbers.max() > 1:
        raise DataError(f"share takes values in [0, 1]; found {numbers.min()!r}, {numbers.max()!r}")
    ones = np.ones(len(numbers))
    return _share(numbers, ones, cluster_index(clusters, len(numbers)), frame, whole=False)


def ratio(
    numerators: ArrayLike,
    denominators: ArrayLike,
    clusters: Clusters = None,
    **options: Unpack[TargetOptions],
) -> Estimate | Unmeasured:
    """Sum over sum, where each numerator counts some of its denominator (recovered errors).

    The share is of all counted units, n being their number. A run whose denominator is 0 drops out;
    `Unmeasured` when nothing was counted.

    Source: as `proportion`, the cluster of an error being its task.

    >>> ratio([1, 0, 2], [2, 1, 2]).value
    0.6
    """
    top, bottom = as_column(numerators, "numerators"), as_column(denominators, "denominators")
    if top.shape != bottom.shape:
        raise DataError(f"numerators have shape {top.shape}, denominators {bottom.shape}")
    frame = make_frame(TargetOptions, options, unit_of_n="errors", scale=(0.0, 1.0))
    dense = cluster_index(clusters, len(top))
    if (absent := find_absence(np.concatenate([top, bottom]), frame)) is not None:
        return absent
    if (top < 0).any() or (top > bottom).any():
        raise DataError("ratio takes numerators between 0 and their denominators")
    if not (bottom > 0).any():
        return nothing_measured(frame.unmeasured, frame.unit_of_n)
    counted = bottom > 0
    return _share(top[counted], bottom[counted], dense[counted], frame, whole=True)


def _share(
    top: Floats, bottom: Floats, clusters: Ints, frame: EstimateFrame, *, whole: bool
) -> Estimate | Unmeasured:
    """Sum over sum; `whole` says that numerators count whole units, each a yes or a no."""
    above, below = sum_by_cluster(top, clusters).sums, sum_by_cluster(bottom, clusters).sums
    units = float(below.sum())
    frame = replace(frame, n_tasks=len(below))
    alone = frame.target == "these cases" or len(below) == units
    why = explain_no_spread(len(below), len(top) if not (whole and alone) else 2, frame)
    if why:
        return make_value(float(above.sum()) / units, why, n=round(units), frame=frame)
    if whole and alone:
        mid = float(above.sum()) / units
        low, high = wilson(mid, units, frame.level)
        method = "wilson"
    else:
        sums, sizes = (top, bottom) if frame.target == "these cases" else (above, below)
        found, low, high = share_limits(sums, sizes, frame.level, most=units if whole else np.inf)
        mid, method = float(found), "wilson clustered"
    return make_estimate((mid, low, high), method=method, n=round(units), frame=frame)


# Half the pull that shares get (intervals.PRIOR_TASKS): order statistics are conservative already.
QUANTILE_PRIOR_TASKS = 0.05


def quantile(
    values: ArrayLike,
    q: float,
    clusters: Clusters = None,
    *,
    unit: str = "",
    **options: Unpack[TargetOptions],
) -> Estimate | Unmeasured:
    """Sample quantile (.5 the median, .95 p95) with an interval between two observed values.

    It is interpolated between the two nearest values. A limit that so few values cannot give is
    None, with a diagnostic (p95 has no upper limit below 72 independent values). `q` is strictly
    between 0 and 1.

    Source: David and Nagaraja (2003), Order Statistics, section 7.1; Woodruff (1952), JASA
    47:635-646, for the effective size at the quantile.

    >>> found = quantile(list(range(1, 101)), 0.5)
    >>> found.value, found.low, found.high
    (50.5, 40.0, 61.0)
    """
    numbers = as_column(values, "values")
    frame = make_frame(TargetOptions, options, unit=unit)
    if not 0 < q < 1:
        raise DataError(f"q is {q!r}; expected a share between 0 and 1, such as 0.95")
    if (absent := find_absence(numbers, frame)) is not None:
        return absent
    dense = cluster_index(clusters, len(numbers))
    frame = replace(frame, n_tasks=int(np.count_nonzero(np.bincount(dense))))
    ordered, n = np.sort(numbers), len(numbers)
    with np.errstate(all="ignore"):
        value = float(np.quantile(ordered, q))
    why = explain_no_spread(frame.n_tasks, n, frame)
    if why or ordered[0] == ordered[-1]:
        return make_value(value, why or ALL_EQUAL, n=n, frame=frame)
    size, method = float(n), "order statistics"
    if frame.target == "tasks like these" and frame.n_tasks < n:
        below = numbers <= ordered[nearest_rank(n, q) - 1]
        tasks = sum_by_cluster(below.astype(np.float64), dense)
        _, found = effective_size(tasks.sums, tasks.sizes, most=n, prior=QUANTILE_PRIOR_TASKS)
        size, method = float(found), "order statistics clustered"
    lower, upper = (int(x) for x in ranks(n, size, q, frame.level))
    if lower < 1 and upper > n:
        return make_value(value, f"too few {frame.unit_of_n}", n=n, frame=frame)
    low = float(ordered[lower - 1]) if lower >= 1 else None
    high = float(ordered[upper - 1]) if upper <= n else None
    open_ends = tuple(
        f"no {side} limit: too few {frame.unit_of_n}"
        for side, limit in (("lower", low), ("upper", high))
        if limit is None
    )
    frame = replace(frame, diagnostics=open_ends)
    return make_estimate((value, low, high), method=method, n=n, frame=frame)


def nearest_rank(n: int, q: float) -> int:
    """Rank from 1 of the smallest value with at least a share q of values at or below it."""
    return max(1, min(n, int(np.ceil(q * n - 1e-9))))


def ranks(n: int, size: ArrayLike, q: float, level: float) -> tuple[Ints, Ints]:
    """Ranks from 1 of the two order statistics that hold the q quantile between them.

    Exact for an effective `size`, shape (...,), equal to n: the values below the quantile number
    Binomial(n, q). Else the binomial of `size` values is stretched to n. The lower rank is 0, the
    upper n + 1, where there is no such value.

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


def weighted_proportion(
    successes: ArrayLike,
    probabilities: ArrayLike,
    clusters: Clusters = None,
    *,
    lost: ArrayLike = (),
    **options: Unpack[FrameOptions],
) -> Estimate | Unmeasured:
    """Share of successes among all runs that could have been drawn, each weighed by 1/p.

    Successes, 0 or 1, are of the runs drawn, `probabilities`, in (0, 1], those with which each was;
    `lost` the probabilities of drawn runs that should have an answer and have none: they make the
    worst case, weighed like the others. Wilson's interval at the effective size p(1-p)/v, v being
    the linearised variance of a ratio of weighted sums over clusters, and never above (sum
    w)^2/sum w^2.

    Source: Hajek (1971), in Foundations of Statistical Inference, 236; Sarndal, Swensson and
    Wretman (1992), Model Assisted Survey Sampling, section 5.7, with the variance between clusters
    as if drawn with replacement; Kish (1965) for the effective number; Korn and Graubard (1998) for
    Wilson at it.

    >>> found = weighted_proportion([1, 0, 0, 1], [0.1, 0.1, 1.0, 1.0])
    >>> found.value, found.n
    (0.5, 4)
    """
    values, drawn = as_column(successes, "successes"), as_column(probabilities, "probabilities")
    outside = as_column(lost, "lost")
    if values.shape != drawn.shape:
        raise DataError(f"successes have shape {values.shape}, probabilities {drawn.shape}")
    chances = np.concatenate([drawn, outside])
    if not ((chances > 0) & (chances <= 1)).all():
        raise DataError("weighted_proportion takes probabilities above 0 and up to 1")
    frame = make_frame(FrameOptions, options)
    if (absent := find_absence(values, frame)) is not None:
        return absent
    if not ((values == 0) | (values == 1)).all():
        raise DataError("weighted_proportion takes successes 0 or 1")
    weights, dense = 1 / drawn, cluster_index(clusters, len(values))
    above, below = (sum_by_cluster(x, dense).sums for x in (values * weights, weights))
    frame = replace(frame, n_tasks=len(below))
    if why := explain_no_spread(len(below), len(values), frame):
        return make_value(float(above.sum() / below.sum()), why, n=len(values), frame=frame)
    most = float(weights.sum() ** 2 / (weights**2).sum())
    limits = share_limits(above, below, frame.level, most=most)
    beyond = float((1 / outside).sum())
    part, whole = float(above.sum()), float(below.sum()) + beyond
    frame = replace(frame, bounds=(part / whole, (part + beyond) / whole))
    return make_estimate(limits, method="hajek, wilson", n=len(values), frame=frame)


# Disagreement below this share of runs is none worth a second grade.
MOST_DISAGREEMENT = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTable:
    """How outcome and trajectory grade of runs, both yes or no, disagree."""

    disagreement: Estimate | Unmeasured  # share of runs where the grades differ
    # one-sided upper limit of that share, at the effective number of runs: below
    # `MOST_DISAGREEMENT` the trajectory scorer is too loose to add anything
    limit: float | Unmeasured


def joint_table(
    outcome: ArrayLike,
    grade: ArrayLike,
    clusters: Clusters = None,
    *,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
) -> JointTable | Unmeasured:
    """Cross the outcome of runs with the grade of their trajectories, both 0 or 1.

    >>> joint_table([1, 1, 0, 0], [1, 0, 0, 0]).disagreement.value
    0.25
    """
    passed, good = np.asarray(outcome, np.float64), np.asarray(grade, np.float64)
    if passed.shape != good.shape or passed.ndim != 1:
        raise DataError(f"outcome has shape {passed.shape}, grade {good.shape}")
    if not np.isin(np.concatenate([passed, good]), (0.0, 1.0)).all():
        raise DataError("joint_table takes outcomes and grades 0 or 1")
    differ = passed != good
    disagreement = proportion(differ, clusters, level=level, unmeasured=unmeasured)
    if not len(passed):
        assert isinstance(disagreement, Unmeasured)
        return disagreement
    limit: float | Unmeasured
    if isinstance(disagreement, Unmeasured):
        limit = disagreement
    elif disagreement.no_interval:
        limit = Unmeasured("insufficient_data", disagreement.no_interval)
    else:
        limit = intervals.upper_limit(*effective_count(differ, clusters), level=level)
    return JointTable(disagreement=disagreement, limit=limit)


def effective_count(differ: ArrayLike, clusters: Clusters) -> tuple[float, float]:
    """Disagreements and runs at the effective size: n runs of G tasks without one count as G.

    There is one run or more, and two clusters or more unless runs are independent.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201.

    >>> effective_count([False] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    (0.0, 4.0)
    """
    values = np.asarray(differ, np.float64)
    tasks = sum_by_cluster(values, cluster_index(clusters, len(values)))
    if len(tasks.sums) == len(values):
        return float(values.sum()), float(len(values))
    value, size = effective_size(tasks.sums, tasks.sizes, most=len(values))
    return float(value * size), float(size)


def chance_all(successes: Floats, trials: Floats, k: int) -> Floats:
    """Share of the k-subsets of a task's trials that hold successes only: C(c, k) / C(n, k).

    Shapes are (...,); every task has at least k trials.

    >>> chance_all(np.array([3.0]), np.array([4.0]), 2).tolist()
    [0.5]
    """
    chance = np.ones_like(successes)
    for i in range(k):
        chance = chance * np.maximum(successes - i, 0.0) / (trials - i)
    return np.minimum(chance, 1.0)


def pass_hat_k(
    successes: ArrayLike, trials: ArrayLike, k: int, **options: Unpack[LevelOptions]
) -> Estimate | Unmeasured:
    """Chance that k trials of a task all succeed, averaged over tasks; `n` counts tasks.

    Successes and trials have shape (tasks,). Tasks with fewer than k trials, 1 or more, count as
    unmeasured ("insufficient_data"), and fewer than two others make the result so.

    Source: Yao et al. (2024), tau-bench, arXiv:2406.12045, section 5: C(c, k) / C(n, k).

    >>> pass_hat_k([4, 2, 0], [4, 4, 4], 2).value
    0.3888888888888889
    """
    return _mean_chance(successes, trials, k, turned=False, **options)


def pass_at_k(
    successes: ArrayLike, trials: ArrayLike, k: int, **options: Unpack[LevelOptions]
) -> Estimate | Unmeasured:
    """Chance that at least one of k trials of a task succeeds; all else as `pass_hat_k`.

    Source: Chen et al. (2021), Evaluating LLMs trained on code, arXiv:2107.03374, equation 1: 1 -
    C(n - c, k) / C(n, k).

    >>> round(pass_at_k([1, 1], [4, 4], 2).value, 3)
    0.5
    """
    failures = np.asarray(trials, dtype=np.float64) - np.asarray(successes, dtype=np.float64)
    return _mean_chance(failures, trials, k, turned=True, **options)


def _mean_chance(
    successes: ArrayLike,
    trials: ArrayLike,
    k: int,
    *,
    turned: bool,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
) -> Estimate | Unmeasured:
    """Mean over the tasks that have k trials of `chance_all`; `turned`, of what is left to 1."""
    passed, tried = as_column(successes, "successes"), as_column(trials, "trials")
    if passed.shape != tried.shape:
        raise DataError(f"successes have shape {passed.shape}, trials {tried.shape}")
    if k < 1:
        raise DataError(f"k is {k}; expected 1 or more trials")
    if not (np.isfinite(passed).all() and np.isfinite(tried).all()):
        return Unmeasured("missing_input", "successes or trials are not finite")
    if (passed < 0).any() or (passed > tried).any():
        raise DataError("successes must lie between 0 and the trials of their task")
    enough = tried >= k
    lost = dict(unmeasured or {})
    if not enough.all():
        lost["insufficient_data"] = lost.get("insufficient_data", 0) + int((~enough).sum())
    chances = chance_all(passed[enough], tried[enough], k)
    chances = 1 - chances if turned else chances
    return mean_share(chances, level=level, unmeasured=lost, unit_of_n="tasks")
