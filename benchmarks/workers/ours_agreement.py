"""Times our agreement: kappa of two raters with and without its interval, alpha of three."""

from __future__ import annotations

import sys

import numpy as np

from benchmarks.workers.serve import serve
from stepscope.stats.interrater import CoefficientName, agreement
from stepscope.values import Estimate


def asked(ratings: np.ndarray, name: CoefficientName, draws: int) -> dict[str, int]:
    """Ask for one coefficient; return it in millionths."""
    found = agreement(ratings, name, rng=np.random.default_rng(0), draws=draws)
    assert isinstance(found, Estimate)
    return {"millionths": round(1e6 * found.value)}


if __name__ == "__main__":
    three = np.load(sys.argv[1])
    two = three[:, :2]
    serve(
        {
            "kappa": lambda: asked(two, "kappa", 1),
            "kappa with interval": lambda: asked(two, "kappa", 2_000),
            "alpha": lambda: asked(three, "alpha", 1),
            "alpha with interval": lambda: asked(three, "alpha", 2_000),
        }
    )
