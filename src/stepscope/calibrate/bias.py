"""Whether a judge leans on what should change no answer: length, order of answers, of examples.

`judge --bias` asks about runs that a judge has judged once more, with one thing changed: all that
the agent wrote stands there twice, or the rubric's answers, or its examples, in reverse. Both
answers are of one snapshot, version and run or step. The shift is the share of answers that speak
against the agent, changed less as usual; tasks count alike. A judge leans if the interval excludes
0 (Bonferroni over all that is tested), does not if two one-sided tests show it within .05, and is
undecided otherwise, with the pairs that would decide. With and without the agent's words a store
may have answers without buying any (`judge --narration both`): that shift is no fault of a judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import msgspec
import numpy as np

from stepscope.calibrate.judges import EQUIVALENCE, MOST_BIAS, ONE_SIDED
from stepscope.calibrate.ratings import rated_rubrics
from stepscope.model import Record, Verdict, records
from stepscope.stats.intervals import difference_limits
from stepscope.stats.sample import EstimateFrame, Floats, codes, make_estimate, sum_by_cluster
from stepscope.store.columns import Rows
from stepscope.store.judged import name_and_snapshot
from stepscope.values import Decision, Unmeasured, format_count, format_estimate

FEWEST_RUNS, ALPHA = 20, 0.05
# Tasks that clear a judge of which no answer turns.
STEADY_TASKS = 60
# The answers that speak against the agent, and those that do not, of every menu that has both.
AGAINST = ("incorrect", "ERROR", "REDUNDANT", "DETOUR", "present")
OTHERS = ("correct", "PROGRESS", "absent", *records.NEUTRAL)


class JudgeBias(msgspec.Struct, frozen=True, kw_only=True):
    """How one change moves one judge's answers by one rubric."""

    rubric: str
    judge: str
    change: str
    pairs: int  # answers with and without the change, of runs or of steps
    runs: int  # how many runs these are of
    lost: int  # pairs of which the judge gave only one answer
    against: int  # answers that turned against the agent
    favour: int  # answers that turned in its favour
    shift: records.Figure
    decision: Decision  # fail: the judge leans
    pairs_needed: int | None = None  # in all, for a decision, if the judge stays as it is

    def __str__(self) -> str:
        changed = self.change.removeprefix("+")
        lost = f", {self.lost} lost" if self.lost else ""
        return (
            f"{self.judge}, {self.rubric}, {changed}: {self.decision.reason}\n"
            f"  shift {format_estimate(self.shift)}; of {format_count(self.pairs, 'pair')} "
            f"{self.against} turned against the agent, {self.favour} in its favour{lost}"
        )


def find_bias(rows: Rows) -> tuple[JudgeBias, ...]:
    """Return the shift of every judge, rubric and change that the store has pairs of."""
    runs = rows.runs()
    tasks = {x: x if t is None else t for x, t in zip(runs.id, runs.task, strict=True)}
    usual: dict[tuple[object, ...], float | None] = {}
    changed: dict[tuple[str, str, str], dict[tuple[object, ...], float | None]] = {}
    for rubric in rated_rubrics(rows.measures(), None):
        for one in rows.records(measure=records.JUDGE_PREFIX + rubric):
            if one.family in records.NOT_MODELS or (change := _change_of(one)) is None:
                continue
            version = one.version.replace(records.NARRATION_OFF, "")
            key = (one.trajectory, one.answer.step, rubric, one.judge, version)
            label = one.answer.label if isinstance(one.answer, Verdict) else None
            names = (rubric, name_and_snapshot(one)[0], change)
            held = changed.setdefault(names, {}) if change else usual
            held[key] = float(label in AGAINST) if label in (*AGAINST, *OTHERS) else None
    tests, found = sum(name[2] != records.NARRATION_OFF for name in changed), []
    for names, answers in sorted(changed.items()):
        both = [(str(key[0]), usual[key], bad) for key, bad in answers.items() if key in usual]
        found.append(_describe(names, both, tasks, tests))
    return tuple(found)


