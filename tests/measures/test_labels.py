"""Steps are labelled only where a rule can know: a failed call, a call that repeats."""

from __future__ import annotations

from stepscope.measures.errors import STEP_LABELS
from stepscope.model import ToolCall, Verdict
from stepscope.model.records import STEP_LABELS_NAME
from tests.factories import calls, did, failed, result, run, user
from tests.measures.answers import cites, label, labels, value, whole


def test_a_repeat_is_redundant_and_a_failed_call_an_error() -> None:
    made = run(*did("get", id=1), *did("get", id=1), *failed("get", "Error: no such", id=2))
    assert labels(STEP_LABELS, made) == {2: "REDUNDANT", 4: "ERROR"}
    found = whole(STEP_LABELS, made)
    assert [value(found[f"{STEP_LABELS_NAME}{a}"]) for a in ("", ".errors", ".redundant")] == [
        2.0,
        1.0,
        1.0,
    ]
    assert cites(found[STEP_LABELS_NAME]) == (2, 4)
    assert (
        value(found[f"{STEP_LABELS_NAME}.steps"]),
        cites(found[f"{STEP_LABELS_NAME}.steps"]),
    ) == (3.0, (0, 2, 4))
    said = found[STEP_LABELS_NAME]
    assert isinstance(said, Verdict)
    assert said.reason == "1 ERROR, 1 REDUNDANT, 1 uncertain"


def test_bad_luck_is_no_error_of_the_agent() -> None:
    assert labels(STEP_LABELS, run(*failed("get", "Error: timed out"))) == {}


def test_a_step_that_asks_something_new_as_well_is_not_redundant() -> None:
    both = calls(ToolCall("get", {"id": 1}), ToolCall("get", {"id": 2}))
    assert labels(STEP_LABELS, run(*did("get", id=1), both, result("a"), result("b"))) == {}


def test_a_write_in_between_makes_it_no_repeat() -> None:
    made = run(*did("get", id=1), *did("set_name", id=1), *did("get", id=1))
    assert labels(STEP_LABELS, made) == {}


def test_an_agent_that_did_nothing_is_not_applicable() -> None:
    assert label(whole(STEP_LABELS, run(user("hi")))[STEP_LABELS_NAME]) == "not_applicable"
