"""Spans in the words of OpenTelemetry's GenAI conventions, current and deprecated.

Also what instrumentations write beside them: Google ADK's `gcp.vertex.agent.*`, Traceloop's
`traceloop.*`, messages in the bodies of ADOT's events, and Pydantic AI's keys as Logfire shows
them: messages as events in `events` (a model's) and `all_messages_events` (an agent's, later
`pydantic_ai.all_messages`), tools in `model_request_parameters`, the answer in `final_result`.
Source: open-telemetry/semantic-conventions-genai (development), semantic-conventions v1.41.0;
pydantic-ai 0.1 to 1.26, logfire 5.4.0, and real traces of both.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.fields import entries_at, object_at, parse_call, rest, text_at, tool_defs
from stepscope.formats.spans.attributes import (
    decode_object,
    find_count,
    find_number,
    find_text,
    find_value,
    make_tool_call,
    normalise_usage,
    unflatten_list,
)
from stepscope.formats.spans.messages import read_messages, read_result_parts
from stepscope.formats.spans.span import Operation, RawSpan, SpanContent, SpanMessage
from stepscope.model import Actor, Json, Part, Usage
from stepscope.safety.limits import Limits

_OPERATIONS: dict[str, Operation] = {
    **dict.fromkeys(("chat", "completion", "generate_content", "text_completion"), "model"),
    **dict.fromkeys(("invoke_agent", "invoke_workflow"), "agent"),
    **dict.fromkeys(("create_agent", "plan"), "chain"),
    "embeddings": "embedding",
    "retrieval": "retrieval",
    "execute_tool": "tool",
    "agent_handoff": "handoff",
    "guardrail": "guardrail",
}
_TRACELOOP: dict[str, Operation] = {
    **dict.fromkeys(("workflow", "task"), "chain"),
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
_ARGUMENTS = (
    "gen_ai.tool.call.arguments",
    "tool_arguments",
    "gcp.vertex.agent.tool_call_args",
    "traceloop.entity.input",
    "input",
)
_RESULTS = (
    "gen_ai.tool.call.result",
    "tool_response",
    "gcp.vertex.agent.tool_response",
    "traceloop.entity.output",
    "output",
)
_ROLES: dict[str, Actor] = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "agent",
    "gen_ai.tool.message": "environment",
}


def read_gen_ai(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in these words, None where it uses none of them."""
    about = span.attributes
    if not any(key.startswith(_PREFIXES) for key in about) and not any(
        name.startswith("gen_ai.") for e in span.events for name in (e.name, *e.attributes)
    ):
        bodies = [event.extra for event in span.events if event.extra and "body" in event.extra]
        return _bodies(bodies, limits) if bodies else None
    kind = find_operation(about)
    if kind == "other" and "gen_ai.output.messages" not in about:
        # A frame that names itself and nothing else: half the spans of some traces.
        return SpanContent(operation=kind, session=find_text(about, *_SESSIONS))
    sides = ("traceloop.entity.input", "traceloop.entity.output")
    given, made = [None if kind == "tool" else about.get(key) for key in sides]
    call, reason = None, find_text(about, "gen_ai.response.finish_reason")
    if kind == "tool":
        name = find_text(about, "gen_ai.tool.name", "traceloop.entity.name", "mcp.tool.name") or ""
        own, asked = find_text(about, "gen_ai.tool.call.id"), find_value(about, *_ARGUMENTS)
        call = make_tool_call(name, asked, own, limits)
    match decode_object(about.get("gen_ai.response.finish_reasons"), limits):
        case [str(first), *_]:
            reason = first
    return SpanContent(
        operation=kind,
        inputs=() if kind == "tool" else _inputs(span, limits),
        outputs=() if kind == "tool" else _outputs(span, limits),
        input_value=read_messages(given, "user", limits),
        output_value=read_messages(made, "agent", limits),
        agent=find_text(about, "gen_ai.agent.name", "agent_name", "gen_ai.handoff.from_agent"),
        target=find_text(about, "gen_ai.handoff.to_agent", "gen_ai.transfer.target.name"),
        model=find_text(about, "gen_ai.response.model", "gen_ai.request.model"),
        finish_reason=reason,
        response_id=find_text(about, "gen_ai.response.id"),
        usage=_usage(about),
        cost_usd=find_number(about, "operation.cost"),
        first_token_seconds=find_number(about, "gen_ai.response.time_to_first_chunk"),
        call=call,
        parts=read_result_parts(find_value(about, *_RESULTS)) if kind == "tool" else (),
        tools=tool_defs(decode_object(about.get("gen_ai.tool.definitions"), limits)) or (),
        session=find_text(about, *_SESSIONS),
        workflow=find_text(about, "gen_ai.workflow.name", "traceloop.workflow.name"),
        failed=find_text(about, "error.type"),
    )


