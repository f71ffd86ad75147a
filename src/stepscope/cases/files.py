"""Files of cases: `cases.toml`, `goals.toml`, JSON lines, or a folder; and cases made of runs.

The schema is that of `goals.toml`, version 2. A case promoted of a failing run, cut at its broken
step, gives way to one that a person wrote, or to a later one; secrets in it are hidden, and nothing
of a trace but numbers enters its Python file. Refused, with file and place: unknown keys, wrong
types, two cases of one task, drafts, goals that wait for each other, rules that make no sense.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from stepscope import model
from stepscope.cases.split import refuse_edited
from stepscope.errors import ConfigError, TraceError, UsageError
from stepscope.formats.fields import read_tools, sub_goals
from stepscope.formats.format import decode_records
from stepscope.judges.goals import (
    MOST_BYTES,
    CaseTable,
    as_toml,
    check_goals,
    exchange_steps,
    read_toml,
)
from stepscope.measures.conduct import check_rule
from stepscope.safety.json import decode
from stepscope.safety.limits import Limits, open_file, read_file
from stepscope.safety.redact import scrub_value
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


def load_cases(path: Path, workflow: str = "") -> tuple[model.Case, ...]:
    """Return cases of a file or folder, of `workflow` if they name none; ConfigError if wrong."""
    paths = sorted(x for x in path.iterdir() if x.suffix in _ENDINGS) if path.is_dir() else [path]
    for one in paths if path.is_dir() else ():
        if not one.resolve().is_relative_to(path.resolve()):
            raise ConfigError(f"{one}: a link that leads out of the folder; name its file itself")
    found: dict[tuple[str, str], model.Case] = {}
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
    refuse_edited(path, found)
    return tuple(found.values())


def _tables(path: Path) -> Iterator[tuple[str, CaseTable]]:
    if path.suffix == ".toml":
        yield from ((str(path), table) for table in check_goals(read_toml(path), str(path))[1])
        return
    try:
        with open_file(path) as file:
            records = list(decode_records(model.Stream(file, str(path), Limits())))
    except OSError as e:
        raise ConfigError(f"{path}: cannot be read ({e.strerror})") from e
    for number, record in enumerate(records, 1):
        where = f"{path}, case {number}"
        if isinstance(record, model.Quarantined):
            raise ConfigError(f"{where}: {record.reason}")
        if record.repairs:
            raise ConfigError(f"{where}: {record.repairs[0].reason}")
        rows = {"version": 2, "task": [record.value]}
        yield from ((where, table) for table in check_goals(rows, where)[1])


def _read_case(table: CaseTable, workflow: str, where: str, folder: Path) -> model.Case:
    of = table.workflow or workflow
    if not (of and table.task):
        raise ConfigError(f'{where}: a case without a workflow or task; add workflow = "NAME"')
    where = f"{where}: case {of}/{table.task}"
    expected = tuple(
        model.ReferenceCall(one, any_arguments=True)
        if isinstance(one, str)
        else model.ReferenceCall(one.name, one.arguments, one.any_arguments)
        for one in table.expected
    )
    fields = model.SubGoal.__struct_fields__
    goals = tuple(
        model.SubGoal(**{x: getattr(goal, x) for x in fields} | {"name": goal.name or f"goal {at}"})
        for at, goal in enumerate(table.goals, 1)
    )
    if any(goal.confirmed is False for goal in table.goals):
        raise ConfigError(f"{where}: a goal is a draft; set confirmed = true, or delete it")
    if lone := [goal.name for goal in goals if not (goal.tool or goal.message or goal.like)]:
        raise ConfigError(f"{where}: nothing can reach {lone[0]!r}; add tool, message or like")
    never = (model.PolicyRule(name=f"never {tool}", forbid=tool) for tool in table.forbidden)
    rules = (*table.policy, *never)
    for what, held in (("goals", goals), ("rules", rules)):
        twice = [name for name, n in Counter(one.name for one in held).items() if n > 1]
        if twice:
            raise ConfigError(f"{where}: two {what} are called {twice[0]!r}; name each differently")
    try:
        for rule in rules:
            check_rule(rule)
        listed: model.Json = list(table.tools)
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
    return model.Case(
        workflow=of,
        subgoals=goals or sub_goals((one.name, one.arguments) for one in expected),
        outputs=table.must_tell,
        reference=expected or None,
        policy=rules,
        tools=tools,
        **{name: getattr(table, name) for name in same},
    )


_TEST = '''"""A run that broke at its step {step}, promoted to a case; see {name}.json."""

import json
from pathlib import Path

import pytest

import stepscope

CASE = json.loads(Path(__file__).with_name("{name}.json").read_text(encoding="utf-8"))


def agent(messages):
    """Return the messages that the agent adds to these: put a call of your agent here."""
    return CASE["recorded"]


@pytest.mark.xfail(strict=True, reason="as recorded: remove this line once `agent` calls yours")
def test_{name}_does_not_repeat_step_{step}():
    reply = agent(CASE["messages"])
    assert reply, "the agent said nothing"
    if CASE["broken"]:
        assert not stepscope.match(reply, CASE["broken"], mode="superset").matched
    else:
        assert reply[0]["content"] != CASE["recorded"][0]["content"]
'''
_PLAIN = re.compile(r"[a-z0-9_/-]{1,60}")


def promote_run(run: model.Trajectory, step: int, why: str) -> dict[str, str]:
    """Return the files of a case, by name: the run up to `step`'s exchange, else UsageError."""
    if not 0 <= step < len(run.steps):
        raise UsageError(f"step {step}: {run.name!r} has {len(run.steps)} steps, from 0")
    broken = exchange_steps(run, step)
    first = run.steps[broken[0]]
    if first.actor != "agent" or first.index == 0:
        raise UsageError(f"step {step} is none of the agent's, or the first; name another --step")
    name = re.sub(r"[^a-z0-9]+", "_", run.name.lower())[:60].strip("_")
    if not _PLAIN.fullmatch(run.name):
        name = f"{name or 'run'}_{sha256(run.name.encode('utf-8', 'replace')).hexdigest()[:6]}"
    calls = [[x.name, x.arguments] for x in first.calls if isinstance(x.arguments, dict)]
    case = {
        "messages": _messages(run, run.steps[: first.index]),
        "recorded": _messages(run, [run.steps[at] for at in broken]),
        "broken": calls,
    }
    raw = msgspec.json.encode(scrub_value(case))
    return {
        f"{name}.toml": _case_toml(run, first.index, why),
        f"{name}.json": msgspec.json.format(raw, indent=1).decode() + "\n",
        f"test_{name}.py": _TEST.format(name=name, step=first.index),
    }


