"""Rows written by hand: what `build` reads, without a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.model import Record
from stepscope.store.columns import (
    NO_RECORD,
    AnswerColumn,
    Columns,
    Rows,
    Runs,
    Signs,
    StepColumn,
    Texts,
)
from stepscope.store.where import Where
from stepscope.values import Estimate
from tests.factories import current_version, signs

ABSENT = -1  # not_applicable
MISSING = -2  # missing_input


def texts(values: Sequence[object]) -> Texts:
    found = np.empty(len(values), dtype=np.object_)
    found[:] = values
    return found


@dataclass(frozen=True)
class LiteralRows:
    """Columns as lists: a number is an answer, a negative code in `absent` says why there is none.

    Attributes:
        tasks: task of each run.
        agents: agent of each run.
        values: by measure, a number a run, or None where there is none.
        absent: by measure, the state of the runs that have none; NO_RECORD where left out.
        versions: by measure; "1" where left out.
        workflows: workflow of each run; "w" where left out.
        labels: by measure that answers in labels, a label a run; None: it does not apply there.
        tags: by key, a value a run.
        scores: step scores of each run, None where a step was not scored; by scorer (family, judge)
            where several scored.
        fixed: weights by workflow and task.
        sigma: sigma of each judge.
        cites: by measure, the steps that a run's answer cites.
        signatures: those of each run, all at step 3.
        states: of each run, as `Signs` has them; all are seen where none is given.
    """

    tasks: Sequence[str | None]
    agents: Sequence[str | None] = ()
    values: dict[str, Sequence[float | None]] = field(default_factory=dict)
    absent: dict[str, int] = field(default_factory=dict)
    versions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    workflows: Sequence[str] = ()
    labels: dict[str, Sequence[str | None]] = field(default_factory=dict)
    tags: dict[str, Sequence[str | None]] = field(default_factory=dict)
    scores: dict[tuple[str, str], Sequence[Sequence[float | None]]] = field(default_factory=dict)
    fixed: dict[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    sigma: dict[str, Estimate] = field(default_factory=dict)
    cites: dict[str, Sequence[tuple[int, ...] | None]] = field(default_factory=dict)
    signatures: Sequence[Sequence[str]] = ()
    states: Sequence[int] = ()

    def runs(self, where: Where | None = None) -> Runs:
        n = len(self.tasks)
        passed = self.values.get("outcome", [None] * n)
        outcome = {None: "unknown", 0.0: "fail", 1.0: "pass"}
        return Runs(
            key=np.arange(n),
            id=texts([f"{at:032x}" for at in range(n)]),
            name=texts([f"w/{at:03d}" for at in range(n)]),
            workflow=texts(self.workflows or ["w"] * n),
            task=texts(self.tasks),
            trial=texts([None] * n),
            agent=texts(self.agents or [None] * n),
            agent_version=texts([None] * n),
            outcome=texts([outcome[value] for value in passed]),
            steps=np.full(n, 10),
            calls=np.full(n, 3),
            start_ns=np.full(n, None),
        )

    def column(self, measure: str, runs: Runs | None = None) -> AnswerColumn:
        n = len(self.tasks)
        if measure in self.labels:
            said = self.labels[measure]
            value = np.array(
                [np.nan if v is None else v for v in self.values.get(measure, [None] * n)]
            )
            none = np.isnan(value) & np.array([label is None for label in said])
            known = measure in self.versions or measure not in self.values
            return AnswerColumn(
                measure=measure,
                value=value,
                label=texts(said),
                state=np.where(none, ABSENT, 1).astype(np.int8),
                versions=self.versions.get(
                    measure, (current_version(measure),) if known else ("1",)
                ),
            )
        given = self.values.get(measure, [None] * n)
        state = self.absent.get(measure, NO_RECORD)
        return AnswerColumn(
            measure=measure,
            value=np.array([np.nan if v is None else v for v in given]),
            label=texts([None] * n),
            state=np.array([state if v is None else 1 for v in given], dtype=np.int8),
            versions=self.versions.get(measure, ("1",) if measure in self.values else ()),
        )

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        given = self.scores if measure == "scores" else {}
        entries = [
            (scorer, at, step, np.nan if value is None else value)
            for scorer, curves in enumerate(given.values())
            for at, curve in enumerate(curves)
            for step, value in enumerate(curve)
        ]
        table = np.array(entries, np.float64).reshape(-1, 4)
        scorer, at, step = table[:, :3].T.astype(np.int64)
        return StepColumn(
            scorers=tuple(given),
            scorer=scorer,
            at=at,
            step=step,
            repeat=np.zeros(len(table), np.int64),
            value=table[:, 3],
        )

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        return list(self.cites.get(measure, [None] * len(runs)))

    def signs(self, runs: Runs, known: Columns | None = None) -> Signs:
        return signs(self.signatures or [()] * len(runs), states=self.states)

    def weights(self) -> dict[tuple[str, str], tuple[float, ...]]:
        return self.fixed

    def noise(self) -> dict[str, Estimate]:
        return self.sigma

    def tag(self, key: str, runs: Runs) -> Texts:
        return texts(self.tags.get(key, [None] * len(self.tasks)))

    def measures(self) -> tuple[str, ...]:
        return tuple(sorted(self.values))

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        yield from ()


def rows(literal: LiteralRows) -> Rows:
    """Say that the literal is what a report is built from; mypy checks it."""
    return literal
