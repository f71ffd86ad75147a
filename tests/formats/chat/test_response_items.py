"""Single items of the Responses API: what each is, whom it answers, and what it says beside."""

from __future__ import annotations

import pytest

from stepscope.formats.chat.responses import FORMAT
from stepscope.model import Json
from tests.formats.chat.test_responses import ASK, CALLS, PROVIDED, SAYS, THINKS, answers
from tests.formats.reading import run_of, written


@pytest.mark.parametrize(
    "item",
    [
        {**CALLS[0], "caller": {"type": "direct"}},
        {**answers("c1", "x"), "name": "w"},
        {"type": "mcp_call", "id": "m", "name": "f", "output": "x", "server_label": "srv"},
        {"type": "shell_call", "call_id": "s", "action": {"x": 1}, "environment": {"a": 1}},
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {}, "more": "m"},
        {"type": "image_generation_call", "id": "i", "status": "failed", "error": {"message": "m"}},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "x"}, "more": {"a": 1}},
        {"type": "file_search_call", "status": "completed", "results": [{"text": "a", "b": 1}]},
        {"type": "code_interpreter_call", "id": "f", "status": "completed", "outputs": [{"b": 1}]},
        {"type": "reasoning", "content": "srv"},
        {"type": "shell_call_output", "call_id": "s", "output": [3, {"stdout": "x", "b": 1}]},
    ],
)  # fmt: skip
def test_nothing_that_an_item_says_is_lost(item: dict[str, Json]) -> None:
    said = written(run_of(FORMAT, [ASK, CALLS[1], item]).steps[1:].__repr__()).decode()
    for key, value in item.items():
        if key not in {"type", "status", "arguments"}:
            assert all(part in said for part in leaves(value)), key


def leaves(value: Json) -> list[str]:
    """The keys and values of a value, as Python prints them."""
    if isinstance(value, dict):
        return [*[str(key) for key in value if key != "type"], *leaves(list(value.values()))]
    return (
        [part for each in value for part in leaves(each)]
        if isinstance(value, list)
        else [str(value)]
    )


@pytest.mark.parametrize(
    ("item", "kind", "call", "status", "source"),
    [
        (
            {"type": "mcp_call", "id": "m", "name": "f", "output": "ok"},
            "mcp",
            "f",
            "ok",
            "protocol",
        ),
        (
            {"type": "mcp_call", "id": "m", "name": "f", "error": "no"},
            "mcp",
            "f",
            "error",
            "protocol",
        ),
        (
            {
                "type": "mcp_call",
                "id": "m",
                "name": "f",
                "error": {"type": "mcp_tool_execution_error", "content": "no"},
            },
            "mcp",
            "f",
            "error",
            "explicit",
        ),
        ({"type": "mcp_call", "id": "m", "name": "f", "status": "calling"}, "mcp", "f", None, None),
        (PROVIDED[0], "builtin", "web_search", "ok", "explicit"),
        (PROVIDED[4], "builtin", "code_interpreter", "error", "explicit"),
        (
            {"type": "file_search_call", "id": "w", "status": "searching", "queries": ["x"]},
            "builtin",
            "file_search",
            None,
            None,
        ),
        (
            {"type": "computer_call", "call_id": "w", "status": "completed"},
            "builtin",
            "computer",
            None,
            None,
        ),
    ],
)
def test_an_item_that_holds_its_own_result_is_call_and_result_in_one(
    item: Json, kind: str, call: str, status: str | None, source: str | None
) -> None:
    step = run_of(FORMAT, [ASK, item]).steps[1]
    assert (step.calls[0].kind, step.calls[0].name) == (kind, call)
    assert [(r.status, r.source) for r in step.results] == ([(status, source)] if status else [])


