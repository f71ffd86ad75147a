"""Is the drop, or ratio, that a passing gate prints seen in 80 % of repetitions, as it says?

`python -m bars.gates.gate_power [REPLICATIONS]`, 1,000 a row unless given. Estimand: how often one
gate at a first look fails an agent that is worse than that of the baseline by the very drop, or
ratio, which the gate printed when it passed runs of the same agent. Each replication draws an agent
(pass rates of cases from a beta distribution, lengths log-normal), its baseline, runs that the gate
passes, and runs of the worse agent against the same baseline. Beside drops, without a limit: how
often that drop is seen which a normal mean with the spread of these runs would have printed. Seeds
0 and up. Code 0: the share of drops is .80 within .10 in every row and within .03 on average, that
of ratios within .15; 3: it is not.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from math import sqrt
from statistics import NormalDist

import numpy as np

from bars.gates.gate_errors import Agent, gates, runs, side
from bars.stats._coverage import chances
from stepscope.gates import against_baseline
from stepscope.gates.decide import ALPHA, answer_gates
from stepscope.gates.rates import GateTest
from stepscope.gates.sample import Arm
from stepscope.gates.types import GateAnswer
from stepscope.stats import look_alpha
from stepscope.stats.comparison import Comparison

REPLICATIONS = 1_000
DESIGNS = ((20, 1), (50, 1), (100, 1), (20, 4), (50, 4))
AGENTS = ((0.7, 0.2), (0.7, 0.5), (0.7, 0.8), (0.9, 0.5))
PROMISED, ROW, MEAN, LENGTHS = 0.80, 0.10, 0.03, 0.15
ALONE = look_alpha(1, ALPHA)
LONGER = "step_efficiency"


def outcome(asked: GateTest | GateAnswer) -> str:
    """Return the answer of one gate that is alone."""
    return answer_gates([asked], 1, ALPHA)[0][0][0].outcome


def normal_drop(now: Arm, before: Arm, margin: float) -> float:
    """Return the drop that the spread of differences says for a normal mean."""
    found = against_baseline.compare_bad_runs(now, before, seed=0)
    assert isinstance(found, Comparison)
    error = (found.sd or 0.0) / sqrt(found.n)
    z, power = NormalDist().inv_cdf(1 - ALONE), NormalDist().inv_cdf(PROMISED)
    return max((z + power) * error, margin + power * error)


def drops(
    design: tuple[int, int], kind: tuple[float, float], margin: float, n: int
) -> tuple[float, float, float, int]:
    """Return the mean drop printed, how often it is seen, how often the normal one, of how many."""
    gate = gates({"outcome": {"max_drop": margin}})["outcome"]
    printed: list[float] = []
    seen: list[bool] = []
    normal: list[bool] = []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        passes = chances(rng, *kind, (1, design[0]))[0]
        place = np.repeat(np.arange(design[0]), design[1])

        def run(worse: float, rng=rng, passes=passes, place=place) -> Arm:  # type: ignore[no-untyped-def]
            rate = passes[place] * (1 - min(worse / passes.mean(), 1.0))
            return side(place, rng.random(len(place)) >= rate)

        before, now = run(0.0), run(0.0)
        asked = against_baseline.build_drop_test(gate, now, before, seed=0)
        if not isinstance(asked, GateTest) or outcome(asked) != "pass" or asked.power is None:
            continue
        drop = asked.power(ALONE)[1]
        for found, size in ((seen, drop), (normal, normal_drop(now, before, margin))):
            if size is not None:
                again = against_baseline.build_drop_test(gate, run(size), before, seed=0)
                found.append(outcome(again) == "fail")
        printed += [] if drop is None else [drop]
    return float(np.mean(printed)), float(np.mean(seen)), float(np.mean(normal)), len(seen)


def ratios(design: tuple[int, int], n: int) -> tuple[float, float, int]:
    """Return the mean ratio that is printed, how often it is seen, and of how many."""
    gate = gates({LONGER: {"max_ratio_to_baseline_median": 1.0}})[LONGER]
    printed, seen = [], []
    for seed in range(n):
        rng = np.random.default_rng(seed)
        steps = rng.lognormal(3.0, 0.5, design[0])
        flat = np.full(design[0], 0.5)
        arms = [runs(rng, Agent(flat, flat, flat, steps), design[1])[LONGER] for _ in range(2)]
        asked = against_baseline.build_ratio_test(gate, arms[1], arms[0], seed=0)
        ratio = asked.power(ALONE)[1] if isinstance(asked, GateTest) and asked.power else None
        if ratio is None or outcome(asked) != "pass":
            continue
        slow = runs(rng, Agent(flat, flat, flat, ratio * steps), design[1])[LONGER]
        again = against_baseline.build_ratio_test(gate, slow, arms[0], seed=0)
        printed.append(ratio)
        seen.append(outcome(again) == "fail")
    return float(np.mean(printed)), float(np.mean(seen)), len(seen)


def main(replications: int = REPLICATIONS) -> int:
    """Run the bar."""
    print(f"{replications:,} replications a row, alpha of a first look {ALONE:g}\n")
    rows = [*product(DESIGNS, AGENTS, (0.0,)), *product(DESIGNS[-2:], AGENTS[1:2], (0.1,))]
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    shares, longer = [], []
    with ProcessPoolExecutor(workers) as pool:
        jobs = [pool.submit(drops, d, kind, margin, replications) for d, kind, margin in rows]
        lengths = [pool.submit(ratios, design, replications) for design in DESIGNS]
        print(
            "cases  trials  pass rate  alike  margin    n  drop printed  seen  seen by the normal"
        )
        for (design, kind, margin), job in zip(rows, jobs, strict=True):
            drop, seen, normal, n = job.result()
            shares.append(seen)
            print(
                f"{design[0]:>5}{design[1]:>8}{kind[0]:>11g}{kind[1]:>7g}{margin:>8g}{n:>5}"
                f"{drop:>14.3f}{seen:>6.2f}{normal:>20.2f}",
                flush=True,
            )
        print("\ncases  trials    n  ratio printed  seen")
        for design, pair in zip(DESIGNS, lengths, strict=True):
            ratio, seen, n = pair.result()
            longer.append(seen)
            print(f"{design[0]:>5}{design[1]:>8}{n:>5}{ratio:>15.2f}{seen:>6.2f}", flush=True)
    off, mean = np.abs(np.array(shares) - PROMISED).max(), float(np.mean(shares))
    far = np.abs(np.array(longer) - PROMISED).max()
    holds = off <= ROW and abs(mean - PROMISED) <= MEAN and far <= LENGTHS
    print(
        f"\ndrops: mean {mean:.3f}, farthest row {off:.3f} off; ratios: farthest {far:.3f} off; "
        f"{PROMISED:g} within {MEAN:g}, {ROW:g} and {LENGTHS:g}: {'holds' if holds else 'MISSED'}"
    )
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REPLICATIONS))
