from __future__ import annotations

import json
from typing import Any

import pytest

from stepscope.formats.spans.span import SpanEvent
from stepscope.model import TraceLabel, Usage
from tests.formats.spans.making import run_of, span, told

ASK, ANSWER = "Weather in Paris?", "Rain."
CHAT = [("user", "message", ASK), ("agent", "message", ANSWER)]
OPENAI_ASK = [{"role": "user", "content": ASK}]
OPENAI_ANSWER = {"choices": [{"message": {"role": "assistant", "content": ANSWER}}]}
LLM = {"openinference.span.kind": "LLM"}
FUSE = "langfuse.observation."
SAYS = {"gen_ai.operation.name": "chat"}

MODELS: list[dict[str, Any]] = [
    {
        "gen_ai.prompt": json.dumps(OPENAI_ASK),
        "gen_ai.completion": json.dumps({"text": ANSWER, "finish_reason": "stop"}),
        **SAYS,
    },
    {
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": ASK,
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": ANSWER,
        "llm.request.type": "chat",
    },
    {
        "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": ASK}]}],
        "gen_ai.output.messages": [
            {"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}
        ],
        **SAYS,
    },
    {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": ASK,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.contents.0.message_content.type": "text",
        "llm.output_messages.0.message.contents.0.message_content.text": ANSWER,
        **LLM,
    },
    {"input.value": ASK, "output.value": ANSWER, **LLM},
    {
        f"{FUSE}type": "generation",
        f"{FUSE}input": json.dumps(OPENAI_ASK),
        f"{FUSE}output": json.dumps({"role": "assistant", "content": ANSWER}),
    },
    {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": json.dumps({"messages": OPENAI_ASK}),
        "mlflow.spanOutputs": json.dumps(OPENAI_ANSWER),
    },
    {
        "ai.operationId": "ai.generateText.doGenerate",
        "ai.prompt.messages": json.dumps(
            [{"role": "user", "content": [{"type": "text", "text": ASK}]}]
        ),
        "ai.response.text": ANSWER,
    },
    {
        "gcp.vertex.agent.llm_request": json.dumps(
            {"model": "g", "contents": [{"role": "user", "parts": [{"text": ASK}]}]}
        ),
        "gcp.vertex.agent.llm_response": json.dumps(
            {"content": {"role": "model", "parts": [{"text": ANSWER}]}}
        ),
        "gen_ai.request.model": "g",
    },
]


@pytest.mark.parametrize("attributes", MODELS)
def test_a_models_question_and_answer_are_read_in_every_dialect(attributes: Any) -> None:
    assert told(run_of(span("m", attributes))) == CHAT


def test_messages_in_events_old_and_new_are_read() -> None:
    old = (
        SpanEvent(name="gen_ai.user.message", attributes={"content": ASK}),
        SpanEvent(name="gen_ai.choice", attributes={"message": json.dumps({"content": ANSWER})}),
    )
    assert told(run_of(span("m", SAYS, events=old))) == CHAT
    details = SpanEvent(name="gen_ai.client.inference.operation.details", attributes=MODELS[2])
    assert told(run_of(span("m", SAYS, events=(details,)))) == CHAT


TOOLS: list[dict[str, Any]] = [
    {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c",
        "gen_ai.tool.call.arguments": {"city": "Paris"},
        "gen_ai.tool.call.result": "rain",
    },
    {
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c",
        "input": '{"city": "Paris"}',
        "output": "rain",
    },
    {
        "openinference.span.kind": "TOOL",
        "tool.name": "look",
        "tool.id": "c",
        "input.value": '{"city": "Paris"}',
        "output.value": "rain",
    },
    {
        "openinference.span.kind": "TOOL",
        "tool.name": "look",
        "input.value": '{"city": "Paris"}',
        "output.value": '{"content": "rain", "tool_call_id": "c"}',
    },
    {
        "ai.operationId": "ai.toolCall",
        "ai.toolCall.name": "look",
        "ai.toolCall.id": "c",
        "ai.toolCall.args": '{"city": "Paris"}',
        "ai.toolCall.result": "rain",
    },
]


@pytest.mark.parametrize("attributes", TOOLS)
def test_a_tools_call_and_answer_are_read_in_every_dialect(attributes: Any) -> None:
    run = run_of(span("t", attributes))
    (call,) = run.steps[0].calls
    assert (call.name, call.arguments, call.id) == ("look", {"city": "Paris"}, "c")
    assert (run.steps[1].results[0].text, run.steps[1].results[0].call_id) == ("rain", "c")


def test_tools_of_langfuse_and_mlflow_are_named_by_their_spans() -> None:
    fuse = {f"{FUSE}type": "tool", f"{FUSE}input": '{"city": "Paris"}', f"{FUSE}output": "rain"}
    flow = {
        "mlflow.spanType": '"TOOL"',
        "mlflow.spanInputs": '{"city": "Paris"}',
        "mlflow.spanOutputs": '"rain"',
    }
    for about in (fuse, flow):
        run = run_of(span("t", about, name="look"))
        assert (run.steps[0].calls[0].name, run.steps[1].results[0].text) == ("look", "rain")