@pytest.mark.parametrize(
    ("call", "answer", "status", "text"),
    [
        (PROVIDED[2], PROVIDED[3], "error", "ab\nno"),
        (
            {"type": "local_shell_call", "id": "x", "call_id": "s", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "call_id": "s", "output": '{"error": "bad"}'},
            "error",
            '{"error": "bad"}',
        ),
        (
            {"type": "local_shell_call", "id": "s", "action": {"command": ["ls"]}},
            {"type": "local_shell_call_output", "id": "s", "output": "files"},
            "unknown",
            "files",
        ),
        (
            {"type": "apply_patch_call", "call_id": "s", "operation": {"path": "a"}},
            {
                "type": "apply_patch_call_output",
                "call_id": "s",
                "status": "failed",
                "output": "no a",
            },
            "error",
            "no a",
        ),
        (
            {"type": "computer_call", "call_id": "s", "action": {"type": "click"}},
            {
                "type": "computer_call_output",
                "call_id": "s",
                "output": {
                    "type": "computer_screenshot",
                    "image_url": "data:image/png;base64,aGk=",
                },
            },
            "unknown",
            "",
        ),
        (
            {"type": "custom_tool_call", "call_id": "s", "name": "py", "input": "print("},
            {"type": "custom_tool_call_output", "call_id": "s", "output": "Error: bad"},
            "error",
            "Error: bad",
        ),
        (
            {"type": "program", "id": "p", "call_id": "s", "code": "f()"},
            {
                "type": "program_output",
                "id": "q",
                "call_id": "s",
                "result": "done",
                "status": "completed",
            },
            "ok",
            "done",
        ),
    ],
)
def test_an_item_and_the_one_that_answers_it_pair(
    call: Json, answer: Json, status: str, text: str
) -> None:
    run = run_of(FORMAT, [ASK, call, answer])
    (exchange,) = run.exchanges
    assert exchange.result is not None
    assert (exchange.result.status, exchange.result.text, run.warnings) == (status, text, ())


def test_what_provider_tools_were_asked_and_gave_is_read() -> None:
    image = {
        "type": "image_generation_call",
        "id": "i",
        "status": "completed",
        "result": "aGk=",
        "output_format": "webp",
        "size": "1x1",
    }
    code = {
        "type": "code_interpreter_call",
        "id": "c",
        "code": "1",
        "container_id": "k",
        "status": "completed",
        "outputs": [{"type": "logs", "logs": "1"}, {"type": "novel"}],
    }
    search = {
        "type": "web_search_call",
        "id": "w",
        "status": "completed",
        "action": {"type": "search", "query": "x", "sources": [{"type": "url", "url": "u"}]},
    }
    steps = run_of(FORMAT, [ASK, image, code, search]).steps[1:]
    (drawn,), (ran,), (found,) = (step.results for step in steps)
    assert (drawn.parts[0].media_type, drawn.parts[0].size) == ("image/webp", 2)
    assert steps[0].calls[0].arguments == {"output_format": "webp", "size": "1x1"}
    assert [part.kind for part in ran.parts] == ["text", "data"]
    assert (steps[1].calls[0].arguments, steps[1].calls[0].extra) == (
        {"code": "1"},
        {"container_id": "k", "status": "completed"},
    )
    assert found.structured == {"sources": [{"type": "url", "url": "u"}]}
    assert steps[2].calls[0].arguments == {"type": "search", "query": "x"}


def test_tools_listed_by_a_server_are_offered_and_unknown_items_are_kept_whole() -> None:
    listing = {"type": "mcp_list_tools", "id": "l", "tools": [{"name": "f", "input_schema": {}}]}
    novel = {"type": "brand_new_item", "a": 1}
    for file in ([ASK, listing, novel], {"input": [ASK, listing, novel]}):
        run = run_of(FORMAT, file)
        assert [tool.name for tool in run.tools or ()] == ["f"]
        assert [(s.actor, s.kind, s.extra) for s in run.steps[1:]] == [
            ("environment", "other", listing),
            ("agent", "other", novel),
        ]


def test_a_turn_has_all_that_its_items_say() -> None:
    (_, turn) = run_of(FORMAT, [ASK, THINKS, SAYS, CALLS[0]]).steps
    assert (turn.id, turn.kind, turn.extra) == ("m", "call", {"status": "completed"})
    assert [part.kind for part in turn.parts] == ["reasoning", "text"]
    parts = [{"type": "input_text", "text": "x"}]
    mixed = [{"type": "message", "role": "user", "content": parts}, CALLS[0]]
    assert len(run_of(FORMAT, mixed).steps) == 2
