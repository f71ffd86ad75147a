from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from stepscope import stats
from stepscope.errors import DataError
from stepscope.values import Estimate, Unmeasured


def weighted(successes: npt.ArrayLike, probabilities: npt.ArrayLike, **more: object) -> Estimate:
    found = stats.weighted_proportion(successes, probabilities, **more)  # type: ignore[arg-type]
    assert isinstance(found, Estimate)
    return found


def test_a_run_counts_for_as_many_as_it_was_drawn_from() -> None:
    # 2 of 4 failing ones drawn at .1 stand for 20 runs, 1 of 4 drawn for certain for itself.
    found = weighted([1, 1, 0, 0, 1, 0, 0, 0], [0.1] * 4 + [1.0] * 4)
    assert found.value == pytest.approx(21 / 44)
    assert (found.n, found.n_tasks) == (8, 8)


def test_equal_chances_give_the_share_and_the_interval_without_weights() -> None:
    drawn = weighted([1, 0, 0, 1, 0, 1] * 5, [0.2] * 30, clusters=[0, 0, 1, 1, 2, 2] * 5)
    whole = stats.proportion([1, 0, 0, 1, 0, 1] * 5, [0, 0, 1, 1, 2, 2] * 5)
    assert isinstance(whole, Estimate)
    assert (drawn.value, drawn.low, drawn.high) == pytest.approx(
        (whole.value, whole.low, whole.high)
    )


def test_uneven_chances_leave_fewer_runs_worth_of_evidence() -> None:
    even = weighted([1, 0] * 20, [0.5] * 40)
    uneven = weighted([1, 0] * 20, [0.05, 0.05, 1.0, 1.0] * 10)
    assert even.low is not None
    assert uneven.low is not None
    assert uneven.low < even.low - 0.05


def test_a_few_heavy_runs_that_agree_are_not_taken_for_many() -> None:
    # Four runs stand for eighty: what they agree on is the word of some eight runs, not of forty.
    found = weighted([1] * 4 + [1] * 18 + [0] * 18, [0.05] * 4 + [1.0] * 36)
    assert found.value == pytest.approx(98 / 116)
    assert found.low is not None
    assert found.low < 0.5


def test_the_worst_case_weighs_what_was_lost() -> None:
    # 10 of 20 runs' weight fail; a lost run stands for 10 more.
    found = weighted([1, 0], [0.1, 0.1], lost=[0.1], unmeasured={"refused": 1})
    assert (found.worst_low, found.worst_high) == pytest.approx((1 / 3, 2 / 3))
    # A report is written as JSON, which has no numpy.
    assert type(found.worst_low) is type(found.worst_high) is float
    assert found.unmeasured == {"refused": 1}


def test_the_interval_covers_the_share_of_all_runs_under_an_uneven_draw() -> None:
    rng = np.random.default_rng(20261122)
    often = np.arange(1_000) < 250
    chance = np.where(often, 0.2, 0.06)
    hits = 0
    for _ in range(600):
        faults = rng.random(1_000) < np.where(often, 0.6, 0.1)
        drawn = rng.random(1_000) < chance
        found = weighted(faults[drawn], chance[drawn])
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= faults.mean() <= found.high
    assert 0.94 <= hits / 600 <= 1.0


def test_one_task_has_a_value_and_no_interval_and_no_run_is_unmeasured() -> None:
    one = stats.weighted_proportion([1, 0], [0.5, 0.25], [3, 3])
    none = stats.weighted_proportion([], [], unmeasured={"refused": 2})
    assert isinstance(one, Estimate)
    assert isinstance(none, Unmeasured)
    assert (one.value, one.no_interval, none.kind) == (1 / 3, "no interval: one task", "refused")


@pytest.mark.parametrize(
    ("successes", "chances", "lost"),
    [([1, 0], [0.0, 1.0], []), ([1, 0], [1.2, 1.0], []), ([1, 0], [0.5], []),
     ([1, 0.5], [0.5, 0.5], []), ([1, 0], [0.5, 0.5], [0.0]), ([1, 0], [float("nan"), 1.0], [])],
)  # fmt: skip
def test_what_is_no_draw_is_refused(
    successes: list[float], chances: list[float], lost: list[float]
) -> None:
    with pytest.raises(DataError):
        stats.weighted_proportion(successes, chances, lost=lost)
