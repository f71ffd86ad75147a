"""The interval formulas against published values, scipy, and the formulas of the spec by hand."""

from __future__ import annotations

import itertools
from math import isclose, sqrt

import numpy as np
import pytest
from scipy import stats as oracle

from stepscope.errors import DataError
from stepscope.stats.intervals import (
    cluster_variance,
    count_limits,
    difference_limits,
    effective_size,
    mean_limits,
    newcombe_limits,
    normal_quantile,
    poisson_limits,
    share_limits,
    student_quantile,
    welch_limits,
    wilson,
)
from stepscope.stats.sample import ClusterSums, Floats


def student(values: Floats, level: float = 0.95) -> tuple[float, float]:
    """Limits of scipy's one-sample t."""
    found = oracle.ttest_1samp(values, 0).confidence_interval(level)
    return float(found.low), float(found.high)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # Newcombe (1998), Statistics in Medicine 17:857-872, table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_gives_the_published_limits(successes: int, n: int, low: float, high: float) -> None:
    found = wilson(successes / n, n, 0.95)
    assert [round(float(x), 4) for x in found] == [low, high]


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_wilson_agrees_with_scipy(level: float) -> None:
    for successes, n in itertools.product((0, 3, 10), (10, 40)):
        theirs = oracle.binomtest(successes, n).proportion_ci(level, method="wilson")
        assert np.allclose(wilson(successes / n, n, level), (theirs.low, theirs.high), atol=1e-12)


def test_with_even_trials_and_much_seen_the_effective_size_is_that_of_the_spec() -> None:
    sums = np.array([4, 0, 2, 1, 3, 4, 0, 2] * 500, dtype=float)
    sizes = np.full(4000, 4.0)
    p, n, groups = 0.5, 16000, 4000
    v = groups / (groups - 1) * ((sums - p * sizes) ** 2).sum() / n**2
    value, size = effective_size(sums, sizes, most=n)
    assert value == 0.5
    assert isclose(float(size), p * (1 - p) / v, rel_tol=1e-3)


@pytest.mark.parametrize("successes", [0.0, 2.0, 4.0])
def test_no_spread_between_tasks_counts_each_task_once(successes: float) -> None:
    _, size = effective_size(np.full(10, successes), np.full(10, 4.0), most=40.0)
    assert float(size) == 10


def test_the_effective_size_never_leaves_one_to_the_number_of_runs() -> None:
    _, small = effective_size(np.array([0.0, 50.0]), np.array([1.0, 50.0]), most=51.0)
    # trials that balance out within tasks: less spread than independent runs would have
    _, large = effective_size(np.array([2.0, 2.0, 2.0, 1.0] * 50), np.full(200, 4.0), most=800.0)
    assert float(small) >= 1
    assert float(large) == 800


def test_a_rare_failure_in_one_task_pulls_towards_one_unit_a_task() -> None:
    sums = np.append(np.full(19, 10.0), 9.0)
    sizes = np.full(20, 10.0)
    p, r = 199 / 200, np.append(np.full(19, 10 - 9.95), 9 - 9.95)
    plain = p * (1 - p) / (20 / 19 * (r**2).sum() / 200**2)
    _, size = effective_size(sums, sizes, most=200.0)
    assert plain > 180
    assert 20 < float(size) < 30


def test_uneven_clusters_get_the_jackknife_variance() -> None:
    sums, sizes = np.array([1.0, 0.0, 7.0, 2.0]), np.array([2.0, 3.0, 9.0, 4.0])
    left_out = np.array(
        [(sums.sum() - s) / (sizes.sum() - m) for s, m in zip(sums, sizes, strict=True)]
    )
    value, variance, clusters = cluster_variance(sums, sizes)
    assert isclose(float(variance), 3 / 4 * ((left_out - float(value)) ** 2).sum())
    assert isclose(float(clusters), 18**2 / (4 + 9 + 81 + 16))


def test_even_clusters_get_the_classic_clustered_variance() -> None:
    rng = np.random.default_rng(0)
    sums = rng.normal(size=12)
    means = sums / 5
    _, variance, clusters = cluster_variance(sums, np.full(12, 5.0))
    assert isclose(float(variance), means.var(ddof=1) / 12)
    assert isclose(float(clusters), 12)


