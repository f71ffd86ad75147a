"""The shapes of many runs: the same as run by run, shares of the fitting ones, the rest counted."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.lab import add_noise, draw_curves
from stepscope.report.build import build_report
from stepscope.report.compare import compare_groups
from stepscope.report.rows import classify_fleet, estimate_shapes
from stepscope.report.suspects import read_curve
from stepscope.report.types import Curve, Shapes
from stepscope.report.words import find_profile, name_steps
from stepscope.shape.types import SHAPES, UNRESOLVED
from stepscope.store import Store
from stepscope.values import Estimate, Unmeasured
from tests.factories import agent, did, failed, run, user
from tests.report.rows import LiteralRows, rows
from tests.report.test_curves import FALLS, HOLDS, NOISE, scores
from tests.store.test_scores import scored

SAWTOOTH = (0.9, 0.4) * 5
JUDGE = ("imported", "")


def fleet(*curves: tuple[float | None, ...], **more: object) -> LiteralRows:
    tasks = [str(at) for at in range(len(curves))]
    return LiteralRows(tasks=tasks, scores={JUDGE: curves}, sigma=NOISE, **more)  # type: ignore[arg-type]


def told(literal: LiteralRows) -> Shapes:
    found = build_report(rows(literal)).whole.shapes
    assert isinstance(found, Shapes), found
    return found


def test_shares_are_of_the_fitting_runs_and_the_others_are_counted() -> None:
    found = told(fleet(*[HOLDS] * 12, *[FALLS] * 6, *[SAWTOOTH] * 2, *[(0.9, 0.8)] * 3))
    assert found.labels == {"healthy": 12, "early_collapse": 6}
    assert found.shares["early_collapse"].value == pytest.approx(1 / 3, abs=0.02)
    assert sum(share.value for share in found.shares.values()) == pytest.approx(1)
    assert (found.n_runs, found.unmodelled, found.unresolved) == (20, 2, 0)
    assert found.unmeasured == {"insufficient_data": 3}
    low, high = found.shares["early_collapse"].worst_low, found.shares["early_collapse"].worst_high
    assert low is not None
    assert high is not None
    assert low < found.shares["early_collapse"].value < high


def test_the_source_and_the_noise_are_said() -> None:
    found = told(fleet(*[HOLDS] * 4))
    assert (found.source, found.sigma) == (
        "imported step scores",
        "0.040, 0.030–0.060 from repeated scorings; runs are classified with the upper limit",
    )
    unknown = told(LiteralRows(tasks=list("abcd"), scores={("llm", "gpt"): [HOLDS] * 4}))
    assert unknown.source == "step scores of a judge of gpt"
    assert unknown.sigma == "unknown, averaged over a range; stepscope calibrate sigma measures it"


def test_runs_without_scores_are_missing_input_where_others_have_them() -> None:
    found = told(fleet(*[HOLDS] * 3, (), ()))
    assert (found.n_runs, found.unmeasured) == (3, {"missing_input": 2})


def test_without_any_score_there_are_no_curves() -> None:
    found = build_report(rows(LiteralRows(tasks=["1", "2"])))
    assert isinstance(found.whole.shapes, Unmeasured)
    assert "shapes (no step scores here)" in found.not_claimed


def test_each_group_has_its_own_shapes() -> None:
    literal = fleet(*[HOLDS] * 5, *[FALLS] * 5, agents=["a"] * 5 + ["b"] * 5)
    report = build_report(rows(literal))
    a, b = (find_profile(report, name).shapes for name in "ab")
    assert isinstance(a, Shapes)
    assert isinstance(b, Shapes)
    assert (a.labels, b.labels) == ({"healthy": 5}, {"early_collapse": 5})


def test_of_several_scorers_one_is_taken_for_all_runs() -> None:
    literal = LiteralRows(
        tasks=["1", "2"],
        scores={("imported", "few"): [FALLS[:4], ()], ("imported", "many"): [HOLDS, HOLDS]},
    )
    found = told(literal)
    assert found.labels == {"healthy": 2}
    assert found.source == "imported step scores of many (few left aside)"


def test_a_gate_that_fails_is_counted() -> None:
    weights = {("w", "*"): (1.0, 1, 1, 1, 3, 1, 1, 1, 1, 1), ("w", "2"): (1.0,) * 10}
    assert told(fleet(FALLS, HOLDS, FALLS, fixed=weights)).gate_failed == 1


def test_a_fleet_says_of_each_run_what_the_run_says() -> None:
    curves = [FALLS, HOLDS, SAWTOOTH, FALLS[2:], tuple(reversed(HOLDS)), FALLS[:3]]
    with Store.open(":memory:") as store:
        store.put([scored(f"r{at}", *scores(*values)) for at, values in enumerate(curves)])
        runs = store.runs()
        found = classify_fleet(store, runs)
        assert found is not None
        for at, id_ in enumerate(runs.id.tolist()):
            one = read_curve(store, id_)
            assert isinstance(one, Curve)
            label = found.label[at]
            assert ("unresolved" if label == UNRESOLVED else SHAPES[label]) == (
                one.shape if found.state[at] == 1 else "unresolved"
            )
            assert bool(found.unmodelled[at]) == one.unmodelled
            assert found.break_step[at] == (-1 if one.break_step is None else one.break_step)


def test_labels_of_rules_give_no_shapes() -> None:
    cites = {
        "step_labels.steps": [tuple(range(0, 40, 2))] * 3,
        "step_labels.errors": [(30, 32, 34), (), None],
        "step_labels.redundant": [(10,), (), None],
    }
    found = build_report(rows(LiteralRows(tasks=["1", "2", "3"], cites=cites)))  # type: ignore[arg-type]
    assert isinstance(found.whole.shapes, Unmeasured)
    assert "shapes (no step scores here)" in found.not_claimed


def test_scores_of_some_runs_leave_labels_aside() -> None:
    cites = {"step_labels.steps": [None, tuple(range(9))], "step_labels.errors": [None, (1, 2)]}
    literal = LiteralRows(tasks=["1", "2"], cites=cites, scores={JUDGE: [HOLDS, ()]})  # type: ignore[arg-type]
    assert told(literal).unmeasured == {"missing_input": 1}


def test_the_same_rows_give_the_same_bytes_and_another_order_the_same_shares() -> None:
    curves = [*[HOLDS] * 6, *[FALLS] * 4]
    one, again = told(fleet(*curves)), told(fleet(*curves))
    assert one == again
    other = told(fleet(*reversed(curves)))
    for shape, share in one.shares.items():
        assert other.shares[shape].value == pytest.approx(share.value, abs=1e-6)


def test_the_run_to_look_at_first_is_where_scores_fall() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("good", *scores(*HOLDS)), scored("bad", *scores(*FALLS))])
        store.put_noise(NOISE)
        (first,) = build_report(store).look_first
    assert (first.name, first.suspects[0].kind, name_steps(first.suspects[0])) == (
        "bad",
        "break",
        "4",
    )


def test_real_labelled_runs_do_not_look_at_scores() -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), *did("x"), *failed("y"), agent("b"), agent("c"))])
        assert build_report(store).look_first == ()


def test_two_groups_are_compared_by_shape() -> None:
    literal = fleet(*[HOLDS] * 12, *[FALLS] * 12, agents=["a"] * 12 + ["b"] * 12)
    found = compare_groups(rows(literal), "a", "b").shapes
    assert not isinstance(found, Unmeasured)
    assert found.difference["early_collapse"].value == pytest.approx(1, abs=0.05)
    assert found.p["early_collapse"] < 0.01


def test_two_groups_without_scores_are_not_compared_by_shape() -> None:
    literal = LiteralRows(tasks=["1", "1"], agents=["a", "b"])
    assert isinstance(compare_groups(rows(literal), "a", "b").shapes, Unmeasured)


def test_a_taken_part_keeps_its_own_rows() -> None:
    literal = fleet(HOLDS, FALLS, SAWTOOTH)
    found = classify_fleet(rows(literal), literal.runs())
    assert found is not None
    part = found.take(np.array([False, True, True]))
    assert part.label.tolist() == [1, UNRESOLVED]
    assert part.unmodelled.tolist() == [False, True]
    assert part.break_step.tolist() == [4, -1]
    said = estimate_shapes(part, np.array([0, 1]), 0)
    assert isinstance(said, Shapes)
    assert (said.n_runs, said.source) == (2, found.source)


def test_a_sigma_is_an_estimate_whose_upper_limit_counts() -> None:
    wide = {"": Estimate(value=0.04, low=0.01, high=0.3, method="pooled", n=4, n_tasks=1)}
    literal = LiteralRows(tasks=list("abcdef"), scores={JUDGE: [FALLS] * 6}, sigma=wide)
    assert told(literal).labels == {}


def drawn_fleet(sigma: float, runs: int, n: int = 10) -> list[tuple[float | None, ...]]:
    rng = np.random.default_rng(2)
    parts = [draw_curves("smooth", shape, n, runs // 5, rng).curves for shape in SHAPES]
    return [tuple(row) for row in add_noise(np.vstack(parts), sigma, rng).tolist()]


def test_thirty_runs_that_nobody_measured_tell_their_noise() -> None:
    found = told(
        LiteralRows(tasks=[str(i) for i in range(30)], scores={JUDGE: drawn_fleet(0.08, 30)})
    )
    assert (
        ", learned from the scores of 30 runs; stepscope calibrate sigma measures it" in found.sigma
    )
    assert float(found.sigma[:4]) == pytest.approx(0.08, rel=0.25)
    fewer = told(
        LiteralRows(tasks=[str(i) for i in range(25)], scores={JUDGE: drawn_fleet(0.08, 25)})
    )
    assert fewer.sigma.startswith("unknown")


@pytest.mark.parametrize(("sigma", "contradicted"), [(0.05, False), (0.15, True)])
def test_curves_that_contradict_a_measured_noise_are_said_to(
    sigma: float, contradicted: bool
) -> None:
    found = told(fleet(*drawn_fleet(sigma, 60)))
    assert found.sigma.startswith("0.040, 0.030–0.060 from repeated scorings")
    assert ("the curves contradict it: they look like 0.1" in found.sigma) == contradicted
