"""Agreement against published numbers, and against other libraries on the same ratings."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bars.stats import agreement as bar
from stepscope.errors import DataError
from stepscope.stats.interrater import (
    CoefficientName,
    Metric,
    RatedItems,
    SharedWeights,
    agreement,
    category_shares,
)
from stepscope.values import Estimate, Unmeasured

# Krippendorff (2011): four observers, twelve units, 0 where one gave none.
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
    [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
]).T - 1  # fmt: skip
# Fleiss (1971), table 1: thirty patients, six psychiatrists, five diagnoses.
FLEISS = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006 10050 11040 03300 10050 02031
00501 30012 51000 02040 10203 00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
""".split()
# Gwet (2008): 125 people, two raters; yes/yes 118, yes/no 5, no/yes 2, no/no 0.
GWET = [[1, 1]] * 118 + [[1, 0]] * 5 + [[0, 1]] * 2
# Two raters of 30 items; coefficients of scikit-learn 1.8 and irrCAC 0.4.
FIRST = [2, 3, 0, 3, 1, 2, 2, 1, 3, 0, 1, 1, 2, 1, 0, 0, 0, 0, 0, 3, 0, 2, 3, 0, 1, 1, 1, 3, 0, 3]
SECOND = [2, 3, 0, 2, 1, 2, 2, 0, 3, 3, 3, 1, 3, 3, 0, 1, 0, 0, 0, 3, 0, 3, 3, 0, 2, 1, 1, 3, 0, 2]
TWO = np.column_stack([FIRST, SECOND])


def fleiss_rows() -> list[list[int]]:
    return [[k for k, often in enumerate(row) for _ in range(int(often))] for row in FLEISS]


def ask(
    ratings: object, name: CoefficientName, metric: Metric = "nominal", **more: object
) -> float:
    rng = np.random.default_rng(0)
    found = agreement(ratings, name, rng=rng, metric=metric, **more)  # type: ignore[arg-type]
    assert isinstance(found, Estimate)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high <= 1
    return found.value


@pytest.mark.parametrize(
    ("ratings", "name", "metric", "value"),
    [
        (KRIPPENDORFF, "alpha", "nominal", 0.743421),
        (KRIPPENDORFF, "alpha", "ordinal", 0.815388),
        (KRIPPENDORFF, "alpha", "quadratic", 0.849107),
        (KRIPPENDORFF, "gwet", "nominal", 0.77544),
        (KRIPPENDORFF, "gwet", "linear", 0.85874),
        (KRIPPENDORFF, "gwet", "quadratic", 0.91400),
        (KRIPPENDORFF, "fleiss", "nominal", 0.76117),
        (KRIPPENDORFF, "raw", "nominal", 0.81818),
        (fleiss_rows(), "fleiss", "nominal", 0.430245),
        (GWET, "kappa", "nominal", -0.023392),
        (GWET, "gwet", "nominal", 0.940777),
        (GWET, "pabak", "nominal", 0.888),
        (TWO, "kappa", "nominal", 0.552239),
        (TWO, "kappa", "linear", 0.654605),
        (TWO, "kappa", "quadratic", 0.726651),
        (TWO, "gwet", "nominal", 0.55774),
        (TWO, "fleiss", "nominal", 0.54887),
        (TWO, "alpha", "linear", 0.65669),
    ],
)
def test_a_coefficient_is_the_published_one(
    ratings: object, name: CoefficientName, metric: Metric, value: float
) -> None:
    assert ask(ratings, name, metric) == pytest.approx(value, abs=6e-6)


@pytest.mark.parametrize(
    ("ratings", "name", "kind"),
    [
        ([[1, 1]] * 9, "kappa", "undefined"),
        ([[1, 1]] * 9, "alpha", "undefined"),
        ([[0, 0]] * 9, "pabak", "undefined"),
        ([[0, 0]] * 9, "gwet", "undefined"),
        ([[1, -1]] * 9, "alpha", "insufficient_data"),
        (np.empty((0, 2), dtype=int), "kappa", "insufficient_data"),
    ],
)
def test_one_answer_throughout_or_no_pair_is_no_agreement_of_1(
    ratings: object, name: CoefficientName, kind: str
) -> None:
    found = agreement(ratings, name, rng=np.random.default_rng(0))  # type: ignore[arg-type]
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


def test_the_raw_share_of_constant_ratings_has_a_value_and_its_doubt() -> None:
    found = agreement([[1, 1]] * 9, "raw", rng=np.random.default_rng(0))
    assert isinstance(found, Estimate)
    assert found.value == 1
    assert found.low is not None
    assert 0.5 < found.low < 0.9


@pytest.mark.parametrize(
    ("ratings", "more", "said"),
    [
        ([[0, 1, 1]], {}, "kappa is of two raters, got 3"),
        ([[0, 1]], {"metric": "ordinal"}, "kappa has no ordinal form"),
        ([[0.5, 1]], {}, "no codes"),
        ([[-2, 1]], {}, "no codes"),
        ([0, 1], {}, "shape (2,)"),
        ([[0, 200]], {}, "201 categories"),
        ([[0, 3]], {"categories": 2}, "expected 4 to 128"),
        ([[0, 1]], {"clusters": [1, 2]}, "clusters have shape (2,)"),
        ([[0, 1]], {"level": 95}, "level is 95"),
    ],
)
def test_what_is_no_rating_is_refused_by_name(
    ratings: object, more: dict[str, object], said: str
) -> None:
    with pytest.raises(DataError, match=said.replace("(", r"\(").replace(")", r"\)")):
        agreement(ratings, rng=np.random.default_rng(0), **more)  # type: ignore[arg-type]


