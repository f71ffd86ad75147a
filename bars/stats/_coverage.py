"""Samples with planted truth for the coverage bar: tasks drawn anew each time, trials within them.

Every sampler gives `replications` samples at once, shape (replications, tasks), and the true value
that an interval about *tasks like these* must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a grid: its row of the table, and the share of samples that count.

    Those that held the truth (coverage) or raised an alarm (false alarms).
    """

    method: str
    point: str
    share: float


def held(low: Floats, high: Floats, truth: float) -> float:
    """Share of intervals that hold the truth; a missing limit is an infinite one.

    Rounding at the twelfth digit does not decide.
    """
    return float(((low - 1e-12 <= truth) & (truth <= high + 1e-12)).mean())


def chances(
    rng: np.random.Generator, p: float, correlation: float, shape: tuple[int, int]
) -> Floats:
    """Each task's own chance of success: Beta with mean p, trials correlated by `correlation`."""
    if correlation == 0:
        return np.full(shape, p)
    spread = (1 - correlation) / correlation
    return rng.beta(p * spread, (1 - p) * spread, shape)


def trials(design: int | str, tasks: int) -> Floats:
    """Runs of each task: the same everywhere, or "uneven" from 1 to 8, "lopsided" from 1 to 20."""
    if isinstance(design, int):
        return np.full(tasks, float(design))
    most = {"uneven": 8.0, "lopsided": 20.0}[design]
    return np.maximum(1.0, np.round(np.geomspace(1.0, most, tasks)))


@dataclass(frozen=True, slots=True)
class Figures:
    """A family of figures a run: sums over each task's runs, and the mean of one run."""

    name: str
    mean: float
    task_spread: float
    run_spread: float
    kind: str

    def sums(self, rng: np.random.Generator, sizes: Floats, replications: int) -> Floats:
        """Sums of each task's runs, shape (replications, tasks)."""
        shape = (replications, len(sizes))
        if self.kind == "count":
            rate = rng.gamma(self.task_spread, self.mean / self.task_spread, shape)
            return rng.poisson(rate * sizes).astype(np.float64)
        if self.kind == "normal":
            own = self.mean + rng.normal(0.0, self.task_spread, shape)
            return own * sizes + rng.normal(0.0, self.run_spread, shape) * np.sqrt(sizes)
        total = np.zeros(shape)
        for run in range(int(sizes.max())):
            total += np.where(run < sizes, rng.lognormal(0.0, self.run_spread, shape), 0.0)
        return total * rng.lognormal(0.0, self.task_spread, shape)


def heavy() -> Figures:
    """Costs so skewed (skewness 12) that few tasks cannot show it: no method here covers."""
    return Figures("log-normal, sd 1 and 0.5", float(np.exp(0.625)), 1.0, 0.5, "lognormal")


def figures() -> Iterator[Figures]:
    """Counts with little and much spread between tasks, costs, and figures that are normal."""
    for mean in (0.05, 0.3, 2.0, 10.0):
        for shape in (0.5, 2.0, 20.0):
            yield Figures(f"counts of mean {mean:g}, gamma {shape:g}", mean, shape, 0.0, "count")
    for task, run in ((0.3, 0.3), (0.6, 0.4)):
        mean = float(np.exp((task**2 + run**2) / 2))
        yield Figures(f"log-normal, sd {task:g} and {run:g}", mean, task, run, "lognormal")
    for task, run in ((1.0, 1.0), (3.0, 1.0)):
        yield Figures(f"normal, sd {task:g} and {run:g}", 0.0, task, run, "normal")
