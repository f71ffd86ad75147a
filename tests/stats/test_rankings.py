"""Rank correlation against scipy's, and where it refuses a value."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.errors import DataError
from stepscope.stats import rank_correlation
from stepscope.values import Estimate, Unmeasured

FIRST = [0.1, 0.4, 0.4, 0.9, 0.7, 0.2, 0.5, 0.5, 1.0, 0.3]
SECOND = [0.2, 0.5, 0.3, 0.8, 0.8, 0.1, 0.6, 0.2, 0.9, 0.9]


def ask(first: object, second: object, clusters: object = None) -> Estimate | Unmeasured:
    return rank_correlation(first, second, clusters)  # type: ignore[arg-type]


def test_ties_share_their_rank_as_scipy_has_it() -> None:
    found = ask(FIRST, SECOND)
    assert isinstance(found, Estimate)
    # scipy.stats.spearmanr of the same ten pairs.
    assert found.value == pytest.approx(0.6000028402568539)
    # Fisher's limits alone would be -.05 to .89.
    assert found.low is not None
    assert found.high is not None
    assert -1 < found.low <= -0.04
    assert 0.89 <= found.high < 1


def test_items_of_one_run_are_weighed_together() -> None:
    rows = [x for x in FIRST for _ in range(5)], [y for y in SECOND for _ in range(5)]
    alone, together = ask(*rows), ask(*rows, np.repeat(np.arange(10), 5))
    assert isinstance(alone, Estimate)
    assert isinstance(together, Estimate)
    assert alone.value == pytest.approx(together.value)
    assert (alone.n_tasks, together.n_tasks) == (50, 10)
    width = [x.high - x.low for x in (alone, together) if x.high is not None and x.low is not None]
    assert width[1] > 1.8 * width[0]


@pytest.mark.parametrize(
    ("first", "second", "clusters", "kind"),
    [
        ([1.0] * 5, SECOND[:5], None, "undefined"),
        (FIRST[:5], [0.5] * 5, None, "undefined"),
        (FIRST[:3], SECOND[:3], None, "insufficient_data"),
        (FIRST, SECOND, [0] * 10, "insufficient_data"),
        ([], [], None, "insufficient_data"),
        ([1.0, float("nan"), 2.0, 3.0], SECOND[:4], None, "missing_input"),
    ],
)
def test_no_order_or_no_spread_is_no_correlation(
    first: object, second: object, clusters: object, kind: str
) -> None:
    found = ask(first, second, clusters)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


def test_a_perfect_order_has_a_value_and_no_limits() -> None:
    found = ask([1, 2, 3, 4], [10, 20, 30, 40])
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == (1.0, None, None)


def test_other_items_are_refused() -> None:
    with pytest.raises(DataError, match="expected the same items"):
        ask([1, 2, 3, 4], [1, 2, 3])
