"""How many cases a difference needs to be seen, and how small a difference these cases can see."""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

from stepscope.errors import DataError

# The usual chance of seeing a difference that is there.
POWER = 0.80


def runs_needed(difference: float, sd: float, *, level: float = 0.95, power: float = POWER) -> int:
    """Return the cases needed to see a true difference of paired means.

    Args:
        difference: true difference, in the unit of `sd`, not 0.
        sd: standard deviation of the per-case differences.
        level: 1 - alpha of the two-sided test.
        power: chance of seeing it.

    Raises:
        DataError: the difference is 0, or a share lies outside (0, 1).

    Source:
        ((z_alpha/2 + z_beta) * sd / difference)^2, e.g. Chow, Shao and Wang (2008), Sample Size
        Calculations in Clinical Research, section 3.1.

    >>> runs_needed(0.05, 0.5)
    785
    """
    if difference == 0:
        raise DataError("runs_needed: no number of cases shows a difference of 0")
    return max(2, ceil((_z_sum(level, power) * sd / difference) ** 2))


def detectable(cases: int, sd: float, *, level: float = 0.95, power: float = POWER) -> float:
    """Return the smallest true difference of paired means that `cases` cases would show.

    Args:
        cases: number of cases, at least 1.
        sd: standard deviation of the per-case differences.
        level: 1 - alpha of the two-sided test.
        power: chance of seeing it.

    Raises:
        DataError: fewer than one case, or a share lies outside (0, 1).

    Source:
        as `runs_needed`, solved for the difference.

    >>> round(detectable(785, 0.5), 3)
    0.05
    """
    if cases < 1:
        raise DataError(f"detectable needs one or more cases, got {cases}")
    return _z_sum(level, power) * sd / sqrt(cases)


def runs_to_tell(
    value: float, threshold: float, *, alpha: float, power: float = POWER
) -> int | None:
    """Return the independent runs that tell a true share from a threshold, by a one-sided limit.

    Args:
        value: the true share.
        threshold: the share it is told from, strictly between 0 and 1.
        alpha: chance that the limit lies on the wrong side of the truth.
        power: chance of telling them apart.

    Returns:
        The runs; None where the share is the threshold: no number of runs tells them apart.

    Raises:
        DataError: a share is out of range.

    Source:
        the one-sample test of a proportion, e.g. Fleiss, Levin and Paik (2003), Statistical
        Methods for Rates and Proportions, section 2.4.

    >>> runs_to_tell(0.05, 0.10, alpha=0.05)
    184
    """
    if not (0 <= value <= 1 and 0 < threshold < 1 and 0 < alpha < 1 and 0 < power < 1):
        raise DataError(f"runs_to_tell got share {value!r} and threshold {threshold!r}")
    if value == threshold:
        return None
    z_alpha, z_power = NormalDist().inv_cdf(1 - alpha), NormalDist().inv_cdf(power)
    spread = z_alpha * sqrt(threshold * (1 - threshold)) + z_power * sqrt(value * (1 - value))
    return max(1, ceil((spread / (threshold - value)) ** 2))


def _z_sum(level: float, power: float) -> float:
    """Z of the two-sided level plus z of the power."""
    if not (0 < level < 1 and 0 < power < 1):
        raise DataError(f"level {level!r} and power {power!r} must lie between 0 and 1")
    return NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)
