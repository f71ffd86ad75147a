"""Spans of backends that keep an input and an output as one value each, and say what they are.

OpenInference (`input.value`) is read here; it also flattens messages, tool calls and evaluations
into indexed keys. Langfuse and MLflow share how two values are read.
Source: openinference-semantic-conventions 0.1.42.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans import beeai, langchain
from stepscope.formats.spans.attributes import (
    count,
    decoded,
    flattened,
    number,
    text,
    usage,
    value,
)
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.tool_calls import tool_call
from stepscope.model import Json, Label, Part, ToolDef
from stepscope.safety.limits import Limits

SORTS: dict[str, Sort] = {
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
# What a tool's answer as a message of LangChain has.
_WRAPPED = frozenset(
    "content tool_call_id status name type artifact id additional_kwargs response_metadata".split()
)


def openinference(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in OpenInference's words, None where it uses none of them."""
    about = span.attributes
    kind = text(about, "openinference.span.kind")
    labels = evaluations(about)
    if kind is None:
        return Said(labels=labels) if labels else None
    sort = SORTS.get(kind.lower(), "other")
    said = valued(about, "input.value", "output.value", sort, limits)
    outputs = read(_unwrapped(flattened(about, "llm.output_messages.")), "agent", limits)
    name = text(about, "tool.name") or span.name
    arguments = value(about, "input.value", "tool.parameters")
    told = "llm.token_count."
    whole = Said(
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
        call=tool_call(name, arguments, text(about, "tool.id") or said.response_id, limits)
        if sort == "tool"
        else None,
        parts=said.parts or _documents(about),
        tools=_schemas(about, limits),
        session=text(about, "session.id"),
        labels=labels,
    )
    return beeai.again(span, whole, limits)


def valued(
    about: Mapping[str, Json], given: str, made: str, sort: Sort | None, limits: Limits
) -> Said:
    """Return the two values, as messages or, of a tool, as what came back and its call's id."""
    if sort == "tool":
        held = decoded(about.get(made), limits)
        if not (isinstance(held, dict) and "tool_call_id" in held and held.keys() <= _WRAPPED):
            return Said(parts=result_parts(about.get(made)))
        parts = result_parts(held.get("content"))
        plain = "\n".join([part.text for part in parts if part.text is not None])
        belief = langchain.verdict(held, plain)
        return Said(parts=parts, response_id=text(held, "tool_call_id"), belief=belief)
    if sort in {"retrieval", "embedding", "guardrail"}:
        return Said(
            given=read(about.get(given), "user", limits), parts=result_parts(about.get(made))
        )
    return Said(
        given=read(about.get(given), "user", limits), made=read(about.get(made), "agent", limits)
    )


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
