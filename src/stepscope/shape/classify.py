"""Which of five shapes a run's scores have, how probable each is, and where they broke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stepscope.shape.names import ShapeName
from stepscope.shape.types import Shape
from stepscope.values import Unmeasured

# Below this probability of the best shape the label is "unresolved".
RESOLVED = 0.8


def classify(
    scores: Sequence[float | None],
    *,
    sigma: float | Sequence[float] | None = None,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Shape | Unmeasured:
    """Compare five shapes for one run's scores."""
    raise NotImplementedError
