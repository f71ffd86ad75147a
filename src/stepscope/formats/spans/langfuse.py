"""Spans in the words of Langfuse's SDK: `langfuse.observation.*`, an input and an output as values.

An observation that is a plain `span` may be a tool or an agent all the same: what it was sent with,
or what it gave back, says so. LangChain's callback lists the tools offered among the messages.
Source: langfuse 5.0.4, `_client/attributes.py`, `langchain/CallbackHandler.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans import gen_ai
from stepscope.formats.spans.attributes import count, decoded, number, parsed, text, usage
from stepscope.formats.spans.said import Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.tool_calls import tool_call
from stepscope.formats.spans.valued import SORTS, valued
from stepscope.formats.times import instant
from stepscope.model import Json, ToolDef, Usage
from stepscope.safety.limits import Limits

_OWN = "langfuse.observation."
# What frameworks write before a tool's name in the name of its span.
_BEFORE_NAME = ("execute_tool ", "running tool: ")
# Keys of an input under which the tools offered stand; Gemini has them within its config.
_TOOLS = ("tools", "functions")


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in Langfuse's words, None where it uses none of them."""
    if not any(key.startswith("langfuse.") for key in span.attributes):
        return None
    about = dict(span.attributes)
    for side in ("input", "output"):
        held = about.get(f"{_OWN}{side}")
        if "openinference.span.kind" in about and f"{side}.value" in about:
            about[f"{_OWN}{side}"] = None  # the same, read in its own words
        elif isinstance(held, str) and held[:1] == '"':
            about[f"{_OWN}{side}"] = parsed(held, limits)  # a plain text that was given as JSON
    sort = _sort(about, limits)
    about[f"{_OWN}input"], tools = _offered(about.get(f"{_OWN}input"), limits)
    found = valued(about, f"{_OWN}input", f"{_OWN}output", sort, limits)
    cost = decoded(about.get(f"{_OWN}cost_details"), limits)
    failed = text(about, f"{_OWN}level") == "ERROR"
    return Said(
        sort=sort,
        given=found.given,
        made=found.made,
        agent=text(about, "gen_ai.agent.name", "agent_name", "gen_ai.agent.id") or span.name
        if sort == "agent"
        else None,
        model=text(about, f"{_OWN}model.name"),
        usage=details(about.get(f"{_OWN}usage_details"), limits),
        cost_usd=_cost(cost) if isinstance(cost, dict) else None,
        first_token_seconds=_first_token(span),
        call=tool_call(
            _tool_name(span),
            about.get(f"{_OWN}input"),
            text(about, "gen_ai.tool.call.id", "ai.toolCall.id") or found.response_id,
            limits,
        )
        if sort == "tool"
        else None,
        parts=found.parts,
        belief=found.belief,
        tools=_defined(about, limits) or tools,
        session=text(about, "langfuse.session.id", "session.id"),
        workflow=text(about, "langfuse.trace.name"),
        failed=(text(about, f"{_OWN}status_message") or "ERROR") if failed else None,
    )


def _sort(about: Mapping[str, Json], limits: Limits) -> Sort | None:
    kind = (text(about, f"{_OWN}type") or "").lower()
    if kind != "span":
        return SORTS.get(kind)
    told = gen_ai.sort(about)
    if told != "other":
        return told
    made = decoded(about.get(f"{_OWN}output"), limits)
    answer = isinstance(made, dict) and made.get("type") == "tool" and "tool_call_id" in made
    return "tool" if answer else "chain"


def _tool_name(span: Span) -> str:
    own = text(span.attributes, "gen_ai.tool.name", "tool.name", "ai.toolCall.name")
    if own is not None:
        return own
    for prefix in _BEFORE_NAME:
        if span.name.startswith(prefix):
            return span.name.removeprefix(prefix)
    return span.name


def _first_token(span: Span) -> float | None:
    began = instant(parsed(span.attributes.get(f"{_OWN}completion_start_time"), Limits()))
    if began is None or span.start_ns is None or began.ns < span.start_ns:
        return None
    return (began.ns - span.start_ns) / 1_000_000_000


