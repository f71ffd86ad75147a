"""Rank flips: which pairs of agents outcome and path are shown to order differently."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from bars.stats import rank_flips as bar
from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats import FigureRuns
from stepscope.stats.sample import Floats
from stepscope.values import Estimate, Flip, RankFlips, Unmeasured


def runs(values: object, lost: int = 0) -> FigureRuns:
    """Return a run a case."""
    figure: Floats = np.asarray(values, np.float64)
    return FigureRuns(values=figure, cases=np.arange(len(figure)), unmeasured={"error": lost})


def first_of(n: int, of: int) -> FigureRuns:
    return runs([1.0] * n + [0.0] * (of - n))


def flips(
    outcome: list[FigureRuns], figures: dict[str, list[FigureRuns]], *fewer: str
) -> tuple[Flip, ...]:
    found = stats.rank_flips(
        list("abcdefgh")[: len(outcome)],
        outcome,
        figures,
        fewer_is_better=fewer,
        units={"calls": "calls"},
        rng=np.random.default_rng(0),
    )
    assert isinstance(found, RankFlips)
    return found.flips


def one_sided(n: int) -> float:
    """Return the exact one-sided p of n cases that all differ in one way."""
    return 0.5**n


def test_a_flip_has_the_larger_of_two_one_sided_p_and_both_effects() -> None:
    outcome = [first_of(0, 40), first_of(12, 40)]
    figures = {"faults": [first_of(0, 40), first_of(10, 40)]}
    (flip,) = flips(outcome, figures, "faults")
    assert (flip.first, flip.second, flip.figure) == ("b", "a", "faults")
    assert isinstance(flip.outcome, Estimate)
    assert isinstance(flip.path, Estimate)
    assert (flip.outcome.value, flip.path.value, flip.path.n) == (12 / 40, 10 / 40, 40)
    assert (flip.p, flip.p_adjusted) == (one_sided(10), one_sided(10))


@pytest.mark.parametrize(
    ("fewer", "ahead", "flipped"),
    [(True, 12, True), (False, 12, False), (True, 0, False), (False, 0, True)],
)
def test_what_is_better_in_a_figure_decides(*, fewer: bool, ahead: int, flipped: bool) -> None:
    outcome = [first_of(0, 40), first_of(12, 40)]
    figures = {"f": [first_of(12 - ahead, 40), first_of(ahead, 40)]}
    assert bool(flips(outcome, figures, *("f",) * fewer)) == flipped


@pytest.mark.parametrize(("outcome", "path"), [(5, 12), (12, 5)])
def test_both_orders_must_be_shown(outcome: int, path: int) -> None:
    # .5^5 is above .025, .5^6 is not
    def found(first: int, second: int) -> tuple[Flip, ...]:
        fleets = [first_of(0, 40), first_of(first, 40)]
        return flips(fleets, {"f": [first_of(0, 40), first_of(second, 40)]}, "f")

    assert not found(outcome, path)
    assert found(max(outcome, 6), max(path, 6))


def test_holm_is_over_the_figures_and_the_outcome_is_their_gate() -> None:
    fleets = [first_of(0, 40), first_of(6, 40)]
    figures = {
        "clear": [first_of(0, 40), first_of(8, 40)],
        "weak": [first_of(0, 40), first_of(6, 40)],
        "alike": [first_of(9, 40), first_of(9, 40)],
    }
    (flip,) = flips(fleets, figures, *figures)
    # 3 times .5^8 is below the p of the outcome; 2 times .5^6 is above .025
    assert (flip.figure, flip.p, flip.p_adjusted) == ("clear", 0.5**6, 0.5**6)
    (flip,) = flips([first_of(0, 40), first_of(9, 40)], figures, *figures)
    assert (flip.figure, flip.p, flip.p_adjusted) == ("clear", 0.5**8, 3 * 0.5**8)


def test_every_pair_that_is_compared_counts() -> None:
    outcome = [first_of(0, 40), first_of(7, 40), first_of(7, 40)]
    figures = {"f": [first_of(0, 40), first_of(7, 40), first_of(0, 40)]}
    (flip,) = flips(outcome, figures, "f")
    assert (flip.first, flip.second, flip.p_adjusted) == ("b", "a", 3 * 0.5**7)
    outcome[1], figures["f"][1] = first_of(6, 40), first_of(6, 40)
    assert not flips(outcome, figures, "f")  # 3 times .5^6 is above .025


def test_a_figure_on_the_side_of_the_outcome_is_no_flip_whatever_its_p() -> None:
    # One value of 101 is 1 in a case, and .0001 in another: the first has the one, the second the
    # other, so that the first is ahead, and all but 2 % of the hand-outs put it further ahead.
    cases = np.repeat(np.arange(2), [100, 100])
    first = np.zeros(200)
    first[0] = 1.0
    ahead = FigureRuns(values=first, cases=cases, unmeasured={})
    behind = FigureRuns(values=np.array([0.0, 1e-4]), cases=np.arange(2), unmeasured={})
    fleets = [first_of(12, 40), first_of(0, 40)]
    assert flips(fleets, {"f": [ahead, behind]}) == ()


def test_trials_of_a_case_are_permuted_within_it() -> None:
    # 4 of 4 against 0 of 4 in one case: 1 of 70 hand-outs; 8 of 8 in two cases with runs of 1 : 0
    cases = np.repeat(np.arange(2), 4)
    high = FigureRuns(values=np.ones(8), cases=cases, unmeasured={})
    low = FigureRuns(values=np.zeros(8), cases=cases, unmeasured={})
    (flip,) = flips([low, high], {"f": [low, high]}, "f")
    assert flip.p == pytest.approx(comb(8, 4) ** -2)


def test_a_figure_is_judged_on_the_cases_that_both_have() -> None:
    fleets = [first_of(0, 40), first_of(12, 40)]
    left = FigureRuns(values=np.zeros(9), cases=np.arange(9), unmeasured={"error": 2})
    right = FigureRuns(values=np.full(20, 5.0), cases=np.arange(20), unmeasured={"error": 3})
    (flip,) = flips(fleets, {"calls": [left, right]}, "calls")
    # Every case differs by 5: no interval, and the flip stands.
    assert isinstance(flip.path, Estimate)
    assert (flip.path.value, flip.path.no_interval) == (
        *(5.0, "no interval: the difference is the same in all 9 tasks"),
    )
    uneven = FigureRuns(values=np.arange(9.0), cases=np.arange(9), unmeasured={"error": 2})
    (flip,) = flips(fleets, {"calls": [left, runs(uneven.values + 1, lost=3)]}, "calls")
    assert isinstance(flip.path, Estimate)
    assert (flip.path.value, flip.path.n_tasks, flip.path.unit) == (5.0, 9, "calls")
    assert flip.path.unmeasured == {"error": 5}


def test_fewer_than_two_shared_cases_compare_nothing_and_what_was_compared_is_told() -> None:
    one = FigureRuns(values=np.ones(4), cases=np.zeros(4, np.int64), unmeasured={})
    none = FigureRuns(values=np.ones(0), cases=np.zeros(0, np.int64), unmeasured={})
    both = [first_of(0, 9), first_of(9, 9)]
    options = {"fewer_is_better": (), "units": {}, "rng": np.random.default_rng(0)}
    found = stats.rank_flips(["a", "b"], both, {"x": both, "y": [both[0], one]}, **options)  # type: ignore[arg-type]
    assert found == RankFlips(flips=(), figures=("x",), n_pairs=1)
    for outcome, path in (([both[0], one], both), (both, [one, none])):
        absent = stats.rank_flips(["a", "b"], outcome, {"x": path}, **options)  # type: ignore[arg-type]
        assert isinstance(absent, Unmeasured)
    with pytest.raises(DataError, match="an entry for each of 3 agents"):
        stats.rank_flips(["a", "b", "c"], both, {"x": both}, **options)  # type: ignore[arg-type]


def test_many_pairs_draw_as_often_as_their_number_asks_for() -> None:
    # 28 pairs and 12 figures ask for a p below .0001, which 9,999 draws cannot give.
    draw = np.random.default_rng(5)
    values = draw.random(30)
    fleets = [first_of(25, 30), *[first_of(0, 30)] * 7]
    worse = [runs(values + 1), *[runs(draw.random(30)) for _ in range(7)]]
    figures = {f"calls {at}": worse if not at else [first_of(3, 30)] * 8 for at in range(12)}
    found = flips(fleets, figures, *figures)
    assert [(flip.first, flip.figure) for flip in found] == [("a", "calls 0")] * 7


def test_of_very_many_runs_nothing_is_drawn() -> None:
    draw, random = np.random.default_rng(5), np.random.default_rng(0)
    cases = np.repeat(np.arange(2), 1_500)
    fleets = [
        FigureRuns(values=draw.random(3_000) + ahead, cases=cases, unmeasured={})
        for ahead in (0.0, 0.5)
    ]
    options = {"fewer_is_better": ("f",), "units": {}, "rng": random}
    found = stats.rank_flips(["a", "b"], fleets, {"f": fleets}, **options)  # type: ignore[arg-type]
    assert isinstance(found, RankFlips)
    assert [flip.first for flip in found.flips] == ["b"]
    assert random.bit_generator.state == np.random.default_rng(0).bit_generator.state


def test_no_agent_is_no_pair() -> None:
    options = {"fewer_is_better": (), "units": {}, "rng": np.random.default_rng(0)}
    assert isinstance(stats.rank_flips([], [], {"f": []}, **options), Unmeasured)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("passing", "worse", "figure", "least", "most"),
    [
        ((0.5, 0.5), {}, "", 0.0, 0.05),
        ((0.50, 0.35), {}, "", 0.0, 0.08),
        ((0.65, 0.35), {}, "", 0.0, 0.08),
        ((0.6, 0.4), {"share 0": 0.43}, "share 0", 0.75, 1.0),
    ],
)
def test_the_bar_holds_over_few_replications(
    passing: tuple[float, float], worse: dict[str, float], figure: str, least: float, most: float
) -> None:
    rng = np.random.default_rng(0)
    share = bar.measure_share(rng, 25, passing, (worse, {}), 0.3, figure)
    assert least <= share <= most
