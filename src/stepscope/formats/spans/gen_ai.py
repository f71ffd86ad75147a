"""Spans in the words of OpenTelemetry's GenAI conventions, current and deprecated.

Also what real instrumentations write beside them: Google ADK's `gcp.vertex.agent.*`, Traceloop's
`traceloop.*`, Pydantic AI's own keys, and messages in the bodies of ADOT's events.
Source: open-telemetry/semantic-conventions-genai (development), semantic-conventions v1.41.0.
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
    text,
    usage,
    value,
)
from stepscope.formats.spans.blocks import result_parts
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Message, Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.tool_calls import tool_call
from stepscope.model import Actor, Json, Part, ToolCall, ToolDef, Usage
from stepscope.safety.limits import Limits

_SORTS: dict[str, Sort] = {
    "chat": "model",
    "completion": "model",
    "generate_content": "model",
    "text_completion": "model",
    "embeddings": "embedding",
    "retrieval": "retrieval",
    "execute_tool": "tool",
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "agent_handoff": "handoff",
    "guardrail": "guardrail",
    "create_agent": "chain",
    "plan": "chain",
}
_TRACELOOP: dict[str, Sort] = {
    "workflow": "chain",
    "task": "chain",
    "agent": "agent",
    "tool": "tool",
}
_PREFIXES = ("gen_ai.", "traceloop.", "gcp.vertex.agent.", "llm.request.", "mcp.")
_SESSIONS = (
    "gen_ai.conversation.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.session_id",
)
# What Pydantic AI's span of an agent says of it, in versions that name no operation.
_AGENTS = frozenset({"final_result", "all_messages_events", "pydantic_ai.all_messages"})
_ROLES: dict[str, Actor] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "agent",
    "gen_ai.tool.message": "environment",
}


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in these words, None where it uses none of them."""
    about = span.attributes
    spoken = any(key.startswith(_PREFIXES) for key in about)
    if not spoken and not any(_speaks(event.attributes, event.name) for event in span.events):
        bodies = [event.extra for event in span.events if event.extra and "body" in event.extra]
        return _bodies(bodies, limits) if bodies else None
    kind = sort(about)
    if kind == "other" and "gen_ai.output.messages" not in about:
        # A frame that names itself and nothing else: half the spans of some traces.
        return Said(sort=kind, session=text(about, *_SESSIONS))
    return Said(
        sort=kind,
        inputs=() if kind == "tool" else _inputs(span, limits),
        outputs=() if kind == "tool" else _outputs(span, limits),
        given=_entity(about, "traceloop.entity.input", limits) if kind != "tool" else (),
        made=_entity(about, "traceloop.entity.output", limits) if kind != "tool" else (),
        agent=text(about, "gen_ai.agent.name", "agent_name", "gen_ai.handoff.from_agent"),
        target=text(about, "gen_ai.handoff.to_agent", "gen_ai.transfer.target.name"),
        model=text(about, "gen_ai.response.model", "gen_ai.request.model"),
        finish_reason=_reason(about, limits),
        response_id=text(about, "gen_ai.response.id"),
        usage=_usage(about),
        cost_usd=number(about, "operation.cost"),
        first_token_seconds=number(about, "gen_ai.response.time_to_first_chunk"),
        call=_call(about, limits) if kind == "tool" else None,
        parts=_result(about) if kind == "tool" else (),
        tools=_tools(about, limits),
        session=text(about, *_SESSIONS),
        workflow=text(about, "gen_ai.workflow.name", "traceloop.workflow.name"),
        failed=text(about, "error.type"),
    )


def _speaks(about: Mapping[str, Json], name: str) -> bool:
    return name.startswith("gen_ai.") or any(key.startswith("gen_ai.") for key in about)


def sort(about: Mapping[str, Json]) -> Sort:
    """Return what a span with these attributes records, `other` where they do not say."""
    operation = text(about, "gen_ai.operation.name") or ""
    if operation in _SORTS:
        return _SORTS[operation]
    kind = _TRACELOOP.get(text(about, "traceloop.span.kind") or "")
    if kind is not None:
        return kind
    if "llm.request.type" in about or text(about, "mcp.method.name") == "tools/call":
        return "tool" if "mcp.method.name" in about else "model"
    if "gen_ai.tool.name" in about:
        return "tool"
    if not operation and "gen_ai.request.model" in about:
        return "model"
    if "agent_name" in about and about.keys() & _AGENTS:
        return "agent"
    return "other"


def _inputs(span: Span, limits: Limits) -> tuple[Message, ...]:
    about = span.attributes
    found = read(about.get("gen_ai.system_instructions"), "system", limits)
    for key in ("gen_ai.input.messages", "gen_ai.prompt", "gcp.vertex.agent.llm_request"):
        if more := _told(read(about.get(key), "user", limits)):
            return (*found, *more)
    if listed := flattened(about, "gen_ai.prompt."):
        return (*found, *read(listed, "user", limits))
    for event in span.events:
        at = event.attributes
        if "gen_ai.input.messages" in at:
            first = read(at.get("gen_ai.system_instructions"), "system", limits)
            return (*found, *first, *read(at["gen_ai.input.messages"], "user", limits))
        if event.name == "gen_ai.content.prompt":
            found = (*found, *read(at.get("gen_ai.prompt"), "user", limits))
        if event.name in _ROLES:
            body = dict(at) if event.extra is None else {**at, **_body(event.extra)}
            actor = _ROLES[event.name]
            role = {"role": "tool" if actor == "environment" else event.name.split(".")[1]}
            if actor == "environment" and "id" in body:
                body["tool_call_id"] = body["id"]
            body["tool_calls"] = decoded(body.get("tool_calls"), limits)
            found = (*found, *read({**role, **body}, actor, limits))
    return found