def test_uneven_clusters_widen_a_share_and_even_ones_do_not() -> None:
    even = share_limits(np.full(10, 2.0) + np.arange(10) % 2, np.full(10, 4.0), 0.95, most=40.0)
    _, size = effective_size(np.full(10, 2.0) + np.arange(10) % 2, np.full(10, 4.0), most=40.0)
    assert np.allclose(even[1:], wilson(float(even[0]), float(size), 0.95))
    sizes = np.array([1.0, 1.0, 1.0, 1.0, 20.0])
    sums = np.array([1.0, 0.0, 1.0, 0.0, 10.0])
    uneven = share_limits(sums, sizes, 0.95, most=24.0)
    _, size = effective_size(sums, sizes, most=24.0)
    assert float(uneven[1]) < float(wilson(0.5, float(size), 0.95)[0])


def test_one_value_a_cluster_is_students_interval() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    ours = mean_limits(values, np.ones(5), 0.95, positive=False)
    assert np.allclose(ours, (2.8, *student(values)))


def test_positive_figures_get_students_interval_of_the_log() -> None:
    values = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
    se = values.std(ddof=1) / sqrt(5)
    factor = np.exp(2.7764451051977987 * se / 2.8)
    _, low, high = mean_limits(values, np.ones(5), 0.95, positive=True)
    assert isclose(float(low), 2.8 / factor)
    assert isclose(float(high), 2.8 * factor)


@pytest.mark.parametrize(
    ("events", "low", "high"),
    # Garwood (1936), as tabulated by Ulm (1990), American J. Epidemiology 131:373-375
    [(0, 0.0, 3.689), (1, 0.025, 5.572), (5, 1.623, 11.668), (10, 4.795, 18.390)],
)
def test_poisson_limits_are_garwoods(events: int, low: float, high: float) -> None:
    assert [round(float(x), 3) for x in poisson_limits(events, 1, 0.95)] == [low, high]


def test_counts_of_uneven_tasks_are_told_by_the_effective_ones() -> None:
    # without an event only the doubt is left: tasks of 1, 1 and 6 runs are worth 64/38 of three
    _, low, high = count_limits(np.zeros(3), np.array([1.0, 1.0, 6.0]), 0.95)
    doubt = (12.706204736432095 / 1.959963984540054) ** 2  # t at the one degree that is least
    assert (float(low), isclose(float(high), 3.6888794541139363 * doubt / 8)) == (0.0, True)


def test_bonett_and_price_hold_where_no_case_differs() -> None:
    # two pseudo-cases, one +1 and one -1: variance 2 / (n + 2), over n + 2
    _, low, high = difference_limits(np.zeros(10), 0.95, bounded=True)
    half = float(student_quantile(18, 0.95)) * sqrt((2 / 12) / 12)
    assert np.allclose((low, high), (-half, half))


def test_many_differing_cases_make_the_pseudo_cases_fade() -> None:
    differences = np.array([1.0, -1.0, 1.0, 0.0] * 500)
    _, low, high = difference_limits(differences, 0.95, bounded=True)
    assert np.allclose((low, high), student(differences), atol=1e-3)


def test_figures_that_are_no_shares_get_the_plain_paired_t() -> None:
    differences = np.array([10.0, -4.0, 3.0, 8.0])
    _, low, high = difference_limits(differences, 0.9, bounded=False)
    assert np.allclose((low, high), student(differences, 0.9))


def test_two_fleets_of_one_run_a_task_are_welchs_interval() -> None:
    a, b = np.array([1.0, 2.0, 4.0, 9.0]), np.array([3.0, 8.0, 11.0, 2.0, 7.0])
    theirs = oracle.ttest_ind(b, a, equal_var=False).confidence_interval(0.95)
    ours = welch_limits(ClusterSums(a, np.ones(4)), ClusterSums(b, np.ones(5)), 0.95)
    assert np.allclose(ours[1:], (theirs.low, theirs.high))


def test_two_fleets_take_newcombes_square_and_add() -> None:
    a = ClusterSums(np.array([1.0, 3.0, 2.0, 0.0]), np.full(4, 4.0))
    b = ClusterSums(np.array([4.0, 3.0, 2.0, 4.0]), np.full(4, 4.0))
    (p, p_low, p_high), (q, q_low, q_high) = (
        share_limits(x.sums, x.sizes, 0.95, most=16.0) for x in (a, b)
    )
    value, low, high = newcombe_limits(a, b, 0.95)
    assert isclose(float(value), 7 / 16)
    assert isclose(float(low), q - p - sqrt((q - q_low) ** 2 + (p_high - p) ** 2))
    assert isclose(float(high), q - p + sqrt((q_high - q) ** 2 + (p - p_low) ** 2))


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95.0])
def test_a_level_outside_nought_to_one_is_refused(level: float) -> None:
    for quantile in (normal_quantile, lambda x: student_quantile(3, x)):
        with pytest.raises(DataError, match="level"):
            quantile(level)
