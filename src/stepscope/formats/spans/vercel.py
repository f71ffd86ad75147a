"""Spans of the Vercel AI SDK: `ai.*` keys, the messages in `ai.prompt.messages` as JSON.

`ai.generateText` frames one `ai.generateText.doGenerate` for each round with the model.
Source: AI SDK 5 and 6, `packages/ai/src/telemetry`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.formats.building import call_of
from stepscope.formats.envelope import tool_defs
from stepscope.formats.spans.attributes import count, decoded, number, parsed, text, usage, value
from stepscope.formats.spans.blocks import call, result_parts
from stepscope.formats.spans.messages import read
from stepscope.formats.spans.said import Message, Said, Sort
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Part, ToolDef, Usage
from stepscope.safety.limits import Limits


def said(span: Span, limits: Limits) -> Said | None:
    """Return what a span says in the SDK's words, None where it is not the SDK's."""
    about = span.attributes
    operation = text(about, "ai.operationId") or span.name
    if not operation.startswith("ai."):
        return None
    sort = _sort(operation)
    if sort == "tool":
        # Langfuse takes the arguments out of the attributes.
        made = value(about, "ai.toolCall.args", "ai.toolCall.input", "langfuse.observation.input")
        return Said(
            sort="tool",
            call=call_of(
                text(about, "ai.toolCall.name") or "",
                {} if made is None else made,
                text(about, "ai.toolCall.id"),
                limits=limits,
            ),
            parts=result_parts(value(about, "ai.toolCall.result", "ai.toolCall.output")),
            session=_session(about),
        )
    milliseconds = number(about, "ai.response.msToFirstChunk", "ai.stream.msToFirstChunk")
    embedded = sort == "embedding"
    return Said(
        sort=sort,
        inputs=_inputs(about, limits),
        outputs=() if embedded else _outputs(about, limits),
        model=text(about, "ai.response.model", "ai.model.id"),
        finish_reason=text(about, "ai.response.finishReason", "ai.finishReason"),
        response_id=text(about, "ai.response.id"),
        usage=_usage(about),
        first_token_seconds=None if milliseconds is None else milliseconds / 1000,
        tools=_tools(about, limits),
        session=_session(about),
        workflow=text(about, "ai.telemetry.functionId"),
    )


def _sort(operation: str) -> Sort:
    if operation.startswith("ai.toolCall"):
        return "tool"
    return "embedding" if operation.startswith("ai.embed") else "model"


def _session(about: Mapping[str, Json]) -> str | None:
    return text(about, "ai.telemetry.metadata.sessionId")


def _inputs(about: Mapping[str, Json], limits: Limits) -> tuple[Message, ...]:
    values = about.get("ai.values")
    if isinstance(values, list):
        return read([parsed(entry, limits) for entry in values], "user", limits)
    prompt = parsed(value(about, "ai.prompt.messages", "ai.prompt", "ai.value"), limits)
    if isinstance(prompt, dict) and isinstance(prompt.get("prompt"), str | list):
        system = read(prompt.get("system"), "system", limits)
        return (*system, *read(prompt["prompt"], "user", limits))
    return read(prompt, "user", limits)


def _outputs(about: Mapping[str, Json], limits: Limits) -> tuple[Message, ...]:
    parts: list[Part] = []
    if thought := text(about, "ai.response.reasoning"):
        parts.append(Part("reasoning", thought))
    if said := text(about, "ai.response.text", "ai.response.object", "ai.result.text"):
        parts.append(Part("text", said))
    listed = decoded(value(about, "ai.response.toolCalls", "ai.result.toolCalls"), limits)
    entries = listed if isinstance(listed, list) else []
    calls = [
        call({"type": "tool-call", **entry}, limits) for entry in entries if isinstance(entry, dict)
    ]
    made = tuple([found for found in calls if found is not None])
    return (Message("agent", tuple(parts), made),) if parts or made else ()


def _usage(about: Mapping[str, Json]) -> Usage | None:
    told = "ai.usage."
    return usage(
        count(about, f"{told}inputTokens", f"{told}promptTokens", f"{told}tokens"),
        count(about, f"{told}outputTokens", f"{told}completionTokens"),
        read=count(about, f"{told}cachedInputTokens"),
        reasoning=count(about, f"{told}reasoningTokens"),
    )


def _tools(about: Mapping[str, Json], limits: Limits) -> tuple[ToolDef, ...]:
    listed = decoded(about.get("ai.prompt.tools"), limits)
    if not isinstance(listed, list):
        return ()
    return tool_defs([_schema(decoded(entry, limits)) for entry in listed]) or ()


def _schema(tool: Json) -> Json:
    if isinstance(tool, dict) and "inputSchema" in tool:
        others = {key: found for key, found in tool.items() if key != "inputSchema"}
        return {**others, "parameters": tool["inputSchema"]}
    return tool
