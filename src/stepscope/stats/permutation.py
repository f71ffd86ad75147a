"""Is a difference in pass rates chance? The exact null of permuting trial labels within cases.

Under "the agent makes no difference" every way to hand a case's trials to the two agents is equally
likely, so that the passes handed to one agent are hypergeometric, and the cases add up by
convolution. Other figures: `shuffling`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import comb, gcd, lcm
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from stepscope.stats.clusters import Floats

# Points of the exact null; beyond, the null is drawn (an odd mixture of trial numbers).
LATTICE = 1 << 18
# Products in a convolution that the FFT does faster.
DIRECT = 1 << 22

Case = tuple[int, int, int, int]
# Which differences, second agent minus first, count as at least so large as the one seen.
Tail = Literal["both", "lower", "upper"]


def exact_p(cases: Iterable[Case], *, tail: Tail = "both") -> float | None:
    """P of the difference in mean pass rate, from the exact permutation distribution.

    Args:
        cases: for each case the passes and trials of the first agent, then of the second.
        tail: both sides, or one that was named beforehand: the second agent lower, or higher.

    Returns:
        P(|difference| >= |observed|), or of the one side; None where the exact distribution has
        too many points.

    Source:
        Fisher (1935), The Design of Experiments: randomisation within blocks. With one trial each
        it is the exact test of McNemar (1947).

    >>> exact_p([(1, 1, 0, 1)] * 5)
    0.0625
    >>> exact_p([(1, 1, 0, 1)] * 5, tail="lower")
    0.03125
    """
    observed = Counter(cases)
    kinds: Counter[tuple[int, int, int]] = Counter()
    for (a, na, b, nb), count in observed.items():
        kinds[a + b, na, nb] += count
    unit = lcm(*(n for _, na, nb in kinds for n in (na, nb)))
    steps = [unit // na + unit // nb for (_, na, nb) in kinds]
    step = gcd(*steps)
    points = 1 + sum(
        count * (min(m, nb) - max(0, m - na)) * (unit // na + unit // nb) // step
        for (m, na, nb), count in kinds.items()
    )
    if points > LATTICE:
        return None
    null, lowest = np.ones(1), 0
    for (m, na, nb), count in kinds.items():
        first = max(0, m - na)
        chances = [
            comb(nb, x) * comb(na, m - x) / comb(na + nb, m) for x in range(first, min(m, nb) + 1)
        ]
        stride = unit // na + unit // nb
        grid = np.zeros((len(chances) - 1) * (stride // step) + 1)
        grid[:: stride // step] = chances
        null = convolve(null, power(grid, count))
        lowest += count * (first * stride - m * (unit // na))
    seen = sum(n * (b * (unit // nb) - a * (unit // na)) for (a, na, b, nb), n in observed.items())
    differences = lowest + step * np.arange(len(null))
    p = float(
        null[extreme(differences, abs(seen) if tail == "both" else seen, tail)].sum() / null.sum()
    )
    return min(1.0, max(p, float(np.finfo(np.float64).eps)))


def extreme(differences: npt.NDArray[Any], seen: float, tail: Tail) -> npt.NDArray[np.bool_]:
    """Tell which differences are as far out as `seen` on the side asked about; both: as |seen|."""
    if tail == "both":
        return np.asarray(np.abs(differences) >= seen)
    return np.asarray(differences <= seen if tail == "lower" else differences >= seen)


def convolve(first: Floats, second: Floats) -> Floats:
    """Distribution of a sum of two independent counts; direct while small, else by FFT."""
    if len(first) * len(second) <= DIRECT:
        return np.convolve(first, second)
    size = len(first) + len(second) - 1
    product = np.fft.rfft(first, size) * np.fft.rfft(second, size)
    return np.maximum(np.fft.irfft(product, size), 0.0)


def power(chances: Floats, times: int) -> Floats:
    """Distribution of the sum of `times` independent copies, by repeated squaring."""
    result, square = np.ones(1), chances
    while times:
        if times & 1:
            result = convolve(result, square)
        times >>= 1
        if times:
            square = convolve(square, square)
    return result
