"""Sub-goals that single steps are scored against: `goals.toml`, written before the scores.

A goal is one sentence and the steps that it covers, of one run or of every run of a task. Drafts
come from a case's sub-goals; a person reads them, mends sentences and steps, and confirms. A run
with a goal that nobody confirmed is not judged: a curve over the wrong steps would look like any
other.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from stepscope.errors import ConfigError
from stepscope.judges.rubrics import one_line
from stepscope.model import Case, Exchange, SubGoal, Trajectory
from stepscope.safety.limits import read_file
from stepscope.values import Unmeasured

# Larger ones were not written by people.
MOST_BYTES = 4 * 1024 * 1024

_encode = msgspec.json.encode


class Goal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sub-goal."""

    goal: str  # one sentence that says when the step has done its part; all that the judge is told
    steps: tuple[int, ...] = ()  # indexes of the steps that are scored against it, each by itself
    confirmed: bool = False  # whether a person has read it beside a run


class RunGoals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The goals of one run, by its name, `[[run]]`."""

    name: str
    goals: tuple[Goal, ...]


class TaskGoals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The goals of every run of a task whose steps always come in the same order, `[[task]]`."""

    workflow: str
    task: str
    goals: tuple[Goal, ...]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: tuple[RunGoals, ...] = ()
    task: tuple[TaskGoals, ...] = ()


@dataclass(frozen=True, slots=True)
class Goals:
    """All goals of a file."""

    where: str  # the file, for messages
    runs: Mapping[str, tuple[Goal, ...]]  # name of a run -> its goals
    # workflow and task -> the goals of all its runs
    tasks: Mapping[tuple[str, str], tuple[Goal, ...]]

    def of(self, trajectory: Trajectory) -> tuple[Goal, ...] | Unmeasured:
        """Return the goals of a run, its own before its task's; Unmeasured says what is missing."""
        found = self.runs.get(trajectory.name)
        if found is None and trajectory.task is not None:
            found = self.tasks.get((trajectory.workflow, trajectory.task))
        if not found:
            return _absent(f"no_goals: {self.where} has none for {trajectory.name}")
        open_ = [goal for goal in found if not goal.confirmed]
        if open_:
            return _absent(
                f"unconfirmed: {len(open_)} of {len(found)} goals of {trajectory.name} in "
                f"{self.where}; read them beside the run, mend their steps, set confirmed = true"
            )
        for goal in found:
            beyond = [step for step in goal.steps if step >= len(trajectory.steps)]
            if beyond:
                return _absent(
                    f"no_step: {self.where} covers step {beyond[0]} of {trajectory.name}, which "
                    f"has {len(trajectory.steps)} steps from 0"
                )
        return found


def load_goals(path: Path) -> Goals:
    """Return the goals of a file.

    Raises:
        ConfigError: it cannot be read or is no TOML, a key is unknown, two entries are of one run
            or task, a goal is empty, a confirmed one covers no step, or two cover the same step.
    """
    where = str(path)
    try:
        held = msgspec.convert(_table(path), _File)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {one_line(e)}; expected [[run]] or [[task]]") from e
    runs = [(one.name, one.goals) for one in held.run]
    tasks = [((one.workflow, one.task), one.goals) for one in held.task]
    for key, goals in (*runs, *tasks):
        of = key if isinstance(key, str) else "/".join(key)
        for wrong in _complaints(goals):
            raise ConfigError(f"{where}: goals of {of}: {wrong}")
    found = Goals(where, dict(runs), dict(tasks))
    if len(found.runs) < len(runs) or len(found.tasks) < len(tasks):
        names = [one.name for one in held.run] + [f"{one.workflow}/{one.task}" for one in held.task]
        doubled = max(names, key=names.count)
        raise ConfigError(f"{where}: two entries for {doubled!r}; put their goals into one")
    return found


def propose_goals(trajectory: Trajectory, case: Case) -> tuple[Goal, ...] | Unmeasured:
    """Return a draft of a run's goals: one for each sub-goal of the case, none of them confirmed.

    Each covers the step of the first call that meets it and that no goal before it took; a sub-goal
    that no call meets covers no step, which a person has to settle.
    """
    if not case.subgoals:
        return Unmeasured("not_applicable", "no_goals: the case has no sub-goals to draft from")
    free = [
        exchange
        for exchange in trajectory.exchanges
        if exchange.call.requestor == "agent"
        and exchange.result is not None
        and not exchange.failed
    ]
    drafted: list[Goal] = []
    covered: set[int] = set()
    for subgoal in case.subgoals:
        taken = next((one for one in free if _meets(one, subgoal)), None)
        steps: tuple[int, ...] = ()
        if taken is not None:
            free.remove(taken)
            # Of two calls in one step the second leaves it to the first: a step has one score.
            steps = () if taken.step in covered else (taken.step,)
            covered.add(taken.step)
        told = ", ".join(f"{name} {_encode(v).decode()}" for name, v in subgoal.arguments.items())
        named = f"{subgoal.name}: c" if subgoal.name != subgoal.tool else "C"
        drafted.append(
            Goal(
                goal=(f"{named}alls {subgoal.tool}" + (f" with {told}." if told else ".")),
                steps=steps,
            )
        )
    return tuple(drafted)


def goals_toml(drafts: Iterable[tuple[str, tuple[Goal, ...]]]) -> str:
    """Return the text of a goals file with one `[[run]]` for each name and its goals."""
    return "\n".join(line for name, goals in drafts for line in _lines(name, goals))


def _lines(name: str, goals: Iterable[Goal]) -> Iterator[str]:
    yield f"[[run]]\nname = {_quoted(name)}\n"
    for goal in goals:
        yield "[[run.goals]]"
        yield f"goal = {_quoted(goal.goal)}"
        yield f"steps = [{', '.join(map(str, goal.steps))}]"
        yield f"confirmed = {'true' if goal.confirmed else 'false'}\n"


def _quoted(text: str) -> str:
    """Return a text as a basic string of TOML: JSON's strings are, but for the character DEL."""
    return _encode(text).decode().replace("\x7f", "\\u007f")


def _table(path: Path) -> Mapping[str, Any]:
    try:
        data = read_file(path, MOST_BYTES + 1)
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    if len(data) > MOST_BYTES:
        raise ConfigError(f"{path}: larger than {MOST_BYTES} bytes; split it by workflow")
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as e:
        raise ConfigError(f"{path}: not TOML in UTF-8: {one_line(e)}") from e


def _complaints(goals: tuple[Goal, ...]) -> Iterator[str]:
    covered: set[int] = set()
    for number, goal in enumerate(goals, 1):
        if not goal.goal.strip():
            yield f"number {number} has no sentence"
        if goal.confirmed and not goal.steps:
            yield f"number {number} is confirmed and covers no step; give its steps or take it out"
        for step in goal.steps:
            if step < 0:
                yield f"number {number} covers step {step}; steps count from 0"
            if step in covered:
                yield f"number {number} covers step {step}, which another covers; a step has one"
            covered.add(step)


def _meets(exchange: Exchange, subgoal: SubGoal) -> bool:
    given = exchange.call.arguments
    if exchange.call.name != subgoal.tool:
        return False
    if not subgoal.arguments:
        return True
    return isinstance(given, dict) and all(
        name in given
        and given[name] == value
        and isinstance(given[name], bool) is (type(value) is bool)
        for name, value in subgoal.arguments.items()
    )


def _absent(reason: str) -> Unmeasured:
    return Unmeasured("missing_input", reason)
