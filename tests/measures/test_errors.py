"""Tool errors, where the belief comes from, and what the agent did about them."""

from __future__ import annotations

import pytest

from stepscope.measures.errors import ERRORS, RECOVERY
from stepscope.model import Answer, Facts, Step, ToolCall, Trajectory, Verdict
from tests.factories import agent, calls, did, failed, result, run, user
from tests.measures.answers import cites, labels, value, whole


def errors(made: Trajectory) -> Answer:
    return whole(ERRORS, made)["errors"]


def test_errors_are_cited_at_their_results_with_the_belief_behind_each() -> None:
    made = run(
        *failed("get"),
        calls(ToolCall("pay", {})),
        result("HTTP 500", "error", source="heuristic"),
        *did("get"),
    )
    assert (value(errors(made)), cites(errors(made))) == (2.0, (1, 3))
    assert labels(ERRORS, made) == {1: "explicit", 3: "heuristic"}


def test_a_run_whose_results_say_nothing_is_unmeasured_not_clean() -> None:
    silent = run(calls(ToolCall("get", {})), result("?", "unknown"))
    assert value(errors(silent)) == "missing_input"
    assert value(errors(run(calls(ToolCall("get", {}))))) == "missing_input"
    assert value(errors(run(*did("get"), calls(ToolCall("get", {})), result("?", "unknown")))) == 0
    assert value(errors(run(agent("hello")))) == 0


def test_two_errors_of_one_step_are_one_answer_about_it() -> None:
    both = calls(ToolCall("a", {}, id="1"), ToolCall("b", {}, id="2"))
    one, two = (
        result("no a", "error", source="heuristic", call_id="1"),
        result("no b", "error", source="explicit", call_id="2"),
    )
    together = Step(
        index=1, actor="environment", kind="result", results=(*one.results, *two.results)
    )
    made = run(both, together)
    steps = [a for a in ERRORS(made, None, None) if isinstance(a, Verdict) and a.step == 1]
    assert [(a.label, a.reason) for a in steps] == [("explicit", "no a; no b")]
    assert value(errors(made)) == 2.0
    assert labels(RECOVERY, made) == {1: "ignored"}


@pytest.mark.parametrize(
    ("after", "label"),
    [
        (did("pay", card="b"), "recovered"),
        ((*did("get"), *did("pay", card="b")), "recovered"),
        ((*did("get"), *did("get"), *did("pay", card="b")), "ignored"),
        ((*did("get"), *did("get"), *did("pay", card="a")), "replanned"),
        (did("charge", card="b"), "ignored"),
        (did("charge", card="a", usd=1), "replanned"),
        (did("get_card", card="a"), "ignored"),
        ((agent("Unfortunately that card was declined."),), "reported"),
        ((agent("I couldn\u2019t charge it."),), "reported"),
        ((agent("All done, thank you!"),), "ignored"),
        ((agent("Paid! Please don't hesitate to ask."),), "ignored"),
        ((*did("get"), agent("There was an issue.")), "reported"),
        ((*did("ship"), agent("There was an issue.")), "ignored"),
        (did("transfer_to_human_agents"), "reported"),
        ((*did("think"), *did("escalate")), "reported"),
        (did("transfer_funds"), "ignored"),
        (did("hand_off_to_billing"), "reported"),
        (failed("pay", card="a"), "repeated"),
        (failed("pay", "Error: other", card="a"), "ignored"),
        (failed("pay", card="b"), "ignored"),
        ((*failed("pay", card="a"), *did("pay", card="b")), "recovered"),
        ((user("hm"), agent("That failed.")), "reported"),
        ((), "ignored"),
    ],
)
def test_the_best_reaction_that_holds_is_named(after: tuple[Step, ...], label: str) -> None:
    assert labels(RECOVERY, run(*failed("pay", card="a"), *after))[1] == label


def test_a_declared_alternative_recovers() -> None:
    made = run(*failed("pay", card="a"), *did("charge", card="b"))
    facts = Facts(alternatives={"pay": ("charge",)})
    assert labels(RECOVERY, made, facts=facts) == {1: "recovered"}


def test_another_key_of_the_same_lookup_is_another_route() -> None:
    made = run(*failed("find_user_by_email", email="x"), *did("find_user_by_name", name="y"))
    assert labels(RECOVERY, made) == {1: "replanned"}
    other = run(*failed("find_user_by_email", email="x"), *did("find_order_by_name", name="y"))
    assert labels(RECOVERY, other) == {1: "ignored"}


def test_an_unanswered_retry_recovers_nothing() -> None:
    assert labels(RECOVERY, run(*failed("pay"), calls(ToolCall("pay", {})))) == {1: "ignored"}


def test_the_share_counts_errors_and_cites_those_left() -> None:
    made = run(*failed("pay"), *did("pay"), *failed("ship"))
    found = whole(RECOVERY, made)
    assert (value(found["recovery"]), cites(found["recovery"])) == (0.5, (5,))
    assert value(found["recovery.recovered"]) == 1.0


def test_no_errors_is_not_applicable_not_a_perfect_recovery() -> None:
    found = whole(RECOVERY, run(*did("pay")))
    assert {value(answer) for answer in found.values()} == {"not_applicable"}
    silent = whole(RECOVERY, run(calls(ToolCall("get", {})), result("?", "unknown")))
    assert {value(answer) for answer in silent.values()} == {"missing_input"}


def test_a_reason_is_one_line_of_a_tables_width() -> None:
    made = run(*failed("pay", "Error: no\nTraceback\n" + "x" * 500))
    verdicts = [a for a in ERRORS(made, None, None) if a.step == 1]
    assert [verdict.reason for verdict in verdicts] == ["Error: no"]
    long = [a for a in ERRORS(run(*failed("pay", "y" * 500)), None, None) if a.step == 1]
    assert len(long[0].reason) == 120
