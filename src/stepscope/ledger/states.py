"""Every change of state in the ledger, one function each; call them inside a transaction.

    planned -> sent -> received -> verdict
       ^         |
       +---------+--> failed, or of unknown outcome

    batch: intended -> submitted -> over
               |                     ^
               +---------------------+   it was never made

Money moves with the state: what a call can cost at worst is reserved when it is claimed, and is
spent when it was paid, or when nobody can know whether it was. An open batch owns its asks, so that
no process pays for them a second time while a provider has them.

Workers hold leases without a clock: in one place (a boot of a machine, a namespace of processes) a
process is known by its number and its start; elsewhere by a heartbeat, a number that it raises
every few seconds. A worker whose heartbeat stands still for long enough is taken for dead.

An ask has a subject (what it is about, the id of a run) and a purpose (what it is paid for, the
name of a judge). The columns keep the names of existing ledgers: `trajectory` and `judge`.
"""

from __future__ import annotations

import json
import os
import platform
import secrets
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from stepscope.errors import StoreError
from stepscope.ledger.budget import read_budget, reserve_money, settle_money
from stepscope.model import Reply, Structure
from stepscope.models.batches import Batch
from stepscope.runtime.database import Connection

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Reply).decode

# Ten beats: a machine that swaps is slow, not dead.
HEARTBEAT_SECONDS = 5.0
DEAD_SECONDS = 50.0
# In place of a machine's: an owner that is no process but a batch at a provider (`judges.run`).
BATCH_PLACE = "batch"
# Beyond this a number of tokens is none, whoever tells it.
MOST_TOKENS = 10**9
TOKEN_COUNTS = ("input_total", "cache_read", "cache_write", "output_total", "reasoning")
_START_FIELD = 19  # of the fields behind the name in /proc/PID/stat: the start, in ticks since boot


class Owner(NamedTuple):
    """A worker as other processes see it."""

    token: str
    place: str
    pid: int
    start: str
    beat: int


def new_owner() -> Owner:
    """Return a new owner: this process, under a random token."""
    pid = os.getpid()
    return Owner(secrets.token_hex(16), _process_place(), pid, _process_start(pid) or "", 0)


class LivenessMonitor:
    """Tells which owners live; remembers their beats."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Measure how long a beat stands still by `now`, which never goes back."""
        self._now = now
        self._seen: dict[str, tuple[int, float]] = {}

    def lives(self, owner: Owner) -> bool:
        """Tell whether a run may still be under way."""
        if owner.place == BATCH_PLACE:
            return True
        if owner.place == _process_place():
            return _process_start(owner.pid) == owner.start
        now = self._now()
        beat, since = self._seen.get(owner.token, (-1, now))
        if beat != owner.beat:
            self._seen[owner.token] = (owner.beat, now)
            return True
        return now - since < DEAD_SECONDS


@cache
def _process_place() -> str:
    """Return what tells the process numbers that this process sees from those of others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def _process_start(pid: int) -> str | None:
    """Return when a process started, in its machine's own terms; None when there is none."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        try:  # a system without /proc
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass  # somebody else's, but there
        return ""
    fields = said.rpartition(")")[2].split()
    # A process that was killed and not yet waited for buys nothing any more.
    return None if fields[0] in {"Z", "X"} else fields[_START_FIELD]


# mine: claimed, and to be sent by whoever asked. bought: the reply is there. elsewhere: another
# run is about to buy it, or this one under way. batched: a batch under way holds it. full: the
# money is reserved for other calls, some of which may come back. over: the budget does not hold
# it. unpriced: a budget holds, and nobody knows what it costs.
Standing = Literal["mine", "bought", "elsewhere", "batched", "full", "over", "unpriced"]
IsAlive = Callable[[Owner], bool]

WORKER_DIED = "the process ended before the answer was kept"
NO_ANSWER = "the connection broke, or the answer was none"
WORKER_STOPPED = "the run was stopped before the answer came"


class LedgerAsk(NamedTuple):
    """An ask as the ledger knows it."""

    key: str
    subject: str
    purpose: str
    worst: int | None  # what it costs at worst, in billionths of a USD; None where nobody knows
    request: str = ""  # hash of its request, where it goes into a batch


class Worker(NamedTuple):
    """Who pays, from which budget."""

    owner: int
    token: str
    budget: str


class Paid(NamedTuple):
    """A paid reply, already written to the ledger."""

    reply: Reply
    cost: int | None  # in billionths of a USD; None where nobody knows
    fresh: bool  # whether this worker has paid for it
    ignored: bool = False  # whether its endpoint let the model ignore the schema that it accepted


