"""The bars of breaks, shares and sigma, at small size."""

from __future__ import annotations

from itertools import islice

import numpy as np

from bars import breaks, prevalence, sigma
from bars._fleets import corners


def test_break_points_beat_the_articles_and_healthy_runs_have_none_at_small_size() -> None:
    (row,) = islice(breaks.rows(60, ("smooth",)), 1)
    assert (row.sigma, row.signals) == (0.05, "near")
    assert row.within_one[0] >= 0.9
    assert row.within_one[0] >= row.within_one[2]
    assert row.covers >= 0.85
    assert max(row.false) <= 0.1
    assert row.article_signals >= 0.8


def test_shares_hold_the_truth_at_small_size() -> None:
    rng = np.random.default_rng(0)
    for design in ((50, 1, 0.0), (25, 4, 0.9)):
        found = prevalence.held(rng, 30, corners(3.0, 500), "usual", design)
        assert sum(found) / 5 >= 0.9
        assert min(found) >= 0.75


def test_fleets_alike_raise_few_alarms_at_small_size() -> None:
    found = {name: share for name, share, _ in prevalence.alarms(40)}
    assert sum(share for name, share in found.items() if "power" not in name) / 5 <= 0.12
    assert found["power: 15 points moved, 150 a side"] >= 0.5


def test_sigma_is_held_at_small_size() -> None:
    rng = np.random.default_rng(0)
    row = sigma.cell(rng, 150, kind="normal", design=(15, 3), truth=0.05)
    assert row.held >= 0.9
    rough = sigma.cell(rng, 150, kind="beyond: unlike steps", design=(15, 3), truth=0.05)
    assert rough.held >= rough.plain + 0.1
