"""Two agents on the same cases, paired by case.

The test and the interval are separate answers: the p value comes from permuting labels, which holds
exactly for these cases; the interval speaks of tasks like these. Cases that only one agent ran are
left out of the paired comparison and counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.stats.clusters import Floats, Ints, codes
from stepscope.stats.intervals import difference_limits
from stepscope.stats.multiplicity import holm
from stepscope.stats.permutation import exact_p, permuted_p
from stepscope.stats.power import detectable, runs_needed
from stepscope.stats.sample import Frame, check, column, conclude
from stepscope.values import Estimate, Unmeasured

# The difference that "to see 5 points you need about N cases" speaks of, in shares.
FIVE_POINTS = 0.05
DRAWS = 9_999


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Second agent against first.

    Attributes:
        effect: mean of the second minus mean of the first; positive where the second is higher.
            Paired: each case counts the same.
        p: two-sided chance of a difference at least so large if the agent made none.
        p_adjusted: p after `adjust` over all questions asked together, else None.
        method: how p was found.
        n: cases compared (paired), or clusters of both fleets together.
        only_first: cases that only the first agent ran; 0 when unpaired.
        only_second: cases that only the second agent ran.
        detectable: smallest true difference these cases show with 80 % power; None when unknown.
        needed: cases needed to see `see` with 80 % power; None when unknown.
        see: the difference `needed` speaks of, in the unit of the values.
    """

    effect: Estimate | Unmeasured
    p: float
    p_adjusted: float | None = None
    method: str
    n: int
    only_first: int = 0
    only_second: int = 0
    detectable: float | None = None
    needed: int | None = None
    see: float | None = None


def compare_paired(
    first: npt.ArrayLike,
    first_cases: npt.ArrayLike,
    second: npt.ArrayLike,
    second_cases: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    unit: str = "share",
    see: float | None = None,
    draws: int = DRAWS,
) -> Comparison | Unmeasured:
    """Compare two agents on the cases both ran, trial labels permuted within each case.

    Args:
        first: shape (n,), a figure of each run of the first agent; all 0 or 1 for passes.
        first_cases: shape (n,), the case of each run, any hashable labels.
        second: shape (m,), the same figure of the second agent.
        second_cases: shape (m,), cases of its runs.
        rng: draws permutations where they are too many to list.
        level: coverage of the effect's interval, a share.
        unmeasured: runs of both without a value, by kind.
        unit: unit of the values.
        see: difference of interest; 5 points for passes unless given, none for other figures.
        draws: permutations drawn where the null is not exact.

    Returns:
        The comparison; `Unmeasured` when they share no case or a value is not finite. Its effect is
        `Unmeasured` with one case, and for figures other than passes when no case differs from
        another.

    Raises:
        DataError: values and cases differ in shape.

    Source:
        `permutation.exact_p` and `permuted_p` for p; `intervals.difference_limits` for the effect.

    >>> cases = range(20)
    >>> found = compare_paired([0] * 20, cases, [1] * 9 + [0] * 11, cases,
    ...     rng=np.random.default_rng(0))
    >>> found.effect.value, found.p, found.method
    (0.45, 0.00390625, 'permutation exact')
    """
    a, b = column(first, "first"), column(second, "second")
    frame = Frame(level=level, unmeasured=unmeasured, unit=unit, unit_of_n="cases")
    labels = [*np.asarray(first_cases, dtype=object), *np.asarray(second_cases, dtype=object)]
    absent = check(np.concatenate([a, b]), frame)
    if absent is not None:
        return absent
    dense = codes(labels)
    sides = (
        _split(a, dense[: len(a)], int(dense.max()) + 1),
        _split(b, dense[len(a) :], int(dense.max()) + 1),
    )
    both = [i for i, (x, y) in enumerate(zip(*sides, strict=True)) if len(x) and len(y)]
    if not both:
        return Unmeasured("insufficient_data", "the two agents ran no case in common")
    ours, theirs = [sides[0][i] for i in both], [sides[1][i] for i in both]
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    with np.errstate(all="ignore"):
        differences = np.array([y.mean() - x.mean() for x, y in zip(ours, theirs, strict=True)])
        if not np.isfinite(differences).all():
            return Unmeasured("undefined", "the values are too large for a difference")
        p, method = _p(ours, theirs, rng=rng, draws=draws)
        effect = _effect(differences, replace(frame, n_tasks=len(both)), bounded=bounded)
        sd = _spread(differences, bounded=bounded)
    see = see if see is not None or unit != "share" else FIVE_POINTS
    return Comparison(
        effect=effect,
        p=p,
        method=method,
        n=len(both),
        only_first=sum(1 for x, y in zip(*sides, strict=True) if len(x) and not len(y)),
        only_second=sum(1 for x, y in zip(*sides, strict=True) if len(y) and not len(x)),
        detectable=detectable(len(both), sd, level=level) if sd else None,
        needed=runs_needed(see, sd, level=level) if sd and see else None,
        see=see,
    )


def adjust(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return the comparisons with Holm-adjusted p: all questions asked together, by name.

    >>> adjust({}) == {}
    True
    """
    adjusted = holm([found.p for found in comparisons.values()])
    return {
        name: replace(found, p_adjusted=float(p))
        for (name, found), p in zip(comparisons.items(), adjusted, strict=True)
    }


def _split(values: Floats, cases: Ints, n_cases: int) -> list[Floats]:
    """Values of each case, in case order; empty where the case was not run."""
    order = np.argsort(cases, kind="stable")
    ends = np.cumsum(np.bincount(cases, minlength=n_cases))
    return np.split(values[order], ends[:-1])


def _p(
    ours: list[Floats], theirs: list[Floats], *, rng: np.random.Generator, draws: int
) -> tuple[float, str]:
    """Exact p for passes where the null is small enough, permuted p otherwise."""
    if np.isin(np.concatenate([*ours, *theirs]), (0.0, 1.0)).all():
        p = exact_p(
            (int(x.sum()), len(x), int(y.sum()), len(y)) for x, y in zip(ours, theirs, strict=True)
        )
        if p is not None:
            return p, "permutation exact"
    return permuted_p(ours, theirs, rng=rng, draws=draws)


def _effect(differences: Floats, frame: Frame, *, bounded: bool) -> Estimate | Unmeasured:
    """Interval of the mean difference over cases."""
    cases = len(differences)
    if cases < 2:
        return Unmeasured("insufficient_data", "one case in common: nothing is known of the spread")
    if not bounded and np.ptp(differences) <= 1e-12 * np.abs(differences).max():
        return Unmeasured("undefined", f"all {cases} cases differ by {differences[0]:g}: no spread")
    found = difference_limits(differences, frame.level, bounded=bounded)
    value, low, high = (float(x) for x in found)
    method = "paired t, pseudo-cases" if bounded else "paired t"
    return conclude((value, low, high), method=method, n=cases, frame=frame)


def _spread(differences: Floats, *, bounded: bool) -> float | None:
    """Standard deviation of the per-case differences, never taken as 0; None when unknown."""
    cases = len(differences)
    if bounded:
        return float(np.sqrt(((differences - differences.mean()) ** 2).sum() + 1) / np.sqrt(cases))
    if cases < 2:
        return None
    sd = float(differences.std(ddof=1))
    return sd if np.isfinite(sd) and sd > 0 else None