def bound_usage(reply: Reply) -> Reply:
    """Return a reply without counts of tokens that no reply has: what it cost is then unknown."""
    if reply.usage is None:
        return reply
    told = {name: getattr(reply.usage, name) for name in TOKEN_COUNTS}
    absurd = [name for name, n in told.items() if n is not None and not 0 <= n <= MOST_TOKENS]
    if not absurd:
        return reply
    usage = msgspec.structs.replace(reply.usage, **dict.fromkeys(absurd))
    return msgspec.structs.replace(reply, usage=usage)


def pack_reply(reply: Reply) -> bytes:
    """Return a reply as the ledger keeps it; lone surrogates, which no UTF-8 holds, are escaped."""
    try:
        return zlib.compress(_encode(reply), 1)
    except UnicodeEncodeError:
        return zlib.compress(_encode(_escape_surrogates(reply)), 1)


def _escape_surrogates(reply: Reply) -> Reply:
    def escape(text: str) -> str:
        return text.encode("utf-8", "backslashreplace").decode()

    texts = {name: escape(getattr(reply, name)) for name in ("text", "model", "request_id")}
    headers = {escape(name): escape(value) for name, value in reply.headers.items()}
    return msgspec.structs.replace(reply, **texts, headers=headers)


def unpack_reply(body: bytes) -> Reply:
    """Return a reply that the ledger kept; `StoreError` where its bytes are none."""
    try:
        return _decode(zlib.decompress(body))
    except (zlib.error, msgspec.DecodeError) as e:
        raise StoreError(
            f"a reply in the ledger is damaged ({e}); restore the ledger from a copy, or move it "
            "away: what it held is then asked and paid again"
        ) from e


def register_worker(db: Connection, owner: Owner, lives: IsAlive) -> int:
    """Enter a worker, after releasing the claims of dead ones; return its row.

    What dead ones had found of others, and nobody has acknowledged, is now this one's to tell.
    """
    expire_workers(db, owner.token, lives)
    db.execute(
        "UPDATE unknown SET run = ? WHERE run <> '' AND run NOT IN (SELECT token FROM owners)",
        (owner.token,),
    )
    insert = "INSERT INTO owners (token, place, pid, start, beat) VALUES (?, ?, ?, ?, ?)"
    return int(db.execute(insert, owner).lastrowid or 0)


def record_heartbeat(db: Connection, owner: int) -> None:
    """Record that a worker is alive."""
    db.execute("UPDATE owners SET beat = beat + 1 WHERE id = ?", (owner,))


def expire_workers(db: Connection, finder: str, lives: IsAlive) -> int:
    """Release the claims of dead workers. Returns how many were dead."""
    rows = db.execute("SELECT id, token, place, pid, start, beat FROM owners").fetchall()
    dead = [row[0] for row in rows if not lives(Owner(*row[1:]))]
    for owner in dead:
        release_claims(db, owner, finder, WORKER_DIED)
    return len(dead)


def release_claims(db: Connection, owner: int, finder: str, why: str) -> None:
    """Release an owner's claims, list what it has sent as of unknown outcome, and remove it."""
    _release_asks(db, owner, finder, why)
    db.execute("DELETE FROM owners WHERE id = ?", (owner,))


def leave_ledger(db: Connection, buyer: Worker) -> None:
    """End a run: its claims are released, and what it has sent is listed.

    A run that found calls of unknown outcome stays a row while its process lives, so that nobody
    else tells of them, and somebody does when the process dies first.
    """
    _release_asks(db, buyer.owner, buyer.token, WORKER_STOPPED)
    db.execute("UPDATE batches SET keeper = NULL WHERE keeper = ?", (buyer.owner,))
    ended = "DELETE FROM owners WHERE id = ? AND token NOT IN (SELECT run FROM unknown)"
    db.execute(ended, (buyer.owner,))


def acknowledge_unknown(db: Connection, calls: Iterable[tuple[str, int]]) -> None:
    """Note that somebody was told of these calls of unknown outcome, by key and attempt."""
    db.executemany("UPDATE unknown SET run = '' WHERE key = ? AND attempt = ?", calls)


def _release_asks(db: Connection, owner: int, finder: str, why: str) -> None:
    for key, was in db.execute("SELECT key, state FROM asks WHERE owner = ?", (owner,)).fetchall():
        if was == "sent":
            _list_unknown(db, key, finder, why)
        settle_money(db, key, spent=0)
        db.execute("UPDATE asks SET state = 'planned', owner = NULL WHERE key = ?", (key,))


