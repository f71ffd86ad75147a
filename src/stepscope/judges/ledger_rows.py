"""Every change of state in the ledger, one function each; call them inside a transaction.

    planned -> sent -> received -> verdict
       ^         |
       +---------+--> failed, or of unknown outcome

Money moves with the state: what a call can cost at worst is reserved when it is claimed, and is
spent when it was paid, or when nobody can know whether it was.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from stepscope.judges.ledger_owners import BATCH, Owner

# mine: claimed, and to be sent by whoever asked. bought: the reply is there. elsewhere: another
# run is about to buy it, or this one under way. batched: a batch under way holds it. full: the
# money is reserved for other calls, some of which may come back. over: the budget does not hold
# it. unpriced: a budget holds, and nobody knows what it costs.
Standing = Literal["mine", "bought", "elsewhere", "batched", "full", "over", "unpriced"]
Lives = Callable[[Owner], bool]

DIED = "the process ended before the answer was kept"
NO_ANSWER = "the connection broke, or the answer was none"
STOPPED = "the run was stopped before the answer came"


class Wanted(NamedTuple):
    """An ask as the ledger knows it; `worst` is what it costs at worst, None where nobody knows.

    In billionths of a USD.
    """

    key: str
    trajectory: str
    judge: str
    worst: int | None


class Buyer(NamedTuple):
    """Who buys, on whose money."""

    owner: int
    token: str
    budget: str


class Claim(NamedTuple):
    """How an ask stands; body and cost where it is bought."""

    standing: Standing
    body: bytes | None = None
    cost: int | None = None


def join(db: sqlite3.Connection, owner: Owner, lives: Lives) -> int:
    """Enter a run as an owner, and settle what dead ones have left; return its row."""
    bury(db, owner.token, lives)
    made = db.execute(
        "INSERT INTO owners (token, place, pid, start, beat) VALUES (?, ?, ?, ?, ?)", owner
    )
    return int(made.lastrowid or 0)


def beat(db: sqlite3.Connection, owner: int) -> None:
    """Say that a run is alive."""
    db.execute("UPDATE owners SET beat = beat + 1 WHERE id = ?", (owner,))


def bury(db: sqlite3.Connection, finder: str, lives: Lives) -> int:
    """Settle what owners that are dead have left; return how many there were."""
    rows = db.execute("SELECT id, token, place, pid, start, beat FROM owners").fetchall()
    dead = [row[0] for row in rows if not lives(Owner(*row[1:]))]
    for owner in dead:
        leave(db, owner, finder, DIED)
    return len(dead)


def leave(db: sqlite3.Connection, owner: int, finder: str, why: str) -> None:
    """Give back what an owner planned, list what it has sent, and remove it."""
    for key, state in db.execute(
        "SELECT key, state FROM asks WHERE owner = ?", (owner,)
    ).fetchall():
        if state == "sent":
            _unknown(db, key, finder, why)
        _settle(db, key, spent=0)
        db.execute("UPDATE asks SET state = 'planned', owner = NULL WHERE key = ?", (key,))
    db.execute("DELETE FROM owners WHERE id = ?", (owner,))


def open_budget(db: sqlite3.Connection, name: str, most: int | None) -> None:
    """Make a budget, or set its limit to what was said last; what is spent stays spent."""
    db.execute(
        "INSERT INTO budgets (name, most) VALUES (?, ?)"
        " ON CONFLICT (name) DO UPDATE SET most = excluded.most",
        (name, most),
    )


def claim(db: sqlite3.Connection, wanted: Wanted, buyer: Buyer, lives: Lives) -> Claim:
    """Take an ask for a run and reserve its money, unless it is bought or somebody else's."""
    row = db.execute(
        "SELECT owner, cost, body FROM asks LEFT JOIN replies ON replies.key = asks.key"
        " WHERE asks.key = ?",
        (wanted.key,),
    ).fetchone()
    if row is not None:
        owner, cost, body = row
        if body is not None:
            return Claim("bought", body, cost)
        if owner is not None and _held(db, owner, buyer.token, lives):
            return Claim("batched" if _batched(db, owner) else "elsewhere")
    fits = _reserve(db, wanted.worst, buyer, lives)
    if fits != "mine":
        return Claim(fits)
    db.execute(
        "INSERT INTO asks (key, trajectory, judge, state, owner, budget, reserved, at_ns)"
        " VALUES (?, ?, ?, 'planned', ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
        " state = 'planned', owner = excluded.owner, budget = excluded.budget,"
        " reserved = excluded.reserved, cost = NULL, reason = '', at_ns = excluded.at_ns",
        (
            wanted.key,
            wanted.trajectory,
            wanted.judge,
            buyer.owner,
            buyer.budget,
            wanted.worst or 0,
            time.time_ns(),
        ),
    )
    return Claim("mine")


