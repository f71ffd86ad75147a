"""What spans of Pydantic AI say beside the GenAI conventions, as Logfire shows them.

Messages as the events that they once were, in `events` (a model's) and `all_messages_events` (an
agent's, later `pydantic_ai.all_messages`); the tools offered in `model_request_parameters`; the
answer in `final_result`.
Source: pydantic-ai 0.1 to 1.26, logfire 5.4.0, and real traces of both.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.building import rest, text_at
from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans import gen_ai
from stepscope.formats.spans.attributes import decoded, text, value
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Said
from stepscope.formats.spans.span import Span
from stepscope.model import Json, ToolDef
from stepscope.safety.limits import Limits

_ALL = ("pydantic_ai.all_messages", "all_messages_events")
_PARAMETERS = "model_request_parameters"
_ABOUT_EVENT = frozenset({"event.name", "gen_ai.message.index", "gen_ai.system"})


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in these words, None where it uses none of them."""
    about = span.attributes
    if not about.keys() & {*_ALL, _PARAMETERS, "events", "final_result"}:
        return None
    events = _events(decoded(about.get("events"), limits))
    whole = _events(decoded(value(about, *_ALL), limits))
    choices = [event for event in events if _is_choice(event)]
    asked = [event for event in events if not _is_choice(event)]
    return Said(
        sort="agent" if gen_ai.sort(about) == "agent" else None,
        agent=text(about, "agent_name"),
        inputs=read([_plain(event) for event in asked], "user", limits),
        outputs=read([_plain(event) for event in choices or whole], "agent", limits),
        made=read(about.get("final_result"), "agent", limits),
        tools=_tools(about, limits),
    )


def _events(listed: Json) -> list[dict[str, Json]]:
    return [event for event in listed if isinstance(event, dict)] if _is_list(listed) else []


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _is_choice(event: dict[str, Json]) -> bool:
    return event.get("event.name") == "gen_ai.choice"


def _plain(event: dict[str, Json]) -> dict[str, Json]:
    """Return an event as the message that it is of; a tool's has its call's id as its own."""
    message = rest(event, _ABOUT_EVENT) or {}
    if event.get("event.name") == "gen_ai.tool.message" and text_at(event, "id"):
        message["tool_call_id"] = event["id"]
    return message


def _tools(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    told = decoded(about.get(_PARAMETERS), limits)
    if not isinstance(told, dict):
        return ()
    listed: list[Json] = []
    for key in ("function_tools", "output_tools"):
        held = told.get(key)
        for tool in held if isinstance(held, list) else ():
            if isinstance(tool, dict):
                schema = tool.get("parameters_json_schema")
                more = rest(tool, frozenset({"parameters_json_schema"})) or {}
                listed.append({**more, "parameters": schema})
    return tool_defs(listed) or ()
