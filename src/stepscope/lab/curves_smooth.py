"""Smooth curves: logistic and exponential transitions in continuous time, sampled at the steps.

No step holds the whole drop and no level is flat. A logistic fall begins before its middle; an
exponential one begins at once and settles slowly.
"""

from __future__ import annotations

import numpy as np

from stepscope.lab.planted import Floats, Generator, Planted, fallen, unbroken, uniform
from stepscope.shape.names import ShapeName


def _transition(at: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Return profiles 0 to 1, half done at `at` (m, 1) steps; a coin picks the form of each."""
    m = len(at)
    pace = np.maximum(0.15, uniform(rng, 0.02, 0.06, m) * n)
    away = np.arange(n) - at
    logistic = 1 / (1 + np.exp(-np.clip(away / pace, -60, 60)))
    since = np.maximum(away + pace * np.log(2), 0.0)
    settling = 1 - np.exp(-since / pace)
    profile = np.where(rng.random((m, 1)) < 0.5, logistic, settling)
    return np.asarray(profile, np.float64)


def _to_one(profile: Floats) -> Floats:
    """Scale profiles so that the planted depth is reached within the run."""
    return np.asarray(profile / profile.max(1, keepdims=True), np.float64)


def _level(rng: np.random.Generator, m: int) -> Floats:
    return uniform(rng, 0.72, 0.95, m)


def _early_collapse(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    latest = min(0.4 * (n - 1), (n + 1) // 2 - 1.05)
    at = uniform(rng, max(0.5, 0.12 * (n - 1)), latest, m)
    lost = uniform(rng, 0.28, 0.55, m) * _to_one(_transition(at, n, rng))
    return _level(rng, m) - lost, lost


def _late_drift(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    at = uniform(rng, 0.63 * (n - 1), n - 1.4, m)
    lost = uniform(rng, 0.28, 0.55, m) * _to_one(_transition(at, n, rng))
    warming = uniform(rng, 0.0, 0.12, m) * np.exp(-np.arange(n) / (0.2 * n))
    return _level(rng, m) - warming - lost, lost


def _steady(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    bend = uniform(rng, 0.1, 1.2, m) * rng.choice((-1.0, 1.0), (m, 1))
    lost = (1 - np.exp(-bend * np.linspace(0, 1, n))) / (1 - np.exp(-bend))
    lost = uniform(rng, 0.28, 0.50, m) * lost
    return _level(rng, m) - lost, lost


def _recovery(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    down = uniform(rng, max(0.6, 0.15 * (n - 1)), 0.45 * (n - 1), m)
    up = down + uniform(rng, max(1.2, 0.12 * n), max(1.5, 0.33 * n), m)
    up = np.minimum(up, n - 1.6)
    dip = _transition(down, n, rng) - uniform(rng, 0.85, 1.0, m) * _transition(up, n, rng)
    lost = uniform(rng, 0.30, 0.55, m) * _to_one(np.maximum(dip, 0.0))
    return _level(rng, m) - lost, lost


def _healthy(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    warming = uniform(rng, 0.0, 0.18, m) * np.exp(-np.arange(n) / (0.3 * n))
    return _level(rng, m) - warming, np.zeros((m, n))


PARTS = {
    "early_collapse": _early_collapse,
    "late_drift": _late_drift,
    "steady_degradation": _steady,
    "recovery": _recovery,
    "healthy": _healthy,
}


def _plant(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    curves, lost = PARTS[shape](n, m, rng)
    whole = shape in {"healthy", "steady_degradation"}
    return Planted(curves, unbroken(m) if whole else fallen(lost))


SMOOTH = Generator(
    name="smooth",
    about="logistic and exponential transitions in continuous time",
    plant=_plant,
)
