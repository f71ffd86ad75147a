"""How far apart a judge scores the same step twice: sigma, from duplicate scorings.

This is repeatability and nothing else: a judge that is wrong in the same way each time has sigma 0.
Refuses to call a judge noiseless because its repeats agree: without a quantum that is `Unmeasured`.
"""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats import sample
from stepscope.stats.sample import EstimateFrame, Floats
from stepscope.values import Decision, Estimate, Unmeasured

# Steps scored again, below which the interval is marked weak: it is then of those steps.
FEW_STEPS = 5
# Above this sigma a steady decline of .15 over a run can no longer be told from a healthy run
# (arc-validation, first boundary condition).
LIMIT = 0.06
# Repeats a step of the design that `tolerable` asks for.
DESIGN = 3
# A spread below this share of the largest score is rounding of floats.
ROUNDING = 1e-12
# Steps of that design beyond which it says that no sensible number would decide.
MOST = 100


def sigma(
    scores: ArrayLike, steps: ArrayLike, *, quantum: float | None = None, level: float = 0.95
) -> Estimate | Unmeasured:
    """Standard deviation of repeated scorings of the same step, pooled over steps.

    Where the spread differs between steps more than chance allows, as it does when a judge is sure
    of some steps and not of others, the degrees of freedom shrink to what the spreads support.

    `steps` says which step each score is of; steps scored once are only counted. `quantum` is the
    distance of neighbouring scores of a judge that answers in steps, such as 0.1. In the unit of
    the scores; `n` counts scorings of repeated steps, `n_tasks` those steps. `Unmeasured` when no
    step was scored twice, and when all repeats agree and no quantum says how coarse scores are.

    Source: Bland and Altman (1996), BMJ 313:744, for the pooled within-subject deviation; its
    interval s * sqrt(df / chi2); Satterthwaite (1946), Biometrics Bulletin 2:110-114, for df where
    steps differ; Sheppard's q / sqrt(12) as the floor of scores in steps of q.

    >>> found = sigma([0.7, 0.8, 0.4, 0.5, 0.9, 0.8], ["a", "a", "b", "b", "c", "c"])
    >>> round(found.value, 4), found.n, found.n_tasks
    (0.0707, 6, 3)
    """
    if quantum is not None and not 0 < quantum < np.inf:
        raise DataError(f"quantum is {quantum!r}; expected a positive distance such as 0.1")
    values = sample.as_column(scores, "scores")
    frame = EstimateFrame(target="these cases", level=level, unit="score", unit_of_n="scorings")
    if (absent := sample.find_absence(values, frame)) is not None:
        return absent
    step = sample.cluster_index(np.asarray(steps), len(values))
    counts = np.bincount(step)
    kept = counts[step] > 1
    if not kept.any():
        return Unmeasured(
            "insufficient_data",
            f"no step was scored twice ({len(values)} scores of {int((counts > 0).sum())} steps); "
            "score some 15 steps three times each",
        )
    with np.errstate(all="ignore"):
        # Sum of squares within each repeated step, and its degrees of freedom.
        means = np.bincount(step, weights=values) / np.maximum(counts, 1)
        within = np.bincount(step, weights=(values - means[step]) ** 2)
        squares = np.asarray(within[counts > 1], np.float64)
        freedom = (counts - 1).astype(np.float64)[counts > 1]
        supported = _effective_freedom(squares, freedom)
    floor = (quantum or 0.0) / sqrt(12)
    spread = sqrt(squares.sum() / freedom.sum())
    if spread <= ROUNDING * float(np.abs(values).max()) and not floor:
        return Unmeasured(
            "undefined",
            f"all {int(kept.sum())} repeated scorings agree: noise below what the scores can show; "
            "give the distance of neighbouring scores as the quantum",
        )
    low, high = _limits(max(spread, floor), supported, level)
    return sample.make_estimate(
        (max(spread, floor), max(low, floor), high),
        method="pooled within steps",
        n=int(kept.sum()),
        frame=replace(
            frame,
            n_tasks=len(freedom),
            diagnostics=tuple(_weaknesses(len(freedom), int((~kept).sum()), spread <= floor)),
        ),
    )


def tolerable(found: Estimate, *, limit: float = LIMIT) -> Decision:
    """Decide whether a judge's sigma is small enough: its whole interval is at most `limit`.

    Undecided where the interval holds the limit; the reason names the design that would decide were
    sigma as estimated. Whatever does not pass is to be flagged.

    Source: the interval of `sigma`.

    >>> tolerable(sigma([0.7, 0.8], ["a", "a"])).outcome
    'undecided'
    """
    low, high = found.low or 0.0, found.high if found.high is not None else np.inf
    said = f"sigma is {found.value:.3f} (interval {low:.3f} to {high:.3f})"
    if high <= limit:
        return Decision("pass", f"{said}: at most {limit:g}")
    if low > limit:
        return Decision("fail", f"{said}: above {limit:g}")
    said = f"{said}: too near the threshold of {limit:g}, above which many runs get no clear shape"
    return Decision("undecided", f"{said}{_steps_to_settle(found, limit)}")


def _effective_freedom(squares: Floats, freedom: Floats) -> float:
    """Degrees of freedom of the pooled variance, fewer where steps differ in spread."""
    total, steps = float(freedom.sum()), len(freedom)
    if steps < 2 or squares.sum() <= 0:
        return total
    variance = float(((squares / squares.sum() - freedom / total) ** 2).sum()) * steps / (steps - 1)
    return min(total, max(1.0, 2 / variance)) if variance > 0 else total


def _limits(spread: float, freedom: float, level: float) -> tuple[float, float]:
    from scipy.special import chdtri  # lazy: .25 s of import

    tail = (1 - level) / 2
    low, high = (float(chdtri(freedom, p)) for p in (tail, 1 - tail))
    return spread * sqrt(freedom / low), spread * sqrt(freedom / high)


def _weaknesses(steps: int, single: int, floored: bool) -> list[str]:
    said = []
    if steps == 1:
        said.append("1 step repeated: weak, noise may differ at other steps")
    elif steps < FEW_STEPS:
        said.append(f"{steps} steps repeated: weak")
    if floored:
        said.append("no spread beyond rounding: the floor quantum/sqrt(12)")
    if single:
        said.append(f"{single} scores of steps scored once not used")
    return said


def _steps_to_settle(found: Estimate, limit: float) -> str:
    """Say how many steps, scored three times each, would settle it at the sigma estimated."""
    if found.value >= limit:
        return ""
    for steps in range(1, MOST + 1):
        if _limits(found.value, float(steps * (DESIGN - 1)), found.level)[1] <= limit:
            times = f"; {steps} steps, each scored {DESIGN} times,"
            return f"{times} would decide if sigma is {found.value:.3f}"
    side = "would not show on which side of the threshold it is"
    return f"; even {MOST} steps, each scored {DESIGN} times, {side}"
