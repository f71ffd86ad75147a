"""mini-swe-agent's messages as steps: shell commands as calls, what came back as their results.

A command stands in a tool call, in `extra.actions`, or in the one fence of an answer; without a
tool call the user's next message is its result. A return code beside a message is what the harness
says of the command; read out of a message's text it is a guess. Refuses what OpenAI's API refuses.
Format: mini-swe-agent, `models/utils/actions_*.py`, and its older `agents/default.py`.
"""

from __future__ import annotations

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.beliefs import Judged, error, judge_text
from stepscope.formats.building import rest, text_at
from stepscope.formats.chat import Reading, parts_of, step_of
from stepscope.formats.dialects import FENCE, RETURNED
from stepscope.formats.items import OUTPUTS, item_step
from stepscope.formats.times import instant
from stepscope.formats.tokens import openai_usage
from stepscope.model import Json, Step, ToolCall, ToolResult

SHELL = "bash"
EXIT = "exit"
# How a run ends that the agent itself ended: its last command was carried out.
SUBMITTED = "Submitted"
# Beyond this no cost in USD is one, and no whole number is safe as a float.
_MOST = 1e12
_KEPT = frozenset({"extra"})
_RESPONSE = frozenset({"object", "output", "extra", "role"})


def judge(text: str) -> Judged:
    """Return what an observation's text says of itself: its return code, else what texts say."""
    code = RETURNED.match(text)
    if code is None:
        return judge_text(text)
    return error(text) if int(code[1]) else Judged("ok", "heuristic", None)


def mini_step(message: Json, index: int, reading: Reading) -> Step:
    """Return one message as the step at `index`; results without a call id are paired later.

    Raises:
        TraceError: no object, an unknown role, or a field of another type than the API's.
    """
    if type(message) is not dict:
        raise TraceError(f"message {index} is {str(message)[:60]!r}; expected an object")
    more = message.get("extra")
    if more is not None and type(more) is not dict:
        raise TraceError(f"message {index}: `extra` is {str(more)[:60]!r}; expected an object")
    bare = {key: value for key, value in message.items() if key not in _KEPT}
    if bare.get("object") == "response" and isinstance(bare.get("output"), list):
        step = _response(bare, index, reading)
    elif bare.get("role") == EXIT:
        plain = {key: value for key, value in bare.items() if key not in {"role", "content"}}
        parts = parts_of(bare.get("content"), index)
        step = Step(index=index, actor="environment", parts=parts, extra={"role": EXIT, **plain})
    elif text_at(bare, "type") in OUTPUTS:
        step = item_step(bare, index, reading)
    else:
        step = step_of(bare, index, reading)
    return _agent(step, more or {}) if step.actor == "agent" else _other(step, more or {})


def answered(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with every message that answers a command as its result."""
    waiting: list[ToolCall] = []
    made: list[Step] = []
    for step in steps:
        if step.actor == "agent":
            waiting = list(step.calls)
        elif step.results:
            waiting = [call for call in waiting if call.id != step.results[0].call_id]
        elif waiting and _answers(step, waiting[0]):
            call = waiting.pop(0)
            step = _as_result(step, call)
        made.append(step)
    return tuple(made)


def _answers(step: Step, call: ToolCall) -> bool:
    extra = step.extra or {}
    if step.actor == "user":
        # A complaint about an answer, beside a call that was understood, would name its kind.
        return call.id is None and "interrupt_type" not in extra
    return extra.get("role") == EXIT and extra.get("exit_status") == SUBMITTED


def _as_result(step: Step, call: ToolCall) -> Step:
    text = "\n".join([part.text for part in step.parts if part.text])
    extra = step.extra or {}
    judged = _told(extra) or judge(text)
    if extra.get("role") == EXIT:
        judged = Judged("ok", "protocol", None)
    result = ToolResult(call.id, call.name, step.parts, None, *judged)
    return msgspec.structs.replace(
        step, actor="environment", kind="result", parts=(), results=(result,)
    )


def _response(message: dict[str, Json], index: int, reading: Reading) -> Step:
    """Return a Responses body, one step whatever its items; an item that says more stays whole."""
    items = [item_step(item, index, reading) for item in message["output"]]
    extra = rest(message, _RESPONSE - {"role"}) or {}
    if any(item.extra or item.results for item in items):
        extra["output"] = message["output"]
    return Step(
        index=index,
        actor="agent",
        kind="call" if any(item.calls for item in items) else "message",
        parts=tuple([part for item in items for part in item.parts]),
        calls=tuple([call for item in items for call in item.calls]),
        extra=extra or None,
    )


def _agent(step: Step, more: dict[str, Json]) -> Step:
    response = more.get("response")
    if not isinstance(response, dict):
        response = step.extra or {}
    calls = step.calls or _commands(step, more.get("actions"))
    start, cost = instant(more.get("timestamp")), _number(more.get("cost"))
    known = {"timestamp"} if start is not None else set()
    known |= {"cost"} if cost is not None else set()
    if _same(calls, more.get("actions")):
        known.add("actions")
    return msgspec.structs.replace(
        step,
        kind="call" if calls else step.kind,
        calls=calls,
        model=text_at(response, "model"),
        usage=openai_usage(response.get("usage")),
        cost_usd=cost,
        start=start,
        extra=_joined(step.extra, rest(more, frozenset(known))),
    )


def _other(step: Step, more: dict[str, Json]) -> Step:
    start = instant(more.get("timestamp"))
    extra = rest(more, frozenset() if start is None else frozenset({"timestamp"}))
    results = step.results
    judged = _told(more)
    if results and judged is not None:
        status, source, told = judged
        first = msgspec.structs.replace(results[0], status=status, source=source, error=told)
        results = (first, *results[1:])
    return msgspec.structs.replace(
        step, results=results, start=start, extra=_joined(step.extra, extra)
    )


def _told(more: dict[str, Json]) -> Judged | None:
    """Return what the harness says of a command, None where it says nothing."""
    failure, code = more.get("exception_info"), more.get("returncode")
    if isinstance(failure, str) and failure:
        return Judged("error", "explicit", failure[:200])
    if isinstance(code, int) and not isinstance(code, bool):
        told = f"return code {code}" if code else None
        return Judged("error" if code else "ok", "explicit", told)
    return None


def _number(value: Json) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and abs(value) < _MOST else None


def _commands(step: Step, actions: Json) -> tuple[ToolCall, ...]:
    if isinstance(actions, list):
        lines = [
            action.get("command") if isinstance(action, dict) else action for action in actions
        ]
    else:
        found = FENCE.findall(step.text)
        # Two commands, or none, were answered by a complaint and never ran.
        lines = [found[0].strip()] if len(found) == 1 else []
    return tuple([ToolCall(SHELL, {"command": line}) for line in lines if isinstance(line, str)])


def _same(calls: tuple[ToolCall, ...], actions: Json) -> bool:
    """Say whether the calls hold all that `actions` says."""
    return isinstance(actions, list) and actions == [
        {**call.arguments, **({} if call.id is None else {"tool_call_id": call.id})}
        for call in calls
        if isinstance(call.arguments, dict)
    ]


def _joined(one: dict[str, Json] | None, two: dict[str, Json] | None) -> dict[str, Json] | None:
    return {**(one or {}), **(two or {})} or None
