"""Arrays in, `Estimate` or `Unmeasured` out; knows no agent.

Every number the product shows goes through here. Importing this package imports numpy and nothing
of scipy, which is loaded by the first function that needs one of its special functions.
"""

from __future__ import annotations

from stepscope.stats.bootstrap import resampled
from stepscope.stats.clusters import codes, trials_per_task
from stepscope.stats.comparison import Comparison, adjust, compare_paired
from stepscope.stats.flips import Flip, rank_flips
from stepscope.stats.interrater import agreement, usage
from stepscope.stats.joint import JointTable, TooLoose, effective_count, joint_table, too_loose
from stepscope.stats.means import mean, rate
from stepscope.stats.medians import median_ratio
from stepscope.stats.multiplicity import holm, look_alpha
from stepscope.stats.passk import pass_at_k, pass_hat_k
from stepscope.stats.power import detectable, runs_needed, runs_to_tell
from stepscope.stats.proportions import proportion, ratio, share
from stepscope.stats.quantiles import quantile
from stepscope.stats.rankings import rank_correlation
from stepscope.stats.repeatability import sigma, tolerable
from stepscope.stats.unpaired import compare_unpaired
from stepscope.stats.weighted import weighted_proportion
from stepscope.stats.worstcase import losses, worst_case

__all__ = [
    "Comparison",
    "Flip",
    "JointTable",
    "TooLoose",
    "adjust",
    "agreement",
    "codes",
    "compare_paired",
    "compare_unpaired",
    "detectable",
    "effective_count",
    "holm",
    "joint_table",
    "look_alpha",
    "losses",
    "mean",
    "median_ratio",
    "pass_at_k",
    "pass_hat_k",
    "proportion",
    "quantile",
    "rank_correlation",
    "rank_flips",
    "rate",
    "ratio",
    "resampled",
    "runs_needed",
    "runs_to_tell",
    "share",
    "sigma",
    "tolerable",
    "too_loose",
    "trials_per_task",
    "usage",
    "weighted_proportion",
    "worst_case",
]
