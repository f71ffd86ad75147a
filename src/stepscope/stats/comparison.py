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

from stepscope.stats.clusters import Floats, codes
from stepscope.stats.differences import difference_limits
from stepscope.stats.multiplicity import holm
from stepscope.stats.permutation import Tail, exact_p
from stepscope.stats.power import detectable, runs_needed
from stepscope.stats.sample import Frame, check, column, conclude, labelled
from stepscope.stats.shuffling import Trials, shared, shuffled_p
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
        p: chance of a difference at least so large if the agent made none; two-sided unless one
            side was asked about.
        p_adjusted: p after `adjust` over all questions asked together, else None.
        method: how p was found.
        n: cases compared (paired), or clusters of both fleets together.
        only_first: cases that only the first agent ran; 0 when unpaired.
        only_second: cases that only the second agent ran.
        detectable: smallest true difference these cases show with 80 % power; None when unknown.
        needed: cases needed to see `see` with 80 % power; None when unknown.
        sd: standard deviation of the per-case differences, never taken as 0; None when unknown.
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
    sd: float | None = None
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
    tail: Tail = "both",
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
        tail: both sides, or one that was named beforehand: the second agent lower, or higher.

    Returns:
        The comparison; `Unmeasured` without a shared case or with values not finite. Its effect is
        `Unmeasured` with one case, and for figures that are no shares when nothing varies.

    Raises:
        DataError: values and cases differ in shape.

    Source:
        `permutation.exact_p`, `shuffling.shuffled_p` and `differences.difference_limits`.

    >>> cases = range(20)
    >>> rng = np.random.default_rng(0)
    >>> compare_paired([0] * 20, cases, [1] * 9 + [0] * 11, cases, rng=rng).p
    0.00390625
    """
    a, b = column(first, "first"), column(second, "second")
    frame = Frame(level=level, unmeasured=unmeasured, unit=unit, unit_of_n="cases")
    if (absent := check(np.concatenate([a, b]), frame)) is not None:
        return absent
    labels = labelled("compare_paired", (a, b), (first_cases, second_cases))
    dense = codes([*labels[0], *labels[1]])
    trials, only = shared((a, b), (dense[: len(a)], dense[len(a) :]))
    if not len(trials.first):
        return Unmeasured("insufficient_data", "the two agents ran no case in common")
    bounded = unit == "share" and min(a.min(), b.min()) >= 0 and max(a.max(), b.max()) <= 1
    see = FIVE_POINTS if see is None and unit == "share" else see
    with np.errstate(all="ignore"):
        if not np.isfinite(trials.differences()).all():
            return Unmeasured("undefined", "the values are too large for a difference")
        p, method = _p(trials, rng=rng, draws=draws, tail=tail)
        found = _described(trials.differences(), frame, bounded=bounded, see=see)
    return replace(found, p=p, method=method, only_first=only[0], only_second=only[1])


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


def _p(trials: Trials, *, rng: np.random.Generator, draws: int, tail: Tail) -> tuple[float, str]:
    """Exact p for passes where the null is small enough, shuffled p otherwise."""
    if np.isin(trials.values, (0.0, 1.0)).all():
        first, second = trials.sums()
        columns = (first, trials.first, second, trials.second)
        counts = zip(*(column.astype(int).tolist() for column in columns), strict=True)
        p = exact_p(counts, tail=tail)
        if p is not None:
            return p, "permutation exact"
    return shuffled_p(trials, rng=rng, draws=draws, tail=tail)


def _described(
    differences: Floats, frame: Frame, *, bounded: bool, see: float | None
) -> Comparison:
    """All of a comparison but its p."""
    n = len(differences)
    sd = _spread(differences, bounded=bounded)
    return Comparison(
        effect=_effect(differences, replace(frame, n_tasks=n), bounded=bounded),
        p=1.0,
        method="",
        n=n,
        detectable=detectable(n, sd, level=frame.level) if sd else None,
        needed=runs_needed(see, sd, level=frame.level) if sd and see else None,
        sd=sd,
        see=see,
    )


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