def find_operation(about: Mapping[str, Json]) -> Operation:
    """Return what a span with these attributes records, `other` where they do not say."""
    operation = find_text(about, "gen_ai.operation.name") or ""
    if operation in _OPERATIONS:
        return _OPERATIONS[operation]
    kind = _TRACELOOP.get(find_text(about, "traceloop.span.kind") or "")
    if kind is not None:
        return kind
    if "llm.request.type" in about or find_text(about, "mcp.method.name") == "tools/call":
        return "tool" if "mcp.method.name" in about else "model"
    if "gen_ai.tool.name" in about:
        return "tool"
    if not operation and "gen_ai.request.model" in about:
        return "model"
    return "agent" if "agent_name" in about and about.keys() & _AGENTS else "other"


def _inputs(span: RawSpan, limits: Limits) -> tuple[SpanMessage, ...]:
    about = span.attributes
    found = read_messages(about.get("gen_ai.system_instructions"), "system", limits)
    for key in ("gen_ai.input.messages", "gen_ai.prompt", "gcp.vertex.agent.llm_request"):
        more = read_messages(about.get(key), "user", limits)
        if more and more != (SpanMessage("user", (Part("text", "{}"),)),):
            return (*found, *more)
    if listed := unflatten_list(about, "gen_ai.prompt."):
        return (*found, *read_messages(listed, "user", limits))
    for event in span.events:
        at = event.attributes
        if "gen_ai.input.messages" in at:
            first = read_messages(at.get("gen_ai.system_instructions"), "system", limits)
            return (*found, *first, *read_messages(at["gen_ai.input.messages"], "user", limits))
        if event.name == "gen_ai.content.prompt":
            found = (*found, *read_messages(at.get("gen_ai.prompt"), "user", limits))
        if event.name in _ROLES:
            body = {**at, **object_at(event.extra, "body")}
            actor = _ROLES[event.name]
            role = {"role": "tool" if actor == "environment" else event.name.split(".")[1]}
            if actor == "environment" and "id" in body:
                body["tool_call_id"] = body["id"]
            body["tool_calls"] = decode_object(body.get("tool_calls"), limits)
            found = (*found, *read_messages({**role, **body}, actor, limits))
    return found


def _outputs(span: RawSpan, limits: Limits) -> tuple[SpanMessage, ...]:
    about = span.attributes
    for key in ("gen_ai.output.messages", "gen_ai.completion", "gcp.vertex.agent.llm_response"):
        found = read_messages(about.get(key), "agent", limits)
        if found and about.get(key) != "{}":
            return found
    if listed := unflatten_list(about, "gen_ai.completion."):
        return read_messages(listed, "agent", limits)
    made: tuple[SpanMessage, ...] = ()
    for event in span.events:
        at = event.attributes
        if "gen_ai.output.messages" in at:
            return read_messages(at["gen_ai.output.messages"], "agent", limits)
        if event.name == "gen_ai.content.completion":
            made = (*made, *read_messages(at.get("gen_ai.completion"), "agent", limits))
        if event.name == "gen_ai.choice":
            body = {**at, **object_at(event.extra, "body")}
            body["message"] = decode_object(body.get("message"), limits)
            body["tool_calls"] = decode_object(body.get("tool_calls"), limits)
            role = {} if isinstance(body["message"], dict) else {"role": "assistant"}
            made = (*made, *read_messages({**body, **role}, "agent", limits))
    return made


