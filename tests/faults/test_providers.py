"""The scripted provider itself, asked by the real SDKs."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from collections.abc import Awaitable
from pathlib import Path
from typing import Any, TypeVar

import anthropic
import openai
import pytest

from tests.faults.providers import Provider, serving, started
from tests.faults.script import Batches, Fault, Script, Where

T = TypeVar("T")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "label": {"enum": ["correct", "incorrect"]},
        "confidence": {"type": "number"},
        "steps": {"type": "array", "items": {"type": "integer"}},
        "rationale": {"type": "string"},
    },
    "required": ["label", "confidence", "steps", "rationale"],
    "additionalProperties": False,
}


def run(work: Awaitable[T]) -> T:
    async def main() -> T:
        return await work

    return asyncio.run(main())


async def chat(provider: Provider, text: str = "a trace", **more: Any) -> Any:
    async with openai.AsyncOpenAI(
        base_url=provider.openai, api_key="sk-test", max_retries=0, timeout=60
    ) as client:
        shape = {"name": "verdict", "strict": True, "schema": SCHEMA}
        asked = {"response_format": {"type": "json_schema", "json_schema": shape}, **more}
        messages = [{"role": "system", "content": "rubric"}, {"role": "user", "content": text}]
        return await client.chat.completions.create(model="gpt-5", messages=messages, **asked)  # type: ignore[arg-type]


async def message(provider: Provider, text: str = "a trace", **more: Any) -> Any:
    async with anthropic.AsyncAnthropic(
        base_url=provider.anthropic, api_key="sk-ant-test", max_retries=0, timeout=60
    ) as client:
        shape = {"format": {"type": "json_schema", "schema": SCHEMA}}
        asked = {"output_config": shape, **more}
        held = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        return await client.messages.create(
            model="claude-opus-4-8",
            max_tokens=100,
            messages=[{"role": "user", "content": held}],  # type: ignore[list-item,misc]
            **asked,
        )


def test_same_question_has_the_same_valid_answer_and_another_has_another() -> None:
    with serving() as provider:
        said = [
            run(chat(provider, text)).choices[0].message.content for text in ("a", "a", "b", "c")
        ]
        held = json.loads(run(message(provider)).content[0].text)
    assert said[0] == said[1]
    assert len(set(said)) == 3
    assert set(json.loads(said[0])) == set(held) == set(SCHEMA["required"])


def test_cached_prefixes_are_told_as_each_provider_tells_them() -> None:
    long = "word " * 1200
    with serving() as provider:
        chats = [run(chat(provider, long)).usage for _ in range(2)]
        messages = [run(message(provider, long)).usage for _ in range(2)]
    assert [held.prompt_tokens_details.cached_tokens for held in chats] == [0, 1502]
    assert [held.prompt_tokens for held in chats] == [1502, 1502]
    assert [held.cache_creation_input_tokens for held in messages] == [1500, 0]
    assert [held.cache_read_input_tokens for held in messages] == [0, 1500]
    assert [held.input_tokens for held in messages] == [0, 0]


def test_schemas_that_the_providers_refuse_are_refused() -> None:
    loose = {**SCHEMA, "properties": {**SCHEMA["properties"], "label": {"type": "string"}}}
    bounded = {**loose["properties"], "confidence": {"type": "number", "maximum": 1}}
    shape = {"name": "v", "strict": True, "schema": {**SCHEMA, "required": ["label"]}}
    with serving() as provider:
        with pytest.raises(openai.BadRequestError, match="required"):
            run(
                chat(provider, response_format={"type": "json_schema", "json_schema": shape}),
            )
        config = {"format": {"type": "json_schema", "schema": {**SCHEMA, "properties": bounded}}}
        with pytest.raises(anthropic.BadRequestError, match="maximum"):
            run(message(provider, output_config=config))


def test_a_form_that_is_not_known_is_refused_and_one_that_is_ignored_is_prose() -> None:
    with serving(Script(structures=("prompt_only",))) as provider:
        with pytest.raises(openai.BadRequestError, match="json_schema is not supported"):
            run(chat(provider))
        provider.script = Script(ignores=("json_schema",))
        said = run(chat(provider)).choices[0].message.content
    assert said.startswith("Overall")


def test_faults_come_by_text_then_by_number_then_for_all() -> None:
    refused = Fault(status=400, message="by text")
    script = Script(
        first=(Fault(status=500), Fault()),
        where=(Where(text="needle", fault=refused, times=1),),
        always=Fault(status=503),
    )
    with serving(script) as provider:
        with pytest.raises(openai.BadRequestError, match="by text"):
            run(chat(provider, "a needle"))
        run(chat(provider, "a needle"))  # number 1: the first was number 0
        with pytest.raises(openai.InternalServerError):
            run(chat(provider))
        assert len(provider.asked) == 3


def test_errors_have_the_form_and_headers_of_the_provider() -> None:
    fault = Fault(status=429, headers={"retry-after": "2"}, message="slow down {key}")
    with serving(Script(always=fault)) as provider:
        with pytest.raises(openai.RateLimitError, match="slow down sk-test") as chatted:
            run(chat(provider))
        with pytest.raises(anthropic.RateLimitError, match="slow down sk-ant-test") as told:
            run(message(provider))
    assert chatted.value.code == "rate_limit_exceeded"
    assert chatted.value.response.headers["retry-after"] == "2"
    assert told.value.response.headers["request-id"] == "req_scripted"


@pytest.mark.parametrize(
    "fault",
    [
        Fault(reset="before"),
        Fault(reset="headers"),
        Fault(reset="body"),
        Fault(truncated=True),
    ],
    ids=str,
)
def test_connections_break_where_the_script_says(fault: Fault) -> None:
    with serving(Script(always=fault)) as provider, pytest.raises(openai.APIConnectionError):
        run(chat(provider))


def test_a_bomb_is_small_on_the_wire_and_large_unpacked() -> None:
    with serving(Script(always=Fault(bomb=10_000_000))) as provider:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]})
        with socket.create_connection(("127.0.0.1", int(provider.base.rpartition(":")[2]))) as sock:
            head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
            sock.sendall((head + body).encode())
            told = sock.recv(65536).decode("latin-1")
    assert "content-encoding: gzip" in told
    assert int(told.partition("content-length: ")[2].partition("\r\n")[0]) < 20_000


def test_too_many_at_once_are_turned_away() -> None:
    async def many(provider: Provider) -> list[Any]:
        asks = (chat(provider, str(at)) for at in range(5))
        return await asyncio.gather(*asks, return_exceptions=True)

    with serving(Script(most=2, always=Fault(delay=0.2))) as provider:
        found = run(many(provider))
        assert provider.most_in_flight == 5
    assert sum(isinstance(held, openai.RateLimitError) for held in found) == 3


def test_what_was_asked_stands_in_the_file_once_at_receipt_and_once_when_answered(
    tmp_path: Path,
) -> None:
    with started(tmp_path, Script(first=(Fault(), Fault(reset="body")))) as provider:
        run(chat(provider, "a"))
        with pytest.raises(openai.APIConnectionError):
            run(chat(provider, "a"))
        held = provider.entries()
    assert [(entry.event, entry.number, entry.status) for entry in held] == [
        ("received", 0, 0),
        ("answered", 0, 200),
        ("received", 1, 0),
        ("answered", 1, 0),
    ]
    assert len({entry.hash for entry in held}) == 1


def test_a_started_provider_takes_another_script(tmp_path: Path) -> None:
    with started(tmp_path, processes=2, ledger=False) as provider:
        run(chat(provider))
    with started(tmp_path, ledger=False) as provider:
        provider.put(Script(answer="refuse"))
        assert run(chat(provider)).choices[0].message.refusal
        with urllib.request.urlopen(f"{provider.base}/_state") as reply:
            assert json.load(reply) == {"number": 1, "most_in_flight": 1}


async def openai_batch(provider: Provider, customs: list[str]) -> tuple[Any, list[Any]]:
    async with openai.AsyncOpenAI(base_url=provider.openai, api_key="k", max_retries=0) as client:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}
        url = "/v1/chat/completions"
        lines = [
            json.dumps({"custom_id": custom, "method": "POST", "url": url, "body": body})
            for custom in customs
        ]
        file = await client.files.create(
            file=("requests.jsonl", "\n".join(lines).encode()), purpose="batch"
        )
        batch = await client.batches.create(
            input_file_id=file.id,
            endpoint="/v1/chat/completions",
            completion_window="24h",
            metadata={"of": "us"},
        )
        while batch.status == "in_progress":
            batch = await client.batches.retrieve(batch.id)
        listed = [held.metadata async for held in client.batches.list()]
        assert listed == [{"of": "us"}]
        told = []
        for name in (batch.output_file_id, batch.error_file_id):
            if name:
                content = await client.files.content(name)
                told += [json.loads(line) for line in content.text.splitlines()]
        return batch, told


def test_batches_of_openai_end_after_their_polls_with_results_in_any_order() -> None:
    script = Script(batches=Batches(polls=2, expired=1, errored=1, missing=1))
    with serving(script) as provider:
        batch, told = run(openai_batch(provider, list("abcde")))
    assert batch.status == "expired"
    assert batch.request_counts.completed == 2
    found = {line["custom_id"]: line for line in told}
    assert [line["custom_id"] for line in told] == ["e", "d", "b", "a"]
    assert found["a"]["error"]["code"] == "batch_expired"
    assert found["b"]["response"]["status_code"] == 400
    assert found["e"]["response"]["body"]["choices"][0]["finish_reason"] == "stop"


async def anthropic_batch(provider: Provider, customs: list[str]) -> tuple[Any, list[Any]]:
    async with anthropic.AsyncAnthropic(
        base_url=provider.anthropic, api_key="k", max_retries=0
    ) as client:
        batch = await client.messages.batches.create(
            requests=[
                {
                    "custom_id": custom,
                    "params": {
                        "model": "claude-opus-4-8",
                        "max_tokens": 10,
                        "messages": [{"role": "user", "content": "x"}],
                    },
                }
                for custom in customs
            ]
        )
        while batch.processing_status == "in_progress":
            batch = await client.messages.batches.retrieve(batch.id)
        assert [held.id async for held in client.messages.batches.list()] == [batch.id]
        results = await client.messages.batches.results(batch.id)
        return batch, [held async for held in results]


def test_batches_of_anthropic_end_after_their_polls_with_results_in_any_order(
    tmp_path: Path,
) -> None:
    script = Script(batches=Batches(polls=2, expired=1, errored=1, canceled=1, missing=1))
    with serving(script, ledger=tmp_path / "asked.jsonl") as provider:
        batch, told = run(anthropic_batch(provider, list("abcdef")))
        paid = [entry.custom for entry in provider.entries() if entry.event == "received"]
    assert [(held.custom_id, held.result.type) for held in told] == [
        ("f", "succeeded"),
        ("e", "succeeded"),
        ("c", "canceled"),
        ("b", "errored"),
        ("a", "expired"),
    ]
    assert batch.request_counts.succeeded == 3
    assert paid == ["e", "f"]