def claim_ask(db: Connection, wanted: LedgerAsk, buyer: Worker, lives: IsAlive) -> Standing | Paid:
    """Claim an ask and reserve its money, unless it is paid or another worker's."""
    row = db.execute(
        "SELECT owner, cost, body FROM asks LEFT JOIN replies ON replies.key = asks.key"
        " WHERE asks.key = ?",
        (wanted.key,),
    ).fetchone()
    if row is not None:
        owner, cost, body = row
        if body is not None:
            return Paid(unpack_reply(body), cost, fresh=False)
        if owner is not None and _is_held(db, owner, buyer.token, lives):
            place = db.execute("SELECT place FROM owners WHERE id = ?", (owner,)).fetchone()
            return "batched" if place == (BATCH_PLACE,) else "elsewhere"
    expire = partial(expire_workers, db, buyer.token, lives)
    fits = reserve_money(db, wanted.worst, buyer.budget, expire)
    if fits != "mine":
        return fits
    db.execute(
        "INSERT INTO asks (key, trajectory, judge, state, owner, budget, reserved, at_ns)"
        " VALUES (?, ?, ?, 'planned', ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET"
        " state = 'planned', owner = excluded.owner, budget = excluded.budget,"
        " reserved = excluded.reserved, cost = NULL, reason = '', at_ns = excluded.at_ns",
        (*wanted[:3], buyer.owner, buyer.budget, wanted.worst or 0, time.time_ns()),
    )
    return "mine"


def _is_held(db: Connection, owner: int, finder: str, lives: IsAlive) -> bool:
    """Tell whether the owner of a row lives; a dead one is settled."""
    if _is_alive(db, owner, lives):
        return True
    release_claims(db, owner, finder, WORKER_DIED)
    return False


def note_sent(db: Connection, key: str, request: str, owner: int) -> bool:
    """Note that an ask is about to be sent; False when it was taken over, or its reply is here."""
    done = db.execute(
        "UPDATE asks SET state = 'sent', request = ?, attempts = attempts + 1, at_ns = ?"
        " WHERE key = ? AND owner = ? AND NOT EXISTS (SELECT 1 FROM replies WHERE key = asks.key)",
        (request, time.time_ns(), key, owner),
    )
    return done.rowcount == 1


def note_resent(db: Connection, key: str, buyer: Worker) -> bool:
    """Note that an ask whose last answer never came is about to be sent once more.

    The first sending counts as paid. False when the budget does not hold a second one: then the ask
    has failed.
    """
    owned = "SELECT reserved FROM asks WHERE key = ? AND owner = ?"
    if db.execute(owned, (key, buyer.owner)).fetchone() is None:
        return False
    _list_unknown(db, key, buyer.token, NO_ANSWER)
    most, spent, reserved = read_budget(db, buyer.budget)
    if most is not None and spent + reserved > most:
        _free_ask(db, key, "failed", "the budget holds no second sending")
        return False
    db.execute("UPDATE asks SET attempts = attempts + 1 WHERE key = ?", (key,))
    return True


