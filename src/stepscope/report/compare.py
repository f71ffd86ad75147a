"""Compare two groups of runs, figure by figure: paired by case where both ran the same tasks.

Every figure is compared as a mean over cases. The p values of all figures are adjusted together by
Holm's method. There is no overall winner: which figures matter is for the reader to say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from stepscope import stats
from stepscope.errors import UsageError
from stepscope.model.records import RULES, Figure
from stepscope.report import types
from stepscope.report.build import build_profile, find_effects, find_rank_flips
from stepscope.report.rows import RunTable, choose_fields, read_table, read_values, say_no_match
from stepscope.report.votes import measure_group, measure_scores, read_aspects
from stepscope.report.words import AXES, COMPARED, RATES, UNITS, give_reason, name_rubric
from stepscope.safety.redact import hide_in
from stepscope.shape import fleet
from stepscope.store import Store
from stepscope.store.columns import Rows
from stepscope.store.judged import JudgeAnswers, read_judge_answers
from stepscope.store.where import Where, combine_filters
from stepscope.values import Unmeasured

# Family-wise chance of a false claim over all figures of one comparison.
ALPHA = 0.05
# The difference in a pass rate that the needed number of cases is given for.
WORTH_SEEING = 0.05
# Units of what a run took.
MEANS = {f"{key}.mean": unit for key, unit in UNITS.items()}
MEAN_SHARES = ("subgoals.reached", "errors.recovered")


def compare_groups(
    rows: Rows,  # a store, or anything else with its columns
    a: str,  # the first group; effects are the second minus the first
    b: str,  # the second group
    *,
    by: str = "agent",  # the field whose values `a` and `b` are
    where: Where | None = None,  # a condition on runs; all when left out
    since: str | None = None,  # only runs that started then or later
    seed: int = 0,  # where permutations start
) -> types.ComparisonReport:
    """Return the runs whose field `by` is `a` compared with those where it is `b`."""
    fields = choose_fields(by)
    if a == b:
        raise UsageError(f"{a!r} is compared with itself; give two values of {by}")
    chosen = combine_filters(where, since)
    table = read_table(rows, chosen, fields)
    if not len(table):
        raise UsageError(say_no_match(rows, chosen))
    first, second = _group(table, by, a), _group(table, by, b)
    ours, theirs = np.unique(first.clusters), np.unique(second.clusters)
    shared, effects = np.intersect1d(ours, theirs), find_effects(rows, table)
    compared = {
        key: _difference(key, first, second, paired=len(shared) > 0, seed=seed)
        for key in (*COMPARED, *(name for name in table.custom if table.columns[name].valued.any()))
        if key not in AXES or table.scored(key)
    }
    tested = {key: d.p for key, d in compared.items() if d.p is not None}
    adjusted = dict(zip(tested, stats.holm(list(tested.values())).tolist(), strict=True))
    pair = ((first, a), (second, b))
    profiles = [build_profile(one, {by: name}, effects, seed=seed) for one, name in pair]
    judged = read_judge_answers(rows, table.runs, chosen)
    compared |= _compare_corrected(rows, table, profiles, judged, chosen)
    text, measures = None if where is None else where.text, table.versions()
    report = types.ComparisonReport(
        first=profiles[0],
        second=profiles[1],
        differences={
            key: replace(d, p_adjusted=adjusted.get(key), survives=adjusted.get(key, 1.0) <= ALPHA)
            for key, d in compared.items()
        },
        n_shared=len(shared),
        n_only_first=len(ours) - len(shared),
        n_only_second=len(theirs) - len(shared),
        worth_seeing=WORTH_SEEING,
        rank_flips=find_rank_flips(rows, table, profiles, judged, seed),
        shapes=_shapes(first, second, seed),
        provenance=types.Provenance(
            where=text, since=since, by=by, seed=seed, judges=(RULES,), measures=measures
        ),
    )
    return hide_in(rows.shown if isinstance(rows, Store) else None, report)


def _compare_corrected(
    rows: Rows,
    table: RunTable,
    profiles: Sequence[types.Profile],
    judged: Sequence[JudgeAnswers],
    where: Where | None,
) -> dict[str, types.Difference]:
    """Return the figures that people's labels correct in both groups, by rubric and judge."""
    found: dict[str, types.Difference] = {}
    unknown = [None] * len(table)  # of which steps are the agent's: only whole runs are corrected
    for aspect in read_aspects(rows, table, judged, unknown):
        if not aspect.labels:
            continue
        groups = [measure_group(aspect, of).seats for of in profiles]
        sides = [{seat.judge: seat.corrected for seat in seats} for seats in groups]
        found |= _differ(name_rubric(aspect.rubric), *sides)
    scores = [
        {one.judge: one.corrected for one in measure_scores(rows, table, judged, [of], where)}
        for of in profiles
    ]
    return found | _differ("step score", *scores)


