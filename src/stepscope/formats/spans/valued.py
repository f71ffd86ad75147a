"""Spans of backends that keep an input and an output as one value each, and say what they are.

OpenInference (`input.value`), Langfuse (`langfuse.observation.*`) and MLflow (`mlflow.span*`) share
this; OpenInference also flattens messages, tool calls and evaluations into indexed keys.
Source: openinference-semantic-conventions 0.1.42, langfuse 5.0.4, mlflow-skinny 3.17.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.building import call_of
from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans.attributes import (
    count,
    decoded,
    flattened,
    number,
    parsed,
    text,
    usage,
    value,
)
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Label, Part, ToolCall, ToolDef, Usage
from stepscope.safety.limits import Limits

_SORTS: dict[str, Sort] = {
    "llm": "model",
    "chat_model": "model",
    "generation": "model",
    "tool": "tool",
    "agent": "agent",
    "chain": "chain",
    "workflow": "chain",
    "task": "chain",
    "span": "chain",
    "retriever": "retrieval",
    "reranker": "retrieval",
    "embedding": "embedding",
    "guardrail": "guardrail",
    "evaluator": "evaluation",
}
_FUSE = "langfuse.observation."
_WRAPPED = frozenset({"content", "tool_call_id", "status", "name", "type", "artifact", "id"})


def openinference(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in OpenInference's words, None where it uses none of them."""
    about = span.attributes
    kind = text(about, "openinference.span.kind")
    labels = evaluations(about)
    if kind is None:
        return Said(labels=labels) if labels else None
    sort = _SORTS.get(kind.lower(), "other")
    said = _valued(about, "input.value", "output.value", sort, limits)
    outputs = read(_unwrapped(flattened(about, "llm.output_messages.")), "agent", limits)
    name = text(about, "tool.name") or span.name
    arguments = value(about, "input.value", "tool.parameters")
    told = "llm.token_count."
    return Said(
        sort=sort,
        inputs=read(_unwrapped(flattened(about, "llm.input_messages.")), "user", limits),
        outputs=outputs,
        given=said.given,
        made=said.made,
        agent=text(about, "agent.name", "graph.node.name", "graph.node.id")
        if sort == "agent"
        else None,
        model=text(about, "llm.response.model_name", "llm.model_name", "embedding.model_name"),
        finish_reason=text(about, "llm.finish_reason"),
        usage=usage(
            count(about, f"{told}prompt"),
            count(about, f"{told}completion"),
            read=count(about, f"{told}prompt_details.cache_read"),
            written=count(about, f"{told}prompt_details.cache_write"),
            reasoning=count(about, f"{told}completion_details.reasoning"),
        ),
        cost_usd=number(about, "llm.cost.total"),
        call=_call(name, arguments, text(about, "tool.id") or said.response_id, limits)
        if sort == "tool"
        else None,
        parts=said.parts or _documents(about),
        tools=_schemas(about, limits),
        session=text(about, "session.id"),
        labels=labels,
    )


