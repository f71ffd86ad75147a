"""Curves that have none of the five shapes: what the classifier must call unmodelled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from stepscope.lab.curves import as_rows, draw_uniform
from stepscope.stats.sample import Floats

Compound = Callable[[int, int, np.random.Generator], Floats]


def _compound_level(rng: np.random.Generator, m: int) -> Floats:
    return draw_uniform(rng, 0.80, 0.93, m)


def _low(n: int, start: Floats, end: Floats) -> Floats:
    """Return 1 from step `start` to before step `end`, else 0."""
    steps = np.arange(n)
    return ((steps >= start) & (steps < end)).astype(np.float64)


def sawtooth(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Up and down at every step or every second, as in two tools taking turns."""
    period = as_rows(rng.integers(1, 3, m))
    down = (np.arange(n) // period) % 2
    return np.asarray(_compound_level(rng, m) - draw_uniform(rng, 0.30, 0.50, m) * down, np.float64)


def two_dips(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Two dips with a full return after each."""
    first = as_rows(rng.integers(max(1, n // 10), max(2, n // 4) + 1, m))
    second = as_rows(rng.integers(n // 2 + 1, max(n // 2 + 2, (3 * n) // 4), m))
    width = max(1, n // 5)
    both = _low(n, first, first + width) + _low(n, second, second + width)
    return _compound_level(rng, m) - draw_uniform(rng, 0.35, 0.50, m) * both


def dip_then_late_drop(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A dip with a full return, then a drop that stays."""
    first = as_rows(rng.integers(max(1, n // 5), max(2, n // 3) + 1, m))
    last = as_rows(rng.integers(max(n // 3 + 3, round(0.75 * n)), n, m))
    both = _low(n, first, first + max(1, n // 5)) + _low(n, last, as_rows([n]))
    return _compound_level(rng, m) - draw_uniform(rng, 0.35, 0.50, m) * both


def bad_start_then_good(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Low for the first part, then high to the end: a shape that the five do not have."""
    until = as_rows(rng.integers(max(2, n // 4), n // 2 + 1, m))
    return _compound_level(rng, m) - draw_uniform(rng, 0.35, 0.50, m) * _low(n, as_rows([0]), until)


def two_stage_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A drop that stays, and a second one on top of it."""
    first = as_rows(rng.integers(max(1, n // 5), max(2, n // 3) + 1, m))
    second = as_rows(rng.integers(round(0.6 * n), max(round(0.6 * n) + 1, round(0.8 * n)), m))
    stages = _low(n, first, as_rows([n])) + _low(n, second, as_rows([n]))
    return _compound_level(rng, m) - draw_uniform(rng, 0.22, 0.32, m) * stages


COMPOUND: dict[str, Compound] = {
    "sawtooth": sawtooth,
    "two_dips": two_dips,
    "dip_then_late_drop": dip_then_late_drop,
    "bad_start_then_good": bad_start_then_good,
    "two_stage_collapse": two_stage_collapse,
}
