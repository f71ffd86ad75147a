"""How often is production said to differ from the evaluation, where it does not and where it does?

`python -m bars.calibrate.production [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: the
difference of the shares of five shapes. Generator: curves of ten steps with noise .05, classified;
mixes of the article's example (no healthy run), equal on both sides, or its two mixes; 50 or 100
runs a side, one a user or five a user whose shapes are alike by .3. Bars: any shape's p at or below
.05 in at most .06 of equal mixes; the article's 23 points found in at least .8 at 100 a side, one
run a user. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import sqrt

import numpy as np

from bars.shape._fleets import curves, evidence, shapes_of
from stepscope.report.production import ALPHA
from stepscope.shape.fleet import largest_p, pull_on_shares

REPLICATIONS, DRAWS = 4_000, 199
# Healthy, early collapse, late drift, steady degradation, recovery.
EVALUATION = (0.0, 0.35, 0.28, 0.15, 0.22)
PRODUCTION = (0.0, 0.12, 0.31, 0.38, 0.19)


def replicate(
    rng: np.random.Generator, runs: int, each: int, mixes: tuple[tuple[float, ...], ...]
) -> bool:
    """Return whether any shape is said to differ."""
    pool = curves("smooth", 10, 0.05)
    users, alike = runs // each, 0.3 if each > 1 else 0.0
    sides = [evidence(rng, pool, shapes_of(rng, mix, users, each, alike)) for mix in mixes]
    cluster = np.arange(2 * runs) // each
    second = np.arange(2 * runs) >= runs
    p, _ = largest_p(pull_on_shares(np.concatenate(sides)), cluster, second, rng=rng, draws=DRAWS)
    return bool(p.min() <= ALPHA)


def main() -> int:
    """Run the bar; print its table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    missed = sum(not holds for holds in rows(n))
    print("holds" if not missed else f"{missed} lines missed")
    return 3 if missed else 0


def rows(n: int) -> Iterator[bool]:
    """Print each line of the table; yield whether its bar holds."""
    print(f"{n:,} replications of each line, seed 0\nruns a side  a user  mixes      told")
    for runs, each in ((50, 1), (50, 5), (100, 1), (100, 5)):
        for name, second in (("equal", EVALUATION), ("article's", PRODUCTION)):
            rng = np.random.default_rng(0)
            told = sum(replicate(rng, runs, each, (EVALUATION, second)) for _ in range(n)) / n
            holds = name != "equal" or told <= 0.06 + 2.33 * sqrt(0.06 * 0.94 / n)
            if (name, runs, each) == ("article's", 100, 1):
                holds &= told >= 0.8
            print(f"{runs:>11} {each:>7}  {name:<9} {told:>6.3f}{'' if holds else '  MISSED'}")
            yield holds


if __name__ == "__main__":
    sys.exit(main())
