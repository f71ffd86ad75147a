"""Shares, means, counts, quantiles and pass^k as they leave: values, limits, losses, absences."""

from __future__ import annotations

from itertools import combinations
from math import isclose

import numpy as np
import pytest
from scipy import stats as oracle

from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats.estimates import ranks
from stepscope.values import Estimate, Unmeasured, UnmeasuredKind

# Successes of the four trials of 50 recorded tasks: 14 never, 10 always, 26 mixed.
AIRLINE = [0] * 14 + [1] * 12 + [2] * 10 + [3] * 4 + [4] * 10


def measured(found: Estimate | Unmeasured) -> Estimate:
    assert isinstance(found, Estimate), found
    return found


def absent(found: Estimate | Unmeasured) -> UnmeasuredKind:
    assert isinstance(found, Unmeasured), found
    return found.kind


def test_independent_runs_get_plain_wilson() -> None:
    theirs = oracle.binomtest(84, 200).proportion_ci(method="wilson")
    for clusters in (None, list(range(200))):
        found = measured(stats.proportion([1] * 84 + [0] * 116, clusters))
        assert isclose(found.low or 0, theirs.low)
        assert isclose(found.high or 0, theirs.high)
        assert (found.method, found.n, found.n_tasks) == ("wilson", 200, 200)


def test_trials_of_a_task_widen_the_interval_and_these_cases_do_not() -> None:
    passed = [i < c for c in AIRLINE for i in range(4)]
    tasks = np.repeat(np.arange(50), 4)
    found = measured(stats.proportion(passed, tasks))
    assert (found.value, found.n, found.n_tasks, found.method) == (
        0.42,
        200,
        50,
        "wilson clustered",
    )
    assert [round(found.low or 0, 3), round(found.high or 0, 3)] == [0.322, 0.524]
    cases = measured(stats.proportion(passed, tasks, target="these cases"))
    assert [round(cases.low or 0, 3), round(cases.high or 0, 3)] == [0.354, 0.489]
    assert (cases.target, cases.n_tasks) == ("these cases", 50)


def test_labels_of_tasks_need_not_be_numbers_or_dense() -> None:
    passed = [1, 0, 1, 1, 0, 1]
    by_name = stats.proportion(passed, ["b", "b", "a", "a", "c", "c"])
    assert by_name == stats.proportion(passed, [7, 7, -3, -3, 10**15, 10**15])
    assert by_name == stats.proportion(passed, [1, 1, -3, -3, 0, 0])


def test_a_ratio_counts_units_and_leaves_out_runs_without_any() -> None:
    found = measured(stats.ratio([1, 0, 2, 0], [2, 1, 2, 0], [0, 1, 2, 3]))
    assert (found.value, found.n, found.n_tasks, found.unit_of_n) == (0.6, 5, 3, "errors")
    spread_out = stats.proportion([1, 0, 0, 1, 1], [0, 0, 1, 2, 2], unit_of_n="errors")
    assert found == spread_out


def test_a_ratio_of_nothing_is_absent_for_the_reason_given() -> None:
    assert absent(stats.ratio([0, 0], [0, 0])) == "insufficient_data"
    assert absent(stats.ratio([0], [0], unmeasured={"error": 1})) == "error"
    assert measured(stats.ratio([1, 1], [3, 3], [5, 5])).no_interval == "no interval: one task"


def test_part_shares_need_not_be_as_wide_as_yes_or_no() -> None:
    half = measured(stats.mean_share([0.5, 0.4, 0.6, 0.5, 0.4, 0.6] * 5))
    coin = measured(stats.proportion([1, 0] * 15))
    assert half.high is not None
    assert coin.high is not None
    assert half.high < coin.high


def test_means_take_students_t_over_clusters() -> None:
    means = np.array([-1.0, 2.0, 0.5, 3.0])
    theirs = oracle.ttest_1samp(means, 0).confidence_interval(0.95)
    found = measured(stats.mean(np.repeat(means, 3), np.repeat(np.arange(4), 3), unit="usd"))
    assert isclose(found.value, 1.125)
    assert isclose(found.low or 0, float(theirs.low))
    assert isclose(found.high or 0, float(theirs.high))
    assert (found.method, found.unit, found.n, found.n_tasks) == ("t", "usd", 12, 4)


