"""An envelope counts what was planted: with answers known beforehand, its figures are known."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.errors import UsageError
from stepscope.lab.envelope import (
    Classifications,
    EnvelopeRow,
    SimulatedFigure,
    assess_answers,
    calibration_error,
    choose_classifiers,
    classify_as_fleet,
    classify_by_default,
    draw_cell,
    macro_f1,
    measure_envelope,
)
from stepscope.shape.types import SHAPES
from stepscope.stats.sample import Floats
from stepscope.values import Unmeasured

TRUTH = np.array([0, 1, 2, 3, 4] * 20)
BROKE = np.array([-1, 2, 4, -1, 3] * 20)


def assess(answers: Classifications) -> EnvelopeRow:
    return assess_answers(
        answers,
        classifier="made",
        generator="walk",
        noise="gaussian",
        n=6,
        sigma=0.1,
        truth=TRUTH,
        broke=BROKE,
    )


def figure(found: SimulatedFigure | Unmeasured) -> float:
    assert isinstance(found, SimulatedFigure), found
    assert found.error > 0
    return round(found.value, 6)


def test_right_answers_are_worth_one_and_a_sure_wrong_one_costs_calibration() -> None:
    best = TRUTH.astype(np.int8)
    best[:10] = (best[:10] + 1) % 5  # ten of a hundred are wrong
    row = assess(
        Classifications(
            best=best,
            label=np.where(np.arange(100) < 20, -1, best).astype(np.int8),
            posterior=np.tile([1.0, 0, 0, 0, 0], (100, 1)),
            break_step=BROKE + (BROKE > 0),
            break_low=BROKE,
            break_high=BROKE,
            unmodelled=np.arange(100) < 1,
        )
    )
    assert figure(row.accuracy) == 0.9
    assert {name: figure(found) for name, found in row.recall.items()} == dict.fromkeys(SHAPES, 0.9)
    assert figure(row.macro_f1) == 0.9
    assert figure(row.resolved) == 0.8
    assert figure(row.resolved_accuracy) == 1.0
    # It claims certainty and is wrong in ten of a hundred.
    assert figure(row.calibration_error) == 0.1
    assert figure(row.unmodelled) == 0.01
    assert figure(row.break_found) == 1.0
    assert figure(row.break_within_one) == 1.0
    assert figure(row.coverage) == 1.0
    assert figure(row.false_breaks) == 0.0


def test_two_steps_away_is_not_within_one_and_no_break_is_not_found() -> None:
    best = TRUTH.astype(np.int8)
    answers = Classifications(best=best, label=best, break_step=np.where(BROKE == 2, -1, BROKE + 2))
    row = assess(answers)
    assert figure(row.break_found) == pytest.approx(2 / 3, abs=1e-6)
    assert figure(row.break_within_one) == 0.0
    assert figure(row.false_breaks) == 1.0
    assert isinstance(row.coverage, Unmeasured)
    assert isinstance(row.calibration_error, Unmeasured)


def test_nothing_resolved_is_unmeasured_accuracy_not_zero() -> None:
    best = TRUTH.astype(np.int8)
    answers = Classifications(best=best, label=np.full(100, -1, np.int8), break_step=BROKE)
    row = assess(answers)
    assert figure(row.resolved) == 0.0
    assert isinstance(row.resolved_accuracy, Unmeasured)


def test_macro_f1_by_hand() -> None:
    # Of each shape one; healthy is named twice: F1 2/3, 0, 1, 1, 1.
    found = np.array([0, 0, 2, 3, 4], np.int8)
    assert macro_f1(found, np.arange(5)) == pytest.approx((2 / 3 + 0 + 3) / 5)


def test_calibration_error_by_hand() -> None:
    # Four claims of .75, three right: 0. Two claims of .95, one right: .45. Weighted by runs.
    claimed = np.array([0.75] * 4 + [0.95] * 2)
    right = np.array([True, True, True, False, True, False])
    assert calibration_error(claimed, right) == pytest.approx(2 * 0.45 / 6)


def test_the_error_is_that_of_repeated_simulation() -> None:
    def v3(seed: int) -> SimulatedFigure:
        made = measure_envelope(
            choose_classifiers(["v3"]), ns=[10], sigmas=[0.08], trials=500, seed=seed
        )
        (row,) = (row for row in made.rows if row.generator == "walk")
        return row.macro_f1

    found = [v3(seed) for seed in range(40)]
    spread = float(np.std([one.value for one in found], ddof=1))
    # The spread of 40 seeds is itself known to 11 %.
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.35)


def test_a_larger_grid_changes_no_row_of_a_smaller_one() -> None:
    small = measure_envelope(choose_classifiers(["v3"]), ns=[10], sigmas=[0.08], trials=100)
    large = measure_envelope(
        choose_classifiers(["v1", "v3"]), ns=[5, 10], sigmas=[0.05, 0.08], trials=100
    )
    assert all(row in large.rows for row in small.rows)
    assert len(large.rows) == 3 * 2 * 2 * 2


def test_every_classifier_sees_the_same_runs_and_is_told_what_was_asked() -> None:
    seen: list[tuple[bytes, float | None, float | None]] = []

    def spy(scores: Floats, sigma: float | None, quantum: float | None) -> Classifications:
        seen.append((scores.tobytes(), sigma, quantum))
        codes = np.zeros(len(scores), np.int8)
        return Classifications(best=codes, label=codes, break_step=np.full(len(scores), -1))

    measure_envelope(
        {"a": spy, "b": spy},
        ns=[5],
        sigmas=[0.1],
        generators=["walk"],
        noises=["quantised"],
        trials=100,
        told=0.5,
    )
    assert seen[0] == seen[1]
    assert seen[0][1:] == (0.05, 0.1)
    measure_envelope({"a": spy}, ns=[5], sigmas=[0.1], generators=["walk"], trials=100, told=None)
    assert seen[2][1:] == (None, None)


def test_shapes_take_turns_in_a_cell() -> None:
    scores, truth, broke = draw_cell("walk", "gaussian", 6, 0.1, trials=102, seed=0)
    assert scores.shape == (105, 6)
    assert truth[:6].tolist() == [0, 1, 2, 3, 4, 0]
    assert set(broke[truth == 0].tolist()) == {-1}
    assert broke[truth == 1].min() >= 1


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ns": [3]}, "n is 3; expected 4 to 200"),
        ({"ns": [201]}, "n is 201"),
        ({"sigmas": [0.0]}, "sigma is 0.0; expected above 0"),
        ({"sigmas": [float("nan")]}, "sigma is nan"),
        ({"sigmas": [0.6]}, "sigma is 0.6"),
        ({"ns": []}, "at least one n"),
        ({"generators": ["wlak"]}, "no generator 'wlak'; one of article"),
        ({"generators": []}, "no generator given"),
        ({"noises": ["pink"]}, "no noise 'pink'"),
        ({"trials": 99}, "99 runs a cell; expected 100 or more"),
        ({"told": 0.0}, "told is 0.0"),
        ({"classifiers": {}}, "no classifier given"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused_in_one_line(
    asked: dict[str, object], said: str
) -> None:
    given: dict[str, object] = {
        "classifiers": choose_classifiers(["v3"]),
        "ns": [10],
        "sigmas": [0.05],
    }
    with pytest.raises(UsageError, match=said):
        measure_envelope(**{**given, **asked})  # type: ignore[arg-type]  # wrong on purpose


def test_a_fleet_learns_how_long_errors_last_and_claims_less() -> None:
    made = measure_envelope(
        choose_classifiers(["default", "fleet"]),
        ns=[12],
        sigmas=[0.15],
        generators=["agent"],
        noises=["ar1"],
        trials=1_000,
    )
    surprised, aware = made.rows
    assert isinstance(surprised.calibration_error, SimulatedFigure)
    assert figure(aware.calibration_error) < surprised.calibration_error.value - 0.02


def test_too_few_runs_to_learn_from_are_answered_as_the_default_does() -> None:
    scores = np.random.default_rng(0).uniform(0.5, 1.0, (10, 8))
    alone, together = classify_by_default(scores, 0.1), classify_as_fleet(scores, 0.1)
    assert alone.posterior is not None
    assert together.posterior is not None
    assert np.array_equal(alone.posterior, together.posterior)


def test_a_classifier_that_is_not_built_in_is_named() -> None:
    with pytest.raises(UsageError, match="no classifier 'v4'; one of v1, v2, v3, default, fleet"):
        choose_classifiers(["v3", "v4"])
