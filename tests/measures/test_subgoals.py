"""A sub-goal is a predicate on calls that were answered; each takes a call of its own."""

from __future__ import annotations

from typing import Literal

import pytest

from stepscope.measures.outcome import SUBGOALS
from stepscope.model import (
    Answer,
    Case,
    Facts,
    Json,
    ReferenceCall,
    Step,
    SubGoal,
    ToolCall,
    Verdict,
)
from tests.factories import agent, calls, did, failed, goal, run, user
from tests.measures.answers import cites, label, value, whole

Order = Literal["ordered", "unordered", "dag"]


def answers(
    *steps: Step,
    goals: tuple[SubGoal, ...] = (),
    order: Order = "unordered",
    outputs: tuple[str, ...] = (),
    reference: tuple[ReferenceCall, ...] | None = None,
    facts: Facts | None = None,
) -> dict[str, Answer]:
    case = Case(
        workflow="shop", task="1", subgoals=goals, order=order, outputs=outputs, reference=reference
    )
    found = whole(SUBGOALS, run(*steps), case, facts)
    return {name.removeprefix("subgoals."): answer for name, answer in found.items()}


REFUND = goal("refund", order="A")


@pytest.mark.parametrize(
    ("steps", "share"),
    [
        (did("refund", order="A"), 1.0),
        (did("refund", order="A", note="more than asked"), 1.0),
        (did("refund", order="B"), 0.0),
        (did("refund"), 0.0),
        (did("cancel", order="A"), 0.0),
        (failed("refund", order="A"), 0.0),
        ((*failed("refund", order="A"), *did("refund", order="A")), 1.0),
        ((calls(ToolCall("refund", {"order": "A"})),), 0.0),
        ((), 0.0),
    ],
)
def test_a_sub_goal_is_reached_by_tool_arguments_and_an_answer_that_is_no_error(
    steps: tuple[Step, ...], share: float
) -> None:
    assert value(answers(*steps, goals=(REFUND,))["subgoals"]) == share


def test_two_equal_sub_goals_need_two_calls() -> None:
    once = answers(*did("refund", order="A"), goals=(REFUND, REFUND))
    assert (value(once["subgoals"]), label(once["subgoals"])) == (0.5, "some")
    twice = answers(*did("refund", order="A"), *did("refund", order="A"), goals=(REFUND, REFUND))
    assert label(twice["subgoals"]) == "all"


def test_a_wide_sub_goal_leaves_the_narrow_one_its_call() -> None:
    wide, narrow = goal("refund", name="any"), goal("refund", name="A", order="A")
    found = answers(*did("refund", order="A"), *did("refund", order="B"), goals=(wide, narrow))
    assert (value(found["reached"]), value(found["total"])) == (2.0, 2.0)


def test_the_missed_are_named_and_the_reaching_calls_cited() -> None:
    found = answers(*did("refund", order="A"), goals=(goal("cancel", name="call off"), REFUND))
    verdict = found["subgoals"]
    assert isinstance(verdict, Verdict)
    assert verdict.cites == (0,)
    assert verdict.reason == "1 of 2; missed call off"


@pytest.mark.parametrize(
    ("made", "order", "share"),
    [
        ("abc", "ordered", 1.0),
        ("acb", "ordered", 0.5),
        ("ab", "ordered", 1.0),
        ("ac", "ordered", 0.0),
        ("bab", "ordered", 1.0),
        ("a", "ordered", "not_applicable"),
        ("", "ordered", "not_applicable"),
        ("cba", "unordered", "not_applicable"),
        ("abc", "dag", 1.0),
        ("bac", "dag", 1.0),
        ("acb", "dag", 0.0),
        ("bc", "dag", 0.0),
    ],
)
def test_order_is_kept_when_every_prerequisite_came_first(
    made: str, order: Order, share: float | str
) -> None:
    steps = [step for name in made for step in did(name)]
    goals = (goal("a"), goal("b"), goal("c", after=("a", "b") if order == "dag" else ()))
    assert value(answers(*steps, goals=goals, order=order)["order"]) == share


def test_the_call_that_came_too_soon_is_cited() -> None:
    found = answers(*did("b"), *did("a"), goals=(goal("a"), goal("b")), order="ordered")["order"]
    assert isinstance(found, Verdict)
    assert (found.label, found.cites, found.reason) == ("broken", (0,), "b came too soon")


@pytest.mark.parametrize("after", [("b",), ("unheard of",)])
def test_an_order_that_nothing_can_keep_is_undefined(after: tuple[str, ...]) -> None:
    goals = (goal("a", after=after), goal("b", after=("a",)))
    assert value(answers(*did("a"), *did("b"), goals=goals, order="dag")["order"]) == "undefined"


@pytest.mark.parametrize(
    ("steps", "cited"),
    [
        (did("refund", order="A"), ()),
        ((*did("refund", order="A"), *did("refund", order="A")), (2,)),
        ((*did("cancel", order="B"), *did("refund", order="A")), (0,)),
        (did("get_order", order="B"), ()),
        (failed("cancel", order="B"), ()),
        (did("transfer_to_human"), ()),
        (did("poke"), ()),
        (did("submit_answer"), ()),
    ],
)
def test_other_writes_are_those_that_succeeded_and_serve_no_sub_goal(
    steps: tuple[Step, ...], cited: tuple[int, ...]
) -> None:
    found = answers(*steps, goals=(REFUND,))["other_writes"]
    assert (value(found), cites(found)) == (len(cited), cited)


def test_a_declared_effect_wins_over_the_name() -> None:
    facts = Facts(effects={"poke": "write", "cancel": "read"})
    found = answers(*did("poke"), *did("cancel"), goals=(REFUND,), facts=facts)
    assert cites(found["other_writes"]) == (0,)


def test_a_case_whose_reference_writes_nothing_makes_every_write_another() -> None:
    found = answers(*did("cancel"), reference=())
    assert value(found["other_writes"]) == 1.0
    assert value(found["subgoals"]) == "not_applicable"


def test_a_case_that_names_no_writes_cannot_tell_which_are_others() -> None:
    assert value(answers(*did("cancel"))["other_writes"]) == "missing_input"


@pytest.mark.parametrize(
    ("steps", "share"),
    [
        ((agent("You get 1,786 dollars for the RED one"),), 1.0),
        ((agent("You get 1786"), agent("the red one")), 1.0),
        ((agent("You get 1786"),), 0.5),
        ((user("1786, red"),), 0.0),
        (did("calculate", "1786 red"), 0.0),
        ((), 0.0),
    ],
)
def test_an_output_must_be_told_by_the_agent(steps: tuple[Step, ...], share: float) -> None:
    assert value(answers(*steps, outputs=("1786", "Red"))["outputs"]) == share


def test_without_a_case_everything_is_missing_input() -> None:
    assert {value(a) for a in whole(SUBGOALS, run(*did("refund"))).values()} == {"missing_input"}


NESTED: Json = {"payment": [{"id": "card", "amount": 5}]}


def test_nested_arguments_are_compared_and_may_say_more() -> None:
    wanted = (goal("book", **NESTED),)
    assert label(answers(*did("book", **NESTED), goals=wanted)["subgoals"]) == "all"
    more = {"payment": [{"id": "card", "amount": 5, "tip": 1}]}
    assert label(answers(*did("book", **more), goals=wanted)["subgoals"]) == "all"
    other = {"payment": [{"id": "card", "amount": 6}]}
    assert label(answers(*did("book", **other), goals=wanted)["subgoals"]) == "none"
