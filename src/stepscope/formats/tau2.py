"""Read tau2 simulations: all in one file, or one a file beside the `results.json` of their tasks.

A task becomes the Case of its runs: the agent's reference actions, sub-goals for those that write
(with the arguments that tau2 compares), the texts that the user must be told. The actions are one
way of several unless `reward_basis` names ACTION. Reviews are a model's opinion, so they are no
labels and stay in `extra`. A run that infrastructure ended has no outcome. One message is one step;
users call tools too, and a tool says itself whether it failed. Cost and tokens of a user's message
are the simulator's and stay in `extra`. Voice runs that hold only ticks are set aside.
Format: sierra-research/tau2-bench 1.0.1, `src/tau2/data_model/`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.fields import ToolStatus
from stepscope.formats.finish import Ordinals, reward_outcome
from stepscope.formats.format import (
    DecodedRecord,
    FileFormat,
    attempt,
    convert_record,
    decode_records,
    quarantine_record,
)
from stepscope.formats.opening import Opening
from stepscope.model import (
    Case,
    Json,
    Outcome,
    Part,
    Quarantined,
    ReferenceCall,
    Step,
    Stream,
    ToolCall,
    ToolResult,
    Trajectory,
)
from stepscope.safety.limits import Limits, open_file

_QUOTE_LENGTH = 200
_SPEECH_KEYS = frozenset({"role", "content", "tool_calls", "turn_idx", "timestamp"})
_COST_KEYS = frozenset({"cost", "usage"})
_RESULT_KEYS = frozenset({"role", "id", "content", "error", "turn_idx", "timestamp"})
_MULTI_RESULT_KEYS = frozenset({"role", "tool_messages", "turn_idx", "timestamp"})
_CALL_KEYS = frozenset({"id", "name", "arguments", "requestor"})


class _Call(msgspec.Struct, gc=False):
    name: str
    arguments: Any = None
    id: str | None = None
    requestor: Literal["user", "assistant"] = "assistant"
    compare_args: list[str] | None = None  # of a reference action: what of it tau2 compares

    @property
    def given(self) -> dict[str, Json]:
        """The arguments of a reference action."""
        return self.arguments if isinstance(self.arguments, dict) else {}


class _Message(msgspec.Struct, gc=False):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[Any] | None = None
    id: str | None = None
    error: bool | None = None
    cost: float | None = None
    tool_messages: list[Any] | None = None


def tau2_step(message: Json, index: int, limits: Limits) -> Step:
    """Return one message as the step at `index`."""
    if type(message) is not dict:
        raise TraceError(f"message {index} is {str(message)[:60]!r}; expected an object")
    said = msgspec.convert(message, _Message)
    if said.role == "tool":
        step = _result_step(message, index)
    else:
        step = _speech_step(message, said, index, limits)
    if said.role == "assistant":
        model = fields.text_at(fields.object_at(message, "raw_data"), "model")
        usage = fields.openai_usage(message.get("usage"))
        step = msgspec.structs.replace(step, model=model, usage=usage, cost_usd=said.cost)
    start = fields.parse_time(message.get("timestamp"))
    extra = {**(step.extra or {})}
    if step.usage is not None and (beside := fields.uncounted_usage(message.get("usage"))):
        extra["usage"] = beside
    if start is None and message.get("timestamp") is not None:
        extra["timestamp"] = message["timestamp"]
    turn = message.get("turn_idx")
    if turn is not None and turn != index:
        extra["turn_idx"] = turn
    return msgspec.structs.replace(step, start=start, extra=extra or None)


def _speech_step(message: dict[str, Json], said: _Message, index: int, limits: Limits) -> Step:
    calls: list[ToolCall] = []
    for call in said.tool_calls or ():
        typed = msgspec.convert(call, _Call)
        extra, own = fields.rest(call, _CALL_KEYS), typed.id or None
        made = fields.parse_call(typed.name, typed.arguments, own, limits=limits, extra=extra)
        users = typed.requestor == "user"
        calls.append(msgspec.structs.replace(made, requestor="user") if users else made)
    ours, usage, known = said.role == "assistant", message.get("usage"), _SPEECH_KEYS
    if ours and (usage is None or fields.openai_usage(usage)):
        known |= _COST_KEYS
    return Step(
        index=index,
        actor="agent" if ours else "user" if said.role == "user" else "system",
        kind="call" if calls else "message",
        parts=(Part("text", said.content),) if said.content else (),
        calls=tuple(calls),
        extra=fields.rest(message, known),
    )


def _result_step(message: dict[str, Json], index: int) -> Step:
    """Return a tool's message, or the several that answer calls made at once, as one step."""
    many = message.get("tool_messages")
    results = tuple([_tool_result(each) for each in ([message] if many is None else many)])
    extra = None if many is None else fields.rest(message, _MULTI_RESULT_KEYS)
    return Step(index=index, actor="environment", kind="result", results=results, extra=extra)


