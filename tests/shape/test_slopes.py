"""Slopes of the thirds of a run."""

from __future__ import annotations

import math

import pytest

from stepscope.shape.breaks import third_slopes
from stepscope.shape.types import Slopes
from stepscope.values import Unmeasured

A = [0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58]
B = [0.60, 0.58, 0.62, 0.78, 0.82, 0.85, 0.88, 0.87, 0.55, 0.45]


@pytest.mark.parametrize(
    ("scores", "early", "mid", "late"),
    [
        (A, -0.01, -0.01, -0.01),
        (B, 0.01, 0.035, -0.43 / 3),  # the last is what the third version compares with -.12
        ([0.0, 0.1, 0.5, 0.4, 0.0, 0.3], 0.1, -0.1, 0.3),
    ],
)
def test_a_slope_is_the_change_a_step_between_the_ends_of_its_third(
    scores: list[float], early: float, mid: float, late: float
) -> None:
    found = third_slopes(scores)
    assert isinstance(found, Slopes)
    assert (found.early, found.mid, found.late) == pytest.approx((early, mid, late))


def test_a_missing_end_moves_to_the_next_score() -> None:
    found = third_slopes([None, 0.5, 0.7, 0.1, math.nan, 0.5, 0.9, 0.8, 0.6])
    assert isinstance(found, Slopes)
    assert (found.early, found.mid, found.late) == pytest.approx((0.2, 0.2, -0.15))


@pytest.mark.parametrize(
    ("scores", "third"),
    [
        ([], "early"),
        ([0.5], "early"),
        ([0.5] * 5, "early"),
        ([0.1, 0.2, 0.3, None, 0.5, 0.6], "middle"),
        ([0.1, 0.2, 0.3, 0.4, math.inf, 0.6], "late"),
        ([-1e308, 1e308, 0.3, 0.4, 0.5, 0.6], "early"),
    ],
)
def test_a_third_with_one_score_has_no_slope_and_is_not_flat(
    scores: list[float | None], third: str
) -> None:
    found = third_slopes(scores)
    assert isinstance(found, Unmeasured)
    assert third in found.reason
