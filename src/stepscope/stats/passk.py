"""pass^k and pass@k: chances that all, or any, of k fresh trials of a task succeed.

Both are unbiased from c successes in n >= k trials of each task; the average over tasks gets
Wilson's interval at the effective size. The cluster bootstrap, prescribed first, covers .40 at its
worst, because a sample without any such task resamples to nothing else (docs/design/intervals.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.estimates import mean_share
from stepscope.stats.sample import Floats, as_column
from stepscope.values import Estimate, Unmeasured


def chance_all(successes: Floats, trials: Floats, k: int) -> Floats:
    """Share of the k-subsets of a task's trials that hold successes only: C(c, k) / C(n, k).

    Shapes are (...,); every task has at least k trials.

    >>> chance_all(np.array([3.0]), np.array([4.0]), 2).tolist()
    [0.5]
    """
    chance = np.ones_like(successes)
    for i in range(k):
        chance = chance * np.maximum(successes - i, 0.0) / (trials - i)
    return np.minimum(chance, 1.0)


def pass_hat_k(
    successes: npt.ArrayLike,
    trials: npt.ArrayLike,
    k: int,
    *,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
) -> Estimate | Unmeasured:
    """Chance that k trials of a task all succeed, averaged over tasks; `n` counts tasks.

    Successes and trials have shape (tasks,). Tasks with fewer than k trials, 1 or more, count as
    unmeasured ("insufficient_data"), and fewer than two others make the result so.

    Source: Yao et al. (2024), tau-bench, arXiv:2406.12045, section 5: C(c, k) / C(n, k).

    >>> pass_hat_k([4, 2, 0], [4, 4, 4], 2).value
    0.3888888888888889
    """
    return _mean_chance(successes, trials, k, level, unmeasured, turned=False)


def pass_at_k(
    successes: npt.ArrayLike,
    trials: npt.ArrayLike,
    k: int,
    *,
    level: float = 0.95,
    unmeasured: Mapping[str, int] | None = None,
) -> Estimate | Unmeasured:
    """Chance that at least one of k trials of a task succeeds; all else as `pass_hat_k`.

    Source: Chen et al. (2021), Evaluating LLMs trained on code, arXiv:2107.03374, equation 1: 1 -
    C(n - c, k) / C(n, k).

    >>> round(pass_at_k([1, 1], [4, 4], 2).value, 3)
    0.5
    """
    failures = np.asarray(trials, dtype=np.float64) - np.asarray(successes, dtype=np.float64)
    return _mean_chance(failures, trials, k, level, unmeasured, turned=True)


def _mean_chance(
    successes: npt.ArrayLike,
    trials: npt.ArrayLike,
    k: int,
    level: float,
    unmeasured: Mapping[str, int] | None,
    *,
    turned: bool,
) -> Estimate | Unmeasured:
    """Mean over the tasks that have k trials of `chance_all`; `turned`, of what is left to 1."""
    passed, tried = as_column(successes, "successes"), as_column(trials, "trials")
    if passed.shape != tried.shape:
        raise DataError(f"successes have shape {passed.shape}, trials {tried.shape}")
    if k < 1:
        raise DataError(f"k is {k}; expected 1 or more trials")
    if not (np.isfinite(passed).all() and np.isfinite(tried).all()):
        return Unmeasured("missing_input", "successes or trials are not finite")
    if (passed < 0).any() or (passed > tried).any():
        raise DataError("successes must lie between 0 and the trials of their task")
    enough = tried >= k
    lost = dict(unmeasured or {})
    if not enough.all():
        lost["insufficient_data"] = lost.get("insufficient_data", 0) + int((~enough).sum())
    chances = chance_all(passed[enough], tried[enough], k)
    chances = 1 - chances if turned else chances
    return mean_share(chances, level=level, unmeasured=lost, unit_of_n="tasks")
