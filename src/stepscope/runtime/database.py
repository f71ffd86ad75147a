"""Open SQLite files durably, lead them to this version's schema, and tell their faults apart.

A new file gets its schema; an older one is led up by numbered steps, each one transaction, after a
copy was put beside it. A newer one is refused: an older program cannot know what its rows mean.
Every pragma is set and then read back: a file that cannot be durable is refused, not used. Faults
of disk, permission and lock are the environment's (`EnvironmentFault`); a file that is no database
is the user's (`StoreError`); anything else is a bug and stays an sqlite3 error.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from stepscope.errors import EnvironmentFault, StepscopeError, StoreError, UsageError
from stepscope.safety.limits import hold_database

Connection = sqlite3.Connection


class _HeldConnection(sqlite3.Connection):
    """A connection to a file that nothing else in this process opens while it is open."""

    release: Callable[[], None] | None = None

    def close(self) -> None:
        super().close()
        if self.release is not None:
            self.release()
            self.release = None


MEMORY = ":memory:"
# Another process's batch takes well under a second; a wait of half a minute means it hangs.
BUSY_MILLISECONDS = 30_000
# 16 MiB of log before it is folded into the file: fewer flushes than SQLite's 4 MiB.
_CHECKPOINT_PAGES = 4_000
# Answers go to as many places of the file as there are measures; SQLite's 2 MiB would thrash.
_CACHE_KIBIBYTES = 64 * 1024
_LOG_BYTES = 64 * 1024 * 1024
_COMMENT = re.compile(r"--[^\n]*")
# A new file is made within a few milliseconds.
_AGAIN_SECONDS = 0.01
_ENVIRONMENT = {
    sqlite3.SQLITE_FULL: "the disk is full; free some space and run the command again",
    sqlite3.SQLITE_IOERR: "the disk failed or is full; nothing written is lost, run it again",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; do the folder and the permission exist?",
    sqlite3.SQLITE_PERM: "permission denied",
    sqlite3.SQLITE_BUSY: "another process keeps the store locked; wait for it and run again",
    sqlite3.SQLITE_LOCKED: "another process keeps the store locked; wait for it and run again",
    sqlite3.SQLITE_NOMEM: "out of memory",
}


def open_database(
    path: str,
    *,
    any_thread: bool = False,
    cache_kibibytes: int = _CACHE_KIBIBYTES,
    read_only: bool = False,
) -> Connection:
    """Return a connection with every pragma set and asserted; make the file, mode 0600, if new.

    One that is only read must be there, and nothing can be written to it.
    """
    if path != MEMORY and Path(path).is_dir():
        raise StoreError(f"{path}: a folder; expected the file of a store, as {path}/runs.db")
    if path != MEMORY and not read_only:
        _create(Path(path))
    with translate_faults(path):
        db = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=ro" if read_only else path,
            uri=read_only,
            isolation_level=None,
            timeout=BUSY_MILLISECONDS / 1000,
            check_same_thread=not any_thread,
            factory=_HeldConnection,
        )
        with ExitStack() as unless_ready:
            unless_ready.callback(db.close)
            if path != MEMORY:
                db.release = hold_database(path)
            try:
                _prepare(db, path, cache_kibibytes, read_only)
            except UnicodeDecodeError as e:  # SQLite quotes a schema that is no text
                raise damage_error(path, str(e)) from e
            unless_ready.pop_all()
    return db


def open_memory() -> Connection:
    """Return a connection to tables that live as long as it does, for a query over other data."""
    return sqlite3.connect(MEMORY)


def _create(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return
    except OSError as e:
        raise EnvironmentFault(f"{path}: no store can be made here ({e.strerror})") from e


def _prepare(db: Connection, path: str, cache_kibibytes: int, read_only: bool) -> None:
    expected: dict[str, str | int] = {
        "busy_timeout": BUSY_MILLISECONDS,
        "query_only": read_only,
        # WAL survives a kill at any moment and lets others read meanwhile.
        "journal_mode": "memory" if path == MEMORY else "wal",
        "synchronous": 2,  # FULL: what was committed is on disk
        "foreign_keys": 1,
        "secure_delete": 1,  # what purge deletes is overwritten
    }
    others = {
        "wal_autocheckpoint": _CHECKPOINT_PAGES,
        "cache_size": -cache_kibibytes,
        "journal_size_limit": _LOG_BYTES,
        "trusted_schema": 0,
    }
    for name, value in (expected | others).items():
        _patiently(db, f"PRAGMA {name} = {value}")
    for name, value in expected.items():
        found = db.execute("PRAGMA " + name).fetchone()[0]
        if found != value:
            why = f"SQLite gives {name} = {found!r}, the store needs {value!r}"
            raise EnvironmentFault(f"{path}: {why}; keep it on a local disk")


def _patiently(db: Connection, statement: str) -> None:
    """Execute a statement that SQLite gives up at once where two processes make one new file.

    Both have it open for reading and want to write its first page: neither would ever wait for the
    other's end, so SQLite does not wait at all.
    """
    end = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            db.execute(statement).fetchall()
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            return


@contextmanager
def translate_faults(path: str) -> Iterator[None]:
    """Turn SQLite's errors about disk and lock, or about the file and its rows, into ours."""
    try:
        yield
    except sqlite3.Error as e:
        code = getattr(e, "sqlite_errorcode", 0) & 0xFF
        if code in _ENVIRONMENT:
            raise EnvironmentFault(f"{path}: {_ENVIRONMENT[code]} ({e})") from e
        if code == sqlite3.SQLITE_NOTADB:
            said = f"not a stepscope store ({e}); name another file with --store"
            raise StoreError(f"{path}: {said}") from e
        # Text that is no UTF-8 has no code: it is found by the module, not by SQLite.
        if code == sqlite3.SQLITE_CORRUPT or "decode to UTF-8" in str(e):
            raise damage_error(path, str(e)) from e
        if code == sqlite3.SQLITE_CONSTRAINT:
            raise StoreError(f"{path}: a row breaks a rule of the schema: {e}") from e
        raise


