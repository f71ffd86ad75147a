from __future__ import annotations

import numpy as np

from stepscope.stats import median_ratio
from stepscope.values import Estimate, Unmeasured


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_ratio_is_that_of_the_medians_on_shared_cases_only() -> None:
    # shared: a, b, c; medians 4 and 6
    found = median_ratio(
        [2, 4, 9, 1000], ["a", "b", "c", "gone"], [6, 5, 7, 0.1], ["a", "b", "c", "new"], rng=rng()
    )
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high, found.n) == (1.5, None, None, 3)
    assert found.diagnostics == ("no interval: below 20 cases",)


def test_an_even_count_takes_the_middle_of_two() -> None:
    cases = [0, 0, 1, 1]
    found = median_ratio([1, 2, 4, 9], cases, [3, 3, 3, 3], cases, rng=rng())
    assert isinstance(found, Estimate)
    assert found.value == 1.0


def test_nothing_to_compare_with_is_unmeasured() -> None:
    zero = median_ratio([0, 0], ["a", "b"], [1, 2], ["a", "b"], rng=rng())
    apart = median_ratio([1], ["a"], [1], ["b"], rng=rng())
    assert isinstance(zero, Unmeasured)
    assert isinstance(apart, Unmeasured)
    assert (zero.kind, apart.kind) == ("undefined", "insufficient_data")


def test_the_interval_covers_the_ratio_that_was_planted() -> None:
    draw, covered, cases = np.random.default_rng(3), 0, np.repeat(np.arange(40), 2)
    for _ in range(400):
        own = draw.lognormal(3, 0.6, 40).repeat(2)
        before, after = own * draw.lognormal(0, 0.3, 80), 1.2 * own * draw.lognormal(0, 0.3, 80)
        found = median_ratio(before, cases, after, cases, rng=rng(), level=0.9, draws=400)
        assert isinstance(found, Estimate)
        covered += (found.low or 0) <= 1.2 <= (found.high or 9)
    assert 0.86 <= covered / 400 <= 0.97
