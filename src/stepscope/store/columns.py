"""Rows as columns: what a report reads, whether they come from SQLite or from a Parquet folder.

A report over many runs never decodes a trace. It reads `Runs`, one array a field, and one `Column`
a measure, aligned with them. Where a value is absent its cell holds NaN *and* a state that says
why: arithmetic goes through `Column.valued`, never through the NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from stepscope.model import Record
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Estimate, UnmeasuredKind

Texts = npt.NDArray[np.object_]

ANSWERED = 1
NO_RECORD = 0


def state_of(kind: UnmeasuredKind) -> int:
    """Return the cell state of an unmeasured kind: -1 for the first kind, -2 for the second.

    >>> state_of("missing_input")
    -2
    """
    return -1 - UNMEASURED_KINDS.index(kind)


def kind_of(state: int) -> UnmeasuredKind:
    """Return the unmeasured kind of a negative cell state.

    >>> kind_of(-2)
    'missing_input'
    """
    return UNMEASURED_KINDS[-1 - state]


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs as aligned arrays, ordered by name, then id; superseded runs are left out.

    Attributes:
        key: what `column` aligns with; unique within one store, no meaning outside it.
        task: None where the run names none; so are trial, agent and agent_version.
        outcome: "pass", "fail" or "unknown".
    """

    key: npt.NDArray[np.int64]
    id: Texts
    name: Texts
    workflow: Texts
    task: Texts
    trial: Texts
    agent: Texts
    agent_version: Texts
    outcome: Texts
    steps: npt.NDArray[np.int64]
    calls: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The whole-run answers of one measure, or one aspect of it, aligned with `Runs`.

    Attributes:
        measure: its full name ("redundant_calls.count").
        value: NaN where there is no number.
        label: None where there is no label.
        state: 1 answered, 0 no record (not scored), negative: unmeasured, see `kind_of`.
        versions: versions of the measure behind the answers; more than one may not be mixed.
    """

    measure: str
    value: npt.NDArray[np.float64]
    label: Texts
    state: npt.NDArray[np.int8]
    versions: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.state)

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Runs that have an answer: a value, a label or both."""
        return np.equal(self.state, ANSWERED)

    @property
    def valued(self) -> npt.NDArray[np.bool_]:
        """Runs whose answer has a number."""
        return self.answered & ~np.isnan(self.value)

    def unmeasured(self) -> dict[str, int]:
        """Return how many runs could not be measured, by kind; runs without a record excluded."""
        states, counts = np.unique(self.state[self.state < 0], return_counts=True)
        found = {kind_of(int(s)): int(n) for s, n in zip(states, counts, strict=True)}
        return {kind: found[kind] for kind in UNMEASURED_KINDS if kind in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumn:
    """Numbers given to single steps, one entry each, by scorer, run, step and repeat.

    Attributes:
        scorers: family and judge of everyone who gave any.
        scorer: index into `scorers`.
        at: place of the run among the runs asked for.
        step: index of the step.
        repeat: which scoring of this step by this scorer.
        value: the number; NaN where the step was looked at and not scored.
    """

    scorers: tuple[tuple[str, str], ...]
    scorer: npt.NDArray[np.int64]
    at: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]
    repeat: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]

    @classmethod
    def empty(cls) -> Self:
        """Return a column without entries."""
        none = np.empty(0, np.int64)
        value = np.empty(0, np.float64)
        return cls(scorers=(), scorer=none, at=none, step=none, repeat=none, value=value)

    def __len__(self) -> int:
        return len(self.at)


class Rows(Protocol):
    """What a report is built from: a store, or the Parquet folder exported from one."""

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs that `where` chooses."""

    def column(self, measure: str, runs: Runs | None = None) -> Column:
        """Return the answers of one measure, aligned with `runs` (all runs when left out)."""

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""

    def weights(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """Return the weights of steps by workflow and task, "*" for every task."""

    def noise(self) -> Mapping[str, Estimate]:
        """Return the sigma of each judge whose repeated scorings were looked at."""

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""

    def measures(self) -> tuple[str, ...]:
        """Return the full names of all measures that have records, sorted."""

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield records in an order that does not depend on when they were made."""
