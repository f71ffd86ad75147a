"""Spans in OpenInference's words: one input and one output value, messages under indexed keys.

How two values are read is shared with Langfuse and with MLflow, which writes each value as JSON in
text and is read here too. BeeAI sends a span for each event of its emitter: a model is read at its
`start` (its answer is in the input of the next one, or in the agent's own end), a tool at the
agent's `update` with name, arguments and output; all other events stay in the run's spans. BeeAI's
spans end when the agent does, so their ends say nothing.
Source: openinference-semantic-conventions 0.1.42; openinference-instrumentation-beeai 0.1.33;
mlflow-skinny 3.17.2, `tracing/constant.py`, `entities/span.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from stepscope.formats.fields import parts_text, tool_defs
from stepscope.formats.spans import messages
from stepscope.formats.spans.attributes import (
    decode_object,
    decode_value,
    find_count,
    find_number,
    find_text,
    find_value,
    label_evaluation,
    make_tool_call,
    normalise_usage,
    read_usage_details,
    unflatten_list,
)
from stepscope.formats.spans.messages import read_messages, read_result_parts
from stepscope.formats.spans.span import Operation, RawSpan, SpanContent
from stepscope.model import Json, Part, TraceLabel
from stepscope.safety.limits import Limits

_BEEAI_SCOPE = "openinference.instrumentation.beeai"
# `agent.react.update-14`: what it is of, and the event.
_match_beeai_event = re.compile(r"(agent|backend|tool)\.(?:.*\.)?(\w+)-\d+\Z").match
_NO_STEP = SpanContent(operation="other")


def correct_beeai(span: RawSpan, said: SpanContent, limits: Limits) -> SpanContent:
    """Return what OpenInference's words say, read as the event that the span is."""
    if span.scope is None or not span.scope.startswith(_BEEAI_SCOPE):
        return said
    about = span.attributes
    event = _match_beeai_event(span.name)
    if event is None:
        name = find_text(about, "source") if said.operation == "agent" else None
        return msgspec.structs.replace(said, agent=said.agent or name)
    match event[1], event[2]:
        case "backend", "start":
            return said
        case "agent", "update" if find_text(about, "tool.name") and "output.value" in about:
            name, made = find_text(about, "tool.name") or "", find_value(about, "tool.parameters")
            call = make_tool_call(name, made, None, limits)
            parts = read_result_parts(about["output.value"])
            return SpanContent(operation="tool", call=call, parts=parts, momentary=True)
        case "agent", "success":
            return msgspec.structs.replace(said, input_value=(), inputs=())
    return _NO_STEP


OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("llm", "chat_model", "generation"), "model"),
    **dict.fromkeys(("chain", "workflow", "task", "span"), "chain"),
    **dict.fromkeys(("retriever", "reranker"), "retrieval"),
    "tool": "tool",
    "agent": "agent",
    "embedding": "embedding",
    "guardrail": "guardrail",
    "evaluator": "evaluation",
}
# What a tool's answer as a message of LangChain has.
_ANSWER_KEYS = frozenset(
    "content tool_call_id status name type artifact id additional_kwargs response_metadata".split()
)


