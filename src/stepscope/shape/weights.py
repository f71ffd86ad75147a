"""Weights of steps by what depends on them, and the gate rule that a weighted mean cannot replace.

1: the step's failure stays its own; 2: a few later steps build on it; 3: everything after it does.
A mean dilutes a failed gate (weights 3 2 3 2 1 1 1 turn .78 into .72 where the first step failed
with .30), so that a step of weight 3 below the gate fails the run whatever the mean. Weights are
fixed before scoring; who stores them refuses later ones. Source: ARC (Tribbia), the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from statistics import NormalDist

from stepscope.errors import DataError
from stepscope.values import Unmeasured

SCALE = (1, 2, 3)
CRITICAL = 3
# Below .6 a sub-goal is not achieved (the third band of the articles' rubric begins there).
FLOOR = 0.6
# Chance of failing a run whose critical steps all have a true score of exactly the floor.
ALPHA = 0.05


def weighted_score(scores: Sequence[float | None], weights: Sequence[float]) -> float | Unmeasured:
    """Return the mean score under weights of 1, 2 and 3, one a step.

    `Unmeasured` without steps, and when any step has no finite score: a mean of the rest would pass
    over exactly the step that may have failed.

    >>> round(weighted_score([0.30, 0.85, 0.80, 0.88, 0.82, 0.90, 0.91], [3, 2, 3, 2, 1, 1, 1]), 3)
    0.722
    """
    _check(scores, weights)
    if not weights:
        return Unmeasured("insufficient_data", "no steps to weigh")
    measured = [_score(score) for score in scores]
    missing = [step for step, score in enumerate(measured) if score is None]
    if missing:
        lost, first = len(missing), missing[0]
        said = f"{lost} of {len(scores)} weighted steps have no score, the first is step {first}"
        return Unmeasured("missing_input", said)
    total = sum(s * w for s, w in zip(measured, weights, strict=True) if s is not None)
    mean = total / sum(weights)
    if not isfinite(mean):
        return Unmeasured("undefined", "the scores are too large for a mean")
    return mean


def gate_failed(
    scores: Sequence[float | None],
    weights: Sequence[float],
    *,
    sigma: float | None = None,
    floor: float = FLOOR,
    alpha: float = ALPHA,
) -> tuple[int, ...] | Unmeasured:
    """Tell which steps of weight 3 fail the run, whatever its mean.

    With `sigma`, the noise of one score, a step fails whose upper limit is below `floor`, so that
    noise alone fails a run in at most `alpha` of cases, all critical steps together; without it,
    one whose score is. A missing score, and one that noise may explain, fails nothing. `Unmeasured`
    ("not_applicable") when no step has weight 3.

    Source: Bonferroni over the critical steps, normal noise.

    >>> gate_failed([0.30, 0.85, 0.80], [3, 2, 3], sigma=0.05)
    (0,)
    >>> gate_failed([0.57, 0.85, 0.80], [3, 2, 3], sigma=0.05)
    ()
    """
    _check(scores, weights)
    if not 0 < alpha < 1:
        raise DataError(f"alpha is {alpha!r}; expected a share between 0 and 1, such as 0.05")
    noise = 0.0 if sigma is None else sigma
    if not (isfinite(noise) and noise >= 0):
        raise DataError(f"sigma is {sigma!r}; expected 0 or more")
    critical = [step for step, weight in enumerate(weights) if weight == CRITICAL]
    if not critical:
        return Unmeasured("not_applicable", "no step has weight 3: there is no gate to fail")
    z = max(NormalDist().inv_cdf(1 - alpha / len(critical)), 0.0)
    known = [(step, score) for step in critical if (score := _score(scores[step])) is not None]
    return tuple([step for step, score in known if score + z * noise < floor])


def _score(score: float | None) -> float | None:
    return None if score is None or not isfinite(score) else float(score)


def _check(scores: Sequence[float | None], weights: Sequence[float]) -> None:
    if len(scores) != len(weights):
        raise DataError(f"{len(weights)} weights for {len(scores)} steps; expected one a step")
    for step, weight in enumerate(weights):
        if weight not in SCALE:
            raise DataError(f"weight of step {step} is {weight!r}; expected 1, 2 or 3")
