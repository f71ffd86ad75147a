"""The bar of counts a run at small size."""

from __future__ import annotations

from bars.stats import rates


def test_limits_of_counts_hold_and_are_narrower_for_rare_events() -> None:
    found = {point: (held, ratio) for point, held, _, ratio in rates.cells(400)}
    assert min(held for held, _ in found.values()) > 0.90
    assert found["5 x 4, rate 0.1, unlike tasks"][1] <= 0.8
    assert max(ratio for _, ratio in found.values()) <= 1.2
