"""The door of the classifier: scores and noise are checked here once.

Scores and noise that cannot carry a shape are an answer, and come back as `Unmeasured`. A prior, a
quantum or a correlation that makes no sense is a mistake of the caller, and raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape.templates import SHORTEST
from stepscope.shape.types import SHAPES, ShapeName
from stepscope.stats.sample import Bools, Floats, Ints
from stepscope.values import Unmeasured

# A prior sums to 1, and scores keep to their scale, within this.
ROUNDING = 1e-6
# Errors that repeat themselves more than this leave nothing to compare.
MOST_CORRELATION = 0.95

TOO_FEW = Unmeasured(
    "insufficient_data", f"fewer than {SHORTEST} scored steps: every shape fits; score more steps"
)
OFF_SCALE = Unmeasured("undefined", "a score is outside 0..1: shapes are defined on that scale")
BAD_SIGMA = Unmeasured(
    "undefined",
    "sigma is not above 0 and at most 1; measure it from repeated scorings, or leave it out",
)
TOO_CLOSE = Unmeasured(
    "insufficient_data", f"the scored steps lie in fewer than {SHORTEST} parts of a long run"
)
# Log evidence of a shape this far below the best template's is not told apart.
FLOOR = -80.0
ABSENCES = (TOO_FEW, OFF_SCALE, BAD_SIGMA, TOO_CLOSE)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is asked besides the scores, checked."""

    log_prior: Floats  # shape (5,), minus infinity where a shape is ruled out
    quantum: float  # 0 where a judge can give all values
    correlation: float  # of the errors of neighbouring steps


class ShapeOptions(TypedDict, total=False):
    """What may be assumed of runs and of their judge; `classify` describes each."""

    prior: Mapping[ShapeName, float] | None
    quantum: float | None
    correlation: float


def check_assumptions(
    scores: Floats | None,
    *,
    prior: Mapping[ShapeName, float] | None = None,
    quantum: float | None = None,
    correlation: float = 0.0,
) -> Assumptions:
    """Return what was asked; a quantum that nobody told is looked for in the scores.

    `DataError` where the prior is not a share for each of the five shapes, the quantum not within
    (0, 1], or the correlation not within -.95 to .95.
    """
    if quantum is not None and not 0 < quantum <= 1:
        why = f"quantum is {quantum!r}; expected the step between possible scores, such as 0.1"
        raise DataError(why)
    if not abs(correlation) <= MOST_CORRELATION:
        raise DataError(
            f"correlation is {correlation!r}; "
            f"expected {-MOST_CORRELATION} to {MOST_CORRELATION}, 0 for independent errors"
        )
    if quantum is None and scores is not None:
        quantum = notice_quantum(scores)
    return Assumptions(_log_prior(prior), quantum or 0.0, float(correlation))


# A judge that answers in so many steps or fewer is noticed; finer rounding is less than any judge's
# noise. Scores are on a grid within this share of the scale, rounded as they may be.
MOST_NOTICED, ON_GRID = 20, 0.004
# Of fewer scores than this a very coarse or a fine grid may be chance: quarters to tenths are seen.
# Of many so many are looked at first.
FEW_SCORES, FEWEST_PARTS, MOST_PARTS, GLANCE = 20, 4, 10, 4096


def notice_quantum(scores: Floats, repeats: int = 1) -> float | None:
    """Return the step between the values of a judge that answers in few; None where none shows.

    Of means of several scorings it is the step whose rounding is as noisy as that of a mean.
    """
    flat = scores.ravel()
    first = flat[:GLANCE]
    glance = np.unique(first[np.isfinite(first)])
    least, most = (FEWEST_PARTS, MOST_PARTS) if flat.size < FEW_SCORES else (1, MOST_NOTICED)
    for parts in range(least, most * repeats + 1) if len(glance) > 1 else ():
        far = (np.abs(some - np.round(some * parts) / parts) for some in (glance, flat))
        with np.errstate(invalid="ignore"):  # of infinite scores, which are refused later
            on_grid = not any((off >= ON_GRID / repeats).any() for off in far)
        if on_grid:
            return min(math.sqrt(repeats) / parts, 1.0)
    return None


