"""What was sent where, beside the store: sending again sends what is new or has changed.

A row is written when the backend has taken the whole part; what was under way when a process died
is sent again, under the same ids. Without the file everything is sent again, which changes nothing
there either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import sha256
from types import TracebackType
from typing import Literal, Self

from stepscope.sqlite import MEMORY, faults

Part = Literal["spans", "verdicts"]

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS sent (target TEXT NOT NULL, run TEXT NOT NULL, part TEXT NOT NULL,"
    " digest TEXT NOT NULL, PRIMARY KEY (target, run, part)) WITHOUT ROWID"
)


class Ledger:
    """The rows of one target; a context manager that closes the file."""

    def __init__(self, store: str, target: str) -> None:
        """Open the ledger beside the store at this path."""
        self._path = MEMORY if store == MEMORY else f"{store}.sent.db"
        self._target = target
        with faults(self._path):
            self._db = sqlite3.connect(self._path, isolation_level=None)
            self._db.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._db.close()

    def holds(self, run: str, part: Part, digest: str) -> bool:
        """Whether this very content was taken there."""
        with faults(self._path):
            row = self._db.execute(
                "SELECT digest FROM sent WHERE target = ? AND run = ? AND part = ?",
                (self._target, run, part),
            ).fetchone()
        return row is not None and row[0] == digest

    def keep(self, run: str, part: Part, digest: str) -> None:
        """Note that this content was taken there."""
        with faults(self._path):
            self._db.execute(
                "INSERT INTO sent (target, run, part, digest) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (target, run, part) DO UPDATE SET digest = excluded.digest",
                (self._target, run, part, digest),
            )


def digest(bodies: Iterable[bytes]) -> str:
    """Return what tells one content from another."""
    content = sha256()
    for body in bodies:
        content.update(len(body).to_bytes(8, "big") + body)
    return content.hexdigest()
