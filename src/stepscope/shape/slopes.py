"""Early, middle and late slope of a run's scores, to be shown beside its shape.

For display only: a slope uses the two ends of its third, so that one noisy score moves it, and a
drop between two thirds is in none of them. Refuses thirds with fewer than two scores instead of
calling them flat. Thirds as in ARC (Tribbia): n // 3, n // 3 and the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Slopes:
    """Change of the score a step in each third of the run."""

    early: float
    mid: float
    late: float


def slopes(scores: Sequence[float | None]) -> Slopes | Unmeasured:
    """Return the slope of each third: last measured score minus first, over the steps between.

    Args:
        scores: shape (n,), a score a step; None or a number that is not finite is missing.

    Returns:
        Three slopes a step, where the articles' first version divided by the number of scores of a
        third and not by the steps between them. `Unmeasured` when a third has fewer than two
        scores, so always below six steps.

    >>> slopes([0.9, 0.91, 0.88, 0.6, 0.55, 0.58, 0.61, 0.62, 0.6, 0.58]).early
    -0.010000000000000009
    """
    third = len(scores) // 3
    ends = ((0, third), (third, 2 * third), (2 * third, len(scores)))
    found = [_slope(scores, first, end) for first, end in ends]
    for name, slope in zip(("early", "middle", "late"), found, strict=True):
        if slope is None:
            return Unmeasured(
                "insufficient_data",
                f"the {name} third of {len(scores)} steps has fewer than two scores: no slope",
            )
    early, mid, late = (slope for slope in found if slope is not None)
    return Slopes(early=early, mid=mid, late=late)


def _slope(scores: Sequence[float | None], first: int, end: int) -> float | None:
    points = [
        (step, float(score))
        for step, score in enumerate(scores[first:end], first)
        if score is not None and isfinite(score)
    ]
    if len(points) < 2:
        return None
    (a, low), (b, high) = points[0], points[-1]
    slope = (high - low) / (b - a)
    return slope if isfinite(slope) else None
