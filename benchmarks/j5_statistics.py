"""J5: the bootstrap of sufficient statistics, beside scipy's and a loop; estimates at full size.

10,000 runs, 2,000 resamples. Binary outcomes against `scipy.stats.bootstrap` (percentile; BCa is
shown), clusters against a loop that resamples tasks one draw at a time, in this process, in turn.
Kappa and alpha stand beside their peers' (`benchmarks.agreement_rows`).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy import stats as scipy_stats

from benchmarks import agreement_rows
from benchmarks.rounds import Row, Samples, table
from stepscope import stats
from stepscope.stats.sample import Floats, Ints, sum_by_cluster

RUNS = 10_000
TASKS = 2_500
DRAWS = 2_000
ROUNDS = 5
# A report over so many runs computes all its estimates within this time.
REPORT_RUNS = 600_000
REPORT_SECONDS = 2.5


def loop(values: Floats, clusters: Ints, rng: np.random.Generator) -> Floats:
    """Resample tasks as one writes it first: draw by draw, every run weighted by its task."""
    tasks = int(clusters.max()) + 1
    means = np.empty(DRAWS)
    for i in range(DRAWS):
        weights = np.bincount(rng.integers(0, tasks, tasks), minlength=tasks)[clusters]
        means[i] = (weights * values).sum() / weights.sum()
    return means


def report(passed: Floats, figures: Floats, tasks: list[str]) -> None:
    """Every estimate of the report vector over one set of runs."""
    clusters = stats.codes(tasks)
    stats.proportion(passed, clusters)
    successes, trials = stats.trials_per_task(passed, clusters)
    for k in (2, 3, 4):
        stats.pass_hat_k(successes, trials, k)
    stats.mean_share(passed, clusters)
    stats.rate(passed, clusters)
    stats.ratio(passed, np.ones(len(passed)), clusters)
    for _ in range(3):
        stats.quantile(figures, 0.5, clusters)
        stats.quantile(figures, 0.95, clusters)
    stats.joint_table(passed, passed, clusters)


def statistic(values: Floats, axis: int = -1) -> Floats:
    """Take the mean, as scipy calls it."""
    return np.asarray(values.mean(axis))


def competitors() -> dict[str, Callable[[], object]]:
    """What is timed, by name, on the same data."""
    rng = np.random.default_rng(0)
    passed = (rng.random(RUNS) < 0.42).astype(float)
    steps, tasks = rng.normal(24, 8, RUNS), np.arange(RUNS) % TASKS
    grouped = sum_by_cluster(steps, tasks)
    many = (rng.random(REPORT_RUNS) < 0.42).astype(float)
    figures = rng.integers(3, 60, REPORT_RUNS).astype(float)
    names = [f"task-{i}" for i in rng.integers(0, REPORT_RUNS // 4, REPORT_RUNS)]

    def scipy(method: Literal["percentile", "BCa"]) -> object:
        return scipy_stats.bootstrap(
            (passed,), statistic, n_resamples=DRAWS, method=method, batch=100, rng=rng
        )

    def quantiles(means: Floats) -> object:
        return np.quantile(means, [0.025, 0.975])

    ones = np.ones(RUNS)
    return {
        "binary": lambda: quantiles(stats.bootstrap_ratio(passed, ones, rng=rng, draws=DRAWS)),
        "percentile": lambda: scipy("percentile"),
        "bca": lambda: scipy("BCa"),
        "clusters": lambda: quantiles(
            stats.bootstrap_ratio(grouped.sums, grouped.sizes, rng=rng, draws=DRAWS)
        ),
        "loop": lambda: quantiles(loop(steps, tasks, rng)),
        "report": lambda: report(many, figures, names),
    }


def in_turn() -> dict[str, Samples]:
    """Run everybody in turn; seconds of each round, the first being warm-up."""
    seconds: dict[str, list[float]] = {}
    timed = competitors()
    for number in range(ROUNDS + 1):
        for name, work in timed.items():
            start = time.perf_counter()
            work()
            if number:
                seconds.setdefault(name, []).append(time.perf_counter() - start)
    return {name: Samples(tuple(values)) for name, values in seconds.items()}


def rows(found: dict[str, Samples]) -> list[Row]:
    """Compare with the limits; BCa has none."""

    def beside(work: str, ours: str, peer: str, limit: float) -> Row:
        return Row(
            work=work,
            ours=f"{1e3 * found[ours].median:.2f} ms",
            peer=f"{1e3 * found[peer].median:.0f} ms",
            reached=found[peer].median / found[ours].median,
            limit=limit,
            at_least=True,
            spread=f"{found[ours].spread:.0%}, peer {found[peer].spread:.0%}",
        )

    return [
        beside(f"{RUNS:,} outcomes against scipy percentile", "binary", "percentile", 100.0),
        beside(f"{RUNS:,} outcomes against scipy BCa", "binary", "bca", 100.0),
        beside(f"{TASKS:,} tasks against a loop", "clusters", "loop", 3.0),
        Row(
            work=f"every estimate of {REPORT_RUNS:,} runs",
            ours=f"{found['report'].median:.2f} s",
            peer="-",
            reached=found["report"].median,
            limit=REPORT_SECONDS,
            at_least=False,
            unit="s",
            spread=f"{found['report'].spread:.0%}",
        ),
    ]


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    answers, absent = agreement_rows.in_turn()
    found = [*rows(in_turn()), *agreement_rows.rows(answers)]
    print(table(found))
    for missing in absent:
        print(f"not compared: {missing.name} cannot be installed here: {missing.reason}")
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
