"""Many runs at once: the same answers as one by one, in any order, of any length."""

from __future__ import annotations

import os
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bars.shape.compound import two_stage_collapse
from stepscope.errors import DataError
from stepscope.lab.curves import add_noise
from stepscope.lab.envelope import draw_cell
from stepscope.shape import classifier as room
from stepscope.shape import inputs
from stepscope.shape.classifier import classify, classify_many, classify_ragged
from stepscope.shape.templates import SHORTEST_COMPOUND
from stepscope.shape.types import SHAPES, UNRESOLVED, Shape, ShapeBatch
from stepscope.stats.sample import Floats


def runs(n: int, m: int = 40, sigma: float = 0.06) -> Floats:
    return draw_cell("walk", "gaussian", n, sigma, trials=m, seed=0)[0]


def mixed(n: int, m: int) -> Floats:
    """Runs with a shape, runs that fall twice, and gaps."""
    rng = np.random.default_rng(n)
    scores = runs(n, m)
    if n >= SHORTEST_COMPOUND:
        twice = add_noise(two_stage_collapse(n, 5, rng), 0.05, rng)
        scores = np.concatenate([scores, twice])
    scores[rng.random(scores.shape) < 0.05] = np.nan
    return scores


def columns(found: ShapeBatch) -> dict[str, bytes]:
    arrays = {field.name: getattr(found, field.name) for field in fields(found)}
    return {name: a.tobytes() for name, a in arrays.items() if isinstance(a, np.ndarray)}


@pytest.mark.parametrize(
    "told",
    [
        {"sigma": 0.05},
        {},
        {"sigma": 0.08, "correlation": 0.5},
        {"sigma": 0.03, "quantum": 0.1},
        {"sigma": 0.06, "prior": dict(zip(SHAPES, (0.5, 0.2, 0.1, 0.1, 0.1), strict=True))},
    ],
    ids=["sigma", "no sigma", "correlation", "quantum", "prior"],
)
@pytest.mark.parametrize("n", [4, 7, 10, 55])
def test_the_batch_says_what_classify_says(n: int, told: dict[str, float]) -> None:
    # Of long runs each takes a while: with steps missing, each has its own templates.
    scores = mixed(n, 25) if n < 40 else mixed(n, 5)[::3]
    found = classify_many(scores, **told)  # type: ignore[arg-type]
    row = 0
    for i, one in enumerate(scores):
        alone = classify(one, **told)  # type: ignore[arg-type]
        if not isinstance(alone, Shape):
            assert found.absences[found.reasons[i] - 1] == alone
            continue
        assert (found.rows[row], found.reasons[i]) == (i, 0)
        assert found.posterior[row] == pytest.approx(list(alone.posterior.values()), abs=1e-3)
        close = np.array(alone.log_likelihood) > max(alone.log_likelihood) - 20
        evidence = np.array(alone.log_likelihood)[close]
        assert found.log_likelihood[row][close] == pytest.approx(evidence, abs=0.01)
        assert found.gof_p[row] == pytest.approx(alone.gof_p, abs=1e-3)
        assert found.mean[row] == pytest.approx(alone.mean.value)
        assert found.sigma[row] == pytest.approx(alone.sigma, abs=1e-3)
        code = found.label[row]
        assert alone.label == ("unresolved" if code == UNRESOLVED else SHAPES[code])
        assert (found.unmodelled[row], found.low_level[row]) == (alone.unmodelled, alone.low_level)
        where = (found.break_step[row], found.break_low[row], found.break_high[row])
        told_alone = (alone.break_.step, alone.break_.first, alone.break_.last)
        assert where == tuple(-1 if step is None else step for step in told_alone)
        assert found.missing[row] == alone.missing
        row += 1
    assert row == len(found.rows)


@settings(max_examples=25)
@given(st.permutations(range(40)), st.booleans())
def test_the_order_of_runs_changes_nothing(order: list[int], gaps: bool) -> None:
    scores = runs(8)
    if gaps:
        scores[3, :6] = scores[5, 2] = scores[9, 2] = np.nan
        scores[11, 0] = 7.0
    plain, mixed = classify_many(scores, sigma=0.06), classify_many(scores[order], sigma=0.06)
    back = np.argsort(np.array(order)[mixed.rows])
    assert np.array(order)[mixed.rows][back].tolist() == plain.rows.tolist()
    assert mixed.label[back].tolist() == plain.label.tolist()
    assert mixed.break_step[back].tolist() == plain.break_step.tolist()
    assert np.abs(mixed.posterior[back] - plain.posterior).max() < 1e-5


def test_the_same_runs_give_the_same_bytes_on_one_core_and_on_all() -> None:
    scores = runs(5, 3 * room.BLOCK)
    whole = columns(classify_many(scores, sigma=0.05))
    assert columns(classify_many(scores, sigma=0.05)) == whole
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert columns(classify_many(scores, sigma=0.05)) == whole
    finally:
        os.sched_setaffinity(0, cores)


def test_posteriors_sum_to_one_and_everything_is_finite() -> None:
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.random((50, 10)), np.zeros((1, 10)), np.ones((1, 10))])
    for sigma in (1e-9, 0.05, 1.0, None):
        found = classify_many(scores, sigma=sigma)
        assert found.posterior.sum(1) == pytest.approx(np.ones(52))
        for name in ("log_likelihood", "posterior", "gof_p", "mean", "sigma", "break_probability"):
            assert np.isfinite(getattr(found, name)).all(), name


