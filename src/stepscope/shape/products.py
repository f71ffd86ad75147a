"""Matrix products that start no threads.

A linear algebra library starts threads of its own above a size, and they wait for each other: on a
machine with other work that costs ten times the product. Threads are ours (see `batch`), one a
block of runs.
"""

from __future__ import annotations

import numpy as np

from stepscope.shape.types import Floats

# Multiplications of one product, below what makes OpenBLAS start threads (4 * 65,536).
PRODUCT = 250_000


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, shapes (m, p) and (p, k), worked off in pieces of rows."""
    height = max(1, PRODUCT // max(1, right.size))
    found = np.empty((len(left), right.shape[1]))
    for start in range(0, len(left), height):
        np.matmul(left[start : start + height], right, out=found[start : start + height])
    return found


def inverse_of_lower(root: Floats) -> Floats:
    """Return the inverse of a lower triangular matrix, by forward substitution.

    >>> inverse_of_lower(np.array([[2.0, 0.0], [1.0, 4.0]])).tolist()
    [[0.5, 0.0], [-0.125, 0.25]]
    """
    found = np.zeros_like(root)
    for i, row in enumerate(root):
        found[i, i] = 1.0
        found[i] = (found[i] - np.einsum("j,jk->k", row[:i], found[:i])) / row[i]
    return found
