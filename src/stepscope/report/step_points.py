"""The points of one run's score curve: which steps have a score, whose it is, how noisy it is.

Scores that somebody gave win; of several scorers the one who scored most steps is taken, and the
others are named. Their repeats of a step are averaged. Where nobody gave scores, the labels of the
evidence judge stand in for them, as `LABEL_SCORES` with the sigma `LABEL_SIGMA`; a run in which no
step has a label has no curve: that rules found nothing does not make a run healthy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import NamedTuple

from stepscope.model import Record, Verdict
from stepscope.report.curve_types import CurveSource, SigmaSource
from stepscope.report.findings import findings
from stepscope.store.scores import FAMILY, MEASURE
from stepscope.values import Estimate, Unmeasured

# Where labels lie on the four bands of a 0..1 rubric: an error in the lowest, a repeated question
# in the middle, and what no rule found wrong where the classifier expects a score anyway.
LABEL_SCORES = {"": 0.8, "ERROR": 0.2, "REDUNDANT": 0.5}
# A band is .25 wide, the level of a run is known to .18: together .31. What it gives on recorded
# runs is in docs/design/score-curves.md.
LABEL_SIGMA = 0.3
NO_LABELS = Unmeasured(
    "insufficient_data", "no step scores, and the rules labelled no step of this run"
)


class Points(NamedTuple):
    """Scored steps in order, with what is known of their noise; `others` are scorers left aside."""

    steps: tuple[int, ...]
    scores: tuple[float | None, ...]
    source: CurveSource
    judge: str = ""
    repeats: int = 1
    sigma: float | None = None
    sigma_source: SigmaSource = "marginalised"
    others: tuple[str, ...] = ()


def points(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Points | Unmeasured:
    """Return the points of a run from its records.

    Args:
        records: all records of the run.
        noise: the sigma of each judge, from repeated scorings.
    """
    held = list(records)
    return _scored(held, noise) or _labelled(held)


def repeated(judge: str, repeats: int, noise: Mapping[str, Estimate]) -> float | None:
    """Return the upper limit of a judge's sigma for the mean of some scorings; None when unknown.

    >>> found = Estimate(value=0.1, low=0.05, high=0.2, method="", n=9, n_tasks=3)
    >>> repeated("j", 4, {"j": found}), repeated("k", 4, {"j": found})
    (0.1, None)
    """
    found = noise.get(judge)
    if found is None or found.high is None:
        return None
    return min(found.high / sqrt(repeats), 1.0)


def _scored(records: Iterable[Record], noise: Mapping[str, Estimate]) -> Points | None:
    by_scorer: dict[tuple[str, str], dict[int, list[float | None]]] = {}
    for record in records:
        answer = record.answer
        if answer.measure == MEASURE and answer.step is not None:
            value = answer.value if isinstance(answer, Verdict) else None
            steps = by_scorer.setdefault((record.family, record.judge), {})
            steps.setdefault(answer.step, []).append(value)
    if not by_scorer:
        return None
    (family, judge), steps = max(
        sorted(by_scorer.items()), key=lambda item: sum(map(_is_scored, item[1].values()))
    )
    counts = [n for values in steps.values() if (n := sum(v is not None for v in values))]
    repeats = min(counts, default=1)
    sigma = repeated(judge, repeats, noise)
    return Points(
        steps=tuple(sorted(steps)),
        scores=tuple([_mean(steps[step]) for step in sorted(steps)]),
        source="imported" if family == FAMILY else "judge",
        judge=judge,
        repeats=repeats,
        sigma=sigma,
        sigma_source="marginalised" if sigma is None else "repeats",
        others=tuple([other or "unnamed" for _, other in sorted(by_scorer) if other != judge]),
    )


def _is_scored(values: list[float | None]) -> bool:
    return any(value is not None for value in values)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _labelled(records: Iterable[Record]) -> Points | Unmeasured:
    found = findings(records)
    steps = found.cites("step_labels.steps")
    labels = found.labels("step_labels")
    if not steps or not labels:
        return NO_LABELS
    return Points(
        steps=steps,
        scores=tuple([LABEL_SCORES[labels.get(step, "")] for step in steps]),
        source="step_labels",
        sigma=LABEL_SIGMA,
        sigma_source="assumed",
    )
