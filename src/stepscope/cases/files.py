"""Files of cases: `cases.toml`, `goals.toml`, JSON lines, or a folder of them.

One `[[task]]` (in JSON lines: one line) is what every run of a task is measured against; the schema
is that of `goals.toml`, version 2. A case promoted of a run gives way to one that a person wrote,
or to a later one. Refused, with file and place: unknown keys, wrong types, two other cases of
one task, goals that are drafts (`confirmed = false`) or wait for each other, rules that
make no sense, weights but 1, 2 and 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec

from stepscope.errors import ConfigError, TraceError
from stepscope.formats.fields import read_tools, sub_goals
from stepscope.formats.format import decode_records
from stepscope.judges.goals import MOST_BYTES, CaseTable, check_goals, read_toml
from stepscope.measures.conduct import check_rule
from stepscope.model import Case, Json, PolicyRule, Quarantined, ReferenceCall, Stream, SubGoal
from stepscope.safety.json import decode
from stepscope.safety.limits import Limits, open_file, read_file
from stepscope.shape.weights import SCALE
from stepscope.store import Store
from stepscope.values import format_count

_NAMED = 5
_ENDINGS = (".toml", ".jsonl")
# The tag of a case that was promoted of a run.
PROMOTED = "broken_step"


class AddedCases(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a file of cases."""

    uri: str  # the file or folder
    cases: int  # cases in it
    runs: int  # runs of their tasks
    changed: int  # of these, measured against something else before
    without_runs: tuple[str, ...]  # cases of which no run is in the store

    def __str__(self) -> str:
        """Say it in a line."""
        told = f"{self.uri}: {format_count(self.cases, 'case')}, given to "
        told += f"{format_count(self.runs, 'run')}, {self.changed:,} changed"
        named, more = self.without_runs[:_NAMED], len(self.without_runs) - _NAMED
        told += f"; without a run: {', '.join(named)}" if named else ""
        return told + (f" and {more:,} more" if more > 0 else "")


def give_cases(store: Store, path: str | Path, workflow: str) -> AddedCases:
    """Give the cases of a file or folder to the runs of their tasks."""
    cases = load_cases(Path(path), workflow)
    given = store.give_cases(cases)
    lone = [one for one, (n, _) in zip(cases, given, strict=True) if not n]
    return AddedCases(
        uri=str(path),
        cases=len(cases),
        runs=sum(n for n, _ in given),
        changed=sum(n for _, n in given),
        without_runs=tuple(f"{one.workflow}/{one.task}" for one in lone),
    )


def load_cases(path: Path, workflow: str = "") -> tuple[Case, ...]:
    """Return the cases of a file, or of the files of a folder; `workflow` where they name none.

    Raises:
        ConfigError: it cannot be read, holds no case, or one makes no sense.
    """
    paths = sorted(x for x in path.iterdir() if x.suffix in _ENDINGS) if path.is_dir() else [path]
    for one in paths if path.is_dir() else ():
        if not one.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"{one}: a link that leads out of the folder; name its file itself")
    found: dict[tuple[str, str], Case] = {}
    for one in paths:
        for where, table in _tables(one):
            case = _read_case(table, workflow, where, one.parent)
            key = case.workflow, case.task
            if key in found and PROMOTED not in case.tags | found[key].tags:
                raise ConfigError(f"{where}: a second case of {case.workflow}/{case.task}")
            if key not in found or PROMOTED in found[key].tags:
                found[key] = case
    if not found:
        raise ConfigError(f"{path}: no case in it; expected [[task]], or a line of JSON for each")
    return tuple(found.values())


def _tables(path: Path) -> Iterator[tuple[str, CaseTable]]:
    if path.suffix == ".toml":
        yield from ((str(path), table) for table in check_goals(read_toml(path), str(path))[1])
        return
    try:
        with open_file(path) as file:
            records = list(decode_records(Stream(file, str(path), Limits())))
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    for number, record in enumerate(records, 1):
        where = f"{path}, case {number}"
        if isinstance(record, Quarantined):
            raise ConfigError(f"{where}: {record.reason}")
        if record.repairs:
            raise ConfigError(f"{where}: {record.repairs[0].reason}")
        rows = {"version": 2, "task": [record.value]}
        yield from ((where, table) for table in check_goals(rows, where)[1])


def _read_case(table: CaseTable, workflow: str, where: str, folder: Path) -> Case:
    of = table.workflow or workflow
    if not (of and table.task):
        raise ConfigError(f'{where}: a case without a workflow or task; add workflow = "NAME"')
    where = f"{where}: case {of}/{table.task}"
    expected = tuple(
        ReferenceCall(one, any_arguments=True)
        if isinstance(one, str)
        else ReferenceCall(one.name, one.arguments, one.any_arguments)
        for one in table.expected
    )
    goals = tuple(
        SubGoal(
            **{name: getattr(goal, name) for name in SubGoal.__struct_fields__} | {"name": name}
        )
        for number, goal in enumerate(table.goals, 1)
        for name in [goal.name or f"goal {number}"]
    )
    if any(goal.confirmed is False for goal in table.goals):
        raise ConfigError(f"{where}: a goal is a draft; set confirmed = true, or delete it")
    if lone := [goal.name for goal in goals if not (goal.tool or goal.message or goal.like)]:
        raise ConfigError(f"{where}: nothing can reach {lone[0]!r}; add tool, message or like")
    never = (PolicyRule(name=f"never {tool}", forbid=tool) for tool in table.forbidden)
    rules = (*table.policy, *never)
    for what, held in (("goals", goals), ("rules", rules)):
        twice = [name for name, n in Counter(one.name for one in held).items() if n > 1]
        if twice:
            raise ConfigError(f"{where}: two {what} are called {twice[0]!r}; name each differently")
    try:
        for rule in rules:
            check_rule(rule)
        listed: Json = list(table.tools)
        if isinstance(table.tools, str):
            listed = decode(read_file(folder / table.tools, MOST_BYTES), limits=Limits()).value
        tools = read_tools(listed) if table.tools else ()
    except OSError as e:
        raise ConfigError(f"{where}: {table.tools} cannot be read ({e.strerror})") from e
    except (ConfigError, TraceError) as e:
        raise ConfigError(f"{where}: {e}") from e
    if wrong := [one for one in table.weights or () if one not in SCALE]:
        raise ConfigError(f"{where}: a weight is {wrong[0]:g}; expected 1, 2 or 3")
    same = ("task", "request", "order", "weights", "tags", "difficulty", "constraint")
    return Case(
        workflow=of,
        subgoals=goals or sub_goals((one.name, one.arguments) for one in expected),
        outputs=table.must_tell,
        reference=expected or None,
        policy=rules,
        tools=tools,
        **{name: getattr(table, name) for name in same},
    )
