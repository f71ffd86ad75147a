"""Money: what a run of judges may spend, counted in billionths of a USD so that sums are exact.

A call is let go when the worst that it can cost still fits beside what is spent and what other
calls may still cost, in whatever process. A price that nobody knows fits into no budget.
"""

from __future__ import annotations

import math

import msgspec

from stepscope.errors import ConfigError

NANO = 1_000_000_000


class Budget(msgspec.Struct, frozen=True):
    """What may be spent under one name.

    Attributes:
        name: shared by all who name it; "" is a budget of this run alone.
        limit_usd: the most, all runs of the name together; None spends without a limit.
    """

    name: str = ""
    limit_usd: float | None = 5.0

    def __post_init__(self) -> None:
        """Refuse a limit that is none.

        Raises:
            ConfigError: the limit is negative or not finite.
        """
        if self.limit_usd is not None and not 0 <= self.limit_usd < math.inf:
            raise ConfigError(f"a budget of {self.limit_usd!r} USD; expected zero or more")


def nano(usd: float) -> int:
    """Return an amount in billionths, rounded up: what is counted is never less than what is paid.

    >>> nano(0.0000000001), nano(1.5)
    (1, 1500000000)
    """
    return math.ceil(usd * NANO)


def usd(amount: int) -> float:
    """Return an amount in USD.

    >>> usd(1500000000)
    1.5
    """
    return amount / NANO
