"""Runs of LangSmith in their own words: what kind of run, what went in and out, who was at work.

LangSmith adds up tokens and cost of all that is below a run; the assembler counts them once. Spans
that its SDK sends as OpenTelemetry say the same under `langsmith.span.kind`, `gen_ai.prompt` and
`gen_ai.completion`.
Source: langsmith 0.15.0, `schemas.py` and `_internal/otel`; langgraph 1.2.22 for its metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

import msgspec

from stepscope.formats.spans.attributes import count, decoded, number, text, usage, value
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.langsmith_model import model
from stepscope.formats.spans.langsmith_tool import lone, tool
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Label, Part, Usage
from stepscope.safety.limits import Limits

KIND = "langsmith.span.kind"
METADATA = "langsmith.metadata."
_SORTS: dict[str, Sort] = {
    "llm": "model",
    "tool": "tool",
    "retriever": "retrieval",
    "embedding": "embedding",
    "chain": "chain",
    "prompt": "other",
    "parser": "other",
}
# Keys of metadata by which LangSmith itself gathers runs into a thread.
_THREADS = tuple(f"{METADATA}{key}" for key in ("thread_id", "session_id", "conversation_id"))
# Nodes of LangGraph's ready-made agents: they say what is done, not who does it.
_READY_MADE = frozenset({"agent", "model", "tools", "call_model"})


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a run says, None where the span is none of LangSmith's."""
    about = span.attributes
    kind = text(about, KIND)
    if kind is None:
        return None
    given = decoded(value(about, "langsmith.inputs", "gen_ai.prompt"), limits)
    made = decoded(value(about, "langsmith.outputs", "gen_ai.completion"), limits)
    base = _common(span, _sort(span, kind))
    match base.sort:
        case "model":
            return model(span, base, given, made, limits)
        case "tool":
            return tool(span, base, given, made, limits)
        case "retrieval":
            asked = read(lone(given), "user", limits)
            return msgspec.structs.replace(base, given=asked, parts=_documents(made))
        case "embedding":
            return msgspec.structs.replace(base, given=read(lone(given), "user", limits))
        case "chain" | "agent":
            asked, answer = read(lone(given), "user", limits), read(lone(made), "agent", limits)
            return msgspec.structs.replace(base, given=asked, made=answer)
    return base


def _sort(span: Span, kind: str) -> Sort:
    sort = _SORTS.get(kind.lower(), "other")
    return "agent" if sort == "chain" and is_agent(span) else sort


def is_agent(span: Span) -> bool:
    """Say whether a chain's run is an agent's: it bears the agent's name."""
    named = text(span.attributes, f"{METADATA}lc_agent_name")
    return named is not None and named == span.name


def _common(span: Span, sort: Sort) -> Said:
    about, whole = span.attributes, span.parent_id is None
    project = text(about, "langsmith.session_name", "langsmith.trace.session_name")
    return Said(
        sort=sort,
        agent=agent_of(about),
        usage=_usage(about),
        cost_usd=_money(about.get("langsmith.total_cost")),
        session=text(about, "langsmith.thread_id", *_THREADS),
        workflow=project or (span.name or None if whole else None),
        labels=feedback(about.get("langsmith.feedback_stats"), whole=whole),
    )


def agent_of(about: Mapping[str, Json]) -> str | None:
    """Return who is at work: the agent's own name, else the node of the graph.

    A node of a ready-made agent is named after what it does; the node that the agent stands in
    says who it is.

    >>> agent_of({"langsmith.metadata.langgraph_node": "agent",
    ...           "langsmith.metadata.langgraph_checkpoint_ns": "hotel:1|agent:2"})
    'hotel'
    """
    named = text(about, f"{METADATA}lc_agent_name")
    node = text(about, f"{METADATA}langgraph_node")
    if named is not None or node not in _READY_MADE:
        return named or node
    levels = (text(about, f"{METADATA}langgraph_checkpoint_ns") or "").split("|")
    above = [level.partition(":")[0] for level in levels[:-1]]
    hosts = [level for level in reversed(above) if level and level not in _READY_MADE]
    return hosts[0] if hosts else None if node == "tools" else node


def _usage(about: Mapping[str, Json]) -> Usage | None:
    """Return the tokens that LangSmith counted, cache included in the input."""
    inputs = _details(about.get("langsmith.prompt_token_details"))
    outputs = _details(about.get("langsmith.completion_token_details"))
    return usage(
        count(about, "langsmith.prompt_tokens"),
        count(about, "langsmith.completion_tokens"),
        read=count(inputs, "cache_read"),
        written=count(inputs, "cache_creation", "cache_write"),
        reasoning=count(outputs, "reasoning"),
    )


def _details(held: Json) -> dict[str, Json]:
    """Return a breakdown of tokens; newer versions keep it under `raw`."""
    inner = held.get("raw", held) if isinstance(held, dict) else None
    return inner if isinstance(inner, dict) else {}


def _money(told: Json) -> float | None:
    """Return a cost in USD; LangSmith writes decimals as text."""
    if not isinstance(told, str):
        return number({"": told}, "")
    try:
        cost = Decimal(told)
    except InvalidOperation:
        return None
    return float(cost) if cost.is_finite() and cost >= 0 else None


def feedback(stats: Json, *, whole: bool) -> tuple[Label, ...]:
    """Return a label for each key of feedback, with all that is told of it and who gave it."""
    labels: list[Label] = []
    for key, told in stats.items() if isinstance(stats, dict) else ():
        about = told if isinstance(told, dict) else {"value": told}
        comments = about.get("comments")
        listed = comments if isinstance(comments, list) else []
        labels.append(
            Label(
                kind="note",
                category=key,
                reason="; ".join([entry for entry in listed if isinstance(entry, str)]),
                annotator=", ".join(_sources(about.get("sources"))) or "unknown",
                extra={**about, **({"of": "trace"} if whole else {})},
            )
        )
    return tuple(labels)


def _sources(listed: Json) -> list[str]:
    found: list[str] = []
    for entry in listed if isinstance(listed, list) else ():
        name = entry.get("type") if isinstance(entry, dict) else entry
        if isinstance(name, str) and name not in found:
            found.append(name)
    return found


def _documents(made: Json) -> tuple[Part, ...]:
    listed = made.get("documents") if isinstance(made, dict) else made
    listed = lone(made) if listed is None else listed
    parts: list[Part] = []
    for entry in listed if isinstance(listed, list) else ():
        inner = entry.get("kwargs", entry) if isinstance(entry, dict) else None
        if isinstance(inner, dict) and isinstance(inner.get("page_content"), str):
            extra = {key: found for key, found in inner.items() if key != "page_content"}
            parts.append(Part("text", inner["page_content"], extra=extra or None))
        else:
            parts.extend(result_parts(entry))
    return tuple(parts) if isinstance(listed, list) else result_parts(listed)
