"""Rank flips: pairs of agents that the outcome orders one way and the trajectory grade the other.

An observed flip between two near-equal agents is noise; the probability of a true flip says how
often the two orders still disagree when tasks are resampled, jointly for both agents and grades.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.bootstrap import CACHED
from stepscope.stats.clusters import Floats
from stepscope.values import Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """Two agents under two grades, over the tasks where both have both.

    Attributes:
        first: one agent.
        second: the other.
        outcome_difference: mean outcome of the second minus the first, tasks counting the same.
        grade_difference: the same of the trajectory grade.
        flipped: the two differences have opposite signs.
        probability: share of resamples in which they do.
        n_tasks: tasks both agents have with both grades.
    """

    first: str
    second: str
    outcome_difference: float
    grade_difference: float
    flipped: bool
    probability: float
    n_tasks: int


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
        rng: draws the weights.
        draws: number of resamples.

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
    pair: tuple[str, str],
    outcome: Floats,
    grade: Floats,
    *,
    rng: np.random.Generator,
    draws: int,
) -> Flip | Unmeasured:
    both = np.isfinite(outcome) & np.isfinite(grade)
    tasks = int(both.sum())
    if tasks < 2:
        return Unmeasured(
            "insufficient_data", f"{pair[0]} and {pair[1]} share {tasks} tasks with both grades"
        )
    differences = np.stack([outcome[both], grade[both]], axis=1)
    chunk = max(1, CACHED // tasks)
    opposite = 0
    for start in range(0, draws, chunk):
        weights = rng.standard_exponential((min(chunk, draws - start), tasks))
        weighted = weights @ differences
        opposite += int((weighted[:, 0] * weighted[:, 1] < 0).sum())
    means = differences.mean(axis=0)
    return Flip(
        first=pair[0],
        second=pair[1],
        outcome_difference=float(means[0]),
        grade_difference=float(means[1]),
        flipped=bool(means[0] * means[1] < 0),
        probability=opposite / draws,
        n_tasks=tasks,
    )
