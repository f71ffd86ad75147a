"""An agent that accumulates errors: what it carries unresolved lowers every score after it.

The score of a step is skill times exp(-burden). A wrong assumption early stays; a context that
overflows late costs more at each step; small errors that nobody repairs pile up; a slip that is
noticed is repaired by a share of what is left at each step; a healthy run repairs at once.
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

# A slip: how often one happens at a step, and the burden it is until the next.
SLIP_RATE = 0.15
SLIP = (0.01, 0.06)


def _burden(depth: Floats, skill: Floats) -> Floats:
    """Return the burden that lowers a score of `skill` by `depth`."""
    return -np.log1p(-depth / skill)


def _slips(n: int, m: int, rng: np.random.Generator) -> Floats:
    """Return burdens (m, n) of small errors, each repaired at the next step."""
    return (rng.random((m, n)) < SLIP_RATE) * rng.uniform(*SLIP, (m, n))


def _early_collapse(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    m = len(skill)
    start = column(early_steps(rng, n, m))
    burden = _burden(uniform(rng, 0.28, 0.50, m), skill) * (np.arange(n) >= start)
    # Each step built on the wrong assumption may add a little to it.
    added = (np.arange(n) > start) * (rng.random((m, n)) < 0.3) * rng.exponential(0.2 / n, (m, n))
    return np.asarray(burden + np.cumsum(added, axis=1), np.float64)


def _late_drift(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """The context fills with random amounts; what no longer fits is lost a little more each step.

    The window is as large as what has come in before the planted step.
    """
    m = len(skill)
    start = rng.integers(max((n + 1) // 2, round(0.6 * n)), n - 1, m)
    came = np.cumsum(rng.lognormal(0.0, 0.4, (m, n)), axis=1)
    window = came[np.arange(m), start - 1][:, None]
    over = np.maximum(came - window, 0.0)
    return np.asarray(_burden(uniform(rng, 0.30, 0.55, m), skill) * over / over[:, -1:], np.float64)


def _steady(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """An error a step, none repaired; each makes the next a little worse."""
    m = len(skill)
    worse = 1 + uniform(rng, 0.0, 1.0, m) * np.arange(n) / n
    added = rng.gamma(5.0, 0.2, (m, n)) * worse
    added[:, 0] = 0.0
    carried = np.cumsum(added, axis=1)
    depth = uniform(rng, 0.28, 0.50, m)
    return np.asarray(_burden(depth, skill) * carried / carried[:, -1:], np.float64)


def _recovery(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    """A slip, unnoticed for a geometric number of steps, then repaired by a share a step."""
    m = len(skill)
    start = np.minimum(rng.integers(max(1, n // 5), n // 2 + 1, m), n - 3)
    unnoticed = np.minimum(rng.geometric(0.5, m), max(1, n // 3))
    repair = np.minimum(start + unnoticed, n - 2)
    left = np.power(1 - uniform(rng, 0.60, 0.95, m), np.arange(n) - column(repair) + 1)
    steps = np.arange(n)
    carried = np.where(steps < column(repair), 1.0, left) * (steps >= column(start))
    return np.asarray(_burden(uniform(rng, 0.30, 0.55, m), skill) * carried, np.float64)


def _healthy(n: int, skill: Floats, rng: np.random.Generator) -> Floats:
    return np.zeros((len(skill), n))


PARTS = {
    "early_collapse": _early_collapse,
    "late_drift": _late_drift,
    "steady_degradation": _steady,
    "recovery": _recovery,
    "healthy": _healthy,
}


def _plant(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    skill = uniform(rng, 0.75, 0.95, m)
    burden = PARTS[shape](n, skill, rng)
    curves = skill * np.exp(-burden - _slips(n, m, rng))
    lost = 1 - np.exp(-burden)
    whole = shape in {"healthy", "steady_degradation"}
    return Planted(curves, unbroken(m) if whole else fallen(lost))


AGENT = Generator(
    name="agent",
    about="an agent that carries its unresolved errors from step to step",
    plant=_plant,
)
