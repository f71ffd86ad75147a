"""The states of batches in the ledger, one function each; call them inside a transaction.

    intended -> submitted -> over
        |                     ^
        +---------------------+   it was never made

An open batch owns its asks, so that no process buys them a second time while a provider has them,
whoever started it and whatever became of him.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stepscope.judges import ledger_rows as rows
from stepscope.judges.ledger_owners import BATCH, Owner
from stepscope.judges.ledger_rows import Buyer, Lives, Standing, Wanted

MISSING = "the batch ended without a word of it"


class Intention(NamedTuple):
    """A batch that is about to be sent: its token, its judge, how it asks."""

    token: str
    judge: str
    structure: str


class Candidate(NamedTuple):
    """An ask that may go into a batch, and the hash of its request."""

    wanted: Wanted
    request: str


class Open(NamedTuple):
    """A batch that is not over.

    Attributes:
        token: ours.
        judge: who is asked.
        owner: of its asks.
        structure: how structured output is asked for in it.
        remote: the provider's name for it; "" while nobody knows whether it was made.
        since: seconds since the epoch, when it was intended.
        keys: of the asks that it still owes.
    """

    token: str
    judge: str
    owner: int
    structure: str
    remote: str
    since: float
    keys: frozenset[str]


def bodies(db: sqlite3.Connection, keys: Sequence[str]) -> dict[str, bytes]:
    """Return the replies that are here, by key."""
    found = db.execute(
        "SELECT key, body FROM replies WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    return dict(found.fetchall())


def intend(
    db: sqlite3.Connection,
    intention: Intention,
    candidates: Sequence[Candidate],
    *,
    buyer: Buyer,
    lives: Lives,
) -> list[Standing]:
    """Claim asks for a batch, and write it down; return how each of them stands."""
    standings = [
        rows.claim(db, candidate.wanted, buyer, lives).standing for candidate in candidates
    ]
    mine = [
        candidate
        for candidate, standing in zip(candidates, standings, strict=True)
        if standing == "mine"
    ]
    if not mine:
        return standings
    made = db.execute(
        "INSERT INTO owners (token, place, pid, start, beat) VALUES (?, ?, 0, '', 0)",
        (intention.token, BATCH),
    )
    now = time.time_ns()
    db.execute(
        "INSERT INTO batches (token, judge, owner, structure, keeper, asks, at_ns)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            intention.token,
            intention.judge,
            made.lastrowid,
            intention.structure,
            buyer.owner,
            len(mine),
            now,
        ),
    )
    db.executemany(
        "UPDATE asks SET state = 'sent', owner = ?, request = ?, attempts = attempts + 1, at_ns = ?"
        " WHERE key = ?",
        [(made.lastrowid, one.request, now, one.wanted.key) for one in mine],
    )
    return standings


def submitted(db: sqlite3.Connection, token: str, remote: str) -> None:
    """Keep the provider's name for a batch."""
    db.execute("UPDATE batches SET remote = ? WHERE token = ?", (remote, token))


def kept(db: sqlite3.Connection, judges: Iterable[str], buyer: Buyer, lives: Lives) -> list[Open]:
    """Take the open batches of these judges that no living run looks after; return ours."""
    found = db.execute(
        "SELECT token, keeper FROM batches WHERE owner IS NOT NULL"
        " AND judge IN (SELECT value FROM json_each(?))",
        (json.dumps(list(judges)),),
    ).fetchall()
    for token, keeper in found:
        if keeper != buyer.owner and not _looked_after(db, keeper, lives):
            db.execute("UPDATE batches SET keeper = ? WHERE token = ?", (buyer.owner, token))
    mine = db.execute(
        "SELECT token, judge, owner, structure, remote, at_ns FROM batches"
        " WHERE owner IS NOT NULL AND keeper = ? ORDER BY at_ns, token",
        (buyer.owner,),
    ).fetchall()
    return [
        Open(token, judge, owner, structure, remote, at / 1e9, _owed(db, owner))
        for token, judge, owner, structure, remote, at in mine
    ]


def _looked_after(db: sqlite3.Connection, keeper: int | None, lives: Lives) -> bool:
    row = db.execute(
        "SELECT token, place, pid, start, beat FROM owners WHERE id = ?", (keeper,)
    ).fetchone()
    return row is not None and lives(Owner(*row))


def _owed(db: sqlite3.Connection, owner: int) -> frozenset[str]:
    found = db.execute("SELECT key FROM asks WHERE owner = ?", (owner,)).fetchall()
    return frozenset(key for (key,) in found)


def remotes(db: sqlite3.Connection) -> frozenset[str]:
    """Return the providers' names of all batches that were ever made."""
    found = db.execute("SELECT remote FROM batches WHERE remote <> ''").fetchall()
    return frozenset(remote for (remote,) in found)


def receive(
    db: sqlite3.Connection, replies: Sequence[tuple[str, bytes, int | None]], owner: int
) -> list[bool]:
    """Keep replies (key, body, cost) of a batch; return which of them were not here before."""
    return [rows.receive(db, key, body, cost, owner) is None for key, body, cost in replies]


def end(
    db: sqlite3.Connection, batch: Open, unpaid: dict[str, str], buyer: Buyer
) -> frozenset[str]:
    """End a batch; return the asks that it says nothing of, which count as paid.

    `unpaid` are those that were not asked, with the reason: "" for one that a later batch asks.
    """
    for key, reason in unpaid.items():
        rows.fail(db, key, reason, buyer._replace(owner=batch.owner))
    missing = _owed(db, batch.owner)
    rows.leave(db, batch.owner, buyer.token, MISSING)
    db.execute("UPDATE batches SET owner = NULL, keeper = NULL WHERE token = ?", (batch.token,))
    return missing


def open_asks(db: sqlite3.Connection) -> list[tuple[str, int, float]]:
    """Return judge, asks that are owed, and time of each open batch, oldest first."""
    return [
        (judge, count, at / 1e9)
        for judge, count, at in db.execute(
            "SELECT judge, (SELECT count(*) FROM asks WHERE asks.owner = batches.owner), at_ns"
            " FROM batches WHERE owner IS NOT NULL ORDER BY at_ns, token"
        ).fetchall()
    ]
