"""The articles' classifiers give what the articles print, one run at a time and many at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from bars.shape.shape_references import LABELS, labels, sweep, twelve
from stepscope.errors import DataError
from stepscope.lab.curves import EXAMPLES
from stepscope.shape import articles
from stepscope.shape.articles import (
    find_break_point,
    find_break_point_many,
    signals_per_step,
    v1,
    v2,
    v3,
)
from stepscope.shape.types import SHAPES
from stepscope.stats.sample import Floats
from stepscope.values import Unmeasured
from tests.shape import transcribed

PAIRS = (
    (transcribed.v1, articles.v1_many),
    (transcribed.v2, articles.v2_many),
    (transcribed.v3, articles.v3_many),
)
One = Callable[[Sequence[float]], object]
Many = Callable[[Floats], articles.Codes]


def test_the_four_examples_get_the_published_labels() -> None:
    assert labels() == LABELS


def test_v1_sees_a_slope_of_a_count_not_of_intervals() -> None:
    early, late = EXAMPLES["early_collapse"][:3], EXAMPLES["late_drift"][6:]
    assert round((early[-1] - early[0]) / 3, 3) == -0.007
    assert round((late[-1] - late[0]) / 4, 4) == -0.1075
    # A fall of .44 over three points is -.147 by count and -.22 by interval: not below -.15.
    assert v1([0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.68, 0.46]) == "steady_degradation"
    assert v1([0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.68, 0.44]) == "late_drift"


def test_the_noise_sweep_is_within_the_simulation_error_of_the_published_one() -> None:
    cells = sweep(4_000, np.random.default_rng(0))
    assert len(cells) == 50
    assert [cell for cell in cells if not cell.agrees] == []


def test_the_reconstruction_gives_the_printed_scores_within_the_spread_between_seeds() -> None:
    cells = twelve(30)
    assert len(cells) == 14
    assert [cell for cell in cells if not cell.agrees] == []


@pytest.mark.parametrize(("one", "many"), PAIRS)
@pytest.mark.parametrize("tenths", [False, True])
def test_many_answers_are_the_answers_one_by_one(one: One, many: Many, tenths: bool) -> None:
    rng = np.random.default_rng(3)
    for n in (3, 4, 5, 7, 10, 21):
        # Drops of every size; tenths put many runs exactly on a threshold.
        scores = np.clip(0.8 + np.cumsum(rng.normal(0, 0.12, (3_000, n)), axis=1), 0, 1)
        scores = np.round(scores, 1) if tenths else scores
        found = [SHAPES[code] for code in many(scores)]
        assert found == [one(row) for row in scores.tolist()]
        assert len(set(found)) >= 3


@pytest.mark.parametrize("one", [v1, v2, v3])
@pytest.mark.parametrize(
    ("scores", "kind"),
    [
        ([], "insufficient_data"),
        ([0.5], "insufficient_data"),
        ([0.5, 0.5], "insufficient_data"),
        ([0.5, float("nan"), 0.5], "missing_input"),
        ([0.5, 0.5, float("inf")], "missing_input"),
    ],
)
def test_where_the_published_code_crashes_the_answer_is_unmeasured(
    one: One, scores: list[float], kind: str
) -> None:
    found = one(scores)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind
    assert one([0.5, 0.5, 0.5]) == "healthy"


@pytest.mark.parametrize("many", [many for _, many in PAIRS])
def test_columns_refuse_what_one_run_could_say_of_itself(many: Many) -> None:
    for scores in (np.zeros((4, 2)), np.zeros(4), np.full((2, 5), np.nan)):
        with pytest.raises(DataError):
            many(scores)
    assert many(np.zeros((0, 5))).shape == (0,)


@pytest.mark.parametrize(
    ("scores", "latency", "cost", "step"),
    [
        # The article's own six steps: "step 4", counted from one.
        (
            [0.82, 0.84, 0.82, 0.58, 0.6, 0.55],
            [1.2, 1.1, 1.2, 3.8, 2.0, 2.0],
            [1, 1, 1, 2, 2, 2],
            3,
        ),
        ([0.82, 0.84, 0.82, 0.58, 0.6, 0.55], None, None, 3),
        ([0.9] * 6, None, None, 1),  # a flat run breaks at step 1
        (EXAMPLES["healthy"], None, None, 1),
        (EXAMPLES["steady_degradation"], None, None, 8),  # no break exists
        (EXAMPLES["early_collapse"], None, None, 3),
        (EXAMPLES["recovery"], None, None, 3),
        ([0.9, 0.9, 0.9, 0.5, 0.9, 0.5], None, None, 3),  # two equal breaks, the first is told
        # The first third holds the break: its own mean hides the later steps, step 1 wins alone.
        ([0.9, 0.3, 0.3, 0.3, 0.3, 0.3], None, None, 1),
        # A quick step makes an ordinary one spike.
        ([0.9] * 6, [2.0, 2.0, 0.5, 2.0, 2.0, 2.0], None, 3),
    ],
)
def test_the_published_break_point_is_kept_with_its_faults(
    scores: Sequence[float],
    latency: Sequence[float] | None,
    cost: Sequence[float] | None,
    step: int,
) -> None:
    assert find_break_point(scores, latency, cost) == step


def test_the_articles_three_signals_are_four() -> None:
    found = signals_per_step(
        [0.82, 0.84, 0.82, 0.58, 0.6, 0.55], [1.2, 1.1, 1.2, 3.8, 2.0, 2.0], [1, 1, 1, 2, 2, 2]
    )
    assert found == (0, 0, 4, 1, 1)


@pytest.mark.parametrize(
    ("scores", "latency", "kind"),
    [
        ([0.9, 0.5], None, "insufficient_data"),
        ([0.9, 0.8, 0.7], [1.0, 0.0, 1.0], "undefined"),
        ([0.9, 0.8, 0.7], [1.0, 1.0], "missing_input"),
        ([0.9, 0.8, 0.7], [1.0, float("nan"), 1.0], "missing_input"),
        ([0.9, float("nan"), 0.7], None, "missing_input"),
    ],
)
def test_a_break_point_that_would_crash_is_unmeasured(
    scores: list[float], latency: list[float] | None, kind: str
) -> None:
    found = find_break_point(scores, latency)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


def test_a_last_latency_of_zero_divides_nothing() -> None:
    assert find_break_point([0.9, 0.8, 0.3], [1.0, 1.0, 0.0]) == 2


def test_many_break_points_are_those_one_by_one() -> None:
    rng = np.random.default_rng(8)
    for n in (3, 6, 10):
        scores = np.round(rng.random((500, n)), 1)
        assert find_break_point_many(scores).tolist() == [
            find_break_point(r) for r in scores.tolist()
        ]
    with pytest.raises(DataError):
        find_break_point_many(np.zeros((2, 2)))
