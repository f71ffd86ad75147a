"""How often do gates cry wolf on an agent that did not change, and what would they have seen?

`python -m bars.gates.gate_errors [INVOCATIONS]`, 10,000 unless given. Each invocation gates the
runs of an agent identical to that of the baseline by five gates at once, then twice again with
reruns pooled: two drops and a length with no margin, a proof whose true rate is the threshold, and
a count on a judge that errs, as a hundred labelled good runs say, drawn anew. Then the power table
of docs/explanation/gates.md. Code 0: the upper limit of the family-wise false-alarm rate is at most
alpha + .01; 3: it is not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from bars.stats._coverage import chances
from stepscope import stats
from stepscope.gates import against_baseline, rates
from stepscope.gates.decide import ALPHA, answer_gates
from stepscope.gates.judged import FalseAlarms
from stepscope.gates.sample import Arm
from stepscope.gates.settings import GatePolicy, WorkflowTable, read_policy
from stepscope.gates.types import GateAnswer
from stepscope.values import Estimate

INVOCATIONS = 10_000
POWER_INVOCATIONS = 1_000
LOOKS = 3
# Cases and trials of each side; trials of a case are alike by RHO.
DESIGNS = ((20, 1), (50, 1), (20, 4))
PASSES, BREACHES, RHO = 0.7, 0.1, 0.5
JUDGE_ERRS, LABELLED = 0.05, 100
CHUNK = 250

Floats = npt.NDArray[np.float64]

GATES = {
    "outcome": {"max_drop": 0.0},
    "axes.sequencing": {"max_drop": 0.0},
    "step_efficiency": {"max_ratio_to_baseline_median": 1.0},
    "policy": {"max_rate": BREACHES},
    "axes.argument_validity": {"max_rate": 0.0, "source": "axes"},
}


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent by its chances: how often each case passes and is in breach, how long it takes."""

    passes: Floats
    sequence: Floats
    breaches: Floats
    steps: Floats


def gates(written: dict[str, dict[str, object]] | None = None) -> dict[str, GatePolicy]:
    """Return the gates of the simulated policy by name."""
    table = msgspec.convert(
        {"gates": GATES if written is None else written, "baseline": "b.json"}, WorkflowTable
    )
    return {gate.name: gate for gate in read_policy("simulated", table, where="bars").gates}


def agent(rng: np.random.Generator, cases: int) -> Agent:
    """Draw an agent: its chances differ from case to case."""
    return Agent(
        chances(rng, PASSES, RHO, (1, cases))[0],
        chances(rng, 0.85, RHO, (1, cases))[0],
        chances(rng, BREACHES, RHO, (1, cases))[0],
        rng.lognormal(3.0, 0.5, cases),
    )


def runs(rng: np.random.Generator, who: Agent, trials: int) -> dict[str, Arm]:
    """Run an agent `trials` times on each case: what each gate sees."""
    cases = np.repeat(np.arange(len(who.passes)), trials)
    n = len(cases)
    return {
        "outcome": side(cases, rng.random(n) >= who.passes[cases]),
        "axes.sequencing": side(cases, rng.random(n) >= who.sequence[cases]),
        "step_efficiency": side(cases, np.round(who.steps[cases] * rng.lognormal(0, 0.3, n))),
        "policy": side(cases, rng.random(n) < who.breaches[cases]),
        "axes.argument_validity": side(cases, rng.random(n) < JUDGE_ERRS),
    }


def side(cases: npt.NDArray[np.int64], top: npt.NDArray[np.generic]) -> Arm:
    n = len(cases)
    labels = cases.astype(np.object_)
    return Arm(
        at=np.arange(n),
        cases=labels,
        top=top.astype(np.float64),
        size=np.ones(n),
        lost=np.zeros(n, dtype=np.bool_),
        unmeasured={},
    )


def pooled(first: Arm, second: Arm) -> Arm:
    """Return the runs of two looks together."""
    return side(
        np.concatenate([first.cases, second.cases]).astype(np.int64),
        np.concatenate([first.top, second.top]),
    )


def failed(
    asked: dict[str, GatePolicy],
    now: dict[str, Arm],
    before: dict[str, Arm],
    look: int,
    flagged: int = 0,
) -> bool:
    """Tell whether any gate of one look fails; asked and answered as `decide` does it."""
    found = []
    for name, gate in asked.items():
        if gate.about == "rate":
            known = FalseAlarms(flagged, LABELLED, "labels") if gate.rule == "count" else None
            found.append(rates.evaluate_rate(gate, now[name], known))
        elif gate.about == "drop":
            found.append(against_baseline.build_drop_test(gate, now[name], before[name], seed=look))
        else:
            found.append(
                against_baseline.build_ratio_test(gate, now[name], before[name], seed=look)
            )
    tested = (one.p / one.weight for one in found if not isinstance(one, GateAnswer))
    if min(tested, default=1.0) > ALPHA:
        # No adjusted p is smaller than the smallest p: nothing can fail, and why is not asked.
        return any(isinstance(one, GateAnswer) and one.outcome == "fail" for one in found)
    return any(answer.outcome == "fail" for answer, _, _ in answer_gates(found, look, ALPHA)[0])