def _tool_result(message: Json) -> ToolResult:
    typed = msgspec.convert(message, _Message)
    text = typed.content or ""
    judged = fields.UNKNOWN_STATUS
    if typed.error is not None:
        quoted = text[:_QUOTE_LENGTH] if typed.error else None
        judged = ToolStatus("error" if typed.error else "ok", "explicit", quoted)
    parts = (Part("text", text),) if text else ()
    extra = fields.rest(message, _RESULT_KEYS)
    return ToolResult(typed.id or None, None, parts, None, *judged, extra=extra)


NAME = "tau2"
RESULTS = "results.json"
FOLDER = "simulations"
# How a run ends that tau2 itself leaves out of its figures.
NOT_EVALUABLE = frozenset({"infrastructure_error", "context_window_exceeded"})

# What the user of a task is told, as tau2 lists it.
_INSTRUCTIONS = "domain reason_for_call known_info unknown_info task_instructions".split()


class _Task(msgspec.Struct, gc=False):
    id: str | int
    user_scenario: dict[str, Any] | None = None
    initial_state: dict[str, Any] | None = None
    evaluation_criteria: dict[str, Any] | None = None


class _Simulation(msgspec.Struct, gc=False):
    id: str
    task_id: str | int
    messages: list[Any] | None = None
    trial: int | None = None
    start_time: str | None = None
    end_time: str | None = None
    termination_reason: str | None = None
    agent_cost: float | None = None
    reward_info: dict[str, Any] | None = None


_SIMULATION_KEYS = frozenset(_Simulation.__struct_fields__) - {"reward_info"}
# The index repeats what the simulations say.
_LIST_KEYS = frozenset({"tasks", "simulations", "simulation_index"})


def _likeness(opening: Opening) -> float:
    record = opening.first("tasks") or opening.first("task_id", "termination_reason")
    if record is None:
        return 0.0
    if "task_id" in record:
        return 0.95 if record.keys() & {"messages", "ticks", "reward_info", "duration"} else 0.0
    ours = {"agent_info", "environment_info"} & fields.object_at(record, "info").keys()
    listed = any(isinstance(record.get(key), list) for key in ("simulations", "simulation_index"))
    return 0.95 if ours or listed else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        value = record.value
        if not isinstance(value, dict) or "tasks" not in value:
            around: dict[str, Json] = {}
            # The results file that a file of one simulation belongs to.
            folder = Path(stream.uri).parent
            path = folder.parent / RESULTS
            if stream.uri != "-" and folder.name == FOLDER and path.is_file():
                around = _read_results(str(path), path.stat().st_mtime_ns, stream.limits)
            yield from attempt(record, partial(_runs, around=around, ordinals=ordinals))
            continue
        listed = value.get("simulations")
        if not isinstance(listed, list):
            if listed is not None or "simulation_index" not in value:
                yield quarantine_record(record, "`simulations` needs a list, or an index of it")
            continue
        for simulation in listed:
            # One that cannot be read is set aside without the others.
            one = record._replace(value=simulation, raw=msgspec.json.encode(simulation))
            yield from attempt(one, partial(_runs, around=value, ordinals=ordinals))


@lru_cache(maxsize=1)
def _read_results(path: str, _changed: int, limits: Limits) -> dict[str, Json]:
    # Each of its simulations asks for it in turn; its own faults are told when it is imported.
    try:
        with open_file(path) as file:
            first = next(decode_records(Stream(file, path, limits)), None)
    except OSError:
        return {}
    held = first.value if isinstance(first, DecodedRecord) else None
    return held if isinstance(held, dict) else {}


