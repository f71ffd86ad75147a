"""Times the krippendorff package's nominal alpha."""

from __future__ import annotations

import sys

import krippendorff  # type: ignore[import-not-found]
import numpy as np

from benchmarks.workers.serve import serve


def alpha(ratings: np.ndarray) -> dict[str, int]:
    """Ask once; return it in millionths."""
    found = krippendorff.alpha(reliability_data=ratings, level_of_measurement="nominal")
    return {"millionths": round(1e6 * found)}


if __name__ == "__main__":
    rated = np.load(sys.argv[1]).T.astype(float)
    rated[rated < 0] = np.nan
    serve({"alpha": lambda: alpha(rated)})
