"""What stands beside the runs: records that could not be read, and the account of each file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping

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


def put_account(db: sqlite3.Connection, uri: str, account: Mapping[str, Json]) -> None:
    """Keep what the import of one file found; a later import of it replaces the account."""
    db.execute(
        "INSERT INTO accounts (uri, body, imported_ns) VALUES (?, ?, ?)"
        " ON CONFLICT (uri) DO UPDATE SET body = excluded.body, imported_ns = excluded.imported_ns",
        (uri, msgspec.json.encode(account), time.time_ns()),
    )


def accounts(db: sqlite3.Connection) -> Iterator[dict[str, Json]]:
    """Yield the accounts of all imported files, by file."""
    for (body,) in db.execute("SELECT body FROM accounts ORDER BY uri"):
        yield msgspec.json.decode(body)