def damage_error(path: str, found: str) -> StoreError:
    """Return what to say of a file that is damaged."""
    return StoreError(
        f"{path}: damaged ({found[:200]}); restore it from a copy, or write what is readable of a "
        f"store with stepscope export NEW.db --salvage --store {path}"
    )


def find_faults(db: Connection, *tables: str) -> Iterator[str]:
    """Yield what SQLite finds wrong with a file, or with these tables of it, one line each."""
    try:
        for of in [f"({table})" for table in tables] or [""]:
            for (found,) in db.execute("PRAGMA integrity_check" + of):
                if found != "ok":
                    yield found
            for table, _, parent, _ in db.execute("PRAGMA foreign_key_check" + of):
                yield f"a row of {table} refers to none of {parent}"
    except sqlite3.ProgrammingError:
        return  # closed already: nothing can be said of it
    except sqlite3.DatabaseError as e:
        yield str(e)


def open_damaged(path: str) -> Connection:
    """Return a connection that reads what it can; text that is none comes with surrogates."""
    with translate_faults(path):
        db = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        with ExitStack() as unless_ready:
            unless_ready.callback(db.close)
            db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("PRAGMA writable_schema = ON")  # tables are read beside one that is none
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            unless_ready.pop_all()
    return db


def read_until_fault(
    db: Connection, sql: str, values: Sequence[object] = ()
) -> Generator[tuple[Any, ...], None, bool]:
    """Yield rows until SQLite can read no further; return whether these were all."""
    try:
        yield from db.execute(sql, values)
    except sqlite3.DatabaseError:
        return False
    return True


@contextmanager
def transaction(db: Connection, path: str) -> Iterator[None]:
    """Write in one transaction: all of it is on disk at the end, or nothing is.

    The write lock is taken at once, so that no reader's snapshot has to be upgraded later.
    """
    with translate_faults(path):
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
            db.execute("COMMIT")
        finally:
            if db.in_transaction:
                db.execute("ROLLBACK")


@contextmanager
def hold_lock(path: str, taken: str) -> Iterator[None]:
    """Hold a lock that a kill gives back; `UsageError(taken)` where another process has it."""
    with (
        translate_faults(path),
        closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as lock,
    ):
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            raise UsageError(taken) from e
        yield


def try_begin(db: Connection) -> bool:
    """Begin to write where nobody else does, without waiting; return whether that was so."""
    db.execute("PRAGMA busy_timeout = 0").fetchall()
    try:
        db.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as e:
        if e.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    finally:
        db.execute(f"PRAGMA busy_timeout = {BUSY_MILLISECONDS}").fetchall()
    return True


def split_statements(sql: str) -> Iterator[str]:
    """Yield the statements of a script one by one, so that they fit into one transaction."""
    start = 0
    for at, character in enumerate(sql):
        if character == ";" and sqlite3.complete_statement(sql[start : at + 1]):
            yield sql[start : at + 1]
            start = at + 1


def rewrite_database(db: Connection, path: str) -> None:
    """Write the file anew, so that what was deleted is gone from it and from its log.

    `EnvironmentFault` where another process keeps old pages alive: doing it again ends the work.
    """
    with translate_faults(path):
        db.execute("VACUUM")
        if path == MEMORY:
            return
        busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if busy:
        other = "another process still reads the store and keeps old pages in its log"
        raise EnvironmentFault(f"{path}: erased, but {other}; end it and purge again")


class Schema(NamedTuple):
    """What a file of one kind holds."""

    application_id: int  # tells it from any other SQLite file
    version: int  # of a new file
    sql: Callable[[], str]  # gives the statements that make a new file
    foreign: str  # what to say of another program's file
    newer: str = ""  # what to say of a file of a newer version, `{found}` and `{version}` in it
    migrations: Mapping[int, str] = {}  # version -> the SQL that leads to it from the one before


