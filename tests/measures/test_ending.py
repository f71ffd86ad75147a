"""Outcome, termination, loops: how a run ended and whether it went in circles."""

from __future__ import annotations

import pytest

from stepscope.measures.outcome import OUTCOME, TERMINATION
from stepscope.measures.same_calls import LOOPS, longest_cycle
from stepscope.model import Case, Outcome, Step, Verdict
from tests.factories import FAILED, PASSED, agent, did, failed, goal, run, user
from tests.measures.answers import cites, label, value, whole


@pytest.mark.parametrize(
    ("outcome", "figure", "reason"),
    [
        (PASSED, 1.0, "reward 1"),
        (FAILED, 0.0, "reward 0"),
        (Outcome("fail", "reward", 0.5, "reward 0.5"), 0.0, "reward 0.5"),
        (Outcome("pass", "label"), 1.0, "label"),
        (Outcome("fail", "check", None, "order not found"), 0.0, "check: order not found"),
    ],
)
def test_an_outcome_says_where_it_comes_from(outcome: Outcome, figure: float, reason: str) -> None:
    found = whole(OUTCOME, run(outcome=outcome))["outcome"]
    assert isinstance(found, Verdict)
    assert (found.value, found.reason) == (figure, reason)


def test_an_unknown_outcome_is_unmeasured_not_a_failure() -> None:
    assert value(whole(OUTCOME, run())["outcome"]) == "missing_input"


@pytest.mark.parametrize(
    ("keys", "cycle"),
    [
        ("", (0, 0, 0)),
        ("abc", (0, 0, 0)),
        ("aba", (0, 0, 0)),
        ("aa", (0, 2, 1)),
        ("abab", (0, 4, 2)),
        ("xababa", (1, 5, 2)),
        ("aabaab", (0, 6, 3)),
        ("xaay", (1, 2, 1)),
        ("aaxbbb", (3, 3, 1)),
        ("aaaa", (0, 4, 1)),
    ],
)
def test_a_cycle_must_go_round_twice(keys: str, cycle: tuple[int, int, int]) -> None:
    assert longest_cycle(keys) == cycle


def test_a_loop_is_cited_and_its_calls_counted() -> None:
    a, b = did("get", id=1), did("list")
    found = whole(LOOPS, run(*did("think"), *a, *b, *a, *b))["loops"]
    assert (value(found), cites(found)) == (4.0, (2, 4, 6, 8))
    assert value(whole(LOOPS, run(*a, *did("get", id=2)))["loops"]) == 0.0
    assert value(whole(LOOPS, run(agent("hi")))["loops"]) == "not_applicable"


CASE = Case(workflow="shop", task="1", subgoals=(goal("refund", order="A"),))
NO_WRITE = Case(workflow="shop", task="1", reference=())
TELL = Case(workflow="shop", task="1", outputs=("1786",))
DONE = did("refund", order="A")
BYE = agent("Goodbye.")


@pytest.mark.parametrize(
    ("steps", "case", "outcome", "expected"),
    [
        ((*DONE, BYE), CASE, FAILED, "stopped_well"),
        ((*failed("refund", order="A"), BYE), CASE, FAILED, "too_early"),
        ((*DONE, *did("cancel"), BYE), CASE, PASSED, "too_late"),
        ((*DONE, *did("get_order"), BYE), CASE, PASSED, "stopped_well"),
        ((*did("cancel"), *DONE, BYE), CASE, PASSED, "stopped_well"),
        ((*DONE, *failed("cancel"), BYE), CASE, PASSED, "stopped_well"),
        ((*did("cancel"), BYE), NO_WRITE, FAILED, "too_late"),
        ((*did("get"), BYE), NO_WRITE, FAILED, "stopped_well"),
        ((agent("That is 1,786."),), TELL, FAILED, "stopped_well"),
        ((BYE,), TELL, PASSED, "too_early"),
        (DONE, CASE, FAILED, "limit"),
        (did("transfer_to_human_agents"), NO_WRITE, FAILED, "stopped_well"),
        (did("send_certificate"), NO_WRITE, FAILED, "limit"),
        (did("search_onestop_flight"), NO_WRITE, FAILED, "limit"),
        (did("submit_answer"), NO_WRITE, FAILED, "stopped_well"),
        ((*DONE, user("###STOP###")), CASE, PASSED, "stopped_well"),
        ((BYE,), None, PASSED, "stopped_well"),
        ((BYE,), None, FAILED, "missing_input"),
        ((BYE,), Case(workflow="shop", task="1"), Outcome(), "missing_input"),
        (did("get"), None, Outcome(), "limit"),
        ((), None, Outcome(), "missing_input"),
    ],
)
def test_a_run_stops_well_when_all_is_done_and_nothing_more(
    steps: tuple[Step, ...], case: Case | None, outcome: Outcome, expected: str
) -> None:
    assert label(whole(TERMINATION, run(*steps, outcome=outcome), case)["termination"]) == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("max_steps", "limit"),
        ("context_length_exceeded", "limit"),
        ("timeout", "limit"),
        ("user_stop", "stopped_well"),
        ("end_turn", "stopped_well"),
    ],
)
def test_what_the_trace_says_of_its_end_wins(said: str, expected: str) -> None:
    made = run(*DONE, termination=said)
    assert label(whole(TERMINATION, made, CASE)["termination"]) == expected


def test_an_end_cites_where_it_was() -> None:
    early = whole(TERMINATION, run(*did("get"), BYE), CASE)["termination"]
    assert isinstance(early, Verdict)
    assert (early.cites, early.reason) == ((2,), "stopped before refund")
    late = whole(TERMINATION, run(*DONE, *did("cancel"), BYE), CASE)["termination"]
    assert isinstance(late, Verdict)
    assert (late.cites, late.reason) == ((2,), "everything was done at 0, yet it wrote cancel")
