"""One run of scores: its shape, what it says of itself, and what it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.errors import DataError
from stepscope.lab.curves import EXAMPLES
from stepscope.shape.classifier import classify, classify_many
from stepscope.shape.inputs import notice_quantum
from stepscope.shape.types import SHAPES, Shape, ShapeName
from stepscope.values import Unmeasured

NAN, INF = math.nan, math.inf
FLAT = [0.9, 0.88, 0.91, 0.9, 0.89, 0.9, 0.91, 0.88, 0.9, 0.9]
DIP = [0.9, 0.9, 0.9, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9]


def shape(found: Shape | Unmeasured) -> Shape:
    assert isinstance(found, Shape), found
    return found


@pytest.mark.parametrize("sigma", [0.02, 0.03, 0.05, None])
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_have_the_shapes_they_are_printed_for(
    name: ShapeName, sigma: float | None
) -> None:
    found = shape(classify(EXAMPLES[name], sigma=sigma))
    assert (found.label, found.unmodelled) == (name, False)
    assert found.posterior[name] > 0.9
    assert found.sigma_source == ("marginalised" if sigma is None else "given")


@pytest.mark.parametrize(
    ("name", "step", "depth"),
    [("early_collapse", 3, 0.3), ("late_drift", 8, 0.4), ("recovery", 3, 0.47)],
)
def test_the_examples_broke_where_they_fell(name: ShapeName, step: int, depth: float) -> None:
    found = shape(classify(EXAMPLES[name], sigma=0.05))
    assert (found.break_.step, found.break_.first, found.break_.last) == (step, step, step)
    assert found.depth is not None
    assert found.depth.low < depth < found.depth.high


@pytest.mark.parametrize("name", ["healthy", "steady_degradation"])
def test_where_nothing_broke_no_break_is_declared(name: ShapeName) -> None:
    found = shape(classify(EXAMPLES[name], sigma=0.05))
    where = found.break_
    assert (where.step, where.first, where.last, where.onset) == (None, None, None, None)
    assert sum(where.probability) < 0.5


@pytest.mark.parametrize("sigma", [0.03, 0.05])
@pytest.mark.parametrize("step", range(1, 12))
def test_a_drop_is_found_at_whatever_step_it_is(step: int, sigma: float) -> None:
    found = shape(classify([0.9] * step + [0.45] * (12 - step), sigma=sigma))
    assert found.break_.step == step
    assert found.best == ("early_collapse" if step < 6 else "late_drift")


@pytest.mark.parametrize("step", range(1, 9))
def test_a_dip_is_found_at_whatever_step_it_is(step: int) -> None:
    scores = [0.9] * step + [0.4] * 2 + [0.9] * (10 - step)
    found = shape(classify(scores, sigma=0.05))
    assert (found.label, found.break_.step, found.trough_length) == ("recovery", step, 2)


def test_a_slow_drop_has_its_onset_before_its_break() -> None:
    found = shape(classify([0.9] * 4 + [0.75, 0.6, 0.45] + [0.45] * 5, sigma=0.03))
    assert (found.break_.onset, found.break_.step) == (4, 5)


def test_a_glitch_of_one_step_is_a_recovery_with_a_trough_of_one() -> None:
    found = shape(classify([0.9, 0.9, 0.9, 0.4, 0.9, 0.9, 0.9, 0.9], sigma=0.05))
    assert (found.label, found.trough_length) == ("recovery", 1)


@pytest.mark.parametrize(
    "scores",
    [
        [0.9, 0.4] * 5,
        [0.9, 0.4, 0.4, 0.9, 0.9, 0.9, 0.4, 0.4, 0.9, 0.9],
        [0.9, 0.9, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9, 0.4, 0.4],
        [0.4, 0.4, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9],
        [0.9, 0.9, 0.65, 0.65, 0.65, 0.65, 0.65, 0.3, 0.3, 0.3],
    ],
    ids=["sawtooth", "two dips", "dip, then late drop", "bad start", "two stages"],
)
def test_what_fits_no_shape_is_said_to_fit_none(scores: list[float]) -> None:
    found = shape(classify(scores, sigma=0.05))
    assert (found.label, found.unmodelled) == ("unresolved", True)


@pytest.mark.parametrize(
    ("low", "p", "unmodelled"), [(0.75, 0.0027, True), (0.76, 0.0084, True), (0.77, 0.0233, False)]
)
def test_a_misfit_of_one_in_a_hundred_is_the_limit(low: float, p: float, unmodelled: bool) -> None:
    found = shape(classify([0.9, 0.9, 0.9, low, 0.9, 0.9, low, 0.9, 0.9, 0.9], sigma=0.03))
    assert found.gof_p == pytest.approx(p, abs=0.002)
    assert found.unmodelled is unmodelled


@pytest.mark.parametrize(("stage", "unmodelled"), [(0.2, False), (0.24, True), (0.28, True)])
def test_two_stages_are_told_from_a_steady_decline_that_fits(
    stage: float, unmodelled: bool
) -> None:
    scores = [0.9] * 2 + [0.9 - stage] * 4 + [0.9 - 2 * stage] * 4
    found = shape(classify(scores, sigma=0.05))
    assert (found.best, found.unmodelled) == ("steady_degradation", unmodelled)
    assert found.gof_p > 0.02


def test_a_break_less_probable_than_none_is_not_declared() -> None:
    found = shape(classify([0.9] * 5 + [0.7] * 5, sigma=0.08))
    assert 0.1 < sum(found.break_.probability) < 0.5
    assert found.break_.step is None


def test_errors_that_last_make_the_mean_less_sure() -> None:
    # Var of a mean of four: s^2 / 16 * (4 + 2 (3 r + 2 r^2 + r^3)), with r = .5 is s^2 * .515625.
    found = shape(classify([0.9, 0.9, 0.9, 0.9], sigma=0.1, correlation=0.5))
    assert found.mean.high - found.mean.value == pytest.approx(1.644854 * 0.1 * 0.515625**0.5)


@pytest.mark.parametrize(("share", "label"), [(0.3, "early_collapse"), (0.6, "recovery")])
def test_who_wins_back_more_than_half_has_recovered(share: float, label: str) -> None:
    found = shape(classify([0.9] * 3 + [0.5] * 2 + [0.5 + 0.4 * share] * 5, sigma=0.05))
    assert found.label == label


def test_a_constant_low_run_is_healthy_in_shape_and_low_in_level() -> None:
    found = shape(classify([0.1] * 10, sigma=0.05))
    assert (found.label, found.low_level) == ("healthy", True)
    assert found.mean.value == pytest.approx(0.1)
    assert found.mean.high - found.mean.low == pytest.approx(2 * 1.645 * 0.05 / 10**0.5, rel=1e-3)


@pytest.mark.parametrize(("level", "low"), [(0.56, True), (0.58, False), (0.6, False)])
def test_a_level_is_low_only_when_its_interval_is(level: float, low: bool) -> None:
    assert shape(classify([level] * 10, sigma=0.05)).low_level is low


def test_a_fall_too_small_to_tell_is_unresolved() -> None:
    found = shape(classify([0.9, 0.88, 0.86, 0.84, 0.82, 0.8, 0.78, 0.76, 0.74], sigma=0.08))
    assert (found.label, found.unmodelled) == ("unresolved", False)
    assert {found.best, found.runner_up} == {"healthy", "steady_degradation"}


def test_a_prior_moves_the_posterior_and_not_the_bayes_factor() -> None:
    even = shape(classify(DIP, sigma=0.2))
    prior: dict[ShapeName, float] = {name: 0.1 for name in SHAPES}
    prior["recovery"] = 0.6
    moved = shape(classify(DIP, sigma=0.2, prior=prior))
    assert even.best == moved.best == "recovery"
    odds = even.posterior["recovery"] / even.posterior["healthy"]
    now = moved.posterior["recovery"] / moved.posterior["healthy"]
    assert now / odds == pytest.approx(6.0)
    assert moved.log_likelihood == even.log_likelihood


def test_a_shape_ruled_out_has_no_probability() -> None:
    prior: dict[ShapeName, float] = {name: 0.25 for name in SHAPES}
    prior["recovery"] = 0.0
    found = shape(classify(DIP, sigma=0.05, prior=prior))
    assert found.posterior["recovery"] == 0.0


def test_missing_scores_leave_the_shape_and_are_counted() -> None:
    scores: list[float | None] = list(DIP)
    scores[1], scores[7] = None, NAN
    found = shape(classify(scores, sigma=0.05))
    assert (found.label, found.break_.step, found.n, found.missing) == ("recovery", 3, 10, 2)
    assert len(found.break_.probability) == 10


def test_a_noisy_step_weighs_less() -> None:
    # One step far below: a glitch under an even sigma, nothing under its own.
    scores = [0.9, 0.9, 0.9, 0.5, 0.9, 0.9, 0.9, 0.9]
    own = [0.05, 0.05, 0.05, 0.6, 0.05, 0.05, 0.05, 0.05]
    assert shape(classify(scores, sigma=0.05)).label == "recovery"
    assert shape(classify(scores, sigma=own)).label == "healthy"


def test_quantised_scores_carry_the_noise_of_rounding() -> None:
    # Tenths: rounding alone has sd .029, so a sigma of .01 is more like .03.
    scores = [0.9, 0.8, 0.9, 0.9, 0.8, 0.9, 0.8, 0.8, 0.9, 0.8]
    bare, rounded = (shape(classify(scores, sigma=0.01, quantum=q)) for q in (0.01, 0.1))
    assert bare.gof_p < 0.01 < 0.05 < rounded.gof_p
    # nobody need say so: the scores show it
    assert classify(scores, sigma=0.01) == rounded
    assert classify([*scores[:9], 0.83], sigma=0.01) != rounded


@pytest.mark.parametrize(
    ("values", "repeats", "quantum"),
    [
        ([0, 0.25, 0.5, 0.75, 1] * 4, 1, 0.25),
        ([0.33, 0.67, 1.0] * 7, 1, 1 / 3),
        ([0.0, 1.0] * 10, 1, 1.0),
        ([0.5, 1.0] * 3, 1, 0.25),  # six scores of halves may be of quarters
        ([1.0] * 30, 1, None),
        ([0.85, 0.9] * 3, 1, None),
        ([0.85, 0.9] * 30, 1, 0.05),
        ([0.83, 0.9] * 30, 1, None),
        ([0.25, 0.5, 1 / 3, 7 / 12] * 9, 3, 0.25 / 3**0.5),  # means of three of quarters
    ],
)
def test_a_coarse_grid_of_scores_is_noticed(
    values: list[float], repeats: int, quantum: float | None
) -> None:
    assert notice_quantum(np.array(values), repeats) == pytest.approx(quantum)


@pytest.mark.parametrize(("n", "label"), [(7, "unresolved"), (8, "early_collapse")])
def test_a_noise_that_nobody_knows_leaves_short_runs_unresolved(n: int, label: str) -> None:
    scores = [0.91, 0.92, *[0.31, 0.33, 0.32, 0.31, 0.34, 0.33][: n - 2]]
    found = shape(classify(scores))
    assert (found.best, found.label) == ("early_collapse", label)
    assert shape(classify(scores, sigma=0.05)).label == "early_collapse"
    several = classify_many(np.array([scores, scores]))
    assert (several.label == -1).all() == (label == "unresolved")


def test_errors_that_last_make_a_run_of_low_scores_less_telling() -> None:
    scores = [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.7, 0.7, 0.7]
    apart, together = (shape(classify(scores, sigma=0.08, correlation=c)) for c in (0.0, 0.6))
    assert together.posterior["healthy"] > apart.posterior["healthy"]


def test_long_runs_are_classified_to_the_part_of_a_fortieth() -> None:
    found = shape(classify([0.9] * 120 + [0.4] * 30 + [0.85] * 50, sigma=0.1))
    where = found.break_
    assert found.label == "recovery"
    assert where.step is not None
    assert abs(where.step - 120) <= 5
    assert len(where.probability) == 200


@pytest.mark.parametrize(
    ("scores", "sigma", "kind", "words"),
    [
        ([], 0.05, "insufficient_data", "fewer than 4 scored steps"),
        ([0.9], 0.05, "insufficient_data", "fewer than 4 scored steps"),
        ([0.9, 0.4], None, "insufficient_data", "fewer than 4 scored steps"),
        ([0.9, 0.4, 0.4], 0.05, "insufficient_data", "fewer than 4 scored steps"),
        ([None] * 9, 0.05, "insufficient_data", "fewer than 4 scored steps"),
        ([NAN] * 9, None, "insufficient_data", "fewer than 4 scored steps"),
        ([0.9, NAN, 0.4, None, 0.4], 0.05, "insufficient_data", "fewer than 4 scored steps"),
        ([*FLAT, INF], 0.05, "undefined", "outside 0..1: .* step 10 has inf"),
        ([*FLAT, -INF], None, "undefined", "step 10 has -inf"),
        ([0.9, 1.2, *FLAT], 0.05, "undefined", "step 1 has 1.2"),
        ([*FLAT, -0.1], 0.05, "undefined", "step 10 has -0.1"),
        (FLAT, 0.0, "undefined", "sigma is not above 0"),
        (FLAT, -0.1, "undefined", "sigma is not above 0"),
        (FLAT, NAN, "undefined", "sigma is not above 0"),
        (FLAT, INF, "undefined", "sigma is not above 0 and at most 1"),
        (FLAT, [0.05] * 9 + [0.0], "undefined", "sigma is not above 0"),
        ([0.9] * 4 + [NAN] * 396, 0.05, "insufficient_data", "fewer than 4 parts of a long run"),
    ],
)
def test_what_cannot_have_a_shape_is_unmeasured(
    scores: list[float | None], sigma: float | list[float] | None, kind: str, words: str
) -> None:
    found = classify(scores, sigma=sigma)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(found.reason)


@pytest.mark.parametrize("sigma", [1e-9, 0.05, 1.0, None])
@pytest.mark.parametrize("level", [0.0, 0.5, 1.0])
def test_scores_that_are_all_equal_are_healthy_unless_noise_drowns_them(
    level: float, sigma: float | None
) -> None:
    found = shape(classify([level] * 8, sigma=sigma))
    assert found.label == ("unresolved" if sigma == 1.0 else "healthy")
    assert all(math.isfinite(value) for value in found.log_likelihood)


def test_sigma_of_a_missing_step_is_not_looked_at() -> None:
    scores = [None, *FLAT]
    assert shape(classify(scores, sigma=[0.0] + [0.05] * 10)).label == "healthy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": {"healthy": 1.0}}, "expected a share for each of"),
        ({"prior": dict.fromkeys(SHAPES, 0.3)}, "expected shares of 0 or more that sum to 1"),
        ({"prior": dict.fromkeys(SHAPES, NAN)}, "expected shares of 0 or more that sum to 1"),
        ({"quantum": 0.0}, "quantum is 0.0; expected the step between"),
        ({"quantum": NAN}, "quantum is nan"),
        ({"correlation": 1.0}, "correlation is 1.0; expected -0.95 to 0.95"),
        ({"correlation": NAN}, "correlation is nan"),
        ({"sigma": [0.05, 0.05]}, "expected one number, or one for each step"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        classify(FLAT, **{"sigma": 0.05, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize("scores", [["high"] * 5, [[0.9, 0.4]] * 5])
def test_scores_that_are_no_list_of_numbers_are_refused(scores: list[float]) -> None:
    with pytest.raises(DataError, match="scores"):
        classify(scores)


@settings(max_examples=60)
@given(
    st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=14),
    st.one_of(st.none(), st.floats(1e-6, 1.0)),
    st.floats(-0.95, 0.95),
)
def test_any_scores_have_a_finite_answer_that_sums_to_one(
    scores: list[float | None], sigma: float | None, correlation: float
) -> None:
    found = classify(scores, sigma=sigma, correlation=correlation)
    if isinstance(found, Unmeasured):
        assert sum(score is not None for score in scores) < 4
        return
    assert sum(found.posterior.values()) == pytest.approx(1.0)
    assert sum(found.break_.probability) <= 1 + 1e-9
    numbers = [*found.log_likelihood, found.bayes_factor, found.gof_p, found.sigma]
    assert all(math.isfinite(value) for value in numbers)
    assert 0 <= found.gof_p <= 1
    assert classify(scores, sigma=sigma, correlation=correlation) == found
