"""Steps are scored against sentences that a person confirmed, one for each step."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import ConfigError
from stepscope.judges.goals import MOST_BYTES, Goal, goals_toml, load_goals, propose_goals
from stepscope.model import Case, ToolCall, Trajectory
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, failed, goal, result, run, user

FOUND = """
[[run]]
name = "shop/1/0"
[[run.goals]]
goal = "Finds the order."
steps = [1]
confirmed = true
[[run.goals]]
goal = "Tells its state."
steps = [3]
confirmed = CONFIRMED

[[task]]
workflow = "shop"
task = "1"
[[task.goals]]
goal = "Looks the order up."
steps = [1, 3]
confirmed = true
"""


def made(name: str = "shop/1/0", task: str = "1") -> Trajectory:
    steps = (user("where is A1?"), *did("get_order", "sent", id="A1"), agent("sent"))
    return run(*steps, name=name, task=task)


def held(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "goals.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_runs_own_goals_come_before_its_tasks(tmp_path: Path) -> None:
    goals = load_goals(held(tmp_path, FOUND.replace("CONFIRMED", "true")))
    assert goals.of(made()) == (
        Goal(goal="Finds the order.", steps=(1,), confirmed=True),
        Goal(goal="Tells its state.", steps=(3,), confirmed=True),
    )
    assert goals.of(made(name="shop/1/1")) == (
        Goal(goal="Looks the order up.", steps=(1, 3), confirmed=True),
    )


def test_a_run_with_an_unconfirmed_goal_is_refused_and_told_how_to_confirm(tmp_path: Path) -> None:
    path = held(tmp_path, FOUND.replace("CONFIRMED", "false"))
    assert load_goals(path).of(made()) == Unmeasured(
        "missing_input",
        f"unconfirmed: 1 of 2 goals of shop/1/0 in {path}; read them beside the run, mend their "
        "steps, set confirmed = true",
    )


def test_a_run_without_goals_and_a_step_that_is_not_there_say_so(tmp_path: Path) -> None:
    path = held(tmp_path, FOUND.replace("CONFIRMED", "true").replace("[3]", "[4]"))
    goals = load_goals(path)
    none = goals.of(made(name="shop/2/0", task="2"))
    assert none == Unmeasured("missing_input", f"no_goals: {path} has none for shop/2/0")
    beyond = goals.of(made())
    assert isinstance(beyond, Unmeasured)
    assert beyond.reason == f"no_step: {path} covers step 4 of shop/1/0, which has 4 steps from 0"


ONE = '[[run]]\nname = "a"\n[[run.goals]]\ngoal = "x"\n'
TASK = '[[task]]\nworkflow = "shop"\ntask = "1"\n[[task.goals]]\ngoal = "x"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[runs]]", ": Object contains unknown field `runs`; expected [[run]] or [[task]]"),
        (ONE + "step = 1", ": Object contains unknown field `step`"),
        (ONE + "steps = [true]", ": Expected `int`, got `bool`"),
        (ONE + 'steps = ["1"]', ": Expected `int`, got `str`"),
        (ONE + "steps = [-1]", ": goals of a: number 1 covers step -1; steps count from 0"),
        (ONE + "confirmed = true", ": goals of a: number 1 is confirmed and covers no step"),
        (ONE.replace("x", " "), ": goals of a: number 1 has no sentence"),
        (ONE + "steps = [1, 1]", ": goals of a: number 1 covers step 1, which another covers"),
        (ONE + ONE, ": two entries for 'a'; put their goals into one"),
        (TASK + ONE + TASK, ": two entries for 'shop/1'; put their goals into one"),
        ("a =", ": not TOML in UTF-8: Invalid value"),
        ("a = " + "[" * 9000, ": not TOML in UTF-8: maximum recursion depth exceeded"),
    ],
)
def test_a_slip_in_the_file_is_one_line_that_says_where(
    tmp_path: Path, text: str, said: str
) -> None:
    path = held(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_goals(path)
    assert str(caught.value).startswith(f"{path}{said}")
    assert "\n" not in str(caught.value)


def test_a_file_that_people_did_not_write_is_refused_by_its_size(tmp_path: Path) -> None:
    path = held(tmp_path, "#" * MOST_BYTES + "\n")
    with pytest.raises(ConfigError, match="larger than 4194304 bytes; split it by workflow"):
        load_goals(path)


def test_a_draft_covers_the_calls_that_meet_the_sub_goals_and_confirms_nothing() -> None:
    case = Case(
        workflow="shop",
        task="1",
        subgoals=(
            goal("get_order", id="A1"),
            goal("refund", name="money back", id="A1", amount=1),
            goal("refund", id="A1"),
            goal("refund", id="A1"),
            goal("close"),
            goal("note"),
        ),
    )
    made = run(
        user("A1, please"),
        *failed("get_order", id="A1"),
        *did("get_order", id="A1", fast=True),
        *did("refund", id="B2", amount=1),
        *did("refund", id="A1", amount=True),
        *did("refund", id="A1", amount=1),
        *did("refund", id="A1"),
        calls(ToolCall("note")),
        result("ok"),
    )
    assert propose_goals(made, case) == (
        Goal(goal='Calls get_order with id "A1".', steps=(3,)),
        Goal(goal='money back: calls refund with id "A1", amount 1.', steps=(9,)),
        Goal(goal='Calls refund with id "A1".', steps=(7,)),
        Goal(goal='Calls refund with id "A1".', steps=(11,)),
        Goal(goal="Calls close.", steps=()),
        Goal(goal="Calls note.", steps=(13,)),
    )


def test_two_calls_in_one_step_give_the_step_to_the_first() -> None:
    case = Case(workflow="shop", task="1", subgoals=(goal("a"), goal("b")))
    both = calls(ToolCall("a", {}, "1"), ToolCall("b", {}, "2"))
    made = run(user("go"), both, result("ok", call_id="1"), result("ok", call_id="2"))
    assert propose_goals(made, case) == (
        Goal(goal="Calls a.", steps=(1,)),
        Goal(goal="Calls b.", steps=()),
    )


def test_a_case_without_sub_goals_gives_no_draft() -> None:
    found = propose_goals(made(), Case(workflow="shop", task="1"))
    assert isinstance(found, Unmeasured)
    assert found.kind == "not_applicable"


# What the door lets in: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(name=TEXT, sentence=TEXT, steps=st.sets(st.integers(0, 99), min_size=1))
def test_what_is_written_is_read_again(name: str, sentence: str, steps: set[int]) -> None:
    one = Goal(goal=sentence, steps=tuple(sorted(steps)), confirmed=True)
    text = goals_toml([(name, (one,))])
    held = tomllib.loads(text)
    assert held == {
        "run": [
            {
                "name": name,
                "goals": [{"goal": sentence, "steps": sorted(steps), "confirmed": True}],
            }
        ]
    }


def test_a_written_draft_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    case = Case(workflow="shop", task="1", subgoals=(goal("get_order", id="A1"),))
    one = made()
    drafted = propose_goals(one, case)
    assert not isinstance(drafted, Unmeasured)
    text = goals_toml([(one.name, drafted)])
    refused = load_goals(held(tmp_path, text)).of(one)
    assert isinstance(refused, Unmeasured)
    confirmed = text.replace("confirmed = false", "confirmed = true")
    assert load_goals(held(tmp_path, confirmed)).of(one) == (
        Goal(goal='Calls get_order with id "A1".', steps=(1,), confirmed=True),
    )
