"""How often is a judge said to have shifted that has not, and one that has?

`python -m bars.calibrate.drift [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: the change of
a label's share in fixed runs. Generator: a judge calls each run bad with a chance of its own (.1 or
.9, as noisy as one answer in ten; or Beta(2, 2), which is hardly a judge), asked `earlier` times
before and once now; a shift turns good answers bad, until the share of bad ones is higher by it.
Two labels, or three (some answers are *uncertain*). Bars: a shift is told in at most 5 % where
there is none; one of .30 in at least .8 at 40 runs, three earlier answers and a judge of .1 and .9.
Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import sqrt

import numpy as np

from stepscope.calibrate.drift import ALPHA, shift_test
from stepscope.model.records import DRIFT_REPEAT

REPLICATIONS, DRAWS = 4_000, 199


def replicate(
    rng: np.random.Generator, runs: int, earlier: int, *, steady: bool, three: bool, shift: float,
    again: int = 1,
) -> bool:  # fmt: skip
    """Return whether a shift is told that has stayed for so many occasions."""
    own = rng.choice([0.1, 0.9], runs, p=[0.7, 0.3]) if steady else rng.beta(2, 2, runs)
    bad = rng.random((runs, earlier + again)) < own[:, None]
    bad[:, earlier:] |= (rng.random(runs) < shift / (1 - own.mean()))[:, None]
    unsure = rng.random(bad.shape) < (0.1 if three else 0.0)
    answers = [
        {
            at if at < earlier else DRIFT_REPEAT + at: {
                "uncertain" if u else "bad" if b else "good": 1.0
            }
            for at, (b, u) in enumerate(row)
        }
        for row in (zip(x, y, strict=True) for x, y in zip(bad, unsure, strict=True))
    ]
    latest = DRIFT_REPEAT + earlier + again - 1
    return shift_test(answers, latest, rng, draws=DRAWS)[0] <= ALPHA


def rows(n: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of the table, and whether its bar holds."""
    grid = [
        (20, 1, True, False), (20, 3, True, False), (20, 3, False, True), (40, 1, True, True),
        (40, 3, True, False), (100, 3, True, False),
    ]  # fmt: skip
    for again in (1, 3, 8):
        rng = np.random.default_rng(0)
        told = np.mean([
            replicate(rng, 40, 3, steady=True, three=False, shift=0.3, again=again)
            for _ in range(n // 4)
        ])  # fmt: skip
        yield (
            f"  40       3  .1 or .9        2   0.30 {told:>6.3f}  since {again} occasions",
            bool(told >= 0.8 - 2.33 * sqrt(0.8 * 0.2 / (n // 4))),
        )
    for runs, earlier, steady, three in grid:
        for shift in (0.0, 0.15, 0.3):
            rng = np.random.default_rng(0)
            told = np.mean([
                replicate(rng, runs, earlier, steady=steady, three=three, shift=shift)
                for _ in range(n)
            ])  # fmt: skip
            holds = shift > 0 or told <= ALPHA + 2.33 * sqrt(ALPHA * (1 - ALPHA) / n)
            if (runs, earlier, three, shift) == (40, 3, False, 0.3):
                holds &= told >= 0.8 - 2.33 * sqrt(0.8 * 0.2 / n)
            judge = ".1 or .9" if steady else "Beta(2, 2)"
            yield (
                f"{runs:>4} {earlier:>7}  {judge:<10} {3 if three else 2:>6} {shift:>6.2f} "
                f"{told:>6.3f}",
                bool(holds),
            )


def main() -> int:
    """Run the bar; print its table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    print(f"{n:,} replications of each line, seed 0")
    print("runs earlier  judge      labels  shift   told")
    missed = 0
    for line, holds in rows(n):
        print(line + ("" if holds else "  MISSED"), flush=True)
        missed += not holds
    print("holds" if not missed else f"{missed} lines missed")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