def read_openinference(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in OpenInference's words, None where it uses none of them."""
    about = span.attributes
    kind = find_text(about, "openinference.span.kind")
    labels = read_evaluations(about)
    if kind is None:
        return SpanContent(labels=labels) if labels else None
    sort = OPERATIONS.get(kind.lower(), "other")
    said = read_input_output(about, "input.value", "output.value", sort, limits)
    name = find_text(about, "tool.name") or span.name
    arguments = find_value(about, "input.value", "tool.parameters")
    own = find_text(about, "tool.id") or said.response_id
    who = find_text(about, "agent.name", "graph.node.name", "graph.node.id")
    told = "llm.token_count."
    listed: list[Json] = []
    for entry in unflatten_list(about, "llm.tools."):
        tool = entry.get("tool") if isinstance(entry, dict) else None
        if isinstance(tool, dict):
            listed.append(decode_object(tool.get("json_schema"), limits))
    whole = SpanContent(
        operation=sort,
        inputs=read_messages(_list_messages(about, "llm.input_messages."), "user", limits),
        outputs=read_messages(_list_messages(about, "llm.output_messages."), "agent", limits),
        input_value=said.input_value,
        output_value=said.output_value,
        agent=who if sort == "agent" else None,
        model=find_text(about, "llm.response.model_name", "llm.model_name", "embedding.model_name"),
        finish_reason=find_text(about, "llm.finish_reason"),
        usage=normalise_usage(
            find_count(about, f"{told}prompt"),
            find_count(about, f"{told}completion"),
            read=find_count(about, f"{told}prompt_details.cache_read"),
            written=find_count(about, f"{told}prompt_details.cache_write"),
            reasoning=find_count(about, f"{told}completion_details.reasoning"),
        ),
        cost_usd=find_number(about, "llm.cost.total"),
        call=make_tool_call(name, arguments, own, limits) if sort == "tool" else None,
        parts=said.parts or _documents(about),
        tools=tool_defs(listed) or (),
        session=find_text(about, "session.id"),
        labels=labels,
    )
    return correct_beeai(span, whole, limits)


def read_input_output(
    about: Mapping[str, Json], given: str, made: str, sort: Operation | None, limits: Limits
) -> SpanContent:
    """Return the two values, as messages or, of a tool, as what came back and its call's id."""
    if sort == "tool":
        held = decode_object(about.get(made), limits)
        if not (isinstance(held, dict) and "tool_call_id" in held and held.keys() <= _ANSWER_KEYS):
            return SpanContent(parts=read_result_parts(about.get(made)))
        parts = read_result_parts(held.get("content"))
        belief = messages.judge_tool_status(held, parts_text(parts))
        return SpanContent(parts=parts, response_id=find_text(held, "tool_call_id"), status=belief)
    asked = read_messages(about.get(given), "user", limits)
    if sort in {"retrieval", "embedding", "guardrail"}:
        return SpanContent(input_value=asked, parts=read_result_parts(about.get(made)))
    answer = read_messages(about.get(made), "agent", limits)
    return SpanContent(input_value=asked, output_value=answer)


def _list_messages(about: Mapping[str, Json], prefix: str) -> list[Json]:
    listed = unflatten_list(about, prefix)
    return [entry.get("message", entry) if isinstance(entry, dict) else entry for entry in listed]


def _documents(about: Mapping[str, Json]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for prefix in ("retrieval.documents.", "reranker.output_documents."):
        for entry in unflatten_list(about, prefix):
            inner = entry.get("document", entry) if isinstance(entry, dict) else {"content": entry}
            if isinstance(inner, dict):
                extra = {key: found for key, found in inner.items() if key != "content"}
                parts.append(Part("text", find_text(inner, "content"), extra=extra or None))
    return tuple(parts)


def read_evaluations(about: Mapping[str, Json]) -> tuple[TraceLabel, ...]:
    """Return the evaluations and annotations under indexed keys, of the span and of its trace."""
    labels: list[TraceLabel] = []
    if not any("evaluations." in key or "annotations." in key for key in about):
        return ()
    for prefix in ("", "trace.", "session."):
        for word in ("evaluation", "annotation"):
            for entry in unflatten_list(about, f"{prefix}{word}s."):
                inner = entry.get(word) if isinstance(entry, dict) else None
                if isinstance(inner, dict):
                    scope = {"of": prefix.removesuffix(".")} if prefix else {}
                    labels.append(label_evaluation(inner, scope))
    return tuple(labels)


def read_mlflow(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in MLflow's words, None where it uses none of them."""
    said = {key: found for key, found in span.attributes.items() if key.startswith("mlflow.")}
    if not said:
        return None
    about = {key: decode_value(found, limits) for key, found in said.items()}
    sort = OPERATIONS.get((find_text(about, "mlflow.spanType") or "").lower())
    found = read_input_output(about, "mlflow.spanInputs", "mlflow.spanOutputs", sort, limits)
    cost, call = about.get("mlflow.llm.cost"), None
    if sort == "tool":
        # MLflow 2 numbers spans of one name, so the function's is the tool's.
        name = find_text(about, "mlflow.spanFunctionName") or span.name
        call = make_tool_call(name, about.get("mlflow.spanInputs"), found.response_id, limits)
    return msgspec.structs.replace(
        found,
        operation=sort,
        response_id=None,  # it was a call's
        agent=span.name if sort == "agent" else None,
        model=find_text(about, "mlflow.llm.model"),
        usage=read_usage_details(about.get("mlflow.chat.tokenUsage"), limits),
        cost_usd=find_number(cost, "total_cost", "total") if isinstance(cost, dict) else None,
        call=call,
        tools=tool_defs(about.get("mlflow.chat.tools")) or (),
        session=find_text(about, "mlflow.trace.session"),
    )
