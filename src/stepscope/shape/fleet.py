"""Which shapes the runs of a fleet have, and whether two fleets differ.

Never by counting labels: a classifier that mistakes 5 % of healthy runs for recoveries finds 5 % of
recoveries where there are none, and averaging posteriors draws every share towards its prior. Here
all runs together choose the shares (docs/explanation/fleet-shapes.md). Refuses runs that carry no
likelihood: who could not be classified is counted as unmeasured. Runs that no shape fits should be
left out and counted beside the shares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape import mixture
from stepscope.shape.handouts import largest_p, refitted
from stepscope.shape.names import SHAPES, ShapeName
from stepscope.stats.clusters import Floats, Ints, codes
from stepscope.stats.intervals import normal_quantile, student_quantile
from stepscope.stats.sample import Frame, check, conclude, too_few
from stepscope.values import Estimate, Unmeasured

# Draws kept of the posterior in all chains together, and thrown away at the start of each. Of large
# fleets fewer are kept: there all quantiles lie close to the point.
KEPT, KEPT_OF_MANY = 2_000, 200
KEPT_RUNS = 20_000_000
BURN = 50
# Runs of all chains together in one sweep.
SWEEP = 60_000
# Hand-outs of runs to the two fleets.
HAND_OUTS = 1_999
ALPHA = 0.05

Shares = dict[ShapeName, Estimate]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetComparison:
    """The shapes of two fleets side by side.

    Attributes:
        first: shares of the first fleet.
        second: shares of the second.
        difference: second minus first; each interval is about that shape alone.
        p: chance of a difference as large in any of the five shapes between fleets that are alike.
        method: how p came.
    """

    first: Shares
    second: Shares
    difference: Shares
    p: dict[ShapeName, float]
    method: str

    def risen(self, alpha: float = ALPHA) -> tuple[ShapeName, ...]:
        """Shapes that the second fleet has more of: what to add to the first, were it a suite."""
        return tuple(s for s in SHAPES if self.p[s] <= alpha and self.difference[s].value > 0)

    def fallen(self, alpha: float = ALPHA) -> tuple[ShapeName, ...]:
        """Shapes that the second fleet has less of."""
        return tuple(s for s in SHAPES if self.p[s] <= alpha and self.difference[s].value < 0)


def prevalence(
    log_likelihood: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: npt.ArrayLike | None = None,
    unmeasured: Mapping[str, int] | None = None,
    level: float = 0.95,
    draws: int = KEPT,
) -> Shares | Unmeasured:
    """Share of each shape among the runs of a fleet.

    Args:
        log_likelihood: shape (m, 5), log evidence of each run by shape in the order of `SHAPES`, up
            to a constant of the run, as `classify_many` gives; -inf where a shape is impossible.
        rng: draws the posterior behind the intervals.
        clusters: shape (m,), the task or user of each run; their runs repeat each other, and the
            intervals widen by the design effect. None for runs that are independent.
        unmeasured: runs without a likelihood, by kind: worst-case bounds are over them too.
        level: coverage of each interval, a share.
        draws: draws of the posterior; fewer are taken of more than 10,000 runs.

    Returns:
        The most likely shares, summing to 1, with intervals from their posterior under Jeffreys'
        prior. `Unmeasured` without runs, with one run or cluster, and when a run has no likelihood.

    Raises:
        DataError: another shape than (m, 5), or clusters of another length.

    Source:
        Dempster, Laird and Rubin (1977), JRSS B 39:1-38; Diebolt and Robert (1994), JRSS B
        56:363-375, with Jeffreys' limits given the counts; design effect: Kish (1965), with t at
        clusters - 1.

    >>> runs = np.log([[0.8, 0.05, 0.05, 0.05, 0.05]] * 15 + [[0.1, 0.6, 0.1, 0.1, 0.1]] * 5)
    >>> found = prevalence(runs, rng=np.random.default_rng(0))
    >>> round(found["healthy"].value, 2), round(found["healthy"].low, 1)
    (0.88, 0.6)
    """
    runs = _runs(log_likelihood)
    frame = Frame(level=level, unmeasured=unmeasured, scale=(0.0, 1.0))
    cluster = _numbers(clusters, len(runs))
    absent = _absent(runs, cluster, frame)
    if absent is not None:
        return absent
    fitted = _fitted(runs, cluster, level, rng=rng, draws=draws)
    return _estimates(*fitted, runs=runs, cluster=cluster, frame=frame)


def compare(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    clusters: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    unmeasured: tuple[Mapping[str, int], Mapping[str, int]] | None = None,
    level: float = 0.95,
    draws: int = HAND_OUTS,
) -> FleetComparison | Unmeasured:
    """Tell whether two fleets have different shares of shapes, and of which.

    Args:
        first: shape (m, 5), see `prevalence`.
        second: shape (k, 5).
        rng: draws posteriors and hand-outs.
        clusters: task or user of each run of both fleets; a label in both is the same task or user,
            whose runs are then handed out anew within it, while clusters of one fleet move whole.
        unmeasured: runs without a likelihood of both fleets, by kind.
        level: coverage of each interval, a share.
        draws: hand-outs of runs to the fleets.

    Returns:
        Shares, differences, and p adjusted for looking at five shapes: at most `alpha` of
        comparisons between fleets that are alike have any p at or below `alpha`. `Unmeasured` when
        one of the fleets is.

    Raises:
        DataError: as `prevalence`.

    Source:
        permutation of whole clusters, or within them, with the most extreme shape of each hand-out:
        see `handouts.largest_p`.

    >>> good, bad = [[0.0, -9, -9, -9, -9]] * 12, [[-9.0, 0, -9, -9, -9]] * 12
    >>> compare(good, good[:6] + bad[:6], rng=np.random.default_rng(0)).risen()
    ('early_collapse',)
    """
    both = _runs(first), _runs(second)
    given: tuple[npt.ArrayLike | None, npt.ArrayLike | None] = clusters or (None, None)
    numbers = [_numbers(side, len(runs)) for side, runs in zip(given, both, strict=True)]
    frames = [
        Frame(level=level, unmeasured=lost, scale=(0.0, 1.0)) for lost in unmeasured or ({}, {})
    ]
    for side in zip(both, numbers, frames, strict=True):
        absent = _absent(*side)
        if absent is not None:
            return absent
    fits = [_fitted(*side, level, rng=rng, draws=KEPT) for side in zip(both, numbers, strict=True)]
    shares = [
        _estimates(*fit, runs=runs, cluster=cluster, frame=frame)
        for fit, runs, cluster, frame in zip(fits, both, numbers, frames, strict=True)
    ]
    joined = np.concatenate(both)
    rows = refitted(joined, _together(clusters, len(joined)), first=len(both[0]))
    p, method = largest_p(rows, rng=rng, draws=draws)
    return FleetComparison(
        first=shares[0],
        second=shares[1],
        difference=_difference(fits, frames, numbers, n=len(joined)),
        p=dict(zip(SHAPES, p.tolist(), strict=True)),
        method=method,
    )


def _runs(log_likelihood: npt.ArrayLike) -> Floats:
    runs = np.asarray(log_likelihood, dtype=np.float64)
    if runs.size == 0:
        return np.empty((0, len(SHAPES)))
    if runs.ndim != 2 or runs.shape[1] != len(SHAPES):
        raise DataError(
            f"log likelihoods have shape {runs.shape}; expected (runs, {len(SHAPES)}), in the "
            "order of SHAPES"
        )
    return runs


def _numbers(clusters: npt.ArrayLike | None, n: int) -> Ints:
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    labels = np.asarray(clusters, dtype=object)
    if labels.shape != (n,):
        raise DataError(f"clusters have shape {labels.shape}; expected ({n},), one a run")
    return codes(labels.tolist())


def _together(clusters: tuple[npt.ArrayLike, npt.ArrayLike] | None, n: int) -> Ints:
    """Number the clusters of both fleets alike."""
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    sides = [np.asarray(side, dtype=object).tolist() for side in clusters]
    return codes(sides[0] + sides[1])


def _absent(runs: Floats, cluster: Ints, frame: Frame) -> Unmeasured | None:
    """Return the absence that the runs call for; a run needs one likelihood above 0."""
    absent = check(runs.max(1, initial=-np.inf), frame)
    if absent is None and np.isnan(runs).any():
        absent = check(runs.sum(1), frame)
    return absent or too_few(int(cluster.max(initial=-1)) + 1, len(runs), frame)


def _fitted(
    runs: Floats, cluster: Ints, level: float, *, rng: np.random.Generator, draws: int
) -> tuple[Floats, Floats]:
    """Return the most likely shares, and draws of shape (draws, shapes) about them."""
    rows = mixture.likelihood(runs)
    shares, m = mixture.fit(rows), len(runs)
    chains = max(1, min(draws // BURN, SWEEP // m))
    keep = -(-min(draws, max(KEPT_OF_MANY, KEPT_RUNS // m)) // chains)
    start = np.tile(mixture.interior(shares, m), (chains, 1))
    counts = mixture.gibbs(rows[None], start, keep=keep, burn=BURN, rng=rng)
    drawn = mixture.share_draws(counts.reshape(-1, len(SHAPES)), rng)
    clusters = int(cluster.max()) + 1
    if clusters == m:
        return shares, drawn
    pull = mixture.influence(rows, mixture.interior(shares, m))
    wider = mixture.design_effect(pull, cluster) ** 0.5
    wider *= float(student_quantile(clusters - 1, level)) / normal_quantile(level)
    return shares, _widened(drawn, wider)


def _widened(drawn: Floats, factor: float) -> Floats:
    """Draws moved away from their middle by a factor, on the scale of log odds."""
    tiny = np.finfo(np.float64).tiny
    odds = np.log(np.maximum(drawn, tiny)) - np.log(np.maximum(1 - drawn, tiny))
    middle = np.median(odds, axis=0)
    return np.asarray(1 / (1 + np.exp(np.clip(-middle - (odds - middle) * factor, -700, 700))))


def _estimates(
    shares: Floats, drawn: Floats, *, runs: Floats, cluster: Ints, frame: Frame
) -> Shares:
    """Turn shares and draws into estimates; limits within one run of none or all are 0 or 1."""
    m, clusters = len(runs), int(cluster.max()) + 1
    tail = (1 - frame.level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    low, high = np.where(low * m < 1, 0.0, low), np.where((1 - high) * m < 1, 1.0, high)
    method = "em, gibbs" if clusters == m else "em, gibbs clustered"
    frame = replace(frame, n_tasks=clusters)
    limits = (np.array([shares, low, high]).T).tolist()
    return {
        name: _certain(conclude(tuple(row), method=method, n=m, frame=frame))
        for name, row in zip(SHAPES, limits, strict=True)
    }


def _difference(
    fits: list[tuple[Floats, Floats]], frames: list[Frame], numbers: list[Ints], *, n: int
) -> Shares:
    """Second minus first; draws of the two are independent, so that any pairing will do."""
    (a, before), (b, after) = fits
    size = min(len(before), len(after))
    tail = (1 - frames[0].level) / 2
    low, high = np.quantile(after[-size:] - before[-size:], [tail, 1 - tail], axis=0)
    losses = Counter(frames[0].unmeasured) + Counter(frames[1].unmeasured)
    frame = Frame(
        level=frames[0].level,
        unmeasured=losses,
        n_tasks=sum(int(cluster.max()) + 1 for cluster in numbers),
    )
    limits = np.array([b - a, low, high]).T.tolist()
    return {
        name: _certain(conclude(tuple(row), method="em, gibbs", n=n, frame=frame))
        for name, row in zip(SHAPES, limits, strict=True)
    }


def _certain(found: Estimate | Unmeasured) -> Estimate:
    """Shares are between 0 and 1: `conclude` has nothing to refuse."""
    assert isinstance(found, Estimate)
    return found
