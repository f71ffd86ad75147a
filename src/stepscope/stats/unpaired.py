"""Two fleets on different cases: clustered intervals, and tasks handed to fleets at random.

Use `compare_paired` wherever the fleets share cases: it is far sharper.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from stepscope.stats.clusters import Clusters, Floats, by_cluster
from stepscope.stats.comparison import DRAWS, Comparison
from stepscope.stats.intervals import cluster_variance, share_limits, student_quantile
from stepscope.stats.permutation import TIE, WORK
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.values import Estimate, Unmeasured


def compare_unpaired(
    first: npt.ArrayLike,
    first_tasks: npt.ArrayLike,
    second: npt.ArrayLike,
    second_tasks: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "share",
    draws: int = DRAWS,
) -> Comparison | Unmeasured:
    """Compare two fleets that ran different tasks.

    Args:
        first: shape (n,), a figure of each run of the first fleet.
        first_tasks: shape (n,), the task of each run.
        second: shape (m,), the same figure of the second fleet.
        second_tasks: shape (m,), its tasks; a label that the first fleet has too is another task.
        rng: draws the assignments of tasks to fleets.
        level: coverage of the effect's interval, a share.
        unmeasured: runs of both without a value, by kind.
        unit: unit of the values; shares take values in [0, 1].
        draws: assignments drawn.

    Returns:
        The comparison, its effect second minus first. `Unmeasured` when a fleet has fewer than two
        tasks or a value is not finite. The effect alone is `Unmeasured` when nothing varies.

    Raises:
        DataError: values and tasks differ in shape.

    Source:
        Newcombe (1998), Statistics in Medicine 17:873-890, method 10, with the clustered limits of
        `proportion`; Welch (1947), Biometrika 34:28-35, for other figures; p by permuting whole
        tasks between fleets (Phipson and Smyth 2010).

    >>> found = compare_unpaired([0, 1] * 9, range(18), [1] * 9, range(9),
    ...     rng=np.random.default_rng(0))
    >>> found.effect.value
    0.5
    """
    a, b = column(first, "first"), column(second, "second")
    frame = Frame(level=level, unmeasured=unmeasured, unit=unit)
    absent = check(np.concatenate([a, b]), frame)
    if absent is not None:
        return absent
    fleets = by_cluster(a, np.asarray(first_tasks)), by_cluster(b, np.asarray(second_tasks))
    fewest = min(len(fleet.sums) for fleet in fleets)
    absent = too_few(fewest, 2, frame)
    if absent is not None:
        return absent
    n_tasks = sum(len(fleet.sums) for fleet in fleets)
    frame = Frame(level=level, unmeasured=unmeasured, unit=unit, n_tasks=n_tasks)
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    with np.errstate(all="ignore"):
        limits = _newcombe(*fleets, level) if bounded else _welch(*fleets, level)
        p, method = _p(*fleets, rng=rng, draws=draws)
    effect: Estimate | Unmeasured
    if not bounded and limits[1] == limits[2]:
        effect = Unmeasured("undefined", "no value differs from another within a fleet: no spread")
    else:
        name = "newcombe clustered" if bounded else "welch clustered"
        effect = conclude(limits, method=name, n=len(a) + len(b), frame=frame)
    if not np.isfinite(limits[0]):
        return Unmeasured("undefined", "the values are too large for a difference")
    return Comparison(effect=effect, p=p, method=method, n=n_tasks)


def _newcombe(first: Clusters, second: Clusters, level: float) -> tuple[float, float, float]:
    """Difference of two clustered shares from the limits of each."""
    a, a_low, a_high = (
        float(x) for x in share_limits(first.sums, first.sizes, level, most=first.sizes.sum())
    )
    b, b_low, b_high = (
        float(x) for x in share_limits(second.sums, second.sizes, level, most=second.sizes.sum())
    )
    low = b - a - sqrt((b - b_low) ** 2 + (a_high - a) ** 2)
    return b - a, low, b - a + sqrt((b_high - b) ** 2 + (a - a_low) ** 2)


def _welch(first: Clusters, second: Clusters, level: float) -> tuple[float, float, float]:
    """Difference of two clustered means with Welch's degrees of freedom over clusters."""
    a, a_variance, a_clusters = (float(x) for x in cluster_variance(first.sums, first.sizes))
    b, b_variance, b_clusters = (float(x) for x in cluster_variance(second.sums, second.sizes))
    variance = a_variance + b_variance
    if not variance > 0:
        return b - a, b - a, b - a
    shares = (a_variance / variance) ** 2 / max(a_clusters - 1, 1)
    shares += (b_variance / variance) ** 2 / max(b_clusters - 1, 1)
    half = float(student_quantile(1 / shares, level)) * sqrt(variance)
    return b - a, b - a - half, b - a + half


def _p(
    first: Clusters, second: Clusters, *, rng: np.random.Generator, draws: int
) -> tuple[float, str]:
    """Two-sided p of the difference, whole tasks handed to the fleets at random."""
    sums = np.concatenate([first.sums, second.sums])
    sizes = np.concatenate([first.sizes, second.sizes])
    seen = abs(float(second.sums.sum() / second.sizes.sum() - first.sums.sum() / first.sizes.sum()))
    if len(sums) * draws > WORK:
        variance = sum(float(cluster_variance(x.sums, x.sizes)[1]) for x in (first, second))
        p = erfc(seen / sqrt(2 * variance)) if variance > 0 else 1.0
        return max(p, float(np.finfo(np.float64).eps)), "normal clustered"
    taken = len(first.sums)
    hits, done, chunk = 0, 0, max(1, 2_000_000 // len(sums))  # 16 MB of keys at a time
    while done < draws:
        keys = rng.random((min(chunk, draws - done), len(sums)))
        chosen = np.argpartition(keys, taken - 1, axis=1)[:, :taken]
        hits += _at_least(seen, sums, sizes, chosen)
        done += len(keys)
    return (1 + hits) / (1 + draws), "permutation drawn"


def _at_least(seen: float, sums: Floats, sizes: Floats, chosen: npt.NDArray[np.int64]) -> int:
    """How many assignments differ by at least what was seen."""
    top, bottom = sums[chosen].sum(axis=1), sizes[chosen].sum(axis=1)
    difference = (sums.sum() - top) / (sizes.sum() - bottom) - top / bottom
    return int((np.abs(difference) >= seen * (1 - TIE)).sum())
