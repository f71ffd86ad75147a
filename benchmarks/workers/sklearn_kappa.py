"""Times scikit-learn's Cohen kappa, and a loop that resamples items around it."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.metrics import cohen_kappa_score  # type: ignore[import-not-found]

from benchmarks.workers.serve import serve


def kappa(first: np.ndarray, second: np.ndarray) -> dict[str, int]:
    """Ask once; return it in millionths."""
    return {"millionths": round(1e6 * cohen_kappa_score(first, second))}


def loop(first: np.ndarray, second: np.ndarray, draws: int) -> dict[str, int]:
    """Resample items `draws` times, as one writes it first; a full interval takes 2,000."""
    rng = np.random.default_rng(0)
    for _ in range(draws):
        chosen = rng.integers(0, len(first), len(first))
        cohen_kappa_score(first[chosen], second[chosen])
    return {"draws": draws}


if __name__ == "__main__":
    one, two = np.load(sys.argv[1])[:, :2].T
    serve({"kappa": lambda: kappa(one, two), "20 draws": lambda: loop(one, two, 20)})
