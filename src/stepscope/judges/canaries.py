"""Canaries: short runs with known answers, judged among the others, that watch the judge.

The runs are written by hand in `canaries/*.toml`. A judge that misses a canary of a rubric has its
answers to that rubric set aside. Records of canaries never enter a store.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stepscope import model
from stepscope.judges.goals import Goal, Goals
from stepscope.judges.rubrics import Rubric
from stepscope.values import Unmeasured

CANARIES_FOLDER = Path(__file__).with_name("canaries")
# The source format of runs that nobody made.
CANARY_FORMAT = "known"


class _Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: somebody's words, calls, or what came back, each answering the oldest open call."""

    system: str | None = None
    user: str | None = None
    agent: str | None = None
    calls: tuple[model.ToolCall, ...] = ()
    result: str | None = None
    error: str | None = None


class ExpectedAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rubric must answer about a run."""

    rubric: str  # its name
    # labels of the whole run, any of which is right; empty where none is asked for
    label: tuple[str, ...] = ()
    cites: tuple[int, ...] = ()  # steps of which at least one must be cited
    # index of a step -> the labels of which it must have one
    steps: dict[int, tuple[str, ...]] = msgspec.field(default_factory=dict)
    goal: str = ""  # for scores, the sub-goal ..
    at: int = 0  # ... and the step of the agent that is scored against it,
    low: float = 0.0  # and the least
    high: float = 1.0  # and the greatest score that is right
    whose: str = ""  # for attributions, whose failure it was


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRun:
    """One run and what is known of it."""

    trajectory: model.Trajectory  # the run; its id names the file and the run ("canary:misread")
    expected: Mapping[str, ExpectedAnswer]  # by rubric

    @property
    def goals(self) -> Goals:
        """The sub-goals that scores of this run are asked by."""
        scored = [one for one in self.expected.values() if one.goal]
        goals = tuple(Goal(goal=one.goal, steps=(one.at,), confirmed=True) for one in scored)
        return Goals(CANARY_FORMAT, {self.trajectory.name: goals}, {})


@lru_cache
def load_known_runs(file: str) -> tuple[CanaryRun, ...]:
    """Return the runs of one of our files: "canary", "domains" or "worked"."""
    held = tomllib.loads((CANARIES_FOLDER / f"{file}.toml").read_text(encoding="utf-8"))
    return tuple(_make_canary_run(file, run) for run in held["run"])


def worked_run() -> CanaryRun:
    """Return the worked run: a whole order cancelled for one item, its refund misreported."""
    (one,) = load_known_runs("worked")
    return one


def answer_differences(wanted: ExpectedAnswer, said: Iterable[model.Answer]) -> tuple[str, ...]:
    """Return how answers of one rubric differ from what is known, in words; none where they hold.

    Answers that are Unmeasured differ in nothing: a judge that declines has not been wrong.
    """
    return tuple(_difference_words(wanted, [one for one in said if isinstance(one, model.Verdict)]))


def _difference_words(expected: ExpectedAnswer, said: Iterable[model.Verdict]) -> Iterator[str]:
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


def _make_canary_run(file: str, run: Mapping[str, model.Json]) -> CanaryRun:
    # Keys of TOML are texts, also where they are indexes of steps.
    expects = msgspec.convert(run["expects"], tuple[ExpectedAnswer, ...], strict=False)
    tools = tuple(model.ToolDef(name, text) for name, text in run.get("tools", {}).items())
    failed = run.get("failed")
    trajectory = model.Trajectory(
        id=f"{file}:{run['name']}",
        name=f"{file}/{run['name']}",
        steps=tuple(_make_steps(msgspec.convert(run["steps"], tuple[_Step, ...]))),
        source=model.Source(format=CANARY_FORMAT),
        workflow=file,
        task=run["name"],
        tools=tools or None,
        outcome=model.Outcome("fail", "check", 0.0, failed) if failed else model.Outcome(),
    )
    return CanaryRun(trajectory=trajectory, expected={one.rubric: one for one in expects})


def _make_steps(written: Iterable[_Step]) -> Iterator[model.Step]:
    open_calls: list[str] = []
    for index, step in enumerate(written):
        if step.result is not None or step.error is not None:
            answer = model.ToolResult(
                call_id=open_calls.pop(0),
                parts=(model.Part("text", step.result if step.error is None else step.error),),
                status="ok" if step.error is None else "error",
                source="explicit",
                error=step.error,
            )
            yield model.Step(index=index, actor="environment", kind="result", results=(answer,))
        elif step.user is not None:
            yield model.Step(index=index, actor="user", parts=(model.Part("text", step.user),))
        elif step.system is not None:
            yield model.Step(index=index, actor="system", parts=(model.Part("text", step.system),))
        else:
            calls = tuple(
                msgspec.structs.replace(call, id=f"call_{index}_{place}")
                for place, call in enumerate(step.calls)
            )
            open_calls += [call.id for call in calls if call.id is not None]
            yield model.Step(
                index=index,
                actor="agent",
                kind="call" if calls else "message",
                parts=() if step.agent is None else (model.Part("text", step.agent),),
                calls=calls,
            )


# Runs of one service agent, and runs of other domains and shapes.
CANARY_FILES = ("canary", "domains")
CANARY_MISSED = "canary_missed"


class CanaryResult(NamedTuple):
    """How one judge did on one canary by one rubric."""

    judge: str  # as its records name it, without the snapshot
    rubric: str  # name of the rubric
    canary: str  # id of the run
    repeat: int  # which asking, from 0
    said: Literal["held", "missed", "unanswered"]  # whether it was right, wrong, or gave no answer
    what: str = ""  # what was wrong, in words


def load_canaries() -> list[CanaryRun]:
    """Return the canaries of all rubrics."""
    return [one for file in CANARY_FILES for one in load_known_runs(file)]


def rubric_canaries(rubric: Rubric) -> tuple[CanaryRun, ...]:
    """Return the canaries that a rubric is asked of: two or more of ours, none of a user's own."""
    return tuple(one for one in load_canaries() if rubric.name in one.expected)


