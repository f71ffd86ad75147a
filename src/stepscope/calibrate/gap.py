"""The held-out gap: the score on tasks that anybody may tune on, less that on held-out tasks.

One figure a group of runs (a version of an agent, as a rule), each task counting the same. An agent
that was fitted to its tasks scores higher on them. Decided on the interval, and on the p of drawing
the parts again: passes and coarse scores alone would otherwise raise false alarms. Several groups
are decided together (Holm). The trend is of the same tasks in all groups, in the order of time.
Refused: a corpus that is not frozen. Left out and counted: runs of tasks that are in neither part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from stepscope import stats
from stepscope.cases.split import Split, TaskKey
from stepscope.errors import UsageError
from stepscope.model.records import OUTCOME_NAME, STEP_SCORES, Figure
from stepscope.safety.text import visible_line
from stepscope.stats import Comparison
from stepscope.store.columns import NO_RECORD, Bools, Floats, Rows, Runs, count_unmeasured
from stepscope.store.judged import judge_version_order
from stepscope.store.where import Where
from stepscope.values import (
    Decision,
    Estimate,
    Unmeasured,
    format_count,
    format_difference,
    format_estimate,
    format_limits,
    format_percent,
)

# Source: the article on arcs: below the first the signal is healthy, above the second it stops.
HEALTHY, STOP = 0.05, 0.10
# A benchmark on which three versions running score more is retired.
RETIRED_ABOVE, RUNNING = 0.92, 3
ALPHA = 0.05
NO_TREND = Decision("undecided", "neither widening nor narrowing is shown")


class GroupGap(msgspec.Struct, frozen=True, kw_only=True):
    """The gap of one group of runs."""

    group: str | None  # the value of the field; None where runs have none
    score: Figure  # of all tasks of both parts
    development: Figure
    held_out: Figure
    gap: Figure  # development less held out
    power: float | None  # chance of finding a gap of STOP with these tasks; None if unknown
    p_adjusted: float | None  # two-sided, after Holm over the groups
    decision: Decision  # fail: inflation; pass: a gap of HEALTHY or more is excluded


class HeldOutGap(msgspec.Struct, frozen=True, kw_only=True):
    """The gap of every group of runs of one frozen corpus, the earliest group first."""

    corpus: str
    split: str  # the hash of its split
    measure: str
    by: str
    groups: tuple[GroupGap, ...]
    trend: Figure  # change of the gap from one group to the next, on the tasks of all of them
    trend_decision: Decision  # fail: it widens
    retire: Decision  # fail: retire the benchmark
    other_runs: int = 0  # runs of tasks in neither part
    untimed: bool = False  # a group has no time, so that the order is that of names

    def __str__(self) -> str:
        return "\n".join(_lines(self))


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of the runs of one group, NaN where a run has none; the task and part of each."""

    value: Floats
    tasks: list[TaskKey]
    held: Bools
    lost: dict[str, int]

    def means(self, *, held: bool, absent: float | None = None) -> dict[TaskKey, float]:
        """Return the mean of each task of a part; absent scores count as given, or not at all."""
        found: dict[TaskKey, list[float]] = {}
        for value, task, inside in zip(self.value, self.tasks, self.held, strict=True):
            known = value if np.isfinite(value) else absent
            if bool(inside) is held and known is not None:
                found.setdefault(task, []).append(float(known))
        return {task: float(np.mean(values)) for task, values in sorted(found.items())}


def measure_gap(
    rows: Rows,
    corpus: str,
    split: Split,
    *,
    by: str = "agent_version",
    measure: str = OUTCOME_NAME,
    where: Where | None = None,
    seed: int = 0,
) -> HeldOutGap:
    """Return the gap of each group; `UsageError` where no run is of a task of the corpus."""
    runs = rows.runs(where)
    part_of = {(one.workflow, one.task): one.part == "held_out" for one in split.cases}
    tasks = list(zip(runs.workflow.tolist(), runs.task.tolist(), strict=True))
    inside = [task in part_of for task in tasks]
    if not any(inside):
        raise UsageError(f"{corpus}: none of the chosen runs is of a task of this corpus")
    value, state = _read_scores(rows, runs, measure)
    groups: dict[str | None, list[int]] = {}
    for at, name in enumerate(read_field(rows, runs, by)):
        if inside[at]:
            groups.setdefault(name, []).append(at)
    order = sorted(groups, key=lambda name: _begun(runs, groups[name], name))
    scores = []
    for of in (groups[name] for name in order):
        absent = int((state[of] == NO_RECORD).sum())
        lost = count_unmeasured(state[of]) | ({"not_scored": absent} if absent else {})
        held = np.array([part_of[tasks[one]] for one in of], np.bool_)
        scores.append(_Scores(value[of], [tasks[one] for one in of], held, lost))
    rng, passes = np.random.default_rng(seed), measure == OUTCOME_NAME
    found = [_compare(one, passes, rng) for one in scores]
    adjusted = stats.holm([1.0 if isinstance(c, Unmeasured) else c.p for c in found]).tolist()
    known = [
        _group_gap(name, one, compared, p, passes=passes)
        for name, one, compared, p in zip(order, scores, found, adjusted, strict=True)
    ]
    trend, decision = _trend(scores, rng, "share" if passes else "")
    return HeldOutGap(
        corpus=corpus,
        split=split.hash,
        measure=measure,
        by=by,
        groups=tuple(known),
        trend=trend,
        trend_decision=decision,
        retire=decide_retirement(known),
        other_runs=inside.count(False),
        untimed=len(order) > 1 and any(_begun(runs, at, None)[0] for at in groups.values()),
    )


