"""Read mini-swe-agent: `trajectory_format` 1 and 1.1, and older bare lists of its messages.

One file is one run. Every command is a call of `bash`; a submission is no success, so the outcome
stays unknown. A command stands in a tool call, in `extra.actions`, or in the one fence of an
answer; without a tool call the user's next message is its result. A return code beside a message is
what the harness says of the command; read out of a message's text it is a guess. A bare list is
known by its fenced commands, whose answers tell a return code; a chat in which code is only shown
stays a chat. Refuses what OpenAI's API refuses.
Format: SWE-agent/mini-swe-agent, `agents/default.py`, `models/utils/actions_*.py`, its test files.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat import messages as chat
from stepscope.formats.chat.response_items import OUTPUT_TYPES, item_step
from stepscope.formats.fields import ModelStats, SweAgentInfo, ToolStatus
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import DecodedRecord, UnexpectedKeys, convert_record, message_format
from stepscope.formats.opening import Opening
from stepscope.model import Json, Step, ToolCall, ToolResult, Trajectory
from stepscope.safety.limits import Limits

SHELL = "bash"
EXIT = "exit"
# How a run ends that the agent itself ended: its last command was carried out.
SUBMITTED = "Submitted"
# Beyond this no cost in USD is one, and no whole number is safe as a float.
_MAX_USD = 1e12
_RESPONSE_KEYS = frozenset({"object", "output", "extra", "role"})


def infer_observation_status(text: str) -> ToolStatus:
    """Return what an observation's text says of itself: its return code, else what texts say."""
    code = chat.RETURNED.match(text)
    if code is None:
        return fields.infer_text_status(text)
    return fields.error_status(text) if int(code[1]) else ToolStatus("ok", "heuristic", None)


