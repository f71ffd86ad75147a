"""How bad each run was, as one gate sees it; and which runs have no answer.

A lost run has no answer and should have one: it counts at its worst case where a gate would pass
and at its best where it would fail. A run to which the question does not apply is no loss. A run
that is absent is at its worst, whatever is asked: bad, or longer than any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.gates.policy import GatePolicy
from stepscope.gates.sample import ABSENT, NOT_APPLICABLE, NOT_SCORED, Absent, Cell, Sample
from stepscope.values import UNMEASURED_KINDS

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

UNCERTAIN = "uncertain"
# Shares are counted in whole sub-goals and errors: bad by less than this is rounding.
NEARLY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The runs that a gate speaks of, one row each.

    Attributes:
        at: place of each run in its sample.
        cases: the case of each run.
        top: how bad: 0 to `size` (for figures: the figure itself, infinite where the run is
            absent); nan where lost.
        size: units of each run: 1, or its errors where recovery is the question.
        lost: runs without an answer that should have one.
        unmeasured: how many runs have no answer, by kind, those that are no loss included.
    """

    at: npt.NDArray[np.int64]
    cases: npt.NDArray[np.object_]
    top: Floats
    size: Floats
    lost: Flags
    unmeasured: Mapping[str, int]

    @property
    def n_lost(self) -> int:
        """Runs that should have an answer and have none."""
        return int(self.lost.sum())

    @property
    def n_measured(self) -> int:
        """Runs that have an answer."""
        return len(self.at) - self.n_lost

    def take(self, chosen: Flags) -> Side:
        """Return the chosen rows; what is unmeasured stays counted."""
        return Side(
            at=self.at[chosen],
            cases=self.cases[chosen],
            top=self.top[chosen],
            size=self.size[chosen],
            lost=self.lost[chosen],
            unmeasured=self.unmeasured,
        )

    def measured(self) -> Side:
        """Return the runs that have an answer."""
        return self.take(~self.lost)

    def filled(self, *, bad: bool) -> Side:
        """Return all runs, the lost ones at their worst (`bad`) or at their best."""
        worst = self.size if bad else np.zeros_like(self.size)
        return Side(
            at=self.at,
            cases=self.cases,
            top=np.where(self.lost, worst, self.top),
            size=self.size,
            lost=np.zeros_like(self.lost),
            unmeasured=self.unmeasured,
        )

    @property
    def bad(self) -> Floats:
        """How bad each run was, 0 to 1; runs of no units leave this to `size`."""
        return np.divide(self.top, self.size, out=np.zeros_like(self.top), where=self.size > 0)


def side(gate: GatePolicy, sample: Sample) -> Side:
    """Return the runs of a sample as a gate sees them; those it does not apply to are left out."""
    columns = [sample.cells.get(name) for name in gate.reads]
    absent: tuple[Cell, ...] = (Absent(NOT_SCORED),) * len(sample.runs)
    rows = zip(*(absent if column is None else column for column in columns), strict=True)
    at: list[int] = []
    found: list[tuple[float, float]] = []
    counts: dict[str, int] = {}
    for place, cells in enumerate(rows):
        answer = _answer(gate, cells)
        if isinstance(answer, str):
            counts[answer] = counts.get(answer, 0) + 1
            if answer == NOT_APPLICABLE:
                continue
            answer = (np.nan, _units(gate, cells))
        at.append(place)
        found.append(answer)
    pairs = np.array(found, dtype=np.float64).reshape(-1, 2)
    cases = np.empty(len(at), dtype=np.object_)
    cases[:] = [sample.runs[place].case for place in at]
    return Side(
        at=np.array(at, dtype=np.int64),
        cases=cases,
        top=pairs[:, 0],
        size=pairs[:, 1],
        lost=np.isnan(pairs[:, 0]),
        unmeasured={k: counts[k] for k in sorted(counts, key=_order)},
    )


def _order(kind: str) -> tuple[int, str]:
    known: tuple[str, ...] = UNMEASURED_KINDS
    return (known.index(kind) if kind in known else len(known), kind)


def _answer(gate: GatePolicy, cells: tuple[Cell, ...]) -> tuple[float, float] | str:
    """Return how bad a run was and of how many units, or the kind of its absence."""
    kind = gate.quantity.kind
    cell = cells[0]
    if cell == Absent(ABSENT):
        return (np.inf if gate.about == "ratio" else 1.0), 1.0
    if kind == "recovered":
        return _recovered(cell, cells[1])
    if isinstance(cell, Absent):
        return cell.unmeasured
    if kind == "label":
        return _by_label(gate, cell)
    if isinstance(cell, str):
        return "undefined"
    if gate.unrecovered and cell > 0:
        left = _unrecovered(cell, cells[1])
        if isinstance(left, str):
            return left
        cell = left
    if gate.about == "ratio":
        return float(cell), 1.0
    if gate.limit is not None:
        return float(cell > gate.limit), 1.0
    good_end_is_high = gate.quantity.better == "high" or (
        gate.quantity.better is None and (gate.wants_good or gate.about == "drop")
    )
    bad = 1.0 - cell if good_end_is_high else float(cell)
    return (0.0 if abs(bad) < NEARLY else bad), 1.0


def _by_label(gate: GatePolicy, cell: float | str) -> tuple[float, float] | str:
    """Return whether a label is a bad one; `uncertain` is an answer nobody gave."""
    good, bad = gate.quantity.good, gate.quantity.bad
    if cell == UNCERTAIN and UNCERTAIN not in (*good, *bad):
        return UNCERTAIN if gate.uncertain == "worst" else NOT_APPLICABLE
    if cell in bad:
        return 1.0, 1.0
    if cell in good:
        return 0.0, 1.0
    # Where the policy names one label, every other one is its opposite.
    return "undefined" if good and bad else (float(not bad), 1.0)


def _recovered(saved: Cell, errors: Cell) -> tuple[float, float] | str:
    """Return the errors of a run that were not recovered, of all its errors."""
    if not isinstance(errors, float | int):
        return errors.unmeasured if isinstance(errors, Absent) else "undefined"
    if errors == 0:
        return 0.0, 0.0
    left = _unrecovered(errors, saved)
    return left if isinstance(left, str) else (left, float(errors))


def _unrecovered(errors: float, saved: Cell) -> float | str:
    """Return how many errors of a run were not recovered, or the kind of the absence."""
    if isinstance(saved, float | int):
        return max(float(errors - saved), 0.0)
    # A run with errors to which recovery does not apply would be left out: it is a loss instead.
    lost = isinstance(saved, Absent) and saved.unmeasured != NOT_APPLICABLE
    return saved.unmeasured if isinstance(saved, Absent) and lost else "undefined"


def _units(gate: GatePolicy, cells: tuple[Cell, ...]) -> float:
    """Return the units of a lost run: its errors where they are known, else 1."""
    errors = cells[-1] if gate.quantity.kind == "recovered" else 1.0
    return float(errors) if isinstance(errors, float | int) and errors > 0 else 1.0
