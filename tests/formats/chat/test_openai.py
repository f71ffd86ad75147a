from __future__ import annotations

import pytest

from stepscope.formats.chat.openai import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from tests.formats.reading import codes, lines, read, refused, run_of, written

ASK = {"role": "user", "content": "Weather in Paris?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "w", "arguments": '{"city":"Paris"}'},
        },
        {"id": "c2", "type": "function", "function": {"name": "w", "arguments": '{"city":"Rome"}'}},
    ],
}
ANSWERS = [
    {"role": "tool", "tool_call_id": "c2", "content": "Error: no such city"},
    {"role": "tool", "tool_call_id": "c1", "content": "rainy"},
]
SAYS = {"role": "assistant", "content": "Rainy."}
CHAT = [{"role": "system", "content": "Be kind."}, ASK, CALL, *ANSWERS, SAYS]
COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": SAYS, "finish_reason": "stop"}],
    "usage": {
        "prompt_tokens": 97,
        "completion_tokens": 52,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"reasoning_tokens": 7},
    },
}


@pytest.mark.parametrize(
    "file",
    [CHAT, lines(*CHAT), lines(CHAT), [CHAT], {"messages": CHAT}, [{"messages": CHAT}]],
    ids=["array", "lines", "line of a list", "list of lists", "object", "list of objects"],
)
def test_however_messages_are_wrapped_they_are_one_run(file: Json) -> None:
    run = run_of(FORMAT, file)
    assert [(s.index, s.actor, s.kind) for s in run.steps] == [
        (0, "system", "message"),
        (1, "user", "message"),
        (2, "agent", "call"),
        (3, "environment", "result"),
        (4, "environment", "result"),
        (5, "agent", "message"),
    ]
    assert [c.arguments for c in run.steps[2].calls] == [{"city": "Paris"}, {"city": "Rome"}]
    assert [(e.call.id, e.result_step) for e in run.exchanges] == [("c1", 4), ("c2", 3)]
    assert [r.status for s in run.steps for r in s.results] == ["error", "unknown"]
    assert (run.warnings, run.usage, run.agent, run.outcome.status) == ((), None, None, "unknown")


def test_the_id_is_the_same_however_messages_are_wrapped() -> None:
    assert run_of(FORMAT, CHAT).id == run_of(FORMAT, lines(*CHAT), uri="other").id


def test_two_equal_conversations_of_one_file_stay_apart() -> None:
    first, second = read(FORMAT, [CHAT, CHAT])
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert first.id != second.id


def test_the_keys_around_messages_are_read_and_the_rest_is_kept() -> None:
    around = {
        "id": 7,
        "task_id": 3,
        "trial": 1,
        "workflow": "shop",
        "agent": "a",
        "reward": 1,
        "tools": [
            {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}
        ],
        "temperature": 0.5,
    }
    run = run_of(FORMAT, {"messages": CHAT, **around})
    assert (run.name, run.source.run_id, run.agent) == ("shop/3/1", "7", "a")
    assert (run.outcome.status, run.extra) == ("pass", {"temperature": 0.5})
    assert run.tools is not None
    assert [(t.name, t.schema) for t in run.tools] == [("w", {"type": "object"})]


@pytest.mark.parametrize(
    "file",
    [
        {"request": {"model": "gpt-4o", "messages": [ASK]}, "response": COMPLETION},
        {
            "request": written({"messages": [ASK]}).decode(),
            "response": {"body": COMPLETION, "status": 200},
        },
    ],
)
def test_a_recorded_call_is_its_request_then_its_response(file: Json) -> None:
    run = run_of(FORMAT, file)
    assert [s.actor for s in run.steps] == ["user", "agent"]
    last = run.steps[1]
    assert (last.model, last.finish_reason, last.index) == ("gpt-4o", "stop", 1)
    assert last.usage == run.usage
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read) == (97, 40)
    assert (run.usage.output_total, run.usage.reasoning) == (52, 7)
    assert run.source.run_id == "chatcmpl-1"


def test_a_completion_alone_or_as_an_http_body_is_a_run_of_one_step() -> None:
    bare = run_of(FORMAT, COMPLETION)
    http = run_of(FORMAT, {"status": 200, "headers": {}, "body": written(COMPLETION).decode()})
    assert (len(bare.steps), bare.id) == (1, http.id)
    assert http.extra is not None
    assert http.extra["status"] == 200


