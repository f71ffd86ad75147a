"""Spans in the words of Langfuse's SDK: `langfuse.observation.*`, an input and an output as values.

An observation that is a plain `span` may be a tool or an agent all the same: what it was sent with,
or what it gave back, says so. LangChain's callback lists the tools offered among the messages.
Source: langfuse 5.0.4, `_client/attributes.py`, `langchain/CallbackHandler.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stepscope.formats.fields import object_at, parse_ns, tool_defs
from stepscope.formats.spans.attributes import (
    decode_object,
    decode_value,
    find_number,
    find_text,
    make_tool_call,
    read_usage_details,
)
from stepscope.formats.spans.dialects import gen_ai
from stepscope.formats.spans.dialects.openinference import OPERATIONS, read_input_output
from stepscope.formats.spans.span import Operation, RawSpan, SpanContent
from stepscope.model import Json, ToolDef
from stepscope.safety.limits import Limits

_OWN = "langfuse.observation."
# What frameworks write before a tool's name in the name of its span.
_BEFORE_NAME = ("execute_tool ", "running tool: ")
# Keys of an input under which the tools offered stand; Gemini has them within its config.
_TOOLS = ("tools", "functions")


def read_langfuse(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in Langfuse's words, None where it uses none of them."""
    if not any(key.startswith("langfuse.") for key in span.attributes):
        return None
    about = dict(span.attributes)
    for side in ("input", "output"):
        held = about.get(f"{_OWN}{side}")
        if "openinference.span.kind" in about and f"{side}.value" in about:
            about[f"{_OWN}{side}"] = None  # the same, read in its own words
        elif isinstance(held, str) and held[:1] == '"':
            # A plain text that was given as JSON.
            about[f"{_OWN}{side}"] = decode_value(held, limits)
    sort = _find_operation(about, limits)
    about[f"{_OWN}input"], tools = _offered(about.get(f"{_OWN}input"), limits)
    found = read_input_output(about, f"{_OWN}input", f"{_OWN}output", sort, limits)
    cost = decode_object(about.get(f"{_OWN}cost_details"), limits)
    failed = find_text(about, f"{_OWN}level") == "ERROR"
    began = decode_value(about.get(f"{_OWN}completion_start_time"), limits)
    named = find_text(about, "gen_ai.agent.name", "agent_name", "gen_ai.agent.id") or span.name
    call = None
    if sort == "tool":
        name = find_text(about, "gen_ai.tool.name", "tool.name", "ai.toolCall.name")
        before = next((one for one in _BEFORE_NAME if span.name.startswith(one)), "")
        name = span.name.removeprefix(before) if name is None else name
        own = find_text(about, "gen_ai.tool.call.id", "ai.toolCall.id") or found.response_id
        call = make_tool_call(name, about.get(f"{_OWN}input"), own, limits)
    return msgspec.structs.replace(
        found,
        operation=sort,
        response_id=None,  # it was a call's
        agent=named if sort == "agent" else None,
        model=find_text(about, f"{_OWN}model.name"),
        usage=read_usage_details(about.get(f"{_OWN}usage_details"), limits),
        cost_usd=_cost(cost) if isinstance(cost, dict) else None,
        first_token_seconds=span.seconds_until(parse_ns(began)),
        call=call,
        tools=_defined(about, limits) or tools,
        session=find_text(about, "langfuse.session.id", "session.id"),
        workflow=find_text(about, "langfuse.trace.name"),
        failed=(find_text(about, f"{_OWN}status_message") or "ERROR") if failed else None,
    )


def _find_operation(about: Mapping[str, Json], limits: Limits) -> Operation | None:
    kind = (find_text(about, f"{_OWN}type") or "").lower()
    if kind != "span":
        return OPERATIONS.get(kind)
    told = gen_ai.find_operation(about)
    if told != "other":
        return told
    made = decode_object(about.get(f"{_OWN}output"), limits)
    answer = isinstance(made, dict) and made.get("type") == "tool" and "tool_call_id" in made
    return "tool" if answer else "chain"


def _cost(told: dict[str, Json]) -> float | None:
    if (whole := find_number(told, "total")) is not None:
        return whole
    parts = [cost for key in told if (cost := find_number(told, key)) is not None]
    return sum(parts) if parts else None


def _offered(given: Json, limits: Limits) -> tuple[Json, tuple[ToolDef, ...]]:
    """Return an input without the tools listed among its messages, and the tools that it offers."""
    value = decode_object(given, limits)
    if isinstance(value, dict):
        for holder in (value, object_at(value, "config")):
            for key in _TOOLS:
                listed = holder.get(key)
                if isinstance(listed, list):
                    return given, tool_defs(_declared(listed)) or ()
        return given, ()
    listed = value if isinstance(value, list) else []
    tools = [entry["content"] for entry in listed if _defines(entry)]
    if not tools:
        return given, ()
    return [entry for entry in listed if not _defines(entry)], tool_defs(tools) or ()


def _declared(listed: list[Json]) -> list[Json]:
    """Return tools one by one; Gemini groups its declarations."""
    found: list[Json] = []
    for entry in listed:
        group = None
        for key in ("function_declarations", "functionDeclarations"):
            group = entry.get(key) if isinstance(entry, dict) and group is None else group
        found.extend(group if isinstance(group, list) else [entry])
    return [entry for entry in found if isinstance(entry, dict)]


def _defines(entry: Json) -> bool:
    match entry:
        case {"role": "tool", "content": {"type": "function", "function": dict()}}:
            return "tool_call_id" not in entry
    return False


def _defined(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    """Return what the API lists as the tools of a generation: their definitions by name."""
    told = decode_object(about.get(f"{_OWN}tool_definitions"), limits)
    if not isinstance(told, dict):
        return ()
    listed: list[Json] = []
    for name, held in told.items():
        inner = decode_object(held, limits)
        listed.append({"name": name, **(inner if isinstance(inner, dict) else {})})
    return tool_defs(listed) or ()
