"""BeeAI's spans, of which each is one event of its emitter: read once, not once an event.

A model has spans of its start, its success and its finish, a tool likewise; a ReAct agent tells of
every tool that answered in an update, with name, arguments and output. So a model is read at its
start (what it answered is what the next one is given, or the agent's own end), a tool at the
update; the other events stay in the run's spans. They end when the agent does, so their ends say
nothing.
Source: openinference-instrumentation-beeai 0.1.33.
"""

from __future__ import annotations

import re

import msgspec

from stepscope.formats.spans.attributes import text, value
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.said import Said
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.tool_calls import tool_call
from stepscope.safety.limits import Limits

_SCOPE = "openinference.instrumentation.beeai"
# `agent.react.update-14`: what it is of, and the event.
_EVENT = re.compile(r"(agent|backend|tool)\.(?:.*\.)?(\w+)-\d+\Z").match
_ELSE = Said(sort="other")


def again(span: Span, said: Said, limits: Limits) -> Said:
    """Return what OpenInference's words say, read as the event that the span is."""
    if span.scope is None or not span.scope.startswith(_SCOPE):
        return said
    about = span.attributes
    event = _EVENT(span.name)
    if event is None:
        name = text(about, "source") if said.sort == "agent" else None
        return msgspec.structs.replace(said, agent=said.agent or name)
    match event[1], event[2]:
        case "backend", "start":
            return said
        case "agent", "update" if text(about, "tool.name") and "output.value" in about:
            name, made = text(about, "tool.name") or "", value(about, "tool.parameters")
            return Said(
                sort="tool",
                call=tool_call(name, made, None, limits),
                parts=result_parts(about["output.value"]),
                momentary=True,
            )
        case "agent", "success":
            return msgspec.structs.replace(said, given=(), inputs=())
    return _ELSE
