"""Read tau2 simulations: all in one file, or one a file beside the `results.json` of their tasks.

A task becomes the Case of its runs: the agent's reference actions, sub-goals for those that write
(with the arguments that tau2 compares), the texts that the user must be told. The actions are one
way of several unless `reward_basis` names ACTION. Reviews are a model's opinion, so they are no
labels and stay in `extra`. A run that infrastructure ended has no outcome. Voice runs that hold
only ticks are set aside.
Format: sierra-research/tau2-bench 1.0.1, `src/tau2/data_model/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepscope.effects import infer_effect
from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat, attempt, found, quarantine
from stepscope.formats.tau2_steps import tau2_step
from stepscope.formats.tau_bench import PASSING_REWARD
from stepscope.formats.times import instant
from stepscope.formats.tokens import total
from stepscope.model import (
    Case,
    Json,
    Outcome,
    Quarantined,
    ReferenceCall,
    Source,
    Stream,
    SubGoal,
    Trajectory,
)
from stepscope.safety.limits import Limits

NAME = "tau2"
RESULTS = "results.json"
FOLDER = "simulations"
# How a run ends that tau2 itself leaves out of its figures.
NOT_EVALUABLE = frozenset({"infrastructure_error", "context_window_exceeded"})

# What the user of a task is told, as tau2 lists it.
_INSTRUCTIONS = (
    "domain",
    "reason_for_call",
    "known_info",
    "unknown_info",
    "task_instructions",
)
_SIMULATION = frozenset(
    "id task_id trial start_time end_time termination_reason agent_cost messages".split()
)


class _Action(msgspec.Struct, gc=False):
    name: str
    arguments: dict[str, Any] = {}
    requestor: str = "assistant"
    compare_args: list[str] | None = None


class _Criteria(msgspec.Struct, gc=False):
    actions: list[_Action] | None = None
    communicate_info: list[str] | None = None


class _Scenario(msgspec.Struct, gc=False):
    instructions: Any = None


class _Task(msgspec.Struct, gc=False):
    id: str | int
    user_scenario: _Scenario | None = None
    initial_state: dict[str, Any] | None = None
    evaluation_criteria: _Criteria | None = None


class _Reward(msgspec.Struct, gc=False):
    reward: float | None = None


class _Simulation(msgspec.Struct, gc=False):
    id: str
    task_id: str | int
    messages: list[Any] | None = None
    trial: int | None = None
    start_time: str | None = None
    end_time: str | None = None
    termination_reason: str | None = None
    agent_cost: float | None = None
    reward_info: _Reward | None = None


class _Around(NamedTuple):
    """What a results file says of all of its simulations; `told` is what it says beside tasks."""

    told: dict[str, Json] | None
    info: dict[str, Json]
    tasks: dict[str, dict[str, Json]]


_NOTHING = _Around(None, {}, {})
# The index repeats what the simulations say.
_LISTS = frozenset({"tasks", "simulations", "simulation_index"})


def _likeness(opening: Opening) -> float:
    record = opening.first("tasks") or opening.first("task_id", "termination_reason")
    if record is None:
        return 0.0
    if "task_id" in record:
        return 0.95 if record.keys() & {"messages", "ticks", "reward_info", "duration"} else 0.0
    info = record.get("info")
    ours = isinstance(info, dict) and {"agent_info", "environment_info"} & info.keys()
    listed = any(isinstance(record.get(key), list) for key in ("simulations", "simulation_index"))
    return 0.95 if ours or listed else 0.0


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    for record in found(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        value = record.value
        if not isinstance(value, dict) or "tasks" not in value:
            around = _beside(stream.uri, stream.limits)
            yield from attempt(record, partial(_runs, around=around, ordinals=ordinals))
            continue
        around, listed = _around(value), value.get("simulations")
        if not isinstance(listed, list):
            if listed is not None or "simulation_index" not in value:
                yield quarantine(
                    record, TraceError("`simulations` needs a list, or an index of it")
                )
            continue
        for simulation in listed:
            # One that cannot be read is set aside without the others.
            one = record._replace(value=simulation, raw=msgspec.json.encode(simulation))
            yield from attempt(one, partial(_runs, around=around, ordinals=ordinals))


def _around(value: Json) -> _Around:
    if not isinstance(value, dict):
        return _NOTHING
    info, tasks = value.get("info"), value.get("tasks")
    named = {
        str(task["id"]): task
        for task in (tasks if isinstance(tasks, list) else ())
        if isinstance(task, dict) and "id" in task
    }
    return _Around(rest(value, _LISTS), info if isinstance(info, dict) else {}, named)


def _beside(uri: str, limits: Limits) -> _Around:
    """Return what the results file says that a file of one simulation belongs to."""
    folder = Path(uri).parent
    path = folder.parent / RESULTS
    if uri == "-" or folder.name != FOLDER or not path.is_file():
        return _NOTHING
    return _results(str(path), path.stat().st_mtime_ns, limits)


@lru_cache(maxsize=1)
def _results(path: str, _changed: int, limits: Limits) -> _Around:
    # One file is asked for by each of its simulations in turn; its own faults are told when it
    # is imported itself.
    try:
        with Path(path).open("rb") as file:
            records = list(found(Stream(file, path, limits)))
    except OSError:
        return _NOTHING
    return _around(records[0].value) if records and isinstance(records[0], Found) else _NOTHING


def _runs(record: Found, *, around: _Around, ordinals: Ordinals) -> tuple[Trajectory]:
    value = record.value
    if not isinstance(value, dict):
        raise TraceError(f"a tau2 simulation is an object; found {str(value)[:60]!r}")
    run = msgspec.convert(value, _Simulation)
    if run.messages is None:
        held = "only ticks of a voice run" if value.get("ticks") else "none"
        raise TraceError(f"tau2 simulation {run.id!r} needs `messages`; found {held}")
    agent = around.info.get("agent_info")
    agent = agent if isinstance(agent, dict) else {}
    # Nothing of the results file enters the steps: a run is the same run without it.
    steps = tuple([tau2_step(item, at, record.limits) for at, item in enumerate(run.messages)])
    workflow, task = _domain(around.info), str(run.task_id)
    trial = None if run.trial is None else str(run.trial)
    known = {key for key in ("start_time", "end_time") if instant(value.get(key)) is None}
    extra = rest(value, _SIMULATION - known) or {}
    if around.told is not None:
        extra["results"] = around.told
    draft = Trajectory(
        id="",
        name="/".join([part for part in (workflow, task, trial) if part is not None]),
        steps=steps,
        source=Source(format=NAME, uri=record.uri, offset=record.offset, run_id=run.id),
        workflow=workflow,
        task=task,
        trial=trial,
        agent=text_at(agent, "implementation"),
        outcome=_outcome(run),
        termination=run.termination_reason,
        case=_case(around.tasks.get(task), workflow, task),
        usage=total([step for step in steps if step.actor == "agent"]),
        cost_usd=run.agent_cost,
        start=instant(run.start_time),
        end=instant(run.end_time),
        extra=extra or None,
    )
    return (finish(draft, ordinals, limits=record.limits, repairs=record.repairs),)


def _domain(info: dict[str, Json]) -> str:
    environment = info.get("environment_info")
    domain = text_at(environment, "domain_name") if isinstance(environment, dict) else None
    return domain or NAME


def _outcome(run: _Simulation) -> Outcome:
    reward = None if run.reward_info is None else run.reward_info.reward
    if reward is None or run.termination_reason in NOT_EVALUABLE:
        return Outcome()
    passed = reward >= PASSING_REWARD
    return Outcome("pass" if passed else "fail", "reward", reward, f"reward {reward:g}")


def _case(task: dict[str, Json] | None, workflow: str, name: str) -> Case | None:
    if task is None:
        return None
    typed = msgspec.convert(task, _Task)
    criteria = typed.evaluation_criteria or _Criteria()
    actions = [action for action in criteria.actions or () if action.requestor != "user"]
    used: Counter[str] = Counter()
    subgoals = []
    for action in actions:
        if infer_effect(action.name) == "write":
            used[action.name] += 1
            nth = used[action.name]
            goal = action.name if nth == 1 else f"{action.name} {nth}"
            subgoals.append(SubGoal(goal, action.name, _compared(action)))
    reference = [ReferenceCall(action.name, action.arguments) for action in actions]
    return Case(
        workflow=workflow,
        task=name,
        request=None if typed.user_scenario is None else _told(typed.user_scenario.instructions),
        setup=typed.initial_state,
        subgoals=tuple(subgoals),
        outputs=tuple(criteria.communicate_info or ()),
        reference=None if criteria.actions is None else tuple(reference),
        extra=rest(task, frozenset({"id", "initial_state"})),
    )


def _compared(action: _Action) -> dict[str, Json]:
    if action.compare_args is None:
        return action.arguments
    return {key: value for key, value in action.arguments.items() if key in action.compare_args}


def _told(instructions: Json) -> str | None:
    """Return what the user was told to want: a text, or the texts of its parts."""
    if isinstance(instructions, dict):
        # tau2's own order, then the alphabet's: that of the keys in the file says nothing.
        parts = [*_INSTRUCTIONS, *sorted(instructions.keys() - set(_INSTRUCTIONS))]
        told = [instructions[part] for part in parts if isinstance(instructions.get(part), str)]
        return "\n".join(told) or None
    return instructions if isinstance(instructions, str) else None


FORMAT = PlainFormat(NAME, _likeness, _read)
