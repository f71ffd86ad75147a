"""Two groups of runs compared: by case, without shared cases, and by ratio of medians.

The test and the interval are separate answers: the p value permutes labels and holds for these
cases; the interval speaks of tasks like these. Cases that one agent alone ran are left out of a
paired comparison and counted. Use `compare_paired` wherever the groups share cases: it is far
sharper than `compare_unpaired`. Also here: Holm's adjustment for many questions, alpha spending
over looks, and how many cases a difference needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, erfc, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.errors import DataError
from stepscope.stats import intervals, permutation, sample
from stepscope.stats.permutation import PairedTrials, Tail
from stepscope.stats.sample import ClusterSums, EstimateFrame, Floats, Ints
from stepscope.values import NO_INTERVAL, Estimate, Unmeasured


def holm(p: ArrayLike) -> Floats:
    """Adjust p values so that rejecting those at most alpha keeps family-wise error at alpha.

    Source: Holm (1979), Scandinavian J. Statistics 6:65-70.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise DataError("holm takes p values in [0, 1], in one dimension")
    order = np.argsort(values, kind="stable")
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0) if len(values) else steps
    return adjusted


def look_alpha(look: int, alpha: float = 0.05) -> float:
    """Return what look number `look` (from 1) may spend: alpha / (j (j + 1)), summing to alpha.

    Source: calibration, section 1; the sum of 1/(j(j+1)) telescopes to 1.

    >>> [round(look_alpha(j), 4) for j in (1, 2, 3)]
    [0.025, 0.0083, 0.0042]
    """
    if look < 1 or not 0 < alpha < 1:
        raise DataError(f"look_alpha takes look >= 1 and 0 < alpha < 1; got {look} and {alpha!r}")
    return alpha / (look * (look + 1))


# The usual chance of seeing a difference that is there.
POWER = 0.80


def runs_needed(difference: float, sd: float, *, level: float = 0.95, power: float = POWER) -> int:
    """Return the cases needed to see a true difference, not 0, of paired means.

    `sd` is the standard deviation of the per-case differences; `level` is 1 - alpha of the
    two-sided test, `power` the chance of seeing the difference.

    Source: ((z_alpha/2 + z_beta) * sd / difference)^2, e.g. Chow, Shao and Wang (2008), Sample Size
    Calculations in Clinical Research, section 3.1.

    >>> runs_needed(0.05, 0.5)
    785
    """
    if difference == 0:
        raise DataError("runs_needed: no number of cases shows a difference of 0")
    return max(2, ceil((_z_sum(level, power) * sd / difference) ** 2))


