"""Arrays in, `Estimate` or `Unmeasured` out; knows no agent.

Every number the product shows goes through here. Importing this package imports numpy and nothing
of scipy, which is loaded by the first function that needs one of its special functions.

Parameters that mean the same everywhere: `level`, the coverage of an interval, a share; `target`,
where "these cases" takes every row as independent; `unmeasured`, rows without a value, counted by
kind; `unit` of the values, and `unit_of_n`, what a row is.
"""

from __future__ import annotations

from stepscope.stats.comparison import (
    Comparison,
    compare_paired,
    compare_unpaired,
    detectable,
    holm,
    look_alpha,
    median_ratio,
    runs_needed,
    runs_to_tell,
)
from stepscope.stats.estimates import (
    mean,
    mean_share,
    proportion,
    quantile,
    rate,
    ratio,
    weighted_proportion,
)
from stepscope.stats.interrater import agreement, category_shares
from stepscope.stats.intervals import upper_limit
from stepscope.stats.joint import (
    MOST_DISAGREEMENT,
    Flip,
    JointTable,
    effective_count,
    joint_table,
    rank_correlation,
    rank_flips,
)
from stepscope.stats.passk import pass_at_k, pass_hat_k
from stepscope.stats.repeatability import sigma, tolerable
from stepscope.stats.sample import bootstrap_ratio, codes, count_losses, trials_per_task, worst_case

__all__ = [
    "MOST_DISAGREEMENT",
    "Comparison",
    "Flip",
    "JointTable",
    "agreement",
    "bootstrap_ratio",
    "category_shares",
    "codes",
    "compare_paired",
    "compare_unpaired",
    "count_losses",
    "detectable",
    "effective_count",
    "holm",
    "joint_table",
    "look_alpha",
    "mean",
    "mean_share",
    "median_ratio",
    "pass_at_k",
    "pass_hat_k",
    "proportion",
    "quantile",
    "rank_correlation",
    "rank_flips",
    "rate",
    "ratio",
    "runs_needed",
    "runs_to_tell",
    "sigma",
    "tolerable",
    "trials_per_task",
    "upper_limit",
    "weighted_proportion",
    "worst_case",
]
