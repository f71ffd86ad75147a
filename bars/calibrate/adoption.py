"""How often is a worse judge adopted, or a good one refused, by somebody who looks all the time?

`python -m bars.calibrate.adoption [REPLICATIONS]`, 4,000 unless given, seed 0. Estimand: how much
less often the new judge is right, as the mean of tasks. Generator: labels on which one judge alone
is right come with a chance of `discordance`, one label a task, or four a task that repeat each
other with a chance of .5. Looked at every 10 tasks up to 1,500 (and once more by the product's own
function on every hundredth replication). Bars: adopted at any look where it is worse by the margin
of .05, and refused at any look where it is not worse by more, in at most 5 %; a judge as good is
adopted in at least .8 at the printed number of labels (discordance .15). Code 0: all hold; 3: one
is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import log, sqrt

import numpy as np
import numpy.typing as npt

from stepscope.calibrate.adopt import MARGIN, decide_adoption
from stepscope.stats.sequential import (
    ALPHA,
    betting_evidence,
    betting_limits,
    labels_to_adopt,
)
from stepscope.values import Estimate

REPLICATIONS, CHUNK = 4_000, 500
TASKS, LOOK, EVERY = 1_500, 10, 100
PLANNED = 0.15
Floats = npt.NDArray[np.float64]


def differences(
    rng: np.random.Generator, n: int, worse: float, discordance: float, labels: int
) -> Floats:
    """Mean differences of tasks, shape (n, TASKS): the new judge right, less the old one."""
    own = rng.random((n, TASKS, 1))
    drawn = np.where(rng.random((n, TASKS, labels)) < 0.5, own, rng.random((n, TASKS, labels)))
    drawn = own if labels == 1 else drawn
    up = (discordance - worse) / 2
    found = (drawn < up) - 1.0 * ((drawn >= up) & (drawn < discordance))
    return np.asarray(found.mean(axis=2), np.float64)


def decide(each: Floats) -> str:
    """Return what the product decides on one sequence, at its end."""
    low, high = betting_limits(each)
    one = Estimate(
        value=float(each.mean()), low=min(low, each.mean()), high=max(high, each.mean()),
        method="betting", n=len(each), n_tasks=len(each),
    )  # fmt: skip
    return decide_adoption(one, MARGIN).outcome


def simulate(
    n: int, worse: float, discordance: float, labels: int, at: int
) -> tuple[float, float, float, bool]:
    """Return shares adopted and refused at any look, adopted by look `at`; and whether all agree.

    All agree where the product's decision is that of the evidence.
    """
    rng = np.random.default_rng(0)
    adopted = refused = early = 0
    agree = True
    for begun in range(0, n, CHUNK):
        each = differences(rng, min(CHUNK, n - begun), worse, discordance, labels)
        looks = slice(LOOK - 1, None, LOOK)
        for_it = betting_evidence(each, -MARGIN) >= -log(ALPHA)
        against = betting_evidence(-each, MARGIN) >= -log(ALPHA)
        adopted += int(for_it[:, looks].any(axis=1).sum())
        refused += int(against[:, looks].any(axis=1).sum())
        early += int(for_it[:, at - 1].sum())
        for row in range(0, len(each), EVERY):
            said = {(True, False): "pass", (False, True): "fail", (False, False): "undecided"}
            agree &= decide(each[row]) == said[bool(for_it[row, -1]), bool(against[row, -1])]
    return adopted / n, refused / n, early / n, agree


def rows(n: int) -> Iterator[tuple[str, bool]]:
    """Yield each line of the table, and whether its bar holds."""
    _, watched = labels_to_adopt(PLANNED, MARGIN, rng=np.random.default_rng(0))
    at = watched or TASKS
    most = ALPHA + 2.33 * sqrt(ALPHA * (1 - ALPHA) / n)
    for discordance, labels in ((0.10, 1), (0.15, 1), (0.30, 1), (0.15, 4)):
        for worse in (0.05, 0.0, -0.02, 0.10):
            adopted, refused, early, agree = simulate(n, worse, discordance, labels, at)
            holds = agree
            holds &= worse < MARGIN or adopted <= most
            holds &= worse > MARGIN or refused <= most
            if worse == 0 and discordance == PLANNED and labels == 1:
                holds &= early >= 0.8 - 2.33 * sqrt(0.8 * 0.2 / n)
            yield (
                f"{discordance:>11.2f} {labels:>6} {worse:>6.2f} {adopted:>8.3f} {refused:>8.3f} "
                f"{early:>12.3f}",
                bool(holds),
            )
    yield f"printed: {labels_to_adopt(PLANNED, MARGIN, rng=np.random.default_rng(0))}", True


def main() -> int:
    """Run the bar; print its table."""
    n = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    print(f"{n:,} replications of each line, seed 0; looked at every {LOOK} of {TASKS:,} tasks")
    print("discordance labels  worse  adopted  refused  by the printed number")
    missed = 0
    for line, holds in rows(n):
        print(line + ("" if holds else "  MISSED"), flush=True)
        missed += not holds
    print("holds" if not missed else f"{missed} lines missed")
    return 3 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
