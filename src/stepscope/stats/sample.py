"""Check arrays, sum them by cluster, and build the `Estimate` that a statistic returns.

A cluster is a task: trials of one task repeat each other more than runs of different tasks do. A
wrong *shape* is a mistake of the caller and raises; values that cannot carry the statistic (none,
not finite) come back as `Unmeasured`; a value of one task, or of values all the same, is known and
has no interval. No number that is not finite leaves. What was not measured is not missing at
random: `worst_case` gives the bounds over it; `not_applicable` is no loss. The bootstrap resamples
sums of clusters, not rows, and only from 20 clusters up: below it covers too little
(docs/design/intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsFloat, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.errors import DataError
from stepscope.values import (
    NO_INTERVAL,
    UNMEASURED_KINDS,
    Estimate,
    Target,
    Unmeasured,
    UnmeasuredKind,
)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
# The task (or run) of each row; None where rows are independent.
Clusters = ArrayLike | None

# Codes beyond this many times the rows are renumbered first, so that bincount stays small.
SPARSE_CODES = 4


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Sums and sizes, one entry a cluster that has rows, both of shape (clusters,)."""

    sums: Floats
    sizes: Floats


def codes(labels: Iterable[object]) -> Ints:
    """Number labels 0, 1, 2, ... in the order of their first appearance; None is one of them.

    >>> codes(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    rows = list(labels)
    number = {label: i for i, label in enumerate(dict.fromkeys(rows))}
    return np.fromiter(map(number.__getitem__, rows), dtype=np.int64, count=len(rows))


def cluster_index(clusters: Clusters, n: int) -> Ints:
    """Return a dense cluster number for each of `n` rows; None makes every row its own cluster."""
    if clusters is None:
        return np.arange(n, dtype=np.int64)
    given = np.asarray(clusters)
    if given.shape != (n,):
        raise DataError(f"clusters have shape {given.shape}; expected ({n},), one a value")
    if given.dtype.kind not in "iu":
        return codes(given.tolist())
    if n and (given.min() < 0 or given.max() >= SPARSE_CODES * n + 1):
        return np.unique(given, return_inverse=True)[1].astype(np.int64, copy=False)
    return given.astype(np.int64, copy=False)


def sum_by_cluster(values: Floats, clusters: Clusters) -> ClusterSums:
    """Sum values by cluster; clusters without rows are left out.

    >>> sum_by_cluster(np.array([1.0, 0.0, 1.0]), [7, 7, 9]).sums.tolist()
    [1.0, 1.0]
    """
    if clusters is None:
        return ClusterSums(values, np.ones(len(values)))
    dense = cluster_index(clusters, len(values))
    sizes = np.bincount(dense).astype(np.float64)
    sums = np.bincount(dense, weights=values, minlength=len(sizes)).astype(np.float64, copy=False)
    return ClusterSums(sums[sizes > 0], sizes[sizes > 0])


def trials_per_task(successes: ArrayLike, tasks: ArrayLike) -> tuple[Ints, Ints]:
    """Count successes and trials of each task, both of shape (tasks,): what `pass_hat_k` takes.

    >>> [x.tolist() for x in trials_per_task([True, False, True], ["a", "a", "b"])]
    [[1, 1], [2, 1]]
    """
    found = sum_by_cluster(np.asarray(successes, dtype=np.float64), tasks)
    return found.sums.astype(np.int64), found.sizes.astype(np.int64)


# The percentile bootstrap is refused below this many clusters (calibration, section 1).
FEWEST_CLUSTERS = 20
# Clusters drawn at one time: about what a processor's cache holds, 1.2 MB.
CACHED = 160_000


def bootstrap_ratio(
    sums: ArrayLike, sizes: ArrayLike, *, rng: np.random.Generator, draws: int = 2_000
) -> Floats:
    """Sum of sums over sum of positive sizes in each of `draws` resamples of 20 or more clusters.

    Source: Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13; clusters as
    the unit after Field and Welsh (2007), J. R. Statist. Soc. B 69:369-390.

    >>> means = bootstrap_ratio([1.0] * 50 + [0.0] * 50, [1.0] * 100, rng=np.random.default_rng(0))
    >>> bool(abs(means.mean() - 0.5) < 0.01)
    True
    """
    top, bottom = np.asarray(sums, np.float64), np.asarray(sizes, np.float64)
    if top.shape != bottom.shape or top.ndim != 1:
        raise DataError(f"sums have shape {top.shape}, sizes {bottom.shape}")
    if len(top) < FEWEST_CLUSTERS:
        raise DataError(f"the cluster bootstrap needs {FEWEST_CLUSTERS} clusters, got {len(top)}")
    if not (np.isfinite(top).all() and np.isfinite(bottom).all() and (bottom > 0).all()):
        raise DataError("the cluster bootstrap takes finite sums and positive sizes")
    pairs = np.empty(len(top), dtype=np.complex128)
    pairs.real, pairs.imag = top, bottom
    kinds, counts = np.unique(pairs, return_counts=True)
    if len(kinds) * 2 > len(top):
        # Clusters that are nearly all of their own kind, in bounded memory: a sum and its size
        # travel as one complex number, one gather in place of two.
        clusters = len(pairs)
        chunk = max(1, CACHED // clusters)
        means = np.empty(draws)
        for start in range(0, draws, chunk):
            chosen = rng.integers(0, clusters, (min(chunk, draws - start), clusters))
            totals = pairs.take(chosen).sum(axis=1)
            means[start : start + len(chosen)] = totals.real / totals.imag
        return means
    weights = rng.multinomial(len(top), counts / len(top), size=draws)
    return np.asarray((weights @ kinds.real) / (weights @ kinds.imag))


def count_losses(unmeasured: Mapping[str, int] | None) -> int:
    """Return how many units should have had a value and have none.

    >>> count_losses({"not_applicable": 80, "error": 2})
    2
    """
    return sum(count for kind, count in (unmeasured or {}).items() if kind != "not_applicable")


def worst_case(
    value: float, n: int, unmeasured: Mapping[str, int] | None, *, low: float, high: float
) -> tuple[float, float]:
    """Bounds of a mean if every unmeasured unit had come out at one end of the scale.

    The mean is `value` over `n` measured units, one or more; the scale goes from `low` to `high`.

    Source: Manski (1989), Anatomy of the selection problem, J. Human Resources 24:343-360.

    >>> worst_case(0.5, 8, {"refused": 2}, low=0.0, high=1.0)
    (0.4, 0.6)
    """
    if n < 1:
        raise DataError(f"worst_case needs one or more measured units, got {n}")
    lost = count_losses(unmeasured)
    return (n * value + lost * low) / (n + lost), (n * value + lost * high) / (n + lost)


def nothing_measured(unmeasured: Mapping[str, int] | None, unit_of_n: str) -> Unmeasured:
    """Return the absence that follows from measuring nothing: the commonest kind, all counted.

    >>> nothing_measured({"missing_input": 200}, "runs").kind
    'missing_input'
    """
    counts = {kind: count for kind, count in (unmeasured or {}).items() if count > 0}
    known: list[UnmeasuredKind] = [kind for kind in UNMEASURED_KINDS if counts.get(kind)]
    if not counts:
        return Unmeasured("insufficient_data", f"no {unit_of_n}")
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    commonest = max(known, key=lambda kind: counts[kind], default=None)
    return Unmeasured(commonest or "insufficient_data", f"no {unit_of_n} measured: {said}")


# Below this many tasks an interval is given, and marked weak (calibration, section 1).
WEAK_CLUSTERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateFrame:
    """What an Estimate says of itself besides its numbers; see `Estimate` for each field.

    `bounds` is the worst case where counting what was not measured does not give it.
    """

    target: Target = "tasks like these"
    level: float = 0.95
    unmeasured: Mapping[str, int] | None = None
    unit: str = "share"
    unit_of_n: str = "runs"
    scale: tuple[float, float] | None = None
    bounds: tuple[float, float] | None = None
    n_tasks: int = 0
    diagnostics: tuple[str, ...] = ()


class LevelOptions(TypedDict, total=False):
    """Keywords of most statistics; defaults are those of `EstimateFrame`."""

    level: float
    unmeasured: Mapping[str, int] | None


class FrameOptions(LevelOptions, total=False):
    """The same where a row may be anything: a run, unless the statistic says otherwise."""

    unit_of_n: str


class TargetOptions(FrameOptions, total=False):
    """The same of a statistic that can also speak of these cases alone."""

    target: Target


def make_frame(
    kind: type,
    options: FrameOptions,
    *,
    unit: str = "share",
    unit_of_n: str = "runs",
    scale: tuple[float, float] | None = None,
) -> EstimateFrame:
    """Return the frame of options of this kind; any other keyword raises `TypeError`."""
    if unknown := options.keys() - kind.__annotations__.keys():
        raise TypeError(f"got an unexpected keyword argument {min(unknown)!r}")
    return replace(EstimateFrame(unit=unit, unit_of_n=unit_of_n, scale=scale), **options)


def as_column(values: ArrayLike, name: str) -> Floats:
    """Return values as floats of shape (n,)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise DataError(f"{name} have shape {array.shape}; expected one dimension")
    return array