def mini_step(message: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`; results without a call id are paired later."""
    if type(message) is not dict:
        raise TraceError(f"message {index} is {str(message)[:60]!r}; expected an object")
    reading = chat.MessageOptions(infer_observation_status, limits)
    more = message.get("extra")
    if more is not None and type(more) is not dict:
        raise TraceError(f"message {index}: `extra` is {str(more)[:60]!r}; expected an object")
    bare = {key: value for key, value in message.items() if key != "extra"}
    if bare.get("object") == "response" and isinstance(bare.get("output"), list):
        items = [item_step(item, index, reading) for item in bare["output"]]
        extra = fields.rest(bare, _RESPONSE_KEYS - {"role"}) or {}
        if any(item.extra or item.results for item in items):
            extra["output"] = bare["output"]
        step = Step(
            index=index,
            actor="agent",
            kind="call" if any(item.calls for item in items) else "message",
            parts=tuple([part for item in items for part in item.parts]),
            calls=tuple([call for item in items for call in item.calls]),
            extra=extra or None,
        )
    elif bare.get("role") == EXIT:
        plain = {key: value for key, value in bare.items() if key not in {"role", "content"}}
        parts = chat.content_parts(bare.get("content"), index)
        step = Step(index=index, actor="environment", parts=parts, extra={"role": EXIT, **plain})
    elif fields.text_at(bare, "type") in OUTPUT_TYPES:
        step = item_step(bare, index, reading)
    else:
        step = chat.chat_step(bare, index, reading)
    complete = _complete_agent_step if step.actor == "agent" else _complete_other_step
    return complete(step, more or {})


def pair_answers(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with every message that answers a command as its result."""
    waiting: list[ToolCall] = []
    made: list[Step] = []
    for step in steps:
        if step.actor == "agent":
            waiting = list(step.calls)
        elif step.results:
            waiting = [call for call in waiting if call.id != step.results[0].call_id]
        elif waiting and _answers(step, waiting[0]):
            call, extra = waiting.pop(0), step.extra or {}
            said = infer_observation_status("\n".join([p.text for p in step.parts if p.text]))
            ended = extra.get("role") == EXIT
            judged = ToolStatus("ok", "protocol", None) if ended else _harness_status(extra) or said
            result = ToolResult(call.id, call.name, step.parts, None, *judged)
            step = replace(step, actor="environment", kind="result", parts=(), results=(result,))
        made.append(step)
    return tuple(made)


def _answers(step: Step, call: ToolCall) -> bool:
    extra = step.extra or {}
    if step.actor == "user":
        # A complaint about an answer, beside a call that was understood, would name its kind.
        return call.id is None and "interrupt_type" not in extra
    return extra.get("role") == EXIT and extra.get("exit_status") == SUBMITTED


def _complete_agent_step(step: Step, more: dict[str, Json]) -> Step:
    response, actions, cost = more.get("response"), more.get("actions"), more.get("cost")
    if not isinstance(response, dict):
        response = step.extra or {}
    calls = step.calls or _command_calls(step, actions)
    start = fields.parse_time(more.get("timestamp"))
    if not isinstance(cost, int | float) or isinstance(cost, bool) or abs(cost) >= _MAX_USD:
        cost = None
    said = [
        {**call.arguments, **({} if call.id is None else {"tool_call_id": call.id})}
        for call in calls
        if isinstance(call.arguments, dict)
    ]
    told = {"timestamp": start is not None, "cost": cost is not None, "actions": said == actions}
    known = frozenset([key for key, is_told in told.items() if is_told])
    return replace(
        step,
        kind="call" if calls else step.kind,
        calls=calls,
        model=fields.text_at(response, "model"),
        usage=fields.openai_usage(response.get("usage")),
        cost_usd=None if cost is None else float(cost),
        start=start,
        extra=fields.merge_extra(step.extra, fields.rest(more, known)),
    )


def _complete_other_step(step: Step, more: dict[str, Json]) -> Step:
    start = fields.parse_time(more.get("timestamp"))
    extra = fields.rest(more, frozenset(() if start is None else {"timestamp"}))
    results = step.results
    judged = _harness_status(more)
    if results and judged is not None:
        status, source, told = judged
        results = (replace(results[0], status=status, source=source, error=told), *results[1:])
    extra = fields.merge_extra(step.extra, extra)
    return replace(step, results=results, start=start, extra=extra)


def _harness_status(more: dict[str, Json]) -> ToolStatus | None:
    """Return what the harness says of a command, None where it says nothing."""
    failure, code = more.get("exception_info"), more.get("returncode")
    if isinstance(failure, str) and failure:
        return ToolStatus("error", "explicit", failure[:200])
    if isinstance(code, int) and not isinstance(code, bool):
        told = f"return code {code}" if code else None
        return ToolStatus("error" if code else "ok", "explicit", told)
    return None


def _command_calls(step: Step, actions: Json) -> tuple[ToolCall, ...]:
    if isinstance(actions, list):
        lines = [each.get("command") if isinstance(each, dict) else each for each in actions]
    else:
        found = chat.FENCE.findall(step.text)
        # Two commands, or none, were answered by a complaint and never ran.
        lines = [found[0].strip()] if len(found) == 1 else []
    return tuple([ToolCall(SHELL, {"command": line}) for line in lines if isinstance(line, str)])


NAME = "mini_swe_agent"
_RUN_KEYS = frozenset({"info", "messages", "trajectory_format", "instance_id"})
_INFO_KEYS = frozenset({"mini_version", "exit_status"})


class _Run(msgspec.Struct, gc=False):
    messages: list[Any]
    trajectory_format: str | None = None
    instance_id: str | None = None
    info: SweAgentInfo | None = None


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if isinstance(first, list) or (isinstance(first, dict) and "role" in first):
        listed = first if isinstance(first, list) else opening.records
        return 0.9 if chat.has_run_fences(listed) else 0.0
    if not isinstance(first, dict) or "messages" not in first:
        return 0.0
    if (fields.text_at(first, "trajectory_format") or "").startswith("mini-swe-agent"):
        return 1.0
    return 0.95 if "mini_version" in fields.object_at(first, "info") else 0.0


def _is_part(record: Json) -> bool:
    return not isinstance(record, list) and not (isinstance(record, dict) and "messages" in record)


def _read_record(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = found.value
    extra, unexpected = None, UnexpectedKeys({}, ())
    if isinstance(record, list):
        run = _Run(record)
    else:
        run, unexpected = convert_record(record, _Run)
        told = None if run.info is None else fields.rest(record["info"], _INFO_KEYS)
        beside = None if told is None else {"info": told}
        extra = fields.merge_extra(beside, fields.rest(record, _RUN_KEYS))
    steps = tuple([mini_step(message, at, found.limits) for at, message in enumerate(run.messages)])
    return (unexpected.keep_in(_finish_run(steps, found, ordinals, run, extra)),)


def _finish_run(
    steps: tuple[Step, ...],
    found: DecodedRecord,
    ordinals: Ordinals,
    run: _Run | None = None,
    extra: dict[str, Json] | None = None,
) -> Trajectory:
    run = run or _Run([])
    if not steps and run.info is None:
        raise TraceError("a run of mini-swe-agent has messages; found none")
    info = run.info or SweAgentInfo()
    model = fields.text_at(fields.object_at(info.config, "model"), "model_name")
    steps = tuple(
        replace(step, model=model)
        if model is not None and step.actor == "agent" and step.model is None
        else step
        for step in pair_answers(steps)
    )
    last = (steps[-1].extra if steps else None) or {}
    ending = fields.text_at(last, "exit_status") if last.get("role") == EXIT else None
    draft = Trajectory(
        id="",
        name=run.instance_id or "",
        steps=steps,
        source=found.source(NAME, version=run.trajectory_format),
        workflow=NAME,
        task=run.instance_id,
        agent="mini-swe-agent",
        agent_version=info.mini_version,
        termination=info.exit_status or ending,
        usage=fields.total_usage(steps),
        cost_usd=(info.model_stats or ModelStats()).cost_usd,
        extra=extra,
    )
    return found.finish(draft, ordinals)


FORMAT = message_format(
    NAME, _likeness, is_part=_is_part, step=mini_step, whole=_read_record, run=_finish_run
)