def test_no_event_at_all_still_has_an_upper_limit() -> None:
    found = measured(stats.rate([0] * 200, np.repeat(np.arange(50), 4)))
    assert (found.value, found.low) == (0.0, 0.0)
    # 3.689 events in 200 runs, t at 49 degrees of freedom: 1.0512 times (2.0096/1.96)^2
    assert round(found.high or 0, 4) == 0.0194
    few = measured(stats.rate([0] * 20, np.repeat(np.arange(5), 4)))
    assert round(few.high or 0, 3) == 0.370  # 3.689 * (2.7764/1.96)^2 / 20
    alone = measured(stats.rate([1, 0], ["one", "one"]))
    assert (alone.value, alone.no_interval) == (0.5, "no interval: one task")


def test_a_rate_is_as_wide_as_its_tasks_differ() -> None:
    # 6 events in 20 runs; tasks have 4, 0, 2, 0, 0: variance 5/4 * 12.8 over 6 is 2.667
    counts = [1, 1, 1, 1, *[0] * 4, 1, 0, 1, 0, *[0] * 8]
    found = measured(stats.rate(counts, np.repeat(np.arange(5), 4)))
    phi = 5 / 4 * 12.8 / 6 * (2.7764451051977987 / 1.959963984540054) ** 2
    low, high = oracle.gamma.ppf(0.025, 6 / phi), oracle.gamma.ppf(0.975, 6 / phi + 1)
    assert isclose(found.low or 0, low * phi / 20)
    assert isclose(found.high or 0, high * phi / 20)
    # tasks that are all alike are no surer than a Poisson count
    alike = measured(stats.rate([1] * 20, np.repeat(np.arange(5), 4)))
    assert isclose(
        alike.high or 0, oracle.gamma.ppf(0.975, 20 / 2.00665 + 1) * 2.00665 / 20, rel_tol=1e-4
    )


def test_the_quantile_interval_is_exact_for_independent_values() -> None:
    for q, n in ((0.5, 6), (0.5, 101), (0.95, 73), (0.95, 500), (0.25, 40)):
        lower, upper = (int(x) for x in ranks(n, float(n), q, 0.95))
        below = oracle.binom(n, q)
        assert below.cdf(lower - 1) <= 0.025 < below.cdf(lower)
        assert below.cdf(upper - 2) < 0.975 <= below.cdf(upper - 1)


def test_the_median_of_a_hundred_lies_between_the_40th_and_the_61st() -> None:
    # Conover (1999), Practical Nonparametric Statistics, table A3: ranks 40 and 61 at n = 100
    found = measured(stats.quantile(np.random.default_rng(0).permutation(100) + 1.0, 0.5))
    assert (found.value, found.low, found.high) == (50.5, 40, 61)


@pytest.mark.parametrize(("n", "closed"), [(71, False), (72, True)])
def test_p95_has_no_upper_limit_below_72_values(n: int, *, closed: bool) -> None:
    found = measured(stats.quantile(np.arange(n), 0.95))
    assert (found.high is not None) == closed
    assert bool(found.diagnostics) != closed


@pytest.mark.parametrize(("n", "why"), [(5, "no interval: too few runs"), (6, "")])
def test_the_interval_of_a_median_needs_six_independent_values(n: int, why: str) -> None:
    found = measured(stats.quantile(np.arange(n), 0.5))
    assert (found.value, found.no_interval) == ((n - 1) / 2, why)


def test_copies_of_a_value_within_a_task_narrow_no_quantile() -> None:
    values = np.random.default_rng(1).normal(size=40)
    copies, tasks = np.repeat(values, 5), np.repeat(np.arange(40), 5)
    widths = [
        (found.high or 0) - (found.low or 0)
        for found in (
            measured(stats.quantile(values, 0.5)),
            measured(stats.quantile(copies, 0.5, tasks)),
            measured(stats.quantile(copies, 0.5)),
        )
    ]
    assert widths[1] > 0.9 * widths[0]
    assert widths[2] < 0.6 * widths[0]


