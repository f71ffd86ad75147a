"""Do the limits of fleet shares hold when sigma is measured and curves are not the templates?

`python -m bars.shape.fleet_shares [FLEETS]`, 400 fleets a cell unless given, seed 0. Estimand: the
shares that runs are drawn with. Cells: five mixes x 5, 10, 20 steps x noise .05, .08, .11 x 30,
100, 1,000 runs; in every fleet sigma is measured anew from 20 steps x 3 scorings. Half of the
fleets are of `_stories`, half of the lab's holdout: neither chose the templates or the model's
error. Bars, in each mix: coverage at least .93 in the mean over shapes and .90 in the worst; mean
width at 1,000 runs at most .14. Beside it what the upper limit of sigma alone gave, in one fleet of
ten. Evidence is classified once on a grid of sigmas and interpolated. Code 0: all hold; 3: missed.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bars.shape._fleets import MIXES, Floats, Ints
from bars.shape._stories import draw_stories
from stepscope.lab.curves import add_noise, draw_curves
from stepscope.shape.fleet import Shares, prevalence, weigh_fleet
from stepscope.shape.types import SHAPES
from stepscope.stats.sample import Bools
from stepscope.values import Unmeasured

FLEETS = 400
STEPS, NOISES, RUNS = (5, 10, 20), (0.05, 0.08, 0.11), (30, 100, 1_000)
GENERATORS = ("stories", "holdout")
LEAST_MEAN, LEAST_WORST, WIDEST = 0.93, 0.90, 0.14
POOL, DRAWS = 2_500, 200
# Steps scored three times: degrees of freedom, and limits and standard error of log sigma.
FREEDOM = 40
UPPER = float(np.log(np.sqrt(FREEDOM / 24.43303916)))  # chi-square at .025
ERROR = float(np.log(np.sqrt(59.34170708 / 24.43303916)) / 2 / 1.959963984540054)
# Log of sigma over the true one: where the pool is classified.
GRID = np.linspace(-0.625, 0.625, 11)
# Standard errors of the simulation that are given away.
SLACK = 2.33


@dataclass(frozen=True, slots=True)
class Pool:
    """Evidence about runs of known shape under each sigma of the grid."""

    log_likelihood: Floats  # shape (grid, 5, pool, 5)
    fits: Bools  # shape (grid, 5, pool)
    error: Floats  # shape (grid,)

    def under(self, shape: Ints, row: Ints, x: float) -> Floats:
        """Return the evidence of runs at a log ratio of sigma."""
        at = np.clip((x - GRID[0]) / (GRID[1] - GRID[0]), 0, len(GRID) - 1.001)
        low, part = int(at), at - int(at)
        mine = self.log_likelihood[:, shape, row]
        return np.asarray((1 - part) * mine[low] + part * mine[low + 1])


def make_pool(generator: str, n: int, sigma: float, rng: np.random.Generator) -> Pool:
    """Classify runs of a generator under each sigma of the grid."""
    curves = [
        draw_stories(shape, n, POOL, rng)
        if generator == "stories"
        else draw_curves(generator, shape, n, POOL, rng).curves
        for shape in SHAPES
    ]
    scores = add_noise(np.vstack(curves), sigma, rng)
    lengths = np.full(len(scores), n)
    found = [weigh_fleet(scores.ravel(), lengths, sigma=sigma * np.exp(x)) for x in GRID]
    block = (len(GRID), len(SHAPES), POOL)
    return Pool(
        np.stack([one.log_likelihood[:, 0] for one in found]).reshape(*block, -1),
        np.stack([~one.batch.unmodelled for one in found]).reshape(block),
        np.array([one.error.mean() for one in found]),
    )


def fleets(
    pool: Pool, mix: str, runs: int, count: int, rng: np.random.Generator
) -> Iterator[tuple[Floats, Floats | None]]:
    """Yield limits, shape (2, 5), of shares of fleets, and those of the upper limit alone."""
    for number in range(count):
        shape, row = rng.choice(len(SHAPES), runs, p=MIXES[mix]), rng.integers(POOL, size=runs)
        x = float(np.log(rng.chisquare(FREEDOM) / FREEDOM) / 2)
        nearest = int(np.abs(GRID - x).argmin())
        fits = pool.fits[nearest, shape, row]
        shape, row = shape[fits], row[fits]
        nodes = [pool.under(shape, row, at) for at in (x, x - ERROR, x + ERROR)]
        error = float(pool.error[nearest])
        now = prevalence(np.stack(nodes, 1), rng=rng, draws=DRAWS, error=error)
        before = None
        if number % 10 == 0:
            upper = pool.under(shape, row, x + UPPER)
            before = _limits(prevalence(upper, rng=rng, draws=DRAWS))
        yield _limits(now), before


def _limits(found: Shares | Unmeasured) -> Floats:
    assert isinstance(found, dict)
    return np.array([[found[name].low, found[name].high] for name in SHAPES]).T


def main(count: int = FLEETS) -> int:
    """Run the bar; print its tables."""
    rng, share = np.random.default_rng(0), max(1, count // len(GENERATORS))
    held: dict[tuple[str, str], list[Floats]] = {}
    for generator, n, sigma in itertools.product(GENERATORS, STEPS, NOISES):
        pool = make_pool(generator, n, sigma, rng)
        for mix, runs in itertools.product(MIXES, RUNS):
            truth = np.array(MIXES[mix])
            for now, before in fleets(pool, mix, runs, share, rng):
                for when, limits in (("now", now), ("before", before)):
                    if limits is not None:
                        inside = (limits[0] - 1e-9 <= truth) & (truth <= limits[1] + 1e-9)
                        seen = np.array([inside, limits[1] - limits[0]], np.float64)
                        cell = f"n {n}, sigma {sigma:g}"
                        for key in (mix, f"{mix}, {runs} runs", f"{mix}, {generator}", cell):
                            held.setdefault((when, key), []).append(seen)
    print(f"shares of fleets, {count} a cell, sigma of 20 x 3 scorings, seed 0\n")
    print(f"{'':<34}{'mean':>7}{'worst':>7}{'width':>7}")
    means = {key: np.mean(rows, axis=0) for key, rows in held.items()}
    for row in sorted(means):
        inside, width = means[row]
        print(f"{', '.join(row):<34}{inside.mean():>7.3f}{inside.min():>7.3f}{width.mean():>7.3f}")
    print()
    all_hold = True
    for mix in MIXES:
        (inside, _), wide = (
            means["now", mix],
            float(means["now", f"{mix}, {RUNS[-1]} runs"][1].mean()),
        )
        slack = SLACK * float(np.sqrt(0.1 * 0.9 / len(held["now", mix])))
        holds = inside.mean() >= LEAST_MEAN and inside.min() >= LEAST_WORST - slack
        holds = bool(holds and wide <= WIDEST)
        all_hold &= holds
        said = f"{inside.mean():.3f} >= {LEAST_MEAN}, worst {inside.min():.3f} >= {LEAST_WORST}"
        said += f", width at 1,000 runs {wide:.3f} <= {WIDEST}"
        print(f"{mix:<10}{said}: {'holds' if holds else 'MISSED'}")
    return 0 if all_hold else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else FLEETS))
