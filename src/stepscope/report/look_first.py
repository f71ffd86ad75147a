"""The runs to look at first: chosen from the columns, then read one by one.

A selection, not a sample: no rate may be computed on it. Failing runs come before passing ones;
among them those where the rules found most. A passing run is chosen for what its outcome does not
excuse (a rule broken, a sub-goal missed, a write nobody asked for).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from stepscope.errors import StoreError
from stepscope.report.curve_suspects import with_curve
from stepscope.report.curves import Weights, curve_of
from stepscope.report.fleet_shapes import FleetShapes
from stepscope.report.hiding import hidden
from stepscope.report.joint import outcomes
from stepscope.report.rows import Table
from stepscope.report.suspects import suspects
from stepscope.report.types import LookFirst, Suspect
from stepscope.safety.text import visible_line
from stepscope.shape.names import HEALTHY
from stepscope.store import Store
from stepscope.values import Estimate

# What one finding weighs in choosing a run. Counts are capped, so that one long run with many
# small findings does not stand before a broken rule.
WEIGHTS = {
    "policy": 5.0,
    "subgoals.other_writes": 1.5,
    "errors": 0.5,
    "redundant_calls.count": 0.25,
}
CAP = 6.0
MISSED = 1.0
LEFT = 2.0
LOOP = 0.25
GATE, BROKEN, LOW = 3.0, 2.0, 1.0
# A failing run comes before any passing one, but for passes that were badly unearned.
FAILED = 4.0


def weights(table: Table) -> npt.NDArray[np.float64]:
    """Return what was found in each run, weighed; 0 for a passing run without findings."""
    total = np.zeros(len(table))
    for measure, weight in WEIGHTS.items():
        total += weight * np.minimum(_numbers(table, measure), CAP)
    goals, recovery = table.columns["subgoals"], table.columns["recovery"]
    total += MISSED * np.where(goals.valued, 1 - _numbers(table, "subgoals"), 0.0)
    left = np.where(recovery.valued, 1 - _numbers(table, "recovery"), 0.0)
    total += LEFT * np.minimum(left * _numbers(table, "errors"), CAP)
    total += LOOP * np.minimum(_numbers(table, "loops"), CAP)
    known, passed = outcomes(table)
    excused = (
        passed & (_numbers(table, "policy") == 0) & (_numbers(table, "subgoals.other_writes") == 0)
    )
    excused &= ~goals.valued | (_numbers(table, "subgoals") >= 1)
    total[excused] *= 0.1
    total += np.where(known & ~passed, FAILED, 0.0)
    return total if table.shapes is None else total + _by_shape(table.shapes)


def _by_shape(found: FleetShapes) -> npt.NDArray[np.float64]:
    """Return what the scores of each run weigh; labels of rules weigh nothing a second time."""
    if not found.scored:
        return np.zeros(len(found.state))
    broken = (found.label > HEALTHY) | (found.break_step >= 0)
    low = np.where(found.low_level, LOW, 0.0)
    return np.where(found.gate_failed, GATE, 0.0) + np.where(broken, BROKEN, 0.0) + low


def choose(table: Table, count: int | None) -> npt.NDArray[np.int64]:
    """Return the places of the chosen runs, most telling first; of all runs for None.

    Ties stay in the order of the rows: by name, then id.
    """
    found = weights(table)
    order = np.argsort(-found, kind="stable")
    if count is None:
        return order
    return order[found[order] > 0][:count]


def look_first(store: Store, table: Table, count: int | None) -> Iterator[LookFirst]:
    """Yield the chosen runs, each read whole, with its suspects and the command that shows it."""
    names = Counter(table.runs.name.tolist())
    scored = table.shapes is not None and table.shapes.scored
    given = (store.noise(), store.weights()) if scored else None
    for at in choose(table, count).tolist():
        key, name = table.runs.id[at], table.runs.name[at]
        found, note = _read(store, key, given)
        short = name if names[name] == 1 and visible_line(name) == name else key[:12]
        yield LookFirst(
            id=key,
            name=name,
            outcome=table.runs.outcome[at],
            steps=int(table.runs.steps[at]),
            suspects=found,
            command=f"stepscope show {shlex.quote(short)}",
            note=note,
        )


def _read(
    store: Store, key: str, given: tuple[Mapping[str, Estimate], Weights] | None
) -> tuple[tuple[Suspect, ...], str]:
    """Return the suspects of one run, or none and why the run could not be read.

    `given` are noise and weights, where any run has scores.
    """
    try:
        trajectory = store.trajectory(key)
    except StoreError as e:  # its texts were purged; its records still speak in the figures
        return (), str(e)
    records = list(store.records(trajectory=key))
    trajectory, records = hidden(store.shown, trajectory, records)
    found = suspects(trajectory, trajectory.case, records)
    if given is None:
        return found, ""
    noise, weights = given
    return with_curve(curve_of(trajectory, records, noise=noise, weights=weights), found), ""


def _numbers(table: Table, measure: str) -> npt.NDArray[np.float64]:
    """Return a column's numbers, 0 where it has none: for weighing only, never for a figure."""
    column = table.columns[measure]
    return np.where(column.valued, np.nan_to_num(column.value), 0.0)
