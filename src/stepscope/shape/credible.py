"""The shortest run of neighbouring steps that holds a share of the probability."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.shape.types import Floats

Ints = npt.NDArray[np.int64]

# Sums of probabilities are equal within this.
ROUNDING = 1e-6


def shortest_run(probability: Floats, level: float = 0.9) -> tuple[Ints, Ints]:
    """Return first and last step of the shortest run that holds `level` of each row's sum.

    Of runs of one length the one with most probability wins, then the earliest.

    Args:
        probability: shape (m, n), rows with a positive sum.
        level: share of the row's sum.

    >>> first, last = shortest_run(np.array([[0.0, 0.2, 0.5, 0.28, 0.02]]))
    >>> int(first[0]), int(last[0])
    (1, 3)
    """
    m, n = probability.shape
    upto = np.zeros((m, n + 1))
    np.cumsum(probability, axis=1, out=upto[:, 1:])
    needed = level * upto[:, -1] - ROUNDING * upto[:, -1]
    first, last = np.zeros(m, np.int64), np.full(m, n - 1, np.int64)
    open_rows = np.arange(m)
    for length in range(1, n):
        held = upto[open_rows, length:] - upto[open_rows, :-length]
        start = held.argmax(1)
        enough = held[np.arange(len(start)), start] >= needed[open_rows]
        done = open_rows[enough]
        first[done], last[done] = start[enough], start[enough] + length - 1
        open_rows = open_rows[~enough]
        if not len(open_rows):
            break
    return first, last
