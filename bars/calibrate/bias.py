"""How often is a judge said to lean that does not, and one that does?

`python -m bars.calibrate.bias [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: the share of
answers against the agent with one thing changed, less that as usual, over tasks. Generator: a run
is bad with chance .3, and a judge of sensitivity and specificity .9 sees the run alike both times,
but a share `noise` of its answers, each time anew, is a coin of .3; a shift turns answers for the
agent against it. One run a task, or 4 runs a task whose judge errs alike. Bars: a judge that does
not lean is said to in <= alpha + .01; a shift of 15 points on 100 pairs is found in >= .8; the 95 %
interval holds the shift in >= .93; a shift of 5 points, the margin, is said to be less in <= alpha
+ .01. Beside them: how often a judge without shift is cleared. Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import sqrt

import numpy as np

from stepscope.calibrate.bias import ALPHA, decide_bias, shift_limits
from stepscope.stats.sample import Floats

REPLICATIONS = 4_000
BAD, RIGHT = 0.3, 0.9


def draw_pairs(
    rng: np.random.Generator, tasks: int, trials: int, noise: float, shift: float
) -> tuple[Floats, Floats]:
    """Return answers as usual and changed, task by task."""
    bad = rng.random((tasks, 1)) < BAD
    own = np.repeat(np.where(rng.random((tasks, 1)) < RIGHT, bad, ~bad), trials, axis=1)
    usual, changed = (
        np.where(rng.random(own.shape) < noise, rng.random(own.shape) < BAD, own) for _ in range(2)
    )
    # Of what speaks for the agent so much turns that the share rises by the shift.
    against = BAD * RIGHT + (1 - BAD) * (1 - RIGHT)
    good = 1 - (noise * BAD + (1 - noise) * against)
    turned = changed | (rng.random((tasks, 1)) < shift / good)
    return usual.ravel().astype(float), turned.ravel().astype(float)


def lines(n: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of the table, and whether its bars hold."""

    def most(found: float, bar: float) -> bool:
        return found <= bar + 2.33 * sqrt(bar * (1 - bar) / n)

    def least(found: float, bar: float) -> bool:
        return found >= bar - 2.33 * sqrt(bar * (1 - bar) / n)

    for tasks, trials in ((20, 1), (50, 1), (100, 1), (25, 4), (300, 1)):
        for noise in (0.0, 0.1, 0.3):
            for shift in (0.0, 0.05, 0.15):
                rng = np.random.default_rng(0)
                held = leans = cleared = 0
                for _ in range(n):
                    usual, changed = draw_pairs(rng, tasks, trials, noise, shift)
                    shifts = (changed - usual).reshape(tasks, trials).mean(axis=1)
                    _, low, high = shift_limits(shifts, 0.95)
                    held += low <= shift <= high
                    outcome = decide_bias(shifts, tasks * trials)[0].outcome
                    leans, cleared = leans + (outcome == "fail"), cleared + (outcome == "pass")
                holds = least(held / n, 0.93)
                holds &= shift > 0 or most(leans / n, ALPHA + 0.01)
                holds &= shift < 0.05 or most(cleared / n, ALPHA + 0.01)
                if (tasks, noise, shift) == (100, 0.1, 0.15):
                    holds &= least(leans / n, 0.8)
                yield (
                    f"{tasks:>5} {trials:>6} {noise:>6.2f} {shift:>6.2f}  {held / n:>6.3f} "
                    f"{leans / n:>6.3f} {cleared / n:>8.3f}",
                    holds,
                )


def main() -> int:
    """Run the bar; print its table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    print(f"{n:,} replications of each line, seed 0")
    print("tasks trials  noise  shift    held  leans  cleared")
    missed = 0
    for line, holds in lines(n):
        print(line + ("" if holds else "  MISSED"), flush=True)
        missed += not holds
    print("holds" if not missed else f"{missed} lines missed")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
