"""The bars of the classifier at small size: what holds at full size is not far off here."""

from __future__ import annotations

import numpy as np
import pytest

from bars.shape import coarse, fleet_shares, shape
from bars.shape._fleets import MIXES
from bars.shape._shape import WITHIN, Line
from stepscope.lab.curves import GENERATORS

# Standard errors that a figure of a small simulation may miss its bar by.
SLACK = 3.5


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_bars_hold_at_small_size(generator: str) -> None:
    pairs = shape.grid(300, (generator,), ns=(5, 7, 10))
    lines = [*shape.cells(pairs), *shape.worst(pairs)]
    # A worst cell of many is worse by chance alone: bars of single cells are looked at here.
    single = [line for line in lines if line.what != "calibration error, worst cell"]
    assert [line.text() for line in single if not line.holds(SLACK)] == []
    assert len(lines) >= 15


def test_examples_gradual_recoveries_and_compound_shapes_at_small_size() -> None:
    lines = [*shape.examples(), *shape.gradual(300), *shape.compound(300)]
    assert [line.text() for line in lines if not line.holds(SLACK)] == []


def test_correlated_errors_and_a_wrong_sigma_at_small_size() -> None:
    lines = [*shape.correlated(300, ("smooth",), (10,)), *shape.learned(300, ("smooth",))]
    assert [line.text() for line in lines if not line.holds(SLACK)] == []
    told = {line.what: line.ours for line in lines}
    gain = told["  learned from the fleet"] - told["half sigma told, lasting"]
    assert gain > 0


def test_repeats_give_the_same_bytes_and_mixed_lengths_an_answer_each() -> None:
    lines = list(shape.speed(5_000, repeats=2))
    assert [line.text() for line in lines if not line.holds()] == []


@pytest.mark.parametrize(
    ("ours", "verdict"), [(0.91, "holds"), (0.895, "at the bar"), (0.889, "MISSED")]
)
def test_a_line_is_missed_two_standard_errors_beyond_its_bar(ours: float, verdict: str) -> None:
    line = Line(what="macro F1", where="here", ours=ours, error=0.01, v3=0.8, least=0.91)
    assert line.text().endswith(f"0.800  >= 0.91   {verdict}")
    assert line.holds(WITHIN) is (verdict != "MISSED")


def test_a_line_without_a_bar_binds_nothing() -> None:
    assert Line(what="free", where="here", ours=9.0).holds()
    assert not Line(what="false", where="here", ours=0.02, most=0.01).holds()


def test_shares_hold_where_sigma_is_measured_and_curves_are_no_templates() -> None:
    rng = np.random.default_rng(4)
    pool = fleet_shares.make_pool("stories", 5, 0.08, rng)
    truth = np.array(MIXES["even"])
    now, before = zip(*fleet_shares.fleets(pool, "even", 1_000, 40, rng), strict=True)
    held = np.mean([(low <= truth) & (truth <= high) for low, high in now])
    alone = np.mean([(one[0] <= truth) & (truth <= one[1]) for one in before if one is not None])
    assert held >= 0.9
    assert alone < 0.8
    assert np.mean([high - low for low, high in now]) < 0.2


def test_coarse_scores_rows_left_out_and_unknown_noise_at_small_size() -> None:
    assert coarse.main(60) == 0