def detectable(cases: int, sd: float, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the smallest true difference of paired means that `cases` cases would show.

    Source: arguments and formula as of `runs_needed`, solved for the difference.

    >>> round(detectable(785, 0.5), 3)
    0.05
    """
    if cases < 1:
        raise DataError(f"detectable needs one or more cases, got {cases}")
    return _z_sum(level, power) * sd / sqrt(cases)


def runs_to_tell(
    value: float, threshold: float, *, alpha: float, power: float = POWER
) -> int | None:
    """Return the independent runs that tell a true share from a threshold, by a one-sided limit.

    None where the share is the threshold: no number of runs tells them apart. `alpha` is the chance
    that the limit lies on the wrong side of the truth, `power` that of telling them apart.

    Source: the one-sample test of a proportion, e.g. Fleiss, Levin and Paik (2003), Statistical
    Methods for Rates and Proportions, section 2.4.

    >>> runs_to_tell(0.05, 0.10, alpha=0.05)
    184
    """
    if not (0 <= value <= 1 and 0 < threshold < 1 and 0 < alpha < 1 and 0 < power < 1):
        raise DataError(f"runs_to_tell got share {value!r} and threshold {threshold!r}")
    if value == threshold:
        return None
    z_alpha, z_power = NormalDist().inv_cdf(1 - alpha), NormalDist().inv_cdf(power)
    spread = z_alpha * sqrt(threshold * (1 - threshold)) + z_power * sqrt(value * (1 - value))
    return max(1, ceil((spread / (threshold - value)) ** 2))


def power_apart(
    first: int, second: int, sd: float, difference: float, *, level: float = 0.95
) -> float:
    """Return the chance that the t interval of two sets of tasks excludes 0 on the right side.

    `sd` is the standard deviation of the tasks of both, `difference` the true one of their means.

    Source: the non-central t distribution; Cohen (1988), Statistical Power Analysis, chapter 2.

    >>> round(power_apart(160, 40, 0.15, 0.1), 2), round(power_apart(32, 8, 0.15, 0.1), 2)
    (0.96, 0.38)
    """
    from scipy.special import nctdtr

    if min(first, second) < 1 or first + second < 3 or sd <= 0:
        raise DataError(f"power_apart got {first} and {second} tasks of standard deviation {sd!r}")
    df = first + second - 2
    shift = abs(difference) / (sd * sqrt(1 / first + 1 / second))
    return 1.0 - float(nctdtr(df, shift, float(intervals.student_quantile(df, level))))


def drop_to_see(share: float, n: int, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the least drop from a share that a second sample of n would show; at most the share.

    Source: the two-sample test of proportions, e.g. Fleiss, Levin and Paik (2003), section 4.2.

    >>> round(drop_to_see(0.84, 200), 3)
    0.114
    """
    if not 0 <= share <= 1 or n < 1:
        raise DataError(f"drop_to_see takes a share and one or more labels; got {share!r}, {n}")
    drop = 0.0
    for _ in range(100):
        after = max(share - drop, 0.0)
        spread = share * (1 - share) + after * (1 - after)
        drop = min(_z_sum(level, power) * sqrt(spread / n), share)
    return drop


def _z_sum(level: float, power: float) -> float:
    """Z of the two-sided level plus z of the power."""
    if not (0 < level < 1 and 0 < power < 1):
        raise DataError(f"level {level!r} and power {power!r} must lie between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)


# The difference that "to see 5 points you need about N cases" speaks of, in shares.
FIVE_POINTS = 0.05
DRAWS = 9_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Second agent against first."""

    # mean of the second minus mean of the first; positive where the second is higher. Paired: each
    # case counts the same.
    effect: Estimate | Unmeasured
    # chance of a difference at least so large if the agent made none; two-sided unless one side was
    # asked about
    p: float
    method: str  # how p was found
    n: int  # cases compared (paired), or clusters of both fleets together
    only_first: int = 0  # cases that only the first agent ran; 0 when unpaired
    only_second: int = 0  # cases that only the second agent ran
    # smallest true difference these cases show with 80 % power; None when unknown
    detectable: float | None = None
    # cases needed to see five points with 80 % power; None when unknown, and for other units
    needed: int | None = None
    # standard deviation of the per-case differences, never taken as 0; None when unknown
    sd: float | None = None


def compare_paired(
    first: ArrayLike,
    first_cases: ArrayLike,
    second: ArrayLike,
    second_cases: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "share",
    draws: int = DRAWS,
    tail: Tail = "both",
    alpha: float = 1.0,
) -> Comparison | Unmeasured:
    """Compare two agents on the cases both ran, trial labels permuted within each case.

    Figures of the runs, all 0 or 1 for passes, and their cases, any hashable labels, have shapes
    (n,) and (m,). `draws` are taken where the null is not exact; `tail` may be one side that was
    named beforehand: the second agent lower, or higher. How far above `alpha` a p lies is not
    asked; few draws tell that it does. `Unmeasured` without a shared case; its effect is with one
    case, and for figures that are no shares when nothing varies.

    Source: `permutation.exact_p`, `permutation.shuffled_p` and `intervals.difference_limits`.

    >>> cases = range(20)
    >>> rng = np.random.default_rng(0)
    >>> compare_paired([0] * 20, cases, [1] * 9 + [0] * 11, cases, rng=rng).p
    0.00390625
    """
    a, b = sample.as_column(first, "first"), sample.as_column(second, "second")
    frame = EstimateFrame(level=level, unmeasured=unmeasured, unit=unit, unit_of_n="cases")
    if (absent := sample.find_absence(np.concatenate([a, b]), frame)) is not None:
        return absent
    labels = sample.case_labels("compare_paired", (a, b), (first_cases, second_cases))
    dense = sample.codes([*labels[0], *labels[1]])
    trials, only = permutation.pair_trials((a, b), (dense[: len(a)], dense[len(a) :]))
    if not len(trials.first):
        return Unmeasured("insufficient_data", "the two agents ran no case in common")
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    with np.errstate(all="ignore"):
        differences = trials.differences()
        if not np.isfinite(differences).all():
            return Unmeasured("undefined", "the values are too large for a difference")
        p, method = _paired_p(trials, rng=rng, draws=draws, tail=tail, alpha=alpha)
        n = len(differences)
        sd = _spread(differences, bounded=bounded)
        return Comparison(
            effect=_paired(differences, replace(frame, n_tasks=n), bounded=bounded),
            p=p,
            method=method,
            n=n,
            only_first=only[0],
            only_second=only[1],
            detectable=detectable(n, sd, level=level) if sd else None,
            needed=runs_needed(FIVE_POINTS, sd, level=level) if sd and unit == "share" else None,
            sd=sd,
        )


def _paired_p(
    trials: PairedTrials, *, rng: np.random.Generator, draws: int, tail: Tail, alpha: float
) -> tuple[float, str]:
    """Exact p for passes where the null is small enough, shuffled p otherwise."""
    if np.isin(trials.values, (0.0, 1.0)).all():
        first, second = trials.sums()
        columns = (first, trials.first, second, trials.second)
        counts = zip(*(column.astype(int).tolist() for column in columns), strict=True)
        p = permutation.exact_p(counts, tail=tail)
        if p is not None:
            return p, "permutation exact"
    return permutation.shuffled_p(trials, rng=rng, draws=draws, tail=tail, alpha=alpha)


def _paired(differences: Floats, frame: EstimateFrame, *, bounded: bool) -> Estimate | Unmeasured:
    """Interval of the mean difference over cases."""
    cases = len(differences)
    why = "one case in common" if cases < 2 else ""
    if not bounded and np.ptp(differences) <= 1e-12 * np.abs(differences).max():
        why = why or f"the difference is the same in all {cases} tasks"
    if why:
        return sample.make_value(float(differences.mean()), why, n=cases, frame=frame)
    found = intervals.difference_limits(differences, frame.level, bounded=bounded)
    method = "paired t, pseudo-cases" if bounded else "paired t"
    return sample.make_estimate(found, method=method, n=cases, frame=frame)


def _spread(differences: Floats, *, bounded: bool) -> float | None:
    """Standard deviation of the per-case differences, never taken as 0; None when unknown."""
    cases = len(differences)
    if bounded:
        return float(np.sqrt(((differences - differences.mean()) ** 2).sum() + 1) / np.sqrt(cases))
    if cases < 2:
        return None
    sd = float(differences.std(ddof=1))
    return sd if np.isfinite(sd) and sd > 0 else None


MEDIAN_DRAWS = 2_000
# Weights held at one time: 16 MB.
HELD = 2_000_000


def median_ratio(
    first: ArrayLike,
    first_cases: ArrayLike,
    second: ArrayLike,
    second_cases: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    draws: int = MEDIAN_DRAWS,
) -> Estimate | Unmeasured:
    """Median of the second group over median of the first, on the cases that both have.

    Figures, none negative, and cases are as those of `compare_paired`. `n` counts the cases shared;
    without limits below 20 of them. `Unmeasured` without a shared case, or where the first median
    is 0.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13, on clusters.

    >>> cases = [*range(30)]
    >>> found = median_ratio([10.0] * 30, cases, [12.0] * 30, cases, rng=np.random.default_rng(0))
    >>> found.value, found.low, found.high
    (1.2, 1.2, 1.2)
    """
    values = [sample.as_column(first, "first"), sample.as_column(second, "second")]
    frame = EstimateFrame(level=level, unmeasured=unmeasured, unit="ratio", unit_of_n="cases")
    if (absent := sample.find_absence(np.concatenate(values), frame)) is not None:
        return absent
    labels = sample.case_labels("median_ratio", values, (first_cases, second_cases))
    if min(side.min(initial=0.0) for side in values) < 0:
        raise DataError("median_ratio takes figures of 0 or more")
    shared = set(labels[0]) & set(labels[1])
    if not shared:
        return Unmeasured("insufficient_data", "the two groups ran no case in common")
    # Both groups' runs of the shared cases, with the cases numbered alike from 0.
    dense = sample.codes([case for side in labels for case in side if case in shared])
    of_first, of_second = (
        side[[case in shared for case in cases]] for side, cases in zip(values, labels, strict=True)
    )
    sides = [(of_first, dense[: len(of_first)]), (of_second, dense[len(of_first) :])]
    before, after = (float(np.median(side)) for side, _ in sides)
    if before == 0:
        return Unmeasured("undefined", "the median to compare with is 0")
    n = len(shared)
    frame = replace(frame, n_tasks=n)
    if n < sample.FEWEST_CLUSTERS:
        frame = replace(frame, diagnostics=(f"{NO_INTERVAL}below {sample.FEWEST_CLUSTERS} cases",))
        return sample.make_estimate(
            (after / before, None, None), method="ratio of medians", n=n, frame=frame
        )
    ratios = _resample_medians(sides, n, rng, draws)
    limits = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    low, high = (float(x) if np.isfinite(x) else None for x in limits)
    return sample.make_estimate((after / before, low, high), method="bootstrap", n=n, frame=frame)


def _resample_medians(
    sides: list[tuple[Floats, Ints]], n: int, rng: np.random.Generator, draws: int
) -> Floats:
    """Ratio of the medians in each resample of whole cases; infinite where the first is 0."""
    chunk = max(1, HELD // max(len(side) for side, _ in sides))
    ratios = np.empty(draws)
    for start in range(0, draws, chunk):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(chunk, draws - start))
        before, after = (_medians(side, cases, weights) for side, cases in sides)
        ratios[start : start + len(weights)] = np.divide(
            after, before, out=np.full(len(weights), np.inf), where=before > 0
        )
    return ratios


def _medians(values: Floats, cases: Ints, weights: NDArray[np.int64]) -> Floats:
    """Median of each resample, `weights` saying how often each case is in it."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, cases[order]], axis=1)
    half = reached[:, -1:] / 2
    lower = values[order][np.argmax(reached >= half, axis=1)]
    return np.asarray((lower + values[order][np.argmax(reached > half, axis=1)]) / 2)


def compare_unpaired(
    first: ArrayLike,
    first_tasks: ArrayLike,
    second: ArrayLike,
    second_tasks: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "share",
    draws: int = DRAWS,
) -> Comparison | Unmeasured:
    """Compare two fleets that ran different tasks, the second minus the first.

    A label that both fleets have is two tasks. Shares take values in [0, 1]. `Unmeasured` when a
    fleet has fewer than two tasks; the effect alone is when nothing varies.

    Source: Newcombe (1998), Statistics in Medicine 17:873-890, method 10, with the clustered limits
    of `proportion`; Welch (1947), Biometrika 34:28-35, for other figures; p by permuting whole
    tasks between fleets (Phipson and Smyth 2010).

    >>> found = compare_unpaired([0, 1] * 9, range(18), [1] * 9, range(9),
    ...     rng=np.random.default_rng(0))
    >>> found.effect.value
    0.5
    """
    a, b = sample.as_column(first, "first"), sample.as_column(second, "second")
    frame = EstimateFrame(level=level, unmeasured=unmeasured, unit=unit)
    if (absent := sample.find_absence(np.concatenate([a, b]), frame)) is not None:
        return absent
    fleets = (
        sample.sum_by_cluster(a, np.asarray(first_tasks)),
        sample.sum_by_cluster(b, np.asarray(second_tasks)),
    )
    if why := sample.explain_no_spread(min(len(fleet.sums) for fleet in fleets), 2, frame):
        return Unmeasured("insufficient_data", f"{why} in a group: nothing is known of the spread")
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    n_tasks = sum(len(fleet.sums) for fleet in fleets)
    with np.errstate(all="ignore"):
        limits = intervals.newcombe_limits if bounded else intervals.welch_limits
        value, low, high = (float(x) for x in limits(*fleets, level))
        p, method = _unpaired_p(*fleets, rng=rng, draws=draws)
    shift: Estimate | Unmeasured
    if low == high:
        why = "no value differs from another within a group"
        shift = sample.make_value(value, why, n=len(a) + len(b), frame=frame)
    else:
        how = "newcombe clustered" if bounded else "welch clustered"
        frame = replace(frame, n_tasks=n_tasks)
        shift = sample.make_estimate((value, low, high), method=how, n=len(a) + len(b), frame=frame)
    return Comparison(effect=shift, p=p, method=method, n=n_tasks)


def compare_parts(
    first: ArrayLike,
    second: ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "score",
    draws: int = DRAWS,
) -> Comparison | Unmeasured:
    """Compare two parts of one set of tasks, drawn apart at random: the second less the first.

    One score a task; without a difference both vary alike. `Unmeasured` when a part has no task, or
    both together fewer than three.

    Source: Student's two-sample t; Snedecor and Cochran (1989), Statistical Methods, chapter 6; p
    by drawing the parts again, which is exact for any scores.

    >>> found = compare_parts([0.2, 0.4, 0.6, 0.8], [0.9, 1.0], rng=np.random.default_rng(0))
    >>> round(found.effect.value, 3), round(found.sd, 3)
    (0.45, 0.226)
    """
    a, b = sample.as_column(first, "first"), sample.as_column(second, "second")
    frame = EstimateFrame(level=level, unmeasured=unmeasured, unit=unit, unit_of_n="tasks")
    if (absent := sample.find_absence(np.concatenate([a, b]), frame)) is not None:
        return absent
    n = len(a) + len(b)
    if not min(len(a), len(b)) or n < 3:
        return Unmeasured("insufficient_data", f"{len(a)} and {len(b)} tasks: too few to compare")
    frame = replace(frame, n_tasks=n)
    value, sd = float(b.mean() - a.mean()), float(intervals.pooled_sd(a, b))
    if sd <= 1e-12 * float(np.abs(np.concatenate([a, b])).max()):
        why = "no task differs from another of its part"
        effect = sample.make_value(value, why, n=n, frame=frame)
        return Comparison(effect=effect, p=1.0, method="none", n=n)
    half = sd * sqrt(1 / len(a) + 1 / len(b)) * float(intervals.student_quantile(n - 2, level))
    limits = value, value - half, value + half
    effect = sample.make_estimate(limits, method="student", n=n, frame=frame)
    fleets = sample.sum_by_cluster(a, None), sample.sum_by_cluster(b, None)
    p, method = _unpaired_p(*fleets, rng=rng, draws=draws)
    return Comparison(effect=effect, p=p, method=method, n=n, sd=sd)


def _unpaired_p(
    first: ClusterSums, second: ClusterSums, *, rng: np.random.Generator, draws: int
) -> tuple[float, str]:
    """Two-sided p of the difference, whole tasks assigned to the fleets at random."""
    sums = np.concatenate([first.sums, second.sums])
    sizes = np.concatenate([first.sizes, second.sizes])
    seen = abs(float(second.sums.sum() / second.sizes.sum() - first.sums.sum() / first.sizes.sum()))
    if len(sums) * draws > permutation.WORK:
        spread = sum(float(intervals.cluster_variance(x.sums, x.sizes)[1]) for x in (first, second))
        p = erfc(seen / sqrt(2 * spread)) if spread > 0 else 1.0
        return max(p, permutation.SMALLEST), "normal clustered"
    taken = len(first.sums)
    hits, done, chunk = 0, 0, max(1, permutation.HELD // len(sums))
    while done < draws:
        keys = rng.random((min(chunk, draws - done), len(sums)))
        chosen = np.argpartition(keys, taken - 1, axis=1)[:, :taken]
        # How many assignments differ by at least what was seen.
        top, bottom = sums[chosen].sum(axis=1), sizes[chosen].sum(axis=1)
        difference = (sums.sum() - top) / (sizes.sum() - bottom) - top / bottom
        hits += int((np.abs(difference) >= seen * (1 - permutation.TIE)).sum())
        done += len(keys)
    return (1 + hits) / (1 + draws), "permutation drawn"
