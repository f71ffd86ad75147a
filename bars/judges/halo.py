"""A planted halo is covered, found and not invented: 40 runs, a judge with noise and a shift.

Half of the runs pass. Scores in context are higher by a shift that differs from run to run, and by
the halo in passing runs, lower by it in failing ones; both views have noise of their own.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from stepscope.calibrate.modes import measure_halo
from stepscope.values import Estimate

RUNS, STEPS, NOISE, SHIFT = 40, 10, 0.12, 0.06
REPLICATIONS = 4_000
LEAST_COVERED, LEAST_FOUND, MOST_INVENTED = 0.93, 0.95, 0.05
# Of what so many replications show by chance of a share: one side, 1 %.
DOUBT = 2.33


class Planted(NamedTuple):
    """Of so many replications the shares whose interval holds the halo, and excludes 0."""

    covered: float
    called: float


def plant_halos(halo: float, replications: int, seed: int = 0) -> Planted:
    """Return what is said of a planted halo."""
    rng = np.random.default_rng((seed, int(1000 * halo)))
    covered = called = 0
    for _ in range(replications):
        passed = np.arange(RUNS) % 2 == 0
        # A kind judge sees more and scores higher, whatever the end.
        shift = 0.04 + rng.normal(0, SHIFT, RUNS) + np.where(passed, halo, -halo)
        views = rng.normal(0, NOISE, (2, RUNS, rng.integers(STEPS // 2, 2 * STEPS)))
        means = shift + (views[1] - views[0]).mean(1)
        found = measure_halo(means, np.where(passed, "pass", "fail").tolist())
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= halo <= found.high
        called += not found.low <= 0 <= found.high
    return Planted(covered / replications, called / replications)


def _doubt(share: float) -> float:
    return DOUBT * math.sqrt(share * (1 - share) / REPLICATIONS)


def main() -> int:
    """Print the shares for each planted halo; return 1 where one is missed."""
    held = True
    for halo in (0.0, 0.05, 0.10):
        found = plant_halos(halo, REPLICATIONS)
        print(f"halo {halo:.2f}: covered {found.covered:.3f}, called {found.called:.3f}")
        held = held and found.covered >= LEAST_COVERED - _doubt(LEAST_COVERED)
        held = held and (halo != 0.10 or found.called >= LEAST_FOUND - _doubt(LEAST_FOUND))
        held = held and (halo != 0.0 or found.called <= MOST_INVENTED + _doubt(MOST_INVENTED))
    print(f"limits: covered {LEAST_COVERED}, .10 called {LEAST_FOUND}, 0 called {MOST_INVENTED}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