class Closeable:
    """What is closed at the end of a `with` block."""

    def close(self) -> None:
        """Give back what is held."""
        raise NotImplementedError

    def explain(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise what is behind an error that ended the block, where that can be told."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, tb: TracebackType | None) -> None:
        with ExitStack() as at_the_end:
            at_the_end.callback(self.close)
            self.explain(kind, error, tb)


class Database(Closeable):
    """One open file (or memory); a context manager that closes it."""

    def __init__(
        self,
        path: str,
        schema: Schema,
        *,
        any_thread: bool = False,
        cache_kibibytes: int = _CACHE_KIBIBYTES,
        read_only: bool = False,
    ) -> None:
        """Open the file, making or migrating it; one only read must be of this version."""
        self.path = path
        self._db = open_database(
            path, any_thread=any_thread, cache_kibibytes=cache_kibibytes, read_only=read_only
        )
        with ExitStack() as unless_ready:
            unless_ready.callback(self._db.close)
            # Statements of somebody else's would run when the file is read or written.
            with translate_faults(path):
                found = self._db.execute(
                    "SELECT type, name FROM sqlite_master WHERE type IN ('trigger', 'view')"
                ).fetchone()
            if found is not None:
                raise _foreign_tables(path, "a {} {!r}".format(*found))
            try:
                migrate_database(self._db, path, schema, read_only=read_only)
            except sqlite3.OperationalError as e:
                raise _foreign_tables(path, str(e)) from e
            _check_tables(self._db, path, schema)
            self._prepare()
            unless_ready.pop_all()

    def _prepare(self) -> None:
        """Do what comes before the first use."""

    def damage(self) -> Iterator[str]:
        """Yield what is wrong with the file, one line each; nothing where it is whole."""
        yield from find_faults(self._db)

    def explain(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say that the file is damaged where an error of no kind of ours ended the block."""
        if isinstance(error, Exception) and not isinstance(error, StepscopeError | OSError):
            found = next(self.damage(), None)
            if found is not None:
                raise damage_error(self.path, found) from error

    def _execute(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with translate_faults(self.path):
            return self._db.execute(sql, values).fetchall()

    def close(self) -> None:
        """Close the file; a second close does nothing."""
        self._db.close()


def migrate_database(db: Connection, path: str, schema: Schema, *, read_only: bool = False) -> None:
    """Make the tables of a new file, or migrate an older one after backing it up.

    `StoreError` where the file is another program's, of a newer version, or only read and old.
    """
    with translate_faults(path):
        found = _version(db, path, schema)
    if read_only and (found or 0) < schema.version:
        raise StoreError(
            f"{path}: {'empty' if found is None else f'of version {found}'}, and only read here; "
            f"stepscope score --store {path} makes it one of version {schema.version}"
        )
    if found is None:
        _step(db, path, schema, schema.version, schema.sql(), None)
    elif found > schema.version:
        raise StoreError(f"{path}: {schema.newer.format(found=found, version=schema.version)}")
    elif found < schema.version:
        back_up_database(db, path, found)
        for to, sql in sorted(schema.migrations.items()):
            if to > found:
                _step(db, path, schema, to, sql, to - 1)


def _check_tables(db: Connection, path: str, schema: Schema) -> None:
    """Check that a file has the tables of its version, every rule in them included."""
    with closing(open_memory()) as ours:
        ours.executescript(schema.sql())
        expected = _read_tables(ours)
    if not expected:
        return  # tables of such a file are made where they are missing
    with translate_faults(path):
        found = _read_tables(db)
        version = db.execute("PRAGMA user_version").fetchone()[0]
    other = sorted(name for name, _ in expected.items() ^ found.items())
    if other:
        raise _foreign_tables(path, "see " + ", ".join(other[:3]))
    if version != schema.version:
        raise _foreign_tables(path, f"of version {version}, which none was made with")


def _read_tables(db: Connection) -> dict[str, str]:
    """Return the statement behind each table and index, without comments."""
    return {
        name: " ".join(_COMMENT.sub("", sql).split())
        for name, sql in db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        if not name.startswith("sqlite_stat")
    }


def _foreign_tables(path: str, found: str) -> StoreError:
    return StoreError(
        f"{path}: it holds other tables than stepscope makes ({found}); restore it from a copy, "
        "or write what is readable of a store with stepscope export NEW.db --salvage "
        f"--store {path}"
    )


def _version(db: Connection, path: str, schema: Schema) -> int | None:
    application = int(db.execute("PRAGMA application_id").fetchone()[0])
    if application == schema.application_id:
        return int(db.execute("PRAGMA user_version").fetchone()[0])
    if application or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise StoreError(f"{path}: {schema.foreign}")
    return None


def _step(db: Connection, path: str, schema: Schema, to: int, sql: str, wanted: int | None) -> None:
    with transaction(db, path):
        # Another process may have done it while this one waited for the lock.
        if _version(db, path, schema) != wanted:
            return
        for statement in split_statements(sql):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {schema.application_id:d}")
        db.execute(f"PRAGMA user_version = {to:d}")


def back_up_database(db: Connection, path: str, version: int) -> Path | None:
    """Copy a file beside itself before it is changed; return the copy, None in memory.

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
    """Where the copy of a file of `version` lies: `runs.db.v1.bak` beside `runs.db`."""
    return Path(f"{path}.v{version}.bak")
