"""The generator that nothing is tuned on: a queue with a backlog.

Work arrives at every step and is served at some rate; the score falls with what waits. It was
written before the classifier, and is read by the last table of the bars only.
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
    unbroken,
    uniform,
)
from stepscope.shape.names import ShapeName

# Spread of what arrives at a step, as a share of its mean.
UNEVEN = 0.15


def _backlog(arrivals: Floats, served: Floats, rng: np.random.Generator) -> Floats:
    """Return what waits after each step, scaled to a maximum of 1; `served` is (m, 1) or (m, n)."""
    come = arrivals * rng.gamma(1 / UNEVEN**2, UNEVEN**2, arrivals.shape)
    waits, rate = np.zeros_like(arrivals), np.broadcast_to(served, arrivals.shape)
    before = np.zeros(len(arrivals))
    for step in range(arrivals.shape[1]):
        before = (before + come[:, step]) * (1 - rate[:, step])
        waits[:, step] = before
    return np.asarray(waits / waits.max(1, keepdims=True), np.float64)


def _early_collapse(n: int, m: int, rng: np.random.Generator) -> Floats:
    """The load doubles for good, early: the backlog settles at a higher level."""
    load = (np.arange(n) >= column(early_steps(rng, n, m))).astype(np.float64)
    return _backlog(load, uniform(rng, 0.70, 0.95, m), rng)


def _late_drift(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Service slows down late: work piles up to the end."""
    start = rng.integers(max((n + 1) // 2, round(0.6 * n)), n - 1, m)
    load = (np.arange(n) >= column(start)).astype(np.float64)
    return _backlog(load, uniform(rng, 0.05, 0.60, m), rng)


def _steady(n: int, m: int, rng: np.random.Generator) -> Floats:
    """A little more arrives than can be served, from the first step on."""
    load = np.ones((m, n))
    load[:, 0] = 0.0
    return _backlog(load, uniform(rng, 0.1, 0.5, m) / n, rng)


def _recovery(n: int, m: int, rng: np.random.Generator) -> Floats:
    """An outage, after which the backlog is worked off."""
    start = np.minimum(rng.integers(max(1, n // 5), n // 2 + 1, m), n - 3)
    length = np.minimum(rng.integers(1, max(1, n // 4) + 1, m), n - 2 - start)
    steps = np.arange(n)
    out = (steps >= column(start)) & (steps < column(start + length))
    served = np.where(out, 0.1, uniform(rng, 0.60, 0.90, m))
    return _backlog(out.astype(np.float64), served, rng)


PARTS = {
    "early_collapse": _early_collapse,
    "late_drift": _late_drift,
    "steady_degradation": _steady,
    "recovery": _recovery,
}


def _plant(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    speed = uniform(rng, 0.75, 0.95, m)
    jitter = 1 - rng.gamma(1.0, 0.012, (m, n))
    if shape == "healthy":
        return Planted(speed * jitter, unbroken(m))
    waits = PARTS[shape](n, m, rng)
    deepest = uniform(rng, 0.30, 0.55, m)
    curves = speed / (1 + waits * deepest / (speed - deepest))
    lost = speed - curves
    whole = shape == "steady_degradation"
    return Planted(curves * jitter, unbroken(m) if whole else fallen(lost))


HOLDOUT = Generator(
    name="holdout",
    about="a queue whose backlog lowers the score; nothing was tuned on it",
    plant=_plant,
)
