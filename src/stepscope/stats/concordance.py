"""How far one rater's scores follow another's: correlation, and concordance with the same scale.

A correlation does not see that one rater is always .2 too kind; concordance does. Scores of judges
are seldom normal (most are near 0 or 1), and Fisher's limits then hold the truth in as little as
56 % of samples: where ten scores or more tell it, limits are never narrower than those of the
scores' own spread. Scores that are all the same have no correlation: that is "undefined", not 0.
"""

from __future__ import annotations

from dataclasses import replace
from math import atanh, sqrt, tanh
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscope.errors import DataError
from stepscope.stats import sample
from stepscope.stats.intervals import normal_quantile, student_quantile
from stepscope.stats.sample import Clusters, EstimateFrame, FrameOptions
from stepscope.values import Estimate, Unmeasured

# Pairs (and clusters) below which the spread of the scores is not told by them.
FEWEST = 10
# Fewer items than this are ordered alike by chance too often to say anything.
FEWEST_RANKED = 4
# A spread below this is rounding.
NOTHING = 1e-12
_FEW = f"fewer than {FEWEST}: the limits take scores for normal ones"


def pearson(
    first: ArrayLike, second: ArrayLike, clusters: Clusters = None, **options: Unpack[FrameOptions]
) -> Estimate | Unmeasured:
    """Linear correlation of two raters' scores of the same items.

    Source: Fisher (1921), Metron 1:3-32; Bonett and Wright (2000), Psychometrika 65:23-28, for
    scores that are not normal, here by the influence of each item. By hand for five pairs with r =
    .8: tanh(1.0986 -+ 1.96/sqrt(2)).

    >>> found = pearson([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
    (0.8, -0.28, 0.99)
    """
    frame = sample.make_frame(FrameOptions, options, unit="r")
    return _follow(first, second, clusters, frame, lin=False)


def rank_correlation(
    first: ArrayLike, second: ArrayLike, clusters: Clusters = None, **options: Unpack[FrameOptions]
) -> Estimate | Unmeasured:
    """Spearman's rank correlation; items that are alike share their rank.

    `Unmeasured` with fewer than four items, and with one cluster.

    Source: Spearman (1904), Amer. J. Psychol. 15:72-101; limits as of `pearson`, of the ranks.

    >>> round(rank_correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]).value, 3)
    0.8
    """
    frame = sample.make_frame(FrameOptions, options, unit="rank", unit_of_n="steps")
    a, b = sample.as_column(first, "first"), sample.as_column(second, "second")
    if (absent := sample.find_absence(a, frame) or sample.find_absence(b, frame)) is not None:
        return absent
    runs = len(np.unique(sample.cluster_index(clusters, len(a))))
    if len(a) < FEWEST_RANKED or runs < 2:
        few = f"{len(a)} {frame.unit_of_n} of {runs} runs"
        few = f"{few}; expected {FEWEST_RANKED} of two runs or more"
        return Unmeasured("insufficient_data", few)
    return _follow(_midranks(a), _midranks(b), clusters, frame, lin=False)


def _midranks(values: sample.Floats) -> sample.Floats:
    ordered = np.sort(values)
    below = np.searchsorted(ordered, values, side="left")
    return np.asarray((below + np.searchsorted(ordered, values, side="right") + 1) / 2, np.float64)


def concordance(
    first: ArrayLike, second: ArrayLike, clusters: Clusters = None, **options: Unpack[FrameOptions]
) -> Estimate | Unmeasured:
    """Lin's concordance: correlation, less where one rater is kinder or spreads scores more.

    For two labels, coded 0 and 1, it is Cohen's kappa.

    Source: Lin (1989), Biometrics 45:255-268; limits on Fisher's scale as of `pearson`. By hand:
    2 * 2 / (2 + 2 + 1).

    >>> round(concordance([1, 2, 3, 4, 5], [2, 3, 4, 5, 6]).value, 3)
    0.8
    """
    frame = sample.make_frame(FrameOptions, options, unit="r")
    return _follow(first, second, clusters, frame, lin=True)


def _follow(
    first: ArrayLike, second: ArrayLike, clusters: Clusters, frame: EstimateFrame, *, lin: bool
) -> Estimate | Unmeasured:
    x, y = sample.as_column(first, "first"), sample.as_column(second, "second")
    if x.shape != y.shape:
        raise DataError(f"first has shape {x.shape}, second {y.shape}; expected the same items")
    if (absent := sample.find_absence(x, frame) or sample.find_absence(y, frame)) is not None:
        return absent
    n, of = len(x), sample.cluster_index(clusters, len(x))
    groups = len(np.unique(of))
    if n < 2:
        return Unmeasured("insufficient_data", f"one of {frame.unit_of_n}; expected two or more")
    dx, dy, shift = x - x.mean(), y - y.mean(), float(x.mean() - y.mean())
    wide, high, both = (float(one) / n for one in (dx @ dx, dy @ dy, dx @ dy))
    if (max if lin else min)(wide, high) <= NOTHING:
        return Unmeasured("undefined", "one side gives every item the same score")
    if lin:
        scale = wide + high + shift**2
        value = 2 * both / scale
        apart = dx**2 + dy**2 + 2 * shift * (dx - dy) + shift**2
        influence = (2 * dx * dy - value * apart) / scale
    else:
        value = min(max(both / sqrt(wide * high), -1.0), 1.0)
        influence = dx * dy / sqrt(wide * high) - value * (dx**2 / wide + dy**2 / high) / 2
    frame = replace(frame, n_tasks=groups, diagnostics=(_FEW,) if groups < FEWEST else ())
    reach = _reach(influence, of, value, frame.level)
    if reach is None:
        why = "one task" if groups < 2 else "too few, or the two are the same throughout"
        return sample.make_value(value, why, n=n, frame=frame)
    limits = (value, tanh(atanh(value) - reach), tanh(atanh(value) + reach))
    return sample.make_estimate(limits, method="Fisher", n=n, frame=frame)


def _reach(
    influence: sample.Floats, clusters: NDArray[np.int64], value: float, level: float
) -> float | None:
    """Return half the width on Fisher's scale; None where nothing tells it."""
    n, sums = len(influence), sample.sum_by_cluster(influence, clusters).sums
    groups, alone = len(sums), float((influence**2).sum())
    if groups < 2 or abs(value) >= 1 - 1e-9:
        return None
    told = groups / (groups - 1) * float((sums**2).sum())
    effect = max(told / alone, 1.0) if alone > 0 and groups < n else 1.0
    if n / effect <= 3 or groups <= 3:
        return None
    # How far clusters repeat each other is told by them alone.
    ratio = float(student_quantile(groups - 1, level)) if groups < n else normal_quantile(level)
    reach = ratio / sqrt(n / effect - 3)
    if groups >= FEWEST:
        error = sqrt(groups / (groups - 2) * float((sums**2).sum())) / n / (1 - value**2)
        reach = max(reach, float(student_quantile(groups - 2, level)) * error)
    return reach
