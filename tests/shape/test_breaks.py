"""Where a run broke, by scores, latency and cost; "no break" is an answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from stepscope.errors import DataError
from stepscope.shape.articles import find_break_point
from stepscope.shape.breaks import (
    COST,
    LATENCY,
    SpikeModel,
    _steps_that_hold,
    break_point,
    fuse_signals,
    log_ratio,
    spiking_steps,
)
from stepscope.shape.classifier import classify
from stepscope.shape.types import Break, Shape
from stepscope.values import Unmeasured

FLAT = [0.85, 0.87, 0.84, 0.86, 0.88, 0.85, 0.86, 0.87, 0.85, 0.88]
COLLAPSE = [0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58]


def broke(found: Break | Unmeasured) -> Break:
    assert isinstance(found, Break)
    return found


@pytest.mark.parametrize(
    ("kind", "value"),
    [(LATENCY, 1.0), (LATENCY, 1.9), (LATENCY, 2.34), (COST, 1.0), (COST, 1.5)],
)
def test_a_spike_weighs_what_the_two_mixtures_of_normals_say(
    kind: SpikeModel, value: float
) -> None:
    # Logs of the others are 0, .2 and -.2 about a median of 0: their MAD is .2, their sd .297.
    values = np.exp(np.array([0.0, 0.2, -0.2, 0.2, -0.2, 0.0, 0.2, -0.2, np.log(value)]))
    logs = np.log(values) - np.median(np.log(values))
    sd = 1.4826 * np.median(np.abs(logs))
    high = norm.pdf(logs[-1], kind.height, math.hypot(sd, kind.spread))
    low = norm.pdf(logs[-1], 0, sd)
    at, away = (q * high + (1 - q) * low for q in (kind.at_break, kind.elsewhere))
    assert log_ratio(values, kind)[-1] == pytest.approx(np.clip(np.log(at / away), -1, 4))


def test_one_source_cannot_say_more_than_its_limits() -> None:
    values = np.array([1.0, 1.0, 1.0, 1.0, 1e9, 1e-9])
    assert log_ratio(values, LATENCY).tolist() == pytest.approx([-1, -1, -1, -1, 2.639057, -1])
    sure = SpikeModel(at_break=0.99, elsewhere=0.001, height=1.0, spread=0.5)
    assert log_ratio(np.array([1.0, 1.0, 1.0, 1.0, 2.7]), sure)[-1] == 4.0


def test_a_spike_moves_the_break_by_bayes_rule_over_steps_and_none() -> None:
    # Log ratios: -1 at ordinary steps and ln(.7/.05) = 2.639 at step 3, which is beyond doubt.
    latency = [1.0, 1.0, 1.0, 30.0, 1.0]
    found = fuse_signals([0, 0, 0.4, 0.1, 0], [0.9, 0.9, 0.6, 0.5, 0.5], latency=latency)
    ordinary, spike, none = 0.4 * math.exp(-1), 0.1 * 14, 0.5
    total = ordinary + spike + none
    assert found.probability == pytest.approx((0, 0, ordinary / total, spike / total, 0))
    assert found.none == pytest.approx(none / total)
    assert (found.step, found.first, found.last) == (3, 3, 3)
    assert found.sources == ("scores", "latency")


def test_scores_alone_are_the_classifiers_own_posterior() -> None:
    shape = classify(COLLAPSE, sigma=0.05)
    assert isinstance(shape, Shape)
    found = broke(break_point(COLLAPSE, sigma=0.05))
    assert found.probability == pytest.approx(shape.break_.probability)
    assert (found.step, found.first, found.last) == (3, 3, 3)
    assert found.sources == ("scores",)


def test_a_good_run_has_no_break_where_the_articles_rule_names_one() -> None:
    latency = [1.0, 1.1, 0.9, 3.6, 1.0, 1.2, 1.1, 0.9, 1.0, 1.1]
    found = broke(break_point(FLAT, sigma=0.05, latency=latency, cost=latency))
    assert found.step is None
    assert found.none > 0.9
    assert (found.first, found.last) == (None, None)
    assert found.watch == (3,)
    assert find_break_point(FLAT, latency, latency) == 3


def test_the_step_of_three_agreeing_signals_is_the_break() -> None:
    # The articles' summariser: a drop from .82 to .58, 1.2 to 3.8 seconds, twice the tokens.
    scores = [0.85, 0.84, 0.82, 0.58, 0.6, 0.57]
    found = broke(
        break_point(
            scores,
            sigma=0.05,
            latency=[1.1, 1.3, 1.2, 3.8, 1.4, 1.2],
            cost=[400, 420, 410, 820, 450, 430],
        )
    )
    assert found.step == find_break_point(scores) == 3
    assert found.none < 0.01
    assert found.watch == ()


@pytest.mark.parametrize(
    ("scores", "latency", "watch"),
    [
        (FLAT, [1, 1, 1, 1, 4, 1, 1, 1, 1, 1], (4,)),
        (FLAT, [4, 1, 1, 1, 1, 1, 1, 1, 1, 1], (0,)),
        (FLAT, [1, 1, 1.2, 1, 1.5, 1.2, 0.8, 0.9, 1, 1.1], ()),  # near miss: an ordinary spread
        ([*FLAT[:4], None, *FLAT[5:]], [1, 1, 1, 1, 4, 1, 1, 1, 1, 1], ()),  # nobody scored it
        ([*FLAT[:4], 0.68, *FLAT[5:]], [1, 1, 1, 1, 4, 1, 1, 1, 1, 1], ()),  # it does not hold
        (COLLAPSE, [1, 1, 1, 4, 1, 1, 1, 4, 1, 1], (7,)),  # the break itself is not watched
    ],
)
def test_steps_that_spike_while_the_score_holds_are_watched(
    scores: list[float | None], latency: list[float], watch: tuple[int, ...]
) -> None:
    assert broke(break_point(scores, sigma=0.05, latency=latency)).watch == watch


@pytest.mark.parametrize(
    ("probability", "drop", "watch"),
    [
        (0.0, 0.10, (4,)),
        (0.0, 0.20, ()),  # the score does not hold, whoever calls it a break
        (0.3, 0.10, ()),  # it may well be the break of a slow drop
    ],
)
def test_neither_a_drop_nor_a_likely_break_is_watched(
    probability: float, drop: float, watch: tuple[int, ...]
) -> None:
    scores = [0.9] * 4 + [0.9 - drop] * 6
    chances = [0.0] * 4 + [probability] + [0.0] * 5
    assert fuse_signals(chances, scores, latency=[1, 1, 1, 1, 4, 1, 1, 1, 1, 1]).watch == watch


@pytest.mark.parametrize("nothing", [0.0, -1.0, None, math.nan, math.inf])
def test_a_value_that_is_no_duration_says_nothing(nothing: float | None) -> None:
    rest: list[float | None] = [1.0, 1.1, 0.9, 1.0, 1.0, 1.2, 1.1, 0.9, 1.0]
    found = fuse_signals([0.1, 0.2] + [0.0] * 8, FLAT, latency=[nothing, *rest])
    # Step 0 keeps its weight; step 1 is ordinary and loses a factor e.
    assert found.probability[0] / found.probability[1] == pytest.approx(0.5 * math.e, rel=0.01)


def test_fewer_than_four_values_are_not_a_source() -> None:
    few = [1.0, None, 9.0, None, 1.0, None, None, None, None, None]
    assert broke(break_point(FLAT, sigma=0.05, latency=few)).sources == ("scores",)
    enough = [1.0, None, 9.0, None, 1.0, None, 1.0, None, None, None]
    assert broke(break_point(FLAT, sigma=0.05, latency=enough)).sources == ("scores", "latency")


@pytest.mark.parametrize(
    "scores", [[], [0.5], [0.5] * 3, [math.nan] * 6, [None] * 6, [0.9, 2.0, 0.5, 0.5]]
)
def test_scores_without_a_shape_have_no_break(scores: list[float | None]) -> None:
    found = break_point(scores, sigma=0.05, latency=[1.0] * len(scores))
    assert isinstance(found, Unmeasured)
    assert found.reason


@pytest.mark.parametrize(
    ("latency", "said"), [([1.0] * 9, r"expected \(10,\)"), (["fast"] * 10, "not numbers")]
)
def test_columns_that_make_no_sense_are_refused(latency: list[float], said: str) -> None:
    with pytest.raises(DataError, match=said):
        break_point(FLAT, sigma=0.05, latency=latency)


def test_an_ordinary_value_after_a_quick_one_is_no_spike() -> None:
    values = np.array([1.0, 1.1, 0.4, 1.0, 0.9, 1.0])
    assert not spiking_steps(values, LATENCY).any()
    assert values[3] / values[2] > 1.5


@pytest.mark.parametrize("at", [3, 4, 5, 6])
def test_the_break_moves_with_the_step_at_which_scores_and_latency_move(at: int) -> None:
    scores = [0.9] * at + [0.5] * (10 - at)
    latency = [3.0 if i == at else 1.0 for i in range(10)]
    assert broke(break_point(scores, sigma=0.05, latency=latency)).step == at


anything = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(0, 1)
rows = st.integers(0, 9).flatmap(
    lambda n: st.tuples(*(st.lists(anything, min_size=n, max_size=n) for _ in range(3)))
)


@settings(max_examples=60)
@given(rows)
def test_probabilities_are_finite_and_sum_to_one(
    columns: tuple[list[float | None], list[float | None], list[float | None]],
) -> None:
    scores, latency, cost = columns
    found = break_point(scores, sigma=0.08, latency=latency, cost=cost)
    if isinstance(found, Break):
        assert all(0 <= p <= 1 for p in (*found.probability, found.none))
        assert sum(found.probability) + found.none == pytest.approx(1)


def test_a_step_holds_unless_it_falls_below_the_last_measured_one() -> None:
    held = _steps_that_hold(np.array([0.3, 0.9, np.nan, 0.8, 0.6]))
    assert held.tolist() == [True, True, False, True, False]
