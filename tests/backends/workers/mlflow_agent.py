"""Record a small agent with the real MLflow SDK: TRACKING_URI, EXPERIMENT."""

# The SDK is in an environment of its own, where no type checker looks.
# mypy: disable-error-code="import-not-found,untyped-decorator,no-any-return"

from __future__ import annotations

import sys

import mlflow
from mlflow.entities import SpanType


@mlflow.trace(span_type=SpanType.TOOL)
def find_order(id: int) -> str:
    raise LookupError(f"no order {id}")


@mlflow.trace(span_type=SpanType.CHAT_MODEL)
def chat(messages: list[dict[str, object]]) -> dict[str, object]:
    if len(messages) == 1:
        function = {"name": "find_order", "arguments": '{"id": 17}'}
        call = {"id": "c1", "type": "function", "function": function}
        return {
            "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]
        }
    return {"choices": [{"message": {"role": "assistant", "content": "There is no order 17."}}]}


@mlflow.trace(span_type=SpanType.AGENT)
def agent(question: str) -> str:
    messages: list[dict[str, object]] = [{"role": "user", "content": question}]
    answer = chat(messages)["choices"][0]["message"]
    messages.append(answer)
    try:
        found = find_order(17)
    except LookupError as e:
        found = str(e)
    messages.append({"role": "tool", "tool_call_id": "c1", "content": found})
    return chat(messages)["choices"][0]["message"]["content"]


def main(uri: str, experiment: str) -> None:
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(experiment)
    agent("Cancel order 17")
    mlflow.flush_trace_async_logging()
    sys.stdout.write(mlflow.get_last_active_trace_id() or "")


if __name__ == "__main__":
    main(*sys.argv[1:])
