"""The articles' classifiers V1, V2, V3 and their break point: references, not for decisions.

They are here so that what the product decides can be compared with what was published, on the same
numbers. Every docstring says where the function lies. V3 and the break point are printed in the
articles; V1 and V2 are not, and are reconstructed from the slopes and labels that are.
Where the published code would crash (fewer than three scores, a division by a latency of 0) the
answer is `Unmeasured`; so it is for scores that are not finite, which it would call healthy.
Means are added from left to right, so that every Python gives the same bits; V1 on example B hangs
on the last one. The `_many` functions give the same answers for many runs of one length: rows are
taken in blocks that fit a processor's cache, turned so that a step is one contiguous line.
Source: Tribbia, the two ARC articles; thresholds .20, .10, -.12, .15 are theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape import types
from stepscope.stats.sample import Bools, Floats
from stepscope.values import Unmeasured

CLIFF = 0.20  # a dip is a fall of more than this from one step to the next
CLIMB = 0.10  # a recovery ends more than this above its first dip
GAP = 0.20  # an early collapse loses more than this from the first third's mean
SLIDE = 0.15  # a steady degradation ends more than this below its start
SLOPE_V1 = -0.15  # V1: a segment with a slope below this collapses or drifts
SLOPE_V3 = -0.12  # V3: the last segment drifts below this
LATENCY_RATIO = 1.5
COST_RATIO = 1.4
DROP = 0.20
FEWEST = 3

Codes = npt.NDArray[np.int8]

# Floats of a block: 1/8 MiB, so that a block and its masks stay in the second-level cache.
BLOCK = 16_384


def v3(scores: Sequence[float]) -> types.ShapeName | Unmeasured:
    """Return what the published classifier answers.

    Where it lies: below 7 steps and above about 14 its thresholds mean other things (a late drift
    of ten steps must lose .36, of twenty .84, of thirty cannot exist); a collapse in the middle of
    ten steps is steady degradation; a recovery without a cliff of .20 is healthy or a decline; a
    run at .1 throughout is healthy; at a noise of .08 it is right in 71 to 97 of 100, by shape.

    >>> v3([0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58])
    'early_collapse'
    """
    return _find_absence(scores) or types.SHAPES[v3_many(np.array([scores], np.float64))[0]]


def v2(scores: Sequence[float]) -> types.ShapeName | Unmeasured:
    """Return what the second classifier answers, as far as the article lets one know.

    Where it lies: the early mean is compared with the middle's alone and before anything else, so
    that every recovery with a dip in the middle third is an early collapse.

    >>> v2([0.88, 0.90, 0.85, 0.40, 0.38, 0.72, 0.85, 0.87, 0.86, 0.89])
    'early_collapse'
    """
    return _find_absence(scores) or types.SHAPES[v2_many(np.array([scores], np.float64))[0]]


def v1(scores: Sequence[float]) -> types.ShapeName | Unmeasured:
    """Return what the first classifier answers, as far as the article lets one know.

    Where it lies: it looks for slopes within a third, and a collapse falls between two thirds, so
    it finds none. A slope is divided by the count of points, not of intervals: the only reading
    that gives the article's -.007 and -.1075.

    >>> v1([0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58])
    'steady_degradation'
    """
    return _find_absence(scores) or types.SHAPES[v1_many(np.array([scores], np.float64))[0]]


def v3_many(scores: Floats) -> Codes:
    """Return V3's answer for each row of finite scores, shape (m, n), as indexes into `SHAPES`.

    `DataError` where the scalar `v3` says run by run that a score is missing, or that steps are.
    """
    return _in_blocks(scores, _v3_block)


def v2_many(scores: Floats) -> Codes:
    """Return V2's answer for each row, as `v3_many`."""
    return _in_blocks(scores, _v2_block)


def v1_many(scores: Floats) -> Codes:
    """Return V1's answer for each row, as `v3_many`."""
    return _in_blocks(scores, _v1_block)


