"""Orders of two scores of the same runs: rank flips, rank correlation.

A rank flip is a pair of agents that outcome and trajectory order differently; its probability says
how often that holds when tasks are resampled. A score that is the same throughout has no rank
correlation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats import sample
from stepscope.stats.sample import EstimateFrame, Floats
from stepscope.values import Estimate, Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Two agents under two grades, over the tasks where both have both."""

    first: str  # one agent
    second: str  # the other
    outcome_difference: float  # mean outcome of the second minus the first, tasks counting the same
    path_difference: float  # the same of the trajectory grade
    probability: float  # share of resamples in which the orders are opposite
    n_tasks: int  # tasks both agents have with both grades

    @property
    def flipped(self) -> bool:
        """Whether the two differences have opposite signs."""
        return self.outcome_difference * self.path_difference < 0


def rank_flips(
    agents: Sequence[str],
    outcome: npt.ArrayLike,
    grade: npt.ArrayLike,
    *,
    rng: np.random.Generator,
    draws: int = 2_000,
) -> tuple[Flip | Unmeasured, ...]:
    """Compare the order of every pair of agents under the two grades.

    Args:
        agents: names, one a row of the tables.
        outcome: shape (agents, tasks), mean outcome of each agent's trials of each task; NaN where
            it has none.
        grade: shape (agents, tasks), mean trajectory grade; NaN where there is none.

    Returns:
        One `Flip` a pair, in the order of `agents`; `Unmeasured` for a pair with fewer than two
        tasks in common.

    Raises:
        DataError: shapes differ, or a value is infinite.

    Source:
        Rubin (1981), The Bayesian Bootstrap, Annals of Statistics 9:130-134: weights Dirichlet(1)
        over tasks, so that the share of resamples is a posterior probability.

    >>> flip, = rank_flips(["a", "b"], [[1.0] * 9, [0.0] * 9], [[0.0] * 9, [1.0] * 9],
    ...     rng=np.random.default_rng(0))
    >>> flip.flipped, flip.probability
    (True, 1.0)
    """
    outcomes, grades = np.asarray(outcome, np.float64), np.asarray(grade, np.float64)
    if outcomes.shape != grades.shape or outcomes.ndim != 2 or len(outcomes) != len(agents):
        raise DataError(
            f"outcome has shape {outcomes.shape}, grade {grades.shape}; expected"
            f" ({len(agents)}, tasks) for both"
        )
    if np.isinf(outcomes).any() or np.isinf(grades).any():
        raise DataError("rank_flips takes finite grades, or NaN where there is none")
    return tuple(
        _flip(
            (agents[i], agents[j]),
            outcomes[j] - outcomes[i],
            grades[j] - grades[i],
            rng=rng,
            draws=draws,
        )
        for i, j in combinations(range(len(agents)), 2)
    )


