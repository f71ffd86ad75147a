"""Whether a judge answers the same fixed runs as it did before: a shift is the judge's, no agent's.

`judge --drift` asks about fixed runs again, each time as another occasion (`records.DRIFT_REPEAT`).
Compared are the latest occasion with all earlier answers under the same prompt, and all occasions
with the first answers, so that a shift that stays is not lost among its own repetitions. Without a
shift a run's answers might have come in any order, so that p is exact for a judge of any noise.
What shifts is how often each label is given, or no answer could be; p is of the largest shift of
all labels and both comparisons, and Holm's over all judges and rubrics. Fewer than 20 runs are not
tested. Scores are not checked here: their noise is `calibrate sigma`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from stepscope import stats
from stepscope.calibrate.ratings import rated_rubrics
from stepscope.model import Record
from stepscope.model.records import BIAS_REPEAT, DRIFT_REPEAT, JUDGE_PREFIX, NOT_MODELS, Figure
from stepscope.stats.sample import CACHED
from stepscope.store.columns import Rows
from stepscope.store.judged import name_and_snapshot
from stepscope.values import Decision, Unmeasured, format_count, format_estimate

FEWEST_RUNS = 20
ALPHA, DRAWS = 0.05, 1_999
# Occasion -> share of its answers about a run (one, or one a step) that have each label.
Answers = Mapping[int, Mapping[str, float]]


class JudgeDrift(msgspec.Struct, frozen=True, kw_only=True):
    """One judge and rubric on its fixed runs: what it says now less what it said before."""

    rubric: str
    judge: str
    occasion: int  # from 1
    runs: int
    shifts: dict[str, Figure]  # label -> change of its share, in the comparison that shows more
    p_adjusted: float | None
    snapshots: tuple[str, ...]  # of the earlier answers, then of the latest
    decision: Decision  # fail: the judge has shifted

    def __str__(self) -> str:
        head = f"{self.judge}, {self.rubric}, occasion {self.occasion}"
        told = [f"{head}, {format_count(self.runs, 'run')}: {self.decision.reason}"]
        told += [f"  {label}: {format_estimate(one)}" for label, one in self.shifts.items()]
        return "\n".join(told)


def measure_drift(rows: Rows, seed: int = 0) -> tuple[JudgeDrift, ...]:
    """Return the drift of every judge and rubric that was asked about fixed runs again."""
    asked: dict[tuple[str, str], list[Record]] = {}
    for rubric in rated_rubrics(rows.measures(), None):
        for record in rows.records(measure=JUDGE_PREFIX + rubric):
            if record.family not in NOT_MODELS:
                judge = name_and_snapshot(record)[0]
                asked.setdefault((rubric, judge), []).append(record)
    rng = np.random.default_rng(seed)
    found = [
        one
        for (rubric, judge), records in sorted(asked.items())
        if (one := _compare_occasions(rubric, judge, records, rng)) is not None
    ]
    ps = [1.0 if one.p_adjusted is None else one.p_adjusted for one in found]
    return tuple(_decide(*pair) for pair in zip(found, stats.holm(ps).tolist(), strict=True))


def _compare_occasions(
    rubric: str, judge: str, records: Iterable[Record], rng: np.random.Generator
) -> JudgeDrift | None:
    """Return one judge's drift, p not adjusted yet; None where it was never asked again."""
    again = [one for one in records if DRIFT_REPEAT <= one.repeat < BIAS_REPEAT]
    if not again:
        return None
    latest = max(one.repeat for one in again)
    prompts = {one.trajectory: one.prompt for one in again if one.repeat == latest}
    given: dict[str, dict[int, Counter[str]]] = {}
    snapshots: dict[bool, set[str]] = {True: set(), False: set()}
    for one in records:
        label = one.answer.kind if isinstance(one.answer, Unmeasured) else one.answer.label
        first = one.repeat < BIAS_REPEAT and prompts.get(one.trajectory) == one.prompt
        if first and label is not None:
            of_run = given.setdefault(one.trajectory, {})
            of_run.setdefault(one.repeat, Counter())[label] += 1
            snapshots[one.repeat == latest].add(name_and_snapshot(one)[1])
    runs = {run: of for run, of in sorted(given.items()) if latest in of and len(of) > 1}
    answers = [
        {at: {x: n / counts.total() for x, n in counts.items()} for at, counts in of.items()}
        for of in runs.values()
    ]
    p, shifts = (None, {}) if len(runs) < FEWEST_RUNS else shift_test(answers, latest, rng)
    return JudgeDrift(
        rubric=rubric,
        judge=judge,
        occasion=latest - DRIFT_REPEAT + 1,
        runs=len(runs),
        shifts=shifts,
        p_adjusted=p,
        decision=Decision("undecided", ""),
        snapshots=tuple(s for which in (False, True) for s in sorted(snapshots[which] - {""})),
    )


