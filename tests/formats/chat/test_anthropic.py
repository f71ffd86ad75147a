from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.formats.chat.anthropic import FORMAT
from stepscope.formats.chat.openai import FORMAT as OPENAI
from stepscope.model import Json, Stream, Trajectory
from tests.formats.reading import lines, refused, run_of, written

ASK = {"role": "user", "content": "Weather?"}
USE = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "t1", "name": "w", "input": {"city": "Paris"}},
    ],
}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "rainy"}
CHAT = [ASK, USE, {"role": "user", "content": [RESULT]}, {"role": "assistant", "content": "Rainy."}]
RESPONSE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": USE["content"],
    "stop_reason": "tool_use",
    "usage": {
        "input_tokens": 5,
        "cache_read_input_tokens": 40,
        "cache_creation_input_tokens": 300,
        "output_tokens": 9,
        "output_tokens_details": {"thinking_tokens": 2},
        "service_tier": "standard",
    },
}


@pytest.mark.parametrize("file", [CHAT, lines(*CHAT), {"messages": CHAT}, [CHAT]])
def test_one_message_is_one_step_and_results_in_a_user_message_are_the_environments(
    file: Json,
) -> None:
    run = run_of(FORMAT, file)
    assert [(s.actor, s.kind) for s in run.steps] == [
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("agent", "message"),
    ]
    step = run.steps[1]
    assert [(p.kind, p.text) for p in step.parts] == [("reasoning", "hm"), ("text", "Looking.")]
    assert step.parts[0].extra == {"signature": "s"}
    (exchange,) = run.exchanges
    assert (exchange.call.arguments, exchange.result_step) == ({"city": "Paris"}, 2)
    assert run.warnings == ()


@pytest.mark.parametrize(
    ("block", "status", "source"),
    [
        ({"is_error": True, "content": "boom"}, "error", "explicit"),
        ({"is_error": False, "content": "Error: quoted"}, "ok", "explicit"),
        ({"content": "Error: boom"}, "error", "heuristic"),
        ({"content": "rainy"}, "unknown", "none"),
        ({"content": [{"type": "text", "text": "exit code: 0"}]}, "ok", "heuristic"),
        ({}, "unknown", "none"),
    ],
)
def test_a_flag_is_explicit_and_its_absence_leaves_the_text_to_be_judged(
    block: Json, status: str, source: str
) -> None:
    answer = {"type": "tool_result", "tool_use_id": "t1", **block}
    run = run_of(FORMAT, [ASK, USE, {"role": "user", "content": [answer]}])
    (came,) = run.steps[2].results
    assert (came.status, came.source) == (status, source)


def test_a_user_message_with_text_beside_results_is_the_users() -> None:
    both = {"role": "user", "content": [RESULT, {"type": "text", "text": "and Rome?"}]}
    step = run_of(FORMAT, [ASK, USE, both]).steps[2]
    assert (step.actor, step.kind, step.text) == ("user", "result", "and Rome?")


def test_input_tokens_include_both_cache_counts() -> None:
    run = run_of(
        FORMAT, {"request": {"messages": [ASK], "system": "Be kind."}, "response": RESPONSE}
    )
    assert [s.actor for s in run.steps] == ["system", "user", "agent"]
    usage = run.steps[2].usage
    assert usage == run.usage
    assert usage is not None
    assert (usage.input_total, usage.cache_read, usage.cache_write) == (345, 40, 300)
    assert (usage.output_total, usage.reasoning) == (9, 2)
    assert (run.steps[2].model, run.steps[2].finish_reason) == ("claude", "tool_use")
    assert run.source.run_id == "msg_1"


def test_a_request_body_keeps_its_tools_and_its_parameters() -> None:
    tools = [{"name": "w", "description": "d", "input_schema": {"type": "object"}}]
    run = run_of(FORMAT, {"model": "claude", "max_tokens": 9, "messages": CHAT, "tools": tools})
    assert run.tools is not None
    assert [(t.name, t.description, t.schema) for t in run.tools] == [
        ("w", "d", {"type": "object"})
    ]
    assert run.extra == {"max_tokens": 9}


