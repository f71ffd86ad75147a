"""Runs whose answers are known, written by hand: what a judge must get right to be believed.

A file of them is TOML: runs as short lists of steps, and for each run what rubrics must answer. The
answers are obvious on purpose; several allowed labels mean that careful people differ. One file
holds canaries (`stepscope.judges.canaries`), one the worked run: 26 steps, two faults, one of them
told away, on which any judge can be tried.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from stepscope.judges.goals import Goal, Goals
from stepscope.model import (
    Answer,
    Json,
    Outcome,
    Part,
    Source,
    Step,
    ToolCall,
    ToolDef,
    ToolResult,
    Trajectory,
    Verdict,
)

FOLDER = Path(__file__).with_name("known")
# The source format of runs that nobody made.
FORMAT = "known"


class _Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    tool: str
    arguments: dict[str, Json] = msgspec.field(default_factory=dict)


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: somebody's words, calls, or what came back, each answering the oldest open call."""

    system: str | None = None
    user: str | None = None
    agent: str | None = None
    calls: tuple[_Call, ...] = ()
    result: str | None = None
    error: str | None = None


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rubric must answer about a run.

    Attributes:
        rubric: its name.
        label: labels of the whole run, any of which is right; empty where none is asked for.
        cites: steps of which at least one must be cited.
        steps: index of a step -> the labels of which it must have one.
        goal: for scores, the sub-goal ...
        at: ... and the step that is scored against it,
        low: and the least
        high: and the greatest score that is right.
        whose: for attributions, whose failure it was.
    """

    rubric: str
    label: tuple[str, ...] = ()
    cites: tuple[int, ...] = ()
    steps: dict[int, tuple[str, ...]] = msgspec.field(default_factory=dict)
    goal: str = ""
    at: int = 0
    low: float = 0.0
    high: float = 1.0
    whose: str = ""


class _Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    steps: tuple[_Step, ...]
    expects: tuple[Expected, ...]
    tools: dict[str, str] = msgspec.field(default_factory=dict)
    failed: str = ""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: tuple[_Run, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One run and what is known of it.

    Attributes:
        trajectory: the run; its id names the file and the run ("canary:misread").
        expected: by rubric.
    """

    trajectory: Trajectory
    expected: Mapping[str, Expected]

    @property
    def goals(self) -> Goals:
        """The sub-goals that scores of this run are asked by."""
        goals = tuple(
            Goal(goal=one.goal, steps=(one.at,), confirmed=True)
            for one in self.expected.values()
            if one.goal
        )
        return Goals(FORMAT, {self.trajectory.name: goals}, {})


@lru_cache
def known(file: str) -> tuple[Known, ...]:
    """Return the runs of one of our files: "canary" or "worked"."""
    held = tomllib.loads((FOLDER / f"{file}.toml").read_text(encoding="utf-8"))
    # Keys of TOML are texts, also where they are indexes of steps.
    return tuple(_known(file, one) for one in msgspec.convert(held, _File, strict=False).run)


def worked_checks() -> Known:
    """Return the worked run: a whole order cancelled for one item, its refund misreported."""
    (one,) = known("worked")
    return one


def differences(expected: Expected, answers: Iterable[Answer]) -> tuple[str, ...]:
    """Return how answers of one rubric differ from what is known, in words; none where they hold.

    Answers that are Unmeasured differ in nothing: a judge that declines has not been wrong.
    """
    return tuple(_differences(expected, [one for one in answers if isinstance(one, Verdict)]))


def _differences(expected: Expected, said: Iterable[Verdict]) -> Iterator[str]:
    for verdict in said:
        label = verdict.label or ""
        if verdict.step is None and verdict.measure.endswith(".whose"):
            if expected.whose and label != expected.whose:
                yield f"says {label} failed, it was the {expected.whose}"
        elif verdict.step is None:
            if expected.label and label not in expected.label:
                yield f"says {label}, it is {' or '.join(expected.label)}"
            elif expected.cites and not set(expected.cites) & set(verdict.cites):
                yield f"cites {_listed(verdict.cites)}, it shows at {_listed(expected.cites)}"
        elif expected.goal:
            value = verdict.value
            if value is not None and not expected.low <= value <= expected.high:
                yield f"scores {value:g}, it is {expected.low:g} to {expected.high:g}"
        elif label not in expected.steps.get(verdict.step, (label,)):
            right = " or ".join(expected.steps[verdict.step])
            yield f"says {label} of step {verdict.step}, it is {right}"


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(map(str, steps)) or "nothing"


def _known(file: str, run: _Run) -> Known:
    trajectory = Trajectory(
        id=f"{file}:{run.name}",
        name=f"{file}/{run.name}",
        steps=tuple(_steps(run.steps)),
        source=Source(format=FORMAT),
        workflow=file,
        task=run.name,
        tools=tuple(ToolDef(name, text) for name, text in run.tools.items()) or None,
        outcome=Outcome("fail", "check", 0.0, run.failed) if run.failed else Outcome(),
    )
    return Known(trajectory=trajectory, expected={one.rubric: one for one in run.expects})


def _steps(written: Iterable[_Step]) -> Iterator[Step]:
    open_calls: list[str] = []
    for index, step in enumerate(written):
        if step.result is not None or step.error is not None:
            text = step.result if step.error is None else step.error
            answer = ToolResult(
                call_id=open_calls.pop(0),
                parts=(Part("text", text),),
                status="ok" if step.error is None else "error",
                source="explicit",
                error=step.error,
            )
            yield Step(index=index, actor="environment", kind="result", results=(answer,))
        elif step.user is not None:
            yield Step(index=index, actor="user", parts=(Part("text", step.user),))
        elif step.system is not None:
            yield Step(index=index, actor="system", parts=(Part("text", step.system),))
        else:
            calls = tuple(
                ToolCall(call.tool, call.arguments, f"call_{index}_{place}")
                for place, call in enumerate(step.calls)
            )
            open_calls += [call.id for call in calls if call.id is not None]
            parts = () if step.agent is None else (Part("text", step.agent),)
            yield Step(
                index=index,
                actor="agent",
                kind="call" if calls else "message",
                parts=parts,
                calls=calls,
            )
