"""A model's run of LangSmith: what the model was given, and what it answered.

The inputs are LangChain's messages (a list of lists), prompts, or the request of a wrapped client
(OpenAI's chat and Responses, Anthropic's messages); the outputs LangChain's generations, or the
client's response. What they say beyond messages stays with the span.
Source: langsmith 0.15.0, `wrappers`; langchain-core 1.7.2, `tracers/core.py`.
"""

from __future__ import annotations

import msgspec

from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans import langchain
from stepscope.formats.spans.attributes import number, text
from stepscope.formats.spans.langsmith_tool import lone
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Message, Said
from stepscope.formats.spans.span import Span
from stepscope.formats.times import instant
from stepscope.formats.tokens import anthropic_usage, openai_usage
from stepscope.model import Json, ToolDef, Usage
from stepscope.safety.limits import Limits

_METADATA = "langsmith.metadata."


def model(span: Span, base: Said, given: Json, made: Json, limits: Limits) -> Said:
    """Return what a model's run says."""
    about = span.attributes
    message, body = _first(made), made if isinstance(made, dict) else {}
    counted, told = _usage(span, body, message), body.get("usage_metadata")
    if base.cost_usd is None and isinstance(told, dict):
        base = msgspec.structs.replace(base, cost_usd=number(told, "total_cost"))
    return msgspec.structs.replace(
        base,
        inputs=_inputs(given, limits),
        outputs=_outputs(made, limits),
        usage=counted or base.usage,
        model=langchain.model_of(message)
        or text(body, "model")
        or text(about, f"{_METADATA}ls_model_name"),
        finish_reason=_reason(body, message),
        response_id=text(message, "id") or text(body, "id"),
        first_token_seconds=_first_token(span),
        tools=_tools(span, given),
    )


def _inputs(given: Json, limits: Limits) -> tuple[Message, ...]:
    if not isinstance(given, dict):
        return read(given, "user", limits)
    told = given.get("messages", given.get("input"))
    if isinstance(told, str):
        told = [{"role": "user", "content": told}]
    if isinstance(told, list):
        system = {key: given[key] for key in ("system", "instructions") if given.get(key)}
        return read({"messages": told, **system}, "user", limits) if told else ()
    return read(given.get("prompts", lone(given)), "user", limits)


def _outputs(made: Json, limits: Limits) -> tuple[Message, ...]:
    if not isinstance(made, dict):
        return read(made, "agent", limits)
    for key in ("generations", "choices"):
        if isinstance(made.get(key), list):
            return read([_spoken(entry) for entry in _flat(made[key])], "agent", limits)
    if isinstance(made.get("output"), list):
        return read(made["output"], "agent", limits)
    if made.get("role") == "assistant":
        kept = {key: made[key] for key in ("content", "tool_calls") if made.get(key)}
        return read({"role": "assistant", **kept}, "agent", limits)
    return read(lone(made), "agent", limits)


def _flat(listed: list[Json]) -> list[Json]:
    return [inner for entry in listed for inner in (entry if isinstance(entry, list) else [entry])]


def _spoken(entry: Json) -> Json:
    """Return a generation or choice as it is where it holds a message, else its text as one."""
    if isinstance(entry, dict) and not isinstance(entry.get("message"), dict):
        if isinstance(entry.get("text"), str):
            return {"role": "assistant", "content": entry["text"]}
    return entry


def _first(made: Json) -> dict[str, Json]:
    """Return the first message of LangChain that a model answered; empty where there is none."""
    listed = made.get("generations") if isinstance(made, dict) else None
    flat = _flat(listed) if isinstance(listed, list) else []
    held = flat[0].get("message") if flat and isinstance(flat[0], dict) else lone(made)
    inner = held.get("kwargs", held) if isinstance(held, dict) else {}
    return inner if isinstance(inner, dict) else {}


def _usage(span: Span, body: dict[str, Json], message: dict[str, Json]) -> Usage | None:
    """Return the tokens of the round as the client counted them, None where it did not."""
    for told in (
        span.attributes.get(f"{_METADATA}usage_metadata"),
        body.get("usage_metadata"),
        message.get("usage_metadata"),
    ):
        if (counted := langchain.usage_of(told)) is not None:
            return counted
    beside = body.get("llm_output")
    listed = (
        body.get("usage"),
        *([beside.get("token_usage"), beside.get("usage")] if isinstance(beside, dict) else []),
    )
    for told in listed:
        if isinstance(told, dict):
            of_anthropic = any(key.startswith("cache_") for key in told)
            return anthropic_usage(told) if of_anthropic else openai_usage(told)
    return None


def _reason(body: dict[str, Json], message: dict[str, Json]) -> str | None:
    """Return why the model stopped; of choices and generations themselves the reader tells."""
    found = langchain.reason_of(message) or text(body, "stop_reason", "finish_reason")
    listed = body.get("generations")
    flat = _flat(listed) if isinstance(listed, list) else []
    about = flat[0].get("generation_info") if flat and isinstance(flat[0], dict) else None
    return found or (text(about, "finish_reason") if isinstance(about, dict) else None)


def _first_token(span: Span) -> float | None:
    """Return the seconds until the first token came, by the field for it, else by the events."""
    told = instant(span.attributes.get("langsmith.first_token_time"))
    times = [event.time_ns for event in span.events if event.name == "new_token"]
    first = told.ns if told is not None else next((t for t in times if t is not None), None)
    if first is None or span.start_ns is None or first < span.start_ns:
        return None
    return (first - span.start_ns) / 1e9


def _tools(span: Span, given: Json) -> tuple[ToolDef, ...]:
    """Return the tools that were offered: by the request, or by the parameters of the call."""
    beside = span.attributes.get("langsmith.extra")
    about = beside.get("invocation_params") if isinstance(beside, dict) else None
    for held in (given, about):
        listed = held.get("tools") if isinstance(held, dict) else None
        if isinstance(listed, list) and listed:
            return tool_defs(listed) or ()
    return ()
