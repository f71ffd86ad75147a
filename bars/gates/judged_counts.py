"""Does a count gate on a judge pass good agents, and fail those in whose runs faults are planted?

`python -m bars.gates.judged_counts [REPLICATIONS]`, 4,000 unless given. Estimand: the share of
invocations of one gate, `no_detours = { max_per_run = 0, source = "step_labels" }`, at a first
look. Each replication draws anew what the judge calls bad among 100 runs that people called good,
and among 50 runs under test. The judge calls a good run bad with chance .05. Seeds 0 and up.
Code 0: it passes where nothing is planted in >= 95 %, and fails where 10 of 50 runs hold a detour
that the judge sees with chance .8 in >= 85 %; and where the judge makes no error it always fails,
by its known false alarms and against a baseline of 50 runs without any. 3: it does not.
"""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt

from bars.gates import gate_errors
from stepscope.gates import against_baseline, rates
from stepscope.gates.decide import ALPHA, answer_gates
from stepscope.gates.judged import FalseAlarms
from stepscope.gates.sample import Arm
from stepscope.gates.settings import GatePolicy

REPLICATIONS = 4_000
RUNS, LABELLED, PLANTED = 50, 100, 10
FALSE_ALARMS, SENSITIVITY = 0.05, 0.8
# Observed shares may fall short by so many standard errors.
SLACK = 2.33


def gate(**more: object) -> GatePolicy:
    """Return the gate."""
    written = {"max_per_run": 0, "source": "step_labels"}
    return gate_errors.gates({"no_detours": {**written, **more}})["no_detours"]


def arm(bad: npt.NDArray[np.bool_]) -> Arm:
    """Return runs of one case each."""
    return gate_errors.side(np.arange(len(bad)), bad)


def fails(bad: npt.NDArray[np.bool_], flagged: int, good: int = LABELLED) -> bool:
    """Tell whether the gate fails; `flagged` of the good runs are called bad."""
    asked = rates.evaluate_rate(gate(), arm(bad), FalseAlarms(flagged, good, "labels"))
    return answer_gates([asked], 1, ALPHA)[0][0][0].outcome == "fail"


def fails_against_baseline(bad: npt.NDArray[np.bool_]) -> bool:
    """Tell whether the gate fails against as many runs without any detour."""
    before = arm(np.zeros(len(bad), np.bool_))
    asked = against_baseline.build_drop_test(gate(max_drop=0.0), arm(bad), before, seed=0)
    return answer_gates([asked], 1, ALPHA)[0][0][0].outcome == "fail"


def judge(rng: np.random.Generator, planted: int, alarms: float, sees: float) -> tuple[
    npt.NDArray[np.bool_], int
]:  # fmt: skip
    """Return which runs the judge calls bad, and how many of the labelled good ones."""
    holds = rng.permutation(np.arange(RUNS) < planted)
    bad = rng.random(RUNS) < np.where(holds, sees + (1 - sees) * alarms, alarms)
    return bad, int(rng.binomial(LABELLED, alarms))


def measure(replications: int) -> dict[str, tuple[float, float]]:
    """Return by what is asked the share that is right, and the share that must be."""
    found: dict[str, list[bool]] = {}
    for seed in range(replications):
        rng = np.random.default_rng(seed)
        right = found.setdefault("nothing planted: passes", [])
        right.append(not fails(*judge(rng, 0, FALSE_ALARMS, SENSITIVITY)))
        right = found.setdefault(f"{PLANTED} of {RUNS} planted: fails", [])
        right.append(fails(*judge(rng, PLANTED, FALSE_ALARMS, SENSITIVITY)))
        bad, flagged = judge(rng, PLANTED, 0.0, 1.0)
        found.setdefault("a judge without errors: fails", []).append(fails(bad, flagged))
        right = found.setdefault("the same, against a baseline: fails", [])
        right.append(fails_against_baseline(bad))
    least = (0.95, 0.85, 1.0, 1.0)
    return {
        name: (float(np.mean(right)), share)
        for (name, right), share in zip(found.items(), least, strict=True)
    }


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar."""
    print(
        f"{replications:,} replications, {RUNS} runs, {LABELLED} labelled good runs redrawn, false "
        f"alarms {FALSE_ALARMS:g} a run, sensitivity {SENSITIVITY:g}, alpha {ALPHA:g}, first look\n"
    )
    holds = True
    for name, (share, least) in measure(replications).items():
        kept = share >= least - SLACK * np.sqrt(least * (1 - least) / replications)
        holds = holds and bool(kept)
        print(f"{name:<38}{share:8.4f}  >= {least:g}: {'holds' if kept else 'MISSED'}")
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
