"""One plain example of each small rule of runs, faults and conduct."""

from __future__ import annotations

from stepscope.model.conditions import read_number
from stepscope.model.effects import infer_effect, words_of
from stepscope.model.signatures import generalise, sign_run, sign_step, signature_code
from stepscope.model.trajectory import (
    Part,
    ToolCall,
    ToolResult,
    call_key,
    digest,
    with_exit_status,
)


def test_numbers_have_thousands_and_currencies() -> None:
    assert read_number("$1,203.50") == 1203.5
    assert read_number("833 USD") == 833.0
    assert read_number("1,2") is None
    assert read_number(True) is None


def test_words_of_a_tool_leave_its_server_out() -> None:
    assert words_of("mcp__github__createIssue") == ("create", "issue")


def test_a_verb_decides_whether_a_tool_writes() -> None:
    assert infer_effect("get_user_details") == "read"
    assert infer_effect("find_or_create_user") == "write"
    assert infer_effect("transfer_to_human_agents") == "unknown"


def test_amounts_are_no_part_of_a_signature() -> None:
    assert (
        sign_step("step_labels", "book failed: Error: total is 375, but paid 299")
        == "book fails: total is *, but paid *"
    )


def test_every_missed_call_is_a_fault_of_its_own() -> None:
    assert sign_run("subgoals", "1 of 2; missed pay, ship 2") == (
        ("expected call missing: pay", -1),
        ("expected call missing: ship", -1),
    )


def test_a_signature_has_six_digits() -> None:
    assert signature_code("book fails: total is *, but paid *") == "264f84"


def test_values_become_stars() -> None:
    assert (
        generalise("Error: flight HAT030 not available on date 2024-05-13")
        == "flight * not available on date *"
    )
    assert (
        generalise("HTTP 503: 'orders' is down, retry in 12.5 s (and 1 more); then it ended")
        == "HTTP 503: * is down, retry in * s"
    )


def test_the_order_of_keys_is_nothing_to_a_digest() -> None:
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1})


def test_the_last_line_tells_the_status() -> None:
    assert (
        with_exit_status(ToolResult(parts=(Part("text", "F.\n[exit code: 1]"),))).status == "error"
    )


def test_calls_of_the_same_arguments_are_one() -> None:
    a = ToolCall("cat", {"x": 1, "y": 2})
    assert call_key(a) == call_key(ToolCall("cat", {"y": 2, "x": 1}))