def _runs(one: DecodedRecord, *, around: dict[str, Json], ordinals: Ordinals) -> tuple[Trajectory]:
    """Return the run of a simulation; `around` is the results file that it is of."""
    value = fields.expect_object(one.value, "a tau2 simulation is an object")
    run, unexpected = convert_record(value, _Simulation)
    if run.messages is None or (not run.messages and value.get("ticks")):
        held = "only ticks of a voice run" if value.get("ticks") else "none"
        raise TraceError(f"tau2 simulation {run.id!r} needs `messages`; found {held}")
    # Nothing of the results file enters the steps: a run is the same run without it.
    steps = tuple([tau2_step(item, at, one.limits) for at, item in enumerate(run.messages)])
    info = fields.object_at(around, "info")
    workflow = fields.text_at(fields.object_at(info, "environment_info"), "domain_name") or NAME
    task = str(run.task_id)
    trial = None if run.trial is None else str(run.trial)
    known = {key for key in ("start_time", "end_time") if fields.parse_time(value.get(key)) is None}
    extra = fields.rest(value, _SIMULATION_KEYS - known) or {}
    if (told := fields.rest(around, _LIST_KEYS)) is not None:
        extra["results"] = told
    reward = msgspec.convert((run.reward_info or {}).get("reward"), float | None)
    outcome = reward_outcome(reward, fields.object_at(run.reward_info, "db_check").get("db_match"))
    draft = Trajectory(
        id="",
        name="/".join([part for part in (workflow, task, trial) if part is not None]),
        steps=steps,
        source=one.source(NAME, run.id),
        workflow=workflow,
        task=task,
        trial=trial,
        agent=fields.text_at(fields.object_at(info, "agent_info"), "implementation"),
        outcome=Outcome() if run.termination_reason in NOT_EVALUABLE else outcome,
        termination=run.termination_reason,
        case=_case(around.get("tasks"), workflow, task),
        usage=fields.total_usage([step for step in steps if step.actor == "agent"]),
        cost_usd=run.agent_cost,
        start=fields.parse_time(run.start_time),
        end=fields.parse_time(run.end_time),
        extra=extra or None,
    )
    return (one.finish(draft, ordinals, unexpected),)


def _case(tasks: Json, workflow: str, name: str) -> Case | None:
    """Return the task of a name as a case; of two tasks of one name the last counts."""
    listed = [task for task in tasks if isinstance(task, dict)] if isinstance(tasks, list) else []
    task = next((task for task in reversed(listed) if str(task.get("id", "")) == name), None)
    if task is None:
        return None
    typed = msgspec.convert(task, _Task)
    criteria = typed.evaluation_criteria or {}
    asked = msgspec.convert(criteria.get("actions"), list[_Call] | None)
    actions = [action for action in asked or () if action.requestor != "user"]
    compared = [
        {k: v for k, v in one.given.items() if one.compare_args is None or k in one.compare_args}
        for one in actions
    ]
    wanted = tuple([ReferenceCall(action.name, action.given) for action in actions])
    # What the user was told to want: a text, or the texts of its parts.
    request = (typed.user_scenario or {}).get("instructions")
    if isinstance(request, dict):
        # tau2's own order, then the alphabet's: that of the keys in the file says nothing.
        parts = [*_INSTRUCTIONS, *sorted(request.keys() - set(_INSTRUCTIONS))]
        request = "\n".join([request[p] for p in parts if isinstance(request.get(p), str)]) or None
    return Case(
        workflow=workflow,
        task=name,
        request=request if isinstance(request, str) else None,
        setup=typed.initial_state,
        subgoals=fields.sub_goals(zip([one.name for one in actions], compared, strict=True)),
        outputs=msgspec.convert(criteria.get("communicate_info") or (), tuple[str, ...]),
        reference=None if asked is None else wanted,
        extra=fields.rest(task, frozenset({"id", "initial_state"})),
    )


FORMAT = FileFormat(NAME, _likeness, _read)
