"""Is the difference chance? Trial labels permuted within each case, exactly where that is small.

Under "the agent makes no difference" every way to hand a case's trials to the two agents is equally
likely. For passes the null of one case is hypergeometric and the cases add up by convolution; other
figures are enumerated, or drawn, or (for thousands of values) taken as normal with the exact
variance of the permutation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb, erfc, gcd, lcm, prod, sqrt

import numpy as np

from stepscope.stats.clusters import Floats

# Points of the exact null; beyond, the null is drawn (an odd mixture of trial numbers).
LATTICE = 1 << 18
# Hand-outs that are still listed one by one.
ENUMERATED = 20_000
# Values permuted in all draws together; beyond, the normal with the exact variance is used.
WORK = 50_000_000
# Products in a convolution that the FFT does faster.
DIRECT = 1 << 22
# Differences closer than this share of the observed one are the same difference.
TIE = 1e-9

Case = tuple[int, int, int, int]


def exact_p(cases: Iterable[Case]) -> float | None:
    """Two-sided p of the difference in mean pass rate, from the exact permutation distribution.

    Args:
        cases: for each case the passes and trials of the first agent, then of the second.

    Returns:
        P(|difference| >= |observed|); None where the exact distribution has too many points.

    Source:
        Fisher (1935), The Design of Experiments: randomisation within blocks. With one trial each
        it is the exact test of McNemar (1947).

    >>> exact_p([(1, 1, 0, 1)] * 5)
    0.0625
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
    p = float(null[np.abs(differences) >= abs(seen)].sum() / null.sum())
    return min(1.0, max(p, float(np.finfo(np.float64).eps)))


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


def permuted_p(
    first: Sequence[Floats], second: Sequence[Floats], *, rng: np.random.Generator, draws: int
) -> tuple[float, str]:
    """Two-sided p of the difference of any figure, labels permuted within cases.

    Args:
        first: the values of the first agent, one array a case.
        second: the values of the second agent, in the same order of cases.
        rng: draws the hand-outs where they are too many to list.
        draws: how many are drawn.

    Returns:
        p, and how it came: "permutation exact", "permutation drawn" or "permutation normal".

    Source:
        Fisher (1935) as in `exact_p`; Phipson and Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9,
        for (1 + hits)/(1 + draws).
    """
    seen = abs(sum(float(b.mean() - a.mean()) for a, b in zip(first, second, strict=True)))
    bound = seen * (1 - TIE)
    if prod(comb(len(a) + len(b), len(b)) for a, b in zip(first, second, strict=True)) <= (
        ENUMERATED
    ):
        null = np.zeros(1)
        for a, b in zip(first, second, strict=True):
            null = np.add.outer(null, _hand_outs(a, b)).ravel()
        return float((np.abs(null) >= bound).mean()), "permutation exact"
    values = sum(len(a) + len(b) for a, b in zip(first, second, strict=True))
    if values * draws > WORK:
        variance = sum(
            np.concatenate([a, b]).var(ddof=1) * (1 / len(a) + 1 / len(b))
            for a, b in zip(first, second, strict=True)
        )
        p = erfc(seen / sqrt(2 * variance)) if variance > 0 else 1.0
        return max(p, float(np.finfo(np.float64).eps)), "permutation normal"
    null = _drawn(first, second, rng, draws)
    return float((1 + (np.abs(null) >= bound).sum()) / (1 + draws)), "permutation drawn"


def _hand_outs(a: Floats, b: Floats) -> Floats:
    """Return the difference of one case under every hand-out of its values."""
    pooled = np.concatenate([a, b])
    chosen = np.array(list(combinations(range(len(pooled)), len(b))))
    sums = pooled[chosen].sum(axis=1)
    return np.asarray(sums * (1 / len(a) + 1 / len(b)) - pooled.sum() / len(a))


def _drawn(
    first: Sequence[Floats], second: Sequence[Floats], rng: np.random.Generator, draws: int
) -> Floats:
    """Sum of differences under random hand-outs; cases of one shape are permuted together."""
    shapes: dict[tuple[int, int], list[Floats]] = {}
    for a, b in zip(first, second, strict=True):
        shapes.setdefault((len(a), len(b)), []).append(np.concatenate([a, b]))
    null = np.zeros(draws)
    for (na, nb), rows in sorted(shapes.items()):
        pooled = np.stack(rows)
        offset = pooled.sum() / na
        chunk = max(1, 2_000_000 // pooled.size)  # 16 MB of keys at a time
        for start in range(0, draws, chunk):
            keys = rng.random((min(chunk, draws - start), *pooled.shape))
            chosen = np.argpartition(keys, nb - 1, axis=-1)[..., :nb]
            sums = np.take_along_axis(pooled[None], chosen, axis=-1).sum(axis=(1, 2))
            null[start : start + len(keys)] += sums * (1 / na + 1 / nb) - offset
    return null
