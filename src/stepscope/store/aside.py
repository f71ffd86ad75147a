"""What stands beside the runs: records that could not be read, and the account of each file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from stepscope.model import Json, Quarantined
from stepscope.safety.redact import Redactor


def put_quarantined(
    db: sqlite3.Connection, items: Iterable[Quarantined], redactor: Redactor
) -> int:
    """Keep records with their bytes, secrets hidden in the reasons; return how many were new."""
    now, before = time.time_ns(), db.total_changes
    db.executemany(
        "INSERT INTO quarantine (uri, place, reason, raw, imported_ns)"
        " VALUES (?, ?, ?, ?, ?) ON CONFLICT (uri, place, reason) DO NOTHING",
        ((q.uri, q.offset, redactor.redact(q.reason).text, q.raw, now) for q in items),
    )
    return db.total_changes - before


def quarantined(db: sqlite3.Connection) -> Iterator[Quarantined]:
    """Yield what could not be read, by file and offset."""
    for uri, offset, reason, raw in db.execute(
        "SELECT uri, place, reason, raw FROM quarantine ORDER BY uri, place, reason"
    ):
        yield Quarantined(reason=reason, offset=offset, raw=raw, uri=uri)


def put_account(
    db: sqlite3.Connection, uri: str, account: Mapping[str, Json], at_ns: int | None
) -> None:
    """Keep what the import of one file found; a later import of it replaces the account."""
    db.execute(
        "INSERT INTO accounts (uri, body, imported_ns) VALUES (?, ?, ?)"
        " ON CONFLICT (uri) DO UPDATE SET body = excluded.body, imported_ns = excluded.imported_ns",
        (uri, msgspec.json.encode(account), time.time_ns() if at_ns is None else at_ns),
    )


def accounts(db: sqlite3.Connection) -> Iterator[dict[str, Json]]:
    """Yield the accounts of all imported files, by file."""
    for (body,) in db.execute("SELECT body FROM accounts ORDER BY uri"):
        yield msgspec.json.decode(body)


def accounts_with(
    db: sqlite3.Connection, runs: Collection[str], *, later: bool
) -> Iterator[dict[str, Json]]:
    """Yield the accounts of the imports that brought these runs, and of files of no run since.

    With `later`, only those of imports that came after all of the runs, and of their files.
    """
    held: dict[str | None, list[bool]] = {}
    times = []
    for id_, uri, at, imported in db.execute(
        "SELECT runs.id, runs.uri, runs.imported_ns, accounts.imported_ns"
        " FROM runs LEFT JOIN accounts ON accounts.uri = runs.uri"
    ):
        held.setdefault(uri, []).append(id_ in runs)
        if id_ in runs:
            times.append((at, at if imported is None else imported))
    if not times:
        return
    since = 1 + max(at for at, _ in times) if later else min(min(pair) for pair in times)
    imports = set() if later else {imported for _, imported in times}
    for uri, body, imported in db.execute("SELECT uri, body, imported_ns FROM accounts"):
        if imported in imports or (imported >= since and any(held.get(uri, [True]))):
            yield msgspec.json.decode(body)
