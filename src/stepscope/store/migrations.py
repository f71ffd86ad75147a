"""Lead a store to this version's schema: numbered steps, each one transaction, a backup first.

`schema.sql` makes a new store; MIGRATIONS lead an old one to the same tables. A store of a newer
version is refused: an older binary cannot know what its rows mean.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from stepscope.errors import StoreError
from stepscope.runtime.database import MEMORY, split_statements, transaction, translate_faults

# "STPS": tells a store from any other SQLite file.
APPLICATION_ID = 0x53545053


class Migration(NamedTuple):
    """The SQL that leads a store of version `to` - 1 to version `to`."""

    to: int
    sql: str


_WEIGHTS_AND_NOISE = """
CREATE TABLE weights (
    workflow TEXT NOT NULL,
    task     TEXT NOT NULL,
    hash     TEXT NOT NULL,
    body     BLOB NOT NULL,
    fixed_ns INTEGER NOT NULL,
    PRIMARY KEY (workflow, task)
) WITHOUT ROWID;
CREATE TABLE noise (
    judge       TEXT PRIMARY KEY,
    body        BLOB NOT NULL,
    measured_ns INTEGER NOT NULL
) WITHOUT ROWID;
"""

_KEYS = """
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO keys (name, body) VALUES ('redaction', randomblob(32));
"""

_SAMPLES = """
CREATE TABLE samples (
    rubric      TEXT NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    chosen      INTEGER NOT NULL CHECK (chosen IN (0, 1)),
    drawn_ns    INTEGER NOT NULL,
    PRIMARY KEY (rubric, run)
) WITHOUT ROWID;
"""

MIGRATIONS: tuple[Migration, ...] = (
    Migration(2, _WEIGHTS_AND_NOISE),
    Migration(3, _KEYS),
    Migration(4, _SAMPLES),
)
VERSION = 4


def migrate_store(
    db: sqlite3.Connection,
    path: str,
    *,
    version: int = VERSION,
    migrations: Sequence[Migration] = MIGRATIONS,
) -> None:
    """Make the tables of a new store, or migrate an older one after backing it up.

    Raises:
        StoreError: the file is another program's database, or a store of a newer version.
    """
    with translate_faults(path):
        found = _version(db, path)
        if found == version:
            return
        if found > version:
            raise StoreError(
                f"{path}: a store of version {found}; this stepscope reads up to {version}: "
                "upgrade stepscope, or name another file with --store"
            )
    if found == 0:
        schema = files("stepscope.store").joinpath("schema.sql").read_text(encoding="utf-8")
        _step(db, path, Migration(version, schema), found)
        return
    back_up_store(db, path, found)
    for migration in migrations:
        if migration.to > found:
            _step(db, path, migration, migration.to - 1)


def _version(db: sqlite3.Connection, path: str) -> int:
    """Return the schema version, 0 for a file without tables."""
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application == APPLICATION_ID:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
    if application or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StoreError(
            f"{path}: an SQLite database of another program, no stepscope store; "
            "name another file with --store"
        )
    return 0


def _step(db: sqlite3.Connection, path: str, migration: Migration, expected: int) -> None:
    with transaction(db, path):
        # Another process may have done it while this one waited for the lock.
        if _version(db, path) != expected:
            return
        for statement in split_statements(migration.sql):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        db.execute(f"PRAGMA user_version = {migration.to:d}")


def back_up_store(db: sqlite3.Connection, path: str, version: int) -> Path | None:
    """Copy the store beside itself before it is changed; return the copy, None in memory.

    A copy of this version that is already there is kept: it is the older, safer one.
    """
    if path == MEMORY:
        return None
    target = backup_path(path, version)
    if target.exists():
        return target
    part = target.with_name(target.name + ".part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    copy = sqlite3.connect(part)
    try:
        with translate_faults(path):
            db.backup(copy)
    finally:
        copy.close()
    part.rename(target)
    return target


def backup_path(path: str, version: int) -> Path:
    """Where the copy of a store of `version` lies: `runs.db.v1.bak` beside `runs.db`."""
    return Path(f"{path}.v{version}.bak")
