"""Read tau-bench `historical_trajectories/*.json`: runs with reward, reference calls and trial.

One record is one run of one task. The file carries no times, tokens or agent cost; a tool error
shows only as text beginning `Error:`. What the run should have done becomes its Case: the
benchmark's actions are the reference, those that write are sub-goals, its outputs are texts that
the user must be told.
Format: sierra-research/tau-bench, `tau_bench/types.py`, `EnvRunResult`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from stepscope.formats.chat.messages import MessageOptions, chat_steps
from stepscope.formats.fields import (
    OK_STATUS,
    ToolStatus,
    error_status,
    expect_object,
    object_at,
    rest,
    sub_goals,
)
from stepscope.formats.finish import Ordinals, reward_outcome
from stepscope.formats.format import DecodedRecord, RecordFormat, convert_record, read_each
from stepscope.formats.opening import Opening
from stepscope.model import Case, Json, ReferenceCall, Step, Trajectory

NAME = "tau_bench"

_TITLE = re.compile(r"\s*#\s*(\w[\w -]*?) agent policy", re.IGNORECASE)
_RUN_KEYS = frozenset({"task_id", "reward", "info", "traj", "trial"})
_TASK_KEYS = frozenset({"user_id", "instruction", "actions", "outputs"})
_ACTION_KEYS = frozenset({"name", "kwargs"})


class _Task(msgspec.Struct, gc=False):
    instruction: str | None = None
    actions: list[dict[str, Any]] | None = None
    outputs: list[str] | None = None
    user_id: str | None = None


class _Run(msgspec.Struct, gc=False):
    traj: list[Any]
    task_id: int | str | None = None
    reward: float | None = None
    trial: int | str | None = None
    info: dict[str, Any] | None = None


def infer_tau_status(text: str) -> ToolStatus:
    """Return what tau-bench means by a tool's text: an error begins `Error:`, all else is well."""
    return error_status(text) if text.startswith("Error:") else OK_STATUS


def _likeness(opening: Opening) -> float:
    record = opening.first("task_id") or opening.first("traj")
    if record is None:
        return 0.0
    hits = sum(key in record for key in ("task_id", "reward", "info", "traj", "trial"))
    known = isinstance(object_at(record, "info").get("task"), dict)
    if "simulations" in record or "messages" in record:
        return 0.0
    return min(1.0, 0.2 * hits if known or "traj" in record else 0.05 * hits)


def _runs(found: DecodedRecord, ordinals: Ordinals) -> tuple[Trajectory]:
    record = expect_object(found.value, "a tau-bench run is an object")
    run, unexpected = convert_record(record, _Run)
    info = run.info
    steps = chat_steps(run.traj, MessageOptions(infer_tau_status, found.limits))
    workflow = _workflow(steps)
    task = None if run.task_id is None else str(run.task_id)
    trial = None if run.trial is None else str(run.trial)
    told = rest(info or {}, frozenset({"task"}))
    extra = {**({} if told is None else {"info": told}), **(rest(record, _RUN_KEYS) or {})}
    checked = object_at(object_at(info, "reward_info"), "info")
    draft = Trajectory(
        id="",
        name="/".join([part for part in (workflow, task, trial) if part is not None]),
        steps=steps,
        source=found.source(NAME),
        workflow=workflow,
        task=task,
        trial=trial,
        outcome=reward_outcome(run.reward, checked.get("r_actions")),
        case=_case(info, workflow, task),
        extra=extra or None,
    )
    return (found.finish(draft, ordinals, unexpected),)


def _workflow(steps: tuple[Step, ...]) -> str:
    told = steps[0].parts[0].text if steps and steps[0].actor == "system" and steps[0].parts else ""
    title = _TITLE.match(told or "")
    return NAME if title is None else title.group(1).lower().replace(" ", "-")


def _case(info: dict[str, Json] | None, workflow: str, task_id: str | None) -> Case | None:
    if info is None or info.get("task") is None or task_id is None:
        return None
    task = msgspec.convert(info["task"], _Task)
    actions = task.actions or []
    beside = [rest(action, _ACTION_KEYS) for action in actions]
    extra = rest(info["task"], _TASK_KEYS) or {}
    if any(beside):
        extra["actions"] = beside
    named = [{**each, "arguments": each.get("kwargs", {})} for each in actions]
    reference = msgspec.convert(named, tuple[ReferenceCall, ...])
    return Case(
        workflow=workflow,
        task=task_id,
        request=task.instruction,
        setup=None if task.user_id is None else {"user_id": task.user_id},
        subgoals=sub_goals((call.name, call.arguments) for call in reference),
        outputs=tuple(task.outputs or ()),
        reference=None if task.actions is None else reference,
        extra=extra or None,
    )


FORMAT = RecordFormat(NAME, _likeness, read_each(_runs))
