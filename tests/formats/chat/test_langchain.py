"""Messages as langchain-core 1.7.2 wrote them, in each of its forms, and near misses of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope import registry
from stepscope.formats.chat.langchain import FORMAT
from stepscope.formats.opening import detect
from stepscope.model import Json, Part, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import codes, lines, read, refused, run_of, written

FORMS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "langchain_forms.json").read_bytes()
)
PLAIN = FORMS["plain"]
ASKED = {"type": "human", "content": "go"}
SAID = {"type": "ai", "content": "gone"}
ROLED = {"role": "user", "content": "x"}


def test_every_form_of_the_same_messages_is_the_same_run() -> None:
    shapes: list[Json] = [
        *FORMS.values(),
        *[lines(*messages) for messages in FORMS.values()],
        {"messages": FORMS["lc"]},
        {"values": {"messages": PLAIN}, "next": [], "metadata": {"step": 3}},
        [{"messages": PLAIN}],
        lines(PLAIN),
    ]
    runs = [run_of(FORMAT, shape) for shape in shapes]
    assert {run.id for run in runs} == {runs[0].id}
    assert {detect(written(shape), "f").name for shape in shapes} == {"langchain_messages"}
    assert runs[7].extra == {"metadata": {"step": 3}, "next": []}


def test_a_message_is_a_step_with_what_its_fields_say() -> None:
    run = run_of(FORMAT, PLAIN)
    assert [(step.actor, step.kind, step.text) for step in run.steps] == [
        ("system", "message", "Be brief."),
        ("user", "message", "Look"),
        ("agent", "call", ""),
        ("environment", "result", ""),
        ("environment", "result", ""),
        ("agent", "message", "There is a.txt."),
    ]
    asked = run.steps[2]
    assert (asked.agent, asked.model, asked.finish_reason) == ("worker", "m-1", "tool_calls")
    assert (asked.id, asked.extra) == ("run-1", None)
    assert [(c.name, c.arguments, c.id, c.raw, c.parse_error) for c in asked.calls] == [
        ("ls", {"p": "."}, "c1", None, None),
        ("rm", None, "c2", '{"p": ', "Unterminated"),
    ]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.cache_write) == (10, 4, 1)
    assert (run.usage.output_total, run.usage.reasoning) == (5, 2)
    assert [part.kind for part in run.steps[1].parts] == ["text", "image"]
    assert (run.steps[1].agent, run.steps[1].extra) == (None, {"name": "ann"})
    assert run.steps[5].parts[0].text == "One file."
    assert codes(run) == []


def test_a_tools_own_status_is_explicit_and_its_artifact_is_kept() -> None:
    first, second = [result for step in run_of(FORMAT, PLAIN).steps for result in step.results]
    assert (first.call_id, first.name, first.text, first.status, first.source, first.error) == (
        "c1", "ls", "a.txt", "ok", "explicit", None,
    )  # fmt: skip
    assert first.structured == {"n": 1}
    assert (second.status, second.source, second.error) == (
        "error", "explicit", "cannot parse the arguments",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("told", "content", "status", "source"),
    [
        ({"status": "success"}, "Error: x", "ok", "explicit"),
        ({"status": "error"}, "fine", "error", "explicit"),
        ({}, "Error: x", "error", "heuristic"),
        ({}, "fine", "unknown", "none"),
        ({"status": "odd"}, "fine", "unknown", "none"),
        ({"status": None}, "fine", "unknown", "none"),
    ],
)
def test_only_success_and_error_are_a_status(
    told: dict[str, Any], content: str, status: str, source: str
) -> None:
    call = {**SAID, "tool_calls": [{"name": "f", "args": {}, "id": "c", "type": "tool_call"}]}
    answer = {"type": "tool", "content": content, "tool_call_id": "c", **told}
    step = run_of(FORMAT, [ASKED, call, answer]).steps[2]
    assert (step.results[0].status, step.results[0].source) == (status, source)
    assert step.extra == ({"status": "odd"} if told.get("status") == "odd" else None)


@pytest.mark.parametrize(
    ("message", "actor", "agent", "text"),
    [
        ({"type": "AIMessageChunk", "content": "a"}, "agent", None, "a"),
        ({"type": "HumanMessageChunk", "content": "a"}, "user", None, "a"),
        ({"type": "chat", "role": "critic", "content": "a"}, "agent", "critic", "a"),
        ({"type": "function", "name": "f", "content": "a"}, "environment", None, ""),
        ({"role": "user", "content": "a"}, "user", None, "a"),
        ({"role": "assistant", "tool_calls": []}, "agent", None, ""),
        ({"type": "ai", "content": None, "name": "worker"}, "agent", "worker", ""),
        ({"lc": 1, "id": ["x", "AIMessage"], "kwargs": {"content": "a"}}, "agent", None, "a"),
    ],
)  # fmt: skip
def test_kinds_of_messages_say_who_speaks(
    message: Json, actor: str, agent: str | None, text: str
) -> None:
    step = run_of(FORMAT, [*PLAIN[:1], SAID, message]).steps[2]
    assert (step.actor, step.agent, step.text) == (actor, agent, text)


def test_what_providers_count_is_read_where_langchain_does_not() -> None:
    openai = {"response_metadata": {"token_usage": {"prompt_tokens": 7, "completion_tokens": 2}}}
    anthropic = {"usage": {"input_tokens": 3, "cache_read_input_tokens": 40, "output_tokens": 1}}
    listed = [ASKED, {**SAID, **openai}, {**SAID, "response_metadata": anthropic}, SAID]
    usages = [step.usage for step in run_of(FORMAT, listed).steps]
    assert [usage and usage.input_total for usage in usages] == [None, 7, 43, None]


def test_nothing_that_a_message_says_is_lost() -> None:
    odd = {
        **SAID,
        "id": 7,
        "additional_kwargs": {"refusal": "no"},
        "response_metadata": {"model_name": "m", "logprobs": [1], "finish_reason": 3},
        "usage_metadata": {"seconds": 2},
        "tool_calls": [{"args": {}}],
        "invalid_tool_calls": "none",
        "example": False,
    }
    step = run_of(FORMAT, [ASKED, odd]).steps[1]
    assert step.model == "m"
    assert step.extra == {
        "additional_kwargs": {"refusal": "no"},
        "response_metadata": {"logprobs": [1], "finish_reason": 3},
        "usage_metadata": {"seconds": 2},
        "tool_calls": [{"args": {}}],
        "invalid_tool_calls": "none",
        "example": False,
        "id": 7,
    }


def test_a_state_says_its_thread_and_what_else_it_holds() -> None:
    snapshot = {
        "values": {"messages": PLAIN, "plan": ["a"]},
        "config": {"configurable": {"thread_id": "th"}},
    }
    run = run_of(FORMAT, snapshot)
    assert run.tags == {"session": "th"}
    assert run.extra == {"config": snapshot["config"], "values": {"plan": ["a"]}}


def test_an_envelope_names_the_run_and_a_graphs_own_keys_do_not_break_it() -> None:
    around = {"messages": PLAIN, "run_id": "r", "task": "t-1", "success": True, "plan": 1}
    run = run_of(FORMAT, around)
    assert (run.name, run.task, run.outcome.status) == ("langchain_messages/t-1", "t-1", "pass")
    assert (run.source.run_id, run.extra) == ("r", {"plan": 1})
    own = run_of(FORMAT, {"messages": PLAIN, "task": {"goal": "x"}, "tools": 3})
    assert (own.task, own.extra) == (None, {"task": {"goal": "x"}, "tools": 3})


def test_a_message_that_cannot_be_read_is_set_aside_and_its_place_is_told() -> None:
    *_, last = found = read(FORMAT, lines(ASKED, {"type": "remove", "id": "x"}, SAID))
    assert isinstance(last, Trajectory)
    assert (len(found), len(last.steps)) == (2, 2)
    assert codes(last) == [("record_quarantined", 1)]
    assert "a `type` among human, ai, system and tool" in refused(FORMAT, {"messages": [7]}).reason
    assert "needs a list of messages" in refused(FORMAT, {"values": {"messages": {}}}).reason


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ([ASKED, SAID], "langchain_messages"),
        ([{"type": "system", "content": "x"}, SAID], "langchain_messages"),
        ([ROLED, SAID], "langchain_messages"),
        ({"messages": [ROLED, SAID]}, "langchain_messages"),
        ([ROLED, {"role": "assistant", "content": "y"}], "openai_messages"),
        ({"messages": [ROLED]}, "openai_messages"),
        ([{"type": "system", "content": "x"}], None),
        ([{"type": "tool", "content": "x"}], None),
        ([ASKED, {"type": "ai"}, SAID], None),
        ([{"values": {"messages": [ASKED]}}, {"values": {"messages": [ASKED, SAID]}}], None),
        ({"inputs": {"messages": [ASKED]}}, None),
        ({"type": "user", "sessionId": "s", "message": ROLED}, "claude_code"),
    ],
)  # fmt: skip
def test_langchains_messages_are_told_from_everybody_elses(value: Json, name: str | None) -> None:
    head = written(value)
    sure = {form.name: form.sniff(head) for form in registry.installed_formats()}
    assert (sure["langchain_messages"] > 0.9) is (name == "langchain_messages")
    if name is not None:
        assert detect(head, "f").name == name
    if name == "langchain_messages":
        assert [other for other, how in sure.items() if how and other != name] == []


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "reasoning", "reasoning": "hm"}, Part("reasoning", "hm")),
        ({"type": "thinking", "thinking": "hm"}, Part("reasoning", "hm")),
        ({"type": "image", "url": "https://x/y.png"}, Part("image", uri="https://x/y.png")),
        ({"type": "audio", "base64": "!"}, Part("audio", data="!")),
        ({"type": "image", "file_id": "f"}, Part("data", extra={"type": "image", "file_id": "f"})),
        ({"type": "video", "url": "u", "index": 1}, Part("file", uri="u", extra={"index": 1})),
    ],
)  # fmt: skip
def test_blocks_of_content_are_parts_and_unknown_ones_stay_whole(block: Json, part: Part) -> None:
    assert run_of(FORMAT, [ASKED, {**SAID, "content": [block]}]).steps[1].parts == (part,)


def test_media_inside_blocks_have_a_type_a_size_and_a_hash() -> None:
    inside = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    blocks = [
        {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": "aGk=", "mime_type": "image/png"},
        {"type": "image", "source": inside},
    ]
    parts = run_of(FORMAT, [ASKED, {**SAID, "content": blocks}]).steps[1].parts
    assert {(part.kind, part.media_type, part.size, part.data) for part in parts} == {
        ("image", "image/png", 2, "aGk=")
    }
    assert len({part.sha256 for part in parts}) == 1


def test_a_tool_that_the_provider_ran_says_itself_whether_it_failed() -> None:
    blocks = [
        {"type": "server_tool_call", "id": "s1", "name": "web_search", "args": {"query": "x"}},
        {"type": "server_tool_result", "tool_call_id": "s1", "status": "error", "output": "down"},
    ]
    step = run_of(FORMAT, [ASKED, {**SAID, "content": blocks}]).steps[1]
    assert [(call.name, call.arguments, call.kind) for call in step.calls] == [
        ("web_search", {"query": "x"}, "server")
    ]
    assert [(r.call_id, r.status, r.source, r.extra) for r in step.results] == [
        ("s1", "error", "explicit", None)
    ]


def test_every_rule_of_a_format_holds_on_each_form(tmp_path: Path) -> None:
    for name, messages in FORMS.items():
        path = tmp_path / name
        path.write_bytes(written({"messages": messages}))
        assert check_format(FORMAT, path).runs == 1
