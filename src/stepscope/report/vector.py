"""The report vector of one group of runs: every figure an Estimate, or why there is none.

Trials of one task are a cluster. What has no answer is counted by kind and never filled in.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.report.axes import axes
from stepscope.report.joint import outcomes
from stepscope.report.keys import MEASURES, explained
from stepscope.report.rows import Table
from stepscope.report.types import Figure, Trials
from stepscope.values import Unmeasured

Floats = npt.NDArray[np.float64]

UNITS = {"steps": "steps", "tokens": "tokens", "cost_usd": "usd", "seconds": "seconds"}
# pass^k beyond this many trials says nothing that these do not.
MOST_TRIALS = 8


def vector(table: Table) -> tuple[dict[str, Figure], dict[str, str], Trials | None]:
    """Return the figures of a group by key, remarks on them by key, and its repeated trials."""
    figures: dict[str, Figure] = {"outcome.pass": _passing(table)}
    powers, trials = _powers(table)
    figures |= powers
    figures["subgoals.reached"] = _subgoals(table)
    figures["redundant_calls.per_run"] = _redundant(table)
    figures["errors.recovered"], notes = _recovered(table)
    figures["policy.violations"] = _violations(table)
    for quantity in ("steps", "tokens", "cost_usd", "seconds"):
        figures |= _spread(table, quantity)
    figures |= axes(table)
    if powers and trials is not None:
        counts = f"always {trials.always}, mixed {trials.mixed}, never {trials.never}"
        notes[list(powers)[-1]] = counts
    return {key: explained(key, figure) for key, figure in figures.items()}, notes, trials


def _passing(table: Table) -> Figure:
    known, passed = outcomes(table)
    lost = table.lost("outcome")
    return stats.proportion(passed[known], table.clusters[known], unmeasured=lost)


def _powers(table: Table) -> tuple[dict[str, Figure], Trials | None]:
    """Return pass^2 up to the most trials of a task, and the tasks by how often they passed."""
    known, passed = outcomes(table)
    if not known.any():
        return {}, None
    successes, tried = stats.trials_per_task(passed[known], table.clusters[known])
    most = int(tried.max())
    always, never = successes == tried, successes == 0
    trials = Trials(
        low=int(tried.min()),
        high=most,
        always=int(always.sum()),
        mixed=int((~always & ~never).sum()),
        never=int(never.sum()),
    )
    last = min(most, MOST_TRIALS)
    powers = {
        f"outcome.pass^{k}": stats.pass_hat_k(successes, tried, k) for k in range(2, last + 1)
    }
    return powers, trials


def _subgoals(table: Table) -> Figure:
    """Return sub-goals reached per sub-goal asked for: a run that had more to do weighs more."""
    reached, asked = table.columns[MEASURES["subgoals.reached"]], table.columns["subgoals.total"]
    chosen = reached.valued & asked.valued
    return stats.ratio(
        reached.value[chosen],
        asked.value[chosen],
        table.clusters[chosen],
        unmeasured=table.lost(reached.measure),
        unit_of_n="goals",
    )


def _redundant(table: Table) -> Figure:
    column = table.columns[MEASURES["redundant_calls.per_run"]]
    chosen = column.valued
    return stats.rate(
        column.value[chosen], table.clusters[chosen], unmeasured=table.lost(column.measure)
    )


def _recovered(table: Table) -> tuple[Figure, dict[str, str]]:
    """Return recovered errors per error; runs without errors have nothing to say."""
    recovered, errors = table.columns[MEASURES["errors.recovered"]], table.columns["errors"]
    chosen = recovered.valued & errors.valued & (errors.value > 0)
    if errors.valued.any() and not chosen.any():
        return Unmeasured("not_applicable", "no tool error"), {}
    # A loss here is a run whose errors are unknown; a run without errors loses nothing.
    lost = {kind: n for kind, n in table.lost("errors").items() if kind != "not_applicable"}
    figure = stats.ratio(
        recovered.value[chosen], errors.value[chosen], table.clusters[chosen], unmeasured=lost
    )
    runs = int(chosen.sum())
    note = f"natural errors, in {runs:,} run{'' if runs == 1 else 's'}" if runs else ""
    return figure, {"errors.recovered": note} if note else {}


def _violations(table: Table) -> Figure:
    column = table.columns[MEASURES["policy.violations"]]
    chosen = column.valued
    broken = column.value[chosen] > 0
    return stats.proportion(broken, table.clusters[chosen], unmeasured=table.lost(column.measure))


def _spread(table: Table, quantity: str) -> dict[str, Figure]:
    column = table.columns[MEASURES[quantity]]
    chosen = column.valued
    values, clusters = column.value[chosen], table.clusters[chosen]
    lost = table.lost(column.measure)
    figures: dict[str, Figure] = {}
    for name, q in (("median", 0.5), ("p95", 0.95)):
        key = f"{quantity}.{name}"
        if key != "tokens.p95":
            figures[key] = stats.quantile(
                values, q, clusters, unit=UNITS[quantity], unmeasured=lost
            )
    return figures
