"""Two fleets on different cases: clustered intervals, and tasks handed to fleets at random.

Use `compare_paired` wherever the fleets share cases: it is far sharper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import erfc, sqrt

import numpy as np
import numpy.typing as npt

from stepscope.stats.clusters import Clusters, Floats, by_cluster
from stepscope.stats.comparison import DRAWS, Comparison
from stepscope.stats.differences import newcombe_limits, welch_limits
from stepscope.stats.intervals import cluster_variance
from stepscope.stats.sample import Frame, check, column, conclude, too_few
from stepscope.stats.shuffling import HELD, SMALLEST, TIE, WORK
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
    absent = too_few(min(len(fleet.sums) for fleet in fleets), 2, frame)
    if absent is not None:
        return absent
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    n_tasks = sum(len(fleet.sums) for fleet in fleets)
    with np.errstate(all="ignore"):
        effect = _effect(*fleets, replace(frame, n_tasks=n_tasks), len(a) + len(b), bounded=bounded)
        p, method = _p(*fleets, rng=rng, draws=draws)
    return Comparison(effect=effect, p=p, method=method, n=n_tasks)


def _effect(
    first: Clusters, second: Clusters, frame: Frame, n: int, *, bounded: bool
) -> Estimate | Unmeasured:
    """Interval of the difference of the two means."""
    limits = newcombe_limits if bounded else welch_limits
    value, low, high = (float(x) for x in limits(first, second, frame.level))
    if low == high:
        return Unmeasured("undefined", "no value differs from another within a fleet: no spread")
    method = "newcombe clustered" if bounded else "welch clustered"
    return conclude((value, low, high), method=method, n=n, frame=frame)


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
        return max(p, SMALLEST), "normal clustered"
    taken = len(first.sums)
    hits, done, chunk = 0, 0, max(1, HELD // len(sums))
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
