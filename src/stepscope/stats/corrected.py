"""Rates of many judged runs, corrected by what people said of some: wide where few did, not wrong.

A judge's own rate is that of its mistakes too. Here its verdicts only sort the runs: among those of
one verdict the labels tell how often the run fails, and the shares of the verdicts put these rates
together. A judge that is no better than chance makes the interval no narrower, and never wrong. The
labels are drawn at random, or with known shares of a draw (`stepscope.stats.sampling`); a label of
a run that was chosen for how it looks is for no rate, and is refused before it comes here.

For scores the judge's mean is corrected instead, the more of it the better it predicts people. The
Rogan-Gladen estimate divides by sensitivity + specificity - 1, which few labels leave near 0; it is
for comparison with what others print.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from stepscope.errors import DataError
from stepscope.stats.intervals import normal_quantile, student_quantile, wilson
from stepscope.stats.sample import (
    Clusters,
    EstimateFrame,
    Floats,
    FrameOptions,
    Ints,
    as_column,
    cluster_index,
    find_absence,
    make_estimate,
    make_frame,
    make_value,
    sum_by_cluster,
)
from stepscope.values import Estimate, Unmeasured

# Labels for a headline, and how many of them each verdict of the judge has: a rule on the labels'
# own classes would choose by the outcome, and such rates hold the truth in 68 % (calibration, 4).
HEADLINE_LABELS, HEADLINE_LABELS_A_VERDICT = 50, 5
# A third verdict (refused, uncertain) on fewer runs than this share of them moves no headline.
RARE_VERDICT = 0.02
# Draws for the limits: so many, or so many outside of them, but never more than the last.
DRAWS, DRAWS_OUTSIDE, MOST_DRAWS = 8_000, 20, 50_000
# Jeffreys' prior, of each outcome; divided by this power of the labels' design effect, or 7 labels'
# worth of a few clusters would lie half way to .5 (docs/design/intervals.md).
PRIOR, PRIOR_POWER = 0.5, 0.6
# A task that fails often does so whatever the verdict, so that errors add up; by how much is only
# told where tasks with labels hold this share of the runs.
SHARED_TASKS = 0.25
# The least that sensitivity + specificity - 1 must be for certain before a rate is divided by it.
LEAST_INFORMATION = 0.1


def corrected_rate(
    judged: ArrayLike,
    labelled: ArrayLike,
    labels: ArrayLike,
    *,
    rng: np.random.Generator,
    shares: ArrayLike | None = None,
    clusters: Clusters = None,
    draws: int = DRAWS,
    **options: Unpack[FrameOptions],
) -> Estimate | Unmeasured:
    """Share of failures in the process that all judged runs come from, corrected by labels.

    `judged` are verdicts as numbers from 0, shape (runs,); what the judge did not answer is a
    verdict of its own. `labelled` are places in it, `labels` what people said there, 1 for a
    failure, parts where they are split; `shares` those of the draw, None for a uniform one.
    `clusters` are tasks or runs, shape (runs,).

    sum over verdicts of P(verdict) * P(failure | verdict), limits from Jeffreys draws of each; the
    counts are effective ones (Kish), divided by the design effect of the clusters times (t/z)^2,
    and the prior by its power .6.

    Source: the post-stratified estimate, Cochran (1977), Sampling Techniques, 5A.9; Brown, Cai and
    DasGupta (2001), Statistical Science 16:101-133, for Jeffreys; Korn and Graubard (1998), Survey
    Methodology 24:193-201, for the design effect and t. By hand: .3 * .8 + .7 * .1.

    >>> judged = [1] * 30 + [0] * 70
    >>> found = corrected_rate(judged, range(10, 50), [1] * 16 + [0] * 4 + [1] * 2 + [0] * 18,
    ...     rng=np.random.default_rng(0))
    >>> round(found.value, 3)
    0.31
    """
    verdicts, places, said, weights = _check(judged, labelled, labels, shares)
    frame = make_frame(FrameOptions, options, unit_of_n="labels", scale=(0.0, 1.0))
    if (absent := find_absence(said, frame)) is not None:
        return absent
    level = frame.level
    tasks, of = cluster_index(clusters, len(verdicts)), verdicts[places]
    kinds = int(verdicts.max()) + 1
    known, yes, no = _tables(of, said, weights, kinds)
    of_all = np.bincount(verdicts, minlength=kinds) / len(verdicts)
    value = float(of_all @ known)
    mass = np.bincount(of, weights, minlength=kinds)
    residuals = (of_all / np.where(mass > 0, mass, 1.0))[of] * (said - known[of])
    frame = replace(frame, n_tasks=len(np.unique(tasks[places])))
    if frame.n_tasks < 2:
        why = "one label" if len(said) < 2 else "one task"
        return make_value(value, why, n=len(said), frame=frame)
    chance = ((of_all / np.where(mass > 0, mass, 1.0)) ** 2 * known * (1 - known))[of]
    of_labels = design_effect(residuals, weights, chance, tasks[places], level)
    apart, even = known[verdicts] - value, np.full(len(verdicts), 1 / len(verdicts))
    of_runs = design_effect(apart, even, apart**2, tasks, level)
    if np.isin(tasks, tasks[places]).mean() >= SHARED_TASKS:
        own, every = np.zeros(len(verdicts)), even * apart
        own[places] = weights * residuals
        one, other, both = (
            float((sum_by_cluster(x, tasks).sums ** 2).sum()) for x in (own, every, own + every)
        )
        more = both / (one + other) if one + other > 0 else 1.0
        of_labels, of_runs = max(of_labels * more, 1.0), max(of_runs * more, 1.0)
    size = _draws(level, draws)
    drawn = rng.standard_gamma((of_all * len(verdicts) / of_runs + PRIOR), (size, kinds))
    drawn /= drawn.sum(axis=1, keepdims=True)
    prior = PRIOR / of_labels**PRIOR_POWER
    rates = rng.beta(yes / of_labels + prior, no / of_labels + prior, (size, kinds))
    low, high = np.quantile((drawn * rates).sum(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return make_estimate((value, low, high), method="corrected", n=len(said), frame=frame)


def corrected_mean(
    scores: ArrayLike,
    labelled: ArrayLike,
    labels: ArrayLike,
    *,
    shares: ArrayLike | None = None,
    clusters: Clusters = None,
    **options: Unpack[FrameOptions],
) -> Estimate | Unmeasured:
    """Mean score that people would give the process that all judged runs come from.

    Arguments as `corrected_rate`, `scores` the judge's and `labels` people's, both in [0, 1]. The
    labels' mean plus lambda times (mean of all scores - mean of the labelled runs' scores), lambda
    the slope of labels on scores: 0 for a judge that tells nothing. Wilson's limits at the
    effective size value * (1 - value) / variance, times (z/t)^2 for clusters - 2 degrees of
    freedom; below four clusters there are none.

    Source: Angelopoulos, Duchi and Zrnic (2023), PPI++, arXiv:2311.01453, the labelled runs being
    among the judged ones, so that lambda has no factor 1 + n/N; MacKinnon and White (1985), J.
    Econometrics 29:305-325, HC3. By hand: .5 + .8 * (.6 - .5).

    >>> found = corrected_mean([0.0, 1.0, 0.0, 1.0, 1.0], [0, 1, 2, 3], [0.1, 0.9, 0.1, 0.9])
    >>> round(found.value, 3)
    0.58
    """
    judged, said = as_column(scores, "scores"), as_column(labels, "labels")
    frame = make_frame(FrameOptions, options, unit="score", unit_of_n="labels", scale=(0.0, 1.0))
    if (absent := find_absence(np.concatenate([said, judged]), frame)) is not None:
        return absent
    if not len(said):
        return Unmeasured("insufficient_data", f"no {frame.unit_of_n}")
    if min(said.min(), judged.min()) < 0 or max(said.max(), judged.max()) > 1:
        raise DataError("corrected_mean takes scores and labels in [0, 1]")
    places, weights = _check_places(len(judged), labelled, said, shares)
    tasks, seen = cluster_index(clusters, len(judged)), judged[places]
    share = weights / weights.sum()
    apart = seen - share @ seen
    mean, spread = float(share @ said), float(share @ apart**2)
    slope = float(share @ (apart * (said - mean))) / spread if spread > 0 else 0.0
    value = min(max(mean + slope * float(judged.mean() - share @ seen), 0.0), 1.0)
    frame = replace(frame, n_tasks=len(np.unique(tasks[places])))
    if (groups := frame.n_tasks) < 4:
        why = f"{groups} tasks; a slope and its error take 4"
        return make_value(value, why, n=len(said), frame=frame)
    leverage = np.minimum(share + (share * apart**2 / spread if spread > 0 else 0.0), 0.9)
    residuals = share * (said - mean - slope * apart) / (1 - leverage)
    own = sum_by_cluster(residuals, tasks[places]).sums
    others = sum_by_cluster(judged - judged.mean(), tasks).sums / len(judged)
    variance = float((own**2).sum())
    size = float(groups)
    if variance > 1e-12 / groups:
        variance += slope**2 * len(others) / (len(others) - 1) * float((others**2).sum())
        size = max(value * (1 - value) / variance, 1.0)
    size *= (normal_quantile(frame.level) / float(student_quantile(groups - 2, frame.level))) ** 2
    low, high = wilson(value, size, frame.level)
    return make_estimate((value, low, high), method="corrected, wilson", n=len(said), frame=frame)


def rogan_gladen(
    judged: ArrayLike,
    labelled: ArrayLike,
    labels: ArrayLike,
    *,
    rng: np.random.Generator,
    shares: ArrayLike | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
) -> Estimate | Unmeasured:
    """Rate from a judge's own by its sensitivity and specificity: what others print, no headline.

    Arguments as `corrected_rate`, verdicts 0 and 1 alone. `Unmeasured` where the lower limit of
    sensitivity + specificity - 1 is .1 or less: the rate is divided by it. The clusters of runs are
    not in its interval.

    Source: Rogan and Gladen (1978), Am. J. Epidemiology 107:71-76. By hand: (.3 + .8 - 1) / .7.

    >>> judged = [1] * 300 + [0] * 700
    >>> found = rogan_gladen(judged, [*range(94), *range(300, 406)],
    ...     [1] * 90 + [0] * 4 + [1] * 10 + [0] * 96, rng=np.random.default_rng(0))
    >>> round(found.value, 3)
    0.302
    """
    verdicts, places, said, weights = _check(judged, labelled, labels, shares)
    if len(verdicts) and verdicts.max() > 1:
        raise DataError("rogan_gladen takes verdicts 0 and 1; it has no place for a third")
    if not len(said):
        return Unmeasured("insufficient_data", "no labels")
    flagged = (verdicts[places] == 1).astype(np.float64)
    # Of what people call a failure, and of what they do not: what the judge flags.
    tables = [
        _tables(np.zeros_like(places), flagged, weights * side, 1) for side in (said, 1 - said)
    ]
    if not all((weights * side).sum() > 0 for side in (said, 1 - said)):
        why = "the labels are all alike: no error rate of one side"
        return Unmeasured("insufficient_data", why)
    size, rate = _draws(level, draws), float((verdicts == 1).mean())
    (hit, *hits), (alarm, *alarms) = tables
    sensitive, false = (
        rng.beta(yes + PRIOR, no + PRIOR, (size, 1))[:, 0] for yes, no in (hits, alarms)
    )
    tails = [(1 - level) / 2, (1 + level) / 2]
    told = float(np.quantile(sensitive - false, tails[0]))
    if told <= LEAST_INFORMATION:
        return Unmeasured(
            "undefined",
            f"sensitivity + specificity - 1 may be as low as {told:.2f} by {len(said)} labels; the "
            f"rate is divided by it, and below {LEAST_INFORMATION} that tells nothing",
        )
    count = rate * len(verdicts)
    flags = rng.beta(count + PRIOR, len(verdicts) - count + PRIOR, size)
    limits = np.quantile(np.clip((flags - false) / (sensitive - false), 0, 1), tails)
    value = float(np.clip((rate - alarm[0]) / (hit[0] - alarm[0]), 0, 1))
    frame = EstimateFrame(level=level, unit_of_n="labels", n_tasks=len(said))
    return make_estimate((value, *limits), method="rogan-gladen", n=len(said), frame=frame)


def corrected_difference(
    first: Estimate | Unmeasured, second: Estimate | Unmeasured
) -> Estimate | Unmeasured:
    """Second rate less first, from the limits of each; as if their runs shared no task.

    Source: Donner and Zou (2012), Statistical Methods in Medical Research 21:347-359 (MOVER).

    >>> judged, labels = [1] * 50 + [0] * 50, [1] * 25 + [0] * 25
    >>> one = corrected_rate(judged, range(25, 75), labels, rng=np.random.default_rng(0))
    >>> corrected_difference(one, one).value
    0.0
    """
    sides: list[tuple[Estimate, float, float]] = []
    for side in (first, second):
        if isinstance(side, Unmeasured):
            return side
        if side.low is None or side.high is None:
            return Unmeasured("insufficient_data", f"a rate has {side.no_interval}")
        sides.append((side, side.low, side.high))
    (a, a_low, a_high), (b, b_low, b_high) = sides
    value = b.value - a.value
    low = value - float(np.hypot(b.value - b_low, a_high - a.value))
    high = value + float(np.hypot(b_high - b.value, a.value - a_low))
    frame = EstimateFrame(level=a.level, unit_of_n=a.unit_of_n, n_tasks=min(a.n_tasks, b.n_tasks))
    return make_estimate((value, low, high), method="mover", n=a.n + b.n, frame=frame)


def explain_weakness(judged: ArrayLike, labelled: ArrayLike, names: Sequence[str]) -> str:
    """Return why a corrected rate is no headline yet; "" where it is one.

    `names` are those of the verdicts: the judge's two sides first, then what else it may say.

    Source: calibration, section 4; by the judge's verdicts, since a rule on the labels' own classes
    chooses by the outcome.

    >>> explain_weakness([0] * 90 + [1] * 10, range(40, 93), ("pass", "fail"))
    '3 labels where the judge says fail; a headline takes 5'
    """
    verdicts, places = np.asarray(judged, np.int64), np.asarray(labelled, np.int64)
    if len(places) < HEADLINE_LABELS:
        return f"{len(places)} labels; a headline takes {HEADLINE_LABELS}"
    given = np.bincount(verdicts[places], minlength=len(names))
    runs = np.bincount(verdicts, minlength=len(names)) / len(verdicts)
    for at, name in enumerate(names):
        matters = runs[at] > (0 if at < 2 else RARE_VERDICT)
        if matters and given[at] < HEADLINE_LABELS_A_VERDICT:
            wanted = f"a headline takes {HEADLINE_LABELS_A_VERDICT}"
            return f"{given[at]} labels where the judge says {name}; {wanted}"
    return ""


def design_effect(
    residuals: Floats, parts: Floats, chance: Floats, clusters: Ints, level: float
) -> float:
    """Return by how much clusters and uneven parts divide counts; 1 or more, 1 without either.

    The clustered variance of the sum of parts * residuals, each cluster's divided by 1 less its
    part, over that of independent residuals with the variances `chance`; times (t/z)^2 for the few
    clusters that tell it, of which large ones count for less. No residual at all tells nothing:
    then every cluster counts once.

    Source: Korn and Graubard (1998), Survey Methodology 24:193-201; the jackknife and Kish's number
    of clusters as in `intervals.cluster_variance`.
    """
    held = sum_by_cluster(parts, clusters).sums
    if len(held) == len(parts) and np.ptp(parts) <= 1e-9 * parts.max():
        return 1.0
    held = held / held.sum()
    sums, alone = sum_by_cluster(parts * residuals, clusters).sums, float(parts**2 @ chance)
    groups, even = len(held), 1 / float(held @ held)
    raw = len(parts) / even
    if alone > 1e-18 * float(parts @ parts):
        # A cluster that is nearly all there is has no residual left to tell its variance.
        apart = sums / np.maximum(1 - held, 1 / groups)
        raw = (groups - 1) / groups * float(apart @ apart) / alone
    ratio = float(student_quantile(even - 1, level)) / normal_quantile(level)
    return max(raw, 1.0) * ratio**2


def _tables(of: Ints, said: Floats, weights: Floats, kinds: int) -> tuple[Floats, Floats, Floats]:
    """Return the weighted share of yes by verdict (.5 without labels), effective yes and no."""
    mass = np.bincount(of, weights, minlength=kinds)
    square = np.bincount(of, weights**2, minlength=kinds)
    yes = np.bincount(of, weights * said, minlength=kinds)
    some = mass > 0
    share = np.where(some, yes / np.where(some, mass, 1.0), 0.5)
    effective = np.where(some, mass**2 / np.where(some, square, 1.0), 0.0)
    return share, share * effective, (1 - share) * effective


def _draws(level: float, draws: int) -> int:
    """Return how many draws find limits of this level."""
    return int(min(max(draws, DRAWS_OUTSIDE / (1 - level)), MOST_DRAWS))


def _check(
    judged: ArrayLike, labelled: ArrayLike, labels: ArrayLike, shares: ArrayLike | None
) -> tuple[Ints, Ints, Floats, Floats]:
    """Return verdicts, places, labels and weights, each of the right shape and range."""
    given, said = np.asarray(judged), as_column(labels, "labels")
    verdicts = given.astype(np.int64)
    if given.ndim != 1 or (len(given) and given.min() < 0) or (verdicts != given).any():
        raise DataError("verdicts are numbers from 0, one a run; give what is missing its own")
    if not ((said >= 0) & (said <= 1) | ~np.isfinite(said)).all():
        raise DataError("labels lie in [0, 1], 1 for a failure")
    places, weights = _check_places(len(verdicts), labelled, said, shares)
    return verdicts, places, said, weights


def _check_places(
    runs: int, labelled: ArrayLike, said: Floats, shares: ArrayLike | None
) -> tuple[Ints, Floats]:
    """Return places and weights of labels, mean 1."""
    places = np.asarray(labelled, np.int64)
    if places.shape != said.shape or len(np.unique(places)) != len(places):
        raise DataError(f"{len(said)} labels of {len(np.unique(places))} runs; expected one each")
    if len(places) and not 0 <= places.min() <= places.max() < runs:
        raise DataError(f"a label is of run {int(places.max())}; there are {runs}")
    given = np.ones(len(said)) if shares is None else as_column(shares, "shares")
    if given.shape != said.shape or not (given > 0).all():
        raise DataError("expected one share above 0 a label: what cannot be drawn is in no rate")
    # No share is too small for a weight, nor a weight for its square.
    weights = np.maximum(given.min(initial=1.0) / given, 1e-150)
    return places, weights / weights.mean() if len(weights) else weights
