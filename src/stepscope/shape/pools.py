"""Which scores a comparison sees: all that were observed, or, of long runs, averages of neighbours.

Templates grow with the cube of the number of steps, so runs of more than `LONGEST` are cut into
that many parts of neighbouring steps, each the average of its scores weighted by their precision.
A break is then known to the part, not the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.shape.bank import LONGEST
from stepscope.shape.types import Bools, Floats


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """How n scores become p averages.

    Attributes:
        weights: shape (p, n), rows sum to 1; what a missing score weighs is 0.
        places: shape (p,), which step of the templates each average stands at, rising.
        size: steps of the templates.
        part: shape (n,), the step of the templates that each step of the run belongs to.
    """

    weights: Floats
    places: npt.NDArray[np.int64]
    size: int
    part: npt.NDArray[np.int64]


def pool(observed: Bools, sigma: Floats) -> Pool:
    """Return which averages to compare.

    Args:
        observed: shape (n,), which steps have a score.
        sigma: shape (n,), noise of each score; read where observed.
    """
    n = len(observed)
    size = min(n, LONGEST)
    # The same parts as `np.array_split`: the longer ones first.
    part = np.repeat(np.arange(size), [len(steps) for steps in np.array_split(np.arange(n), size)])
    precision = np.zeros(n)
    precision[observed] = (sigma[observed].min() / sigma[observed]) ** 2
    total = np.bincount(part, weights=precision, minlength=size)
    places = np.flatnonzero(total > 0)
    weights = np.where(part == places[:, None], precision, 0.0) / total[places, None]
    return Pool(weights, places, size, part)
