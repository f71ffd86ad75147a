"""Weights of steps, and the gate rule beside their mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from stepscope.errors import DataError
from stepscope.shape.weights import gate_failed, weighted_score
from stepscope.values import Unmeasured

SCORES = [0.30, 0.85, 0.80, 0.88, 0.82, 0.90, 0.91]
WEIGHTS = [3, 2, 3, 2, 1, 1, 1]


def rule(found: tuple[int, ...] | Unmeasured) -> tuple[int, ...]:
    assert not isinstance(found, Unmeasured)
    return found


def test_the_articles_weighted_mean_is_722_and_not_64() -> None:
    assert weighted_score(SCORES, WEIGHTS) == pytest.approx(9.39 / 13)


def test_a_failed_gate_fails_the_run_whatever_the_mean() -> None:
    assert gate_failed(SCORES, WEIGHTS) == (0,)


@pytest.mark.parametrize(
    ("scores", "sigma", "failed"),
    [
        ([0.59, 0.9], None, (0,)),
        ([0.60, 0.9], None, ()),  # near miss: on the floor
        ([0.9, 0.2], None, ()),  # low, but of weight 1
        ([0.50, 0.9], 0.05, (0,)),  # .50 + 1.645 * .05 = .582
        ([0.52, 0.9], 0.05, ()),  # .602: noise may explain it
        ([0.52, 0.9], 0.0, (0,)),
        ([None, 0.9], None, ()),
        ([math.nan, 0.9], 0.05, ()),
    ],
)
def test_a_critical_step_fails_by_its_upper_limit_where_sigma_is_known(
    scores: list[float | None], sigma: float | None, failed: tuple[int]
) -> None:
    assert gate_failed(scores, [3, 1], sigma=sigma) == failed


def test_critical_steps_share_the_chance_of_a_false_alarm() -> None:
    # Two critical steps: z = 1.96 each.
    assert gate_failed([0.5, 0.5], [3, 3], sigma=0.051) == (0, 1)
    assert gate_failed([0.5, 0.5], [3, 3], sigma=0.052) == ()
    # The upper limit is .598.
    assert gate_failed([0.5], [3], sigma=0.05, alpha=0.025, floor=0.5979) == ()
    assert gate_failed([0.5], [3], sigma=0.05, alpha=0.025, floor=0.5981) == (0,)


def test_noise_alone_fails_few_runs_however_many_gates_they_have() -> None:
    rng = np.random.default_rng(0)
    for gates in (1, 5):
        scores = 0.6 + rng.normal(0, 0.08, (4000, gates))
        share = np.mean([rule(gate_failed(r, [3] * gates, sigma=0.08)) != () for r in scores])
        assert share <= 0.06
        assert share >= 0.035


@pytest.mark.parametrize(
    ("scores", "weights", "kind"),
    [
        ([], [], "insufficient_data"),
        ([0.5, None], [1, 2], "missing_input"),
        ([math.nan, 0.5], [3, 2], "missing_input"),
        ([1e308] * 9, [3] * 9, "undefined"),
    ],
)
def test_a_mean_that_would_pass_over_a_step_is_unmeasured(
    scores: list[float | None], weights: list[int], kind: str
) -> None:
    found = weighted_score(scores, weights)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


def test_without_a_step_of_weight_three_there_is_no_gate() -> None:
    found = gate_failed([0.1, 0.1], [2, 1])
    assert isinstance(found, Unmeasured)
    assert found.kind == "not_applicable"


@pytest.mark.parametrize(
    ("scores", "weights", "sigma", "said"),
    [
        ([0.5], [1, 2], None, "2 weights for 1 steps"),
        ([0.5], [0], None, "weight of step 0 is 0"),
        ([0.5], [2.5], None, "expected 1, 2 or 3"),
        ([0.5], [3], -0.1, "sigma is -0.1"),
    ],
)
def test_weights_and_sigmas_that_make_no_sense_are_refused(
    scores: list[float], weights: list[float], sigma: float | None, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        gate_failed(scores, weights, sigma=sigma)
