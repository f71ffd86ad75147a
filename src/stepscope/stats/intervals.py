"""Interval formulas for shares, means, counts and differences, on arrays of any batch shape.

No Estimate, and no input checks but those of `upper_limit`. The last axis is the clusters (or
cases) of one sample; leading axes are independent samples, so that the coverage bar runs these very
lines on 4,000 samples at once. docs/design/intervals.md says which formulas failed first. scipy is
imported by the first function that needs it.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats.sample import ClusterSums, Floats

# How many tasks' worth of evidence the belief "trials of one task repeat each other" counts for,
# where passes or failures are rare and the clustered variance is itself a guess.
PRIOR_TASKS = 0.5
# A variance below this share of p(1 - p) is rounding, not spread.
ROUNDING = 1e-20


def normal_quantile(level: float) -> float:
    """Return z of a two-sided interval: 1.96 for .95."""
    if not 0 < level < 1:
        raise DataError(f"level is {level!r}; expected a share between 0 and 1, such as 0.95")
    return NormalDist().inv_cdf((1 + level) / 2)


def student_quantile(df: ArrayLike, level: float) -> Floats:
    """Return t of a two-sided interval at `df` degrees of freedom (at least one is taken).

    >>> round(float(student_quantile(9, 0.95)), 3)
    2.262
    """
    from scipy.special import stdtrit  # lazy: .25 s of import

    if not 0 < level < 1:
        raise DataError(f"level is {level!r}; expected a share between 0 and 1, such as 0.95")
    return np.asarray(stdtrit(np.maximum(df, 1.0), (1 + level) / 2))


def wilson(value: ArrayLike, n: ArrayLike, level: float) -> tuple[Floats, Floats]:
    """Score interval of a proportion `value` seen in `n` units (n may be an effective size).

    Source: Wilson (1927), Probable inference, JASA 22:209-212.

    >>> [round(float(x), 4) for x in wilson(0.42, 200, 0.95)]
    [0.3537, 0.4893]
    """
    p, size, z = np.asarray(value, np.float64), np.asarray(n, np.float64), normal_quantile(level)
    centre = (p + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * np.sqrt(p * (1 - p) / size + (z / (2 * size)) ** 2)
    low = np.where(p <= 0, 0.0, np.maximum(centre - half, 0.0))
    return low, np.where(p >= 1, 1.0, np.minimum(centre + half, 1.0))


def cluster_variance(sums: Floats, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """Value, variance of the value and effective number of clusters of a ratio of sums.

    Sums and sizes, these positive, have shape (..., G), G at least 2. The variance is G/(G-1) *
    sum(r^2)/n^2 over the residuals r = sum - value*size, each divided by (1 - size/n) * G/(G-1):
    with clusters of one size that factor is 1, with uneven ones it is the jackknife, which the
    large clusters need. The effective number is n^2 / sum(size^2): G for clusters of one size.

    Source: Cameron and Miller (2015), J. Human Resources 50:317-372, section VI (CR1 and CR3); Kish
    (1965), Survey Sampling, for the effective number.
    """
    clusters = sums.shape[-1]
    n = sizes.sum(-1)
    value = sums.sum(-1) / n
    residuals = (sums - value[..., None] * sizes) / n[..., None]
    residuals = residuals / (1 - sizes / n[..., None])
    return value, (clusters - 1) / clusters * (residuals**2).sum(-1), n**2 / (sizes**2).sum(-1)


def effective_size(
    sums: Floats, sizes: Floats, *, most: ArrayLike, prior: float = PRIOR_TASKS
) -> tuple[Floats, Floats]:
    """Share and effective sample size p(1-p)/v, clipped to [1, most]; v = 0 gives the clusters.

    Where few tasks differ from the rest, v is itself a guess, mostly too low: 1/size is then drawn
    towards 1/clusters (every trial of a task alike) with the weight of `prior` tasks. `most` is the
    number of runs where each is a yes or no, infinity for part shares; arrays as
    `cluster_variance`.

    Source: spec: Wilson at n_eff (Korn and Graubard 1998, Survey Methodology 24:193-201); the
    drawing is ours, see docs/design/intervals.md.
    """
    value, variance, clusters = cluster_variance(sums, sizes)
    spread = value * (1 - value)
    measured = variance > ROUNDING * spread
    per_run = np.divide(variance, spread, out=np.zeros_like(value), where=measured & (spread > 0))
    shares = sums / sizes
    rare = np.maximum(np.minimum(shares.sum(-1), (1 - shares).sum(-1)), 0.0)
    weight = rare / (rare + prior)
    drawn = weight * per_run + (1 - weight) * np.maximum(per_run, 1 / clusters)
    size = np.where(measured & (spread > 0), 1 / np.where(drawn > 0, drawn, 1.0), clusters)
    return value, np.clip(size, 1.0, np.minimum(most, 1 / ROUNDING))


def share_limits(
    sums: Floats, sizes: Floats, level: float, *, most: ArrayLike
) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of a clustered share: Wilson at the effective size.

    Where clusters are of uneven size the effective size shrinks by (z/t)^2, t having (E - 1)/(1 -
    E/G) degrees of freedom for E effective of G clusters: none of it is felt when all are of one
    size.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201, for (z/t)^2; its degrees of
    freedom are ours, chosen by simulation (docs/design/intervals.md).
    """
    value, size = effective_size(sums, sizes, most=most)
    if (sizes != sizes[..., :1]).any():
        evenness = sizes.sum(-1) ** 2 / (sizes**2).sum(-1) / sizes.shape[-1]
        df = (evenness * sizes.shape[-1] - 1) / np.maximum(1 - evenness, 1e-6)
        size = np.maximum(size * (normal_quantile(level) / student_quantile(df, level)) ** 2, 1.0)
    value = np.clip(value, 0.0, 1.0)
    low, high = wilson(value, size, level)
    return value, low, high