def _batched(db: sqlite3.Connection, owner: int) -> bool:
    """Tell whether an owner is no run, but a batch at a provider."""
    row = db.execute("SELECT place FROM owners WHERE id = ?", (owner,)).fetchone()
    return row is not None and row[0] == BATCH


def _held(db: sqlite3.Connection, owner: int, finder: str, lives: Lives) -> bool:
    """Tell whether the owner of a row lives; a dead one is settled."""
    row = db.execute(
        "SELECT token, place, pid, start, beat FROM owners WHERE id = ?", (owner,)
    ).fetchone()
    if row is not None and lives(Owner(*row)):
        return True
    leave(db, owner, finder, DIED)
    return False


def _reserve(db: sqlite3.Connection, known: int | None, buyer: Buyer, lives: Lives) -> Standing:
    """Reserve the worst that a call can cost, where the budget holds it."""
    most, spent, reserved = _budget(db, buyer.budget)
    if known is None and most is not None:
        return "unpriced"
    worst = known or 0
    if most is not None and spent + reserved + worst > most and bury(db, buyer.token, lives):
        most, spent, reserved = _budget(db, buyer.budget)
    if most is not None and (most == 0 or spent + reserved + worst > most):
        return "full" if reserved and spent + worst <= most and most else "over"
    db.execute("UPDATE budgets SET reserved = reserved + ? WHERE name = ?", (worst, buyer.budget))
    return "mine"


def _budget(db: sqlite3.Connection, name: str) -> tuple[int | None, int, int]:
    row = db.execute("SELECT most, spent, reserved FROM budgets WHERE name = ?", (name,)).fetchone()
    return row[0], row[1], row[2]


def send(db: sqlite3.Connection, key: str, request: str, owner: int) -> bool:
    """Note that an ask is about to be sent; False when it was taken over, or its reply is here."""
    done = db.execute(
        "UPDATE asks SET state = 'sent', request = ?, attempts = attempts + 1, at_ns = ?"
        " WHERE key = ? AND owner = ? AND NOT EXISTS (SELECT 1 FROM replies WHERE key = asks.key)",
        (request, time.time_ns(), key, owner),
    )
    return done.rowcount == 1


def again(db: sqlite3.Connection, key: str, buyer: Buyer) -> bool:
    """Note that an ask whose last answer never came is about to be sent once more.

    The first sending counts as paid. False when the budget does not hold a second one: then the ask
    has failed.
    """
    row = db.execute(
        "SELECT reserved FROM asks WHERE key = ? AND owner = ?", (key, buyer.owner)
    ).fetchone()
    if row is None:
        return False
    _unknown(db, key, buyer.token, NO_ANSWER)
    most, spent, reserved = _budget(db, buyer.budget)
    if most is not None and spent + reserved > most:
        _end(db, key, "failed", "the budget holds no second sending")
        return False
    db.execute("UPDATE asks SET attempts = attempts + 1 WHERE key = ?", (key,))
    return True


