"""What a spike of latency or cost says about a break at its step, and which steps spike at all.

A value counts against the run's own median, not against the step before: after a quick step an
ordinary one is no spike. Refuses to read anything into fewer than four values, into zero, and into
what is missing: there a source says nothing either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.shape.types import Bools, Floats

# Values needed for a median and a spread of a run.
FEWEST = 4
# Normal deviation that a median absolute deviation of 1 stands for.
MAD_TO_SD = 1.4826
# Spread of log values within a run is taken to lie here: few steps show too little or too much.
SPREADS = (0.10, 0.60)
# One source cannot say more than this for or against a step.
LEAST, MOST = -1.0, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Spikes:
    """How a source behaves at a break and elsewhere; all on the natural log of value / median.

    Attributes:
        at_break: share of breaks at which the source spikes.
        elsewhere: share of other steps at which it spikes.
        height: mean height of a spike.
        spread: standard deviation of that height.
    """

    at_break: float
    elsewhere: float
    height: float
    spread: float

    def __post_init__(self) -> None:
        """Refuse what is no share, no height or no spread.

        Raises:
            DataError: a share is not within 0 and 1 (both open), or a number is not positive.
        """
        for name in ("at_break", "elsewhere"):
            share = getattr(self, name)
            if not 0 < share < 1:
                raise DataError(f"{name} of spikes is {share!r}; expected a share such as 0.05")
        for name in ("height", "spread"):
            number = getattr(self, name)
            if not 0 < number < np.inf:
                raise DataError(f"{name} of spikes is {number!r}; expected a number above 0")


# Near to the simulator they were tried on, so that gains shown with them are optimistic: up to 18
# points on the exact step there, and up to 3 lost where spikes are lower, rarer at breaks and three
# times as common elsewhere (bars/breaks). A fleet with labelled breaks should bring its own.
LATENCY = Spikes(at_break=0.70, elsewhere=0.05, height=0.85, spread=0.35)
COST = Spikes(at_break=0.60, elsewhere=0.05, height=0.55, spread=0.25)


def positive(values: Sequence[float | None] | npt.ArrayLike, name: str, n: int) -> Floats | None:
    """Return values as floats, NaN where missing or not above 0; None when too few are left.

    Raises:
        DataError: other than one value a step, or not numbers.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as e:
        raise DataError(f"{name} is not numbers ({e}); expected floats, None where missing") from e
    if array.shape != (n,):
        raise DataError(f"{name} has shape {array.shape}; expected ({n},), one value a step")
    usable = np.isfinite(array) & (array > 0)
    return np.where(usable, array, np.nan) if usable.sum() >= FEWEST else None


def log_ratio(values: Floats, kind: Spikes) -> Floats:
    """Log likelihood ratio of a break at each step against none there; 0 where a value is missing.

    Args:
        values: shape (n,), positive, NaN where missing.
        kind: how the source behaves.
    """
    high, low = _densities(values, kind)
    with np.errstate(divide="ignore"):
        ratio = np.log(kind.at_break * high + (1 - kind.at_break) * low) - np.log(
            kind.elsewhere * high + (1 - kind.elsewhere) * low
        )
    return np.where(np.isnan(values), 0.0, np.clip(np.nan_to_num(ratio), LEAST, MOST))


def spiking(values: Floats, kind: Spikes) -> Bools:
    """Tell at which steps a spike is more probable than an ordinary value, break or none."""
    high, low = _densities(values, kind)
    return ~np.isnan(values) & (kind.elsewhere * high > (1 - kind.elsewhere) * low)


def _densities(values: Floats, kind: Spikes) -> tuple[Floats, Floats]:
    """Densities of each value were it a spike and were it none, over the larger of the two."""
    logs = np.log(values)
    z = logs - np.nanmedian(logs)
    spread = float(np.clip(MAD_TO_SD * np.nanmedian(np.abs(z)), *SPREADS))
    # The wider normal of spikes is the higher one far below the median too: quick is ordinary.
    z = np.maximum(z, 0.0)
    wide = np.hypot(spread, kind.spread)
    high = -(((z - kind.height) / wide) ** 2) / 2 - np.log(wide)
    low = -((z / spread) ** 2) / 2 - np.log(spread)
    top = np.fmax(high, low)
    return np.exp(high - top), np.exp(low - top)
