"""Sigma of a judge from duplicate scorings: pooled, with an interval that holds, never 0."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from stepscope.errors import DataError
from stepscope.stats.repeatability import sigma, tolerable
from stepscope.values import Estimate, Unmeasured


def estimate(found: Estimate | Unmeasured) -> Estimate:
    assert isinstance(found, Estimate)
    return found


def test_sigma_pools_the_spread_within_steps_not_between() -> None:
    # Within-step squares: .005 + .02 over 1 + 2 degrees of freedom; the steps lie .5 apart.
    found = estimate(sigma([0.9, 0.8, 0.3, 0.4, 0.5], [1, 1, 2, 2, 2]))
    assert found.value == pytest.approx(math.sqrt(0.025 / 3))
    assert (found.n, found.n_tasks, found.unit_of_n) == (5, 2, "scorings")


def test_ten_repeats_of_one_step_give_the_published_factors_and_are_weak() -> None:
    found = estimate(sigma(np.linspace(0.5, 0.7, 10), ["a"] * 10))
    assert found.low is not None
    assert found.high is not None
    assert found.low / found.value == pytest.approx(0.688, abs=5e-4)
    assert found.high / found.value == pytest.approx(1.826, abs=5e-4)
    assert found.diagnostics == ("1 step repeated: weak, noise may differ at other steps",)


def test_interval_is_that_of_chi_square_where_steps_are_alike() -> None:
    rows = [0.4, 0.5, 0.6] * 8
    found = estimate(sigma(rows, np.repeat(np.arange(8), 3), level=0.9))
    low, high = (0.1 * math.sqrt(16 / chi2.ppf(p, 16)) for p in (0.95, 0.05))
    assert (found.value, found.low, found.high) == pytest.approx((0.1, low, high))
    assert found.diagnostics == ()


def test_interval_widens_where_one_step_has_all_the_noise() -> None:
    alike = estimate(sigma([0.4, 0.6] * 6, np.repeat(np.arange(6), 2)))
    one = estimate(sigma([0.0, 0.2 * math.sqrt(6), *[0.5] * 10], np.repeat(np.arange(6), 2)))
    assert one.value == pytest.approx(alike.value)
    assert one.high is not None
    assert alike.high is not None
    # Squares 6p, 0, 0, 0, 0, 0: their variance is 30 p^2 / 5, so two of six degrees are left.
    assert one.high / one.value == pytest.approx(math.sqrt(2 / chi2.ppf(0.025, 2)))
    assert alike.high / alike.value == pytest.approx(math.sqrt(6 / chi2.ppf(0.025, 6)))


@pytest.mark.parametrize(
    ("scores", "value", "floored"),
    [
        ([0.6, 0.6, 0.8, 0.8], 0.1 / math.sqrt(12), True),
        ([0.6, 0.6, 0.8, 0.9], 0.05, False),  # near miss: one repeat differs
    ],
)
def test_rounded_scores_have_a_floor(scores: list[float], value: float, floored: bool) -> None:
    found = estimate(sigma(scores, [0, 0, 1, 1], quantum=0.1))
    assert found.value == pytest.approx(value)
    assert found.low is not None
    assert found.low >= 0.1 / math.sqrt(12) - 1e-12
    assert any("floor" in said for said in found.diagnostics) is floored


def test_steps_scored_once_are_counted_and_not_used() -> None:
    found = estimate(sigma([0.5, 0.6, 0.1, 0.9], [0, 0, 1, 2]))
    assert (found.n, found.n_tasks) == (2, 1)
    assert "2 scores of steps scored once not used" in found.diagnostics


@pytest.mark.parametrize(
    ("scores", "steps", "kind"),
    [
        ([], [], "insufficient_data"),
        ([0.5], [0], "insufficient_data"),
        ([0.5, 0.6], [0, 1], "insufficient_data"),
        ([0.5, 0.5, 0.1 + 0.2, 0.3], [0, 0, 1, 1], "undefined"),
        ([0.5, math.nan], [0, 0], "missing_input"),
        ([1e308, -1e308, 0.0], [0, 0, 0], "undefined"),
    ],
)
def test_what_carries_no_sigma_is_unmeasured(
    scores: list[float], steps: list[int], kind: str
) -> None:
    found = sigma(scores, steps)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


@pytest.mark.parametrize("quantum", [0.0, -0.1, math.nan, math.inf])
def test_a_quantum_that_is_no_distance_is_refused(quantum: float) -> None:
    with pytest.raises(DataError, match="quantum"):
        sigma([0.5, 0.6], [0, 0], quantum=quantum)


def test_one_step_a_score_is_asked_for() -> None:
    with pytest.raises(DataError, match="one a value"):
        sigma([0.5, 0.6], [0])


def interval(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, method="", n=45, n_tasks=15)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (interval(0.04, 0.03, 0.06), "pass"),
        (interval(0.04, 0.03, 0.0601), "undecided"),
        (interval(0.08, 0.06, 0.09), "undecided"),
        (interval(0.08, 0.0601, 0.09), "fail"),
    ],
)
def test_the_upper_limit_decides_whether_a_judge_is_steady(found: Estimate, outcome: str) -> None:
    assert tolerable(found, limit=0.06).outcome == outcome


def test_undecided_names_the_design_that_would_decide() -> None:
    # chi2(.025, 22) / 22 = .4992, so .04 / .7066 = .0566; with 16: .04 / .657 = .0609.
    decision = tolerable(interval(0.04, 0.02, 0.2), limit=0.06)
    assert "9 steps, each scored 3 times, would decide" in decision.reason
    assert "each scored" not in tolerable(interval(0.07, 0.05, 0.2), limit=0.06).reason
    near = tolerable(interval(0.0595, 0.05, 0.2), limit=0.06)
    assert "even 100 steps" in near.reason


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(st.floats(allow_nan=True, allow_infinity=True), st.integers(0, 4)), max_size=20
    ),
    st.sampled_from([None, 0.1]),
)
def test_no_sigma_is_ever_not_finite_or_zero(
    rows: list[tuple[float, int]], quantum: float | None
) -> None:
    found = sigma([v for v, _ in rows], [s for _, s in rows], quantum=quantum)
    if isinstance(found, Estimate):
        assert found.low is not None
        assert found.high is not None
        assert 0 < found.value < math.inf
        assert 0 < found.low <= found.value <= found.high < math.inf
        assert tolerable(found).reason
