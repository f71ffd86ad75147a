"""Paired and unpaired comparison: the exact null against enumeration, scipy and hand counts."""

from __future__ import annotations

from itertools import combinations, product
from math import isclose

import numpy as np
import pytest
from scipy import stats as oracle

from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats import comparison, permutation
from stepscope.stats.comparison import Comparison
from stepscope.stats.permutation import Case, exact_p
from stepscope.values import Estimate, Unmeasured


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def enumerated_p(cases: list[Case]) -> float:
    """Every hand-out of every case's trials, one by one."""
    nulls = []
    for a, na, b, nb in cases:
        pooled = [1] * (a + b) + [0] * (na + nb - a - b)
        nulls.append(
            [
                sum(pooled[i] for i in chosen) / nb - (a + b - sum(pooled[i] for i in chosen)) / na
                for chosen in combinations(range(na + nb), nb)
            ]
        )
    seen = abs(sum(b / nb - a / na for a, na, b, nb in cases))
    sums = [abs(sum(pick)) for pick in product(*nulls)]
    return sum(x >= seen - 1e-9 for x in sums) / len(sums)


@pytest.mark.parametrize(("only_first", "only_second"), [(0, 5), (1, 9), (3, 3), (12, 30)])
def test_one_trial_against_one_is_exact_mcnemar(only_first: int, only_second: int) -> None:
    cases = [(1, 1, 0, 1)] * only_first + [(0, 1, 1, 1)] * only_second + [(1, 1, 1, 1)] * 7
    mcnemar = oracle.binomtest(only_first, only_first + only_second).pvalue
    assert isclose(exact_p(cases) or 0, mcnemar, rel_tol=1e-9)


def test_one_case_with_even_trials_is_fishers_exact_test() -> None:
    fisher = oracle.fisher_exact(np.array([[2, 8], [7, 3]])).pvalue
    assert isclose(exact_p([(2, 10, 7, 10)]) or 0, fisher)


@pytest.mark.parametrize(
    "cases",
    [
        [(1, 2, 2, 2), (0, 2, 1, 2), (2, 2, 2, 2)],
        [(1, 3, 2, 2), (0, 1, 1, 4), (2, 3, 1, 1)],
        [(0, 2, 0, 3), (3, 3, 3, 3)],
    ],
)
def test_the_exact_null_is_every_hand_out_counted(cases: list[Case]) -> None:
    assert isclose(exact_p(cases) or 0, enumerated_p(cases), rel_tol=1e-9)


def test_long_convolutions_by_fft_agree_with_the_direct_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cases = [(i % 5, 4, (i * 3) % 5, 4) for i in range(600)]
    direct = exact_p(cases)
    monkeypatch.setattr(permutation, "DIRECT", 16)
    assert isclose(exact_p(cases) or 0, direct or 0, rel_tol=1e-9)


