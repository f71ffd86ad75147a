"""What was not measured is not missing at random: bounds over the unmeasured, and their wording.

A judge that refuses 60 % of the failures and 5 % of the passes turns a true .20 into .095; the
bounds say what the number could have been. `not_applicable` is not a loss: the question did not
arise for those runs, so they carry no value, not even in the worst case.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.errors import DataError
from stepscope.values import UNMEASURED_KINDS, Unmeasured, UnmeasuredKind


def losses(unmeasured: Mapping[str, int] | None) -> int:
    """Return how many units should have had a value and have none.

    >>> losses({"not_applicable": 80, "error": 2})
    2
    """
    counts = unmeasured or {}
    return sum(count for kind, count in counts.items() if kind != "not_applicable")


def worst_case(
    value: float, n: int, unmeasured: Mapping[str, int] | None, *, low: float, high: float
) -> tuple[float, float]:
    """Bounds of a mean if every unmeasured unit had come out at one end of the scale.

    Args:
        value: the mean over the measured units.
        n: measured units, at least one.
        unmeasured: units without a value, by kind; any key but `not_applicable` counts as a loss.
        low: lower end of the scale.
        high: upper end of the scale.

    Raises:
        DataError: fewer than one unit was measured.

    Source:
        Manski (1989), Anatomy of the selection problem, J. Human Resources 24:343-360.

    >>> worst_case(0.5, 8, {"refused": 2}, low=0.0, high=1.0)
    (0.4, 0.6)
    """
    if n < 1:
        raise DataError(f"worst_case needs one or more measured units, got {n}")
    lost = losses(unmeasured)
    return (n * value + lost * low) / (n + lost), (n * value + lost * high) / (n + lost)


def nothing_measured(unmeasured: Mapping[str, int] | None, unit_of_n: str) -> Unmeasured:
    """Return the absence that follows from measuring nothing: the commonest kind, all counted.

    >>> nothing_measured({"missing_input": 200}, "runs").kind
    'missing_input'
    """
    counts = {kind: count for kind, count in (unmeasured or {}).items() if count > 0}
    known: list[UnmeasuredKind] = [kind for kind in UNMEASURED_KINDS if counts.get(kind)]
    if not counts:
        return Unmeasured("insufficient_data", f"no {unit_of_n}")
    said = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    commonest = max(known, key=lambda kind: counts[kind], default=None)
    return Unmeasured(commonest or "insufficient_data", f"no {unit_of_n} measured: {said}")