def _differ(
    name: str,
    first: Mapping[str, types.CorrectedShare | None],
    second: Mapping[str, types.CorrectedShare | None],
) -> dict[str, types.Difference]:
    """Return corrected figures compared by judge, where either side has labels."""
    found = {}
    none = Unmeasured("insufficient_data", "no person's label")
    for judge in dict.fromkeys([*first, *second]):
        sides = {"first": first.get(judge), "second": second.get(judge)}
        if not any(sides.values()):
            continue
        one, two = (none if side is None else side.rate for side in sides.values())
        weak = [
            f"{at}: {none.reason if side is None else side.weak}"
            for at, side in sides.items()
            if side is None or side.weak
        ]
        effect = stats.corrected_difference(one, two)
        effect = Unmeasured("insufficient_data", "; ".join(weak)) if weak else effect
        made = types.Difference(first=one, second=two, paired=False, effect=effect)
        found[f"{name} by {judge}, corrected"] = made
    return found


def _shapes(first: RunTable, second: RunTable, seed: int) -> types.ShapesDifference | Unmeasured:
    """Return the shapes of both groups compared, by handing their runs out anew within cases."""
    if first.shapes is None or second.shapes is None:
        return types.NO_CURVES
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
    source, sigma = first.shapes.source, first.shapes.sigma
    return types.ShapesDifference(
        difference=found.difference, p=found.p, method=found.method, source=source, sigma=sigma
    )


def _group(table: RunTable, by: str, value: str) -> RunTable:
    chosen = table.matches({by: value})
    if not chosen.any():
        have = sorted({str(v) for v in table.values(by).tolist() if v is not None})
        named = ", ".join(map(repr, have[:10])) or "no value at all"
        raise UsageError(f"no run has {by} {value!r}; there is {named}")
    return table.take(chosen)


def _difference(
    key: str, first: RunTable, second: RunTable, *, paired: bool, seed: int
) -> types.Difference:
    sides = []
    for table in (first, second):
        measure = COMPARED.get(key, key)
        values, valued = read_values(table, measure)
        sides.append((values[valued], table.clusters[valued], table.lost(measure)))
    (xs, x_cases, x_lost), (ys, y_cases, y_lost) = sides
    lost = {k: x_lost.get(k, 0) + y_lost.get(k, 0) for k in {**x_lost, **y_lost}}
    rng = np.random.default_rng([seed, crc32(key.encode())])
    compared = stats.compare_paired if paired else stats.compare_unpaired
    unit = RATES.get(key) or MEANS.get(key, "share" if key in COMPARED else "")
    found = compared(xs, x_cases, ys, y_cases, rng=rng, unmeasured=lost, unit=unit)
    estimate: Callable[..., Figure] = stats.mean_share if key in MEAN_SHARES else stats.proportion
    if unit != "share":
        estimate = stats.rate if key in RATES else stats.mean
    before, after = (give_reason(key, estimate(v, c, unmeasured=gone)) for v, c, gone in sides)
    effect = give_reason(key, found) if isinstance(found, Unmeasured) else found.effect
    made = types.Difference(first=before, second=after, effect=effect, paired=paired)
    if isinstance(found, Unmeasured):
        return made
    n, least, needed = found.n if paired else 0, found.detectable, found.needed
    return replace(made, p=found.p, n_cases=n, detectable=least, cases_needed=needed)
