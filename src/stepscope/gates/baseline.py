"""The baseline: runs declared beforehand, in a JSON file that people commit and review.

One line a measure and case, so that a diff reads; every cell of every run, in the order of `runs`,
so that the permutation test is exact. A file that is missing, torn, newer or of another workflow
is a `GateAnswer`, a value and not an exception: the gates that need no baseline still decide.
`diff_baselines` says what an update changes; control characters of traces are made visible there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from stepscope.errors import DataError, EnvironmentFault, TraceError, UsageError
from stepscope.gates.judged import read_gate_samples
from stepscope.gates.new_modes import merge_baseline
from stepscope.gates.sample import (
    Absent,
    Cell,
    MeasureQuestion,
    Sample,
    SampleRun,
    hide_keys,
    say_no_runs,
)
from stepscope.gates.settings import WorkflowPolicy
from stepscope.gates.types import GateAnswer, answer_undecided
from stepscope.model.records import RULES
from stepscope.safety.json import decode_strict
from stepscope.safety.limits import Limits, open_output, read_file
from stepscope.safety.text import visible_line
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.values import format_count

SCHEMA = 1
# A run is told from others by so much of its id.
ID_DIGITS = 16
# Kept for every case, whatever the gates read: what a reader of the file asks first.
ALWAYS_KEPT = ("outcome", "efficiency.steps")


class _FileCase(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    runs: list[str]
    cells: dict[str, list[Cell]]


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: int
    workflow: str
    commit: str | None
    agents: tuple[str, ...]
    measures: dict[str, MeasureQuestion]
    n_runs: int
    n_cases: int
    cases: dict[str, _FileCase]
    merged: tuple[tuple[str, ...], ...] = ()


def make_baseline(
    rows: Rows,  # a store, or anything else with its columns
    policy: WorkflowPolicy,  # whose gates say which measures are kept
    *,
    where: Where | None = None,  # which runs
    commit: str | None = None,  # what they are runs of
) -> Sample:
    """Return the baseline that the chosen runs of a workflow make.

    `DataError` without a run, or where a measure that a gate compares has no verdict; `StoreError`
    where the records of a measure are of two versions.
    """
    measures = sorted({*policy.reads, *ALWAYS_KEPT})
    read_ = read_gate_samples(rows, [policy.workflow], measures, where, labelled=policy.labelled)
    sample = read_[policy.workflow]
    if not sample.runs:
        raise DataError(f"no baseline: {say_no_runs(rows, policy.workflow, where)}")
    for gate in policy.gates:
        for name in gate.reads if gate.compares and gate.source == RULES else ():
            if name not in sample.asked:
                raise DataError(
                    f"no baseline: gate {gate.name!r} compares {name!r}, for which no run has "
                    "a record; run stepscope score"
                )
    ordered = sorted(
        range(len(sample.runs)),
        key=lambda at: (case_order(sample.runs[at].case), sample.runs[at].name, sample.runs[at].id),
    )
    sample = sample.take(ordered)
    asked = {name: sample.asked[name] for name in measures if name in sample.asked}
    return replace(
        sample,
        runs=tuple(SampleRun(run.id[:ID_DIGITS], run.name, run.case) for run in sample.runs),
        cells={name: sample.cells[name] for name in asked},
        asked=asked,
        workflow=hide_keys(policy.workflow),
        commit=commit,
        merged=merge_baseline(sample),
    )


def load_baseline(path: str | Path | None, workflow: str) -> Sample | GateAnswer:
    """Return the baseline in a file, or why there is none to compare with."""
    update = f"stepscope baseline update --workflow {workflow}"
    if path is None:
        said = f"no baseline is named: add one to [workflow.{workflow}], then {update}"
        return answer_undecided("baseline_missing", said)
    place = Path(path)
    try:
        raw = read_file(place)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        said = f"there is no file {str(path)!r}; make it: {update}"
        return answer_undecided("baseline_missing", said)
    except OSError as e:
        raise EnvironmentFault(f"{path}: the baseline cannot be read ({e.strerror})") from e
    try:
        head = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("schema")
        schema = SCHEMA if head is None else msgspec.json.decode(head, type=int)
        if schema > SCHEMA:
            said = f"{path} was written by a newer stepscope (schema {schema}, this one reads up "
            return answer_undecided(
                "baseline_other_version", f"{said}to {SCHEMA}): upgrade stepscope"
            )
        if decode_strict(raw, limits=Limits()).repairs:
            raise ValueError("a duplicate key in one object")
        sample = _sample(msgspec.json.decode(raw, type=_File))
    except (msgspec.MsgspecError, TraceError, ValueError, RecursionError) as e:
        said = f"{path} is not a baseline ({' '.join(str(e).split())}): restore it, or {update}"
        return answer_undecided("baseline_corrupt", said)
    if sample.workflow != hide_keys(workflow):
        said = f"{path} is the baseline of {sample.workflow!r}, not of {workflow!r}"
        return answer_undecided("baseline_other_workflow", said)
    return sample


def load_baselines(policies: Iterable[WorkflowPolicy]) -> dict[str, Sample | GateAnswer]:
    """Return the baseline of each workflow, or why there is none; `load_baseline` raises."""
    return {policy.workflow: load_baseline(policy.baseline, policy.workflow) for policy in policies}


def write_baseline(baseline: Sample, path: str | Path) -> None:
    """Write a baseline as a whole or not at all; its folder is made if it is new."""
    replace_file(Path(path), encode_baseline(baseline))


def replace_file(path: Path, raw: bytes) -> None:
    """Write a file in one move, with its folders; a link in its place is replaced, too.

    `UsageError` where a folder, or a store or settings of the user stand there. `EnvironmentFault`
    where the disk does not take it; the old file stands.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_output(path, follow=False) as file:
            file.write(raw)
    except OSError as e:
        raise EnvironmentFault(f"{path}: cannot be written ({e.strerror})") from e


