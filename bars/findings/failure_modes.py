"""Failure modes: are planted ones found, are none found where there are none, at what power?

`python -m bars.findings.failure_modes [FLEETS [INVOCATIONS]]`, 200 and 1,000 unless given. Fleets
are those of `_broken_fleets`: 50 tasks x 4 trials, 5 modes of 6 to 10 % of the runs, evidence lost
in 10 %, 20 signatures that mean nothing, 40 % of the failures alone. Every fleet goes through a
store, as a report reads it. Seeds are the numbers of the fleets.

- Adjusted Rand index of the failed runs, by the cause that is planted and by the mode that each is
  counted under; a lone failure is a cluster of its own in the truth, and so is a failed run that is
  counted under no mode. Median over FLEETS: at least .8. Also of the planted modes alone, and with
  all that is in no mode as one cluster, beside what that gives where everything is known.
- Outcomes permuted within tasks, the whole again, 5 x FLEETS fleets: any mode that marks failure in
  at most 5 % (plus 2.33 standard errors of a rate of 5 %).
- Power: how often a planted mode is shown; at 100 x 4 and 6 %, at least .8.
- The gate `no_new_modes` on an agent that did not change, INVOCATIONS a design, up to three looks
  pooled: false alarms at most alpha + .01; beside it, how often one more mode fails it.
- Processor time at 100,000 runs: at most 5 s, and at most 6 times that at 20,000.
- The 200 airline runs print theirs, where they lie beside this clone.

Code 0: all hold; 3: one is missed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bars.findings._broken_fleets import (
    Design,
    Fleet,
    draw_agent,
    run_agent,
    shuffle_outcomes,
    store_fleet,
)
from stepscope.findings.modes import (
    ALPHA,
    FailureModes,
    adjust_modes,
    assign_runs,
    contrast_modes,
    find_modes,
    form_modes,
)
from stepscope.formats.tau_bench import FORMAT
from stepscope.gates.baseline import make_baseline
from stepscope.gates.decide import decide_gates
from stepscope.gates.looks import Looks
from stepscope.gates.settings import WorkflowPolicy, WorkflowTable, read_policy
from stepscope.model import Stream, Trajectory
from stepscope.report.rows import number_tasks
from stepscope.report.views.profile import describe_modes
from stepscope.score import score_runs
from stepscope.store import Store

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FLEETS, INVOCATIONS = 200, 1_000
AIRLINE = Path(__file__).resolve().parents[3] / "shared/data/taubench/airline/runs.json"
USUAL = Design()
# The design whose power is a bar, and others beside it.
LARGE = Design(tasks=100, rates=(0.06, 0.06))
POWERS = {
    "50 x 4, 6 to 10 %": USUAL,
    "50 x 4, 6 to 10 %, modes alike on all tasks": Design(spread=0.0),
    "100 x 4, 6 %": LARGE,
    "100 x 4, 6 %, modes alike on all tasks": LARGE._replace(spread=0.0),
    "100 x 4, 6 %, modes of few tasks": LARGE._replace(spread=1.2),
    "100 x 4, 10 %": LARGE._replace(rates=(0.10, 0.10)),
}
# Half of a planted mode and of what was found must be shared to be the same.
SAME = 0.5
SECONDS, TIMES = 5.0, 6.0


def slack(rate: float, replications: int) -> float:
    """Return a rate with what chance may add to it."""
    return rate + 2.33 * sqrt(rate * (1 - rate) / replications)


def rand_index(first: Ints, second: Ints) -> float:
    """Return the adjusted Rand index of two partitions of the same things.

    Source: Hubert and Arabie (1985), J. of Classification 2:193-218.

    >>> round(rand_index(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 2])), 4)
    0.5714
    """
    tables = np.unique(np.stack([first, second], axis=1), axis=0, return_counts=True)[1]
    pairs = [
        float((n * (n - 1) / 2).sum())
        for n in (tables, *(np.unique(x, return_counts=True)[1] for x in (first, second)))
    ]
    expected = pairs[1] * pairs[2] / (len(first) * (len(first) - 1) / 2)
    most = (pairs[1] + pairs[2]) / 2
    return 1.0 if most == expected else (pairs[0] - expected) / (most - expected)


def split(labels: Ints) -> Ints:
    """Return labels with each -1 as a cluster of its own."""
    return np.where(labels < 0, labels.max(initial=0) + 1 + np.arange(len(labels)), labels)


def read(fleet: Fleet) -> tuple[Store, Ints, Ints]:
    """Return a store of a fleet, the tasks of its runs, and their causes, in its order."""
    store = store_fleet([("made", fleet)])
    runs = store.runs()
    place = {name: at for at, name in enumerate(runs.name.tolist())}
    order = [place[f"made/{run.task}/{run.trial}"] for run in fleet.runs]
    cause = np.empty(len(order), np.int64)
    cause[order] = fleet.cause
    return store, number_tasks(runs), cause


def judge(fleet: Fleet) -> tuple[Bools, Ints, list[float | None]]:
    """Return which runs have which mode, what each failed run is counted under, and p by mode."""
    store, tasks, cause = read(fleet)
    with store:
        names, has = form_modes(store.signs(store.runs()), tasks)
    failed = cause >= 0
    contrasts = list(contrast_modes(has, tasks, np.ones(len(tasks), np.bool_), failed))
    of_run = assign_runs(has, contrasts, [False] * len(names), failed)
    return has, of_run, adjust_modes(contrasts)


def clusters(seed: int, design: Design = USUAL) -> tuple[float, ...]:
    """Return four indices of one fleet, and the shares of failures alone and in no mode.

    As the bar has it; of planted modes alone; with no mode as one cluster; and the last where all
    but what was lost is known.
    """
    fleet = draw(seed, design)
    _, of_run, _ = judge(fleet)
    _, _, cause = read(fleet)
    failed = cause >= 0
    truth, found = cause[failed], of_run[failed]
    planted = truth < fleet.modes
    known = np.where(planted, truth, -1)
    return (
        rand_index(truth, split(found)),
        rand_index(truth[planted], split(found)[planted]),
        rand_index(truth, found),
        rand_index(truth, known),
        float((~planted).mean()),
        float((found < 0).mean()),
    )


def draw(seed: int, design: Design) -> Fleet:
    """Draw the fleet of a seed."""
    rng = np.random.default_rng([17, seed])
    return run_agent(rng, draw_agent(rng, design))


def is_false_alarm(seed: int) -> bool:
    """Tell whether any mode of a fleet with permuted outcomes is said to mark failure."""
    rng = np.random.default_rng([18, seed])
    fleet = shuffle_outcomes(rng, run_agent(rng, draw_agent(rng, USUAL)))
    store, tasks, _ = read(fleet)
    with store:
        found = find_modes(store, store.runs(), tasks)
    assert isinstance(found, FailureModes)
    return found.n_shown > 0


def share_shown(seed: int, design: Design) -> float:
    """Return the share of the planted modes of a fleet that are shown to mark failure."""
    fleet = draw(seed, design)
    has, _, adjusted = judge(fleet)
    _, _, cause = read(fleet)
    shown = 0
    for mode in range(fleet.modes):
        struck = cause == mode
        same = [
            p is not None and p <= ALPHA
            for has_it, p in zip(has, adjusted, strict=True)
            if (has_it & struck).sum() >= SAME * (has_it | struck).sum()
        ]
        shown += any(same)
    return shown / fleet.modes


def gate_policy() -> WorkflowPolicy:
    """Return a policy of the one gate."""
    table = WorkflowTable(gates={"no_new_modes": {}}, baseline="b.json")
    return read_policy("made", table, where="bars")


def gate(seed: int, design: Design, looks: int, new: float = 0.0) -> int:
    """Return at which look the gate fails an agent, 0 where it never does.

    The agent did not change, but that another mode strikes a share `new` of its runs.
    """
    rng, policy = np.random.default_rng([19, seed]), gate_policy()
    agent = draw_agent(rng, design._replace(modes=design.modes + (new > 0)))
    before, now = agent, agent
    if new:
        last, chances = agent.modes - 1, agent.chances.copy()
        chances[:, last] *= new / chances[:, last].mean()
        now = agent._replace(chances=chances)
        chances = chances.copy()
        chances[:, last] = 0.0
        before = agent._replace(chances=chances)
    with store_fleet([("before", run_agent(rng, before))]) as store:
        baseline = make_baseline(store, policy)
    log = Looks()
    for look in range(1, looks + 1):
        with store_fleet([(f"look{look}", run_agent(rng, now))]) as store:
            found = decide_gates(
                store, [policy], baselines={"made": baseline}, commit="c", looks=log, apart=True
            )
        if found.gates[0].outcome == "fail":
            return look
    return 0


def seconds(runs: int) -> float:
    """Return the processor time that the modes of a fleet of so many runs take."""
    fleets = runs // (USUAL.tasks * USUAL.trials)
    with store_fleet([(f"v{seed}", draw(seed, USUAL)) for seed in range(fleets)]) as store:
        every = store.runs()
        tasks = number_tasks(every)
        store.column("outcome", every)
        start = time.process_time()
        find_modes(store, every, tasks)
        return time.process_time() - start


def airline() -> FailureModes | None:
    """Return the modes of the 200 airline runs; None where they are absent."""
    if not AIRLINE.is_file():
        return None
    with AIRLINE.open("rb") as file, Store.open(":memory:") as store:
        read_runs = FORMAT.read(Stream(file, AIRLINE.name))
        store.put(run for run in read_runs if isinstance(run, Trajectory))
        score_runs(store, workers=1)
        runs = store.runs()
        found = find_modes(store, runs, number_tasks(runs))
    assert isinstance(found, FailureModes)
    return found


def say(what: str, value: float, bar: float, *, most: bool = False) -> bool:
    """Print one line of a bar; return whether it holds."""
    holds = value <= bar if most else value >= bar
    sign = "<=" if most else ">="
    print(
        f"{what:<66}{value:>8.4f}  {sign} {bar:.4g}  {'holds' if holds else 'MISSED'}", flush=True
    )
    return holds


def main(fleets: int = FLEETS, invocations: int = INVOCATIONS) -> int:
    """Run the bar; print its figures."""
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    held = []
    with ProcessPoolExecutor(workers) as pool:

        def every(make: Callable[[int], object], n: int) -> np.ndarray:
            return np.array(list(pool.map(make, range(n), chunksize=max(1, n // 64))))

        found = every(clusters, fleets)
        ours, planted, one, known, alone, none = np.median(found, axis=0)
        print(f"{fleets} fleets of 50 tasks x 4; failures alone {alone:.2f}, in no mode {none:.2f}")
        held.append(say("adjusted Rand index, median", ours, 0.8))
        low, high = np.quantile(found[:, 0], (0.05, 0.95))
        print(
            f"  5 and 95 % of the fleets: {low:.2f}, {high:.2f}; planted modes alone: {planted:.2f}"
        )
        print(f"  no mode as one cluster: {one:.2f}, where all is known {known:.2f}\n")
        null = every(is_false_alarm, 5 * fleets)
        said = f"any mode marks failure, outcomes permuted, {5 * fleets} fleets"
        held.append(say(said, float(null.mean()), slack(ALPHA, 5 * fleets), most=True))
        print("\nplanted modes that are shown to mark failure")
        for name, design in POWERS.items():
            share = float(every(partial(share_shown, design=design), fleets).mean())
            if design is LARGE:
                held.append(say(f"  {name}", share, 0.8))
            else:
                print(f"  {name:<64}{share:>8.4f}")
        print("\nno_new_modes on an agent that did not change, up to three looks pooled")
        for design in (USUAL, USUAL._replace(trials=1), USUAL._replace(tasks=20)):
            at = every(partial(gate, design=design, looks=3), invocations)
            size = f"  {design.tasks} cases x {design.trials}, {len(at):,} invocations"
            bar = slack(ALPHA + 0.01, len(at))
            held.append(say(size, float((at > 0).mean()), bar, most=True))
        print("\nno_new_modes on one more mode in the runs under test, first look: fails")
        for tasks, trials in ((50, 1), (50, 4), (100, 4)):
            design = USUAL._replace(tasks=tasks, trials=trials)
            shares = [
                float((every(partial(gate, design=design, looks=1, new=new), fleets) > 0).mean())
                for new in (0.05, 0.10, 0.20)
            ]
            print(f"  {tasks} cases x {trials}: " + ", ".join(
                f"{100 * new:g} % of the runs {share:.2f}"
                for new, share in zip((0.05, 0.10, 0.20), shares, strict=True)
            ))  # fmt: skip
    few, many = seconds(20_000), seconds(100_000)
    print()
    held.append(say("processor time at 100,000 runs, s", many, SECONDS, most=True))
    held.append(say("  by that at 20,000", many / few, TIMES, most=True))
    real = airline()
    if real is not None:
        print("\nthe 200 airline runs")
        show(real)
    return 0 if all(held) else 3


def show(found: FailureModes) -> None:
    """Print the modes of real runs, with what is shown of them."""
    for line in describe_modes(found):
        print(f"  {line}")
    for mode in found.modes:
        print(f"  {mode.failed:>3} of {mode.runs:<3} {mode.verdict:<14} {mode.name}")


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