def shift_test(
    answers: Sequence[Answers], latest: int, rng: np.random.Generator, draws: int = DRAWS
) -> tuple[float, dict[str, Figure]]:
    """Return p of the largest shift of any label, and the shift of each label with its interval.

    Source: permutation of occasions within runs; Phipson and Smyth (2010) for p; the largest
    standardised shift as Westfall and Young (1993), Resampling-Based Multiple Testing.
    """
    labels = sorted({label for of in answers for shares in of.values() for label in shares})
    # Shape (runs, answers, labels), the answers of a run in their order; those it lacks behind.
    most = max(len(of) for of in answers)
    shares = np.zeros((len(answers), most, len(labels)))
    order = np.full((len(answers), most), np.inf)
    for row, of in enumerate(answers):
        for place, at in enumerate(sorted(of)):
            shares[row, place] = [of[at].get(label, 0.0) for label in labels]
            order[row, place] = at
    held = np.isfinite(order)
    # Each answer's part in the two comparisons; none where a run has no answer on one side.
    first = DRIFT_REPEAT if order.min() < DRIFT_REPEAT <= latest else latest
    after = order >= np.array([latest, first])[:, None, None]
    counts = [side.sum(axis=2, keepdims=True) for side in (after & held, ~after)]
    parts = (after & held) / np.maximum(counts[0], 1) - ~after / np.maximum(counts[1], 1)
    parts *= (counts[0] > 0) & (counts[1] > 0)
    told = [np.abs(np.einsum("cra,ral->cl", parts, shares))[None]]
    for start in range(0, draws, chunk := max(1, CACHED // shares.size)):
        keys = rng.random((min(chunk, draws - start), *order.shape))
        places = np.argsort(np.where(held, keys, np.inf), axis=2)[..., None]
        mixed = np.take_along_axis(shares[None], places, axis=2)
        told.append(np.abs(np.einsum("cra,dral->dcl", parts, mixed, optimize=True)))
    sums = np.concatenate(told)
    spread = np.sqrt((sums[1:] ** 2).mean(axis=0))
    sizes = sums / np.where(spread > 0, spread, np.inf)
    largest = sizes.max(axis=(1, 2))
    p = float((largest >= largest[0] * (1 - 1e-9)).mean())
    seen = np.einsum("ra,ral->rl", parts[sizes[0].max(axis=1).argmax()], shares)
    zeros, cases = np.zeros(len(answers)), range(len(answers))
    found: dict[str, Figure] = {}
    for at, label in enumerate(labels):
        one = stats.compare_paired(zeros, cases, seen[:, at], cases, rng=rng, draws=99)
        found[label] = one if isinstance(one, Unmeasured) else one.effect
    return p, found


def _decide(one: JudgeDrift, p: float) -> JudgeDrift:
    if one.p_adjusted is None:
        said = f"fewer than {FEWEST_RUNS} fixed runs; stepscope judge --drift {FEWEST_RUNS}"
        return msgspec.structs.replace(one, decision=Decision("undecided", said))
    decision = Decision("pass", f"no shift is shown (p {p:.3f})")
    if p <= ALPHA:
        said = f"the judge answers {one.runs} fixed runs differently from before (p {p:.3f})"
        decision = Decision("fail", said)
    return msgspec.structs.replace(one, p_adjusted=p, decision=decision)


def find_shifts(rows: Rows) -> Iterator[tuple[str, str, str]]:
    """Yield rubric, judge and reason of every judge that has shifted."""
    for one in measure_drift(rows):
        if one.decision.outcome == "fail":
            yield one.rubric, one.judge, one.decision.reason
