"""A call is redundant only when its answer was known and still held."""

from __future__ import annotations

import pytest

from stepscope.measures.same_calls import REDUNDANT_CALLS, redundant_calls
from stepscope.model import Facts, Step, ToolCall
from tests.factories import calls, did, failed, result, run
from tests.measures.answers import cites, value, whole

ORDER = '{"order": "A", "status": "pending", "items": 3}'


def figures(*steps: Step, facts: Facts | None = None) -> dict[str, float | str | None]:
    found = whole(REDUNDANT_CALLS, run(*steps), facts=facts)
    return {name.removeprefix("redundant_calls."): value(a) for name, a in found.items()}


@pytest.mark.parametrize(
    ("steps", "redundant", "identical", "back_to_back"),
    [
        ((*did("get", id=1), *did("get", id=1)), 1, 1, 1),
        ((*did("get", id=1), *did("get", id=2)), 0, 0, 0),
        ((*did("get", id=1), *did("list", id=1)), 0, 0, 0),
        ((*did("get", a=1, b=2), *did("get", b=2, a=1)), 1, 1, 1),
        ((*did("get", id=1), *did("list"), *did("get", id=1)), 1, 1, 0),
        ((*did("get", id=1), *did("cancel", id=1), *did("get", id=1)), 0, 1, 0),
        ((*did("get", id=1), *failed("cancel", id=1), *did("get", id=1)), 1, 1, 0),
        ((*did("get", id=1), *did("bash", cmd="make"), *did("get", id=1)), 0, 1, 0),
        ((*did("bash", cmd="ls"), *did("bash", cmd="ls")), 1, 1, 1),
        ((*failed("get", id=1), *did("get", id=1)), 0, 1, 1),
        ((*failed("get", id=1), *did("get", id=1), *did("get", id=1)), 1, 2, 2),
        ((*did("cancel", id=1), *did("cancel", id=1)), 0, 1, 1),
        ((*did("cancel", id=1), *did("book", id=2), *did("cancel", id=1)), 0, 1, 0),
        ((calls(ToolCall("get", {"id": 1})), calls(ToolCall("get", {"id": 1}))), 0, 1, 1),
        ((*did("get", id=1), *did("get", id=1), *did("get", id=1)), 2, 2, 2),
        (did("get"), 0, 0, 0),
    ],
)
def test_redundant_identical_and_back_to_back_are_three_figures(
    steps: tuple[Step, ...], redundant: int, identical: int, back_to_back: int
) -> None:
    found = figures(*steps)
    assert found["count"] == redundant
    assert found["identical"] == identical
    assert found["back_to_back"] == back_to_back


def test_no_calls_is_unmeasured_not_zero() -> None:
    assert figures()["redundant_calls"] == "not_applicable"
    assert figures()["count"] == 0.0


def test_the_share_is_of_all_calls_and_cites_the_repeats_not_the_originals() -> None:
    steps = (*did("get", id=1), *did("list"), *did("get", id=1), *did("think"))
    found = whole(REDUNDANT_CALLS, run(*steps))["redundant_calls"]
    assert (value(found), cites(found)) == (0.25, (4,))


def test_a_declared_effect_changes_what_still_holds() -> None:
    steps = (*did("get"), *did("bash"), *did("get"))
    assert figures(*steps, facts=Facts(effects={"bash": "read"}))["count"] == 1
    assert figures(*steps, facts=Facts(effects={"bash": "write"}))["count"] == 0


def test_two_equal_calls_of_one_step_are_one_too_many() -> None:
    twin = calls(ToolCall("get", {}, id="1"), ToolCall("get", {}, id="2"))
    steps = (twin, result("x", call_id="1"), result("x", call_id="2"))
    assert figures(*steps)["identical"] == 1


def test_a_users_call_is_not_the_agents_repeat_but_its_writes_count() -> None:
    looks = calls(ToolCall("get", {}, requestor="user"))
    assert figures(*did("get"), looks, result("ok"))["count"] == 0
    pays = calls(ToolCall("pay", {}, requestor="user"))
    assert figures(*did("get"), pays, result("ok"), *did("get"))["count"] == 0


def test_a_repeat_is_paired_with_the_call_it_repeats() -> None:
    made = run(*did("get"), *did("get"))
    assert [(a.step, b.step) for a, b in redundant_calls(made.exchanges, None)] == [(2, 0)]


@pytest.mark.parametrize(
    ("steps", "near"),
    [
        ((*did("get", ORDER, id="A"), *did("get", ORDER, id="a")), 1),
        ((*did("get", ORDER, id="A"), *did("get", ORDER, id="A")), 0),
        ((*did("get", ORDER, id="A"), *did("get", ORDER + " ", id="a")), 0),
        ((*did("get", ORDER, id="A"), *did("look_up", ORDER, id="a")), 0),
        ((*did("search", "[]", day=1), *did("search", "[]", day=2)), 0),
        ((*did("cancel", ORDER, id="A"), *did("cancel", ORDER, id="a")), 0),
        ((*failed("get", ORDER, id="A"), *failed("get", ORDER, id="a")), 0),
    ],
)
def test_a_near_duplicate_asks_differently_and_is_told_the_same(
    steps: tuple[Step, ...], near: int
) -> None:
    assert figures(*steps)["near"] == near