def read_field(rows: Rows, runs: Runs, by: str) -> list[str | None]:
    """Return a field or tag.KEY of each run as text."""
    key = by.removeprefix("tag.")
    found = getattr(runs, by, None) if key == by else rows.tag(key, runs)
    if found is None or by in ("key", "task"):
        raise UsageError(f"--by {by!r} is not a field; expected agent_version, agent or tag.KEY")
    return [None if one is None else str(one) for one in found.tolist()]


def _begun(runs: Runs, at: Sequence[int], name: str | None) -> tuple[bool, int, object]:
    times = [int(one) for one in runs.start_ns[list(at)].tolist() if one is not None]
    return not times, min(times, default=0), judge_version_order(name or "")


def _read_scores(rows: Rows, runs: Runs, measure: str) -> tuple[Floats, npt.NDArray[np.int8]]:
    """Return the score of each run, NaN where there is none, and the state of its answer."""
    if measure == STEP_SCORES:
        steps = rows.step_values(STEP_SCORES, runs)
        known = np.isfinite(steps.value)
        counts = np.bincount(steps.at[known], minlength=len(runs))
        sums = np.bincount(steps.at[known], steps.value[known], len(runs))
        value = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    elif measure == OUTCOME_NAME:
        value = np.select([runs.outcome == "pass", runs.outcome == "fail"], [1.0, 0.0], np.nan)
    elif measure in rows.measures():
        column = rows.column(measure, runs)
        if (np.abs(np.nan_to_num(column.value, nan=0.5) - 0.5) > 0.5).any():
            raise UsageError(f"--measure {measure}: its values are not between 0 and 1")
        return column.value, column.state
    else:
        expected = "outcome, scores, or a measure of stepscope list --columns"
        raise UsageError(f"--measure {measure}: no run has it; expected {expected}")
    return value, np.isfinite(value).astype(np.int8)


def _compare(one: _Scores, passes: bool, rng: np.random.Generator) -> Comparison | Unmeasured:
    """Compare the held-out part with the other; passes by Wilson's limits, scores by Student's."""
    held, other = (list(one.means(held=held).values()) for held in (True, False))
    if not passes:
        return stats.compare_parts(held, other, rng=rng, unmeasured=one.lost, unit="")
    tasks = range(len(held)), range(len(other))
    return stats.compare_unpaired(held, tasks[0], other, tasks[1], rng=rng, unmeasured=one.lost)


def _group_gap(
    name: str | None, one: _Scores, compared: Comparison | Unmeasured, p: float, *, passes: bool
) -> GroupGap:
    other, held = (list(one.means(held=held).values()) for held in (False, True))
    estimate = stats.mean_share if passes else stats.mean
    score = estimate([*other, *held], unit_of_n="tasks", unmeasured=one.lost)
    gap: Figure = compared if isinstance(compared, Unmeasured) else compared.effect
    if isinstance(gap, Estimate):
        worst = [
            float(np.mean([*one.means(held=False, absent=a).values()]))
            - float(np.mean([*one.means(held=True, absent=1 - a).values()]))
            for a in (0.0, 1.0)
        ]
        gap = replace(gap, unit_of_n="tasks", worst_low=worst[0], worst_high=worst[1])
    power = None
    if other and held and len(other) + len(held) > 2:
        sd = float(stats.pooled_sd(np.array(other), np.array(held)))
        power = stats.power_apart(len(other), len(held), sd, STOP) if sd > 1e-9 else None
    return GroupGap(
        group=name,
        score=score,
        development=estimate(other, unit_of_n="tasks"),
        held_out=estimate(held, unit_of_n="tasks"),
        gap=gap,
        power=power,
        p_adjusted=None if isinstance(compared, Unmeasured) else p,
        decision=decide_gap(gap, p),
    )


def decide_gap(gap: Figure, p: float, alpha: float = ALPHA) -> Decision:
    """Return fail (inflation), pass (healthy) or undecided, by the interval of a gap and its p."""
    if isinstance(gap, Unmeasured):
        return Decision("undecided", f"{gap.kind}: {gap.reason}")
    if gap.low is None or gap.high is None:
        return Decision("undecided", gap.no_interval)
    lost = format_count(gap.n_unmeasured, "run")
    if gap.high < HEALTHY:
        if gap.worst_high is not None and gap.worst_high >= HEALTHY:
            return Decision("undecided", f"{lost} without a score could hide a gap")
        return Decision("pass", f"healthy: the gap is below {HEALTHY:.2f}")
    if gap.low <= 0:
        most = f"one of up to {gap.high:.2f} is not excluded"
        return Decision("undecided", f"no gap is shown, and {most}")
    if p > alpha:
        return Decision("undecided", f"the interval alone is above 0: p is {p:.3f} for all groups")
    if gap.worst_low is not None and gap.worst_low <= 0:
        return Decision("undecided", f"{lost} without a score could undo the gap")
    more = f", and above {STOP:.2f}" if gap.low > STOP else ""
    said = f"inflation: the gap is above 0{more}; look into it before the next run"
    return Decision("fail", said)