def store_reply(
    db: Connection, key: str, body: bytes, cost: int | None, owner: int
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
        settle_money(db, key, spent=row[1] if cost is None else cost)
        _free_ask(db, key, "received", "")
    if made.rowcount == 1:
        db.execute("UPDATE asks SET cost = ? WHERE key = ?", (cost, key))
        db.execute("UPDATE asks SET state = 'received' WHERE key = ? AND owner IS NULL", (key,))
        return None
    return bytes(db.execute("SELECT body FROM replies WHERE key = ?", (key,)).fetchone()[0])


def fail_ask(db: Connection, key: str, reason: str, buyer: Worker, *, unknown: str = "") -> None:
    """Give an ask up; `unknown` says why nobody can know whether it was paid, "" when it was not.

    It is asked again by a later run.
    """
    owned = "SELECT 1 FROM asks WHERE key = ? AND owner = ?"
    if not db.execute(owned, (key, buyer.owner)).fetchone():
        return
    if unknown:
        _list_unknown(db, key, buyer.token, unknown)
    _free_ask(db, key, "failed" if reason else "planned", reason)


def note_recorded(db: Connection, keys: Sequence[str]) -> None:
    """Note that what the replies say is in the store."""
    db.executemany(
        "UPDATE asks SET state = 'verdict' WHERE key = ? AND state = 'received'",
        [(key,) for key in keys],
    )


def erase_replies(db: Connection, subjects: str) -> int:
    """Delete the replies about subjects, a JSON array of ids; return how many there were."""
    chosen = " (SELECT key FROM asks WHERE trajectory IN (SELECT value FROM json_each(?)))"
    deleted = db.execute("DELETE FROM replies WHERE key IN" + chosen, (subjects,)).rowcount
    db.execute("UPDATE asks SET reason = '' WHERE key IN" + chosen, (subjects,))
    return deleted


def _list_unknown(db: Connection, key: str, finder: str, why: str) -> None:
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


def _free_ask(db: Connection, key: str, state: str, reason: str) -> None:
    settle_money(db, key, spent=0)
    db.execute(
        "UPDATE asks SET state = ?, reason = ?, owner = NULL, at_ns = ? WHERE key = ?",
        (state, reason, time.time_ns(), key),
    )


NO_BATCH_RESULT = "the batch ended without a word of it"


def stored_bodies(db: Connection, keys: Sequence[str]) -> dict[str, bytes]:
    """Return the replies that are here, by key."""
    found = db.execute(
        "SELECT key, body FROM replies WHERE key IN (SELECT value FROM json_each(?))",
        (json.dumps(keys),),
    )
    return dict(found.fetchall())


def claim_batch(
    db: Connection,
    token: str,
    structure: Structure,
    asks: Sequence[LedgerAsk],
    *,
    buyer: Worker,
    lives: IsAlive,
) -> list[Standing]:
    """Claim asks of one purpose for a batch, and write it down; return how each of them stands."""
    claims = [claim_ask(db, ask, buyer, lives) for ask in asks]
    standings: list[Standing] = ["bought" if isinstance(one, Paid) else one for one in claims]
    mine = [ask for ask, standing in zip(asks, standings, strict=True) if standing == "mine"]
    if not mine:
        return standings
    made = db.execute(
        "INSERT INTO owners (token, place, pid, start, beat) VALUES (?, ?, 0, '', 0)",
        (token, BATCH_PLACE),
    )
    now = time.time_ns()
    db.execute(
        "INSERT INTO batches (token, judge, owner, structure, keeper, asks, at_ns)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (token, mine[0].purpose, made.lastrowid, structure, buyer.owner, len(mine), now),
    )
    db.executemany(
        "UPDATE asks SET state = 'sent', owner = ?, request = ?, attempts = attempts + 1, at_ns = ?"
        " WHERE key = ?",
        [(made.lastrowid, ask.request, now, ask.key) for ask in mine],
    )
    return standings


def note_submitted(db: Connection, token: str, remote: str) -> None:
    """Keep the provider's name for a batch."""
    db.execute("UPDATE batches SET remote = ? WHERE token = ?", (remote, token))


def adopt_batches(
    db: Connection, purposes: Iterable[str], buyer: Worker, lives: IsAlive
) -> list[Batch]:
    """Take the open batches of these purposes that no living worker polls; return ours."""
    found = db.execute(
        "SELECT token, keeper FROM batches WHERE owner IS NOT NULL"
        " AND judge IN (SELECT value FROM json_each(?))",
        (json.dumps(list(purposes)),),
    ).fetchall()
    for token, keeper in found:
        if keeper != buyer.owner and not _is_alive(db, keeper, lives):
            db.execute("UPDATE batches SET keeper = ? WHERE token = ?", (buyer.owner, token))
    mine = db.execute(
        "SELECT token, judge, owner, structure, remote, at_ns FROM batches"
        " WHERE owner IS NOT NULL AND keeper = ? ORDER BY at_ns, token",
        (buyer.owner,),
    ).fetchall()
    return [
        Batch(token, _owed_keys(db, owner), structure, at / 1e9, purpose, owner, remote)
        for token, purpose, owner, structure, remote, at in mine
    ]


def _is_alive(db: Connection, owner: int | None, lives: IsAlive) -> bool:
    query = "SELECT token, place, pid, start, beat FROM owners WHERE id = ?"
    row = db.execute(query, (owner,)).fetchone()
    return row is not None and lives(Owner(*row))


def _owed_keys(db: Connection, owner: int) -> frozenset[str]:
    found = db.execute("SELECT key FROM asks WHERE owner = ?", (owner,)).fetchall()
    return frozenset(key for (key,) in found)


def remote_names(db: Connection) -> frozenset[str]:
    """Return the providers' names of all batches that were ever made."""
    found = db.execute("SELECT remote FROM batches WHERE remote <> ''").fetchall()
    return frozenset(remote for (remote,) in found)


def end_batch(
    db: Connection, batch: Batch, unpaid: dict[str, str], buyer: Worker
) -> frozenset[str]:
    """End a batch; return the asks that it says nothing of, which count as paid.

    `unpaid` are those that were not asked, with the reason: "" for one that a later batch asks.
    """
    for key, reason in unpaid.items():
        fail_ask(db, key, reason, buyer._replace(owner=batch.owner))
    missing = _owed_keys(db, batch.owner)
    release_claims(db, batch.owner, buyer.token, NO_BATCH_RESULT)
    db.execute("UPDATE batches SET owner = NULL, keeper = NULL WHERE token = ?", (batch.token,))
    return missing
