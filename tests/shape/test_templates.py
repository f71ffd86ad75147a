"""The templates: their number, their forms, and what may be asked of them."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.errors import DataError
from stepscope.shape.templates import LONGEST, SHORTEST, make_templates, ramp, two_stage_templates
from stepscope.shape.types import EARLY_COLLAPSE, HEALTHY, LATE_DRIFT, RECOVERY, SHAPES


def test_the_shapes_are_these_in_this_order() -> None:
    assert SHAPES == (
        "healthy",
        "early_collapse",
        "late_drift",
        "steady_degradation",
        "recovery",
    )


@pytest.mark.parametrize(
    ("n", "by_shape"),
    [
        (4, [2, 2, 9, 3, 10]),
        (5, [2, 4, 9, 3, 26]),
        (10, [2, 12, 33, 3, 246]),
    ],
)
def test_a_bank_has_so_many_templates_of_each_shape(n: int, by_shape: list[int]) -> None:
    assert np.bincount(make_templates(n).shape, minlength=5).tolist() == by_shape


@pytest.mark.parametrize("n", [4, 5, 11, 40])
def test_weights_of_each_shape_sum_to_one(n: int) -> None:
    made = make_templates(n)
    sums = np.bincount(made.shape, weights=np.exp(made.log_weight))
    assert sums == pytest.approx(np.ones(5))


def test_templates_of_a_shape_are_together() -> None:
    assert (np.diff(make_templates(12).shape.astype(int)) >= 0).all()


@pytest.mark.parametrize("n", [4, 7, 10, 23])
def test_a_break_before_the_middle_is_early_and_from_the_middle_on_late(n: int) -> None:
    made = make_templates(n)
    early, late = made.onset[made.shape == EARLY_COLLAPSE], made.onset[made.shape == LATE_DRIFT]
    assert set(early.tolist()) == set(range(1, (n + 1) // 2))
    assert set(late.tolist()) == set(range((n + 1) // 2, n))


@pytest.mark.parametrize("n", [5, 10, 20])
def test_every_form_starts_whole_and_half_of_the_drop_is_where_it_says(n: int) -> None:
    made = make_templates(n)
    for k in np.flatnonzero(made.half_drop >= 0):
        fallen = -made.f[k]
        assert (fallen[: made.onset[k]] == 0).all()
        assert fallen[made.onset[k]] > 0
        assert fallen[made.half_drop[k]] >= 1 / 3
        if made.half_drop[k] > made.onset[k]:
            assert fallen[made.half_drop[k] - 1] < 0.5


def test_a_recovery_has_won_back_its_share_by_the_last_step() -> None:
    made = make_templates(10)
    last = made.f[made.shape == RECOVERY][:, -1]
    assert set(np.round(last, 6).tolist()) == {-0.25, -0.05}


def test_before_a_late_drop_runs_hold_rise_or_start_slowly() -> None:
    made = make_templates(8)
    drops = made.offset[(made.shape == LATE_DRIFT) & (made.onset == 7)]
    assert drops[0].tolist() == [0.0] * 8
    assert drops[1].round(4).tolist() == [
        *(-0.2, -0.1667, -0.1333, -0.1, -0.0667, -0.0333),
        *(0.0, 0.0),
    ]
    assert drops[2].round(4).tolist() == [-0.28, -0.28, -0.2133, -0.08, 0.0, 0.0, 0.0, 0.0]


def test_healthy_templates_have_no_break_and_no_trough() -> None:
    made = make_templates(8)
    healthy = made.shape == HEALTHY
    assert made.half_drop[healthy].tolist() == [-1, -1]
    assert made.trough[healthy].tolist() == [0, 0]
    assert made.offset[healthy].round(4).tolist()[1] == [
        *(-0.2, -0.1714, -0.1429, -0.1143),
        *(-0.0857, -0.0571, -0.0286, 0.0),
    ]


@pytest.mark.parametrize("n", [-1, 0, 3, LONGEST + 1])
def test_a_bank_of_too_few_or_too_many_steps_is_refused(n: int) -> None:
    with pytest.raises(DataError, match=f"a bank of {n} steps; expected 4 to 40"):
        make_templates(n)


def test_templates_cannot_be_changed_by_who_asks() -> None:
    with pytest.raises(ValueError, match="read-only"):
        make_templates(SHORTEST).f[0] = 0.0


def test_a_ramp_reaches_one_after_its_width() -> None:
    assert ramp(6, [1, 2], [1, 4]).tolist() == [
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 0.25, 0.5, 0.75, 1.0],
    ]


def test_two_stages_hold_for_two_steps_or_more_between_their_drops() -> None:
    for form in -two_stage_templates(9).f:
        drops = np.flatnonzero(np.diff(form, prepend=0.0) > 0)
        assert len(drops) == 2
        assert drops[1] - drops[0] >= 2
        assert form[-1] == pytest.approx(1.0)
