"""Arrays in, `Estimate` or `Unmeasured` out; knows no agent.

Every number the product shows goes through here. Importing this package imports numpy and nothing
of scipy, which is loaded by the first function that needs one of its special functions.

Parameters that mean the same everywhere: `clusters`, the task (or run) of each row, None where rows
are independent; `level`, the coverage of an interval, a share; `target`, where "these cases" takes
every row as independent; `unmeasured`, rows without a value, counted by kind; `unit` of the values,
and `unit_of_n`, what a row is; `rng`, what random draws come from, and `draws`, how many there are.

Results that mean the same everywhere: `Unmeasured` without values and with values that are not
finite; no limits with one cluster, nor of a mean or quantile whose values are all the same.
`DataError` where shapes differ and where a value is outside the range that a docstring states.
"""

from __future__ import annotations

from stepscope.stats.comparison import Comparison as Comparison
from stepscope.stats.comparison import compare_paired as compare_paired
from stepscope.stats.comparison import compare_parts as compare_parts
from stepscope.stats.comparison import compare_unpaired as compare_unpaired
from stepscope.stats.comparison import detectable as detectable
from stepscope.stats.comparison import drop_to_see as drop_to_see
from stepscope.stats.comparison import holm as holm
from stepscope.stats.comparison import look_alpha as look_alpha
from stepscope.stats.comparison import median_ratio as median_ratio
from stepscope.stats.comparison import power_apart as power_apart
from stepscope.stats.comparison import runs_needed as runs_needed
from stepscope.stats.comparison import runs_to_tell as runs_to_tell
from stepscope.stats.concordance import concordance as concordance
from stepscope.stats.concordance import pearson as pearson
from stepscope.stats.concordance import rank_correlation as rank_correlation
from stepscope.stats.corrected import HEADLINE_LABELS as HEADLINE_LABELS
from stepscope.stats.corrected import corrected_difference as corrected_difference
from stepscope.stats.corrected import corrected_mean as corrected_mean
from stepscope.stats.corrected import corrected_rate as corrected_rate
from stepscope.stats.corrected import explain_weakness as explain_weakness
from stepscope.stats.corrected import rogan_gladen as rogan_gladen
from stepscope.stats.effects import Effect as Effect
from stepscope.stats.effects import effect as effect
from stepscope.stats.estimates import MOST_DISAGREEMENT as MOST_DISAGREEMENT
from stepscope.stats.estimates import JointTable as JointTable
from stepscope.stats.estimates import effective_count as effective_count
from stepscope.stats.estimates import joint_table as joint_table
from stepscope.stats.estimates import mean as mean
from stepscope.stats.estimates import mean_share as mean_share
from stepscope.stats.estimates import pass_at_k as pass_at_k
from stepscope.stats.estimates import pass_hat_k as pass_hat_k
from stepscope.stats.estimates import proportion as proportion
from stepscope.stats.estimates import quantile as quantile
from stepscope.stats.estimates import rate as rate
from stepscope.stats.estimates import ratio as ratio
from stepscope.stats.estimates import weighted_proportion as weighted_proportion
from stepscope.stats.interrater import agreement as agreement
from stepscope.stats.interrater import category_shares as category_shares
from stepscope.stats.intervals import pooled_sd as pooled_sd
from stepscope.stats.intervals import upper_limit as upper_limit
from stepscope.stats.ranks import FigureRuns as FigureRuns
from stepscope.stats.ranks import rank_flips as rank_flips
from stepscope.stats.repeatability import sigma as sigma
from stepscope.stats.repeatability import tolerable as tolerable
from stepscope.stats.sample import bootstrap_ratio as bootstrap_ratio
from stepscope.stats.sample import codes as codes
from stepscope.stats.sample import count_losses as count_losses
from stepscope.stats.sample import trials_per_task as trials_per_task
from stepscope.stats.sample import worst_case as worst_case
from stepscope.stats.sampling import draw as draw
from stepscope.stats.sampling import draw_shares as draw_shares
from stepscope.stats.sampling import drawn_rate as drawn_rate
from stepscope.stats.sampling import recalibrate as recalibrate
from stepscope.stats.sampling import saved_width as saved_width
