"""The templates that the classifier compares scores with, and the averages of long runs.

A run of n steps is compared with K templates: 44 at n = 5, 296 at n = 10, 1,555 at n = 20. A break
before the middle is an early collapse and one at or after it a late drift: a convention of ours, so
that every break has one name. Collapses in two stages are a compound shape, which passes for a
steady decline. Runs longer than `LONGEST` are cut into parts of neighbouring steps, each the
average of its scores weighted by their precision. Refuses runs of fewer than four steps.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.errors import DataError
from stepscope.shape.types import EARLY_COLLAPSE, HEALTHY, LATE_DRIFT, RECOVERY, STEADY_DEGRADATION
from stepscope.stats.sample import Bools, Floats, Ints

SHORTEST = 4
LONGEST = 40

# Scores of healthy runs, and of runs before a late drift, may rise by this much.
RISE = 0.2
# Or start this much lower, stay there for the first quarter of what precedes the drop, and have
# climbed by six tenths of it: a slow start.
SLOW_START = (0.28, 0.25, 0.6)
# Level, rise, slow start before a late drift: how often, to one another.
STARTS = (3.0, 1.0, 1.0)
# A steady decline may slow down or speed up.
POWERS = (0.75, 1.0, 1.4)
# Steps that a dip takes to fall and to return.
DIPS = ((1, 1), (2, 1), (1, 2), (2, 2), (3, 3))
# Share of the depth that a recovery wins back.
RETURNS = (0.75, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Templates:
    """Templates of runs of n steps, K of them; `y = level + offset + depth * f + noise`."""

    # shape (K,), index into `SHAPES`, rising: the templates of a shape are together
    shape: NDArray[np.int8]
    f: Floats  # shape (K, n), the form: how the score moves when the depth is 1
    offset: Floats  # shape (K, n), movement that does not depend on the depth
    log_weight: Floats  # shape (K,), log prior weight; weights of a shape sum to 1
    # shape (K,), the step where half of the drop has happened; -1 without a break
    half_drop: NDArray[np.int16]
    # shape (K,), first step below the level before; -1 without a break
    onset: NDArray[np.int16]
    trough: NDArray[np.int16]  # shape (K,), steps spent below, of recoveries; 0 for others


@lru_cache(maxsize=LONGEST)
def make_templates(n: int) -> Templates:
    """Return the templates of runs of n steps, `SHORTEST` to `LONGEST`."""
    if not SHORTEST <= n <= LONGEST:
        raise DataError(f"a bank of {n} steps; expected {SHORTEST} to {LONGEST}")
    # Flat or rising, with a small slope of either sign.
    u = np.linspace(0.0, 1.0, n)
    parts = (
        _shape_templates(HEALTHY, np.stack([u, u]), offset=np.stack([0 * u, -RISE * (1 - u)])),
        _early(n),
        _late(n),
        _shape_templates(STEADY_DEGRADATION, np.stack([-(u**power) for power in POWERS])),
        _recovery(n),
    )
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Templates)
    }
    for array in columns.values():
        array.setflags(write=False)
    return Templates(**columns)


def ramp(n: int, start: ArrayLike, width: ArrayLike) -> Floats:
    """Return 0 before step `start`, 1 from step `start + width - 1`, a straight line between.

    Start and width, 1 or more, are numbers or have shape (k,); the ramps have (k, n).
    """
    begins, takes = np.atleast_1d(start)[:, None], np.atleast_1d(width)[:, None]
    return np.asarray(np.clip((np.arange(n) - begins + 1) / takes, 0.0, 1.0), np.float64)


def _shape_templates(
    shape: int,
    f: Floats,
    *,
    offset: Floats | None = None,
    weight: ArrayLike = 1.0,
    start: ArrayLike = -1,
    half_drop: ArrayLike = -1,
    trough: ArrayLike = 0,
) -> Templates:
    """Return the templates of one shape; their weights are made to sum to 1."""
    k = len(f)
    weights = np.broadcast_to(np.asarray(weight, dtype=np.float64), k)
    return Templates(
        shape=np.full(k, shape, np.int8),
        f=f,
        offset=np.zeros_like(f) if offset is None else offset,
        log_weight=np.log(weights / weights.sum()),
        half_drop=np.broadcast_to(np.asarray(half_drop, np.int16), k).copy(),
        onset=np.broadcast_to(np.asarray(start, np.int16), k).copy(),
        trough=np.broadcast_to(np.asarray(trough, np.int16), k).copy(),
    )


def _early(n: int) -> Templates:
    """A drop that begins before the middle and stays; sharp drops weigh more.

    Wide drops look like steady declines, and are rarer than those: weight 1 / width squared.
    """
    widths = (1, 2, *((3,) if n >= 10 else ()), *((5,) if n >= 20 else ()))
    last_whole = n - max(1, n // 5)
    drops = [(s, w) for s in range(1, -(-n // 2)) for w in widths if s + w - 1 <= last_whole]
    start, width = np.array(drops).T
    f, half = -ramp(n, start, width), start + (width - 1) // 2
    return _shape_templates(EARLY_COLLAPSE, f, weight=1 / width**2, start=start, half_drop=half)


def _late(n: int) -> Templates:
    """A drop that begins at or after the middle, over any part of what is left."""
    drops = [
        (s, w, before, often)
        for s in range(-(-n // 2), n)
        for w in sorted({1, max(1, (n - s) // 2), n - s})
        for before, often in zip(_before(n, s), STARTS, strict=True)
    ]
    start, width = np.array([drop[0] for drop in drops]), np.array([drop[1] for drop in drops])
    before, often = np.array([drop[2] for drop in drops]), [drop[3] for drop in drops]
    f, half = -ramp(n, start, width), start + (width - 1) // 2
    return _shape_templates(LATE_DRIFT, f, offset=before, weight=often, start=start, half_drop=half)


def _before(n: int, start: int) -> tuple[Floats, Floats, Floats]:
    """Return what precedes a late drop: level, a rise, or a slow start."""
    way = np.clip(np.arange(n) / max(start - 1, 1), 0.0, 1.0)
    low, stays, climbed = SLOW_START
    slow = np.clip((way - stays) / (climbed - stays), 0.0, 1.0)
    return np.zeros(n), -RISE * (1 - way), -low * (1 - slow)


def _recovery(n: int) -> Templates:
    """A drop and its return, in all places; sharp ones weigh more."""
    dips = [
        (start, end, down, up, share)
        for down, up in DIPS
        for start in range(1, n)
        for end in range(start + down, n - up + 1)
        for share in RETURNS
    ]
    start, end, down, up = (np.array([dip[i] for dip in dips]) for i in range(4))
    share = np.array([dip[4] for dip in dips])
    f = share[:, None] * ramp(n, end, up) - ramp(n, start, down)
    weight, half, trough = 1 / (down * up), start + (down - 1) // 2, end - start
    return _shape_templates(RECOVERY, f, weight=weight, start=start, half_drop=half, trough=trough)


# With fewer steps a second stage is one score, and noise makes those.
SHORTEST_COMPOUND = 6
# Share of the whole fall that comes first.
STAGES = (0.35, 0.5, 0.65)


@lru_cache(maxsize=LONGEST)
def two_stage_templates(n: int) -> Templates:
    """Return templates of n steps that fall, hold for two steps or more, and fall again."""
    falls = [(a, b) for a in range(1, n - 2) for b in range(a + 2, n) for _ in STAGES]
    first, second = np.array(falls).T
    share = np.tile(STAGES, len(first) // len(STAGES))[:, None]
    f = -(share * ramp(n, first, 1) + (1 - share) * ramp(n, second, 1))
    k = len(f)
    return Templates(
        shape=np.full(k, EARLY_COLLAPSE, np.int8),
        f=f,
        offset=np.zeros_like(f),
        log_weight=np.full(k, -np.log(k)),
        half_drop=np.where(share[:, 0] < 0.5, second, first).astype(np.int16),
        onset=first.astype(np.int16),
        trough=np.zeros(k, np.int16),
    )


def parts_of_run(n: int) -> Ints:
    """Return the step of the templates that each of n steps belongs to, shape (n,)."""
    size = min(n, LONGEST)
    # The same parts as `np.array_split`: the longer ones first.
    return np.repeat(np.arange(size), [len(at) for at in np.array_split(np.arange(n), size)])


def pool_steps(observed: Bools, sigma: Floats) -> tuple[Floats, Ints]:
    """Return how n scores become the p averages that are compared, and where these stand.

    The weights, shape (p, n), of the steps observed, by the noise of each, have rows that sum to 1;
    the places, shape (p,), are steps of the templates, rising.
    """
    part = parts_of_run(len(observed))
    precision = np.zeros(len(observed))
    precision[observed] = (sigma[observed].min() / sigma[observed]) ** 2
    total = np.bincount(part, weights=precision)
    places = np.flatnonzero(total > 0)
    return np.where(part == places[:, None], precision, 0.0) / total[places, None], places