def test_content_parts_keep_their_kind_and_media_their_size_and_hash() -> None:
    content = [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "novel", "x": 1},
    ]
    parts = run_of(FORMAT, [{"role": "user", "content": content}, SAYS]).steps[0].parts
    assert [p.kind for p in parts] == ["text", "image", "image", "audio", "data"]
    assert (parts[1].media_type, parts[1].size, parts[1].extra) == (
        "image/png",
        2,
        {"detail": "low"},
    )
    assert parts[1].sha256 == "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"
    assert (parts[2].uri, parts[2].data) == ("https://example.org/a.png", None)
    assert (parts[3].media_type, parts[4].extra) == ("audio/wav", {"type": "novel", "x": 1})


def test_reasoning_refusal_name_and_legacy_function_calls_are_read() -> None:
    run = run_of(
        FORMAT,
        [
            {"role": "developer", "content": "Be kind."},
            {
                "role": "assistant",
                "reasoning_content": "hm",
                "content": "no",
                "refusal": "cannot",
                "name": "bot",
            },
            {
                "role": "assistant",
                "content": None,
                "function_call": {"name": "f", "arguments": "{}"},
            },
            {"role": "function", "name": "f", "content": "ok"},
        ],
    )
    assert (run.steps[0].actor, run.steps[0].extra) == ("system", {"role": "developer"})
    assert [(p.kind, p.text) for p in run.steps[1].parts] == [
        ("reasoning", "hm"),
        ("text", "no"),
        ("refusal", "cannot"),
    ]
    assert run.steps[1].agent == "bot"
    assert [(e.call.name, e.result_step) for e in run.exchanges] == [("f", 3)]


def test_a_custom_tools_input_is_text_not_broken_json() -> None:
    custom = {"id": "c", "type": "custom", "custom": {"name": "py", "input": "print(1)"}}
    run = run_of(FORMAT, [{"role": "assistant", "tool_calls": [custom]}, SAYS])
    (call,) = run.steps[0].calls
    assert (call.name, call.arguments, call.parse_error) == ("py", "print(1)", None)


def test_malformed_arguments_are_data_not_an_error() -> None:
    broken = {"id": "c", "function": {"name": "f", "arguments": '{"a": '}}
    run = run_of(FORMAT, [{"role": "assistant", "tool_calls": [broken]}, SAYS])
    (call,) = run.steps[0].calls
    assert (call.arguments, call.raw) == (None, '{"a": ')
    assert call.parse_error is not None


def test_an_item_far_behind_messages_is_read_by_itself() -> None:
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    run = run_of(FORMAT, [ASK, SAYS, item])
    assert [call.id for call in run.steps[2].calls] == ["c"]


