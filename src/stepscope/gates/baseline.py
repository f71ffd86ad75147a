"""The baseline: runs declared beforehand, in a JSON file that people commit and review.

One line a measure and case, so that a diff reads; every cell of every run, in the order of `runs`,
so that the permutation test is exact. A file that is missing, torn, newer or of another workflow is
a `BaselineProblem`, an answer and not an exception: the gates that need no baseline still decide.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from stepscope.errors import DataError, EnvironmentFault
from stepscope.gates.policy import WorkflowPolicy
from stepscope.gates.sample import Asked, Cell, Run, Sample, no_runs, read
from stepscope.gates.types import Cause
from stepscope.store.columns import Rows
from stepscope.store.where import Where

SCHEMA = 1
# A run is told from others by so much of its id.
ID_DIGITS = 16
# Kept for every case, whatever the gates read: what a reader of the file asks first.
ALWAYS = ("outcome", "efficiency.steps")


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The runs that later ones are compared with.

    Attributes:
        workflow: whose runs they are.
        commit: what they are runs of, as the user said; None where nothing was said.
        agents: names of the agents, with their versions where known.
        measures: which question the cells of each measure answer.
        sample: the runs.
    """

    workflow: str
    commit: str | None
    agents: tuple[str, ...]
    measures: dict[str, Asked]
    sample: Sample


class BaselineProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no baseline to compare with, and what to do."""

    cause: Cause
    reason: str


class _Head(msgspec.Struct, kw_only=True):
    schema: int


class _Case(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    runs: list[str]
    cells: dict[str, list[Cell]]


class _File(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    schema: int
    workflow: str
    commit: str | None
    agents: tuple[str, ...]
    measures: dict[str, Asked]
    n_runs: int
    n_cases: int
    cases: dict[str, _Case]


def make(
    rows: Rows,
    policy: WorkflowPolicy,
    *,
    where: Where | None = None,
    commit: str | None = None,
) -> Baseline:
    """Return the baseline that the chosen runs of a workflow make.

    Args:
        rows: a store, or anything else with its columns.
        policy: whose gates say which measures are kept.
        where: which runs.
        commit: what they are runs of.

    Raises:
        DataError: no run, or a measure that a gate compares has no verdict.
        StoreError: the records of a measure are of two versions.
    """
    measures = sorted({*policy.reads, *ALWAYS})
    read_ = read(rows, [policy.workflow], measures, where, labelled=policy.labelled)
    sample = read_[policy.workflow]
    if not sample.runs:
        raise DataError(f"no baseline: {no_runs(rows, policy.workflow, where)}")
    for gate in policy.gates:
        for name in gate.reads if gate.compares else ():
            if name not in sample.asked:
                raise DataError(
                    f"no baseline: gate {gate.name!r} compares {name!r}, of which no run has a "
                    "record; run stepscope score"
                )
    ordered = sorted(
        range(len(sample.runs)),
        key=lambda at: (natural(sample.runs[at].case), sample.runs[at].name, sample.runs[at].id),
    )
    sample = sample.take(ordered)
    asked = {name: sample.asked[name] for name in measures if name in sample.asked}
    return Baseline(
        workflow=policy.workflow,
        commit=commit,
        agents=sample.agents,
        measures=asked,
        sample=Sample(
            runs=tuple(Run(run.id[:ID_DIGITS], run.name, run.case) for run in sample.runs),
            cells={name: sample.cells[name] for name in asked},
            asked=asked,
            agents=sample.agents,
        ),
    )


def load(path: str | Path | None, workflow: str) -> Baseline | BaselineProblem:
    """Return the baseline in a file, or why there is none to compare with.

    Args:
        path: the file; None where the policy names none.
        workflow: whose runs it must hold.

    Raises:
        EnvironmentFault: the file is there and the disk does not give it.
    """
    update = f"stepscope baseline update --workflow {workflow}"
    if path is None:
        return BaselineProblem(
            cause="baseline_missing",
            reason=f"no baseline is named: add one to [workflow.{workflow}], then {update}",
        )
    place = Path(path)
    try:
        raw = place.read_bytes()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        return BaselineProblem(
            cause="baseline_missing", reason=f"there is no file {str(path)!r}; make it: {update}"
        )
    except OSError as e:
        raise EnvironmentFault(f"{path}: the baseline cannot be read ({e.strerror})") from e
    try:
        head = msgspec.json.decode(raw, type=_Head)
        if head.schema > SCHEMA:
            return BaselineProblem(
                cause="baseline_other_version",
                reason=f"{path} was written by a newer stepscope (schema {head.schema}, this one "
                f"reads up to {SCHEMA}): upgrade stepscope",
            )
        file = msgspec.json.decode(raw, type=_File)
        sample = _sample(file)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        return BaselineProblem(
            cause="baseline_corrupt",
            reason=f"{path} is no baseline ({' '.join(str(e).split())}): restore it, or {update}",
        )
    if file.workflow != workflow:
        return BaselineProblem(
            cause="baseline_other_workflow",
            reason=f"{path} is the baseline of {file.workflow!r}, not of {workflow!r}",
        )
    return Baseline(
        workflow=file.workflow,
        commit=file.commit,
        agents=file.agents,
        measures=file.measures,
        sample=sample,
    )


def load_all(policies: Iterable[WorkflowPolicy]) -> dict[str, Baseline | BaselineProblem]:
    """Return the baseline of each workflow, or why there is none; raises as `load` does."""
    return {policy.workflow: load(policy.baseline, policy.workflow) for policy in policies}


def write(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline as a whole or not at all; its folder is made if it is new.

    Raises:
        EnvironmentFault: the disk does not take it; the old file stands.
    """
    replace_file(Path(path), encode(baseline))


