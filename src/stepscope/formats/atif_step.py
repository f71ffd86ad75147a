"""One ATIF step as a step of ours: message, calls and the results that stand beside them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import UNKNOWN, judge_text
from stepscope.formats.building import rest
from stepscope.formats.media import url_part
from stepscope.formats.times import instant
from stepscope.model import Actor, Json, Part, PartKind, Step, StepKind, ToolCall, ToolResult, Usage

_ACTORS: dict[str, Actor] = {"system": "system", "user": "user", "agent": "agent"}
_STEP = frozenset(
    "step_id timestamp source model_name message reasoning_content tool_calls observation metrics "
    "is_copied_context extra".split()
)
_CALL = frozenset({"tool_call_id", "function_name", "arguments", "extra"})
_RESULT = frozenset({"source_call_id", "content", "extra"})
_METRICS = frozenset({"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"})
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio"}


class _Call(msgspec.Struct, gc=False):
    function_name: str
    arguments: Any = None
    tool_call_id: str | None = None
    extra: dict[str, Any] | None = None


class _Result(msgspec.Struct, gc=False):
    source_call_id: str | None = None
    content: str | list[Any] | None = None
    extra: dict[str, Any] | None = None


class _Observation(msgspec.Struct, gc=False):
    results: list[Any] = []


class _Metrics(msgspec.Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class _Step(msgspec.Struct, gc=False):
    source: Literal["system", "user", "agent"]
    message: str | list[Any] | None = None
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None
    observation: _Observation | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


def atif_step(value: Json, index: int) -> Step:
    """Return one ATIF step as the step at `index`.

    Raises:
        TraceError: a field of another type than the format's.
    """
    try:
        step = msgspec.convert(value, _Step)
        calls = tuple([atif_call(call) for call in step.tool_calls or ()])
        results = (
            tuple([atif_result(r) for r in step.observation.results]) if step.observation else ()
        )
    except msgspec.ValidationError as e:
        raise TraceError(f"step {index}: {e}") from e
    start = instant(step.timestamp)
    return Step(
        index=index,
        actor=_ACTORS[step.source],
        kind=_kind(step, calls),
        parts=_parts(step),
        calls=calls,
        results=results,
        model=step.model_name,
        usage=_usage(step.metrics),
        cost_usd=None if step.metrics is None else step.metrics.cost_usd,
        start=start,
        replayed=bool(step.is_copied_context),
        extra=_extra(value, step, told_time=start is not None),
    )


def _kind(step: _Step, calls: tuple[ToolCall, ...]) -> StepKind:
    if calls:
        return "call"
    management = (step.extra or {}).get("context_management")
    if isinstance(management, dict) and management.get("type") == "compaction":
        return "compaction"
    return "message"


def _parts(step: _Step) -> tuple[Part, ...]:
    parts = content_parts(step.message)
    if step.reasoning_content:
        return (Part("reasoning", step.reasoning_content), *parts)
    return parts


def content_parts(content: str | list[Json] | None) -> tuple[Part, ...]:
    """Return text, or a list of ATIF content parts, as parts."""
    if not content:
        return ()
    if isinstance(content, str):
        return (Part("text", content),)
    return tuple([_part(part) for part in content])


def _part(part: Json) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return Part("text", text, extra=rest(part, frozenset({"type", "text"})))
        case {"type": "image" | "audio" as kind, "source": {"path": str(path)} as source}:
            return url_part(_MEDIA[kind], path, extra=rest(source, frozenset({"path"})))
        case dict():
            return Part("data", extra=part)
    return Part("data", extra={"value": part})


def atif_call(value: Json) -> ToolCall:
    """Return one ATIF tool call."""
    call = msgspec.convert(value, _Call)
    extra = {**(call.extra or {}), **(rest(value, _CALL) or {})}
    return ToolCall(call.function_name, call.arguments, call.tool_call_id, extra=extra or None)


def atif_result(value: Json) -> ToolResult:
    """Return one ATIF observation result, judged by its text."""
    result = msgspec.convert(value, _Result)
    parts = content_parts(result.content)
    text = "\n".join([part.text for part in parts if part.text is not None])
    extra = {**(result.extra or {}), **(rest(value, _RESULT) or {})}
    judged = judge_text(text) if text else UNKNOWN
    return ToolResult(result.source_call_id, None, parts, None, *judged, extra=extra or None)


def _usage(metrics: _Metrics | None) -> Usage | None:
    if metrics is None:
        return None
    usage = Usage(
        input_total=metrics.prompt_tokens,
        cache_read=metrics.cached_tokens,
        output_total=metrics.completion_tokens,
    )
    return None if usage == Usage() else usage


def _extra(value: dict[str, Json], step: _Step, *, told_time: bool) -> dict[str, Json] | None:
    extra = {**(step.extra or {}), **(rest(value, _STEP) or {})}
    more = rest(value.get("metrics") or {}, _METRICS)
    if more is not None:
        extra["metrics"] = more
    seen = rest(value.get("observation") or {}, frozenset({"results"}))
    if seen is not None:
        extra["observation"] = seen
    if step.timestamp is not None and not told_time:
        extra["timestamp"] = step.timestamp
    return extra or None
