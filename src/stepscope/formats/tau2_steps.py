"""tau2's messages as steps, one each: users call tools too, and a tool says itself if it failed.

Cost and tokens of a user's message are the simulator's, not the agent's: they stay in `extra`.
Refuses a role that tau2 does not have.
Format: sierra-research/tau2-bench, `src/tau2/data_model/message.py`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import UNKNOWN, Judged
from stepscope.formats.building import call_of, rest, text_at
from stepscope.formats.times import instant
from stepscope.formats.tokens import openai_usage, uncounted
from stepscope.model import Json, Part, Step, ToolCall, ToolResult
from stepscope.safety.limits import Limits

_QUOTE = 200
_SAID = frozenset({"role", "content", "tool_calls", "turn_idx", "timestamp"})
_SPENT = frozenset({"cost", "usage"})
_TOLD = frozenset({"role", "id", "content", "error", "turn_idx", "timestamp"})
_MANY = frozenset({"role", "tool_messages", "turn_idx", "timestamp"})
_CALL = frozenset({"id", "name", "arguments", "requestor"})


class _Call(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None
    id: str | None = None
    requestor: Literal["user", "assistant"] = "assistant"


class _Message(msgspec.Struct, gc=False):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[Any] | None = None
    id: str | None = None
    error: bool | None = None
    cost: float | None = None
    tool_messages: list[Any] | None = None


def tau2_step(message: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`.

    Raises:
        TraceError: no object.
        msgspec.ValidationError: an unknown role, or a field of another type than tau2's.
    """
    if type(message) is not dict:
        raise TraceError(f"message {index} is {str(message)[:60]!r}; expected an object")
    said = msgspec.convert(message, _Message)
    step = _answer(message, index) if said.role == "tool" else _speech(message, said, index, limits)
    if said.role == "assistant":
        raw = message.get("raw_data")
        step = msgspec.structs.replace(
            step,
            model=text_at(raw, "model") if isinstance(raw, dict) else None,
            usage=openai_usage(message.get("usage")),
            cost_usd=said.cost,
        )
    start = instant(message.get("timestamp"))
    extra = {**(step.extra or {})}
    if step.usage is not None and (beside := uncounted(message.get("usage"))):
        extra["usage"] = beside
    if start is None and message.get("timestamp") is not None:
        extra["timestamp"] = message["timestamp"]
    turn = message.get("turn_idx")
    if turn is not None and turn != index:
        extra["turn_idx"] = turn
    return msgspec.structs.replace(step, start=start, extra=extra or None)


def _speech(message: dict[str, Json], said: _Message, index: int, limits: Limits) -> Step:
    calls = tuple([_call(call, limits) for call in said.tool_calls or ()])
    ours = said.role == "assistant"
    usage = message.get("usage")
    known = _SAID | (_SPENT if ours and (usage is None or openai_usage(usage)) else frozenset())
    return Step(
        index=index,
        actor="agent" if ours else "user" if said.role == "user" else "system",
        kind="call" if calls else "message",
        parts=(Part("text", said.content),) if said.content else (),
        calls=calls,
        extra=rest(message, known),
    )


def _call(call: Json, limits: Limits) -> ToolCall:
    typed = msgspec.convert(call, _Call)
    extra = rest(call, _CALL)
    made = call_of(typed.name, typed.arguments, typed.id or None, limits=limits, extra=extra)
    if typed.requestor == "user":
        return msgspec.structs.replace(made, requestor="user")
    return made


def _answer(message: dict[str, Json], index: int) -> Step:
    """Return a tool's message, or the several that answer calls made at once, as one step."""
    many = message.get("tool_messages")
    told = [message] if many is None else many
    return Step(
        index=index,
        actor="environment",
        kind="result",
        results=tuple([_result(each) for each in told]),
        extra=None if many is None else rest(message, _MANY),
    )


def _result(message: Json) -> ToolResult:
    typed = msgspec.convert(message, _Message)
    text = typed.content or ""
    judged = UNKNOWN
    if typed.error is not None:
        failed = typed.error
        judged = Judged("error" if failed else "ok", "explicit", text[:_QUOTE] if failed else None)
    parts = (Part("text", text),) if text else ()
    return ToolResult(typed.id or None, None, parts, None, *judged, extra=rest(message, _TOLD))
