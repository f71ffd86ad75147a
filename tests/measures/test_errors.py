"""Tool errors, where the belief comes from, and what the agent did about them."""

from __future__ import annotations

import pytest

from stepscope.measures.calls import compared_error, error_message
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
    reasons = []
    for text in ("yes " * 99, "no key " + "y" * 500, "y" * 500):
        (answer,) = [a for a in ERRORS(run(*failed("pay", text)), None, None) if a.step == 1]
        reasons.append(answer.reason)
    assert len(reasons[0]) == 120
    # The beginning of a long word might be that of a secret, and nobody could tell.
    assert reasons[1:] == ["no key…", "a word of 500 characters…"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Error: gone", "Error: gone"),
        ("Exit code 1\nmake: *** No rule", "make: *** No rule"),
        ("<returncode>1</returncode>\n<output>\ncat: lib.py: No such file\n</output>",
         "cat: lib.py: No such file"),
        ("exitcode: 1 (execution failed)\nCode output: boom", "boom"),
        ('Traceback (most recent call last):\n  File "x"\nKeyError: 1\n', "KeyError: 1"),
        ("Exit code 1", "Exit code 1"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_exit_code_is_a_status_and_no_message(text: str, message: str) -> None:
    assert error_message(result(text, "error").results[0]) == message


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Exit code 1\nNo rule", "Exit code 2\nNo rule", True),
        ("Exit code 1\nNo rule", "Exit code 1\nDisk full", False),
        ("1 failed in 0.04s\nboom", "1 failed in 0.31s\nboom", True),
        ("F.\ntest_a failed", "F.\ntest_b failed", False),
    ],
)
def test_errors_are_the_same_where_tool_and_message_agree(one: str, other: str, same: bool) -> None:
    made = run(*failed("bash", one), *failed("bash", other), *failed("sh", one)).exchanges
    assert (compared_error(made[0]) == compared_error(made[1])) is same
    assert compared_error(made[0]) != compared_error(made[2])


def test_another_program_of_a_shell_recovers_nothing() -> None:
    broken = failed("bash", "Exit code 2\nNo rule", command="make test")
    assert labels(RECOVERY, run(*broken, *did("bash", command="ls"))) == {1: "ignored"}
    assert labels(RECOVERY, run(*broken, *did("bash", command="cd a && make all"))) == {
        1: "recovered"
    }


def test_code_in_messages_that_fails_is_an_error_by_heuristic() -> None:
    code = agent("```python\nprint(1/0)\n```")
    crash = Step(
        index=0, actor="environment", parts=agent("exitcode: 1").parts, error="exitcode: 1"
    )
    fine = Step(index=0, actor="environment", parts=agent("exitcode: 0").parts)
    found = whole(ERRORS, run(code, crash, code, fine))["errors"]
    assert (value(found), cites(found)) == (1.0, (1,))
    assert labels(ERRORS, run(code, crash)) == {1: "heuristic"}
    assert value(whole(ERRORS, run(code, fine))["errors"]) == 0.0


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("F.\n[The command completed with exit code 1.]", "error"),
        ("ok\nexit=0\n", "ok"),
        ("Process exited with code 2", "unknown"),
        ("if x:\n    return 1", "unknown"),
        ("#!/bin/sh\nexit 1", "unknown"),
        ("exit code: 1\nmore text", "unknown"),
    ],
)
def test_an_exit_status_counts_where_a_result_ends_on_it(text: str, status: str) -> None:
    told = (calls(ToolCall("bash", {})), result(text, "unknown", source="none"))
    answered = run(*told).exchanges[0].result
    assert answered is not None
    assert answered.status == status