def test_a_response_alone_and_as_a_recorded_http_body_is_a_run_of_one_step() -> None:
    bare = run_of(FORMAT, RESPONSE)
    http = run_of(FORMAT, {"status": 200, "headers": {}, "body": written(RESPONSE).decode()})
    assert (bare.id, len(bare.steps)) == (http.id, 1)
    assert [w.code for w in bare.warnings] == ["call_without_result"]


def test_server_tools_are_called_and_answered_in_one_message() -> None:
    content = [
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s",
            "content": {"type": "e", "error_code": "max_uses"},
        },
        {"type": "mcp_tool_use", "id": "m", "name": "f", "input": {}, "server_name": "x"},
        {"type": "mcp_tool_result", "tool_use_id": "m", "is_error": False, "content": []},
    ]
    step = run_of(FORMAT, [ASK, {"role": "assistant", "content": content}]).steps[1]
    assert [(c.kind, c.extra) for c in step.calls] == [
        ("server", None),
        ("mcp", {"server_name": "x"}),
    ]
    assert [(r.status, r.source) for r in step.results] == [
        ("error", "protocol"),
        ("ok", "explicit"),
    ]


def test_media_and_unknown_blocks_are_kept() -> None:
    content = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "novel", "a": 1},
    ]
    parts = run_of(FORMAT, [{"role": "user", "content": content}, CHAT[3]]).steps[0].parts
    assert [p.kind for p in parts] == ["image", "file", "reasoning", "data"]
    assert (parts[0].size, parts[1].uri) == (2, "https://example.org/a.pdf")
    assert parts[3].extra == {"type": "novel", "a": 1}


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"messages": [{"role": "tool", "content": "x"}]}, "a `role` among user, assistant"),
        ({"messages": [{"role": "user", "content": 3}]}, "text or a list of blocks"),
        ({"messages": [{"role": "user", "content": [3]}]}, "a `type` in every block"),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_use", "id": "t"}]}]},
            "a `name`",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "x", "tool_use_id": 3}]}]},
            "`tool_use_id`",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "id": 3}]}
                ]
            },
            "`id`",
        ),
        ({"messages": {}}, "expected a list"),
        ({"messages": [], "max_tokens": 3}, "without a single message"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (CHAT, True),
        (RESPONSE, True),
        ([ASK, {"role": "assistant", "content": [{"type": "text", "text": "hi"}]}], True),
        ({"status": 200, "headers": {}, "body": written(RESPONSE).decode()}, True),
        ({"model": "claude", "max_tokens": 9, "system": "s", "messages": [ASK]}, True),
        ([ASK, {"role": "assistant", "content": "hi"}], False),
        ([{"role": "system", "content": "x"}, ASK], False),
        ({"type": "message", "role": "assistant"}, False),
        ({"body": "<html>", "status": 200}, False),
        (b"", False),
    ],
)
def test_sniff_knows_anthropic_messages_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


@pytest.mark.parametrize("file", [CHAT, [ASK, CHAT[3]], CHAT[:2], RESPONSE, {"messages": CHAT}])
def test_the_two_apis_are_never_within_a_tenth_of_each_other(file: Json) -> None:
    assert abs(FORMAT.sniff(written(file)) - OPENAI.sniff(written(file))) > 0.1


@pytest.mark.shared_data
def test_the_recorded_exchange_has_the_usage_counted_by_hand(shared: Path) -> None:
    path = shared / "formats" / "anthropic" / "reasoning-tool-use-non-streaming.json"
    with path.open("rb") as file:
        (run,) = FORMAT.read(Stream(file, path.name))
    assert isinstance(run, Trajectory)
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total, run.usage.reasoning) == (596, 99, 28)
    assert [c.name for c in run.steps[0].calls] == ["get_weather"]