def test_items_of_one_run_are_weighed_together() -> None:
    """Ten runs whose five items say the same are ten witnesses, not fifty."""
    rng = np.random.default_rng(3)
    runs = np.repeat(TWO[:10], 5, axis=0)
    alone = agreement(runs, rng=rng)
    together = agreement(runs, rng=rng, clusters=np.repeat(np.arange(10), 5))
    assert isinstance(alone, Estimate)
    assert isinstance(together, Estimate)
    assert alone.value == together.value
    assert (alone.n_tasks, together.n_tasks) == (50, 10)
    width = [x.high - x.low for x in (alone, together) if x.high is not None and x.low is not None]
    assert width[1] > 1.8 * width[0]


def test_one_run_has_a_value_and_no_limits() -> None:
    found = agreement(TWO, rng=np.random.default_rng(0), clusters=[0] * 30)
    assert isinstance(found, Estimate)
    assert (found.low, found.high) == (None, None)
    assert found.no_interval == "no interval: one run"


def test_ten_thousand_runs_get_the_limits_of_the_jackknife_and_they_are_those_of_the_weights() -> (
    None
):
    rng = np.random.default_rng(1)
    ratings = np.tile(TWO, (400, 1))
    clusters = np.repeat(np.arange(6_000), 2)
    drawn = agreement(ratings, rng=rng, clusters=clusters, draws=1_000)
    closed = agreement(ratings, rng=rng, clusters=clusters)
    assert isinstance(drawn, Estimate)
    assert isinstance(closed, Estimate)
    assert (closed.low, closed.high) == pytest.approx((drawn.low, drawn.high), abs=0.003)


def test_a_category_that_nobody_used_counts_for_gwet() -> None:
    assert ask(GWET, "gwet", categories=3) == pytest.approx(0.942433, abs=1e-6)


def test_one_pair_that_differs_has_an_alpha_and_wide_limits() -> None:
    found = agreement([[0, 3], [1, -1]], "alpha", rng=np.random.default_rng(0))
    assert isinstance(found, Estimate)
    assert found.value == 0
    assert found.high is not None
    assert found.high > 0.6


codes = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=25)


@settings(max_examples=120)
@given(codes, st.sampled_from(["raw", "kappa", "fleiss", "alpha", "gwet", "pabak"]))
def test_whatever_the_ratings_a_number_or_a_reason_leaves(
    rows: list[tuple[int, int]], name: CoefficientName
) -> None:
    ratings = np.array(rows, dtype=np.int64).reshape(-1, 2)
    found = agreement(ratings, name, rng=np.random.default_rng(0), draws=50)
    if isinstance(found, Unmeasured):
        assert found.reason
        return
    assert math.isfinite(found.value)
    assert found.value <= 1 + 1e-12
    swapped = agreement(ratings[::-1, ::-1], name, rng=np.random.default_rng(0), draws=50)
    assert isinstance(swapped, Estimate)
    assert swapped.value == pytest.approx(found.value)


def test_the_use_of_categories_shows_bias_and_prevalence() -> None:
    shares = category_shares(GWET)
    assert shares.tolist() == [[2 / 125, 123 / 125], [5 / 125, 120 / 125]]


def test_the_intervals_hold_the_truth_at_small_size() -> None:
    rng = np.random.default_rng(0)
    found = [
        bar.cell(asked, bar.Raters((0.8, 0.2), 0.65, items), rng, 40)
        for asked in bar.NOMINAL[1:4]
        for items in bar.ITEMS
    ]
    assert sum(cell.held for cell in found) / len(found) >= 0.9


def test_shared_weights_give_every_figure_what_it_gets_alone() -> None:
    rng = np.random.default_rng(3)
    ratings, runs = rng.integers(0, 3, (120, 2)), np.repeat(np.arange(40), 3)
    weights = SharedWeights(np.random.default_rng(5))
    pair = RatedItems(ratings, weights, clusters=runs)
    few = RatedItems(ratings[:60], weights, clusters=runs[:60])
    for rated, n in ((pair, 120), (few, 60), (pair, 120)):
        for name in get_args(CoefficientName):
            alone = agreement(ratings[:n], name, rng=np.random.default_rng(5), clusters=runs[:n])
            assert rated.coefficient(name) == alone


def test_no_more_weights_are_held_than_one_figure_may_draw() -> None:
    weights = SharedWeights(np.random.default_rng(0))
    pseudo = np.ones(1)
    first, _ = weights.draw(1_000, np.ones(5_000), pseudo)
    assert weights.draw(1_000, np.ones(5_000), pseudo)[0] is first
    weights.draw(1_000, np.ones(5_001), pseudo)
    again, _ = weights.draw(1_000, np.ones(5_000), pseudo)
    assert again is not first
    assert np.array_equal(again, first)
