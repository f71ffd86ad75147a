"""The articles' classifiers as printed, one run at a time: what the columns are held to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from stepscope.shape.articles import CLIFF, CLIMB, GAP, SLIDE, SLOPE_V1, SLOPE_V3
from stepscope.shape.types import ShapeName


def v3(scores: Sequence[float]) -> ShapeName:
    s, third = list(scores), len(scores) // 3
    early, mid, late = _mean(s[:third]), _mean(s[third : 2 * third]), _mean(s[2 * third :])
    if _recovers(s):
        return "recovery"
    if early - mid > GAP and early - late > GAP:
        return "early_collapse"
    if (s[-1] - s[2 * third]) / max(len(s) - 2 * third - 1, 1) < SLOPE_V3:
        return "late_drift"
    return "steady_degradation" if s[0] - s[-1] > SLIDE else "healthy"


def v2(scores: Sequence[float]) -> ShapeName:
    s, third = list(scores), len(scores) // 3
    if _mean(s[:third]) - _mean(s[third : 2 * third]) > GAP:
        return "early_collapse"
    return _after_early(s)


def v1(scores: Sequence[float]) -> ShapeName:
    s, third = list(scores), len(scores) // 3
    if (s[third - 1] - s[0]) / third < SLOPE_V1:
        return "early_collapse"
    return _after_early(s)


def _after_early(s: list[float]) -> ShapeName:
    """V1 and V2 once no early collapse is found."""
    late = s[2 * (len(s) // 3) :]
    if (late[-1] - late[0]) / len(late) < SLOPE_V1:
        return "late_drift"
    if _recovers(s):
        return "recovery"
    return "steady_degradation" if s[0] - s[-1] > SLIDE else "healthy"


def _recovers(s: list[float]) -> bool:
    """Say whether the run ends above its first cliff; above itself the last step never is."""
    for before, dip in itertools.pairwise(s):
        if dip < before - CLIFF:
            return s[-1] > dip + CLIMB
    return False


def _mean(s: list[float]) -> float:
    total = 0.0
    for score in s:
        total += score
    return total / len(s)
