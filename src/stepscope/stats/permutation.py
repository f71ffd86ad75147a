"""P values from permuting trial labels within cases: is a difference between two agents chance?

Passes have an exact null: the passes handed to one agent are hypergeometric in each case, and cases
add up by convolution (`exact_p`). For other figures (`shuffled_p`) every assignment is listed where
there are few, drawn where there are many, and for thousands of values taken as normal with the
exact variance of the permutation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import combinations
from math import comb, erfc, exp, gcd, inf, lcm, log, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from stepscope.stats.sample import Floats, Ints

if TYPE_CHECKING:
    from numpy.random import Generator

# Points of the exact null; beyond, the null is drawn (an odd mixture of trial numbers).
LATTICE = 1 << 18
# Products in a convolution that the FFT does faster.
DIRECT = 1 << 22

Case = tuple[int, int, int, int]
# Which differences, second agent minus first, count as at least so large as the one seen.
Tail = Literal["both", "lower", "upper"]


def exact_p(cases: Iterable[Case], *, tail: Tail = "both") -> float | None:
    """P of the difference in mean pass rate, from the exact permutation distribution.

    `cases` have the passes and trials of the first agent, then of the second. P(|difference| >=
    |observed|), or of the side of `tail`; None where the distribution has too many points.

    Source: Fisher (1935), The Design of Experiments: randomisation within blocks. With one trial
    each it is the exact test of McNemar (1947).

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
    step = gcd(*[unit // na + unit // nb for (_, na, nb) in kinds])
    points = 1 + sum(
        count * (min(m, nb) - max(0, m - na)) * (unit // na + unit // nb) // step
        for (m, na, nb), count in kinds.items()
    )
    if points > LATTICE:
        return None
    parts, lowest = [np.ones(1)], 0
    for (m, na, nb), count in kinds.items():
        first = max(0, m - na)
        chances = [
            comb(nb, x) * comb(na, m - x) / comb(na + nb, m) for x in range(first, min(m, nb) + 1)
        ]
        stride = unit // na + unit // nb
        grid = np.zeros((len(chances) - 1) * (stride // step) + 1)
        grid[:: stride // step] = chances
        parts.append(convolution_power(grid, count))
        lowest += count * (first * stride - m * (unit // na))
    null = _convolve_all(parts)
    seen = sum(n * (b * (unit // nb) - a * (unit // na)) for (a, na, b, nb), n in observed.items())
    differences = lowest + step * np.arange(len(null))
    p = float(
        null[is_as_extreme(differences, abs(seen) if tail == "both" else seen, tail)].sum()
        / null.sum()
    )
    return min(1.0, max(p, float(np.finfo(np.float64).eps)))


def is_as_extreme(differences: npt.NDArray[Any], seen: float, tail: Tail) -> npt.NDArray[np.bool_]:
    """Tell which differences are as far out as `seen` on the side asked about; both: as |seen|."""
    if tail == "both":
        return np.asarray(np.abs(differences) >= seen)
    return np.asarray(differences <= seen if tail == "lower" else differences >= seen)


def convolve(first: Floats, second: Floats) -> Floats:
    """Distribution of a sum of two independent counts; direct while small, else by FFT."""
    if len(first) * len(second) <= DIRECT:
        return np.convolve(first, second)
    size = len(first) + len(second) - 1
    # A transform of a length with a large prime factor takes many times as long.
    fast = 1 << (size - 1).bit_length()
    both = np.fft.irfft(np.fft.rfft(first, fast) * np.fft.rfft(second, fast), fast)
    return np.maximum(both[:size], 0.0)


def convolution_power(chances: Floats, times: int) -> Floats:
    """Distribution of the sum of `times` independent copies, by repeated squaring."""
    result, square = np.ones(1), chances
    while times:
        if times & 1:
            result = convolve(result, square) if len(result) > 1 else square
        times >>= 1
        if times:
            square = convolve(square, square)
    return result


def null_of_failures(tasks: Iterable[tuple[int, int, int]]) -> tuple[int, Floats]:
    """Distribution of failures among marked runs when outcomes are permuted within tasks.

    `tasks` have their runs, how many of them failed, and how many are marked. Returns the fewest
    failures that there can be, and the chance of each number from there on; one number alone where
    no task has marked and other runs, and both outcomes.

    Source: Mehta, Patel and Gray (1985), J. Am. Stat. Assoc. 80: the exact conditional test of
    independence in several 2 x 2 tables; each is Fisher's.

    >>> lowest, null = null_of_failures([(4, 2, 1), (4, 2, 1), (4, 4, 2)])
    >>> lowest, null.tolist()
    (2, [0.25, 0.5, 0.25])
    """
    lowest, parts = 0, [np.ones(1)]
    for of_task, count in Counter(tasks).items():
        first, chances = _failures_of_task(*of_task)
        lowest += count * first
        if len(chances) > 1:
            parts.append(convolution_power(chances, count))
    return lowest, _convolve_all(parts)


# Runs of a task whose ways are counted in whole numbers; of more, the ratios of neighbours do.
MOST_COUNTED = 256


@lru_cache(1 << 14)
def _failures_of_task(runs: int, failed: int, marked: int) -> tuple[int, Floats]:
    first, last = max(0, marked + failed - runs), min(marked, failed)
    if runs > MOST_COUNTED:
        x = np.arange(first, last, dtype=np.float64)
        others = runs - failed - marked + x + 1
        ratios = (failed - x) * (marked - x) / ((x + 1) * others)
        logs = np.concatenate([np.zeros(1), np.cumsum(np.log(ratios))])
        chances = np.exp(logs - logs.max())
        return first, chances / chances.sum()
    ways = [comb(failed, x) * comb(runs - failed, marked - x) for x in range(first, last + 1)]
    return first, np.array([way / comb(runs, marked) for way in ways])


def _convolve_all(parts: list[Floats]) -> Floats:
    while len(parts) > 1:
        # Short ones first: each long one costs as much as all of them.
        parts.sort(key=len)
        parts = [reduce(convolve, parts[at : at + 2]) for at in range(0, len(parts), 2)]
    return parts[0]


# Agents drawn for a power, at most so many in all points of their nulls; points of a null that a
# power is still computed on; halvings of what it sees.
AGENTS, HELD_POINTS, MOST_POINTS, HALVINGS = 1_000, 1 << 20, 1 << 12, 8
# Of fewer agents no power is told; parts of a case's weight that 64 bits hold.
FEWEST_AGENTS, MOST_UNIT = 100, 1 << 31


def detectable_rise(
    cases: Iterable[Case], *, alpha: float, margin: float, power: float, alike: bool, rng: Generator
) -> float | None:
    """True rise of the failure rate that `exact_p` finds in a share `power` of repetitions.

    `cases` have the failures and trials of the first agent, which stays as it is, then of the
    second, which is drawn anew, and worse; if `alike`, both are taken for one agent: what the
    second did says how often the first fails. A rise is found at a p of `alpha`, upper tail, where
    the observed one is above `margin`, too. Infinite where failing always is not found so often;
    None where the exact null has too many points.

    Source: Power of `exact_p` at agents drawn from what the runs allow: failures come by chance in
    each case, rates differ between cases by a beta distribution, and the variance within cases has
    a gamma posterior. Checked by `bars.gates.gate_power`.

    >>> rng = np.random.default_rng(0)
    >>> cases = [(0, 1, 0, 1)] * 50
    >>> round(detectable_rise(cases, alpha=0.025, margin=0, power=0.8, alike=True, rng=rng), 2)
    0.15
    """
    bad, first, worse, second = np.array([*cases], dtype=np.int64).T
    unit = lcm(*first.tolist(), *second.tolist())
    if unit > MOST_UNIT:
        return None
    strides = unit // first + unit // second
    strides //= gcd(*strides.tolist())
    points = 1 << int((strides * second).sum()).bit_length()
    if points > MOST_POINTS:
        return None
    agents = min(AGENTS, HELD_POINTS // points)
    shapes, shape = np.unique(np.stack([first, second, strides]), axis=1, return_inverse=True)
    # The logarithms of the null's Fourier transform, by shape and failures of a case.
    width = int((first + second).max()) + 1
    logs = np.zeros((shapes.shape[1] * width, points // 2 + 1), dtype=np.complex128)
    for at, (a, b, stride) in enumerate(shapes.T.tolist()):
        for m in range(a + b + 1):
            chances = np.zeros(points)
            for x in range(max(0, m - a), min(m, b) + 1):
                chances[x * stride] = comb(b, x) * comb(a, m - x) / comb(a + b, m)
            spectrum = np.fft.rfft(chances)
            logs[at * width + m] = np.log(np.where(np.abs(spectrum) < TIE, TIE, spectrum))
    runs, failures = (first + second, bad + worse) if alike else (first, bad)
    mean = (failures.sum() + 0.5) / (runs.sum() + 1)
    squares = float((failures * (runs - failures) / runs).sum())
    within = 0.5 * rng.gamma(2 * squares + 1, size=(agents, 1)) / ((runs - 1).sum() + 1)
    # As many runs as what cases have in common is worth.
    shared = np.clip(1 - within / (mean * (1 - mean)), 0.01, 0.99)
    prior = (1 - shared) / shared
    rates = rng.beta(failures + prior * mean, runs - failures + prior * (1 - mean))
    ends = np.cumsum(second)
    place = np.repeat(np.arange(len(second)), second)
    failed = rng.random((agents, len(place))) < rates[:, place]
    turned, most = rng.random(failed.shape), 1 - float(rates.mean())

    def finds(rise: float) -> float:
        now = np.add.reduceat(failed | (turned < rise / most), ends - second, axis=1)
        kinds = shape * width + now + bad + len(logs) * np.arange(agents)[:, None]
        counts = np.bincount(kinds.ravel(), minlength=agents * len(logs)).reshape(agents, -1)
        null = np.fft.irfft(np.exp(np.einsum("ak,kf->af", counts, logs)), points, axis=1)
        seen = (now * strides).sum(axis=1)
        p = np.cumsum(null[:, ::-1], axis=1)[np.arange(agents), points - 1 - seen]
        rises = (now / second - bad / first).mean(axis=1)
        return float(((p <= alpha) & (rises > margin + TIE)).mean())

    return _smallest_found(finds, most, power)


def _smallest_found(finds: Callable[[float], float], most: float, power: float) -> float:
    if finds(most) < power:
        return inf
    low, high = 0.0, most
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if finds(middle) >= power else (middle, high)
    return high


# The largest ratio of lengths that a power is looked for.
MOST_RATIO = 16


def detectable_ratio(
    trials: PairedTrials, *, alpha: float, margin: float, power: float, rng: Generator
) -> float | None:
    """True ratio of lengths that permuted ranks find in a share `power` of repetitions.

    `trials` hold logarithms of lengths; both agents are taken for one, and the second gets slower.
    It is found at a p of `alpha`, upper tail, where the ratio of medians is above `margin`, too.
    Infinite where none is found so often; None where lengths do not vary in cases, or are more than
    can be drawn often.

    Source: As `detectable_rise`; lengths of a case are taken as log-normal, with one spread in all
    cases, and p is that of the normal with the exact variance of the permutation.
    """
    runs = trials.first + trials.second
    starts = np.cumsum(runs) - runs
    mean = np.add.reduceat(trials.values, starts) / runs
    squares = float(((trials.values - mean[trials.cases]) ** 2).sum())
    free = len(trials.cases) - len(runs)
    if squares <= TIE or free < 1:
        return None
    agents = min(AGENTS, HELD_POINTS // len(trials.cases))
    if agents < FEWEST_AGENTS:
        return None
    second = np.arange(len(trials.cases)) - starts[trials.cases] >= trials.first[trials.cases]
    spread = np.sqrt(squares / rng.chisquare(free, (agents, 1)))
    usual = mean + spread / np.sqrt(runs) * rng.standard_normal((agents, len(runs)))
    drawn = usual[:, trials.cases] + spread * rng.standard_normal((agents, len(second)))
    drawn[:, ~second] = trials.values[~second]

    weights = 1 / trials.first + 1 / trials.second
    z, floor = NormalDist().inv_cdf(1 - alpha), log(margin) if margin > 0 else -inf

    def finds(more: float) -> float:
        values = drawn + more * second
        ranks = np.argsort(np.argsort(values, axis=1), axis=1).astype(np.float64)
        ranks -= (np.add.reduceat(ranks, starts, axis=1) / runs)[:, trials.cases]
        # Ranks of a case have mean 0, so that what one agent has the other lacks.
        differences = np.add.reduceat(ranks * second, starts, axis=1) * weights
        within = np.add.reduceat(ranks**2, starts, axis=1) / np.maximum(runs - 1, 1) * weights
        rare = differences.sum(axis=1) >= z * np.sqrt(within.sum(axis=1))
        ratio = np.median(values[:, second], axis=1) - np.median(values[:, ~second], axis=1)
        return float((rare & (ratio > floor)).mean())

    return exp(_smallest_found(finds, log(MOST_RATIO), power))


# Hand-outs that are still listed one by one.
ENUMERATED = 20_000
# Values permuted in all draws together; beyond, the normal with the exact variance is used.
WORK = 50_000_000
# Draws that tell most of the p that lie above a level.
FIRST_DRAWS = 999
# Random keys held at one time: .8 MB, which stay in the cache of a core.
HELD = 100_000
# Differences closer than this share of the observed one, or of the largest deviation from the mean
# of its case, are the same difference.
TIE = 1e-10
# No p is reported as 0: the smallest that sums of floats can tell from it.
SMALLEST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, slots=True)
class PairedTrials:
    """Runs of two agents on the same cases, by case, the first agent's before the second's."""

    values: Floats  # shape (n,), a figure a run
    cases: Ints  # shape (n,), 0 to cases - 1, ascending
    first: Ints  # shape (cases,), runs of the first agent, one or more
    second: Ints  # shape (cases,), runs of the second agent, one or more

    def sums(self) -> tuple[Floats, Floats]:
        """Sums of each case, of the first agent and of the second, both of shape (cases,)."""
        starts = np.cumsum(self.first + self.second) - self.first - self.second
        edges = np.stack([starts, starts + self.first], axis=1).ravel()
        both = np.add.reduceat(self.values, edges).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def differences(self) -> Floats:
        """Mean of the second agent minus mean of the first, shape (cases,)."""
        first, second = self.sums()
        return np.asarray(second / self.second - first / self.first)


def pair_trials(
    values: tuple[Floats, Floats], cases: tuple[Ints, Ints]
) -> tuple[PairedTrials, tuple[int, int]]:
    """Keep the cases that both agents ran, numbered alike from 0; count those that only one ran."""
    size = 1 + max(int(cases[0].max(initial=-1)), int(cases[1].max(initial=-1)))
    counts = [np.bincount(side, minlength=size) for side in cases]
    both = (counts[0] > 0) & (counts[1] > 0)
    number = np.cumsum(both) - 1
    kept = [both[side] for side in cases]
    joined = np.concatenate([number[side[keep]] for side, keep in zip(cases, kept, strict=True)])
    order = np.argsort(joined, kind="stable")
    figures = np.concatenate([side[keep] for side, keep in zip(values, kept, strict=True)])
    return PairedTrials(figures[order], joined[order], counts[0][both], counts[1][both]), (
        int((counts[0] > 0).sum() - both.sum()),
        int((counts[1] > 0).sum() - both.sum()),
    )


def shuffled_p(
    trials: PairedTrials, *, rng: Generator, draws: int, tail: Tail = "both", alpha: float = 1.0
) -> tuple[float, str]:
    """P of the mean difference over one case or more, labels permuted within cases; how it came.

    How far above `alpha` it lies is not asked: few draws tell that it does.

    Source: Fisher (1935), The Design of Experiments; Phipson and Smyth (2010), Stat. Appl. Genet.
    Mol. Biol. 9, for (1 + hits)/(1 + draws).
    """
    # Deviations from the mean of each case, the largest 1: p is the same, nothing overflows.
    largest = np.abs(trials.values).max()
    values = trials.values / largest if largest > 0 else trials.values
    size = trials.first + trials.second
    deviations = values - (np.bincount(trials.cases, weights=values) / size)[trials.cases]
    widest = np.abs(deviations).max()
    trials = replace(trials, values=deviations / widest if widest > 0 else deviations)
    seen = float(trials.differences().sum())
    # What counts as far out as `seen`: a hair nearer, for sums of floats.
    hair = TIE * (1 + abs(seen))
    bound = {"both": abs(seen) * (1 - TIE) - TIE, "lower": seen + hair, "upper": seen - hair}[tail]
    shapes = Counter(zip(trials.first.tolist(), trials.second.tolist(), strict=True))
    if sum(count * log(comb(a + b, b)) for (a, b), count in shapes.items()) <= log(ENUMERATED):
        # The sum of differences under every assignment of labels, cases having mean 0.
        null = np.zeros(1)
        ends = np.cumsum(trials.first + trials.second)
        for end, a, b in zip(ends, trials.first.tolist(), trials.second.tolist(), strict=True):
            pooled = trials.values[end - a - b : end]
            sums = pooled[np.array(list(combinations(range(a + b), b)))].sum(axis=1)
            null = np.add.outer(null, sums * (1 / a + 1 / b)).ravel()
        return float(is_as_extreme(null, bound, tail).mean()), "permutation exact"
    if len(trials.values) * draws > WORK:
        # Exact variance of the sum of differences over all hand-outs, cases having mean 0.
        within = np.bincount(trials.cases, weights=trials.values**2)
        within = within / (trials.first + trials.second - 1)
        variance = float((within * (1 / trials.first + 1 / trials.second)).sum())
        far = {"both": abs(seen), "upper": seen, "lower": -seen}[tail]
        p = erfc(far / sqrt(2 * variance)) / (1 if tail == "both" else 2) if variance > 0 else 1.0
        return max(p, SMALLEST), "permutation normal"
    drawn, hits = 0, 0
    # Until no other draw could bring p down to alpha.
    while drawn < draws and 1 + hits <= alpha * (1 + draws):
        more = min(max(drawn, FIRST_DRAWS), draws - drawn) if alpha < 1 else draws
        hits += int(is_as_extreme(_draw_sums(trials, rng, more), bound, tail).sum())
        drawn += more
    return (1 + hits) / (1 + drawn), "permutation drawn"


def _draw_sums(trials: PairedTrials, rng: Generator, draws: int) -> Floats:
    """Sum of differences under random hand-outs, cases having mean 0 and permuted by shape."""
    null = np.zeros(draws)
    starts = np.cumsum(trials.first + trials.second) - trials.first - trials.second
    for a, b in np.unique(np.stack([trials.first, trials.second], axis=1), axis=0).tolist():
        at = starts[(trials.first == a) & (trials.second == b)]
        pooled: npt.NDArray[np.float64] = trials.values[at[:, None] + np.arange(a + b)]
        chunk = max(1, HELD // pooled.size)
        for start in range(0, draws, chunk):
            keys = rng.random((min(chunk, draws - start), *pooled.shape))
            chosen = np.argpartition(keys, b - 1, axis=-1)[..., :b]
            sums = np.take_along_axis(pooled[None], chosen, axis=-1).sum(axis=(1, 2))
            null[start : start + len(keys)] += sums * (1 / a + 1 / b)
    return null
