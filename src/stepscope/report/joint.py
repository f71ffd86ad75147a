"""Outcome against path: the joint tables, and the runs in which the two disagree.

A run that failed with every sub-goal reached, or passed with one missed, is where one grade alone
would mislead. Runs where either grade is absent stay out of the table and are counted beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.report.rows import Table
from stepscope.report.types import Figure, JointTable, RunLine
from stepscope.values import Decision, Unmeasured

Flags = npt.NDArray[np.bool_]
# Shares are counted in whole sub-goals and errors: below 1 by less than this is rounding.
NEARLY = 1e-9
OTHER_WRITES = "subgoals.other_writes"


def tables(table: Table) -> Iterator[JointTable]:
    """Yield outcome against sub-goals, errors and policy, each where anything was measured."""
    goals = table.columns["subgoals"]
    complete = _full(goals.value)
    of_goals = ("all sub-goals", "some missed")
    yield from _joint(table, "sub-goals", of_goals, goals.valued, (complete, ~complete))
    errors, recovery = table.columns["errors"], table.columns["recovery"]
    none = errors.valued & (errors.value == 0)
    over = recovery.valued & _full(recovery.value)
    left = recovery.valued & ~_full(recovery.value)
    of_errors = ("no error", "all recovered", "some not")
    if (over | left).any():
        yield from _joint(table, "errors", of_errors, none | over | left, (none, over, left))
    policy = table.columns["policy"]
    kept = policy.value == 0
    yield from _joint(
        table, "policy", ("rules kept", "a rule broken"), policy.valued, (kept, ~kept)
    )


def earned(table: Table) -> tuple[Flags, Flags]:
    """Return which runs have a grade of the path, and which of these earned a pass by it.

    The grade is good with every sub-goal reached and no rule broken (where a policy is declared).
    """
    goals, policy = table.columns["subgoals"], table.columns["policy"]
    graded = goals.valued | policy.valued
    bad = goals.valued & ~_full(goals.value) | policy.valued & (policy.value > 0)
    return graded, graded & ~bad


def outcomes(table: Table) -> tuple[Flags, Flags]:
    """Return which runs have an outcome, and which of these passed."""
    column = table.columns["outcome"]
    known = column.valued
    return known, known & (np.nan_to_num(column.value) > 0)


class Disagreement(NamedTuple):
    """Where outcome and path disagree: the runs, the share of runs, and whether it is too rare."""

    lucky: tuple[RunLine, ...]
    unlucky: tuple[RunLine, ...]
    share: Figure
    too_loose: Decision


def disagreement(table: Table) -> Disagreement:
    """Return the runs that passed unearned, those that failed though earned, and what it shows."""
    known, passed = outcomes(table)
    graded, good = earned(table)
    both = known & graded
    lost = {"missing_input": int((~both).sum())}
    joint = stats.joint_table(passed[both], good[both], table.clusters[both], unmeasured=lost)
    if isinstance(joint, Unmeasured):
        return Disagreement((), (), joint, Decision("undecided", joint.reason))
    return Disagreement(
        _lines(table, both & passed & ~good),
        _lines(table, both & ~passed & good),
        joint.disagreement,
        _loose(joint),
    )


def _loose(joint: stats.JointTable) -> Decision:
    found = joint.too_loose
    if isinstance(found, Unmeasured):
        return Decision("undecided", found.reason)
    upper = f"outcome and path disagree in at most {found.upper:.0%} of runs"
    if found.loose:
        return Decision("fail", f"{upper}: the trajectory scorer is too loose to add anything")
    return Decision("pass", f"nothing shows that the trajectory scorer is too loose: {upper}")


def _lines(table: Table, chosen: Flags) -> tuple[RunLine, ...]:
    """Return the chosen runs with what their path shows; those that wrote nothing else first."""
    places = np.flatnonzero(chosen)
    shares, broken, writes = (
        np.where(column.valued, column.value, np.nan)[places].tolist()
        for column in map(table.columns.__getitem__, ("subgoals", "policy", OTHER_WRITES))
    )
    order = sorted(range(len(places)), key=lambda at: writes[at] if writes[at] > 0 else 0)
    out = []
    for at in order:
        # NaN fails every comparison: what was not measured is not said.
        said = ["every sub-goal reached"] if shares[at] >= 1 else []
        said += [f"{shares[at]:.0%} of sub-goals"] if shares[at] < 1 else []
        said += [f"{broken[at]:.0f} violations"] if broken[at] > 0 else []
        said += [f"{writes[at]:.0f} other writes"] if writes[at] > 0 else []
        row = int(places[at])
        reason = ", ".join(said)
        out.append(RunLine(id=table.runs.id[row], name=table.runs.name[row], reason=reason))
    return tuple(out)


def _joint(
    table: Table, grade: str, names: tuple[str, ...], graded: Flags, columns: tuple[Flags, ...]
) -> Iterator[JointTable]:
    known, passed = outcomes(table)
    both = known & graded
    if not both.any():
        return
    notes = _remarks(table, both & ~passed & columns[0]) if grade == "sub-goals" else {}
    yield JointTable(
        grade=grade,
        columns=names,
        passed=tuple(int((both & passed & flags).sum()) for flags in columns),
        failed=tuple(int((both & ~passed & flags).sum()) for flags in columns),
        unmeasured=len(table) - int(both.sum()),
        notes=notes,
    )


def _remarks(table: Table, unearned_fail: Flags) -> dict[str, str]:
    """Say of the failing runs with every sub-goal reached how many also wrote something else."""
    writes = table.columns[OTHER_WRITES]
    n, more = int(unearned_fail.sum()), int((unearned_fail & (writes.value > 0)).sum())
    return {"fail": f"{more} of the {n} also wrote something else"} if more else {}


def _full(value: npt.NDArray[np.float64]) -> Flags:
    return np.nan_to_num(value) >= 1 - NEARLY
