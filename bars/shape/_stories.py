"""Score curves told as stories: what neither the templates nor the model's error was chosen on.

A run does its work at a level of its own and wanders. It settles on a wrong premise (a soft step
early), runs out of room (a fall that begins late and may not end), wears down (a bent line), or
trips and mends it (two soft steps). No curve is a template plus noise.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.shape.types import ShapeName

Floats = npt.NDArray[np.float64]

WANDER = 0.012


def _soft_step(u: Floats, at: Floats, width: Floats | float) -> Floats:
    """Return 0 before, 1 after, half way at `at`; u has shape (1, n), the others (m, 1)."""
    return np.asarray(1 / (1 + np.exp(-(u - at) / width)))


def draw_stories(shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Floats:
    """Return m curves of n steps, without noise, within 0..1."""

    def some(low: float, high: float) -> Floats:
        return rng.uniform(low, high, (m, 1))

    u = np.linspace(0, 1, n)[None]
    level, depth = some(0.72, 0.93), some(0.25, 0.6)
    wander = np.cumsum(rng.normal(0, WANDER, (m, n)), axis=1)
    match shape:
        case "healthy":
            lost = -some(-0.03, 0.12) * (u - 0.5)
        case "early_collapse":
            lost = depth * _soft_step(u, some(0.12, 0.42), some(0.0025, 0.03))
        case "late_drift":
            begins = some(0.55, 0.85)
            lost = depth * np.clip((u - begins) / (1 - begins) * some(1, 4), 0, 1)
        case "steady_degradation":
            lost = depth * u ** some(0.8, 1.3)
        case "recovery":
            falls, stays = some(0.12, 0.45), some(0.15, 0.35)
            mends = some(0.75, 1.05) * _soft_step(u, falls + stays, 0.02)
            lost = depth * (_soft_step(u, falls, 0.015) - mends)
    return np.asarray(np.clip(level - lost + wander - wander.mean(1, keepdims=True), 0, 1))