def _describe(
    names: tuple[str, str, str],
    both: Sequence[tuple[str, float | None, float | None]],  # run, as usual, changed
    tasks: Mapping[str, str],
    tests: int,
) -> JudgeBias:
    pairs = [(run, a, b) for run, a, b in both if a is not None and b is not None]
    usual, changed = (np.array([pair[at] for pair in pairs], np.float64) for at in (1, 2))
    runs = {run for run, *_ in pairs}
    sums = sum_by_cluster(changed - usual, codes(tasks.get(run, run) for run, *_ in pairs))
    shifts = sums.sums / sums.sizes
    frame = EstimateFrame(unit_of_n="pairs", n_tasks=len(shifts))
    rubric, judge, change = names
    bought = change != records.NARRATION_OFF
    few = f"{len(runs)} of {FEWEST_RUNS} runs, {frame.n_tasks} of 2 tasks"
    shift: records.Figure = Unmeasured("insufficient_data", few)
    untested = few if bought else "shown, not tested: it is another question"
    decision, needed = Decision("undecided", untested), None
    if frame.n_tasks > 1:
        limits = shift_limits(shifts, frame.level)
        shift = make_estimate(limits, method="t", n=len(pairs), frame=frame)
        if bought and len(runs) >= FEWEST_RUNS:
            decision, needed = decide_bias(shifts, len(pairs), tests)
    return JudgeBias(
        rubric=rubric,
        judge=judge,
        change=change,
        pairs=len(pairs),
        runs=len(runs),
        lost=sum((a is None) != (b is None) for _, a, b in both),
        against=int((changed > usual).sum()),
        favour=int((changed < usual).sum()),
        shift=shift,
        decision=decision,
        pairs_needed=needed,
    )


def shift_limits(shifts: Floats, level: float) -> tuple[float, float, float]:
    """Return the mean of the shifts of two tasks or more with its limits.

    A task that turned each way is added for the limits: where few answers turned, all one way, they
    would be too narrow. Source: Bonett and Price (2012), see `difference_limits`.
    """
    _, low, high = difference_limits(np.append(shifts, (1.0, -1.0)), level, bounded=True)
    return float(shifts.mean()), float(low), float(high)


def decide_bias(shifts: Floats, pairs: int, tests: int = 1) -> tuple[Decision, int | None]:
    """Decide by the shifts of tasks whether a judge leans, one of so many tests.

    Returns the pairs that would decide as well, if none of it is shown.

    Source: Schuirmann (1987), J. Pharmacokinetics and Biopharmaceutics 15:657-680, for "no more
    than .05".
    """
    (low, high), (least, most) = (
        shift_limits(shifts, level)[1:] for level in (1 - ALPHA / tests, ONE_SIDED)
    )
    if -MOST_BIAS < least and most < MOST_BIAS:
        return Decision("pass", f"it moves answers by less than {MOST_BIAS}"), None
    if low > 0 or high < 0:
        way = "against the agent" if low > 0 else "in the agent's favour"
        return Decision("fail", f"it moves answers {way}"), None
    tasks = max((EQUIVALENCE * float(shifts.std(ddof=1)) / MOST_BIAS) ** 2, STEADY_TASKS)
    needed = max(ceil(tasks * pairs / len(shifts)), pairs + 1)
    return Decision("undecided", f"about {format_count(needed, 'pair')} would decide"), needed


def _change_of(record: Record) -> str | None:
    """Return what was changed when a judge was asked, "" for nothing; None: it was asked again."""
    if record.repeat >= records.BIAS_REPEAT:
        at = record.repeat - records.BIAS_REPEAT
        return records.CHANGES[at] if at < len(records.CHANGES) else None
    if record.repeat:
        return None
    return records.NARRATION_OFF if records.NARRATION_OFF in record.version else ""
