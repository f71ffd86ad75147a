"""Outcome against trajectory: joint table, too-loose warning; and the bootstrap."""

from __future__ import annotations

from math import isclose, sqrt

import numpy as np
import pytest
from scipy import stats as oracle

from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats.sample import bootstrap_ratio
from stepscope.values import Estimate, Unmeasured


def test_the_joint_table_counts_the_disagreements() -> None:
    outcome = [1, 1, 1, 0, 0, 0, 0]
    grade = [1, 0, 1, 0, 1, 1, 0]
    table = stats.joint_table(outcome, grade, [0, 0, 1, 1, 2, 2, 3])
    assert isinstance(table, stats.JointTable)
    assert isinstance(table.disagreement, Estimate)
    assert isclose(table.disagreement.value, 3 / 7)
    assert isinstance(stats.joint_table([], []), Unmeasured)


@pytest.mark.parametrize(
    ("disagreements", "n", "loose"),
    [(0, 58, False), (0, 59, True), (1, 92, False), (1, 93, True), (5, 59, False), (9, 9, False)],
)
def test_too_loose_needs_59_runs_without_a_disagreement(
    disagreements: int, n: int, *, loose: bool
) -> None:
    found = stats.upper_limit(disagreements, n)
    assert (found < stats.MOST_DISAGREEMENT) == loose
    theirs = oracle.binomtest(disagreements, n, alternative="less").proportion_ci(0.95, "exact")
    assert isclose(found, theirs.high, rel_tol=1e-9)


def test_trials_of_a_task_do_not_stand_for_tasks() -> None:
    # 60 runs without a disagreement, of 15 tasks: far from enough
    table = stats.joint_table([1, 0] * 30, [1, 0] * 30, np.repeat(np.arange(15), 4))
    assert isinstance(table, stats.JointTable)
    assert table.limit == pytest.approx(1 - 0.05 ** (1 / 15))
    alone = stats.joint_table([1, 0] * 30, [1, 0] * 30)
    assert isinstance(alone, stats.JointTable)
    assert isinstance(alone.limit, float)
    assert alone.limit < stats.MOST_DISAGREEMENT


def test_no_run_with_both_grades_decides_nothing() -> None:
    one = stats.joint_table([1, 1], [1, 1], [3, 3])
    assert isinstance(one, stats.JointTable)
    assert isinstance(one.limit, Unmeasured)


@pytest.mark.parametrize("shape", ["two kinds", "all different"])
def test_the_bootstrap_has_the_spread_of_the_clustered_mean(shape: str) -> None:
    draw = np.random.default_rng(3)
    sums = (draw.random(400) < 0.3).astype(float) if shape == "two kinds" else draw.normal(size=400)
    means = bootstrap_ratio(sums, np.ones(400), rng=np.random.default_rng(0), draws=4000)
    assert abs(means.mean() - sums.mean()) < 0.003
    assert isclose(means.std(), sums.std() / sqrt(400), rel_tol=0.05)


def test_resampling_kinds_and_clusters_give_the_same_distribution() -> None:
    draw = np.random.default_rng(4)
    sizes = draw.integers(1, 4, 60).astype(float)
    sums = np.floor(draw.random(60) * (sizes + 1))
    by_kind = bootstrap_ratio(sums, sizes, rng=np.random.default_rng(0), draws=4000)
    jitter = np.arange(60) * 1e-9
    one_by_one = bootstrap_ratio(sums + jitter, sizes, rng=np.random.default_rng(1), draws=4000)
    assert oracle.ks_2samp(by_kind, one_by_one).pvalue > 0.01


def test_fewer_than_twenty_clusters_are_not_resampled() -> None:
    with pytest.raises(DataError, match="20 clusters"):
        bootstrap_ratio(np.ones(19), np.ones(19), rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.joint_table([1], [1, 0]),
        lambda: stats.joint_table([0.5], [1]),
        lambda: stats.upper_limit(3, 2),
        lambda: stats.upper_limit(0, 2, level=1.0),
        lambda: bootstrap_ratio(np.ones(20), np.zeros(20), rng=np.random.default_rng()),
        lambda: bootstrap_ratio(np.ones(20), np.ones(21), rng=np.random.default_rng()),
    ],
)
def test_a_mistaken_call_raises(call: object) -> None:
    assert callable(call)
    with pytest.raises(DataError):
        call()
