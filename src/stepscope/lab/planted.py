"""What a generator of step scores gives: curves whose shape and break step are known.

The break step is the first step at which half of the drop, or more, has happened: one definition
for sharp and for gradual drops. Steady degradation and healthy runs have none (-1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import UsageError
from stepscope.shape.names import SHAPES, ShapeName

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_BREAK = -1
FEWEST_STEPS = 4
# Two drops that differ by rounding alone are the same drop.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Planted:
    """Curves without noise and the truth about them.

    Attributes:
        curves: shape (m, n), the scores a judge without error would give.
        break_step: shape (m,), index of the first step with half of the drop; -1 where none.
    """

    curves: Floats
    break_step: Ints


Plant = Callable[[ShapeName, int, int, np.random.Generator], Planted]


@dataclass(frozen=True, slots=True)
class Generator:
    """A family of curves with one form, able to draw each of the five shapes.

    Attributes:
        name: its key in `GENERATORS`.
        about: one sentence, what makes the curves.
        plant: draws m curves of n steps of one shape.
    """

    name: str
    about: str
    plant: Plant

    def draw(self, shape: ShapeName, n: int, m: int, rng: np.random.Generator) -> Planted:
        """Draw m curves of n steps that have a shape.

        Raises:
            UsageError: an unknown shape, fewer than four steps, or a negative number of curves.
        """
        if shape not in SHAPES:
            raise UsageError(
                f"generator {self.name}: no shape {shape!r}; one of {', '.join(SHAPES)}"
            )
        if n < FEWEST_STEPS or m < 0:
            raise UsageError(
                f"generator {self.name}: {m} curves of {n} steps asked; "
                f"give 0 curves or more, of {FEWEST_STEPS} steps or more"
            )
        return self.plant(shape, n, m, rng)


def column(values: npt.ArrayLike) -> Floats:
    """Return (m,) values as (m, 1), to be laid over steps."""
    return np.asarray(values, np.float64)[:, None]


def uniform(rng: np.random.Generator, low: Floats | float, high: Floats | float, m: int) -> Floats:
    """Draw (m, 1) uniform values; the limits are numbers or (m, 1)."""
    return np.asarray(rng.uniform(low, high, (m, 1)), np.float64)


def fallen(drop: Floats) -> Ints:
    """Return for each curve the first step with half of its greatest drop; drop >= 0, (m, n)."""
    steps: Ints = np.argmax(drop >= drop.max(1, keepdims=True) / 2 - ROUNDING, axis=1)
    return steps


def unbroken(m: int) -> Ints:
    """Return (m,) of "no break"."""
    return np.full(m, NO_BREAK, np.int64)


def early_steps(rng: np.random.Generator, n: int, m: int) -> Ints:
    """Draw steps at which a run collapses early: after a fifth of it, before its middle."""
    first, last = max(1, n // 5), (n + 1) // 2 - 1
    return rng.integers(first, last + 1, m)


def late_steps(rng: np.random.Generator, n: int, m: int) -> Ints:
    """Draw steps at which a run breaks late: in the last third or so, never before the middle."""
    first = max((n + 1) // 2, round(0.6 * n))
    return rng.integers(first, n, m)
