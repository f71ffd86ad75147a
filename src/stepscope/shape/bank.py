"""The templates: every form of each shape that the classifier averages over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.shape.types import Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bank:
    """Templates of runs of n steps, K of them; `y = level + offset + depth * f + noise`.

    Attributes:
        shape: shape (K,), index into `SHAPES`.
        f: shape (K, n), the form: how the score moves when the depth is 1.
        offset: shape (K, n), movement that does not depend on the depth.
        log_weight: shape (K,), log prior weight; weights of a shape sum to 1.
        half_drop: shape (K,), the step where half of the drop has happened; -1 without a break.
        onset: shape (K,), first step below the level before; -1 without a break.
        trough: shape (K,), steps spent below, of recoveries; 0 for others.
    """

    shape: npt.NDArray[np.int8]
    f: Floats
    offset: Floats
    log_weight: Floats
    half_drop: npt.NDArray[np.int16]
    onset: npt.NDArray[np.int16]
    trough: npt.NDArray[np.int16]


def bank(n: int, cap: int = 12) -> Bank:
    """Return the templates of runs of n steps."""
    raise NotImplementedError