def _case_toml(run: model.Trajectory, step: int, why: str) -> str:
    told: Mapping[str, model.Json] = {} if run.case is None else msgspec.to_builtins(run.case)
    asked = next((x.text for x in run.steps if x.actor == "user" and x.text), None)
    table = {
        "workflow": run.workflow,
        "task": run.task or run.name,
        "request": told.get("request", asked),
        "expected": told.get("reference"),
        "goals": [{"goal": f"Calls {x.get('tool')}.", **x} for x in told.get("subgoals", ())],
        "must_tell": told.get("outputs"),
        **{key: told.get(key) for key in ("order", "policy", "weights", "constraint")},
        "tags": {**told.get("tags", {}), "run": run.name, PROMOTED: str(step), "why": why},
    }
    lines = [f"{key} = {as_toml(value)}" for key, value in scrub_value(table).items() if value]
    return "\n".join(["version = 2\n", "[[task]]", *lines, ""])


def _messages(run: model.Trajectory, steps: Sequence[model.Step]) -> list[model.Json]:
    """Return steps as messages of the OpenAI API; calls are numbered, so that each has an id."""
    made: dict[int | None, list[model.Exchange]] = defaultdict(list)
    answered: dict[int | None, list[model.Exchange]] = defaultdict(list)
    for exchange in run.exchanges:
        made[exchange.step].append(exchange)
        answered[exchange.result_step].append(exchange)
    found: list[model.Json] = []
    for step in steps:
        role = {"agent": "assistant", "system": "system"}.get(step.actor, "user")
        calls = [
            {
                "id": f"call_{x.position}",
                "type": "function",
                "function": {
                    "name": x.call.name,
                    "arguments": x.call.raw or msgspec.json.encode(x.call.arguments).decode(),
                },
            }
            for x in made[step.index]
        ]
        if step.text or calls:
            message = {"role": role, "content": step.text or None}
            found.append({**message, "tool_calls": calls} if calls else message)
        found += [
            {"role": "tool", "tool_call_id": f"call_{x.position}", "content": x.result.text}
            for x in answered[step.index]
            if x.result is not None
        ]
    return found
