"""Counts a run of few tasks: do the limits hold, and are they narrower for rare events?

`python -m bars.stats.rates [REPLICATIONS]`, 4,000 a cell unless given, seed 0. Estimand: events a
run of *tasks like these*. Designs: 5 tasks x 4 runs, 20 x 1, 50 x 4; rates .1, .5, 1, 2; events
that are Poisson, whose tasks differ (gamma, coefficient of variation 1), that come in pairs, or
whose runs differ. Bars: coverage at least .92 in each cell and .95 in the mean, an answer that is
refused being a miss; the median width over that of Student's limits on the log scale at most .8 at
5 x 4, rate .1, unlike tasks, and nowhere above 1.15. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from bars.stats._coverage import Floats
from stepscope.stats.intervals import count_limits, mean_limits, poisson_limits

REPLICATIONS, LEVEL = 4_000, 0.95
DESIGNS = ((5, 4), (20, 1), (50, 4))
RATES = (0.1, 0.5, 1.0, 2.0)
KINDS = ("poisson", "unlike tasks", "pairs", "unlike runs")
LEAST, LEAST_MEAN, RARE, WIDEST = 0.92, 0.95, 0.8, 1.15
# Standard errors of the simulation that are given away.
SLACK = 2.33


def draw(rng: np.random.Generator, kind: str, rate: float, shape: tuple[int, int, int]) -> Floats:
    """Return events of each run, shape (replications, tasks, runs)."""
    if kind == "pairs":
        return np.asarray(2 * rng.poisson(rate / 2, shape), np.float64)
    own = {"unlike tasks": (*shape[:2], 1), "unlike runs": shape}.get(kind)
    mean = np.full(shape, rate) if own is None else np.broadcast_to(rng.gamma(1, rate, own), shape)
    return np.asarray(rng.poisson(mean), np.float64)


def before(counts: Floats) -> tuple[Floats, Floats]:
    """Return the limits that were used before: t on the log scale, Poisson where runs are alike."""
    tasks = counts.shape[1]
    sums, sizes = counts.sum(-1), np.full(tasks, float(counts.shape[2]))
    with np.errstate(all="ignore"):
        _, low, high = mean_limits(sums, sizes, LEVEL, positive=True)
    alike = np.ptp(counts.reshape(len(counts), -1), axis=1) == 0
    same = poisson_limits(counts[:, 0, 0] * tasks, tasks, LEVEL)
    return np.where(alike, same[0], low), np.where(alike, same[1], high)


def cells(n: int, seed: int = 0) -> Iterator[tuple[str, float, float, float]]:
    """Yield each cell with its coverage, that of the limits before, and the ratio of widths."""
    rng = np.random.default_rng(seed)
    for (tasks, runs), rate, kind in itertools.product(DESIGNS, RATES, KINDS):
        counts = draw(rng, kind, rate, (n, tasks, runs))
        _, low, high = count_limits(counts.sum(-1), np.full(tasks, float(runs)), LEVEL)
        old_low, old_high = before(counts)
        refused = old_high <= old_low
        ratio = np.divide(high - low, old_high - old_low, out=np.ones(n), where=~refused)
        held = ((low <= rate) & (rate <= high)).mean()
        held_before = ((old_low <= rate) & (rate <= old_high) & ~refused).mean()
        point = f"{tasks} x {runs}, rate {rate:g}, {kind}"
        yield point, float(held), float(held_before), float(np.median(ratio[~refused]))


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar; print its table."""
    print(f"events a run, {replications:,} samples a cell, seed 0\n")
    print(f"{'cell':<34}{'held':>7}{'before':>8}{'width':>7}")
    found = list(cells(replications))
    for point, held, old, ratio in found:
        print(f"{point:<34}{held:>7.3f}{old:>8.3f}{ratio:>7.3f}")
    shares = [held for _, held, _, _ in found]
    worst, mean, widest = min(shares), sum(shares) / len(shares), max(cell[3] for cell in found)
    rare = next(cell[3] for cell in found if cell[0] == "5 x 4, rate 0.1, unlike tasks")
    slack = SLACK * float(np.sqrt(LEAST * (1 - LEAST) / replications))
    checks = (
        (f"lowest coverage {worst:.3f}, >= {LEAST}", worst >= LEAST - slack),
        (f"mean coverage {mean:.3f}, >= {LEAST_MEAN}", mean >= LEAST_MEAN),
        (f"width for rare events {rare:.3f}, <= {RARE}", rare <= RARE),
        (f"widest {widest:.3f}, <= {WIDEST}", widest <= WIDEST),
    )
    for said, holds in checks:
        print(f"{said}: {'holds' if holds else 'MISSED'}")
    return 0 if all(holds for _, holds in checks) else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
