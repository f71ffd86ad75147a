"""The door of `stats`: arrays are checked here once, and numbers leave through `conclude`.

Nothing that is not finite passes in either direction. A wrong *shape* is a mistake of the caller
and raises; values that cannot carry the statistic (none, not finite, one task, all the same) are an
answer, and come back as `Unmeasured`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError
from stepscope.stats.clusters import Floats
from stepscope.stats.worstcase import nothing_measured, worst_case
from stepscope.values import Estimate, Target, Unmeasured

# Below this many tasks an interval is given, and marked weak (calibration, section 1).
WEAK_CLUSTERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What an Estimate says of itself besides its numbers; see `Estimate` for each field.

    `bounds` is the worst case where counting what was not measured does not give it.
    """

    target: Target = "tasks like these"
    level: float = 0.95
    unmeasured: Mapping[str, int] | None = None
    unit: str = "share"
    unit_of_n: str = "runs"
    scale: tuple[float, float] | None = None
    bounds: tuple[float, float] | None = None
    n_tasks: int = 0
    diagnostics: tuple[str, ...] = field(default=())


def column(values: npt.ArrayLike, name: str) -> Floats:
    """Return values as floats of shape (n,).

    Raises:
        DataError: the values are not one-dimensional.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise DataError(f"{name} have shape {array.shape}; expected one dimension")
    return array


def labelled(
    asked: str, values: Sequence[Floats], cases: Sequence[npt.ArrayLike]
) -> list[list[object]]:
    """Return the cases of several groups as lists, one label a value.

    Raises:
        DataError: a group has other than one case a value; `asked` is the function to name.
    """
    found: list[list[object]] = [np.asarray(side, dtype=object).tolist() for side in cases]
    if [len(side) for side in found] != [len(side) for side in values]:
        sizes = " + ".join(str(len(side)) for side in found)
        raise DataError(f"{asked} got {sizes} cases for {sum(map(len, values))} values")
    return found


def check(values: Floats, frame: Frame) -> Unmeasured | None:
    """Return the absence that the values call for, or None when they can be used.

    Raises:
        DataError: the level is not strictly between 0 and 1, or a count of losses is negative.
    """
    if not 0 < frame.level < 1:
        raise DataError(f"level is {frame.level!r}; expected a share between 0 and 1, such as 0.95")
    if any(count < 0 for count in (frame.unmeasured or {}).values()):
        raise DataError(f"unmeasured counts are {dict(frame.unmeasured or {})}; expected none < 0")
    if not len(values):
        return nothing_measured(frame.unmeasured, frame.unit_of_n)
    bad = len(values) - int(np.isfinite(values).sum())
    if bad:
        return Unmeasured(
            "missing_input",
            f"{bad} of {len(values)} values are not finite; count them as unmeasured instead",
        )
    return None


def too_few(n_tasks: int, n: int, frame: Frame) -> Unmeasured | None:
    """Return the absence where one cluster cannot tell of spread: one task, or one row."""
    if frame.target == "tasks like these" and n_tasks < 2:
        return Unmeasured("insufficient_data", "one task: nothing is known of the spread of tasks")
    if n < 2:
        one = frame.unit_of_n.removesuffix("s")
        return Unmeasured("insufficient_data", f"one {one}: nothing is known of the spread")
    return None


def conclude(
    limits: tuple[float, float | None, float | None], *, method: str, n: int, frame: Frame
) -> Estimate | Unmeasured:
    """Build the Estimate, or say that its numbers overflow.

    Args:
        limits: value, low and high.
        method: how the interval was made.
        n: units counted.
        frame: target, level, losses, units and `n_tasks`.
    """
    value, low, high = (None if x is None else float(x) for x in limits)
    if value is None or not all(math.isfinite(x) for x in (value, low, high) if x is not None):
        return Unmeasured("undefined", "the values are too large or too far apart for a number")
    weak = frame.target == "tasks like these" and frame.n_tasks < WEAK_CLUSTERS
    bounds: tuple[float | None, float | None] = frame.bounds or (None, None)
    if frame.scale is not None:
        bounds = worst_case(value, n, frame.unmeasured, low=frame.scale[0], high=frame.scale[1])
    return Estimate(
        value=value,
        low=low if low is None else min(low, value),
        high=high if high is None else max(high, value),
        level=frame.level,
        method=method,
        target=frame.target,
        n=n,
        unit_of_n=frame.unit_of_n,
        n_tasks=frame.n_tasks,
        unmeasured={kind: count for kind, count in (frame.unmeasured or {}).items() if count},
        worst_low=bounds[0],
        worst_high=bounds[1],
        unit=frame.unit,
        diagnostics=(*((f"{frame.n_tasks} tasks: weak",) if weak else ()), *frame.diagnostics),
    )