@pytest.mark.parametrize(("k", "share"), [(1, 0.42), (2, 0.2733), (3, 0.22), (4, 0.20)])
def test_pass_hat_k_of_the_airline_tasks(k: int, share: float) -> None:
    found = measured(stats.pass_hat_k(AIRLINE, [4] * 50, k))
    assert round(found.value, 4) == share
    assert (found.n, found.unit_of_n) == (50, "tasks")


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_pass_k_counts_the_subsets_of_trials(k: int) -> None:
    tasks = [[True, True, False, True, False], [False] * 5, [True] * 5]
    subsets = [list(combinations(task, k)) for task in tasks]
    c = [sum(task) for task in tasks]
    every = np.mean([np.mean([all(s) for s in subset]) for subset in subsets])
    some = np.mean([np.mean([any(s) for s in subset]) for subset in subsets])
    assert isclose(measured(stats.pass_hat_k(c, [5] * 3, k)).value, every)
    assert isclose(measured(stats.pass_at_k(c, [5] * 3, k)).value, some)


def test_tasks_with_too_few_trials_are_counted_not_dropped() -> None:
    lost = {"error": 4, "insufficient_data": 2}
    found = measured(stats.pass_hat_k([2, 1, 3], [4, 1, 3], 2, unmeasured=lost))
    assert found.unmeasured == {"error": 4, "insufficient_data": 3}
    assert found.n == 2
    assert absent(stats.pass_hat_k([1, 1], [1, 1], 2)) == "insufficient_data"
    alone = measured(stats.pass_hat_k([2, 1], [2, 1], 2))
    assert (alone.value, alone.n, alone.no_interval) == (1.0, 1, "no interval: one task")


def test_worst_case_bounds_come_with_every_share() -> None:
    found = measured(
        stats.proportion([1] * 8 + [0] * 2, unmeasured={"refused": 10, "not_applicable": 50})
    )
    assert (found.worst_low, found.worst_high) == (0.4, 0.9)
    assert found.unmeasured == {"refused": 10, "not_applicable": 50}
    assert found.n_unmeasured == 60


def test_a_judge_that_refuses_failures_shows_in_the_bounds() -> None:
    # true rate .20 of 1,000; 60 % of 200 failures and 5 % of 800 passes refused
    failures = [1] * 80 + [0] * 760
    found = measured(stats.proportion(failures, unmeasured={"refused": 160}))
    assert round(found.value, 3) == 0.095
    assert found.worst_low == 0.08
    assert found.worst_high == 0.24


@pytest.mark.parametrize(("tasks", "weak"), [(4, True), (5, False)])
def test_fewer_than_five_tasks_are_marked_weak(tasks: int, *, weak: bool) -> None:
    found = measured(stats.proportion([1, 0] * tasks, np.repeat(np.arange(tasks), 2)))
    assert found.diagnostics == ((f"weak evidence: only {tasks} tasks",) if weak else ())


@pytest.mark.parametrize(
    ("lost", "kind"),
    [
        (None, "insufficient_data"),
        ({}, "insufficient_data"),
        ({"missing_input": 3, "error": 1}, "missing_input"),
        ({"excluded by hand": 3}, "insufficient_data"),
    ],
)
def test_nothing_measured_says_what_was_lost(
    lost: dict[str, int] | None, kind: UnmeasuredKind
) -> None:
    found = stats.mean([], unmeasured=lost)
    assert absent(found) == kind
    for name, count in (lost or {}).items():
        assert isinstance(found, Unmeasured)
        assert f"{count} {name}" in found.reason


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: stats.proportion([0.5, 1]), "0 or 1"),
        (lambda: stats.mean_share([0.5, 1.5]), r"\[0, 1\]"),
        (lambda: stats.ratio([2], [1]), "between 0"),
        (lambda: stats.ratio([1, 1], [1]), "shape"),
        (lambda: stats.rate([-1, 2]), "0 or more"),
        (lambda: stats.mean([[1.0, 2.0]]), "one dimension"),
        (lambda: stats.mean([1.0, 2.0], [1]), "one a value"),
        (lambda: stats.mean([1.0, 2.0], level=1.0), "level"),
        (lambda: stats.mean([1.0, 2.0], unmeasured={"error": -1}), "none < 0"),
        (lambda: stats.quantile([1.0, 2.0], 1.0), "q is"),
        (lambda: stats.pass_hat_k([1], [2], 0), "k is 0"),
        (lambda: stats.pass_hat_k([3], [2], 1), "between 0"),
        (lambda: stats.worst_case(0.5, 0, {}, low=0, high=1), "one or more"),
    ],
)
def test_a_mistaken_call_is_one_line_that_says_what_was_expected(
    call: object, message: str
) -> None:
    assert callable(call)
    with pytest.raises(DataError, match=message):
        call()