def receive(
    db: sqlite3.Connection, key: str, body: bytes, cost: int | None, owner: int
) -> bytes | None:
    """Keep a reply; return another one where that was kept before it, which then stands.

    A reply whose cost is not known counts as the worst that was reserved for it.
    """
    row = db.execute("SELECT owner, reserved FROM asks WHERE key = ?", (key,)).fetchone()
    mine = row is not None and row[0] == owner
    made = db.execute(
        "INSERT INTO replies (key, body, at_ns) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
        (key, body, time.time_ns()),
    )
    if mine:
        _settle(db, key, spent=row[1] if cost is None else cost)
        _end(db, key, "received", "")
    if made.rowcount == 1:
        db.execute("UPDATE asks SET cost = ? WHERE key = ?", (cost, key))
        db.execute("UPDATE asks SET state = 'received' WHERE key = ? AND owner IS NULL", (key,))
        return None
    kept = db.execute("SELECT body FROM replies WHERE key = ?", (key,)).fetchone()
    return bytes(kept[0])


def fail(db: sqlite3.Connection, key: str, reason: str, buyer: Buyer, *, unknown: str = "") -> None:
    """Give an ask up; `unknown` says why nobody can know whether it was paid, "" when it was not.

    It is asked again by a later run.
    """
    if not db.execute(
        "SELECT 1 FROM asks WHERE key = ? AND owner = ?", (key, buyer.owner)
    ).fetchone():
        return
    if unknown:
        _unknown(db, key, buyer.token, unknown)
    _end(db, key, "failed" if reason else "planned", reason)


def done(db: sqlite3.Connection, keys: Sequence[str]) -> None:
    """Note that what the replies say is in the store."""
    db.executemany(
        "UPDATE asks SET state = 'verdict' WHERE key = ? AND state = 'received'",
        [(key,) for key in keys],
    )


def erase(db: sqlite3.Connection, trajectories: str) -> int:
    """Delete the replies about runs, a JSON array of ids; return how many there were."""
    chosen = " (SELECT key FROM asks WHERE trajectory IN (SELECT value FROM json_each(?)))"
    deleted = db.execute("DELETE FROM replies WHERE key IN" + chosen, (trajectories,)).rowcount
    db.execute("UPDATE asks SET reason = '' WHERE key IN" + chosen, (trajectories,))
    return deleted


def _unknown(db: sqlite3.Connection, key: str, finder: str, why: str) -> None:
    """List the last sending of an ask as of unknown outcome, and count its money as spent."""
    db.execute(
        "INSERT INTO unknown (key, trajectory, judge, attempt, worst, budget, why, run, at_ns)"
        " SELECT key, trajectory, judge, attempts, reserved, budget, ?, ?, ? FROM asks"
        " WHERE key = ?",
        (why, finder, time.time_ns(), key),
    )
    db.execute(
        "UPDATE budgets SET spent = spent + asks.reserved FROM asks"
        " WHERE asks.key = ? AND budgets.name = asks.budget",
        (key,),
    )


def _settle(db: sqlite3.Connection, key: str, *, spent: int) -> None:
    """Free what was reserved for an ask, and count what was paid."""
    db.execute(
        "UPDATE budgets SET reserved = budgets.reserved - asks.reserved, spent = spent + ?"
        " FROM asks WHERE asks.key = ? AND budgets.name = asks.budget",
        (spent, key),
    )
    db.execute("UPDATE asks SET reserved = 0 WHERE key = ?", (key,))


def _end(db: sqlite3.Connection, key: str, state: str, reason: str) -> None:
    """Free an ask from its owner, and what was reserved for it."""
    _settle(db, key, spent=0)
    db.execute(
        "UPDATE asks SET state = ?, reason = ?, owner = NULL, at_ns = ? WHERE key = ?",
        (state, reason, time.time_ns(), key),
    )
