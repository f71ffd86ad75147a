"""localise is compared with constant rules that were chosen on other tasks, and tested exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from bars.measures.localise import (
    RULES,
    Example,
    best,
    examples_of,
    hits_of,
    mcnemar,
    out_of_fold,
    verdict,
)
from tests.factories import agent, run


def example(task: str, steps: int, *named: int) -> Example:
    return Example(run(*[agent("x")] * steps, task=task), named)


def test_a_step_is_near_when_any_named_step_is() -> None:
    two = example("1", 9, 2, 7)
    assert [two.near(step, 1) for step in range(9)] == [0, 1, 1, 1, 0, 0, 1, 1, 1]


def test_a_constant_never_names_a_step_beyond_the_run() -> None:
    assert all(0 <= rule.step(n) < n for rule in RULES for n in (1, 2, 30))


@pytest.mark.parametrize(
    ("examples", "tolerance", "name"),
    [
        ([example("1", 9, 3), example("2", 30, 3)], 0, "step 3"),
        ([example("1", 9, 7), example("2", 30, 28)], 0, "last - 1"),
        ([example("1", 41, 20), example("2", 21, 10)], 0, "at 0.50"),
        ([example("1", 9, 3), example("2", 9, 5), example("3", 9, 5)], 0, "step 5"),
        ([example("1", 9, 3), example("2", 9, 5), example("3", 9, 5)], 1, "step 4"),
        ([example("1", 9, 4), example("2", 9, 5), example("3", 9, 5)], 1, "step 5"),
    ],
)
def test_the_best_constant_hits_most_and_of_equals_is_the_tighter(
    examples: list[Example], tolerance: int, name: str
) -> None:
    assert best(hits_of(examples), tolerance).name == name


def test_the_constant_of_a_run_is_chosen_on_other_tasks() -> None:
    runs = [example("1", 9, 3), example("1", 9, 3), example("2", 9, 6), example("3", 9, 6)]
    assert out_of_fold(runs, 0)[:2] == [6, 6]
    assert out_of_fold(runs, 0)[2] == 3


@pytest.mark.parametrize(
    ("won", "lost", "p"), [(0, 0, 1.0), (3, 3, 1.0), (5, 0, 0.0625), (0, 6, 0.03125), (6, 1, 0.125)]
)
def test_mcnemar_is_the_sign_test_on_runs_that_differ(won: int, lost: int, p: float) -> None:
    first = [True] * won + [False] * lost + [True, False]
    second = [False] * won + [True] * lost + [True, False]
    assert mcnemar(first, second) == pytest.approx(p)


@pytest.mark.shared_data
def test_the_bar_holds_on_the_agents_failures_of_agentrx(shared: Path) -> None:
    sets = examples_of(shared)
    assert {name: len(examples) for name, examples in sets.items()} == {
        "agentrx, agent's": 9,
        "agentrx, all": 14,
        "whowhen-algorithm": 59,
        "whowhen-handcrafted": 31,
    }
    assert sum(len(e.named) for e in sets["agentrx, agent's"]) == 10
    assert verdict(sets["agentrx, agent's"]) == 0
