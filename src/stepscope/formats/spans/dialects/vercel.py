"""Spans of the Vercel AI SDK: `ai.*` keys, the messages in `ai.prompt.messages` as JSON.

`ai.generateText` frames one `ai.generateText.doGenerate` for each round with the model.
Source: AI SDK 5 and 6, `packages/ai/src/telemetry`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.fields import parse_call, tool_defs
from stepscope.formats.spans.attributes import (
    decode_object,
    decode_value,
    find_count,
    find_number,
    find_text,
    find_value,
    normalise_usage,
)
from stepscope.formats.spans.messages import read_call, read_messages, read_result_parts
from stepscope.formats.spans.span import RawSpan, SpanContent, SpanMessage
from stepscope.model import Json, Part
from stepscope.safety.limits import Limits

_SESSION = "ai.telemetry.metadata.sessionId"


def read_vercel(span: RawSpan, limits: Limits) -> SpanContent | None:
    """Return what a span says in the SDK's words, None where it is not the SDK's."""
    about = span.attributes
    operation = find_text(about, "ai.operationId") or span.name
    if not operation.startswith("ai."):
        return None
    session = find_text(about, _SESSION)
    if operation.startswith("ai.toolCall"):
        # Langfuse takes the arguments out of the attributes.
        made = find_value(
            about, "ai.toolCall.args", "ai.toolCall.input", "langfuse.observation.input"
        )
        name, own = find_text(about, "ai.toolCall.name"), find_text(about, "ai.toolCall.id")
        call = parse_call(name or "", {} if made is None else made, own, limits=limits)
        parts = read_result_parts(find_value(about, "ai.toolCall.result", "ai.toolCall.output"))
        return SpanContent(operation="tool", call=call, parts=parts, session=session)
    milliseconds = find_number(about, "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
    embedded = operation.startswith("ai.embed")
    listed = decode_object(about.get("ai.prompt.tools"), limits)
    offered = [decode_object(tool, limits) for tool in listed] if isinstance(listed, list) else None
    told = "ai.usage."
    return SpanContent(
        operation="embedding" if embedded else "model",
        inputs=_inputs(about, limits),
        outputs=() if embedded else _outputs(about, limits),
        model=find_text(about, "ai.response.model", "ai.model.id"),
        finish_reason=find_text(about, "ai.response.finishReason", "ai.finishReason"),
        response_id=find_text(about, "ai.response.id"),
        usage=normalise_usage(
            find_count(about, f"{told}inputTokens", f"{told}promptTokens", f"{told}tokens"),
            find_count(about, f"{told}outputTokens", f"{told}completionTokens"),
            read=find_count(about, f"{told}cachedInputTokens"),
            reasoning=find_count(about, f"{told}reasoningTokens"),
        ),
        first_token_seconds=None if milliseconds is None else milliseconds / 1000,
        tools=tool_defs(offered) or (),
        session=session,
        workflow=find_text(about, "ai.telemetry.functionId"),
    )


def _inputs(about: Mapping[str, Json], limits: Limits) -> tuple[SpanMessage, ...]:
    values = about.get("ai.values")
    if isinstance(values, list):
        return read_messages([decode_value(entry, limits) for entry in values], "user", limits)
    prompt = decode_value(find_value(about, "ai.prompt.messages", "ai.prompt", "ai.value"), limits)
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), str | list):
        system = read_messages(prompt.get("system"), "system", limits)
        return (*system, *read_messages(prompt["prompt"], "user", limits))
    return read_messages(prompt, "user", limits)


def _outputs(about: Mapping[str, Json], limits: Limits) -> tuple[SpanMessage, ...]:
    parts: list[Part] = []
    if thought := find_text(about, "ai.response.reasoning"):
        parts.append(Part("reasoning", thought))
    if said := find_text(about, "ai.response.text", "ai.response.object", "ai.result.text"):
        parts.append(Part("text", said))
    told = find_value(about, "ai.response.toolCalls", "ai.result.toolCalls")
    listed = decode_object(told, limits)
    calls = [
        read_call({"type": "tool-call", **entry}, limits)
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, dict)
    ]
    made = tuple([found for found in calls if found is not None])
    return (SpanMessage("agent", tuple(parts), made),) if parts or made else ()
