"""Do weighted shares hold the truth? `stats.weighted_proportion` on runs drawn with uneven chances.

`python -m bars.stats.drawn [REPLICATIONS]`, 4,000 unless given. Nominal 95 % intervals must hold
the share of all runs at least 90 % of the time in every cell and 93 % to 98 % in the mean. Runs
come in tasks whose trials are alike; a fifth of them is drawn with the chance of the first stratum,
the others with that of the second, and the fault may be commoner in the first. Code 0: all hold; 3:
one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from bars.stats._coverage import chances
from stepscope.stats import weighted_proportion
from stepscope.values import Estimate

REPLICATIONS = 4_000
LEAST, LEAST_MEAN, MOST_MEAN = 0.90, 0.93, 0.98
RUNS, FIRST = 600, 0.2
SHARES = (0.1, 0.3, 0.5)
# Chances to be drawn, of the first stratum and of the second.
DRAWS = ((0.15, 0.15), (0.4, 0.1), (1.0, 0.05))
# How much commoner the fault is in the first stratum.
TIMES = (1.0, 2.0)
# Trials a task, and how alike they are.
TRIALS = ((1, 0.0), (4, 0.3))


class Cell(NamedTuple):
    """One way to draw: how often its intervals held the truth, and how wide they were."""

    point: str
    held: float
    width: float


def measured(replications: int) -> Iterator[Cell]:
    """Yield every cell of the grid."""
    rng = np.random.default_rng(20261122)
    for share, draw, times, trials in product(SHARES, DRAWS, TIMES, TRIALS):
        point = (
            f"share {share:g}, drawn {draw[0]:g} and {draw[1]:g}, x{times:g}, {trials[0]} trials"
        )
        held, widths = 0, []
        for _ in range(replications):
            found = _one(rng, share=share, draw=draw, times=times, trials=trials)
            if found is None:
                continue
            estimate, truth = found
            assert estimate.low is not None
            assert estimate.high is not None
            held += estimate.low - 1e-12 <= truth <= estimate.high + 1e-12
            widths.append(estimate.high - estimate.low)
        yield Cell(point, held / len(widths), float(np.median(widths)))


def _one(
    rng: np.random.Generator,
    *,
    share: float,
    draw: tuple[float, float],
    times: float,
    trials: tuple[int, float],
) -> tuple[Estimate, float] | None:
    """Return the estimate of one draw and the share it is of; None where nothing was drawn."""
    each, alike = trials
    tasks = RUNS // each
    first = rng.random((tasks, each)) < FIRST
    # The chance of a fault in the second stratum, so that the mean over both is `share`.
    low = share / (FIRST * times + 1 - FIRST)
    own = chances(rng, low, alike, (tasks, 1)) if alike else np.full((tasks, 1), low)
    faults = rng.random((tasks, each)) < np.minimum(own * np.where(first, times, 1.0), 1.0)
    truth = float(
        FIRST * _mean(low, times, alike) + (1 - FIRST) * low if times > 1 and alike else share
    )
    probability = np.where(first, *draw)
    drawn = rng.random((tasks, each)) < probability
    clusters = np.broadcast_to(np.arange(tasks)[:, None], (tasks, each))
    found = weighted_proportion(faults[drawn], probability[drawn], clusters[drawn])
    return (found, truth) if isinstance(found, Estimate) else None


@cache
def _mean(low: float, times: float, alike: float) -> float:
    """Mean of min(times * chance, 1) over tasks: what the cap at 1 leaves of the first stratum."""
    rng = np.random.default_rng(7)
    return float(np.minimum(times * chances(rng, low, alike, (400_000, 1)), 1.0).mean())


def main() -> int:
    """Print coverage and median width of every cell; say whether the bar holds."""
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    cells = list(measured(replications))
    for cell in cells:
        sys.stdout.write(f"{cell.point:<52} held {cell.held:.3f}  width {cell.width:.3f}\n")
    least, mean = min(c.held for c in cells), float(np.mean([c.held for c in cells]))
    holds = least >= LEAST and LEAST_MEAN <= mean <= MOST_MEAN
    sys.stdout.write(
        f"{len(cells)} cells x {replications:,}: least {least:.3f} (at least {LEAST}), mean "
        f"{mean:.3f} ({LEAST_MEAN} to {MOST_MEAN}): {'holds' if holds else 'missed'}\n"
    )
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main())
