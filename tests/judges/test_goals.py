"""Exchanges are scored against sentences that a person confirmed, found anew in every run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bars.judges.goals import GOALS, LEAST_FOUND, find_in_reruns
from stepscope.errors import ConfigError
from stepscope.judges.goals import (
    MOST_BYTES,
    MOST_PAIRS,
    MOST_WORDS,
    NO_GOALS,
    Goal,
    goals_toml,
    load_goals,
    locate_goals,
    propose_goals,
)
from stepscope.model import Case, Json, SubGoal, Trajectory
from stepscope.values import Unmeasured
from tests.factories import agent, did, failed, goal, run, user

FOUND = """
version = 2
[[run]]
name = "shop/1/0"
[[run.goals]]
goal = "Finds the order."
steps = [2]
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
tool = "get_order"
arguments = { id = "A1" }
confirmed = true
"""


def made(name: str = "shop/1/0", task: str = "1") -> Trajectory:
    steps = (user("where is A1?"), *did("get_order", "sent", id="A1"), agent("sent"))
    return run(*steps, name=name, task=task)


def held(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "goals.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_runs_own_goals_come_before_its_tasks_and_cover_exchanges(tmp_path: Path) -> None:
    goals = load_goals(held(tmp_path, FOUND.replace("CONFIRMED", "true")))
    # Step 2 is the result of step 1.
    assert goals.of(made()) == (("Finds the order.", (1, 2)), ("Tells its state.", (3,)))
    assert goals.of(made(name="shop/1/1")) == (("Looks the order up.", (1, 2)),)


def test_a_case_may_be_written_with_goals() -> None:
    written = Case(
        workflow="shop",
        task="1",
        subgoals=(
            SubGoal("found", "get_order", {"id": "A1"}, goal="Finds it."),
            SubGoal("told", after=("found",), goal="Tells it.", message="first"),
            SubGoal("paid", "pay"),
        ),
    )
    one = run(*made().steps, case=written)
    assert NO_GOALS.of(one) == (("Finds it.", (1, 2)), ("Tells it.", (3,)))
    # Rules measure what calls reach.
    assert [goal.name for goal in written.called] == ["found", "paid"]


def test_a_run_with_an_unconfirmed_goal_is_refused_and_told_how_to_confirm(tmp_path: Path) -> None:
    path = held(tmp_path, FOUND.replace("CONFIRMED", "false"))
    assert load_goals(path).of(made()) == Unmeasured(
        "missing_input",
        f"unconfirmed: 1 of 2 goals of shop/1/0 in {path}; compare them with the run, correct "
        "how each is found, set confirmed = true",
    )


def test_a_run_without_goals_and_a_step_that_is_not_there_say_so(tmp_path: Path) -> None:
    path = held(tmp_path, FOUND.replace("CONFIRMED", "true").replace("[3]", "[4]"))
    goals = load_goals(path)
    none = goals.of(made(name="shop/2/0", task="2"))
    assert none == Unmeasured("missing_input", f"no_goals: {path} has none for shop/2/0")
    found = goals.of(made())
    assert isinstance(found, tuple)
    assert found[1][1] == Unmeasured(
        "missing_input",
        "no_step: 'Tells its state.' covers step 4 of shop/1/0, which has 4 steps from 0",
    )


def located(trajectory: Trajectory, *goals: SubGoal, **cited: Trajectory) -> list[object]:
    found = locate_goals(trajectory, goals, cited)
    return [x.reason.partition(":")[0] if isinstance(x, Unmeasured) else x for x in found]


BUYS = run(
    user("two lamps, and where is A1?"),
    *did("get_order", "sent", id="A1"),
    *failed("buy", what="lamp"),
    *did("buy", "done: 1", what="lamp"),
    *did("get_order", "here", id="A2"),
    *did("buy", "done: 2", what="lamp"),
    agent("Both lamps are bought."),
    user("thanks"),
    agent("Goodbye."),
)


def wants(tool: str = "", *after: str, message: Any = "", like: str = "", **given: Json) -> SubGoal:
    name = f"{tool}{message}{like}"
    return SubGoal(name, tool, given, after, goal="So.", message=message, like=like)


@pytest.mark.parametrize(
    ("goals", "found"),
    [
        ([wants("get_order", id="A2")], [(7, 8)]),
        # Two calls may be it, and its arguments do not say which.
        ([wants("get_order")], ["ambiguous"]),
        ([wants("buy")], ["ambiguous"]),
        # As many goals as exchanges: one each, in order; a failed try is none of them.
        ([wants("buy"), wants("buy")], [(5, 6), (9, 10)]),
        (
            [
                SubGoal("bought", "buy", {}, ("seen",), goal="Buys it."),
                SubGoal("seen", "get_order", {"id": "A2"}, goal="Sees it."),
            ],
            [(9, 10), (7, 8)],
        ),
        ([wants("get_order", "buy"), wants("buy", what="shade")], ["no_exchange", "no_exchange"]),
        ([wants("get_order", id="A3")], ["no_exchange"]),
        ([wants(message="first")], [(11,)]),
        ([wants(message="last")], [(13,)]),
        ([wants(message="first"), wants(message="first")], [(11,), (13,)]),
        ([wants("pay"), wants("", "pay", message="first")], ["no_exchange", "no_exchange"]),
        # More goals than exchanges: nobody knows which of them was not reached.
        ([wants("buy")] * 3, ["ambiguous"] * 3),
        # Of a case, which nobody has checked.
        ([wants("a", "b"), wants("b", "a"), wants("buy")], ["goals_in_a_cycle"] * 3),
    ],
)
def test_goals_are_found_by_tool_arguments_and_order(
    goals: list[SubGoal], found: list[object]
) -> None:
    assert located(BUYS, *goals) == found


def test_only_failed_tries_are_scored_as_the_last_one() -> None:
    tried = run(user("go"), *failed("buy", what="lamp"), *failed("buy", what="shade"))
    assert located(tried, wants("buy")) == [(3, 4)]


def test_two_equal_calls_are_one_exchange_and_the_first_is_scored() -> None:
    twice = run(user("go"), *did("look", "so", at="x"), *did("look", "so", at="x"))
    assert located(twice, wants("look")) == [(1, 2)]
    changed = run(user("go"), *did("look", "so", at="x"), *did("look", "other", at="x"))
    assert located(changed, wants("look")) == ["ambiguous"]


def test_a_goal_that_is_like_a_step_stands_where_that_stands() -> None:
    steps = list(BUYS.steps)
    other = run(
        *steps[:3],
        *did("get_order", "elsewhere", id="A9"),
        agent("One moment, please."),
        *steps[5:11],
        agent("Both of the lamps are bought."),
    )
    like = {"BUYS": BUYS}
    assert located(other, wants(like="BUYS:7"), **like) == [(8, 9)]
    assert located(other, wants(like="BUYS:11"), **like) == [(12,)]
    # A result stands for the exchange that it belongs to.
    assert located(other, wants(like="BUYS:6"), **like) == [(6, 7)]
    for step, word in (
        ("BUYS:13", "no_exchange"),
        ("BUYS:99", "no_example"),
        ("X:1", "no_example"),
        ("BUYS:-1", "no_example"),
        ("BUYS:first", "no_example"),
    ):
        assert located(other, wants(like=step), **like) == [word]
    one = run(user("go"), *did("look", "so", at="x"))
    for again, found in (("so", (1, 2)), ("no", "ambiguous")):
        twice = run(user("go"), *did("look", "so", at="x"), *did("look", again, at="x"))
        assert located(twice, wants(like="one:1"), one=one) == [found]
    long = run(*(agent(f"so {n}") for n in range(MOST_PAIRS // 6)))
    assert located(long, wants(like="BUYS:9"), **like) == ["too_long"]


def test_an_exchange_serves_one_goal_however_it_was_found() -> None:
    like = wants(like="BUYS:7")
    assert located(BUYS, wants("get_order", id="A2"), like, BUYS=BUYS) == [(7, 8), "no_exchange"]
    # A result and its call are one exchange.
    both = [Goal(name="", goal="So.", steps=(step,)) for step in (7, 8)]
    assert located(BUYS, *both) == [(7, 8), "no_exchange"]


def test_long_messages_are_compared_by_their_first_words() -> None:
    words = [str(n) for n in range(MOST_WORDS)]
    other = run(user("go"), agent(" ".join([*words, *"abc"])), agent("no"), name="other")
    one = run(user("go"), agent(" ".join([*words, *(f"x{n}" for n in range(9_000))])))
    assert located(one, wants(like="other:1"), other=other) == [(1,)]


def test_goals_of_one_run_are_found_in_re_runs_and_never_at_a_wrong_step() -> None:
    whole, open_, wrong = find_in_reruns(100)
    assert wrong == 0
    assert whole >= LEAST_FOUND
    assert open_ <= GOALS * (100 - whole)


ONE = '[[run]]\nname = "a"\n[[run.goals]]\ngoal = "x"\n'
TASK = '[[task]]\nworkflow = "shop"\ntask = "1"\n[[task.goals]]\ngoal = "x"\n'
TWO = "version = 2\n" + ONE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[runs]]", ": Object contains unknown field `runs`; expected [[run]] or [[task]]"),
        ("version = 3", ": Invalid enum value 3 - at `$.version`; expected [[run]] or [[task]]"),
        (ONE + "step = 1", ": Object contains unknown field `step`"),
        (ONE + "steps = [true]", ": Expected `int`, got `bool`"),
        (ONE + 'steps = ["1"]', ": Expected `int`, got `str`"),
        (ONE + "steps = [-1]", ": goals of a: number 1 covers step -1; steps count from 0"),
        (ONE + "confirmed = true", ": goals of a: number 1 is confirmed and nothing finds it"),
        (ONE.replace("x", " "), ": goals of a: number 1 has no sentence"),
        (ONE + "steps = [1, 1]", ": goals of a: number 1 covers step 1, which another covers"),
        (ONE + 'tool = "buy"', ": goals of a: number 1 has tool, of version 2; begin the file"),
        (TWO + 'tool = "a"\nsteps = [1]', ": goals of a: number 1 has steps and tool; one of"),
        (TWO + 'like = "shop/1/0"', ": goals of a: number 1 is like 'shop/1/0'; expected the name"),
        (TWO + 'after = ["y"]', ": goals of a: number 1 comes after 'y', which no goal is called"),
        (TWO + 'name = "y"\nafter = ["y"]', ": goals of a: goals wait for each other: y, y"),
        (TASK + "steps = [1]", ": goals of shop/1: number 1 covers steps, which differ from run"),
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


def test_a_draft_finds_what_the_sub_goals_say_and_confirms_nothing() -> None:
    case = Case(
        workflow="shop",
        task="1",
        subgoals=(
            goal("get_order", id="A1"),
            goal("refund", name="money back", id="A1", amount=1),
            goal("close"),
        ),
    )
    found = propose_goals(case)
    assert isinstance(found, tuple)
    assert [(one.goal, one.tool, one.arguments, one.confirmed) for one in found] == [
        ('Calls get_order with id "A1".', "get_order", {"id": "A1"}, False),
        ('money back: calls refund with id "A1", amount 1.', "refund", {"id": "A1", "amount": 1},
         False),
        ("Calls close.", "close", {}, False),
    ]  # fmt: skip


def test_a_case_without_sub_goals_gives_no_draft() -> None:
    found = propose_goals(Case(workflow="shop", task="1"))
    assert isinstance(found, Unmeasured)
    assert found.kind == "not_applicable"


# What the door lets in: no lone surrogates.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(task=TEXT, sentence=TEXT, arguments=st.dictionaries(TEXT, VALUES, max_size=4))
def test_what_is_written_is_read_again(
    task: str, sentence: str, arguments: dict[str, Json]
) -> None:
    one = Goal(goal=sentence, tool="t", arguments=arguments)
    read = tomllib.loads(goals_toml([("shop", task, (one,))]))
    (made_task,) = read["task"]
    assert (read["version"], made_task["workflow"], made_task["task"]) == (2, "shop", task)
    (again,) = made_task["goals"]
    assert again.pop("confirmed") is False
    assert msgspec.convert(again, Goal) == one


def test_a_written_draft_is_refused_until_it_is_confirmed(tmp_path: Path) -> None:
    drafted = propose_goals(Case(workflow="shop", task="1", subgoals=(goal("get_order", id="A1"),)))
    assert isinstance(drafted, tuple)
    text = goals_toml([("shop", "1", drafted)])
    assert isinstance(load_goals(held(tmp_path, text)).of(made()), Unmeasured)
    confirmed = text.replace("confirmed = false", "confirmed = true")
    assert load_goals(held(tmp_path, confirmed)).of(made()) == (
        ('Calls get_order with id "A1".', (1, 2)),
    )
