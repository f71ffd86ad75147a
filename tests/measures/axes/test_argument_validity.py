"""Arguments are judged by schema and source, whichever tool was chosen."""

from __future__ import annotations

from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY, ARGUMENT_VALIDITY_NAME
from stepscope.model import ToolCall, ToolDef, Verdict
from tests.factories import calls, did, result, run, user
from tests.measures.answers import cites, label, labels, whole

TOOLS = (ToolDef("cancel", schema={"required": ["order_id"]}),)


def answer(*args: object, **kwargs: object) -> Verdict:
    found = whole(ARGUMENT_VALIDITY, run(*args, **kwargs))[ARGUMENT_VALIDITY_NAME]  # type: ignore[arg-type]
    assert isinstance(found, Verdict)
    return found


def test_an_invented_identifier_is_incorrect_and_cited() -> None:
    made = run(user("cancel W1234567"), *did("cancel", order_id="#W7654321"))
    found = whole(ARGUMENT_VALIDITY, made)[ARGUMENT_VALIDITY_NAME]
    assert (label(found), cites(found)) == ("incorrect", (1,))
    assert labels(ARGUMENT_VALIDITY, made) == {1: "incorrect"}


def test_a_wrong_but_grounded_order_is_no_matter_of_arguments() -> None:
    found = answer(user("cancel only the hose of W1234567"), *did("cancel", order_id="#W1234567"))
    assert found.label == "uncertain"
    assert found.reason.startswith("1 values traced to what was said; 0 of 1 calls keep")


def test_a_broken_schema_is_incorrect_even_where_all_is_grounded() -> None:
    found = answer(user("cancel W1234567"), *did("cancel", id="W1234567"), tools=TOOLS)
    assert (found.label, found.cites) == ("incorrect", (1,))
    assert found.reason == "cancel: order_id is required and missing"


def test_arguments_that_are_no_json_are_incorrect_once_with_schema_or_without() -> None:
    broken = ToolCall("cancel", None, raw="{", parse_error="unexpected end")
    for tools in (None, TOOLS):
        found = answer(calls(broken), result("Error"), tools=tools)
        assert (found.label, found.cites) == ("incorrect", (0,))
        assert "and 1 more" not in found.reason


def test_a_value_that_nobody_can_trace_is_uncertain_and_cited() -> None:
    found = answer(user("tomorrow"), *did("search", date="2024-05-07"))
    assert (found.label, found.cites) == ("uncertain", (1,))


def test_nothing_to_trace_and_no_schema_is_not_applicable() -> None:
    nothing = whole(ARGUMENT_VALIDITY, run(*did("get", name="Mia")))[ARGUMENT_VALIDITY_NAME]
    assert label(nothing) == "not_applicable"
    assert answer(*did("cancel", order_id="x"), tools=TOOLS).label == "uncertain"


def test_no_calls_is_not_applicable() -> None:
    assert (
        label(whole(ARGUMENT_VALIDITY, run(user("hi")))[ARGUMENT_VALIDITY_NAME]) == "not_applicable"
    )
