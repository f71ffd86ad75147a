"""How often is a rubric told to be sharpened, or let through, that is neither? Kappa of just .5.

`python -m bars.stats.agreement_decisions [REPLICATIONS]`, 4,000 unless given. Two raters judge five
rubrics on the same runs; the kappa of each is .5, so that any decision but undecided is an error.
The bar: some rubric is decided in at most 5 % + 1 of the replications (calibration of anything
that decides), whatever the number of runs and however rare the faults are; and a kappa of .85 is
let through, one of .1 stopped, in most replications of 100 runs. Code 0: all hold; 3: one missed.
"""

from __future__ import annotations

import sys
from itertools import product

import numpy as np
import numpy.typing as npt

from stepscope.calibrate.agreement import decide_rubric
from stepscope.calibrate.ratings import RaterVerdicts, RatingTable, rating_table
from stepscope.model import Answer, Verdict
from stepscope.stats.interrater import SharedWeights

REPLICATIONS = 4_000
RUNS = (20, 50, 200)
FAULTS = (0.15, 0.3, 0.5)
RUBRICS = 5
MOST_WRONG = 0.06
LEAST_RIGHT = 0.9
LABELS = ("incorrect", "correct")


def rated(kappa: float, fault: float, runs: int, rng: np.random.Generator) -> RatingTable:
    """Return two raters who agree so far: each says what the other says, or answers by habit."""
    same = rng.random(runs) < kappa
    first = rng.random(runs) < fault
    second = np.where(same, first, rng.random(runs) < fault)
    voices = tuple(_voice(name, said) for name, said in (("a", first), ("b", second)))
    return rating_table("axes.termination", "runs", voices, {})


def _voice(name: str, said: npt.NDArray[np.bool_]) -> RaterVerdicts:
    answers: dict[tuple[str, int | None], Answer] = {
        (f"r{n}", None): Verdict("judge.axes.termination", label=LABELS[0 if bad else 1])
        for n, bad in enumerate(said.tolist())
    }
    return RaterVerdicts(name=name, family=name, said=answers, version="1", before=("", {}))


def outcomes(
    kappa: float, fault: float, runs: int, *, rubrics: int, rng: np.random.Generator
) -> list[str]:
    """Return what is decided of each of some rubrics."""
    return [
        decide_rubric(
            rated(kappa, fault, runs, rng),
            SharedWeights(np.random.default_rng(0)),
            at_once=rubrics,
        )[0].outcome
        for _ in range(rubrics)
    ]


def wrong(fault: float, runs: int, replications: int, rng: np.random.Generator) -> float:
    """Return how often any of five rubrics of kappa .5 is decided."""
    decided = 0
    for _ in range(replications):
        found = outcomes(0.5, fault, runs, rubrics=RUBRICS, rng=rng)
        decided += set(found) != {"undecided"}
    return decided / replications


def main() -> int:
    """Print the table; return 0 when all holds."""
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS
    rng = np.random.default_rng(0)
    held = True
    for runs, fault in product(RUNS, FAULTS):
        share = wrong(fault, runs, replications, rng)
        held &= share <= MOST_WRONG
        print(f"{runs:4} runs, {fault:.0%} faults: decided {share:.3f} (bar {MOST_WRONG})")
    for kappa, outcome in ((0.85, "pass"), (0.1, "fail")):
        said = (outcomes(kappa, 0.3, 100, rubrics=1, rng=rng)[0] for _ in range(replications))
        right = [one == outcome for one in said]
        share = float(np.mean(right))
        held &= share >= LEAST_RIGHT
        print(f" 100 runs, kappa {kappa}: {outcome} {share:.3f} (bar {LEAST_RIGHT})")
    return 0 if held else 3


if __name__ == "__main__":
    sys.exit(main())
