"""Compare two groups of runs, figure by figure: paired by case where both ran the same tasks.

Every figure is compared as a mean over cases. The p values of all figures are adjusted together by
Holm's method. There is no overall winner: which figures matter is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.model.records import Figure
from stepscope.report.build import build_profile, read_axis_faults
from stepscope.report.rows import (
    LABELS_ARE_NO_SCORES,
    RunFlags,
    RunTable,
    choose_fields,
    combine_conditions,
    read_table,
)
from stepscope.report.types import (
    NO_CURVES,
    ComparisonReport,
    Difference,
    Provenance,
    ShapesDifference,
)
from stepscope.report.words import AXES, give_reason
from stepscope.shape import fleet
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from stepscope.values import Unmeasured

Floats = npt.NDArray[np.float64]

# Family-wise chance of a false claim over all figures of one comparison.
ALPHA = 0.05
# The difference in a pass rate that the needed number of cases is given for.
WORTH_SEEING = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedFigure:
    """How one figure is compared: a value for each run that has one, and its mean's estimator.

    Attributes:
        measure: whose losses are counted.
        values: a value for each run, and which runs have one.
        estimate: the estimator of the mean, from `stats`.
        unit: unit of the values.
    """

    measure: str
    values: Callable[[RunTable], tuple[Floats, RunFlags]]
    estimate: Callable[..., Figure]
    unit: str = "share"


def _column(measure: str) -> Callable[[RunTable], tuple[Floats, RunFlags]]:
    return lambda table: (table.columns[measure].value, table.columns[measure].valued)


def _breach(table: RunTable) -> tuple[Floats, RunFlags]:
    policy = table.columns["policy"]
    return (np.nan_to_num(policy.value) > 0).astype(np.float64), policy.valued


def _mean_of(measure: str, unit: str) -> ComparedFigure:
    return ComparedFigure(measure=measure, values=_column(measure), estimate=stats.mean, unit=unit)


COMPARED: dict[str, ComparedFigure] = {
    "outcome.pass": ComparedFigure(
        measure="outcome", values=_column("outcome"), estimate=stats.proportion
    ),
    "subgoals.reached": ComparedFigure(
        measure="subgoals", values=_column("subgoals"), estimate=stats.mean_share
    ),
    "redundant_calls.per_run": ComparedFigure(
        measure="redundant_calls.count",
        values=_column("redundant_calls.count"),
        estimate=stats.rate,
        unit="calls",
    ),
    "errors.per_run": ComparedFigure(
        measure="errors", values=_column("errors"), estimate=stats.rate, unit="errors"
    ),
    "errors.recovered": ComparedFigure(
        measure="recovery", values=_column("recovery"), estimate=stats.mean_share
    ),
    "policy.violations": ComparedFigure(
        measure="policy", values=_breach, estimate=stats.proportion
    ),
    "steps.mean": _mean_of("efficiency.steps", "steps"),
    "tokens.mean": _mean_of("efficiency.tokens", "tokens"),
    "cost_usd.mean": _mean_of("efficiency.cost_usd", "usd"),
    "seconds.mean": _mean_of("efficiency.seconds", "seconds"),
    **{
        axis: ComparedFigure(
            measure=axis, values=partial(read_axis_faults, measure=axis), estimate=stats.proportion
        )
        for axis in AXES
    },
}


def compare_groups(
    rows: Rows,
    a: str,
    b: str,
    *,
    by: str = "agent",
    where: Where | None = None,
    since: str | None = None,
    seed: int = 0,
) -> ComparisonReport:
    """Return the comparison of the runs whose field `by` is `a` with those where it is `b`.

    Args:
        rows: a store, or anything else with its columns.
        a: the first group; effects are the second minus the first.
        b: the second group.
        by: the field whose values `a` and `b` are.
        where: a condition on runs; all when left out.
        since: only runs that started then or later.
        seed: where permutations start.

    Raises:
        StoreError: versions of a measure are mixed.
        UsageError: a group has no runs, both are the same, or `by` is no field.
    """
    fields = choose_fields(by)
    if a == b:
        raise UsageError(f"{a!r} is compared with itself; give two values of {by}")
    table = read_table(rows, combine_conditions(where, since), fields)
    values = table.values(by)
    first, second = _group(table, values, by, a), _group(table, values, by, b)
    ours, theirs = np.unique(first.clusters), np.unique(second.clusters)
    shared = np.intersect1d(ours, theirs)
    compared = {
        key: _difference(key, how, first, second, paired=len(shared) > 0, seed=seed)
        for key, how in COMPARED.items()
        if key not in AXES or table.scored(key)
    }
    return ComparisonReport(
        first=build_profile(first, {by: a}, seed=seed),
        second=build_profile(second, {by: b}, seed=seed),
        differences=_adjusted(compared),
        n_shared=len(shared),
        n_only_first=len(ours) - len(shared),
        n_only_second=len(theirs) - len(shared),
        worth_seeing=WORTH_SEEING,
        shapes=_shapes(first, second, seed),
        provenance=Provenance(
            where=None if where is None else where.text,
            since=since,
            by=by,
            seed=seed,
            judges=("rules",),
            measures=table.versions(),
        ),
    )


def _shapes(first: RunTable, second: RunTable, seed: int) -> ShapesDifference | Unmeasured:
    """Return the shapes of both groups compared, by handing their runs out anew within cases."""
    if first.shapes is None or second.shapes is None:
        return NO_CURVES
    if not first.shapes.scored:
        return LABELS_ARE_NO_SCORES
    fitted = first.shapes.fitted, second.shapes.fitted
    found = fleet.compare_fleets(
        first.shapes.log_likelihood[fitted[0]],
        second.shapes.log_likelihood[fitted[1]],
        rng=np.random.default_rng([seed, crc32(b"shapes")]),
        clusters=(first.clusters[fitted[0]], second.clusters[fitted[1]]),
        unmeasured=(first.shapes.lost(), second.shapes.lost()),
    )
    if isinstance(found, Unmeasured):
        return found
    return ShapesDifference(
        difference=found.difference,
        p=found.p,
        method=found.method,
        source=first.shapes.source,
        sigma=first.shapes.sigma,
    )


def _group(table: RunTable, values: npt.NDArray[np.object_], by: str, value: str) -> RunTable:
    chosen = np.array([v == value for v in values.tolist()], dtype=np.bool_)
    if not chosen.any():
        have = sorted({str(v) for v in values.tolist() if v is not None})
        named = ", ".join(map(repr, have[:10])) or "no value at all"
        raise UsageError(f"no run has {by} {value!r}; there is {named}")
    return table.take(chosen)


def _difference(
    key: str, how: ComparedFigure, first: RunTable, second: RunTable, *, paired: bool, seed: int
) -> Difference:
    sides = []
    for table in (first, second):
        values, valued = how.values(table)
        sides.append((values[valued], table.clusters[valued], table.lost(how.measure)))
    (xs, x_cases, x_lost), (ys, y_cases, y_lost) = sides
    lost = {k: x_lost.get(k, 0) + y_lost.get(k, 0) for k in {**x_lost, **y_lost}}
    rng = np.random.default_rng([seed, crc32(key.encode())])
    compared = stats.compare_paired if paired else stats.compare_unpaired
    found = compared(xs, x_cases, ys, y_cases, rng=rng, unmeasured=lost, unit=how.unit)
    figures = (
        give_reason(key, how.estimate(values, cases, unmeasured=gone))
        for values, cases, gone in sides
    )
    before, after = figures
    if isinstance(found, Unmeasured):
        return Difference(first=before, second=after, effect=give_reason(key, found), paired=paired)
    return Difference(
        first=before,
        second=after,
        effect=found.effect,
        p=found.p,
        paired=paired,
        n_cases=found.n if paired else 0,
        detectable=found.detectable,
        cases_needed=found.needed,
    )


def _adjusted(differences: dict[str, Difference]) -> dict[str, Difference]:
    """Return the comparisons with p adjusted by Holm over all that have one."""
    tested = {key: d.p for key, d in differences.items() if d.p is not None}
    adjusted = dict(zip(tested, stats.holm(list(tested.values())).tolist(), strict=True))
    return {
        key: Difference(
            first=d.first,
            second=d.second,
            effect=d.effect,
            p=d.p,
            p_adjusted=adjusted.get(key),
            survives=adjusted.get(key, 1.0) <= ALPHA,
            paired=d.paired,
            n_cases=d.n_cases,
            detectable=d.detectable,
            cases_needed=d.cases_needed,
        )
        for key, d in differences.items()
    }
