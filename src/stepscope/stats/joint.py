"""Outcome against trajectory: two grades of the same runs, and whether the second adds anything.

A trajectory scorer that never disagrees with the outcome is not a second grade: when the upper
limit of the disagreement rate is below 5 % it is too loose, which takes 59 runs without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import by_cluster, index
from stepscope.stats.intervals import effective_size
from stepscope.stats.proportions import proportion
from stepscope.values import Estimate, Unmeasured

# Disagreement below this share of runs is none worth a second grade.
TOO_LOOSE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLoose:
    """Whether the scorer is shown to agree with the outcome nearly always.

    Attributes:
        loose: the upper limit is below the bound.
        upper: one-sided upper limit of the disagreement rate.
        needed: runs without a disagreement that would show it.
    """

    loose: bool
    upper: float
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JointTable:
    """Runs by outcome and trajectory grade, both yes or no.

    Attributes:
        pass_good: runs that passed with a good trajectory.
        pass_bad: positions of runs that passed with a bad one: right for the wrong reason?
        fail_good: positions of runs that failed with a good one: wrong for a right reason?
        fail_bad: runs that failed with a bad one.
        disagreement: share of runs where the grades differ.
        too_loose: verdict on the trajectory scorer, at the effective number of runs.
    """

    pass_good: int
    pass_bad: tuple[int, ...]
    fail_good: tuple[int, ...]
    fail_bad: int
    disagreement: Estimate | Unmeasured
    too_loose: TooLoose | Unmeasured


def joint_table(
    outcome: npt.ArrayLike,
    grade: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
) -> JointTable | Unmeasured:
    """Cross the outcome of runs with their trajectory grade.

    Args:
        outcome: shape (n,), whether each run passed.
        grade: shape (n,), whether its trajectory is good, of the same runs.
        clusters: shape (n,), the task of each run; None when runs are independent.
        level: coverage of the disagreement's interval and of the too-loose limit.
        unmeasured: runs that lack either grade, by kind.

    Returns:
        The table; `Unmeasured` when there is no run with both grades.

    Raises:
        DataError: shapes differ, or a value is neither 0 nor 1.

    >>> table = joint_table([1, 1, 0], [1, 0, 0])
    >>> table.pass_good, table.pass_bad, table.fail_good, table.fail_bad
    (1, (1,), (), 1)
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
    verdict: TooLoose | Unmeasured
    if isinstance(disagreement, Unmeasured):
        verdict = disagreement
    else:
        verdict = too_loose(*effective_count(differ, clusters), level=level)
    return JointTable(
        pass_good=int(((passed == 1) & (good == 1)).sum()),
        pass_bad=tuple(np.flatnonzero((passed == 1) & (good == 0)).tolist()),
        fail_good=tuple(np.flatnonzero((passed == 0) & (good == 1)).tolist()),
        fail_bad=int(((passed == 0) & (good == 0)).sum()),
        disagreement=disagreement,
        too_loose=verdict,
    )


def effective_count(differ: npt.ArrayLike, clusters: npt.ArrayLike | None) -> tuple[float, float]:
    """Disagreements and runs at the effective size: n runs of G tasks without one count as G.

    Args:
        differ: shape (n,), True or False, at least one.
        clusters: shape (n,), the task of each run, at least two tasks; None when independent.

    Source:
        Korn and Graubard (1998), Survey Methodology 24:193-201.

    >>> effective_count([False] * 8, [0, 0, 1, 1, 2, 2, 3, 3])
    (0.0, 4.0)
    """
    values = np.asarray(differ, np.float64)
    tasks = by_cluster(values, index(clusters, len(values)))
    if len(tasks.sums) == len(values):
        return float(values.sum()), float(len(values))
    value, size = effective_size(tasks.sums, tasks.sizes, most=len(values))
    return float(value * size), float(size)


def too_loose(
    disagreements: float, n: float, *, bound: float = TOO_LOOSE, level: float = 0.95
) -> TooLoose | Unmeasured:
    """Say whether the disagreement rate is shown to lie below the bound, one-sided and exact.

    Args:
        disagreements: runs where outcome and trajectory grade differ.
        n: runs with both grades; an effective number where trials of a task are clustered.
        bound: the rate below which the scorer adds nothing.
        level: one-sided confidence.

    Returns:
        The verdict; `Unmeasured` without runs.

    Raises:
        DataError: not 0 <= disagreements <= n, or a share outside (0, 1).

    Source:
        Clopper and Pearson (1934), Biometrika 26:404-413, upper limit alone: 1 - .05^(1/n) when
        there is none.

    >>> too_loose(0, 59).loose, too_loose(0, 58).loose
    (True, False)
    """
    from scipy.special import betaincinv  # lazy: .25 s of import

    if not (0 < bound < 1 and 0 < level < 1):
        raise DataError(f"bound {bound!r} and level {level!r} must lie between 0 and 1")
    if not (np.isfinite(n) and 0 <= disagreements <= n):
        raise DataError(f"too_loose got {disagreements!r} disagreements of {n!r} runs")
    if n == 0:
        return Unmeasured("insufficient_data", "no run has both grades")
    whole = disagreements >= n
    upper = 1.0 if whole else float(betaincinv(disagreements + 1, n - disagreements, level))
    needed = int(np.ceil(np.log(1 - level) / np.log(1 - bound)))
    return TooLoose(loose=upper < bound, upper=upper, needed=needed)