def case_labels(
    asked: str, values: Sequence[Floats], cases: Sequence[ArrayLike]
) -> list[list[object]]:
    """Return the cases of several groups as lists, one label a value.

    Where a group has another number of cases, the error names `asked`, the function that was
    called.
    """
    found: list[list[object]] = [np.asarray(side, dtype=object).tolist() for side in cases]
    if [len(side) for side in found] != [len(side) for side in values]:
        sizes = " + ".join(str(len(side)) for side in found)
        raise DataError(f"{asked} got {sizes} cases for {sum(map(len, values))} values")
    return found


def find_absence(values: Floats, frame: EstimateFrame) -> Unmeasured | None:
    """Return the absence that the values call for, or None when they can be used.

    `DataError` is raised for a level that is no share and for a negative count of losses.
    """
    if not 0 < frame.level < 1:
        raise DataError(f"level is {frame.level!r}; expected a share between 0 and 1, such as 0.95")
    if any(count < 0 for count in (frame.unmeasured or {}).values()):
        raise DataError(f"unmeasured counts are {dict(frame.unmeasured or {})}; expected none < 0")
    if not len(values):
        return nothing_measured(frame.unmeasured, frame.unit_of_n)
    bad = len(values) - int(np.isfinite(values).sum())
    if bad:
        why = f"{bad} of {len(values)} values are not finite; count them as unmeasured instead"
        return Unmeasured("missing_input", why)
    return None