def test_runs_that_cannot_be_classified_are_said_to_be_so_and_why() -> None:
    scores = np.full((6, 5), 0.8)
    scores[1, :2] = np.nan
    scores[2, 3] = np.inf
    scores[3] = np.nan
    scores[4, 0] = -0.5
    found = classify_many(scores, sigma=0.05)
    assert found.rows.tolist() == [0, 5]
    why = [None if r == 0 else found.absences[r - 1] for r in found.reasons]
    assert why == [None, inputs.TOO_FEW, inputs.OFF_SCALE, inputs.TOO_FEW, inputs.OFF_SCALE, None]


@pytest.mark.parametrize("sigma", [0.0, -1.0, np.nan, np.inf, 1.5])
def test_a_sigma_that_is_none_leaves_no_rows(sigma: float) -> None:
    found = classify_many(runs(6, 5), sigma=sigma)
    assert (len(found.rows), len(found.posterior)) == (0, 0)
    assert {found.absences[r - 1] for r in found.reasons} == {inputs.BAD_SIGMA}


@pytest.mark.parametrize("shape", [(0, 10), (0, 0), (5, 0), (5, 3)])
def test_no_runs_or_no_steps_give_no_rows(shape: tuple[int, int]) -> None:
    found = classify_many(np.full(shape, 0.5), sigma=0.05)
    assert (len(found.rows), found.posterior.shape, len(found.reasons)) == (0, (0, 5), shape[0])


def test_each_run_may_have_its_own_sigma() -> None:
    scores = np.tile([0.9, 0.9, 0.9, 0.6, 0.62, 0.6], (3, 1))
    found = classify_many(scores, sigma=np.array([[0.03], [0.2], [0.03]]))
    alone = [classify(scores[0], sigma=s) for s in (0.03, 0.2, 0.03)]
    for row, one in enumerate(alone):
        assert isinstance(one, Shape)
        assert found.posterior[row] == pytest.approx(list(one.posterior.values()), abs=1e-3)
        assert found.sigma[row] == pytest.approx(one.sigma)


def test_runs_of_unequal_length_are_classified_as_they_are_alone() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(0, 13, 200)
    values = rng.random(int(lengths.sum()))
    values[rng.random(len(values)) < 0.1] = np.nan
    found = classify_ragged(values, lengths, sigma=0.05)
    assert len(found.rows) + int((found.reasons > 0).sum()) == 200
    assert (np.diff(found.rows) > 0).all()
    ends = np.cumsum(lengths)
    for row, i in enumerate(found.rows.tolist()):
        one = classify(values[ends[i] - lengths[i] : ends[i]], sigma=0.05)
        assert isinstance(one, Shape)
        assert found.posterior[row] == pytest.approx(list(one.posterior.values()), abs=1e-3)


def test_ragged_runs_may_have_a_sigma_for_each_value() -> None:
    values = np.array([0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.4, 0.4])
    found = classify_ragged(values, np.array([4, 5]), sigma=np.full(9, 0.05))
    assert found.label.tolist()[0] == SHAPES.index("healthy")
    assert found.break_step.tolist() == [-1, 3]


@pytest.mark.parametrize("lengths", [[4, 4], [10], [-1, 10], [4.0, 5.0], [[9]]], ids=str)
def test_lengths_that_do_not_add_up_are_refused(lengths: list[int]) -> None:
    with pytest.raises(DataError, match="expected the steps of each run"):
        classify_ragged(np.full(9, 0.5), np.array(lengths), sigma=0.05)


def test_scores_that_are_no_table_are_refused() -> None:
    with pytest.raises(DataError, match=r"scores have shape \(4,\); expected \(m, n\)"):
        classify_many(np.full(4, 0.5), sigma=0.05)
    with pytest.raises(DataError, match="expected one number, or one for each step"):
        classify_many(np.full((4, 6), 0.5), sigma=np.full(5, 0.05))


def test_steps_that_are_left_out_are_steps_without_a_score() -> None:
    rng = np.random.default_rng(3)
    table = rng.random((40, 9))
    table[rng.random(table.shape) < 0.3] = np.nan
    there = ~np.isnan(table)
    whole = classify_many(table, sigma=0.06)
    values, lengths, sizes = table[there], there.sum(1), np.full(40, 9)
    laid = inputs.lay_out(values, lengths, np.nonzero(there)[1], sizes)
    assert columns(classify_ragged(laid, sizes, sigma=0.06)) == columns(whole)
    # closed up, one in ten of these had another label
    closed = classify_ragged(values, lengths, sigma=0.06)
    assert (closed.best[: len(whole.best)] != whole.best).mean() > 0.1


@pytest.mark.parametrize(
    ("steps", "sizes"),
    [([0, 1, 2], [4]), ([-1, 0, 1, 2], [4]), ([0, 1, 2, 5], [5]), ([0, 1, 2, 3], [4, 4])],
)
def test_steps_beyond_their_run_are_refused(steps: list[int], sizes: list[int]) -> None:
    with pytest.raises(DataError, match="steps enough in each run"):
        inputs.lay_out(np.full(4, 0.5), np.array([4]), np.array(steps), np.array(sizes))
