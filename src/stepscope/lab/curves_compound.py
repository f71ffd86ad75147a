"""Curves outside the five shapes, and recoveries that take their time.

A classifier that must choose among five is confidently wrong on the first kind; a goodness-of-fit
flag should say so. The second kind is a recovery like any other, without a cliff. Compound curves
need room: seven steps or more.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepscope.lab.planted import Floats, Planted, column, fallen, uniform

Compound = Callable[[int, int, np.random.Generator], Floats]


def _level(rng: np.random.Generator, m: int) -> Floats:
    return uniform(rng, 0.80, 0.93, m)


def _low(n: int, start: Floats, end: Floats) -> Floats:
    """Return 1 from step `start` to before step `end`, else 0."""
    steps = np.arange(n)
    return ((steps >= start) & (steps < end)).astype(np.float64)


def sawtooth(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Up and down at every step or every second, as in two tools taking turns."""
    period = column(rng.integers(1, 3, m))
    down = (np.arange(n) // period) % 2
    return np.asarray(_level(rng, m) - uniform(rng, 0.30, 0.50, m) * down, np.float64)


def two_dips(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Two dips with a full return after each."""
    first = column(rng.integers(max(1, n // 10), max(2, n // 4) + 1, m))
    second = column(rng.integers(n // 2 + 1, max(n // 2 + 2, (3 * n) // 4), m))
    width = max(1, n // 5)
    both = _low(n, first, first + width) + _low(n, second, second + width)
    return _level(rng, m) - uniform(rng, 0.35, 0.50, m) * both


def dip_then_late_drop(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A dip with a full return, then a drop that stays."""
    first = column(rng.integers(max(1, n // 5), max(2, n // 3) + 1, m))
    last = column(rng.integers(max(n // 3 + 3, round(0.75 * n)), n, m))
    both = _low(n, first, first + max(1, n // 5)) + _low(n, last, column([n]))
    return _level(rng, m) - uniform(rng, 0.35, 0.50, m) * both


def bad_start_then_good(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Low for the first part, then high to the end: a shape that the five do not have."""
    until = column(rng.integers(max(2, n // 4), n // 2 + 1, m))
    return _level(rng, m) - uniform(rng, 0.35, 0.50, m) * _low(n, column([0]), until)


def two_stage_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A drop that stays, and a second one on top of it."""
    first = column(rng.integers(max(1, n // 5), max(2, n // 3) + 1, m))
    second = column(rng.integers(round(0.6 * n), max(round(0.6 * n) + 1, round(0.8 * n)), m))
    stages = _low(n, first, column([n])) + _low(n, second, column([n]))
    return _level(rng, m) - uniform(rng, 0.22, 0.32, m) * stages


COMPOUND: dict[str, Compound] = {
    "sawtooth": sawtooth,
    "two_dips": two_dips,
    "dip_then_late_drop": dip_then_late_drop,
    "bad_start_then_good": bad_start_then_good,
    "two_stage_collapse": two_stage_collapse,
}


def gradual_recovery(n: int, m: int, rng: np.random.Generator) -> Planted:
    """Draw recoveries that fall over two or three steps and return over two or three.

    The deepest point is one or two steps long; what is lost is .28 to .50 and 85 % or more of it
    comes back. With fewer than seven steps falls and returns take two; five are needed.
    """
    widest = 3 if n >= 7 else 2
    down, up = (column(rng.integers(2, widest + 1, m)) for _ in range(2))
    bottom = np.minimum(column(rng.integers(0, 2, m)), n - 1 - down - up)
    latest = n - 1 - (down + bottom + up)
    start = 1 + np.floor(rng.random((m, 1)) * latest)
    steps = np.arange(n)
    fall = np.clip((steps - start + 1) / down, 0, 1)
    back = np.clip((steps - (start + down + bottom) + 1) / up, 0, 1)
    lost = uniform(rng, 0.28, 0.50, m) * (fall - uniform(rng, 0.85, 1.0, m) * back)
    return Planted(_level(rng, m) - lost, fallen(lost))
