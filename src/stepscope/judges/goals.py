"""Sub-goals that exchanges are scored against: `goals.toml`, written before the scores.

A goal is one sentence and what finds its exchange in any run of a task: a tool with arguments, the
place of a message, the order of goals, or the step of another run that an alignment matches. Steps
by their numbers hold for the one run that they were read beside. Drafts come from a case's
sub-goals; a person reads and confirms them: a curve over the wrong steps would look like any other.
What several exchanges may be is found nowhere: the goal is then unmeasured, with the reason.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from stepscope import model
from stepscope.errors import ConfigError
from stepscope.judges.rubrics import one_line
from stepscope.safety.limits import read_file
from stepscope.values import Unmeasured

# Larger ones were not written by people.
MOST_BYTES = 4 * 1024 * 1024
# Two runs with more pairs of the agent's steps are not aligned: it would take seconds.
MOST_PAIRS = 250_000
# Words of a message, or arguments, by which steps are compared.
MOST_WORDS = 500
# Less alike, a step stands for no other; a second place nearly as good leaves open which.
LEAST_ALIKE, LEAST_AHEAD = 0.5, 0.15

_encode = msgspec.json.encode


class Goal(model.SubGoal, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One sub-goal of a file, with what finds its exchange."""

    goal: str  # one sentence that says when it is reached; all that the judge is told
    name: str = ""  # for `after` of others
    steps: tuple[int, ...] = ()  # of one run: the steps of its exchanges
    # whether a person has read it beside a run; judges score no other
    confirmed: bool | msgspec.UnsetType = msgspec.UNSET


class RunGoals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The goals of one run, by its name, `[[run]]`."""

    name: str
    goals: tuple[Goal, ...]


class ExpectedCall(model.ReferenceCall, frozen=True, forbid_unknown_fields=True):
    """A call that a run should make, with these arguments."""


class CaseRule(model.PolicyRule, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rule of conduct for one task."""


class CaseTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every run of a task is measured against, `[[task]]`; `judge --goals` reads its goals."""

    workflow: str = ""  # that of the settings that name the file, when left out
    task: str
    request: str | None = None  # what the user wants
    expected: tuple[str | ExpectedCall, ...] = ()  # calls; a name alone is one with any arguments
    goals: tuple[Goal, ...] = ()  # sub-goals; the writes among `expected` when left out
    order: Literal["ordered", "unordered", "dag"] = "unordered"  # that of the goals
    must_tell: tuple[str, ...] = ()  # texts that the agent must tell the user
    forbidden: tuple[str, ...] = ()  # tools that may not be called
    policy: tuple[CaseRule, ...] = ()  # rules of conduct
    tools: str | tuple[dict[str, Any], ...] = ()  # a file with the tool list, or the list
    weights: tuple[float, ...] | None = None  # 1, 2 or 3 for each scored step
    constraint: str = ""  # what a probe may tell the agent in so many words
    difficulty: str | None = None
    tags: dict[str, str] = {}


class GoalsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of cases and goals as written."""

    version: Literal[1, 2] = 1
    run: tuple[RunGoals, ...] = ()
    task: tuple[CaseTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Goals:
    """All goals of a file."""

    where: str  # the file, for messages
    runs: Mapping[str, tuple[Goal, ...]]  # name of a run -> its goals
    # workflow and task -> the goals of all its runs
    tasks: Mapping[tuple[str, str], tuple[Goal, ...]]
    # name of a run that `like` cites -> the run, where it is at hand
    cited: Mapping[str, model.Trajectory] = field(default_factory=dict)

    def citations(self) -> set[str]:
        """Return the names of the runs that goals cite."""
        every = (goals for held in (self.runs, self.tasks) for goals in held.values())
        return {goal.like.rpartition(":")[0] for goals in every for goal in goals if goal.like}

    def of(self, trajectory: model.Trajectory) -> tuple[tuple[str, Located], ...] | Unmeasured:
        """Return the sentences of a run's goals, each with its exchange or why it has none.

        Its own come before its task's, these before those that its case was written with.
        Unmeasured says why there are none.
        """
        found: Sequence[model.SubGoal] | None = self.runs.get(trajectory.name)
        if found is None and trajectory.task is not None:
            found = self.tasks.get((trajectory.workflow, trajectory.task))
        if not found and trajectory.case is not None:
            found = [goal for goal in trajectory.case.subgoals if goal.goal]
        if not found:
            return _absent(f"no_goals: {self.where} has none for {trajectory.name}")
        open_ = [goal for goal in found if isinstance(goal, Goal) and not goal.confirmed]
        if open_:
            return _absent(
                f"unconfirmed: {len(open_)} of {len(found)} goals of {trajectory.name} in "
                f"{self.where}; compare them with the run, correct how each is found, set "
                "confirmed = true"
            )
        located = locate_goals(trajectory, found, self.cited)
        return tuple(zip([goal.goal for goal in found], located, strict=True))


# Where no file was given: a case may have been written with goals.
NO_GOALS = Goals("the case; give a file of goals that people confirmed: it", {}, {})
# The steps of an agent's exchange, its own first; or why a goal has none in a run.
Located = tuple[int, ...] | Unmeasured


def exchange_steps(trajectory: model.Trajectory, step: int) -> tuple[int, ...]:
    """Return the step of an agent and those of the results of its calls, in order.

    Of the step of a result those of the exchange that it belongs to.
    """
    answers = {(x.step, x.result_step) for x in trajectory.exchanges if x.result_step is not None}
    if trajectory.steps[step].actor != "agent":
        step = next((asked for asked, answered in sorted(answers) if answered == step), step)
    return tuple(sorted({step, *(answered for asked, answered in answers if asked == step)}))


def locate_goals(
    trajectory: model.Trajectory,
    goals: Sequence[model.SubGoal],
    cited: Mapping[str, model.Trajectory],  # the runs that goals cite, by name
) -> tuple[Located, ...]:
    """Return for each goal the steps of its exchange in a run, or why it has none.

    Pure. A goal that waits for others is found behind them; an exchange serves one goal.
    """
    placed: dict[int, Located] = {}
    at_name = {goal.name: at for at, goal in enumerate(goals) if goal.name}
    waits = {at: {at_name[x] for x in goal.after if x in at_name} for at, goal in enumerate(goals)}
    # The first of two that nothing orders takes its exchange first.
    depth: dict[int, int] = {}
    try:
        for at in TopologicalSorter(waits).static_order():
            depth[at] = 1 + max((depth[one] for one in waits[at]), default=0)
    except CycleError:
        return (_absent("goals_in_a_cycle: goals of the case wait for each other"),) * len(goals)
    for at in sorted(depth, key=lambda at: (depth[at], at)):
        goal = goals[at]
        before = [placed[one] for one in sorted(waits[at])]
        lost = next((one for one in before if isinstance(one, Unmeasured)), None)
        if lost is not None:
            placed[at] = _absent(f"no_exchange: {goal.goal[:60]!r} waits for a goal without one")
            continue
        behind = max([one[0] for one in before if not isinstance(one, Unmeasured)], default=-1)
        taken = {one[0] for one in placed.values() if not isinstance(one, Unmeasured)}
        # Goals of one selector share its exchanges in order.
        same = [n for n, one in enumerate(goals) if _selector(one) == _selector(goal)]
        left = sum([not isinstance(placed.get(n), tuple) for n in same])
        steps = _locate(trajectory, goal, behind, taken, left, cited)
        if not isinstance(steps, Unmeasured) and steps[0] in taken:
            steps = _absent(f"no_exchange: step {steps[0]} serves a goal beside {goal.goal[:60]!r}")
        placed[at] = steps
    return tuple(placed[at] for at in range(len(goals)))


def _selector(goal: model.SubGoal) -> tuple[str, bytes, str, str, tuple[str, ...]]:
    given = _encode(goal.arguments, order="deterministic")
    return goal.tool, given, goal.message, goal.like, goal.after


def _locate(
    trajectory: model.Trajectory,
    goal: model.SubGoal,
    behind: int,
    taken: set[int],
    left: int,  # goals of this selector that have no exchange yet
    cited: Mapping[str, model.Trajectory],
) -> Located:
    numbered = goal.steps if isinstance(goal, Goal) else ()
    if numbered:
        beyond = [step for step in numbered if step >= len(trajectory.steps)]
        if beyond:
            what = f"{goal.goal[:60]!r} covers step {beyond[0]} of {trajectory.name}, which has"
            return _absent(f"no_step: {what} {len(trajectory.steps)} steps from 0")
        return tuple(sorted({one for step in numbered for one in exchange_steps(trajectory, step)}))
    if goal.like:
        return _aligned(trajectory, goal, cited)
    if goal.tool:
        tries = [
            x
            for x in trajectory.agent_exchanges
            if x.result is not None and x.step > behind and _meets(x, goal)
        ]
        # A failed try is what there is to score where nothing better came.
        tries = [x for x in tries if not x.failed] or tries[-1:]
        tries = [x for x in tries if x.step not in taken]
        said = list(dict.fromkeys(x.step for x in tries))
        open_ = len({(x.key, x.result.text if x.result else "") for x in tries}) > 1
        if open_ and len(said) != left:
            return _absent(
                f"ambiguous: {len(said)} calls of {goal.tool} may be {goal.goal[:60]!r}; give more "
                "of its arguments, or what it comes after"
            )
    else:
        said = [s.index for s in _own_steps(trajectory) if s.index > behind and not s.calls]
        said = [step for step in said[:: -1 if goal.message == "last" else 1] if step not in taken]
    if not said:
        return _absent(f"no_exchange: no free step of {trajectory.name} is {goal.goal[:60]!r}")
    return exchange_steps(trajectory, said[0])


def _own_steps(trajectory: model.Trajectory) -> list[model.Step]:
    """Return the steps in which the agent called or said something."""
    own = (s for s in trajectory.steps if s.actor == "agent" and not s.replayed)
    return [step for step in own if step.calls or step.text.strip()]


def _aligned(
    trajectory: model.Trajectory, goal: model.SubGoal, cited: Mapping[str, model.Trajectory]
) -> Located:
    """Return the exchange that stands where the cited one does in its run.

    Both runs are aligned as sequences (S. B. Needleman, C. D. Wunsch, J. Mol. Biol. 48, 1970) by
    how alike two steps are; found is only what every good alignment matches with it.
    """
    name, _, number = goal.like.rpartition(":")
    example = cited.get(name)
    if example is None:
        return _absent(f"no_example: {goal.goal[:60]!r} is like a step of {name}, not in the store")
    ours, theirs = _own_steps(trajectory), _own_steps(example)
    cited_step = next((s.index for s in example.steps if str(s.index) == number), None)
    wanted = None if cited_step is None else exchange_steps(example, cited_step)[0]
    row = next((at for at, step in enumerate(theirs) if step.index == wanted), None)
    if row is None:
        return _absent(f"no_example: step {number} of {name} is none of its agent's")
    if len(ours) * len(theirs) > MOST_PAIRS:
        return _absent(f"too_long: {trajectory.name} and {name} are too long to align")
    lost = [{x.step for x in of.exchanges if x.failed} for of in (example, trajectory)]
    words = list(map(_words, ours))
    alike = [
        [
            # A failed try and a success are not the same.
            _likeness(told, said) - 0.3 * ((one.index in lost[0]) != (other.index in lost[1]))
            for other, said in zip(ours, words, strict=True)
        ]
        for one, told in zip(theirs, map(_words, theirs), strict=True)
    ]
    n = len(ours)
    head = _best_sums(alike[:row], n)
    tail = _best_sums([line[::-1] for line in alike[:row:-1]], n)
    totals = [head[at] + alike[row][at] + tail[n - 1 - at] for at in range(n)]
    # Or it has no counterpart at all.
    without = max((head[at] + tail[n - at] for at in range(n + 1)), default=0.0)
    order = sorted(range(n), key=lambda at: (-totals[at], at))
    if not order or alike[row][order[0]] < LEAST_ALIKE or totals[order[0]] <= without:
        return _absent(f"no_exchange: nothing in {trajectory.name} is like {goal.like}")
    first = ours[order[0]]
    told = {x.step: (x.key, x.result.text if x.result else "") for x in trajectory.exchanges}
    said = (told.get(first.index), first.text)
    rivals = (ours[at] for at in order[1:])
    rival = next((x for x in rivals if (told.get(x.index), x.text) != said), None)
    if rival is not None and totals[order[0]] - totals[ours.index(rival)] < LEAST_AHEAD:
        what = f"steps {first.index} and {rival.index} of {trajectory.name}"
        return _absent(f"ambiguous: {what} are both like {goal.like}")
    return exchange_steps(trajectory, first.index)


def _best_sums(alike: Sequence[Sequence[float]], columns: int) -> list[float]:
    """Return the best sum of matches of all rows with the first 0, 1, 2 .. columns, in order."""
    best = [0.0] * (columns + 1)
    for line in alike:
        above, best = best, [0.0]
        for at, value in enumerate(line):
            best.append(max(above[at + 1], best[at], above[at] + value))
    return best


def _words(step: model.Step) -> tuple[set[str], set[object]]:
    """Return the tools that a step calls, and the arguments that it gives them, else its words."""
    tools = {call.name for call in step.calls}
    given = ((call.name, *leaf) for call in step.calls for leaf in _leaves(call.arguments))
    return tools, set(islice(given if tools else step.text.casefold().split(), MOST_WORDS))


def _likeness(one: tuple[set[str], set[object]], other: tuple[set[str], set[object]]) -> float:
    """Return how alike two steps of an agent are, from 0 to 1: their calls, else their words."""
    both = len(one[1] & other[1])
    either = len(one[1]) + len(other[1]) - both
    shared = both / either if either else 1.0
    called = 0.4 + 0.6 * shared if one[0] & other[0] else 0.0
    return called if one[0] or other[0] else shared


def _leaves(value: model.Json, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _leaves(one, f"{key}.{name}")
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, key)
    else:
        yield key, _encode(value).decode()


def load_goals(path: Path) -> Goals:
    """Return the goals of a file.

    `ConfigError` where it cannot be read or is no TOML, a key is unknown, two entries are of one
    run or task, a goal is empty, a confirmed one is found by nothing or by two things, two cover
    the same step, a task's goal covers steps, or goals wait for each other.
    """
    return check_goals(read_toml(path), str(path))[0]


def check_goals(table: Mapping[str, Any], where: str) -> tuple[Goals, tuple[CaseTable, ...]]:
    """Return the goals of a file that was decoded, and its cases; errors as of `load_goals`."""
    try:
        held = msgspec.convert(table, GoalsFile)
    except msgspec.ValidationError as e:
        raise ConfigError(f"{where}: {one_line(e)}; expected [[run]] or [[task]]") from e
    runs = [(one.name, one.goals) for one in held.run]
    tasks = [((one.workflow, one.task), one.goals) for one in held.task]
    for key, goals in (*runs, *tasks):
        of = key if isinstance(key, str) else "/".join(key)
        for wrong in _complaints(goals, held.version, of_run=isinstance(key, str)):
            raise ConfigError(f"{where}: goals of {of}: {wrong}")
    found = Goals(where, dict(runs), dict(tasks))
    if len(found.runs) < len(runs) or len(found.tasks) < len(tasks):
        names = [one.name for one in held.run] + [f"{one.workflow}/{one.task}" for one in held.task]
        doubled = max(names, key=names.count)
        raise ConfigError(f"{where}: two entries for {doubled!r}; put their goals into one")
    return found, held.task


def propose_goals(case: model.Case) -> tuple[Goal, ...] | Unmeasured:
    """Return a draft of a task's goals: one for each sub-goal of its case, none of them confirmed.

    Each is found by the sub-goal's tool and arguments, in any run of the task.
    """
    if not case.subgoals:
        return Unmeasured("not_applicable", "no_goals: the case has no sub-goals to draft from")
    drafted: list[Goal] = []
    for one in case.subgoals:
        told = ", ".join(f"{name} {_encode(v).decode()}" for name, v in one.arguments.items())
        named = f"{one.name}: c" if one.name != one.tool else "C"
        sentence = one.goal or f"{named}alls {one.tool}" + (f" with {told}." if told else ".")
        selector = msgspec.structs.asdict(one) | {"goal": sentence}
        drafted.append(Goal(**selector, confirmed=False))
    return tuple(drafted)


def goals_toml(drafts: Iterable[tuple[str, str, tuple[Goal, ...]]]) -> str:
    """Return the text of a goals file with one `[[task]]` for each workflow, task and its goals."""
    return "\n".join(["version = 2\n", *(line for draft in drafts for line in _lines(*draft))])


def _lines(workflow: str, task: str, goals: Iterable[Goal]) -> Iterator[str]:
    yield f"[[task]]\nworkflow = {as_toml(workflow)}\ntask = {as_toml(task)}\n"
    for goal in goals:
        yield "[[task.goals]]"
        for key, value in msgspec.to_builtins(goal).items():
            if key != "confirmed":
                yield f"{key} = {as_toml(value)}"
        yield "confirmed = false\n"


def as_toml(value: model.Json) -> str:
    """Return a value of JSON as TOML has it, which knows no null: such a key goes."""
    if isinstance(value, dict):
        held = (f"{as_toml(key)} = {as_toml(one)}" for key, one in value.items() if one is not None)
        return f"{{ {', '.join(held)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(as_toml(one) for one in value if one is not None)}]"
    # A basic string of TOML: JSON's strings are, but for the character DEL.
    return _encode(value).decode().replace("\x7f", "\\u007f")


def read_toml(path: Path) -> Mapping[str, Any]:
    """Return what a file of TOML holds; `ConfigError` where it is none, too large or unreadable."""
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


def _complaints(goals: tuple[Goal, ...], version: int, *, of_run: bool) -> Iterator[str]:
    names = {goal.name for goal in goals if goal.name}
    for number, goal in enumerate(goals, 1):
        wrong = _wrong_selector(goal, version, of_run=of_run)
        if wrong:
            yield f"number {number} {wrong}"
        lost = [name for name in goal.after if name not in names]
        if lost:
            yield f"number {number} comes after {lost[0]!r}, which no goal is called"
    numbered = [(n, step) for n, goal in enumerate(goals, 1) for step in goal.steps]
    covered = Counter(step for _, step in numbered)
    for number, step in numbered:
        if step < 0:
            yield f"number {number} covers step {step}; steps count from 0"
        if covered[step] > 1:
            yield f"number {number} covers step {step}, which another covers; a step has one"
    try:
        TopologicalSorter({goal.name: goal.after for goal in goals if goal.name}).prepare()
    except CycleError as e:
        yield f"goals wait for each other: {', '.join(map(str, e.args[1]))}"


def _wrong_selector(goal: Goal, version: int, *, of_run: bool) -> str:
    """Return what is wrong with what finds a goal, "" if nothing is."""
    ways = [way for way in ("steps", "tool", "message", "like") if getattr(goal, way)]
    if not goal.goal.strip():
        return "has no sentence"
    if goal.confirmed and not ways:
        return "is confirmed and nothing finds it; give its tool, message or like, or steps"
    if len(ways) > 1:
        return f"has {ways[0]} and {ways[1]}; one of them finds it"
    if version == 1 and ways not in ([], ["steps"]):
        return f"has {ways[0]}, of version 2; begin the file with version = 2"
    if goal.steps and not of_run:
        return "covers steps, which differ from run to run; give its tool, message or like"
    if goal.like and not goal.like.rpartition(":")[2].isdecimal():
        return f"is like {goal.like!r}; expected the name of a run, a colon and a step"
    return ""


def _meets(exchange: model.Exchange, subgoal: model.SubGoal) -> bool:
    own = exchange.call.arguments
    if exchange.call.name != subgoal.tool:
        return False
    if not subgoal.arguments:
        return True
    return isinstance(own, dict) and all(
        name in own and own[name] == value and isinstance(own[name], bool) is (type(value) is bool)
        for name, value in subgoal.arguments.items()
    )


def _absent(reason: str) -> Unmeasured:
    return Unmeasured("missing_input", reason)