def mean_limits(
    sums: Floats, sizes: Floats, level: float, *, positive: bool
) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of a clustered mean: t with (effective clusters - 1) degrees of freedom.

    With `positive` the same t is taken on the log scale, value * exp(+-t*se/value): counts, tokens
    and costs are skewed, and the plain t covers as little as 79 % there.

    Source: Cameron and Miller (2015), J. Human Resources 50:317-372, for t with G - 1; the delta
    method for the log.
    """
    value, variance, clusters = cluster_variance(sums, sizes)
    half = student_quantile(clusters - 1, level) * np.sqrt(variance)
    if not positive:
        return value, value - half, value + half
    factor = np.exp(np.divide(half, value, out=np.zeros_like(value), where=value > 0))
    return value, value / factor, value * factor


def poisson_limits(
    events: ArrayLike, exposure: ArrayLike, level: float, *, spread: ArrayLike = 1.0
) -> tuple[Floats, Floats]:
    """Interval of events per unit of exposure, whose variance is `spread` times a Poisson count's.

    Source: Garwood (1936), Biometrika 28:437-442, exact at a spread of 1; McCullagh and Nelder
    (1989), Generalized Linear Models, section 6.2, for the spread.

    >>> [round(float(x), 3) for x in poisson_limits(0, 1, 0.95)]
    [0.0, 3.689]
    """
    from scipy.special import gammaincinv  # lazy: .25 s of import

    tail, each = (1 - level) / 2, np.asarray(spread, np.float64)
    unit = each / np.asarray(exposure, np.float64)
    worth = np.asarray(events, np.float64) / each
    low = np.where(worth > 0, gammaincinv(np.where(worth > 0, worth, 1.0), tail), 0.0)
    return np.asarray(low * unit), np.asarray(gammaincinv(worth + 1, 1 - tail) * unit)


def count_limits(sums: Floats, sizes: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of events a run; `sums` has shape (..., G), so have the runs, `sizes`.

    The spread is the clustered variance of all events over their number, never below that of a
    Poisson count, times (t/z)^2 for the few clusters that tell it. Without an event it is 1.

    Source: as `poisson_limits`; docs/design/intervals.md for the choice.
    """
    value, variance, clusters = cluster_variance(sums, sizes)
    events, runs = sums.sum(-1), sizes.sum(-1)
    spread = np.divide(variance * runs**2, events, out=np.zeros_like(value), where=events > 0)
    doubt = (student_quantile(clusters - 1, level) / normal_quantile(level)) ** 2
    return value, *poisson_limits(events, runs, level, spread=np.maximum(spread, 1.0) * doubt)


