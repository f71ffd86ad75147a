"""The budget that stops a judge: what may be spent under one name, and what each call may cost.

What a call can cost at worst is reserved before it is sent, where the budget holds it; what it did
cost is settled afterwards. Several processes share a budget by its name. Money is counted in
billionths of a USD, so that sums are exact; a price that nobody knows fits into no budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import msgspec

from stepscope.errors import ConfigError
from stepscope.runtime.database import Connection

NANO = 1_000_000_000
# No amount is larger, and sums of such stay in the integers of a database.
MOST_USD = 1e9


class Budget(msgspec.Struct, frozen=True):
    """What may be spent under one name."""

    name: str = ""  # shared by all who name it; "" is a budget of this run alone
    # the most, all runs of the name together; None spends without a limit
    limit_usd: float | None = 5.0

    def __post_init__(self) -> None:
        """Raise `ConfigError` where the limit is negative or not finite."""
        if self.limit_usd is not None and not 0 <= self.limit_usd < math.inf:
            raise ConfigError(f"a budget of {self.limit_usd!r} USD; expected zero or more")


def to_nano_usd(usd: float) -> int:
    """Return an amount in billionths, rounded up: never is less counted than what is paid."""
    return math.ceil(min(usd, MOST_USD) * NANO)


def to_usd(amount: int) -> float:
    """Return an amount in USD."""
    return amount / NANO


def open_budget(db: Connection, name: str, most: int | None) -> None:
    """Make a budget, or set its limit to what was said last; what is spent stays spent."""
    db.execute(
        "INSERT INTO budgets (name, most) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET most = excluded.most",
        (name, most),
    )


def reserve_money(
    db: Connection, worst: int | None, budget: str, expire: Callable[[], int]
) -> Literal["mine", "full", "over", "unpriced"]:
    """Reserve the worst that a call can cost, where the budget holds it.

    `expire` frees what dead workers had reserved, and returns how many were dead.
    """
    most, spent, reserved = read_budget(db, budget)
    if worst is None and most is not None:
        return "unpriced"
    known = worst or 0
    if most is not None and spent + reserved + known > most and expire():
        most, spent, reserved = read_budget(db, budget)
    if most is not None and (most == 0 or spent + reserved + known > most):
        return "full" if reserved and spent + known <= most and most else "over"
    db.execute("UPDATE budgets SET reserved = reserved + ? WHERE name = ?", (known, budget))
    return "mine"


def read_budget(db: Connection, name: str) -> tuple[int | None, int, int]:
    """Return the limit of a budget, what is spent of it, and what is reserved."""
    row = db.execute("SELECT most, spent, reserved FROM budgets WHERE name = ?", (name,)).fetchone()
    return row[0], row[1], row[2]


def settle_money(db: Connection, key: str, *, spent: int) -> None:
    """Free what was reserved for an ask, and count what was paid."""
    db.execute(
        "UPDATE budgets SET reserved = budgets.reserved - asks.reserved, spent = spent + ?"
        " FROM asks WHERE asks.key = ? AND budgets.name = asks.budget",
        (spent, key),
    )
    db.execute("UPDATE asks SET reserved = 0 WHERE key = ?", (key,))