def replace_file(path: Path, raw: bytes) -> None:
    """Write a file beside its place, make it durable, and put it there in one move.

    Raises:
        EnvironmentFault: the disk does not take it; the old file stands.
    """
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as e:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise EnvironmentFault(f"{path}: cannot be written ({e.strerror})") from e


def encode(baseline: Baseline) -> bytes:
    """Return the file: the same baseline gives the same bytes, one line a measure and case."""
    sample = baseline.sample
    head: dict[str, object] = {
        "schema": SCHEMA,
        "workflow": baseline.workflow,
        "commit": baseline.commit,
        "agents": baseline.agents,
        "measures": dict(sorted(baseline.measures.items())),
        "n_runs": len(sample.runs),
        "n_cases": len(sample.cases),
    }
    lines = [f" {_json(key)}: {_json(value)}," for key, value in head.items()]
    cases = []
    for case in sample.cases:
        places = [at for at, run in enumerate(sample.runs) if run.case == case]
        runs = [f"{sample.runs[at].id} {sample.runs[at].name}" for at in places]
        cells = ",\n".join(
            f"    {_json(name)}: {_json([_short(line[at]) for at in places])}"
            for name, line in sample.cells.items()
        )
        cases.append(
            f'  {_json(case)}: {{\n   "runs": {_json(runs)},\n   "cells": {{\n{cells}\n   }}\n  }}'
        )
    body = ",\n".join(cases)
    return ("{\n" + "\n".join(lines) + '\n "cases": {\n' + body + "\n }\n}\n").encode()


def _sample(file: _File) -> Sample:
    """Return the runs of a file.

    Raises:
        ValueError: a case has more or fewer cells of a measure than runs, or the counts are off.
    """
    runs: list[Run] = []
    cells: dict[str, list[Cell]] = {name: [] for name in file.measures}
    for case, held in file.cases.items():
        names = [text.partition(" ") for text in held.runs]
        runs += [Run(id_, name, case) for id_, _, name in names]
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
    )


def _short(cell: Cell) -> Cell | int:
    """Whole numbers without their point: people read this file."""
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell


def _json(value: Any) -> str:
    return json.dumps(msgspec.to_builtins(value), ensure_ascii=False)


def natural(case: str) -> tuple[bool, int, str]:
    """Order cases by number where they are numbers."""
    number = case.isascii() and case.isdigit()
    return (not number, int(case) if number else 0, case)
