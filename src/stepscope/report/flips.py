"""Rank flips: groups that the outcome orders one way and the path the other.

Tasks count the same; only tasks that both groups ran, with both grades, count at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.report.joint import earned, outcomes
from stepscope.report.rows import Table
from stepscope.report.types import RankFlip
from stepscope.values import Unmeasured

# Pairs grow with the square; more groups than this are no ranking that anyone reads.
MOST_GROUPS = 20


def rank_flips(groups: Sequence[tuple[str, Table]], seed: int) -> tuple[RankFlip, ...] | Unmeasured:
    """Return the pairs of groups that outcome and path order differently.

    Unmeasured with one group, with too many, or when no two groups share graded tasks.
    """
    if not 1 < len(groups) <= MOST_GROUPS:
        return Unmeasured(
            "not_applicable", f"{len(groups)} groups; pairs of 2 to {MOST_GROUPS} are compared"
        )
    tasks, place = np.unique(
        np.concatenate([table.clusters for _, table in groups]), return_inverse=True
    )
    outcome = np.full((len(groups), len(tasks)), np.nan)
    grade = outcome.copy()
    start = 0
    for row, (_, table) in enumerate(groups):
        here = place[start : start + len(table)]
        start += len(table)
        known, passed = outcomes(table)
        graded, good = earned(table)
        both = known & graded
        outcome[row] = _means(passed[both], here[both], len(tasks))
        grade[row] = _means(good[both], here[both], len(tasks))
    rng = np.random.default_rng([seed, crc32(b"rank_flips")])
    found = stats.rank_flips([name for name, _ in groups], outcome, grade, rng=rng)
    measured = [flip for flip in found if not isinstance(flip, Unmeasured)]
    if not measured:
        return Unmeasured("insufficient_data", "no two groups share tasks with both grades")
    return tuple(
        RankFlip(
            first=flip.first,
            second=flip.second,
            outcome_difference=flip.outcome_difference,
            path_difference=flip.grade_difference,
            probability=flip.probability,
            n_tasks=flip.n_tasks,
        )
        for flip in measured
        if flip.flipped
    )


def _means(
    flags: npt.NDArray[np.bool_], place: npt.NDArray[np.int64], n_tasks: int
) -> npt.NDArray[np.float64]:
    """Return the mean of each task, NaN where it has no run."""
    counts = np.bincount(place, minlength=n_tasks)
    sums = np.bincount(place, weights=flags, minlength=n_tasks)
    means: npt.NDArray[np.float64] = np.full(n_tasks, np.nan)
    np.divide(sums, counts, out=means, where=counts > 0)
    return means
