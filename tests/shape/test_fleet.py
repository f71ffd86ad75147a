"""Shares of shapes in a fleet, and two fleets compared."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from scipy.stats import beta

from stepscope.errors import DataError
from stepscope.lab import add_noise, draw_curves
from stepscope.shape import fleet as room
from stepscope.shape.classifier import classify_many
from stepscope.shape.fleet import FleetComparison, Shares, compare_fleets, prevalence, weigh_fleet
from stepscope.shape.types import SHAPES
from stepscope.values import Estimate, Unmeasured

Floats = npt.NDArray[np.float64]


def certain(*counts: int) -> Floats:
    """Runs whose shape is beyond doubt: so many of each, in the order of `SHAPES`."""
    codes = np.repeat(np.arange(len(counts)), counts)
    return np.where(np.arange(5) == codes[:, None], 0.0, -60.0)


def noisy(rng: np.random.Generator, shares: list[float], m: int) -> Floats:
    """Runs that say what they are with an error: unit noise about corners 2.5 apart."""
    seen = 2.5 * np.eye(5)[rng.choice(5, p=shares, size=m)] + rng.normal(size=(m, 5))
    return np.asarray(-((seen[:, None] - 2.5 * np.eye(5)) ** 2).sum(-1) / 2)


def shares_of(found: Shares | Unmeasured) -> Shares:
    assert not isinstance(found, Unmeasured)
    return found


def compared(found: FleetComparison | Unmeasured) -> FleetComparison:
    assert isinstance(found, FleetComparison)
    return found


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_shares_are_the_most_likely_ones_and_not_the_counted_ones() -> None:
    # 15 runs with .8 against .05 and 5 with .1 against .6; the likelihood of the share p is
    # (.05 + .75p)^15 (.6 - .5p)^5, greatest at p = 6.625/7.5. Counting would say .75.
    runs = np.log([[0.8, 0.05, 1e-9, 1e-9, 1e-9]] * 15 + [[0.1, 0.6, 1e-9, 1e-9, 1e-9]] * 5)
    found = shares_of(prevalence(runs, rng=rng()))
    assert found["healthy"].value == pytest.approx(6.625 / 7.5, abs=0.005)
    assert sum(share.value for share in found.values()) == pytest.approx(1)


@pytest.mark.parametrize("counts", [(45, 10, 12, 25, 8), (96, 4, 0, 0, 0)])
def test_intervals_of_certain_runs_are_those_of_jeffreys(counts: tuple[int, ...]) -> None:
    found = shares_of(prevalence(certain(*counts), rng=rng()))
    for name, count in zip(SHAPES, counts, strict=True):
        low, high = (float(beta.ppf(q, 0.5 + count, 100.5 - count)) for q in (0.025, 0.975))
        share = found[name]
        assert share.value == pytest.approx(count / 100, abs=1e-6)
        assert share.high == pytest.approx(high, abs=0.012)
        assert share.low == pytest.approx(low if low > 0.01 else 0.0, abs=0.012)
        assert (share.n, share.n_tasks, share.method) == (100, 100, "em, gibbs")


def test_runs_of_one_task_that_repeat_each_other_count_once() -> None:
    once = certain(20, 10, 5, 5, 10)
    single = shares_of(prevalence(once, rng=rng()))["healthy"]
    tasks = np.repeat(np.arange(50), 4)
    fourfold = shares_of(prevalence(np.repeat(once, 4, axis=0), rng=rng(), clusters=tasks))
    naive = shares_of(prevalence(np.repeat(once, 4, axis=0), rng=rng()))["healthy"]
    assert width(fourfold["healthy"]) == pytest.approx(width(single), rel=0.12)
    assert width(naive) == pytest.approx(width(single) / 2, rel=0.12)
    assert (fourfold["healthy"].n, fourfold["healthy"].n_tasks) == (200, 50)


def width(share: Estimate) -> float:
    assert share.low is not None
    assert share.high is not None
    return share.high - share.low


def test_few_tasks_leave_more_doubt() -> None:
    # Two tasks of five healthy runs, two of collapsed ones: a design effect of 5 * 4/3 makes 3 runs
    # of 20, and Student's t at 3 leaves "none" and "all" open where the normal would not (.10).
    found = prevalence(certain(10, 10), rng=rng(), clusters=np.repeat(range(4), 5))
    assert (shares_of(found)["healthy"].low, shares_of(found)["healthy"].high) == (0.0, 1.0)


def test_a_share_below_one_run_may_be_none() -> None:
    found = shares_of(prevalence(certain(48, 2, 0, 0, 0), rng=rng()))
    assert (found["early_collapse"].low, found["healthy"].high) == (0.0, 1.0)
    found = shares_of(prevalence(certain(45, 5, 0, 0, 0), rng=rng()))
    assert found["early_collapse"].low != 0.0
    assert found["healthy"].high != 1.0


def test_what_was_not_measured_widens_the_worst_case() -> None:
    found = shares_of(
        prevalence(certain(6, 2, 0, 0, 0), rng=rng(), unmeasured={"insufficient_data": 2})
    )["healthy"]
    assert (found.worst_low, found.worst_high) == pytest.approx((0.6, 0.8))
    assert found.unmeasured == {"insufficient_data": 2}


def test_order_of_runs_changes_no_share_and_a_seed_gives_the_same_bytes() -> None:
    runs = noisy(rng(), [0.4, 0.2, 0.1, 0.2, 0.1], 80)
    straight = shares_of(prevalence(runs, rng=rng()))
    assert straight == prevalence(runs, rng=rng())
    back = shares_of(prevalence(runs[::-1], rng=rng()))
    for name in SHAPES:
        assert back[name].value == pytest.approx(straight[name].value, abs=1e-9)


@pytest.mark.parametrize(
    ("runs", "clusters", "kind"),
    [
        ([], None, "insufficient_data"),
        ([[0.0] * 5], None, "insufficient_data"),
        ([[0.0] * 5] * 3, ["a"] * 3, "insufficient_data"),
        ([[0.0] * 5, [math.nan] * 5], None, "missing_input"),
        ([[0.0] * 5, [0.0, math.nan, 0, 0, 0]], None, "missing_input"),
        ([[0.0] * 5, [-math.inf] * 5], None, "missing_input"),
        ([[0.0] * 5, [math.inf] * 5], None, "missing_input"),
    ],
)
def test_fleets_without_evidence_are_unmeasured(
    runs: list[list[float]], clusters: list[str] | None, kind: str
) -> None:
    found = prevalence(runs, rng=rng(), clusters=clusters)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind
    pair = None if clusters is None else (clusters, ["b", "c"])
    assert isinstance(compare_fleets(runs, certain(1, 1), rng=rng(), clusters=pair), Unmeasured)


def test_shapes_of_arrays_that_make_no_sense_are_refused() -> None:
    with pytest.raises(DataError, match=r"expected \(runs, 5\)"):
        prevalence([[0.0] * 4] * 3, rng=rng())
    with pytest.raises(DataError, match="one a run"):
        prevalence([[0.0] * 5] * 3, rng=rng(), clusters=["a", "b"])


def test_an_impossible_shape_may_have_no_likelihood_at_all() -> None:
    runs = np.where(certain(7, 3, 0, 0, 0) < 0, -math.inf, 0.0)
    found = shares_of(prevalence(runs, rng=rng()))
    assert found["healthy"].value == pytest.approx(0.7, abs=1e-6)


def test_p_is_that_of_every_hand_out_listed() -> None:
    # 4 healthy against 1 healthy and 3 collapses. Of the 70 ways to hand 8 runs out, as far apart
    # are those that leave all three collapses on one side: 2 * C(5, 1) = 10.
    first, second = certain(4, 0), certain(1, 3)
    found = compared(compare_fleets(first, second, rng=rng(), draws=20_000))
    ways = [sum(i >= 5 for i in side) for side in combinations(range(8), 4)]
    assert sum(n in {0, 3} for n in ways) == 10
    assert found.p["early_collapse"] == pytest.approx(10 / 70, abs=0.01)
    assert found.p["late_drift"] == 1.0


def test_fleets_without_any_spread_differ_by_very_much() -> None:
    found = compared(compare_fleets(certain(9, 0), certain(0, 9), rng=rng(), draws=999))
    assert found.p["healthy"] <= 0.003
    assert found.risen() == ("early_collapse",)
    assert found.fallen() == ("healthy",)
    assert found.difference["early_collapse"].value == pytest.approx(1, abs=1e-6)


def test_a_fleet_against_itself_differs_in_nothing() -> None:
    runs = noisy(rng(), [0.4, 0.2, 0.1, 0.2, 0.1], 60)
    found = compared(compare_fleets(runs, runs, rng=rng(), draws=499))
    assert set(found.p.values()) == {1.0}
    assert found.risen() == found.fallen() == ()


def test_runs_that_say_nothing_show_no_difference() -> None:
    found = compared(compare_fleets([[0.0] * 5] * 7, [[3.0] * 5] * 4, rng=rng(), draws=99))
    assert set(found.p.values()) == {1.0}
    assert found.first["recovery"].value == pytest.approx(0.2)


@pytest.mark.parametrize("seed", range(12))
def test_rounding_is_no_difference(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    run, (a, b) = drawn.normal(0, 2, 5), drawn.integers(3, 12, 2).tolist()
    found = compared(compare_fleets([run] * a, [run] * b, rng=rng(), draws=99))
    assert set(found.p.values()) == {1.0}


def test_runs_of_one_task_move_together() -> None:
    # Two tasks of ten runs each: one healthy, one collapsed. By run it is certain, by task chance.
    first, second = certain(20, 0), certain(10, 10)
    tasks = (np.repeat([0, 1], 10), np.repeat([2, 3], 10))
    assert compared(compare_fleets(first, second, rng=rng(), draws=999)).p["healthy"] < 0.01
    found = compared(compare_fleets(first, second, rng=rng(), clusters=tasks, draws=999))
    assert found.p["healthy"] > 0.9


def test_tasks_of_both_fleets_are_compared_within() -> None:
    # 24 tasks, run twice by each fleet: half of them always collapse, one fleet fails six more.
    hard = np.repeat(np.arange(24) < 12, 2)
    worse = hard | np.repeat((np.arange(24) >= 12) & (np.arange(24) < 18), 2)
    first = np.where(hard[:, None], certain(0, 1), certain(1, 0))
    second = np.where(worse[:, None], certain(0, 1), certain(1, 0))
    task = np.repeat(np.arange(24), 2)
    within = compared(compare_fleets(first, second, rng=rng(), clusters=(task, task), draws=1999))
    apart = compared(
        compare_fleets(first, second, rng=rng(), clusters=(task, task + 24), draws=1999)
    )
    # Within a task 1 of 3 hand-outs is as uneven, and one sign: (1/6)^6 a side.
    assert within.p["early_collapse"] <= 0.001
    assert apart.p["early_collapse"] > 0.1


@pytest.mark.parametrize("by_task", [False, True])
def test_large_fleets_are_handed_out_fewer_times(
    by_task: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = np.random.default_rng(3)
    first = noisy(drawn, [0.5, 0.2, 0.1, 0.1, 0.1], 200)
    second = noisy(drawn, [0.38, 0.32, 0.1, 0.1, 0.1], 200)
    task = np.arange(200) // 2
    tasks = (task, task) if by_task else None
    small = compared(compare_fleets(first, second, rng=rng(), clusters=tasks, draws=2_000))
    monkeypatch.setattr(room, "WORK", 1_000)
    large = compared(compare_fleets(first, second, rng=rng(), clusters=tasks, draws=2_000))
    for name in SHAPES:
        assert large.p[name] == pytest.approx(small.p[name], abs=0.08)
        assert large.p[name] * 200 == pytest.approx(round(large.p[name] * 200))


def curves(runs: int, sigma: float, seed: int = 5) -> Floats:
    """Return scores of ten steps, equally many runs of each shape."""
    drawn = np.random.default_rng(seed)
    made = [draw_curves("walk", shape, 10, runs, drawn).curves for shape in SHAPES]
    return add_noise(np.vstack(made), sigma, drawn)


MEASURED = Estimate(value=0.08, low=0.066, high=0.102, method="pooled", n=60, n_tasks=20)


def test_labels_take_the_upper_limit_of_sigma_and_shares_the_value() -> None:
    scores = curves(10, 0.08)
    found = weigh_fleet(scores.ravel(), np.full(50, 10), sigma=MEASURED)
    assert np.array_equal(found.batch.posterior, classify_many(scores, sigma=0.102).posterior)
    # one standard error of log sigma: ln(.102 / .066) over 2 x 1.96
    for at, sigma in enumerate((0.08, 0.07159, 0.08939)):
        told = classify_many(scores, sigma=sigma).log_likelihood
        assert np.allclose(found.log_likelihood[:, at], told, atol=0.01)
    assert found.error == pytest.approx(2.5 * 0.08 / 10**0.5)


def test_means_of_scorings_have_the_noise_of_one_over_the_root_of_their_number() -> None:
    scores = curves(4, 0.04)
    found = weigh_fleet(scores.ravel(), np.full(20, 10), sigma=0.08, repeats=np.full(20, 4))
    assert np.array_equal(found.batch.posterior, classify_many(scores, sigma=0.04).posterior)
    assert found.error == pytest.approx(0.05)


def test_limits_hold_the_errors_of_sigma_and_of_the_model() -> None:
    found = weigh_fleet(curves(100, 0.11).ravel(), np.full(500, 10), sigma=0.11)
    sure = shares_of(prevalence(found.log_likelihood, rng=rng()))
    point = shares_of(prevalence(found.log_likelihood[:, 0], rng=rng()))
    assert sure == point  # a sigma that is given has no error
    unsure = structs.replace(MEASURED, value=0.11, low=0.08, high=0.15)
    measured = weigh_fleet(curves(100, 0.11).ravel(), np.full(500, 10), sigma=unsure)
    wider = shares_of(prevalence(measured.log_likelihood, rng=rng()))
    modelled = shares_of(prevalence(found.log_likelihood, error=0.1, rng=rng()))
    for name in SHAPES:
        share = sure[name]
        assert (wider[name].value, modelled[name].value) == (share.value, share.value)
        low = modelled[name].low
        assert share.low is not None
        assert low is not None
        # in quadrature: .1 standard deviations of one run, 1.96 times
        spread = 1.959964 * 0.1 * (share.value * (1 - share.value)) ** 0.5
        far = np.hypot(share.value - share.low, spread)
        assert share.value - low == pytest.approx(far, rel=1e-3)
    assert max(width(wider[name]) - width(sure[name]) for name in SHAPES) > 0.03


def test_a_noise_that_nobody_knows_makes_shares_less_sure() -> None:
    found = weigh_fleet(curves(20, 0.11).ravel(), np.full(100, 10))
    shares = shares_of(prevalence(found.log_likelihood, rng=rng()))
    sure = shares_of(prevalence(found.log_likelihood[:, 0], rng=rng()))
    assert sum(map(width, shares.values())) > sum(map(width, sure.values())) + 0.1


numbers = st.floats(-800, 800) | st.sampled_from([math.nan, math.inf, -math.inf])


@settings(max_examples=40)
@given(
    st.lists(st.lists(numbers, min_size=5, max_size=5), max_size=8),
    st.lists(st.lists(numbers, min_size=5, max_size=5), max_size=8),
    st.booleans(),
)
def test_no_share_or_p_is_ever_not_finite(
    first: list[list[float]], second: list[list[float]], clustered: bool
) -> None:
    labels = ([i // 2 for i in range(len(first))], [i // 3 for i in range(len(second))])
    found = compare_fleets(
        first, second, rng=rng(), clusters=labels if clustered else None, draws=19
    )
    if isinstance(found, Unmeasured):
        assert found.reason
        return
    for shares in (found.first, found.second):
        for share in shares.values():
            assert share.low is not None
            assert share.high is not None
            assert 0 <= share.low <= share.value <= share.high <= 1
    assert all(0 < p <= 1 for p in found.p.values())


def test_runs_of_one_shape_each_make_shares_of_their_number() -> None:
    rows = np.array([[1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    assert room.fit_shares(rows).tolist() == [0.75, 0.25]