def _told(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages, none where all that they say is an empty object."""
    return () if messages == (Message("user", (Part("text", "{}"),)),) else messages


def _body(extra: Mapping[str, Json]) -> dict[str, Json]:
    body = extra.get("body")
    return body if isinstance(body, dict) else {}


def _outputs(span: Span, limits: Limits) -> tuple[Message, ...]:
    about = span.attributes
    for key in ("gen_ai.output.messages", "gen_ai.completion", "gcp.vertex.agent.llm_response"):
        found = read(about.get(key), "agent", limits)
        if found and about.get(key) != "{}":
            return found
    if listed := flattened(about, "gen_ai.completion."):
        return read(listed, "agent", limits)
    made: tuple[Message, ...] = ()
    for event in span.events:
        at = event.attributes
        if "gen_ai.output.messages" in at:
            return read(at["gen_ai.output.messages"], "agent", limits)
        if event.name == "gen_ai.content.completion":
            made = (*made, *read(at.get("gen_ai.completion"), "agent", limits))
        if event.name == "gen_ai.choice":
            body = dict(at) if event.extra is None else {**at, **_body(event.extra)}
            body["message"] = decoded(body.get("message"), limits)
            body["tool_calls"] = decoded(body.get("tool_calls"), limits)
            role = {} if isinstance(body["message"], dict) else {"role": "assistant"}
            made = (*made, *read({**body, **role}, "agent", limits))
    return made


def _bodies(bodies: list[dict[str, Json]], limits: Limits) -> Said | None:
    """Return what ADOT's events say: all that a span of theirs has is an input and an output."""
    body = _body(bodies[0])
    given = _messages(body.get("input"), "user", limits)
    made = _messages(body.get("output"), "agent", limits)
    if not (given or made):
        return None
    answer = _tool_output(body.get("output"), limits)
    if answer is not None:
        name, call_id, parts = answer
        inputs = [part.text for message in given for part in message.parts]
        call = call_of(name, inputs[0] if inputs else None, call_id, limits=limits)
        return Said(sort="tool", call=call, parts=parts)
    model = "generations" in str(body.get("output"))
    if model:
        return Said(sort="model", inputs=given, outputs=made)
    return Said(sort="chain", given=given, made=made)


def _messages(side: Json, actor: Actor, limits: Limits) -> tuple[Message, ...]:
    """Return messages whose content may hold, as JSON in text, the messages themselves."""
    listed = side.get("messages") if isinstance(side, dict) else None
    found: tuple[Message, ...] = ()
    for entry in listed if isinstance(listed, list) else []:
        content = entry.get("content") if isinstance(entry, dict) else entry
        inner = decoded(content, limits)
        found = (*found, *read(inner if isinstance(inner, dict) else entry, actor, limits))
    return found


def _tool_output(side: Json, limits: Limits) -> tuple[str, str | None, tuple[Part, ...]] | None:
    listed = side.get("messages") if isinstance(side, dict) else None
    entry = listed[0] if isinstance(listed, list) and listed else None
    content = decoded(entry.get("content"), limits) if isinstance(entry, dict) else None
    if not isinstance(content, dict) or content.get("type") != "tool":
        return None
    name = text(content, "name")
    if name is None:
        return None
    return name, text(content, "tool_call_id"), result_parts(content.get("content"))


def _entity(about: Mapping[str, Json], key: str, limits: Limits) -> tuple[Message, ...]:
    return read(about.get(key), "user" if key.endswith("input") else "agent", limits)


def _reason(about: Mapping[str, Json], limits: Limits) -> str | None:
    reasons = decoded(about.get("gen_ai.response.finish_reasons"), limits)
    if isinstance(reasons, list) and reasons and isinstance(reasons[0], str):
        return reasons[0]
    return text(about, "gen_ai.response.finish_reason")


def _usage(about: Mapping[str, Json]) -> Usage | None:
    told = "gen_ai.usage."
    if not any("usage." in key for key in about):
        return None
    return usage(
        count(about, f"{told}input_tokens", f"{told}prompt_tokens", "llm.usage.prompt_tokens"),
        count(
            about, f"{told}output_tokens", f"{told}completion_tokens", "llm.usage.completion_tokens"
        ),
        read=count(about, f"{told}cache_read.input_tokens", f"{told}cache_read_input_tokens"),
        written=count(
            about,
            f"{told}cache_write.input_tokens",
            f"{told}cache_creation.input_tokens",
            f"{told}cache_creation_input_tokens",
        ),
        reasoning=count(about, f"{told}reasoning.output_tokens", f"{told}reasoning_tokens"),
    )


def _call(about: Mapping[str, Json], limits: Limits) -> ToolCall:
    name = text(about, "gen_ai.tool.name", "traceloop.entity.name", "mcp.tool.name") or ""
    made = value(
        about,
        "gen_ai.tool.call.arguments",
        "tool_arguments",
        "gcp.vertex.agent.tool_call_args",
        "traceloop.entity.input",
        "input",
    )
    return tool_call(name, made, text(about, "gen_ai.tool.call.id"), limits)


def _result(about: Mapping[str, Json]) -> tuple[Part, ...]:
    made = value(
        about,
        "gen_ai.tool.call.result",
        "tool_response",
        "gcp.vertex.agent.tool_response",
        "traceloop.entity.output",
        "output",
    )
    return result_parts(made)


def _tools(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    listed = decoded(about.get("gen_ai.tool.definitions"), limits)
    return tool_defs(listed) or () if isinstance(listed, list) else ()