def encode_baseline(baseline: Sample) -> bytes:
    """Return the file: the same baseline gives the same bytes, one line a measure and case."""
    head: dict[str, object] = {
        "schema": SCHEMA,
        "workflow": baseline.workflow,
        "commit": baseline.commit,
        "agents": baseline.agents,
        "measures": dict(sorted(baseline.asked.items())),
        "n_runs": len(baseline.runs),
        "n_cases": len(baseline.cases),
    }
    if baseline.merged:
        head["merged"] = baseline.merged
    lines = [f" {_json(key)}: {_json(value)}," for key, value in head.items()]
    cases = []
    for case in baseline.cases:
        places = [at for at, run in enumerate(baseline.runs) if run.case == case]
        runs = [f"{baseline.runs[at].id} {baseline.runs[at].name}" for at in places]
        cells = ",\n".join(
            f"    {_json(name)}: {_json([_short(line[at]) for at in places])}"
            for name, line in baseline.cells.items()
        )
        cases.append(
            f'  {_json(case)}: {{\n   "runs": {_json(runs)},\n   "cells": {{\n{cells}\n   }}\n  }}'
        )
    return ("{\n" + "\n".join(lines) + '\n "cases": {\n' + ",\n".join(cases) + "\n }\n}\n").encode()


def _sample(file: _File) -> Sample:
    """Return the runs of a file."""
    runs: list[SampleRun] = []
    cells: dict[str, list[Cell]] = {name: [] for name in file.measures}
    for case, held in file.cases.items():
        names = [text.partition(" ") for text in held.runs]
        runs += [SampleRun(id_, name, case) for id_, _, name in names]
        if set(held.cells) != set(file.measures):
            raise ValueError(f"case {case!r} has other measures than the file's head")
        for measure, line in held.cells.items():
            if len(line) != len(names):
                raise ValueError(f"case {case!r}: {len(line)} of {measure}, {len(names)} runs")
            cells[measure] += line
    if len(runs) != file.n_runs or len(file.cases) != file.n_cases or not runs:
        raise ValueError(f"{len(runs)} runs of {len(file.cases)} cases, not {file.n_runs}")
    return Sample(
        runs=tuple(runs),
        cells={name: tuple(line) for name, line in cells.items()},
        asked=file.measures,
        agents=file.agents,
        workflow=file.workflow,
        commit=file.commit,
        merged=file.merged,
    )