def signals_per_step(
    scores: Sequence[float],
    latency_ms: Sequence[float] | None = None,
    token_cost: Sequence[float] | None = None,
) -> tuple[int, ...] | Unmeasured:
    """Return how many of four signals each step shows, from step 1 on: entry 0 is step 1.

    A fall of more than .20 from the step before; one of more than .20 from the mean of the first
    third; latency over 1.5 times, cost over 1.4 times the step before.
    """
    refused = _find_absence(scores) or _find_absence_of_signals(scores, latency_ms, token_cost)
    if refused is not None:
        return refused
    s = list(scores[: len(scores) // 3])
    total = 0.0
    for score in s:
        total += score
    start = total / len(s)
    return tuple(
        (scores[i - 1] - scores[i] > DROP)
        + (start - scores[i] > DROP)
        + (latency_ms is not None and latency_ms[i] / latency_ms[i - 1] > LATENCY_RATIO)
        + (token_cost is not None and token_cost[i] / token_cost[i - 1] > COST_RATIO)
        for i in range(1, len(scores))
    )


def find_break_point(
    scores: Sequence[float],
    latency_ms: Sequence[float] | None = None,
    token_cost: Sequence[float] | None = None,
) -> int | Unmeasured:
    """Return the step (from 0) with the most signals, the earliest of equals, as published.

    Its faults, each kept:

    1. It always names a step: on a flat or healthy run step 1, with no signal at all.
    2. Of equal counts the earliest wins, and nobody is told that there were others.
    3. How many signals agreed is thrown away (`signals_per_step` has it).
    4. Steps count from 0 here and from 1 in the prose: its "step 4" is 3.
    5. The baseline is the mean of the first third: a break inside it hides itself.
    6. A spike is a ratio to the step before: a quick step makes the next one spike.
    7. A latency or cost of 0 divides by zero, and so do fewer than three scores.

    Its promise of "nothing found" cannot be kept: with fewer than two scores it crashes first.

    >>> find_break_point([0.82, 0.84, 0.82, 0.58, 0.6, 0.55])
    3
    >>> find_break_point([0.9] * 6)
    1
    """
    found = signals_per_step(scores, latency_ms, token_cost)
    if isinstance(found, Unmeasured):
        return found
    return 1 + found.index(max(found))


def find_break_point_many(scores: Floats) -> npt.NDArray[np.int64]:
    """Return `find_break_point` of the scores alone for each row; refusals as `v3_many`."""
    _check(scores)
    steps = scores.T
    start = _mean_block(steps[: len(steps) // 3])
    fell, below = steps[:-1] - steps[1:] > DROP, start - steps[1:] > DROP
    return np.asarray(1 + np.argmax(fell.astype(np.int8) + below, axis=0), np.int64)


def _find_absence(scores: Sequence[float]) -> Unmeasured | None:
    if len(scores) < FEWEST:
        why = f"{len(scores)} scores; the article's code divides by zero below {FEWEST}"
        return Unmeasured("insufficient_data", why)
    if not all(math.isfinite(score) for score in scores):
        return Unmeasured("missing_input", "a score is missing or not finite")
    return None


def _find_absence_of_signals(
    scores: Sequence[float], latency_ms: Sequence[float] | None, token_cost: Sequence[float] | None
) -> Unmeasured | None:
    for name, values in (("latency", latency_ms), ("cost", token_cost)):
        if values is None:
            continue
        if len(values) != len(scores):
            why = f"{len(values)} values of {name}, {len(scores)} scores"
            return Unmeasured("missing_input", why)
        if not all(math.isfinite(value) for value in values):
            return Unmeasured("missing_input", f"a {name} is missing or not finite")
        if any(value == 0 for value in values[:-1]):
            return Unmeasured("undefined", f"a {name} of 0: the article's code divides by it")
    return None


def _in_blocks(scores: Floats, classify: Callable[[Floats], Codes]) -> Codes:
    _check(scores)
    codes = np.empty(len(scores), np.int8)
    rows = max(1, BLOCK // scores.shape[1])
    for start in range(0, len(scores), rows):
        codes[start : start + rows] = classify(np.ascontiguousarray(scores[start : start + rows].T))
    return codes


def _v3_block(s: Floats) -> Codes:
    """Classify a block of shape (n, rows): lowest rule first, each overwritten by the one above."""
    third = len(s) // 3
    parts = (s[:third], s[third : 2 * third], s[2 * third :])
    early, mid, late = map(_mean_block, parts)
    slope = (s[-1] - s[2 * third]) / max(len(s) - 2 * third - 1, 1)
    codes = _declines_block(s)
    codes[slope < SLOPE_V3] = types.LATE_DRIFT
    codes[(early - mid > GAP) & (early - late > GAP)] = types.EARLY_COLLAPSE
    codes[_recovers_block(s)] = types.RECOVERY
    return codes


def _v2_block(s: Floats) -> Codes:
    third = len(s) // 3
    codes = _after_early_block(s)
    codes[_mean_block(s[:third]) - _mean_block(s[third : 2 * third]) > GAP] = types.EARLY_COLLAPSE
    return codes


def _v1_block(s: Floats) -> Codes:
    third = len(s) // 3
    codes = _after_early_block(s)
    codes[(s[third - 1] - s[0]) / third < SLOPE_V1] = types.EARLY_COLLAPSE
    return codes


def _after_early_block(s: Floats) -> Codes:
    late = s[2 * (len(s) // 3) :]
    codes = _declines_block(s)
    codes[_recovers_block(s)] = types.RECOVERY
    codes[(late[-1] - late[0]) / len(late) < SLOPE_V1] = types.LATE_DRIFT
    return codes


def _declines_block(s: Floats) -> Codes:
    return np.where(s[0] - s[-1] > SLIDE, types.STEADY_DEGRADATION, types.HEALTHY).astype(np.int8)


def _recovers_block(s: Floats) -> Bools:
    first_dip = np.full(s.shape[1], np.inf)
    for i in range(len(s) - 2, 0, -1):
        np.copyto(first_dip, s[i], where=s[i] < s[i - 1] - CLIFF)
    return np.asarray(s[-1] > first_dip + CLIMB, np.bool_)


def _mean_block(s: Floats) -> Floats:
    """Return column means, added from left to right as the scalar classifiers add."""
    total = np.zeros(s.shape[1])
    for step in s:
        total += step
    return total / len(s)


def _check(scores: Floats) -> None:
    if scores.ndim != 2 or scores.shape[1] < FEWEST:
        raise DataError(f"scores of shape {scores.shape}; expected (runs, {FEWEST} steps or more)")
    if odd := int((~np.isfinite(scores)).sum()):
        raise DataError(f"{odd} scores are not finite; leave them out")