def explain_no_spread(n_tasks: int, n: int, frame: EstimateFrame) -> str:
    """Return why nothing is known of the spread: one task, or one row; "" where some is."""
    if frame.target == "tasks like these" and n_tasks < 2:
        return "one task"
    return f"one {frame.unit_of_n.removesuffix('s')}" if n < 2 else ""


def make_value(value: float, why: str, *, n: int, frame: EstimateFrame) -> Estimate | Unmeasured:
    """Return a value that is known and has no interval, which `why` explains."""
    frame = replace(frame, diagnostics=(NO_INTERVAL + why,))
    return make_estimate((value, None, None), method="none", n=n, frame=frame)


# A value with its lower and upper limit, numbers or arrays of one.
Limits = tuple[SupportsFloat, SupportsFloat | None, SupportsFloat | None]


def make_estimate(
    limits: Limits, *, method: str, n: int, frame: EstimateFrame
) -> Estimate | Unmeasured:
    """Build the Estimate of `limits` (value, low, high), or say that its numbers overflow."""
    value, low, high = (None if x is None else float(x) for x in limits)
    if value is None or not all(math.isfinite(x) for x in (value, low, high) if x is not None):
        return Unmeasured("undefined", "the values are too large or too far apart for a number")
    weak = frame.target == "tasks like these" and frame.n_tasks < WEAK_CLUSTERS
    weak = weak and (low is not None or high is not None)
    bounds: tuple[float | None, float | None] = frame.bounds or (None, None)
    if frame.scale is not None:
        bounds = worst_case(value, n, frame.unmeasured, low=frame.scale[0], high=frame.scale[1])
    return Estimate(
        value=value,
        low=low if low is None else min(low, value),
        high=high if high is None else max(high, value),
        level=frame.level,
        method=method,
        target=frame.target,
        n=n,
        unit_of_n=frame.unit_of_n,
        n_tasks=frame.n_tasks,
        unmeasured={kind: count for kind, count in (frame.unmeasured or {}).items() if count},
        worst_low=bounds[0],
        worst_high=bounds[1],
        unit=frame.unit,
        diagnostics=(
            *((f"weak evidence: only {frame.n_tasks} tasks",) if weak else ()),
            *frame.diagnostics,
        ),
    )