def alarms(design: tuple[int, int], n: int, seed: int) -> list[int]:
    """Return, of `n` invocations on an unchanged agent, the look at which the first alarm came.

    0 where none of the looks raised one.
    """
    rng = np.random.default_rng(seed)
    asked, first = gates(), []
    for _ in range(n):
        who = agent(rng, design[0])
        before, now = runs(rng, who, design[1]), runs(rng, who, design[1])
        flagged = int(rng.binomial(LABELLED, JUDGE_ERRS))
        at = 0
        for look in range(1, LOOKS + 1):
            if look > 1:
                again = runs(rng, who, design[1])
                now = {name: pooled(side, again[name]) for name, side in now.items()}
            if failed(asked, now, before, look, flagged):
                at = look
                break
        first.append(at)
    return first


def seen(drop: float, design: tuple[int, int], margin: float, n: int, seed: int) -> float:
    """Return how often one outcome gate fails an agent that passes `drop` less often."""
    rng = np.random.default_rng(seed)
    asked = gates({"outcome": {"max_drop": margin}})
    found = 0
    for _ in range(n):
        who = agent(rng, design[0])
        worse = Agent(who.passes * (1 - drop / PASSES), who.sequence, who.breaches, who.steps)
        before, now = runs(rng, who, design[1]), runs(rng, worse, design[1])
        found += failed(asked, now, before, 1)
    return found / n


def power(n: int, pool: ProcessPoolExecutor) -> Iterator[str]:
    """Yield the lines of the power table."""
    yield f"| true drop | cases | trials | margin 0 | margin {ALPHA:g} |"
    yield "|---|---|---|---|---|"
    grid = [(d, c, t) for d in (0.05, 0.10, 0.20) for c in (20, 50, 100) for t in (1, 4)]
    jobs = [
        [pool.submit(seen, drop, (cases, trials), margin, n, 7) for margin in (0.0, 0.05)]
        for drop, cases, trials in grid
    ]
    for (drop, cases, trials), both in zip(grid, jobs, strict=True):
        shares = " | ".join(f"{job.result():.0%}" for job in both)
        yield f"| {100 * drop:g} points | {cases} | {trials} | {shares} |"


def main(invocations: int = INVOCATIONS, power_invocations: int = POWER_INVOCATIONS) -> int:
    """Run the bar; print the false alarms, then the power table."""
    print(
        f"unchanged agent, {len(GATES)} gates, up to {LOOKS} looks pooled, alpha {ALPHA}, seed 0\n"
    )
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    with ProcessPoolExecutor(workers) as pool:
        chunks = max(1, -(-invocations // CHUNK))
        sizes = [len(part) for part in np.array_split(np.arange(invocations), chunks)]
        jobs = [
            (DESIGNS[k % len(DESIGNS)], pool.submit(alarms, DESIGNS[k % len(DESIGNS)], size, k))
            for k, size in enumerate(sizes)
        ]
        counts: dict[tuple[int, int], list[int]] = {design: [] for design in DESIGNS}
        for design, job in jobs:
            counts[design] += job.result()
        print("cases  trials  invocations  " + "".join(f"look {k}  " for k in range(1, LOOKS + 1)))
        for (cases, trials), first in counts.items():
            shares = [
                f"{np.mean([0 < at <= k for at in first]):.4f}  " for k in range(1, LOOKS + 1)
            ]
            print(f"{cases:>5}{trials:>8}{len(first):>13,}  {''.join(shares)}")
        every = [at > 0 for first in counts.values() for at in first]
        share = stats.proportion(every, target="these cases")
        assert isinstance(share, Estimate)
        holds = share.high is not None and share.high <= ALPHA + 0.01
        print(
            f"\nfalse alarms in {share.value:.4f} [{share.low:.4f}, {share.high:.4f}] of "
            f"{share.n:,} invocations; upper limit must be <= {ALPHA + 0.01:g}: "
            f"{'holds' if holds else 'MISSED'}\n"
        )
        print(f"power of one outcome gate at the first look, pass rate {PASSES:g}, trials alike by")
        print(f"{RHO:g}, {power_invocations:,} invocations a row\n")
        for line in power(power_invocations, pool):
            print(line, flush=True)
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else INVOCATIONS))
