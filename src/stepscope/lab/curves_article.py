"""Curves of the articles: their four examples, and a generator that gives their printed scores.

The articles print four examples of ten steps and no healthy one; the healthy base is ours. Their
1,500 trajectories are described and not printed: `reconstruction` is one generator whose scores
under V1 and V3 agree with twelve numbers they do print, not the one they used.
Source: the four examples and the table of F1 of the two ARC articles (Tribbia).
"""

from __future__ import annotations

import numpy as np

from stepscope.lab.planted import (
    Floats,
    Generator,
    Planted,
    column,
    fallen,
    unbroken,
    uniform,
)
from stepscope.shape.names import ShapeName

EXAMPLES: dict[ShapeName, tuple[float, ...]] = {
    "early_collapse": (0.90, 0.91, 0.88, 0.60, 0.55, 0.58, 0.61, 0.62, 0.60, 0.58),
    "late_drift": (0.60, 0.58, 0.62, 0.78, 0.82, 0.85, 0.88, 0.87, 0.55, 0.45),
    "steady_degradation": (0.85, 0.82, 0.78, 0.74, 0.71, 0.68, 0.65, 0.62, 0.58, 0.57),
    "recovery": (0.88, 0.90, 0.85, 0.40, 0.38, 0.72, 0.85, 0.87, 0.86, 0.89),
    "healthy": (0.80, 0.82, 0.84, 0.85, 0.86, 0.87, 0.88, 0.88, 0.89, 0.90),
}
BREAKS: tuple[ShapeName, ...] = ("early_collapse", "late_drift", "recovery")


def base(shape: ShapeName, n: int) -> Floats:
    """Return one example laid over n steps by linear interpolation."""
    scores = EXAMPLES[shape]
    return np.interp(np.linspace(0, 1, n), np.linspace(0, 1, len(scores)), scores)


def _bases(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    curve = base(shape, n)
    curves = np.tile(curve, (m, 1))
    if shape not in BREAKS:
        return Planted(curves, unbroken(m))
    # What was lost since the best step so far; a return is not a drop.
    lost = np.maximum.accumulate(curve) - curve
    return Planted(curves, np.repeat(fallen(lost[None, :]), m))


def _early_collapse(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    moved = np.where(rng.random(m) < 0.05, rng.choice((-1, 1), m), 0)
    start = np.clip(n // 3 + moved, 1, (n + 1) // 2 - 1)
    depth = uniform(rng, 0.28, 0.46, m)
    lost = depth * (np.arange(n) >= column(start))
    return uniform(rng, 0.80, 0.93, m) - lost, lost


def _last_third(n: int) -> Floats:
    """Return how much of a fall over the last third has happened at each step, 0 to 1."""
    peak = 2 * (n // 3)
    return np.clip((np.arange(n) - peak) / (n - 1 - peak), 0.0, 1.0)


def _to_peak(n: int) -> Floats:
    peak = 2 * (n // 3)
    return np.clip(np.arange(n) / peak, 0.0, 1.0)


def _late_drift(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    mild = rng.random((m, 1)) < 0.17
    depth = np.where(mild, uniform(rng, 0.24, 0.37, m), uniform(rng, 0.64, 0.82, m))
    rise = np.where(mild, uniform(rng, 0.12, 0.30, m), uniform(rng, 0.0, 0.25, m))
    lost = depth * _last_third(n)
    return uniform(rng, 0.84, 0.95, m) - rise * (1 - _to_peak(n)) - lost, lost


def _steady(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    lost = uniform(rng, 0.25, 0.40, m) * np.linspace(0, 1, n)
    return uniform(rng, 0.80, 0.93, m) - lost, lost


def _recovery(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    start = column(rng.integers(round(0.3 * n), round(0.5 * n) + 1, m))
    start = np.minimum(start, n - 3)
    trough = np.minimum(column(rng.integers(1, n // 4 + 1, m)), n - 2 - start)
    steps, depth = np.arange(n), uniform(rng, 0.35, 0.55, m)
    part = uniform(rng, 0.2, 0.5, m)
    lost = depth * ((steps >= start) & (steps < start + trough))
    lost = lost + depth * part * (steps == start + trough)
    return uniform(rng, 0.80, 0.93, m) - lost, lost


def _healthy(n: int, m: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    soft = rng.random((m, 1)) < 0.10
    # A soft finish comes after a climb; without it V1 would call most of them declines.
    rise = np.where(soft, uniform(rng, 0.20, 0.30, m), uniform(rng, 0.02, 0.20, m))
    lost = soft * uniform(rng, 0.35, 0.46, m) * _last_third(n)
    return uniform(rng, 0.80, 0.93, m) - rise * (1 - _to_peak(n)) - lost, lost


PARTS = {
    "early_collapse": _early_collapse,
    "late_drift": _late_drift,
    "steady_degradation": _steady,
    "recovery": _recovery,
    "healthy": _healthy,
}


def _reconstruction(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
    curves, lost = PARTS[shape](n, m, rng)
    return Planted(curves, fallen(lost) if shape in BREAKS else unbroken(m))


ARTICLE = Generator(
    name="article",
    about="the articles' four examples and our healthy base, interpolated to n steps",
    plant=_bases,
)
RECONSTRUCTION = Generator(
    name="reconstruction",
    about="varied curves that give V1 and V3 the twelve scores the articles print",
    plant=_reconstruction,
)
