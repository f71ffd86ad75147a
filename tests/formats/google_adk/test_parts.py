"""Parts of ADK's contents: what each is, whether a call worked, and what it says beside."""

from __future__ import annotations

import pytest

from stepscope.formats.google_adk.read import FORMAT
from stepscope.model import Json
from tests.formats.google_adk.test_google_adk import event, session
from tests.formats.reading import run_of


@pytest.mark.parametrize(
    ("part", "kind", "text"),
    [
        ({"text": "hm", "thought": True}, "reasoning", "hm"),
        ({"text": "hi", "thought": False}, "text", "hi"),
        ({"inlineData": {"mimeType": "image/png", "data": "_-8="}}, "image", None),
        ({"file_data": {"mime_type": "audio/wav", "file_uri": "gs://x"}}, "audio", None),
        ({"novel_thing": {"a": 1}}, "data", None),
    ],
)
def test_parts_are_told_apart(part: dict[str, Json], kind: str, text: str | None) -> None:
    (found,) = run_of(FORMAT, session(event(part))).steps[0].parts
    assert (found.kind, found.text) == (kind, text)
    if kind == "image":
        assert (found.size, found.media_type) == (2, "image/png")
    if kind == "data":
        assert found.extra == part


@pytest.mark.parametrize(
    ("call", "answer", "status", "source"),
    [
        (
            {"executable_code": {"code": "1", "language": "PYTHON"}},
            {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "Error: 1"}},
            "ok",
            "explicit",
        ),
        (
            {"executable_code": {"code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": ""}},
            "error",
            "explicit",
        ),
        (
            {"function_call": {"id": "a", "name": "f"}},
            {"function_response": {"id": "a", "name": "f", "response": {"result": "Error: x"}}},
            "error",
            "heuristic",
        ),
        (
            {"function_call": {"id": "a", "name": "f"}},
            {"function_response": {"id": "a", "name": "f", "response": {}}},
            "unknown",
            "none",
        ),
    ],
)
def test_whether_a_call_worked_is_told_or_guessed(
    call: dict[str, Json], answer: dict[str, Json], status: str, source: str
) -> None:
    run = run_of(FORMAT, session(event(call), event(answer)))
    (exchange,) = run.exchanges
    assert exchange.result is not None
    assert (exchange.result.status, exchange.result.source) == (status, source)
    assert run.steps[1].actor == "environment"


@pytest.mark.parametrize(
    "part",
    [
        {"function_call": {"id": "a", "name": "f", "args": {"q": 1}, "more": "m"}, "beside": "b"},
        {"function_response": {"id": "a", "name": "f", "response": {"x": "y"}, "more": "m"}},
        {"tool_call": {"id": "a", "tool_type": "SEARCH", "args": {"q": 1}, "more": "m"}, "b": "c"},
        {"tool_response": {"id": "a", "response": {"x": "y"}, "more": "m"}, "beside": "b"},
        {"executable_code": {"code": "c1", "language": "PYTHON"}, "beside": "b"},
        {"code_execution_result": {"outcome": "OUTCOME_OK", "output": "o", "more": "m"}, "b": "c"},
        {"inline_data": {"mime_type": "image/png", "data": "aGk=", "more": "m"}, "beside": "b"},
        {"inline_data": {"mime_type": "text/plain", "display_name": "d"}},
        {"file_data": {"mime_type": "text/plain", "file_uri": "gs://x", "more": "m"}, "b": "c"},
        {"text": "t", "thought_signature": "sig"},
    ],
)
def test_nothing_that_a_part_says_is_lost(part: dict[str, Json]) -> None:
    said = repr(run_of(FORMAT, session(event(part))).steps)
    assert [word for word in words(part) if word not in said] == []


def words(value: Json) -> list[str]:
    """The values within a value, but for an outcome, which is the result's status."""
    if isinstance(value, dict):
        return [word for key, held in value.items() if key != "outcome" for word in words(held)]
    return [str(value)]


def test_tools_that_the_provider_runs_are_told_from_functions() -> None:
    served: dict[str, Json] = {"tool_call": {"id": "a", "tool_type": "SEARCH", "args": {"q": 1}}}
    (call,) = run_of(FORMAT, session(event(served))).steps[0].calls
    assert (call.kind, call.name, call.arguments, call.id) == ("server", "SEARCH", {"q": 1}, "a")
    ran: dict[str, Json] = {"executable_code": {"code": "1"}}
    (call,) = run_of(FORMAT, session(event(ran))).steps[0].calls
    assert (call.kind, call.name, call.arguments) == ("builtin", "code_execution", {"code": "1"})