USAGES: list[tuple[dict[str, Any], Usage]] = [
    (
        {
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 2,
            "gen_ai.usage.cache_read.input_tokens": 4,
            "gen_ai.usage.cache_creation.input_tokens": 3,
            **SAYS,
        },
        Usage(input_total=9, output_total=2, cache_read=4, cache_write=3),
    ),
    (
        {"gen_ai.usage.prompt_tokens": 9, "gen_ai.usage.completion_tokens": 2, **SAYS},
        Usage(input_total=9, output_total=2),
    ),
    (
        {
            "llm.token_count.prompt": 2,
            "llm.token_count.completion": 1,
            "llm.token_count.prompt_details.cache_read": 40,
            **LLM,
        },
        Usage(input_total=42, output_total=1, cache_read=40),
    ),
    (
        {"llm.token_count.prompt": 40, "llm.token_count.prompt_details.cache_read": 40, **LLM},
        Usage(input_total=40, cache_read=40),
    ),
    (
        {f"{FUSE}type": "generation", f"{FUSE}usage_details": '{"input": 9, "output": 2}'},
        Usage(input_total=9, output_total=2),
    ),
    (
        {
            "mlflow.spanType": '"LLM"',
            "mlflow.chat.tokenUsage": '{"input_tokens": 9, "output_tokens": 2}',
        },
        Usage(input_total=9, output_total=2),
    ),
    (
        {
            "ai.operationId": "ai.streamText.doStream",
            "ai.usage.inputTokens": 9,
            "ai.usage.outputTokens": 2,
            "ai.usage.reasoningTokens": 0,
        },
        Usage(input_total=9, output_total=2, reasoning=0),
    ),
    (SAYS | {"gen_ai.usage.input_tokens": -1}, Usage()),
]


@pytest.mark.parametrize(("attributes", "expected"), USAGES)
def test_tokens_mean_one_thing_whoever_counts_them(attributes: Any, expected: Usage) -> None:
    (step,) = run_of(span("m", attributes)).steps
    assert (step.usage or Usage()) == expected


@pytest.mark.parametrize(
    "attributes",
    [
        {"llm.cost.total": 0.25, **LLM},
        {"operation.cost": 0.25, **SAYS},
        {f"{FUSE}type": "generation", f"{FUSE}cost_details": '{"total": 0.25}'},
        {"mlflow.spanType": '"LLM"', "mlflow.llm.cost": '{"total_cost": 0.25}'},
    ],
)
def test_a_reported_cost_is_the_steps(attributes: Any) -> None:
    assert run_of(span("m", attributes)).steps[0].cost_usd == 0.25


def test_a_call_that_an_exporter_left_printed_is_a_call() -> None:
    printed = "ResponseFunctionToolCall(arguments='{\"a\": 1}', call_id='c', name='look')"
    made = [{"role": "assistant", "parts": [{"type": "text", "content": printed}]}]
    (step,) = run_of(span("m", {"gen_ai.output.messages": made, **SAYS})).steps
    assert [(c.name, c.id, c.arguments) for c in step.calls] == [("look", "c", {"a": 1})]
    made[0]["parts"] = [{"type": "text", "content": "ResponseFunctionToolCall(is a class"}]
    (step,) = run_of(span("m", {"gen_ai.output.messages": made, **SAYS})).steps
    assert (step.calls, step.text) == ((), "ResponseFunctionToolCall(is a class")


def test_handoffs_and_retrievals_are_steps() -> None:
    hand = {
        "gen_ai.operation.name": "agent_handoff",
        "gen_ai.handoff.from_agent": "a",
        "gen_ai.handoff.to_agent": "b",
    }
    (step,) = run_of(span("h", hand)).steps
    assert (step.kind, step.agent, step.extra) == ("handoff", "a", {"to": "b"})
    found = {
        "openinference.span.kind": "RETRIEVER",
        "input.value": "rain",
        "retrieval.documents.0.document.content": "It rains.",
        "retrieval.documents.0.document.score": 0.5,
    }
    (step,) = run_of(span("r", found)).steps
    assert (step.kind, step.text, step.extra) == ("retrieval", "It rains.", {"asked": "rain"})
    assert step.parts[0].extra == {"score": 0.5}


def test_openinference_evaluations_are_labels_of_the_span_or_of_the_trace() -> None:
    about = {
        **LLM,
        "evaluations.0.evaluation.name": "helpful",
        "evaluations.0.evaluation.score": 1,
        "evaluations.0.evaluation.annotator_kind": "HUMAN",
        "trace.evaluations.0.evaluation.label": "bad",
    }
    first, second = run_of(span("m", about)).labels
    extra = {"name": "helpful", "score": 1, "annotator_kind": "HUMAN"}
    assert first == TraceLabel(
        kind="note", step=0, category="helpful", annotator="HUMAN", extra=extra
    )
    assert second == TraceLabel(kind="note", extra={"label": "bad", "of": "trace"})