def langfuse(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in Langfuse's words, None where it uses none of them."""
    about = span.attributes
    if not any(key.startswith("langfuse.") for key in about):
        return None
    kind = text(about, f"{_FUSE}type")
    sort = _SORTS.get((kind or "").lower())
    said = _valued(about, f"{_FUSE}input", f"{_FUSE}output", sort, limits)
    told = decoded(about.get(f"{_FUSE}usage_details"), limits)
    cost = decoded(about.get(f"{_FUSE}cost_details"), limits)
    failed = text(about, f"{_FUSE}level") == "ERROR"
    return Said(
        sort=sort,
        given=said.given,
        made=said.made,
        agent=span.name if sort == "agent" else None,
        model=text(about, f"{_FUSE}model.name"),
        usage=_fused(told) if isinstance(told, dict) else None,
        cost_usd=number(cost, "total") if isinstance(cost, dict) else None,
        call=_call(span.name, about.get(f"{_FUSE}input"), said.response_id, limits)
        if sort == "tool"
        else None,
        parts=said.parts,
        session=text(about, "langfuse.session.id", "session.id"),
        failed=(text(about, f"{_FUSE}status_message") or "ERROR") if failed else None,
    )


def _fused(told: dict[str, Json]) -> Usage | None:
    return usage(
        count(told, "input", "prompt_tokens", "input_tokens"),
        count(told, "output", "completion_tokens", "output_tokens"),
        read=count(told, "input_cached_tokens", "cache_read_input_tokens", "input_cache_read"),
        written=count(told, "cache_creation_input_tokens", "input_cache_creation"),
        reasoning=count(told, "output_reasoning_tokens", "output_reasoning"),
    )


def mlflow(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in MLflow's words, None where it uses none of them.

    Every value is JSON in text, texts too.
    """
    if not any(key.startswith("mlflow.") for key in span.attributes):
        return None
    about = {
        key: parsed(found, limits)
        for key, found in span.attributes.items()
        if key.startswith("mlflow.")
    }
    sort = _SORTS.get((text(about, "mlflow.spanType") or "").lower())
    said = _valued(about, "mlflow.spanInputs", "mlflow.spanOutputs", sort, limits)
    told, cost = about.get("mlflow.chat.tokenUsage"), about.get("mlflow.llm.cost")
    tools = about.get("mlflow.chat.tools")
    return Said(
        sort=sort,
        given=said.given,
        made=said.made,
        agent=span.name if sort == "agent" else None,
        model=text(about, "mlflow.llm.model"),
        usage=_fused(told) if isinstance(told, dict) else None,
        cost_usd=number(cost, "total_cost", "total") if isinstance(cost, dict) else None,
        call=_call(span.name, about.get("mlflow.spanInputs"), said.response_id, limits)
        if sort == "tool"
        else None,
        parts=said.parts,
        tools=tool_defs(tools) or () if isinstance(tools, list) else (),
        session=text(about, "mlflow.trace.session"),
    )


def _valued(
    about: Mapping[str, Json], given: str, made: str, sort: Sort | None, limits: Limits
) -> Said:
    """Return the two values, as messages or, of a tool, as what came back and its call's id."""
    if sort == "tool":
        held = decoded(about.get(made), limits)
        wrapped = isinstance(held, dict) and "tool_call_id" in held and held.keys() <= _WRAPPED
        parts = result_parts(held["content"] if wrapped else about.get(made))
        return Said(parts=parts, response_id=text(held, "tool_call_id") if wrapped else None)
    if sort in {"retrieval", "embedding", "guardrail"}:
        return Said(
            given=read(about.get(given), "user", limits), parts=result_parts(about.get(made))
        )
    return Said(
        given=read(about.get(given), "user", limits), made=read(about.get(made), "agent", limits)
    )


def _call(name: str, arguments: Json, call_id: str | None, limits: Limits) -> ToolCall:
    return call_of(name, {} if arguments is None else arguments, call_id, limits=limits)


def _unwrapped(listed: list[Json]) -> list[Json]:
    """Return OpenInference's messages without the names that wrap each of their parts."""
    return [
        entry["message"] if isinstance(entry, dict) and "message" in entry else entry
        for entry in listed
    ]


def _documents(about: Mapping[str, Json]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for prefix in ("retrieval.documents.", "reranker.output_documents."):
        for entry in flattened(about, prefix):
            inner = entry.get("document", entry) if isinstance(entry, dict) else {"content": entry}
            if isinstance(inner, dict):
                extra = {key: found for key, found in inner.items() if key != "content"}
                parts.append(Part("text", text(inner, "content"), extra=extra or None))
    return tuple(parts)


def _schemas(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    listed: list[Json] = []
    for entry in flattened(about, "llm.tools."):
        tool = entry.get("tool") if isinstance(entry, dict) else None
        if isinstance(tool, dict):
            listed.append(decoded(tool.get("json_schema"), limits))
    return tool_defs(listed) or ()


def evaluations(about: Mapping[str, Json]) -> tuple[Label, ...]:
    """Return the evaluations and annotations under indexed keys, of the span and of its trace."""
    labels: list[Label] = []
    if not any("evaluations." in key or "annotations." in key for key in about):
        return ()
    for prefix in ("", "trace.", "session."):
        for word in ("evaluation", "annotation"):
            for entry in flattened(about, f"{prefix}{word}s."):
                inner = entry.get(word) if isinstance(entry, dict) else None
                if isinstance(inner, dict):
                    scope = {"of": prefix.removesuffix(".")} if prefix else {}
                    labels.append(evaluation(inner, scope))
    return tuple(labels)


def evaluation(about: Mapping[str, Json], more: Mapping[str, Json]) -> Label:
    """Return one evaluation: its name is the category, all that it says stays beside."""
    return Label(
        kind="note",
        category=text(about, "name"),
        reason=text(about, "explanation") or "",
        annotator=text(about, "annotator_kind") or "unknown",
        extra={**about, **more} or None,
    )
