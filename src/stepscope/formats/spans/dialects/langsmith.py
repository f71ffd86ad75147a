"""Spans in LangSmith's words: kind of run, input and output, agent, tokens, feedback.

LangSmith adds up tokens and cost of all that is below a run; the assembler counts them once. Spans
that its SDK sends as OpenTelemetry say the same under `langsmith.span.kind`, `gen_ai.prompt` and
`gen_ai.completion`. Inputs and outputs are LangChain's (a list of lists, generations) or those of a
wrapped client. A tool's output may be wrapped in a message with the call's id and a status, or
stand in a command of LangGraph.
Source: langsmith 0.15.0, `schemas.py`, `wrappers` and `_internal/otel`; langgraph 1.2.22 for its
metadata; langchain-core 1.7.2, `tracers/core.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation

import msgspec

from stepscope.formats import fields
from stepscope.formats.spans import messages
from stepscope.formats.spans.attributes import (
    decode_object,
    decode_value,
    find_count,
    find_number,
    find_text,
    find_value,
    normalise_usage,
    parse_python_object,
)
from stepscope.formats.spans.messages import read_messages, read_result_parts
from stepscope.formats.spans.span import Operation, RawSpan, SpanContent, SpanMessage
from stepscope.model import Json, Part, ToolDef, TraceLabel, Usage
from stepscope.safety.limits import Limits

KIND = "langsmith.span.kind"
METADATA = "langsmith.metadata."


def read_tool_run(
    span: RawSpan, base: SpanContent, given: Json, made: Json, limits: Limits
) -> SpanContent:
    """Return what a tool's run says."""
    about = span.attributes
    call_id = find_text(fields.object_at(about, "langsmith.extra"), "tool_call_id")
    call_id = call_id or find_text(about, "langsmith.metadata.tool_call_id", "gen_ai.tool.call.id")
    held = unwrap_single(made)
    answer = next(_told(held, call_id), None)
    goto = held.get("goto") if isinstance(held, dict) and "update" in held else None
    parts, status = read_result_parts(held if answer is None else answer.get("content")), None
    if answer is not None:
        status = messages.judge_tool_status(answer, fields.parts_text(parts))
        call_id = call_id or find_text(answer, "tool_call_id")
    call = fields.parse_call(span.name, _arguments(given, limits), call_id, limits=limits)
    target = goto if isinstance(goto, str) and goto else None
    return msgspec.structs.replace(base, call=call, parts=parts, status=status, target=target)


def unwrap_single(held: Json) -> Json:
    """Return the only thing that stands in an object, text or list; anything else as it is."""
    if isinstance(held, dict):
        told = [found for found in held.values() if found is not None]
        if not told:
            return None
        inner = told[0]
        if len(told) == 1 and (isinstance(inner, str | list) or "output" in held):
            return inner
    return held


def _arguments(given: Json, limits: Limits) -> Json:
    """Return a call's arguments; text that holds them as JSON or as Python prints them is read."""
    held = given.get("input") if isinstance(given, dict) and given.keys() == {"input"} else None
    if not isinstance(held, str):
        return {} if given is None else given
    found = decode_value(held, limits)
    if isinstance(found, str):
        found = parse_python_object(held)
    return found if isinstance(found, dict) else given


def _told(held: Json, call_id: str | None) -> Iterator[dict[str, Json]]:
    """Yield tools' messages: the value itself, one of a list, or within the update of a command."""
    if isinstance(held, dict):
        inner = held.get("kwargs") if messages.find_constructor(held) == "tool" else held
        if isinstance(inner, dict) and "content" in inner and "tool_call_id" in inner:
            if call_id is None or inner["tool_call_id"] == call_id:
                yield inner
            return
        update = held.get("update")
        yield from _told(update.get("messages") if isinstance(update, dict) else None, call_id)
    elif isinstance(held, list):
        for entry in reversed(held):
            if isinstance(entry, dict):
                yield from _told(entry, call_id)