def test_a_null_with_too_many_points_is_drawn_instead() -> None:
    odd = [7, 11, 13, 17, 19, 23]
    cases = [(n // 2, n, n // 3, n + 1) for n in odd]
    assert exact_p(cases) is None
    first = [i < a for a, n, _, _ in cases for i in range(n)]
    second = [i < b for _, _, b, m in cases for i in range(m)]
    found = stats.compare_paired(
        first,
        np.repeat(np.arange(6), odd),
        second,
        np.repeat(np.arange(6), [n + 1 for n in odd]),
        rng=rng(),
        draws=999,
    )
    assert isinstance(found, Comparison)
    assert found.method == "permutation drawn"
    assert 0.003 < found.p < 0.04  # 0.016 in 20,000 hypergeometric draws


def trials(values: list[list[float]], other: list[list[float]]) -> permutation.PairedTrials:
    cases = [np.repeat(np.arange(len(side)), [len(v) for v in side]) for side in (values, other)]
    figures = [np.concatenate(side) for side in (values, other)]
    return permutation.pair_trials((figures[0], figures[1]), (cases[0], cases[1]))[0]


def test_few_figures_are_permuted_exactly() -> None:
    # 1 against 1 on four cases, all in one direction: 2 of 16 sign patterns
    p, method = permutation.shuffled_p(
        trials([[1.0], [2.0], [3.0], [4.0]], [[2.0], [4.0], [6.0], [8.0]]), rng=rng(), draws=9
    )
    assert (p, method) == (0.125, "permutation exact")


def listed(a: list[float], b: list[float]) -> float:
    """Two-sided p of one case: every choice of values for the second agent."""
    pooled, seen = [*a, *b], abs(sum(b) / len(b) - sum(a) / len(a))
    chosen = [sum(pick) for pick in combinations(pooled, len(b))]
    nulls = [abs(x / len(b) - (sum(pooled) - x) / len(a)) for x in chosen]
    return sum(x >= seen - 1e-9 for x in nulls) / len(nulls)


def test_figures_of_one_case_are_permuted_in_every_way() -> None:
    a, b = [1.0, 4.0, 2.5, 7.0, 3.0], [5.0, 9.0, 6.5, 2.0]
    p, method = permutation.shuffled_p(trials([a], [b]), rng=rng(), draws=9)
    assert method == "permutation exact"
    assert isclose(p, listed(a, b))


def test_drawn_and_normal_p_agree_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(5)
    first = [list(draw.normal(0.0, 1, 2)) for _ in range(5)]
    second = [list(draw.normal(0.6, 1, 2)) for _ in range(5)]
    exact, method = permutation.shuffled_p(trials(first, second), rng=rng(), draws=9)
    assert method == "permutation exact"
    monkeypatch.setattr(permutation, "ENUMERATED", 1)
    drawn, method = permutation.shuffled_p(trials(first, second), rng=rng(), draws=20_000)
    assert method == "permutation drawn"
    assert abs(drawn - exact) < 0.02
    monkeypatch.setattr(permutation, "WORK", 1)
    normal, method = permutation.shuffled_p(trials(first, second), rng=rng(), draws=9)
    assert method == "permutation normal"
    assert abs(normal - exact) < 0.03


def test_of_a_p_above_alpha_only_the_first_draws_are_made() -> None:
    values = np.random.default_rng(5).normal(size=(2, 30, 2)).tolist()
    first, second = trials(*values), trials(values[0], [[v + 1 for v in x] for x in values[1]])
    options = {"rng": rng(), "tail": "upper", "alpha": 0.025}
    high = permutation.shuffled_p(first, draws=9_999, **options)  # type: ignore[arg-type]
    assert high == permutation.shuffled_p(first, rng=rng(), draws=999, tail="upper")
    assert high[0] > 0.1
    low, _ = permutation.shuffled_p(second, draws=9_999, **options)  # type: ignore[arg-type]
    assert low < 0.001
    assert 10_000 * low == pytest.approx(round(10_000 * low))


def test_a_p_near_alpha_is_on_the_side_that_all_draws_put_it() -> None:
    sides = set()
    for seed in range(30):
        values = np.random.default_rng(seed).normal(size=(2, 40, 2))
        near = trials(values[0].tolist(), (values[1] - values[1].mean() + 0.21).tolist())
        found, whole = (
            permutation.shuffled_p(near, rng=rng(), draws=9_999, tail="upper", alpha=alpha)[0]
            for alpha in (0.025, 1.0)
        )
        assert found == whole if whole <= 0.025 else found > 0.025
        sides.add(found > 0.025)
    assert sides == {True, False}


def test_a_common_offset_changes_no_p() -> None:
    first, second = [[1.1, 0.3], [5.2], [2.3]], [[2.7], [4.4, 6.1], [4.5]]
    far = [[[v + 1e12 for v in case] for case in side] for side in (first, second)]
    near, _ = permutation.shuffled_p(trials(first, second), rng=rng(), draws=9)
    assert permutation.shuffled_p(trials(*far), rng=rng(), draws=9)[0] == near


def test_values_near_the_largest_float_still_have_a_p() -> None:
    huge = [[8.9e307], [1e307]]
    assert permutation.shuffled_p(trials(huge, huge), rng=rng(), draws=9)[0] == 1.0


def test_no_drawn_p_is_smaller_than_the_draws_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "HELD", 1000)  # draws come in chunks
    cases, low, high = range(40), np.arange(40) * 0.01, np.arange(40) * 0.01 + 9
    for compare in (stats.compare_paired, stats.compare_unpaired):
        found = compare(low, cases, high, cases, rng=rng(), unit="usd", draws=99)
        assert isinstance(found, Comparison)
        assert (found.p, found.method) == (0.01, "permutation drawn")
        same = compare(low, cases, low, cases, rng=rng(), unit="usd", draws=99)
        assert isinstance(same, Comparison)
        assert same.p == 1.0


def test_cases_of_one_agent_only_are_left_out_and_counted() -> None:
    found = stats.compare_paired(
        [1, 0, 1, 1], ["x", "y", "z", "z"], [1, 1], ["y", "new"], rng=rng()
    )
    assert isinstance(found, Comparison)
    assert (found.n, found.only_first, found.only_second) == (1, 2, 1)
    assert isinstance(found.effect, Estimate)
    assert (found.effect.value, found.effect.low) == (1.0, None)
    assert found.effect.no_interval == "no interval: one case in common"
    apart = stats.compare_paired([1], ["x"], [0], ["y"], rng=rng())
    assert isinstance(apart, Unmeasured)


def test_every_case_counts_the_same_whatever_its_trials() -> None:
    found = stats.compare_paired([0, 0, 0, 0, 1], [1, 1, 1, 1, 2], [1, 0], [1, 2], rng=rng())
    assert isinstance(found, Comparison)
    assert isinstance(found.effect, Estimate)
    assert found.effect.value == 0.0


def test_the_sign_is_second_minus_first() -> None:
    found = stats.compare_paired([3.0, 4.0], [1, 2], [5.0, 9.0], [1, 2], rng=rng(), unit="steps")
    assert isinstance(found, Comparison)
    assert isinstance(found.effect, Estimate)
    assert (found.effect.value, found.effect.unit, found.needed) == (3.5, "steps", None)


def test_twenty_identical_pairs_say_how_little_they_can_see() -> None:
    found = stats.compare_paired([1] * 20, range(20), [1] * 20, range(20), rng=rng())
    assert isinstance(found, Comparison)
    assert isinstance(found.effect, Estimate)
    assert (found.p, found.effect.value) == (1.0, 0.0)
    assert found.effect.low is not None
    assert found.effect.low < -0.1
    assert found.needed is not None
    assert found.detectable is not None
    # one case of twenty that differs fully: sd sqrt(1/20)
    assert isclose(found.detectable, 2.8016 * (1 / 20) ** 0.5 / 20**0.5, rel_tol=1e-4)


def test_the_cases_needed_are_those_of_the_paired_t_test() -> None:
    # Machin et al. (2018), Sample Sizes for Clinical Studies: 7.849 (sd/d)^2 at 5 %, 80 %
    assert stats.runs_needed(0.05, 0.5) == 785
    assert stats.runs_needed(-1.0, 1.0) == 8
    power = oracle.norm.cdf(0.05 / (0.5 / np.sqrt(785)) - 1.959964)
    assert 0.80 <= power < 0.801
    assert isclose(stats.detectable(785, 0.5), 0.05, rel_tol=1e-3)


def test_fleets_on_different_tasks_are_compared_by_whole_tasks() -> None:
    passed, tasks = [1] * 40 + [0] * 40, np.repeat(np.arange(20), 4)
    found = stats.compare_unpaired(passed, tasks, [1] * 80, tasks, rng=rng(), draws=999)
    assert isinstance(found, Comparison)
    assert isinstance(found.effect, Estimate)
    assert (found.effect.value, found.n, found.effect.method) == (0.5, 40, "newcombe clustered")
    assert found.p <= 0.005
    # the same runs, each trial taken for a task, would claim far more
    assert found.effect.low is not None
    assert found.effect.low < 0.35


def test_unpaired_p_where_each_task_ran_once_is_that_of_permuting_runs() -> None:
    a, b = [1.0, 3.0, 2.0, 8.0, 5.0], [4.0, 9.0, 7.0, 6.0, 11.0, 3.0]
    found = stats.compare_unpaired(a, range(5), b, range(6), rng=rng(), unit="usd", draws=20_000)
    assert isinstance(found, Comparison)
    assert abs(found.p - listed(a, b)) < 0.01


def test_one_task_a_fleet_says_nothing() -> None:
    found = stats.compare_unpaired([1, 0], [1, 1], [1, 0, 1], [1, 2, 3], rng=rng())
    assert isinstance(found, Unmeasured)


def test_the_same_seed_gives_the_same_comparison() -> None:
    draw = np.random.default_rng(1)
    a, b, cases = draw.normal(size=60), draw.normal(size=60), np.repeat(np.arange(30), 2)
    first, second = (
        stats.compare_paired(a, cases, b, cases, rng=rng(), unit="usd", draws=99) for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize(
    ("p", "adjusted"),
    [
        ([], []),
        ([0.2], [0.2]),
        # p.adjust(c(.01, .04, .03, .005), "holm") of R
        ([0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02]),
        ([0.5, 0.9, 0.6], [1.0, 1.0, 1.0]),
    ],
)
def test_holm_agrees_with_r(p: list[float], adjusted: list[float]) -> None:
    assert np.allclose(stats.holm(p), adjusted)


def test_all_looks_for_ever_spend_alpha() -> None:
    assert isclose(sum(stats.look_alpha(j) for j in range(1, 10_000)), 0.05, rel_tol=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: stats.holm([0.5, 1.5]),
        lambda: stats.holm([float("nan")]),
        lambda: stats.look_alpha(0),
        lambda: stats.runs_needed(0.0, 1.0),
        lambda: stats.runs_needed(0.1, 1.0, power=1.0),
        lambda: stats.detectable(0, 1.0),
        lambda: stats.compare_paired([1, 0], [1], [1], [1, 2], rng=rng()),
    ],
)
def test_a_mistaken_call_raises(call: object) -> None:
    assert callable(call)
    with pytest.raises(DataError):
        call()