def _log_prior(prior: Mapping[ShapeName, float] | None) -> Floats:
    if prior is None:
        return np.full(len(SHAPES), -math.log(len(SHAPES)))
    if set(prior) != set(SHAPES):
        raise DataError(f"prior names {sorted(prior)}; expected a share for each of {list(SHAPES)}")
    shares = np.array([prior[name] for name in SHAPES], dtype=np.float64)
    if not (shares >= 0).all() or abs(shares.sum() - 1) > ROUNDING:
        raise DataError(f"prior is {dict(prior)}; expected shares of 0 or more that sum to 1")
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(shares / shares.sum()))


def as_scores(scores: Sequence[float | None] | Floats) -> Floats:
    """Return scores as floats of shape (n,), NaN where missing; raise where they are none."""
    try:
        array = np.array(scores, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"scores are not numbers ({e}); expected floats, None where missing") from e
    if array.ndim != 1:
        raise DataError(f"scores have shape {array.shape}; expected one dimension")
    return array


def check_lengths(values: Floats, lengths: npt.NDArray[np.int64]) -> tuple[Floats, Ints]:
    """Return scores of runs laid end to end, and the steps of each run, which add up to them."""
    flat, counts = as_scores(values), np.asarray(lengths)
    whole = counts.ndim == 1 and (counts.size == 0 or np.issubdtype(counts.dtype, np.integer))
    if not whole or (counts < 0).any() or counts.sum() != len(flat):
        raise DataError(
            f"lengths of {counts.size} runs do not sum to {len(flat)} values; "
            "expected the steps of each run, which lie end to end"
        )
    return flat, counts.astype(np.int64)


def lay_out(values: Floats, lengths: Ints, steps: Ints, sizes: Ints) -> Floats:
    """Return scores of runs laid end to end, `sizes` steps each, NaN where a step is left out.

    A step that nobody scored keeps its place in time: closed up, a run has another shape. `steps`
    is the index of each value's step in its run; `DataError` where it does not fit.
    """
    flat, counts = check_lengths(values, lengths)
    run = np.repeat(np.arange(len(counts)), counts)
    fits = steps.shape == flat.shape and sizes.shape == counts.shape
    if not (fits and ((steps >= 0) & (steps < sizes[run])).all()):
        raise DataError("expected the index of each value's step, and steps enough in each run")
    whole = np.full(int(sizes.sum()), np.nan)
    whole[(np.cumsum(sizes) - sizes)[run] + steps] = flat
    return whole


def as_sigma(sigma: float | Sequence[float] | Floats, shape: tuple[int, ...]) -> Floats:
    """Return sigma, one number or one for each step, as an array of the shape of the scores."""
    try:
        return np.broadcast_to(np.array(sigma, dtype=np.float64), shape)
    except (TypeError, ValueError) as e:
        raise DataError(
            f"sigma has shape {np.shape(sigma)} for scores of shape {shape}; "
            "expected one number, or one for each step"
        ) from e


def find_absence_of_shape(scores: Floats, seen: Bools, sigma: Floats | None) -> Unmeasured | None:
    """Return why one run has no shape, or None where it may have one; all arrays (n,)."""
    rows = None if sigma is None else sigma[None]
    found = np.flatnonzero(find_absences(scores[None], seen[None], rows)[0])
    if not len(found):
        return None
    reason = ABSENCES[found[0]]
    if reason is OFF_SCALE:
        step = int(np.flatnonzero(seen & ~_on_scale(scores))[0])
        return Unmeasured(reason.kind, f"{reason.reason}; step {step} has {scores[step]:g}")
    return reason


def _on_scale(scores: Floats) -> Bools:
    return np.asarray((scores >= -ROUNDING) & (scores <= 1 + ROUNDING))


def find_absences(scores: Floats, observed: Bools, sigma: Floats | None) -> Bools:
    """Return which absence each run is, shape (m, absences); all arrays are (m, n)."""
    found = np.zeros((len(scores), len(ABSENCES)), dtype=np.bool_)
    found[:, ABSENCES.index(TOO_FEW)] = observed.sum(1) < SHORTEST
    with np.errstate(invalid="ignore"):
        found[:, ABSENCES.index(OFF_SCALE)] = (observed & ~_on_scale(scores)).any(1)
        if sigma is not None:
            found[:, ABSENCES.index(BAD_SIGMA)] = (observed & ~((sigma > 0) & (sigma <= 1))).any(1)
    return found