def read_model_run(
    span: RawSpan, base: SpanContent, given: Json, made: Json, limits: Limits
) -> SpanContent:
    """Return what a model's run says."""
    about = span.attributes
    flat = _flat(fields.entries_at(made, "generations"))
    held = flat[0].get("message") if flat and isinstance(flat[0], dict) else unwrap_single(made)
    inner = held.get("kwargs", held) if isinstance(held, dict) else {}
    message, body = inner if isinstance(inner, dict) else {}, made if isinstance(made, dict) else {}
    counted, told = _client_usage(span, body, message), body.get("usage_metadata")
    if base.cost_usd is None and isinstance(told, dict):
        base = msgspec.structs.replace(base, cost_usd=find_number(told, "total_cost"))
    # The time of the first token, by the field for it, else by the events.
    told_first = fields.parse_time(about.get("langsmith.first_token_time"))
    new_tokens = [event.time_ns for event in span.events if event.name == "new_token"]
    times = (time for time in new_tokens if time is not None)
    # Of choices and generations themselves the reader tells.
    reason = messages.find_stop_reason(message) or find_text(body, "stop_reason", "finish_reason")
    if reason is None and flat and isinstance(flat[0], dict):
        reason = find_text(fields.object_at(flat[0], "generation_info"), "finish_reason")
    return msgspec.structs.replace(
        base,
        inputs=_inputs(given, limits),
        outputs=_outputs(made, limits),
        usage=counted or base.usage,
        model=messages.find_langchain_model(message)
        or find_text(body, "model")
        or find_text(about, f"{METADATA}ls_model_name"),
        finish_reason=reason,
        response_id=find_text(message, "id") or find_text(body, "id"),
        first_token_seconds=span.seconds_until(
            told_first.ns if told_first is not None else next(times, None)
        ),
        tools=_tools(span, given),
    )


def _inputs(given: Json, limits: Limits) -> tuple[SpanMessage, ...]:
    if not isinstance(given, dict):
        return read_messages(given, "user", limits)
    told = given.get("messages", given.get("input"))
    if isinstance(told, str):
        told = [{"role": "user", "content": told}]
    if isinstance(told, list):
        system = {key: given[key] for key in ("system", "instructions") if given.get(key)}
        return read_messages({"messages": told, **system}, "user", limits) if told else ()
    return read_messages(given.get("prompts", unwrap_single(given)), "user", limits)


def _outputs(made: Json, limits: Limits) -> tuple[SpanMessage, ...]:
    if not isinstance(made, dict):
        return read_messages(made, "agent", limits)
    for key in ("generations", "choices"):
        if isinstance(made.get(key), list):
            return read_messages([_spoken(entry) for entry in _flat(made[key])], "agent", limits)
    if isinstance(made.get("output"), list):
        return read_messages(made["output"], "agent", limits)
    if made.get("role") == "assistant":
        kept = {key: made[key] for key in ("content", "tool_calls") if made.get(key)}
        return read_messages({"role": "assistant", **kept}, "agent", limits)
    return read_messages(unwrap_single(made), "agent", limits)


def _flat(listed: list[Json]) -> list[Json]:
    return [inner for entry in listed for inner in (entry if isinstance(entry, list) else [entry])]


def _spoken(entry: Json) -> Json:
    """Return a generation or choice as it is where it holds a message, else its text as one."""
    if isinstance(entry, dict) and not isinstance(entry.get("message"), dict):
        if isinstance(entry.get("text"), str):
            return {"role": "assistant", "content": entry["text"]}
    return entry


def _client_usage(span: RawSpan, body: dict[str, Json], message: dict[str, Json]) -> Usage | None:
    for told in (
        span.attributes.get(f"{METADATA}usage_metadata"),
        body.get("usage_metadata"),
        message.get("usage_metadata"),
    ):
        if (counted := messages.read_langchain_usage(told)) is not None:
            return counted
    beside = fields.object_at(body, "llm_output")
    for told in (body.get("usage"), beside.get("token_usage"), beside.get("usage")):
        if isinstance(told, dict):
            of_anthropic = any(key.startswith("cache_") for key in told)
            return fields.anthropic_usage(told) if of_anthropic else fields.openai_usage(told)
    return None


def _tools(span: RawSpan, given: Json) -> tuple[ToolDef, ...]:
    extra = fields.object_at(span.attributes, "langsmith.extra")
    for held in (given, fields.object_at(extra, "invocation_params")):
        if listed := fields.entries_at(held, "tools"):
            return fields.tool_defs(listed) or ()
    return ()