def upper_limit(events: float, n: float, level: float = 0.95) -> float:
    """Return the exact one-sided upper limit of a share of which `events` of `n` were seen.

    Where units are clustered, `n` is their effective number.

    Source: Clopper and Pearson (1934), Biometrika 26:404-413: 1 - .05^(1/n) where there is none.

    >>> round(upper_limit(0, 60), 4), round(upper_limit(3, 60), 4), upper_limit(4, 4)
    (0.0487, 0.1242, 1.0)
    """
    from scipy.special import betaincinv  # lazy: .25 s of import

    if not (np.isfinite(n) and 0 <= events <= n and n > 0 and 0 < level < 1):
        raise DataError(f"{events!r} of {n!r} at {level!r}; expected 0 to n events of some units")
    return 1.0 if events >= n else float(betaincinv(events + 1, n - events, level))


def difference_limits(
    differences: Floats, level: float, *, bounded: bool
) -> tuple[Floats, Floats, Floats]:
    """Value, low and high of the mean of per-case differences, shape (..., cases).

    With `bounded` (differences of shares, in [-1, 1]) pseudo-cases are added, half of them +1 and
    half -1: two of them when no case differs, 2/(1 + d) when d cases do. That is Bonett and Price's
    interval where little was seen, and Student's where much was; it need not lie evenly around the
    plain mean. There are two cases or more.

    Source: Bonett and Price (2012), J. Educational and Behavioral Statistics 37:479-488; the fading
    of the pseudo-cases and the degrees of freedom are ours, chosen by simulation
    (docs/design/intervals.md).
    """
    cases = differences.shape[-1]
    value = differences.mean(-1)
    if not bounded:
        half = student_quantile(cases - 1, level) * differences.std(-1, ddof=1) / np.sqrt(cases)
        return value, value - half, value + half
    pseudo = 2 / (1 + np.count_nonzero(differences, axis=-1))
    size = cases + pseudo
    centre = differences.sum(-1) / size
    variance = ((differences**2).sum(-1) + pseudo) / size - centre**2
    half = student_quantile(2 * (cases - 1), level) * np.sqrt(variance / size)
    return value, np.maximum(centre - half, -1.0), np.minimum(centre + half, 1.0)


def newcombe_limits(
    first: ClusterSums, second: ClusterSums, level: float
) -> tuple[Floats, Floats, Floats]:
    """Second share minus first, from the clustered limits of each.

    Source: Newcombe (1998), Statistics in Medicine 17:873-890, method 10.
    """
    a, a_low, a_high = share_limits(first.sums, first.sizes, level, most=first.sizes.sum(-1))
    b, b_low, b_high = share_limits(second.sums, second.sizes, level, most=second.sizes.sum(-1))
    return b - a, b - a - np.hypot(b - b_low, a_high - a), b - a + np.hypot(b_high - b, a - a_low)


def welch_limits(
    first: ClusterSums, second: ClusterSums, level: float
) -> tuple[Floats, Floats, Floats]:
    """Second mean minus first, with Welch's degrees of freedom over clusters.

    Source: Welch (1947), Biometrika 34:28-35, with the clustered variance of each mean.
    """
    a, a_variance, a_clusters = cluster_variance(first.sums, first.sizes)
    b, b_variance, b_clusters = cluster_variance(second.sums, second.sizes)
    variance = a_variance + b_variance
    some = np.where(variance > 0, variance, 1.0)
    doubt = (a_variance / some) ** 2 / np.maximum(a_clusters - 1, 1.0)
    doubt = doubt + (b_variance / some) ** 2 / np.maximum(b_clusters - 1, 1.0)
    half = student_quantile(1 / np.where(doubt > 0, doubt, 1.0), level) * np.sqrt(variance)
    return b - a, b - a - half, b - a + half


def pooled_sd(first: Floats, second: Floats) -> Floats:
    """Return the standard deviation within two samples, shapes (..., n) and (..., m), n + m > 2.

    Source: Student (1908), the pooled variance.

    >>> round(float(pooled_sd(np.array([1.0, 3.0]), np.array([2.0, 4.0]))), 3)
    1.414
    """
    squares = [((x - x.mean(-1, keepdims=True)) ** 2).sum(-1) for x in (first, second)]
    return np.asarray(np.sqrt(sum(squares) / (first.shape[-1] + second.shape[-1] - 2)))
