"""Wandering curves: a smoothed random walk with a change of level planted into it.

The level of a real agent is never flat; here it wanders by a few hundredths, and what falls or
climbs does so in random parts, so that no straight line and no ramp describes it.
"""

from __future__ import annotations

import numpy as np

from stepscope.lab.planted import (
    Floats,
    Generator,
    Planted,
    column,
    early_steps,
    fallen,
    late_steps,
    unbroken,
    uniform,
)
from stepscope.shape.names import ShapeName

# How far the level of a run wanders around its own line, as a standard deviation.
WANDER = 0.02
# Parts of a steady decline: the larger, the more equal.
EVENNESS = 6.0


def _wander(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Return smoothed walks (m, n) of mean 0 and standard deviation `WANDER` over each run."""
    steps = rng.standard_normal((m, n + 2))
    smooth = (steps[:, :-2] + steps[:, 1:-1] + steps[:, 2:]) / 3
    walk = np.cumsum(smooth, axis=1)
    line = np.linspace(-1, 1, n)
    walk = walk - walk.mean(1, keepdims=True)
    walk = walk - line * (walk @ line / (line @ line))[:, None]
    return np.asarray(WANDER * walk / np.maximum(walk.std(1, keepdims=True), 1e-12), np.float64)


def _change(start: Floats, width: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return profiles 0 to 1 that rise in `width` random parts from step `start` (both (m, 1))."""
    steps = np.arange(n)
    parts = rng.gamma(2.0, 1.0, (len(start), n)) * ((steps >= start) & (steps < start + width))
    done = np.cumsum(parts, axis=1)
    return done / np.maximum(done[:, -1:], 1e-12)


def _width(rng: np.random.Generator, n: int, m: int) -> Floats:
    return column(rng.integers(1, max(1, n // 6) + 1, m))


def _early_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = column(early_steps(rng, n, m))
    width = np.minimum(_width(rng, n, m), (n + 1) // 2 - start)
    return uniform(rng, 0.28, 0.50, m) * _change(start, width, n, rng)


def _late_drift(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = column(late_steps(rng, n, m))
    width = np.minimum(column(rng.integers(1, max(1, n // 3) + 1, m)), n - start)
    return uniform(rng, 0.28, 0.50, m) * _change(start, width, n, rng)


def _steady(n: int, m: int, rng: np.random.Generator) -> Floats:
    parts = rng.gamma(EVENNESS, 1.0, (m, n))
    parts[:, 0] = 0.0
    done = np.cumsum(parts, axis=1)
    return uniform(rng, 0.28, 0.50, m) * done / done[:, -1:]


def _recovery(n: int, m: int, rng: np.random.Generator) -> Floats:
    start = np.minimum(column(rng.integers(max(1, n // 5), n // 2 + 1, m)), n - 3)
    down = np.minimum(_width(rng, n, m), n - 2 - start)
    last_low = start + down + column(rng.integers(0, max(1, n // 4), m))
    turn = np.minimum(last_low, n - 2)
    back = np.minimum(_width(rng, n, m), n - turn)
    returned = uniform(rng, 0.80, 1.0, m) * _change(turn, back, n, rng)
    return uniform(rng, 0.30, 0.55, m) * (_change(start, down, n, rng) - returned)


def _healthy(n: int, m: int, rng: np.random.Generator) -> Floats:
    rise = uniform(rng, 0.0, 0.12, m) * _change(np.ones((m, 1)), np.full((m, 1), n - 1), n, rng)
    return np.asarray(rise[:, -1:] - rise, np.float64)


PARTS = {
    "early_collapse": _early_collapse,
    "late_drift": _late_drift,
    "steady_degradation": _steady,
    "recovery": _recovery,
    "healthy": _healthy,
}


def _plant(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    lost = PARTS[shape](n, m, rng)
    curves = uniform(rng, 0.75, 0.95, m) - lost + _wander(n, m, rng)
    whole = shape in {"healthy", "steady_degradation"}
    return Planted(curves, unbroken(m) if whole else fallen(lost))


WALK = Generator(
    name="walk",
    about="a smoothed random walk with a change of level in random parts",
    plant=_plant,
)