def _short(cell: Cell) -> Cell | int:
    """Whole numbers without their point: people read this file."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _json(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def case_order(case: str) -> tuple[bool, int, str]:
    """Order cases by number where they are numbers."""
    number = case.isascii() and case.isdigit()
    return (not number, int(case) if number else 0, case)


MISSING = "missing trial"
UNREAD = "unread record"
UNKNOWN = "unknown case"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """How many trials each case must show."""

    trials: Mapping[str, int]  # by case
    # where runs of unknown case are put: those of the design, else those that were seen
    cases: tuple[str, ...]
    # cases in which two runs of one name are one trial: in the baseline they never are
    numbered: frozenset[str] = frozenset()
    # what was declared, in words, where it asks for less than the baseline; else ""
    narrower: str = ""

    def missing(self, runs: Iterable[SampleRun]) -> tuple[SampleRun, ...]:
        """Return a run for each trial that is not among `runs`."""
        seen = {(run.case, run.name if run.case in self.numbered else run.id) for run in runs}
        found = Counter(case for case, _ in seen)
        lacks = {case: n - found[case] for case, n in self.trials.items()}
        return tuple(SampleRun("", MISSING, case) for case, n in lacks.items() for _ in range(n))

    def unread(self, n: int) -> tuple[SampleRun, ...]:
        """Return `n` runs of unknown case, one to each case in turn: trials of one weigh less."""
        return tuple(SampleRun("", UNREAD, case) for case in islice(cycle(self.cases), n))


def design_of(
    policy: WorkflowPolicy, baseline: Sample | GateAnswer, runs: Sequence[SampleRun]
) -> Design:
    """Return the design of a workflow: as declared, else as the baseline was run.

    Where only a number was declared, the cases of the runs under test are the design. `UsageError`
    where a case is declared that nobody has.
    """
    held = baseline.runs if isinstance(baseline, Sample) else ()
    before = Counter(run.case for run in held)
    names = Counter((run.case, run.name) for run in held)
    # The names of sessions without a task are no cases: they do not come back.
    sessions = {run.case for run in held if run.name == run.case and before[run.case] == 1}
    if sessions.isdisjoint(run.case for run in runs):
        before = Counter({case: n for case, n in before.items() if case not in sessions})
    most = max(before.values(), default=1)
    seen = tuple(dict.fromkeys(run.case for run in runs))
    named = tuple(map(hide_keys, policy.cases))
    declared = named or tuple(before) or (seen if policy.trials else ())
    unknown = [case for case in named if before and case not in before and case not in seen]
    if unknown:
        raise UsageError(f"no case of workflow {policy.workflow!r} is called {unknown[0]!r}")
    trials = {case: policy.trials or before.get(case, most) for case in declared}
    asked = {case: min(n, trials.get(case, 0)) for case, n in before.items()}
    narrower = ""
    if (total := sum(asked.values())) < before.total():
        shown = sum(n > 0 for n in asked.values())
        narrower = (
            f"declared: {shown:,} of the baseline's {len(before):,} cases, "
            f"{total:,} of its {before.total():,} trials"
        )
    twice = {case for (case, _), n in names.items() if n > 1}
    numbered = frozenset(case for case, n in before.items() if n > 1 and case not in twice)
    return Design(
        trials=trials, cases=declared or seen or (UNKNOWN,), numbered=numbered, narrower=narrower
    )


def absences(
    designs: Sequence[Design], missing: Sequence[tuple[SampleRun, ...]], set_aside: int
) -> list[tuple[SampleRun, ...]]:
    """Return what is absent of each workflow of one invocation.

    `set_aside` are records that could not be read, of whichever workflow.
    """
    more = max(0, set_aside - sum(map(len, missing)))
    return [
        (*runs, *design.unread(more if design.trials else set_aside))
        for design, runs in zip(designs, missing, strict=True)
    ]


def said(absent: Sequence[SampleRun]) -> str:
    """Return what is absent, in words; "" where nothing is."""
    counts = Counter(run.name for run in absent)
    words = [f"{n:,} {name}{'s' * (n > 1)}" for name, n in sorted(counts.items())]
    return f"at their worst: {', '.join(words)}" if words else ""


def diff_baselines(old: Sample | GateAnswer, new: Sample) -> tuple[str, ...]:
    """Return what changes from an old baseline to a new one, a line a total or case."""
    said = [f"workflow {new.workflow}"]
    if isinstance(old, GateAnswer):
        said.append(f"new baseline: {_size_text(new)}")
        said += [f"  {name}: {_cells_text(new.cells[name])}" for name in sorted(new.asked)]
        return tuple(visible_line(line) for line in said)
    said.append(f"runs: {_size_text(old)} -> {_size_text(new)}")
    for what in ("commit", "agents"):
        before, after = getattr(old, what), getattr(new, what)
        if before != after:
            said.append(f"{what}: {_value_text(before)} -> {_value_text(after)}")
    for name in sorted({*old.asked, *new.asked}):
        said += _changes(name, old, new)
    gone, come = _cases_missing_from(old, new), _cases_missing_from(new, old)
    said += [f"cases gone: {', '.join(gone)}"] if gone else []
    said += [f"cases new: {', '.join(come)}"] if come else []
    if len(said) == 2 and old.runs == new.runs:
        said = [said[0], "nothing changes"]
    return tuple(visible_line(line) for line in said)


def _changes(name: str, old: Sample, new: Sample) -> list[str]:
    before, after = old.asked.get(name), new.asked.get(name)
    if before is None or after is None:
        return [f"{name}: {'added' if before is None else 'no longer kept'}"]
    said = [f"{name}: {before} -> {after}"] if before != after else []
    if old.cells[name] != new.cells[name]:
        totals = _cells_text(old.cells[name]), _cells_text(new.cells[name])
        said.append(f"{name}: {totals[0]} -> {totals[1]}")
        for case in old.cases:
            was, now = _case_text(old, name, case), _case_text(new, name, case)
            if was and now and was != now:
                said.append(f"  case {case}: {was} -> {now}")
    return said


def _case_text(baseline: Sample, name: str, case: str) -> str:
    cells = baseline.cells[name]
    return _cells_text([c for c, r in zip(cells, baseline.runs, strict=True) if r.case == case])


def _cells_text(cells: Sequence[Cell]) -> str:
    """Say cells in few words: the mean of numbers, counts of labels and of what is absent."""
    numbers = [cell for cell in cells if isinstance(cell, int | float)]
    said = [c if isinstance(c, str) else c.unmeasured for c in cells if isinstance(c, str | Absent)]
    words = [word or "none" for cell in said for word in cell.split("\n")]
    runs = format_count(len(numbers), "run")
    parts = [f"mean {sum(numbers) / len(numbers):.4g} over {runs}"] if numbers else []
    return ", ".join([*parts, *(f"{words.count(word)} {word}" for word in sorted(set(words)))])


def _size_text(baseline: Sample) -> str:
    return f"{len(baseline.runs)} runs of {len(baseline.cases)} cases"


def _cases_missing_from(one: Sample, other: Sample) -> list[str]:
    known = set(other.cases)
    return sorted((case for case in one.cases if case not in known), key=case_order)


def _value_text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value or "none said")