_OPERATIONS: dict[str, Operation] = {
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


def read_langsmith(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a run says, None where the span is none of LangSmith's."""
    about = span.attributes
    kind = find_text(about, KIND)
    if kind is None:
        return None
    given = decode_object(find_value(about, "langsmith.inputs", "gen_ai.prompt"), limits)
    made = decode_object(find_value(about, "langsmith.outputs", "gen_ai.completion"), limits)
    sort = _OPERATIONS.get(kind.lower(), "other")
    whole = span.parent_id is None
    project = find_text(about, "langsmith.session_name", "langsmith.trace.session_name")
    inputs = _details(about.get("langsmith.prompt_token_details"))
    outputs = _details(about.get("langsmith.completion_token_details"))
    base = SpanContent(
        operation=("agent" if sort == "chain" and is_agent_run(span) else sort),
        agent=find_agent(about),
        usage=normalise_usage(
            find_count(about, "langsmith.prompt_tokens"),
            find_count(about, "langsmith.completion_tokens"),
            read=find_count(inputs, "cache_read"),
            written=find_count(inputs, "cache_creation", "cache_write"),
            reasoning=find_count(outputs, "reasoning"),
        ),
        cost_usd=_money(about.get("langsmith.total_cost")),
        session=find_text(about, "langsmith.thread_id", *_THREADS),
        workflow=project or (span.name or None if whole else None),
        labels=label_feedback(about.get("langsmith.feedback_stats"), whole=whole),
    )
    match base.operation:
        case "model":
            return read_model_run(span, base, given, made, limits)
        case "tool":
            return read_tool_run(span, base, given, made, limits)
    asked = read_messages(unwrap_single(given), "user", limits)
    match base.operation:
        case "retrieval":
            listed = made.get("documents") if isinstance(made, dict) else made
            listed = unwrap_single(made) if listed is None else listed
            parts: list[Part] = []
            for entry in listed if isinstance(listed, list) else ():
                inner = entry.get("kwargs", entry) if isinstance(entry, dict) else None
                if isinstance(inner, dict) and isinstance(inner.get("page_content"), str):
                    extra = {key: found for key, found in inner.items() if key != "page_content"}
                    parts.append(Part("text", inner["page_content"], extra=extra or None))
                else:
                    parts.extend(read_result_parts(entry))
            found = tuple(parts) if isinstance(listed, list) else read_result_parts(listed)
            return msgspec.structs.replace(base, input_value=asked, parts=found)
        case "embedding":
            return msgspec.structs.replace(base, input_value=asked)
        case "chain" | "agent":
            answer = read_messages(unwrap_single(made), "agent", limits)
            return msgspec.structs.replace(base, input_value=asked, output_value=answer)
    return base


def is_agent_run(span: RawSpan) -> bool:
    """Say whether a chain's run is an agent's: it bears the agent's name."""
    named = find_text(span.attributes, f"{METADATA}lc_agent_name")
    return named is not None and named == span.name


def find_agent(about: Mapping[str, Json]) -> str | None:
    """Return who is at work: the agent, else the node, or what a ready-made agent stands in."""
    named = find_text(about, f"{METADATA}lc_agent_name")
    node = find_text(about, f"{METADATA}langgraph_node")
    if named is not None or node not in _READY_MADE:
        return named or node
    levels = (find_text(about, f"{METADATA}langgraph_checkpoint_ns") or "").split("|")
    above = [level.partition(":")[0] for level in levels[:-1]]
    hosts = [level for level in reversed(above) if level and level not in _READY_MADE]
    return hosts[0] if hosts else None if node == "tools" else node


def _details(held: Json) -> dict[str, Json]:
    """Return a breakdown of tokens; newer versions keep it under `raw`."""
    inner = held.get("raw", held) if isinstance(held, dict) else None
    return inner if isinstance(inner, dict) else {}


def _money(told: Json) -> float | None:
    """Return a cost in USD; LangSmith writes decimals as text."""
    if not isinstance(told, str):
        return find_number({"": told}, "")
    try:
        cost = Decimal(told)
    except InvalidOperation:
        return None
    return float(cost) if cost.is_finite() and cost >= 0 else None


def label_feedback(stats: Json, *, whole: bool) -> tuple[TraceLabel, ...]:
    """Return a label for each key of feedback, with all that is told of it and who gave it."""
    labels: list[TraceLabel] = []
    for key, told in stats.items() if isinstance(stats, dict) else ():
        about = told if isinstance(told, dict) else {"value": told}
        said = [one for one in fields.entries_at(about, "comments") if isinstance(one, str)]
        sources = fields.entries_at(about, "sources")
        named = [one.get("type") if isinstance(one, dict) else one for one in sources]
        who = ", ".join(dict.fromkeys([name for name in named if isinstance(name, str)]))
        extra = {**about, **({"of": "trace"} if whole else {})}
        label = TraceLabel(kind="note", category=key, annotator=who or "unknown", extra=extra)
        labels.append(msgspec.structs.replace(label, reason="; ".join(said)))
    return tuple(labels)
