"""The same comparison as `classify` for millions of runs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.shape.names import ShapeName
from stepscope.shape.types import Batch


def classify_many(
    scores: npt.NDArray[np.float64],
    *,
    sigma: float | npt.NDArray[np.float64] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Batch:
    """Classify the rows of `scores`, shape (m, n), NaN where a score is missing."""
    raise NotImplementedError


def classify_ragged(
    values: npt.NDArray[np.float64],
    lengths: npt.NDArray[np.int64],
    *,
    sigma: float | npt.NDArray[np.float64] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Batch:
    """Classify runs of unequal length, laid end to end in `values`."""
    raise NotImplementedError
