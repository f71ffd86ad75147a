"""The fitted table of localise: what it is fitted on, how folds are drawn, and what is printed."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from bars.measures._labelled_runs import COLUMNS, examples_of
from bars.measures._localise_page import PAGE, refreshed_page
from bars.measures._step_model import draw_folds, minimise
from bars.measures.fit_localise import PRINTED, format_table, mcnemar, print_list
from bars.planted.planted import score_by_rules
from stepscope.measures.step_features import FAMILIES, agent_steps
from tests.factories import FAILED, agent, did, failed, run, user

TABLE = files("stepscope.measures").joinpath("localise.json").read_text("utf-8")


@pytest.mark.parametrize(
    ("won", "lost", "p"), [(0, 0, 1.0), (3, 3, 1.0), (5, 0, 0.0625), (0, 6, 0.03125), (6, 1, 0.125)]
)
def test_mcnemar_is_the_sign_test_on_runs_that_differ(won: int, lost: int, p: float) -> None:
    first = [True] * won + [False] * lost + [True, False]
    second = [False] * won + [True] * lost + [True, False]
    assert mcnemar(first, second) == pytest.approx(p)


def test_runs_of_one_task_are_in_one_fold() -> None:
    task = np.array(["a", "b", "c", "a", "b", "d", "e"])
    fold = draw_folds(task, 3, seed=1)
    assert fold[0] == fold[3]
    assert fold[1] == fold[4]
    assert sorted(set(fold.tolist())) == [0, 1, 2]


def test_a_smooth_convex_function_is_minimised() -> None:
    wanted = np.array([1.0, -2.0, 3.0])
    scale = np.array([1.0, 4.0, 0.5])

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        return float((scale * (x - wanted) ** 2).sum()), 2 * scale * (x - wanted)

    assert minimise(loss, np.zeros(3)) == pytest.approx(wanted, abs=0.05)


def test_what_is_measured_is_the_list_that_is_printed() -> None:
    made = run(user("x"), *failed("get", id=1), *did("find"), agent("done"), outcome=FAILED)
    records = score_by_rules(made, None)
    printed = print_list(made, records, np.array([0.1, 0.3, 0.2]))
    assert agent_steps(made) == [1, 3, 5]
    assert printed.sum() < 1
    assert printed.argmax() == 1


def test_the_table_names_no_agent_and_no_index_beyond_the_third_step() -> None:
    table = json.loads(TABLE)
    names = [feature["name"] for feature in table["features"]]
    assert set(names) <= set(COLUMNS)
    assert {name.partition(".")[0] for name in names} == {
        *("place", "source", "open", "closed", "factors"),
    }


def test_the_table_says_what_it_was_fitted_on_and_what_it_reaches() -> None:
    table = json.loads(TABLE)
    assert table["data"]["runs"] == {
        "whowhen-algorithm": 59,
        "whowhen-handcrafted": 31,
        "agentrx, all": 14,
    }
    assert table["folds"] == {"by": "task", "outer": 10, "inner": 5, "seeds": 10}
    for family in FAMILIES:
        figures = table["figures"]["by_family"][family]
        for name in ("first", "three", "five"):
            mean, least, most = figures[name]
            assert 0 < least <= mean <= most < 1
    assert format_table(table) == TABLE


@pytest.mark.shared_data
def test_the_labelled_runs_are_those_of_the_list_printed_before(shared: Path) -> None:
    sets = examples_of(shared)
    assert {name: len(examples) for name, examples in sets.items()} == {
        "agentrx, agent's": 9,
        "agentrx, all": 14,
        "whowhen-algorithm": 59,
        "whowhen-handcrafted": 31,
    }
    before = json.loads(PRINTED.read_text("utf-8"))
    assert {e.run.name for name, all_ in sets.items() for e in all_} == set(before)


def test_the_page_prints_the_figures_of_the_table_and_no_others() -> None:
    page = PAGE.read_text("utf-8")
    assert refreshed_page(json.loads(TABLE)) == page
    assert page.count("<!-- end -->") == 8
