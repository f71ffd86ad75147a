"""How many times as long as before: the ratio of two medians over the same cases.

Whole cases are resampled, both sides together, so that a case that is long in both does not count
as a change. Below 20 cases the bootstrap covers too little and only the ratio itself is given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.bootstrap import FEWEST_CLUSTERS
from stepscope.stats.clusters import Floats, Ints, codes
from stepscope.stats.sample import Frame, check, column, conclude, labelled
from stepscope.values import Estimate, Unmeasured

DRAWS = 2_000
# Weights held at one time: 16 MB.
HELD = 2_000_000


def median_ratio(
    first: npt.ArrayLike,
    first_cases: npt.ArrayLike,
    second: npt.ArrayLike,
    second_cases: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
    draws: int = DRAWS,
) -> Estimate | Unmeasured:
    """Median of the second group over median of the first, on the cases that both have.

    Args:
        first: shape (n,), a figure of each run of the first group, none negative.
        first_cases: shape (n,), the case of each run, any hashable labels.
        second: shape (m,), the same figure of the second group.
        second_cases: shape (m,), cases of its runs.
        rng: draws the resamples.
        level: coverage of the interval, a share.
        unmeasured: runs of both without a value, by kind.
        draws: number of resamples.

    Returns:
        The ratio, n being the cases shared; without limits below 20 of them. `Unmeasured` without a
        shared case, with values not finite, or where the first median is 0.

    Raises:
        DataError: values and cases differ in shape, or a value is negative.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, chapter 13, on clusters.

    >>> cases = [*range(30)]
    >>> found = median_ratio([10.0] * 30, cases, [12.0] * 30, cases, rng=np.random.default_rng(0))
    >>> found.value, found.low, found.high
    (1.2, 1.2, 1.2)
    """
    values = [column(first, "first"), column(second, "second")]
    frame = Frame(level=level, unmeasured=unmeasured, unit="ratio", unit_of_n="cases")
    if (absent := check(np.concatenate(values), frame)) is not None:
        return absent
    labels = labelled("median_ratio", values, (first_cases, second_cases))
    if min(side.min(initial=0.0) for side in values) < 0:
        raise DataError("median_ratio takes figures of 0 or more")
    shared = set(labels[0]) & set(labels[1])
    if not shared:
        return Unmeasured("insufficient_data", "the two groups ran no case in common")
    sides = _kept(values, labels, shared)
    before, after = (float(np.median(side)) for side, _ in sides)
    if before == 0:
        return Unmeasured("undefined", "the median to compare with is 0")
    n = len(shared)
    frame = replace(frame, n_tasks=n)
    if n < FEWEST_CLUSTERS:
        frame = replace(frame, diagnostics=(f"below {FEWEST_CLUSTERS} cases: no limits",))
        return conclude((after / before, None, None), method="ratio of medians", n=n, frame=frame)
    ratios = _resampled(sides, n, rng, draws)
    limits = np.quantile(ratios, [(1 - level) / 2, (1 + level) / 2], method="nearest")
    low, high = (float(x) if np.isfinite(x) else None for x in limits)
    return conclude((after / before, low, high), method="bootstrap", n=n, frame=frame)


def _kept(
    values: Sequence[Floats], labels: Sequence[list[object]], shared: set[object]
) -> list[tuple[Floats, Ints]]:
    """Return both groups' runs of the shared cases, with the cases numbered alike from 0."""
    dense = codes([case for side in labels for case in side if case in shared])
    first, second = (
        side[[case in shared for case in cases]] for side, cases in zip(values, labels, strict=True)
    )
    return [(first, dense[: len(first)]), (second, dense[len(first) :])]


def _resampled(
    sides: list[tuple[Floats, Ints]], n: int, rng: np.random.Generator, draws: int
) -> Floats:
    """Ratio of the medians in each resample of whole cases; infinite where the first is 0."""
    chunk = max(1, HELD // max(len(side) for side, _ in sides))
    ratios = np.empty(draws)
    for start in range(0, draws, chunk):
        weights = rng.multinomial(n, np.full(n, 1 / n), size=min(chunk, draws - start))
        before, after = (_medians(side, cases, weights) for side, cases in sides)
        ratios[start : start + len(weights)] = np.divide(
            after, before, out=np.full(len(weights), np.inf), where=before > 0
        )
    return ratios


def _medians(values: Floats, cases: Ints, weights: npt.NDArray[np.int64]) -> Floats:
    """Median of each resample, `weights` saying how often each case is in it."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, cases[order]], axis=1)
    half = reached[:, -1:] / 2
    lower = values[order][np.argmax(reached >= half, axis=1)]
    upper = values[order][np.argmax(reached > half, axis=1)]
    return np.asarray((lower + upper) / 2)