def _bodies(bodies: list[dict[str, Json]], limits: Limits) -> SpanContent | None:
    """Return what ADOT's events say: all that a span of theirs has is an input and an output."""
    body = object_at(bodies[0], "body")
    given = _messages(body.get("input"), "user", limits)
    made = _messages(body.get("output"), "agent", limits)
    if not (given or made):
        return None
    first = next(iter(entries_at(body.get("output"), "messages")), None)
    answer = decode_object(first.get("content"), limits) if isinstance(first, dict) else None
    if isinstance(answer, dict) and answer.get("type") == "tool" and find_text(answer, "name"):
        inputs = [part.text for message in given for part in message.parts]
        name, call_id = find_text(answer, "name") or "", find_text(answer, "tool_call_id")
        call = parse_call(name, inputs[0] if inputs else None, call_id, limits=limits)
        parts = read_result_parts(answer.get("content"))
        return SpanContent(operation="tool", call=call, parts=parts)
    if "generations" in str(body.get("output")):
        return SpanContent(operation="model", inputs=given, outputs=made)
    return SpanContent(operation="chain", input_value=given, output_value=made)


def _messages(side: Json, actor: Actor, limits: Limits) -> tuple[SpanMessage, ...]:
    """Return messages whose content may hold, as JSON in text, the messages themselves."""
    found: tuple[SpanMessage, ...] = ()
    for entry in entries_at(side, "messages"):
        inner = decode_object((entry.get("content") if isinstance(entry, dict) else entry), limits)
        found = (*found, *read_messages(inner if isinstance(inner, dict) else entry, actor, limits))
    return found


def _usage(about: Mapping[str, Json]) -> Usage | None:
    told = "gen_ai.usage."
    if not any("usage." in key for key in about):
        return None
    return normalise_usage(
        find_count(about, f"{told}input_tokens", f"{told}prompt_tokens", "llm.usage.prompt_tokens"),
        find_count(
            about, f"{told}output_tokens", f"{told}completion_tokens", "llm.usage.completion_tokens"
        ),
        read=find_count(about, f"{told}cache_read.input_tokens", f"{told}cache_read_input_tokens"),
        written=find_count(
            about,
            f"{told}cache_write.input_tokens",
            f"{told}cache_creation.input_tokens",
            f"{told}cache_creation_input_tokens",
        ),
        reasoning=find_count(about, f"{told}reasoning.output_tokens", f"{told}reasoning_tokens"),
    )


_ALL = ("pydantic_ai.all_messages", "all_messages_events")
_PARAMETERS = "model_request_parameters"
_ABOUT_EVENT = frozenset({"event.name", "gen_ai.message.index", "gen_ai.system"})


def read_pydantic_ai(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in these words, None where it uses none of them."""
    about = span.attributes
    if not about.keys() & {*_ALL, _PARAMETERS, "events", "final_result"}:
        return None
    events = _events(decode_object(about.get("events"), limits))
    whole = _events(decode_object(find_value(about, *_ALL), limits))
    choices = [event for event in events if event.get("event.name") == "gen_ai.choice"]
    asked = [event for event in events if event.get("event.name") != "gen_ai.choice"]
    told = decode_object(about.get(_PARAMETERS), limits)
    listed: list[Json] = []
    for tool in (*entries_at(told, "function_tools"), *entries_at(told, "output_tools")):
        if isinstance(tool, dict):
            more = rest(tool, frozenset({"parameters_json_schema"})) or {}
            listed.append({**more, "parameters": tool.get("parameters_json_schema")})
    return SpanContent(
        operation="agent" if find_operation(about) == "agent" else None,
        agent=find_text(about, "agent_name"),
        inputs=read_messages([_read_plain_event(event) for event in asked], "user", limits),
        outputs=read_messages(list(map(_read_plain_event, choices or whole)), "agent", limits),
        output_value=read_messages(about.get("final_result"), "agent", limits),
        tools=tool_defs(listed) or (),
    )


def _events(listed: Json) -> list[dict[str, Json]]:
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _read_plain_event(event: dict[str, Json]) -> dict[str, Json]:
    """Return an event as the message that it is of; a tool's has its call's id as its own."""
    message = rest(event, _ABOUT_EVENT) or {}
    if event.get("event.name") == "gen_ai.tool.message" and text_at(event, "id"):
        message["tool_call_id"] = event["id"]
    return message
