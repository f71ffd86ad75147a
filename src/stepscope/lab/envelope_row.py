"""One cell of an envelope: what a classifier's answers were worth, where the truth is planted.

Every figure has the standard error of the simulation; one that the classifier cannot have (the
calibration of a classifier without a posterior) is `Unmeasured`. Shares use (k + 1) / (m + 2) in
their error, so that 0 of 400 is not certain; scores that are no shares use a delete-one-group
jackknife of 20 groups.
Source: expected calibration error, Naeini, Cooper and Hauskrecht (2015), AAAI; jackknife, Efron and
Tibshirani (1993), chapter 11.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.lab.answers import Answers
from stepscope.lab.noise import Noise
from stepscope.lab.planted import NO_BREAK, Floats, Ints
from stepscope.shape.names import HEALTHY, SHAPES, UNRESOLVED, ShapeName
from stepscope.values import Unmeasured

Bools = npt.NDArray[np.bool_]

GROUPS = 20
BINS = 10

_NO_POSTERIOR = Unmeasured("not_applicable", "this classifier gives no probabilities")
_NO_FIT = Unmeasured("not_applicable", "this classifier gives every run one of the shapes")
_NO_SET = Unmeasured("not_applicable", "this classifier gives no set of break steps")


class Figure(msgspec.Struct, frozen=True, tag="figure"):
    """A number from simulated runs, and its standard error."""

    value: float
    error: float


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What one classifier is worth on one kind of runs.

    Attributes:
        classifier: its name.
        generator: what made the curves.
        noise: kind of the noise.
        n: steps of a run.
        sigma: standard deviation of the noise of one score.
        trials: runs, a fifth of each shape.
        accuracy: share of runs whose shape is named, every run being given one.
        macro_f1: mean over shapes of F1.
        recall: share named, by shape.
        resolved: share of runs that get a label at all.
        resolved_accuracy: share of right labels among those.
        calibration_error: mean distance between what it claims and how often it is right.
        unmodelled: share of runs, all of them of the five shapes, said to fit none.
        break_found: share of runs with a break where one is declared.
        break_within_one: of those, share where the step is right or next to it.
        coverage: of those, share where the 90 % set of steps holds the step.
        false_breaks: share of healthy runs where a break is declared.
    """

    classifier: str
    generator: str
    noise: str
    n: int
    sigma: float
    trials: int
    accuracy: Figure | Unmeasured
    macro_f1: Figure
    recall: dict[ShapeName, Figure | Unmeasured]
    resolved: Figure | Unmeasured
    resolved_accuracy: Figure | Unmeasured
    calibration_error: Figure | Unmeasured
    unmodelled: Figure | Unmeasured
    break_found: Figure | Unmeasured
    break_within_one: Figure | Unmeasured
    coverage: Figure | Unmeasured
    false_breaks: Figure | Unmeasured


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One kind of simulated run: what made the curves, the noise on them, steps, sigma."""

    generator: str
    noise: Noise
    n: int
    sigma: float


def worth(classifier: str, cell: Cell, answers: Answers, *, truth: Ints, broke: Ints) -> Row:
    """Compare answers with planted shapes, shape (m,), and break steps, (m,), -1 for none."""
    right, m = answers.best == truth, len(truth)
    declared, exists = answers.break_step != NO_BREAK, broke != NO_BREAK
    both = declared & exists
    return Row(
        classifier=classifier,
        generator=cell.generator,
        noise=cell.noise,
        n=cell.n,
        sigma=cell.sigma,
        trials=m,
        accuracy=_share(right),
        macro_f1=_jackknife(lambda at: macro_f1(answers.best[at], truth[at]), m),
        recall={name: _share(right[truth == code]) for code, name in enumerate(SHAPES)},
        resolved=_share(answers.label != UNRESOLVED),
        resolved_accuracy=_share(right[answers.label != UNRESOLVED]),
        calibration_error=_calibration(answers, right),
        unmodelled=_NO_FIT if answers.unmodelled is None else _share(answers.unmodelled),
        break_found=_share(declared[exists]),
        break_within_one=_share(np.abs(answers.break_step - broke)[both] <= 1),
        coverage=_coverage(answers, broke, both),
        false_breaks=_share(declared[truth == HEALTHY]),
    )


def macro_f1(found: npt.NDArray[np.int8], truth: Ints) -> float:
    """Return the mean over the shapes of 2 hits / (named + true); a shape never met counts 0."""
    table = np.bincount(len(SHAPES) * truth + found, minlength=len(SHAPES) ** 2)
    table = table.reshape(len(SHAPES), len(SHAPES))
    met = table.sum(0) + table.sum(1)
    return float(np.mean(2 * np.diag(table) / np.maximum(met, 1)))


def calibration_error(claimed: Floats, right: Bools) -> float:
    """Return the mean over runs of |claimed - right|, averaged first in ten bins of the claim."""
    bins = np.minimum((claimed * BINS).astype(np.int64), BINS - 1)
    apart = np.bincount(bins, weights=claimed - right, minlength=BINS)
    return float(np.abs(apart).sum() / len(claimed))


def _calibration(answers: Answers, right: Bools) -> Figure | Unmeasured:
    if answers.posterior is None:
        return _NO_POSTERIOR
    claimed = answers.posterior.max(1)
    return _jackknife(lambda at: calibration_error(claimed[at], right[at]), len(right))


def _coverage(answers: Answers, broke: Ints, asked: Bools) -> Figure | Unmeasured:
    if answers.break_low is None or answers.break_high is None:
        return _NO_SET
    return _share(((answers.break_low <= broke) & (broke <= answers.break_high))[asked])


def _share(held: Bools) -> Figure | Unmeasured:
    m = len(held)
    if not m:
        return Unmeasured("insufficient_data", "no simulated run is of this kind")
    near = (float(held.sum()) + 1) / (m + 2)
    return Figure(float(held.mean()), (near * (1 - near) / m) ** 0.5)


def _jackknife(statistic: Callable[[Ints], float], m: int) -> Figure:
    every = np.arange(m)
    groups = min(GROUPS, m)
    # Neighbours together: the shapes take turns, so that each group has as many of each.
    group_of = every * groups // m
    left = np.array([statistic(every[group_of != group]) for group in range(groups)])
    spread = (groups - 1) / groups * ((left - left.mean()) ** 2).sum()
    return Figure(statistic(every), float(spread**0.5))