def test_a_message_that_cannot_be_read_is_quarantined_and_the_run_says_where() -> None:
    kept = read(FORMAT, lines(ASK, {"role": "wizard"}, b'{"role": ', SAYS))
    assert [type(r) for r in kept] == [Quarantined, Quarantined, Trajectory]
    run = kept[-1]
    assert isinstance(run, Trajectory)
    assert (len(run.steps), codes(run)) == (
        2,
        [("record_quarantined", 1), ("record_quarantined", 1)],
    )
    bad = kept[0]
    assert isinstance(bad, Quarantined)
    assert (bad.raw, bad.offset) == (b'{"role": "wizard"}', 49)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"messages": "hi"}, "`messages` is 'hi'; expected a list"),
        ({"messages": []}, "without a single message"),
        ({"messages": [CALL, *ANSWERS]}, "has only calls and results"),
        ({"messages": [3]}, "message 0 needs an object"),
        ({"request": 3, "response": COMPLETION}, "`request` is '3'"),
        ({"request": {}, "response": {"choices": []}}, "without `choices`"),
        ({"status": 200, "body": "data: {}\n\n"}, "streamed body"),
        ({"status": 200, "body": "<html>"}, "not JSON"),
        ({"request": {}, "response": {"object": "response", "output": []}}, "without `choices`"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


ANTHROPIC = [ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f"}]}]


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (CHAT, True),
        (lines(*CHAT), True),
        ([ASK, SAYS], True),
        (COMPLETION, True),
        ([{"role": "user", "content": [{"type": "text", "text": "hi"}]}, SAYS], True),
        ({"messages": CHAT}, True),
        (written(CHAT)[:120], True),
        (ANTHROPIC, False),
        ([ASK, {"type": "function_call", "call_id": "c", "name": "f"}], False),
        ({"object": "response", "output": []}, False),
        ([{"role": "admin", "content": "x"}], False),
        ([{"role": "user"}], False),
        ({"roles": ["user"], "content": "messages"}, False),
        ([{"task_id": 1, "traj": CHAT}], False),
        ({"history": CHAT, "mistake_step": "1"}, False),
        (b"role: user", False),
        ([], False),
    ],
)
def test_sniff_knows_openai_messages_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("tags", ["a", "b"], "`$.tags` is an array, expected an object"),
        (
            "tags",
            {"a": []},
            "`$.tags[...]` is an array, expected text, a number or true or false",
        ),
        ("agent", {"name": "x"}, "`$.agent` is an object, expected text"),
        ("reward", "high", "`$.reward` is text, expected a number or true or false"),
        ("trial", 1.5, "`$.trial` is a number, expected text or a whole number"),
        ("tools", "w", "`$.tools` is text, expected an array"),
        ("id", [1], "`$.id` is an array, expected text or a whole number"),
        ("outcome", [1], "`$.outcome` is an array, expected an object, text or true or false"),
    ],
)
def test_a_key_around_messages_of_another_shape_never_costs_the_run(
    key: str, value: Json, why: str
) -> None:
    run = run_of(FORMAT, {"messages": CHAT, "task": "t", key: value})
    (warning,) = run.warnings
    assert (warning.code, warning.reason) == ("unexpected_shape", why)
    assert (run.task, run.extra) == ("t", {key: value})


def test_a_list_of_messages_is_never_ornamental() -> None:
    assert "`messages` is '3'" in refused(FORMAT, {"messages": 3, "tags": []}).reason


@pytest.mark.parametrize(
    ("outcome", "status"),
    [("pass", "pass"), ("Failed", "fail"), (True, "pass"), ({"status": "fail"}, "fail")],
)
def test_an_outcome_beside_messages_is_that_of_the_run(outcome: Json, status: str) -> None:
    run = run_of(FORMAT, {"messages": CHAT, "outcome": outcome, "reward": 0.25})
    assert (run.outcome.status, run.outcome.source, run.outcome.reward) == (status, "check", 0.25)
    assert run.extra is None


@pytest.mark.parametrize("outcome", ["escalated", {"status": {"a": 1}}, {}])
def test_an_outcome_that_says_neither_stays_in_extra(outcome: Json) -> None:
    run = run_of(FORMAT, {"messages": CHAT, "outcome": outcome})
    assert (run.outcome.status, run.extra) == ("unknown", {"outcome": outcome})


def test_tags_that_are_numbers_are_read_as_text() -> None:
    run = run_of(FORMAT, {"messages": CHAT, "tags": {"night": 1, "on": True, "by": "ann"}})
    assert run.tags == {"night": "1", "on": "true", "by": "ann"}


def test_a_name_or_id_of_a_message_of_another_shape_stays_in_its_extra() -> None:
    call = {"id": 7, "function": {"name": "w", "arguments": "{}"}}
    asked = {"role": "assistant", "tool_calls": [call], "reasoning": {"a": 1}}
    told = {"role": "tool", "tool_call_id": 7, "name": {"x": 1}, "content": "3"}
    run = run_of(FORMAT, [ASK, asked, told, {"role": "tool", "tool_call_id": [1], "content": "4"}])
    assert [exchange.result_step for exchange in run.exchanges] == [2]
    found = [run.steps[at].extra for at in (1, 2, 3)]
    assert found == [{"reasoning": {"a": 1}}, {"name": {"x": 1}}, {"tool_call_id": [1]}]


def test_example_calls_without_a_conversation_are_no_run_but_with_a_task_they_are() -> None:
    assert FORMAT.sniff(written([CALL, *ANSWERS])) == 0
    assert FORMAT.sniff(written([ASK, CALL, *ANSWERS])) > 0.5
    assert FORMAT.sniff(written([{**CALL, "content": "I look."}, *ANSWERS])) > 0.5
    assert run_of(FORMAT, {"messages": [CALL, *ANSWERS], "task": 3}).task == "3"
