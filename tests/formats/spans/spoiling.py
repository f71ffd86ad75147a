"""Files of spans in which every dialect is spoken, to be spoilt."""

from __future__ import annotations

from typing import Any

from tests.formats.spans.making import as_otlp, asks, said


def _flat(span_id: str, attributes: dict[str, Any]) -> dict[str, Any]:
    body = {"input": {"messages": [{"content": "x"}]}, "output": {"messages": [{"content": "{}"}]}}
    return {
        "trace_id": "t",
        "span_id": span_id,
        "parent_span_id": None if span_id == "a" else "a",
        "name": span_id,
        "start_time": 1_700_000_000_000_000_000,
        "end_time": 1_700_000_001_000_000_000,
        "attributes": attributes,
        "status": {"code": "OK"},
        "scope": {"name": "lib", "version": "1"},
        "span_events": [
            {
                "event_name": "gen_ai.choice",
                "timestamp": 5,
                "attributes": {"message": {}},
                "body": body,
            }
        ],
    }


OPENINFERENCE: dict[str, Any] = {
    "openinference.span.kind": "AGENT",
    "agent.name": "x",
    "evaluations.0.evaluation.name": "h",
    "llm.tools.0.tool.json_schema": "{}",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.contents.0.message_content.type": "text",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c",
    "retrieval.documents.0.document.content": "x",
}
LANGFUSE: dict[str, Any] = {
    "langfuse.observation.type": "tool",
    "langfuse.observation.input": {"a": 1},
    "langfuse.observation.output": {"a": 1},
    "langfuse.observation.usage_details": {"input": 3},
}
MLFLOW: dict[str, Any] = {
    "mlflow.spanType": '"LLM"',
    "mlflow.spanInputs": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "x"}]},
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "n"}}]},
        ]
    },
    "mlflow.chat.tools": [{"function": {"name": "x"}}],
}
VERCEL: dict[str, Any] = {
    "ai.operationId": "ai.generateText",
    "ai.prompt": {
        "prompt": [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c"}]}]
    },
    "ai.response.toolCalls": [{"toolCallId": "c", "toolName": "n", "input": {}}],
    "ai.prompt.tools": [{"name": "x", "inputSchema": {}}],
}
GEN_AI: dict[str, Any] = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": [
        said("assistant", asks("f", "c", city="Paris")),
        said("user", {"type": "blob", "content": "aGk=", "modality": "image"}),
        {"kwargs": {"content": "x", "type": "human"}, "id": ["a", "HumanMessage"]},
    ],
    "gen_ai.completion": {"choices": [{"message": {"content": "x"}}]},
    "gen_ai.tool.definitions": [{"name": "x"}],
}

SPOKEN: dict[str, dict[str, Any]] = {
    "a": OPENINFERENCE,
    "b": LANGFUSE,
    "c": MLFLOW,
    "d": VERCEL,
    "e": GEN_AI,
}
FLAT = [_flat(name, about) for name, about in SPOKEN.items()]
OTLP = as_otlp(FLAT)[4]
