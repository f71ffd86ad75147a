"""Generators plant what they say: a shape, a break step, noise of a known spread."""

from __future__ import annotations

import numpy as np
import pytest

from bars.shape.compound import COMPOUND
from bars.shape.shape import gradual_recovery
from stepscope.errors import UsageError
from stepscope.lab.curves import (
    EXAMPLES,
    GENERATORS,
    NOISES,
    Noise,
    add_noise,
    article_curve,
    draw_curves,
)
from stepscope.shape.types import SHAPES, ShapeName

LENGTHS = (4, 5, 7, 10, 20, 40)
BREAKING = ("early_collapse", "late_drift", "recovery")
CURVES = 300


@pytest.mark.parametrize("name", sorted(GENERATORS))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_that_breaks_says_where_and_the_others_say_nowhere(
    name: str, shape: ShapeName
) -> None:
    rng = np.random.default_rng(5)
    for n in LENGTHS:
        made = draw_curves(name, shape, n, CURVES, rng)
        assert made.curves.shape == (CURVES, n)
        assert np.isfinite(made.curves).all()
        assert -0.05 < made.curves.min() < made.curves.max() < 1.15
        if shape not in BREAKING:
            assert set(made.break_step.tolist()) == {-1}
            continue
        assert 1 <= made.break_step.min() <= made.break_step.max() < n
        rows = np.arange(CURVES)
        best = np.maximum.accumulate(made.curves, axis=1)
        lost = best - made.curves
        # At the break about half of what will be lost has gone, and at the step before less.
        assert (lost[rows, made.break_step] >= 0.3 * lost.max(1)).all()
        assert (lost[rows, made.break_step - 1] <= 0.7 * lost.max(1)).all()


@pytest.mark.parametrize("name", sorted(set(GENERATORS) - {"article"}))
def test_early_is_before_the_middle_and_late_is_not(name: str) -> None:
    rng = np.random.default_rng(6)
    for n in LENGTHS:
        early = draw_curves(name, "early_collapse", n, CURVES, rng)
        late = draw_curves(name, "late_drift", n, CURVES, rng)
        # A queue may be lucky for a step: half of its fall then comes one step after the middle.
        assert (early.break_step > n // 2).mean() <= 0.01
        assert n // 2 <= late.break_step.min()


@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_a_steady_loss_loses_in_every_third_and_a_healthy_run_in_none(name: str) -> None:
    rng = np.random.default_rng(7)
    for n in (9, 30):
        steady = draw_curves(name, "steady_degradation", n, CURVES, rng).curves
        healthy = draw_curves(name, "healthy", n, CURVES, rng).curves
        thirds = steady.reshape(CURVES, 3, -1).mean(2)
        assert (np.diff(thirds, axis=1) < -0.02).all()
        kept = np.diff(healthy.reshape(CURVES, 3, -1).mean(2), axis=1) > -0.08
        # A tenth of the reconstruction's healthy runs has a soft finish.
        assert kept.mean() > (0.9 if name == "reconstruction" else 0.999)


def test_the_articles_examples_are_kept_as_printed_and_break_where_they_drop() -> None:
    rng = np.random.default_rng(0)
    found = {shape: draw_curves("article", shape, 10, 1, rng) for shape in SHAPES}
    for shape, scores in EXAMPLES.items():
        assert np.allclose(found[shape].curves[0], scores, atol=1e-12)
    broke = {shape: int(made.break_step[0]) for shape, made in found.items()}
    assert broke == {
        "healthy": -1,
        "early_collapse": 3,
        "late_drift": 8,
        "steady_degradation": -1,
        "recovery": 3,
    }
    assert np.allclose(article_curve("steady_degradation", 4), [0.85, 0.74, 0.65, 0.57])


@pytest.mark.parametrize("kind", NOISES)
def test_every_noise_has_the_spread_it_is_asked_for(kind: Noise) -> None:
    clean = np.full((20_000, 6), 0.5)
    errors = add_noise(clean, 0.06, np.random.default_rng(1), kind=kind, clip=False) - 0.5
    # Rounding to tenths adds the variance of a tenth, .1 ** 2 / 12.
    expected = (0.06**2 + 0.01 / 12) ** 0.5 if kind == "quantised" else 0.06
    assert errors.std() == pytest.approx(expected, rel=0.03)
    neighbours = np.corrcoef(errors[:, :-1].ravel(), errors[:, 1:].ravel())[0, 1]
    assert neighbours == pytest.approx(0.5 if kind == "ar1" else 0.0, abs=0.02)
    kurtosis = (errors**4).mean() / (errors**2).mean() ** 2
    assert (kurtosis > 4) == (kind == "heavy")


def test_noise_is_clipped_unless_one_asks_and_quantised_scores_are_tenths() -> None:
    clean, rng = np.full((500, 4), 0.98), np.random.default_rng(2)
    assert add_noise(clean, 0.1, rng).max() == 1.0
    assert add_noise(clean, 0.1, rng, clip=False).max() > 1.0
    tenths = add_noise(clean, 0.1, rng, kind="quantised") * 10
    assert np.allclose(tenths, np.round(tenths))
    assert np.array_equal(add_noise(clean, 0.0, rng), clean)


def test_the_same_seed_draws_the_same_bytes() -> None:
    for name in GENERATORS:
        first, again = (
            draw_curves(name, "recovery", 9, 20, np.random.default_rng(3)) for _ in range(2)
        )
        assert first.curves.tobytes() == again.curves.tobytes()


def test_compound_curves_and_gradual_recoveries_have_no_cliff_of_the_whole_drop() -> None:
    rng = np.random.default_rng(4)
    for n in (7, 10, 20):
        for draw in COMPOUND.values():
            assert draw(n, 30, rng).shape == (30, n)
        made = gradual_recovery(n, CURVES, rng)
        depth = made.curves.max(1) - made.curves.min(1)
        cliff = -np.diff(made.curves, axis=1).min(1)
        assert (cliff <= 0.51 * depth).all()
        assert (made.curves[:, -1] >= made.curves.max(1) - 0.16 * depth).all()


@pytest.mark.parametrize(
    ("n", "m", "said"),
    [(3, 1, "4 steps or more"), (10, -1, "0 curves or more")],
)
def test_too_few_steps_are_refused_in_one_line(n: int, m: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        draw_curves("walk", "healthy", n, m, np.random.default_rng(0))
    assert draw_curves("walk", "healthy", 4, 0, np.random.default_rng(0)).curves.shape == (0, 4)


def test_a_negative_sigma_is_refused() -> None:
    with pytest.raises(UsageError, match="expected 0 or more"):
        add_noise(np.zeros((1, 4)), -0.1, np.random.default_rng(0))