def _trend(
    scores: Sequence[_Scores], rng: np.random.Generator, unit: str
) -> tuple[Figure, Decision]:
    """Return the change of the gap from group to group, on the tasks that all groups have."""
    if len(scores) < 2:
        return Unmeasured("insufficient_data", "one group: a trend needs two"), NO_TREND
    at = np.arange(len(scores)) - (len(scores) - 1) / 2
    slopes: list[list[float]] = []
    for held in (True, False):
        means = [one.means(held=held) for one in scores]
        shared = [task for task in means[0] if all(task in of for of in means)]
        tracks = np.array([[of[task] for of in means] for task in shared]).reshape(-1, len(at))
        slopes.append((tracks @ at / (at**2).sum()).tolist())
    compared = stats.compare_parts(slopes[0], slopes[1], rng=rng, unit=unit)
    trend = compared if isinstance(compared, Unmeasured) else compared.effect
    if isinstance(trend, Unmeasured) or isinstance(compared, Unmeasured):
        return trend, NO_TREND
    if trend.low is not None and trend.low > 0 and compared.p <= ALPHA:
        return trend, Decision("fail", "widening: the gap grows from group to group")
    if trend.high is not None and trend.high < 0 and compared.p <= ALPHA:
        return trend, Decision("pass", "narrowing")
    return trend, NO_TREND


def decide_retirement(groups: Sequence[GroupGap]) -> Decision:
    """Return fail where three groups running score above .92: the benchmark is to be retired.

    Source: the article's rule, on the values; how sure they are stands behind them. Saturated is a
    benchmark whose held-out tasks are as easy; contaminated may be one with a gap.
    """
    scores = [one.score for one in groups]
    for end in range(RUNNING, len(groups) + 1):
        of = scores[end - RUNNING : end]
        known = [one for one in of if isinstance(one, Estimate) and one.value > RETIRED_ABOVE]
        if len(known) < RUNNING:
            continue
        sure = all((one.low or 0.0) > RETIRED_ABOVE for one in known)
        told = ", ".join(f"{one.value:.2f} [{format_limits(one.low, one.high)}]" for one in known)
        inflated = any(one.decision.outcome == "fail" for one in groups[end - RUNNING : end])
        why = "contamination is suspected: held-out tasks score lower" if inflated else "saturated"
        doubt = "" if sure else f"; not every interval is above {RETIRED_ABOVE}"
        return Decision("fail", f"retire: {told} running ({why}{doubt})")
    if len(groups) < RUNNING:
        return Decision("undecided", f"fewer than {RUNNING} groups")
    return Decision("pass", f"no {RUNNING} groups running above {RETIRED_ABOVE}")


def _lines(found: HeldOutGap) -> Iterator[str]:
    yield f"{found.corpus}: {found.measure} by {found.by}, split {found.split[:16]}"
    wide = max([len(found.by), *(len(str(one.group)) for one in found.groups)])
    yield f"{found.by:<{wide}}  development       held out          gap                decision"
    for one in found.groups:
        parts = (format_estimate(one.development), format_estimate(one.held_out))
        gap = "-"
        if isinstance(one.gap, Estimate):
            value = format_difference(one.gap.value, one.gap.unit)
            gap = f"{value}, {format_limits(one.gap.low, one.gap.high, one.gap.unit)}"
        word = {"fail": "inflation", "pass": "healthy"}.get(one.decision.outcome, "undecided")
        name = visible_line(one.group or "-")
        yield f"{name:<{wide}}  {parts[0]:<16}  {parts[1]:<16}  {gap:<17}  {word}"
        yield f"{'':<{wide}}  {one.decision.reason}"
    powers = [one.power for one in found.groups if one.power is not None]
    if powers:
        low, high = (format_percent(x) for x in (min(powers), max(powers)))
        said = low if low == high else f"{low} to {high}"
        yield f"So many tasks find a true gap of {STOP:.2f} with a chance of {said}."
    if isinstance(found.trend, Estimate):
        limits = format_limits(found.trend.low, found.trend.high, found.trend.unit)
        change = format_difference(found.trend.value, found.trend.unit)
        on = f"on {format_count(found.trend.n, 'task')}: {found.trend_decision.reason}"
        yield f"Trend: {change} a version, {limits}, {on}"
    yield f"Benchmark: {found.retire.reason}"
    if found.other_runs:
        yield f"{format_count(found.other_runs, 'run')} of tasks in neither part left out"
    if found.untimed:
        yield "some runs have no time: the order is that of names"
