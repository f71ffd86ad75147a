"""What is said to each protocol, and what is read of it, word for word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from stepscope.model import Endpoint, Json, Structure, Usage
from stepscope.models import anthropic, openai
from stepscope.models.dialect import token_count
from tests.models.scripted import IMAGES, REQUEST

LOCAL = Endpoint(name="local/tiny", base_url="http://127.0.0.1:1/v1")
OPENAI = Endpoint(name="openai/gpt-5", base_url="https://api.openai.com/v1", own=True)
ANTHROPIC = Endpoint(name="anthropic/claude-x", base_url="https://api.anthropic.com", own=True)
SET = msgspec.structs.replace(
    REQUEST,
    max_output_tokens=77,
    temperature=0.25,
    seed=5,
    extra={"top_p": 0.5, "output_config": {"effort": "low"}},
)


def test_a_chat_is_rubric_then_trace_then_question() -> None:
    asked = openai.chat_parameters(LOCAL, REQUEST, "json_schema")
    assert asked["messages"] == [
        {"role": "system", "content": REQUEST.system},
        {"role": "user", "content": f"{REQUEST.context}\n\n{REQUEST.question}"},
    ]
    assert asked["response_format"]["json_schema"]["strict"] is True
    assert asked["response_format"]["json_schema"]["schema"] == REQUEST.schema
    assert asked["max_tokens"] == REQUEST.max_output_tokens
    assert not {"temperature", "seed", "prompt_cache_key", "service_tier"} & set(asked)


def test_a_message_marks_rubric_and_trace_for_the_cache_but_not_the_question() -> None:
    asked = anthropic.message_parameters(LOCAL, REQUEST, "json_schema")
    mark = {"type": "ephemeral"}
    assert asked["system"] == [{"type": "text", "text": REQUEST.system, "cache_control": mark}]
    assert asked["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": REQUEST.context, "cache_control": mark},
                {"type": "text", "text": REQUEST.question},
            ],
        }
    ]
    assert asked["output_config"] == {"format": {"type": "json_schema", "schema": REQUEST.schema}}


def test_parameters_of_the_judge_are_sent_and_those_of_the_request_go_before_them() -> None:
    chat = openai.chat_parameters(LOCAL, SET, "json_schema")
    assert (chat["max_tokens"], chat["temperature"], chat["seed"], chat["top_p"]) == (
        77,
        0.25,
        5,
        0.5,
    )
    message = anthropic.message_parameters(LOCAL, SET, "json_schema")
    assert (message["max_tokens"], message["temperature"], message["top_p"]) == (77, 0.25, 0.5)
    assert "seed" not in message
    assert message["output_config"]["effort"] == "low"
    assert message["output_config"]["format"]["schema"] == REQUEST.schema


def test_the_provider_s_own_address_is_asked_for_its_common_price_and_its_cache() -> None:
    chat = openai.chat_parameters(OPENAI, REQUEST, "json_schema")
    assert chat["service_tier"] == "default"
    assert chat["max_completion_tokens"] == REQUEST.max_output_tokens
    assert "max_tokens" not in chat
    assert anthropic.message_parameters(ANTHROPIC, REQUEST, "json_schema")["service_tier"] == (
        "standard_only"
    )


def test_questions_about_one_trace_share_a_cache_key() -> None:
    def key(**told: str) -> Json:
        request = msgspec.structs.replace(REQUEST, **told)
        return openai.chat_parameters(OPENAI, request, "json_schema")["prompt_cache_key"]

    assert key(question="another question") == key()
    assert key(context="another trace") != key()
    assert key(system="another rubric") != key()


def test_images_stand_before_the_question_of_a_chat() -> None:
    seen = msgspec.structs.replace(REQUEST, media=IMAGES)
    asked = openai.chat_parameters(LOCAL, seen, "json_schema")
    png, webp = "data:image/png;base64,cG5n", "data:image/webp;base64,d2VicA=="
    assert asked["messages"][1]["content"] == [
        {"type": "text", "text": REQUEST.context},
        {"type": "text", "text": "image 1 of step 0"},
        {"type": "image_url", "image_url": {"url": png, "detail": "high"}},
        {"type": "text", "text": "image 2 of step 1"},
        {"type": "image_url", "image_url": {"url": webp, "detail": "high"}},
        {"type": "text", "text": REQUEST.question},
    ]


def test_images_of_a_message_are_cached_with_the_trace() -> None:
    seen = msgspec.structs.replace(REQUEST, media=IMAGES)
    asked = anthropic.message_parameters(LOCAL, seen, "json_schema")
    mark = {"type": "ephemeral"}
    png = {"type": "base64", "media_type": "image/png", "data": "cG5n"}
    webp = {"type": "base64", "media_type": "image/webp", "data": "d2VicA=="}
    assert asked["messages"][0]["content"] == [
        {"type": "text", "text": REQUEST.context, "cache_control": mark},
        {"type": "text", "text": "image 1 of step 0"},
        {"type": "image", "source": png},
        {"type": "text", "text": "image 2 of step 1"},
        {"type": "image", "source": webp, "cache_control": mark},
        {"type": "text", "text": REQUEST.question},
    ]


def test_without_a_trace_the_question_stands_alone() -> None:
    bare = msgspec.structs.replace(REQUEST, context="")
    chat = openai.chat_parameters(LOCAL, bare, "json_schema")
    assert chat["messages"][1]["content"] == REQUEST.question
    message = anthropic.message_parameters(LOCAL, bare, "json_schema")
    assert message["messages"][0]["content"] == [{"type": "text", "text": REQUEST.question}]


@pytest.mark.parametrize("structure", ["json_object_schema", "forced_tool", "prompt_only"])
def test_each_form_of_structured_output_asks_in_its_own_way_alone(structure: Structure) -> None:
    chat = openai.chat_parameters(LOCAL, REQUEST, structure)
    forms = {"response_format", "tools", "tool_choice"} & set(chat)
    system = chat["messages"][0]["content"]
    if structure == "json_object_schema":
        assert forms == {"response_format"}
        assert chat["response_format"] == {"type": "json_object", "schema": REQUEST.schema}
    elif structure == "forced_tool":
        assert forms == {"tools", "tool_choice"}
        assert chat["tools"][0]["function"]["parameters"] == REQUEST.schema
    else:
        assert forms == set()
    assert ('"enum":["correct","incorrect"]' in system) is (structure == "prompt_only")


def chat_of(choice: dict[str, Any], **told: Any) -> bytes:
    return msgspec.json.encode({"choices": [choice], "model": "m", **told})


@pytest.mark.parametrize(
    ("choice", "structure", "text", "stop"),
    [
        ({"message": {"content": "a"}, "finish_reason": "stop"}, "json_schema", "a", "end"),
        ({"message": {"content": None}, "finish_reason": "stop"}, "json_schema", "", "end"),
        ({"message": {"content": "a"}}, "json_schema", "a", "other"),
        (
            {
                "message": {
                    "content": [
                        {"type": "thinking", "text": "hm"},
                        {"type": "text", "text": "a"},
                        {"type": "text", "text": "b"},
                    ]
                },
                "finish_reason": "stop",
            },
            "json_schema",
            "ab",
            "end",
        ),
        (
            {"message": {"content": "", "refusal": "no"}, "finish_reason": "stop"},
            "json_schema",
            "no",
            "refusal",
        ),
        (
            {
                "message": {"tool_calls": [{"function": {"arguments": '{"a": 1}'}}]},
                "finish_reason": "tool_calls",
            },
            "forced_tool",
            '{"a": 1}',
            "end",
        ),
        (
            {
                "message": {"tool_calls": [{"function": {"arguments": {"a": 1}}}]},
                "finish_reason": "stop",
            },
            "forced_tool",
            '{"a":1}',
            "end",
        ),
        # A tool that nobody forced is no answer.
        (
            {
                "message": {"tool_calls": [{"function": {"arguments": "{}"}}]},
                "finish_reason": "tool_calls",
            },
            "json_schema",
            "",
            "tool",
        ),
        (
            {"message": {"content": "words"}, "finish_reason": "stop"},
            "forced_tool",
            "words",
            "end",
        ),
    ],
)
def test_the_answer_of_a_chat_is_read_as_the_model_wrote_it(
    choice: dict[str, Any], structure: Structure, text: str, stop: str
) -> None:
    found = openai.read_completion(LOCAL, chat_of(choice), structure)
    assert (found.text, found.stop, found.model) == (text, stop, "m")


def test_the_arguments_of_a_forced_tool_are_read_as_the_model_wrote_them() -> None:
    body = (
        b'{"content": [{"type": "text", "text": "so:"}, {"type": "tool_use", "input": '
        b'{"b" : 1.50, "b": 2}}], "stop_reason": "tool_use", "model": "m"}'
    )
    found = anthropic.read_message(LOCAL, body, "forced_tool")
    assert (found.text, found.stop) == ('{"b" : 1.50, "b": 2}', "end")
    other = anthropic.read_message(LOCAL, body, "json_schema")
    assert (other.text, other.stop) == ("so:", "tool")


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "total_tokens": 120,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 15},
            },
            Usage(input_total=100, cache_read=64, output_total=20, reasoning=15),
        ),
        # Reasoning that is paid for and left out of the completion.
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 180},
            Usage(input_total=100, output_total=80),
        ),
        (
            {"prompt_tokens": 100, "completion_tokens": 20, "prompt_cache_hit_tokens": 30},
            Usage(input_total=100, cache_read=30, output_total=20),
        ),
        ({"prompt_tokens": 100}, None),
        ({"prompt_tokens": "100", "completion_tokens": 1}, None),
        ({"prompt_tokens": -1, "completion_tokens": 1}, None),
        ({"prompt_tokens": True, "completion_tokens": 1}, None),
        ("many", None),
        (None, None),
    ],
)
def test_the_tokens_of_a_chat_are_numbers_or_none(told: Json, usage: Usage | None) -> None:
    body = chat_of({"message": {"content": "a"}, "finish_reason": "stop"}, usage=told)
    assert openai.read_completion(LOCAL, body, "json_schema").usage == usage


@pytest.mark.parametrize(
    ("told", "usage"),
    [
        (
            {
                "input_tokens": 10,
                "cache_creation_input_tokens": 200,
                "cache_read_input_tokens": 3000,
                "output_tokens": 40,
            },
            Usage(input_total=3210, cache_read=3000, cache_write=200, output_total=40),
        ),
        (
            {"input_tokens": 10, "cache_read_input_tokens": None, "output_tokens": 40},
            Usage(input_total=10, output_total=40),
        ),
        ({"input_tokens": 10}, None),
        ([], None),
    ],
)
def test_the_input_of_a_message_includes_what_was_cached(told: Json, usage: Usage | None) -> None:
    assert anthropic.message_usage(told) == usage


def test_only_a_whole_number_from_zero_on_counts_tokens() -> None:
    told: tuple[Json, ...] = (7, 0, -1, True, "7")
    assert [token_count(one) for one in told] == [7, 0, None, None, None]