def _cost(told: dict[str, Json]) -> float | None:
    """Return the total, or the sum of what is there."""
    if (whole := number(told, "total")) is not None:
        return whole
    parts = [cost for key in told if (cost := number(told, key)) is not None]
    return sum(parts) if parts else None


def details(told: Json, limits: Limits) -> Usage | None:
    """Return token counts that are listed by name, input with its cache.

    Whether `input` includes its own details is not the same everywhere; where there is a total, it
    tells. Names are Langfuse's, and those of providers, which some integrations pass on.
    """
    told = decoded(told, limits)
    if not isinstance(told, dict):
        return None
    given = count(told, "input", "prompt_tokens", "input_tokens", "promptTokens")
    made = count(told, "output", "completion_tokens", "output_tokens", "completionTokens")
    total = count(told, "total", "total_tokens", "totalTokens")
    if total is not None and given is not None and made is not None:
        more_in, more_out = _sum(told, "input", "prompt"), _sum(told, "output", "completion")
        for in_too, out_too in ((0, 0), (more_in, more_out), (more_in, 0), (0, more_out)):
            if given + in_too + made + out_too == total:
                given, made = given + in_too, made + out_too
                break
    return usage(
        given,
        made,
        read=count(
            told,
            "input_cached_tokens",
            "cache_read_input_tokens",
            "input_cache_read",
            "prompt_details.cache_read",
        ),
        written=count(
            told,
            "cache_creation_input_tokens",
            "input_cache_creation",
            "input_cache_write_tokens",
            "prompt_details.cache_write",
        ),
        reasoning=count(
            told, "output_reasoning_tokens", "output_reasoning", "completion_details.reasoning"
        ),
    )


def _sum(told: Mapping[str, Json], *words: str) -> int:
    """Return the sum of the counts whose names tell a detail of one of the words."""
    plain = {f"{word}{end}" for word in words for end in ("", "_tokens", "Tokens")}
    named = [key for key in told if any(word in key for word in words) and key not in plain]
    return sum([count(told, key) or 0 for key in named])


def _offered(given: Json, limits: Limits) -> tuple[Json, tuple[ToolDef, ...]]:
    """Return an input without the tools listed among its messages, and the tools that it offers."""
    value = decoded(given, limits)
    if isinstance(value, dict):
        config = value.get("config")
        for holder in (value, config if isinstance(config, dict) else {}):
            for key in _TOOLS:
                listed = holder.get(key)
                if isinstance(listed, list):
                    return given, tool_defs(_declared(listed)) or ()
        return given, ()
    if not isinstance(value, list):
        return given, ()
    tools = [entry["content"] for entry in value if isinstance(entry, dict) and _defines(entry)]
    if not tools:
        return given, ()
    others = [entry for entry in value if not (isinstance(entry, dict) and _defines(entry))]
    return others, tool_defs(tools) or ()


def _declared(listed: list[Json]) -> list[Json]:
    """Return tools one by one; Gemini groups its declarations."""
    found: list[Json] = []
    for entry in listed:
        group = None
        for key in ("function_declarations", "functionDeclarations"):
            group = entry.get(key) if isinstance(entry, dict) and group is None else group
        found.extend(group if isinstance(group, list) else [entry])
    return [entry for entry in found if isinstance(entry, dict)]


def _defines(entry: dict[str, Json]) -> bool:
    content = entry.get("content")
    return (
        entry.get("role") == "tool"
        and "tool_call_id" not in entry
        and isinstance(content, dict)
        and content.get("type") == "function"
        and isinstance(content.get("function"), dict)
    )


def _defined(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    """Return what the API lists as the tools of a generation: their definitions by name."""
    told = decoded(about.get(f"{_OWN}tool_definitions"), limits)
    if not isinstance(told, dict):
        return ()
    listed: list[Json] = []
    for name, held in told.items():
        inner = decoded(held, limits)
        listed.append({"name": name, **(inner if isinstance(inner, dict) else {})})
    return tool_defs(listed) or ()
