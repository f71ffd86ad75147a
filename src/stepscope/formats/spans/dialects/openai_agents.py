"""Spans of the OpenAI Agents SDK: what `span_data` says, under keys that begin `openai_agents.`.

A generation holds its messages; a response only its id and its tokens, for its messages stay with
the API. Tasks, turns and what users trace themselves are frames. A tool that raised is told by the
span's error, though its output then reads like any other.
Source: openai-agents 0.24.0, `tracing/span_data.py`.
"""

from __future__ import annotations

import msgspec

from stepscope.formats.fields import object_at, openai_usage, parse_call
from stepscope.formats.spans.attributes import find_count, find_text, normalise_usage
from stepscope.formats.spans.messages import read_messages, read_result_parts
from stepscope.formats.spans.span import RawSpan, SpanContent
from stepscope.model import Json, Part, ToolDef
from stepscope.safety.limits import Limits

PREFIX = "openai_agents."


def read_openai_agents(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in the SDK's words, None where it is not the SDK's."""
    kind = find_text(span.attributes, f"{PREFIX}type")
    if kind is None:
        return None
    told = {key: value for key, value in span.attributes.items() if key.startswith(PREFIX)}
    about = {key.removeprefix(PREFIX): value for key, value in told.items()}
    match kind:
        case "agent":
            agent, tools = find_text(about, "name"), _named(about.get("tools"))
            return SpanContent(operation="agent", agent=agent, tools=tools)
        case "function":
            data, given = about.get("mcp_data"), about.get("input")
            extra: dict[str, Json] | None = None if data is None else {"mcp_data": data}
            name, given = find_text(about, "name") or "", {} if given is None else given
            call = parse_call(name, given, None, limits=limits, extra=extra)
            if data is not None:
                call = msgspec.structs.replace(call, kind="mcp")
            parts = read_result_parts(about.get("output"))
            return SpanContent(operation="tool", call=call, parts=parts)
        case "generation":
            return SpanContent(
                operation="model",
                inputs=read_messages(about.get("input"), "user", limits),
                outputs=read_messages(about.get("output"), "agent", limits),
                model=find_text(about, "model"),
                usage=openai_usage(about.get("usage")),
            )
        case "response":
            # Processors of users may add its input and its body.
            held = object_at(about, "response")
            return SpanContent(
                operation="model",
                inputs=read_messages(about.get("input"), "user", limits),
                outputs=read_messages(held.get("output", about.get("output")), "agent", limits),
                model=find_text(held, "model"),
                usage=openai_usage(about.get("usage")) or openai_usage(held.get("usage")),
                response_id=find_text(about, "response_id") or find_text(held, "id"),
            )
        case "handoff":
            source, target = find_text(about, "from_agent"), find_text(about, "to_agent")
            return SpanContent(operation="handoff", agent=source, target=target)
        case "guardrail":
            checked: dict[str, Json] = {k: about[k] for k in ("name", "triggered") if k in about}
            return SpanContent(operation="guardrail", parts=(Part("data", extra=checked),))
        case "custom":
            data = about.get("data")
            if not isinstance(data, dict) or "sdk_span_type" not in data:
                return SpanContent(operation="other")
            # The tokens of all that a task or a turn holds.
            told = object_at(data, "usage")
            usage = normalise_usage(
                find_count(told, "input_tokens"),
                find_count(told, "output_tokens"),
                read=find_count(told, "cached_input_tokens"),
                written=find_count(told, "cache_write_input_tokens"),
            )
            return SpanContent(operation="chain", usage=usage)
        case "mcp_tools":
            return SpanContent(operation="other", tools=_named(about.get("result")))
    return SpanContent(operation="other")


def _named(listed: Json) -> tuple[ToolDef, ...]:
    return tuple([ToolDef(str(name)) for name in (listed if isinstance(listed, list) else [])])