def canary_results(records: Iterable[model.Record]) -> tuple[CanaryResult, ...]:
    """Return how judges did on the canaries among the runs of these records, sorted."""
    runs = {one.trajectory.id: one for one in load_canaries()}
    answers: dict[tuple[str, str, str, int], list[model.Record]] = {}
    for record in records:
        if record.trajectory in runs and record.rubric in runs[record.trajectory].expected:
            key = (_record_judge(record), record.rubric, record.trajectory, record.repeat)
            answers.setdefault(key, []).append(record)
    return tuple(_canary_result(key, answers[key], runs[key[2]]) for key in sorted(answers))


def missed_canaries(records: Iterable[model.Record]) -> tuple[CanaryResult, ...]:
    """Return the canaries that were answered wrongly."""
    return tuple(one for one in canary_results(records) if one.said == "missed")


def quarantine_missed(
    records: Iterable[model.Record], misses: Iterable[CanaryResult]
) -> Iterator[model.Record]:
    """Yield records with the verdicts of judges that missed a canary of their rubric set aside.

    The records keep their provenance, usage and cost; only their answers become Unmeasured.
    """
    said: dict[tuple[str, str], str] = {}
    for miss in misses:
        said.setdefault((miss.judge, miss.rubric), f"{CANARY_MISSED}: {miss.canary}: {miss.what}")
    for record in records:
        reason = said.get((_record_judge(record), record.rubric))
        answer = record.answer
        if reason is None or not isinstance(answer, model.Verdict):
            yield record
            continue
        absent = Unmeasured("invalid_evidence", reason, answer.measure, answer.step)
        yield msgspec.structs.replace(record, answer=absent)


def _canary_result(
    key: tuple[str, str, str, int], records: Iterable[model.Record], run: CanaryRun
) -> CanaryResult:
    answers = [record.answer for record in records]
    wrong = answer_differences(run.expected[key[1]], answers)
    if wrong:
        return CanaryResult(*key, "missed", "; ".join(wrong))
    answered = any(isinstance(answer, model.Verdict) for answer in answers)
    return CanaryResult(*key, "held" if answered else "unanswered")


def _record_judge(record: model.Record) -> str:
    return record.judge.partition("@")[0]