def _flip(
    pair: tuple[str, str], outcome: Floats, grade: Floats, *, rng: np.random.Generator, draws: int
) -> Flip | Unmeasured:
    both = np.isfinite(outcome) & np.isfinite(grade)
    tasks = int(both.sum())
    if tasks < 2:
        return Unmeasured(
            "insufficient_data", f"{pair[0]} and {pair[1]} share {tasks} tasks with both grades"
        )
    differences = np.stack([outcome[both], grade[both]], axis=1)
    chunk = max(1, sample.CACHED // tasks)
    opposite = 0
    for start in range(0, draws, chunk):
        weighted = rng.standard_exponential((min(chunk, draws - start), tasks)) @ differences
        opposite += int((weighted[:, 0] * weighted[:, 1] < 0).sum())
    means = differences.mean(axis=0)
    return Flip(
        first=pair[0],
        second=pair[1],
        outcome_difference=float(means[0]),
        path_difference=float(means[1]),
        probability=opposite / draws,
        n_tasks=tasks,
    )


# Fewer items than this are ordered alike by chance too often to say anything.
FEWEST = 4
# Weights drawn at one time; of very many runs fewer draws, down to those that tell a spread.
MOST_WEIGHTS, FEWEST_DRAWS = 8_000_000, 200


def rank_correlation(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    draws: int = 2_000,
    unmeasured: Mapping[str, int] | None = None,
    unit_of_n: str = "steps",
) -> Estimate | Unmeasured:
    """Spearman's rank correlation, with the interval of a Bayesian bootstrap over clusters.

    Args:
        first: shape (n,), any unit.
        second: shape (n,), any unit, of the same items.
        clusters: shape (n,), the run of each item; None makes every item its own.

    Returns:
        The correlation of the ranks, ties sharing theirs, from -1 to 1. `Unmeasured` with fewer
        than four items, with one cluster, and ("undefined") where one side is constant.

    Raises:
        DataError: shapes differ.

    Source:
        Spearman (1904), Amer. J. Psychol. 15:72-101; the draws are taken on Fisher's scale, where
        their spread is widened from clusters to clusters - 1 and from z to t.

    >>> found = rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], rng=np.random.default_rng(0))
    >>> round(found.value, 3)
    0.8
    """
    a, b = sample.as_column(first, "first"), sample.as_column(second, "second")
    if a.shape != b.shape:
        raise DataError(f"first has shape {a.shape}, second {b.shape}; expected the same items")
    run = sample.cluster_index(clusters, len(a))
    runs = int(run.max(initial=-1)) + 1
    frame = EstimateFrame(
        level=level, unmeasured=unmeasured, unit="rank", unit_of_n=unit_of_n, n_tasks=runs
    )
    if (absent := sample.find_absence(a, frame) or sample.find_absence(b, frame)) is not None:
        return absent
    if len(a) < FEWEST or runs < 2:
        few = f"{len(a)} {unit_of_n} of {runs} runs; expected {FEWEST} of two runs or more"
        return Unmeasured("insufficient_data", few)
    ranks = np.stack([_ranks(a), _ranks(b)], axis=1)
    value = _pearson(np.ones((1, runs)), ranks, run)[0]
    if not np.isfinite(value):
        return Unmeasured("undefined", "one side gives every item the same score: no order")
    low, high = _limits(float(value), ranks, run, rng=rng, draws=draws, level=level)
    return sample.make_estimate(
        (float(value), low, high), method="bayesian bootstrap", n=len(a), frame=frame
    )


def _limits(
    value: float,
    ranks: Floats,
    run: npt.NDArray[np.int64],
    *,
    rng: np.random.Generator,
    draws: int,
    level: float,
) -> tuple[float | None, float | None]:
    from scipy.special import stdtrit

    if abs(value) >= 1 - 1e-12:
        return None, None
    runs = int(run.max()) + 1
    drawn = max(min(draws, MOST_WEIGHTS // runs), FEWEST_DRAWS)
    found = _pearson(rng.standard_gamma(1.0, (drawn, runs)), ranks, run)
    scaled = np.arctanh(np.clip(found[np.isfinite(found)], -1 + 1e-9, 1 - 1e-9))
    # Draws spread over C runs by C / (C + 1) of what they should.
    error = float(scaled.std()) * ((runs + 1) / (runs - 1)) ** 0.5
    reach = float(stdtrit(runs - 1, (1 + level) / 2)) * error
    centre = float(np.arctanh(value))
    return float(np.tanh(centre - reach)), float(np.tanh(centre + reach))


def _ranks(values: Floats) -> Floats:
    """Return midranks: those that are equal share the mean of their ranks."""
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray((below + np.searchsorted(ordered, values, side="right") + 1) / 2, np.float64)


def _pearson(weights: Floats, ranks: Floats, run: npt.NDArray[np.int64]) -> Floats:
    """Return the weighted correlation of ranks, one a row of weights, NaN where undefined."""
    x, y = (ranks - ranks.mean(axis=0)).T
    features = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
    sums = np.stack([np.bincount(run, weights=f) for f in features.T], axis=1)
    n, sx, sy, sxx, syy, sxy = (weights @ sums).T
    with np.errstate(all="ignore"):
        mx, my = sx / n, sy / n
        spread = (sxx / n - mx**2) * (syy / n - my**2)
        found = (sxy / n - mx * my) / np.sqrt(np.where(spread > 1e-12, spread, np.nan))
    return np.asarray(found)
