from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope.errors import EnvironmentFault, StepscopeError, StoreError
from stepscope.model import Quarantined, Trajectory
from stepscope.runtime.database import (
    backup_path,
    migrate_database,
    open_database,
    split_statements,
)
from stepscope.store import Store
from stepscope.store.store import SCHEMA
from tests.factories import run, user
from tests.store.made import record


def test_a_new_store_is_private_and_durable(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store.open(path) as store:
        store.put([run(user("a"))])
        assert [f.stat().st_mode & 0o777 for f in sorted(tmp_path.iterdir())] == [0o600] * 3
    db = open_database(str(path))
    found = {
        name: db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout", "secure_delete")
    }
    db.close()
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "busy_timeout": 30_000,
        "secure_delete": 1,
    }


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE theirs (x)")
    db.close()


def newer(path: Path) -> None:
    Store.open(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda p: p.write_bytes(b"not a database, " * 100), "not a stepscope store"),
        (lambda p: p.write_text('{"id": 1}\n'), "not a stepscope store"),
        (lambda p: p.mkdir(), "a folder; expected the file of a store"),
        (foreign, "an SQLite database of another program, no stepscope store"),
        (newer, "a store of version 99; this stepscope reads up to 5: upgrade stepscope"),
    ],
)
def test_what_is_no_store_is_refused_in_one_line_and_left_alone(
    tmp_path: Path, make: object, said: str
) -> None:
    path = tmp_path / "s.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else b""
    with pytest.raises(StoreError) as caught:
        Store.open(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    if path.is_file() and make is not newer and make is not foreign:
        assert path.read_bytes() == before


def test_a_place_where_nothing_can_be_made_is_the_environments_fault(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFault, match="no store can be made here"):
        Store.open(tmp_path / "no" / "folder" / "s.db")


OLD = "CREATE TABLE runs (seq INTEGER PRIMARY KEY, id TEXT);"
TO_2 = "ALTER TABLE runs ADD COLUMN name TEXT; UPDATE runs SET name = 'n' || id;"
TO_3 = "CREATE TABLE tags (run, key); INSERT INTO tags SELECT seq, 'a;b' FROM runs;"


@contextmanager
def version_1(path: Path) -> Iterator[sqlite3.Connection]:
    db = open_database(str(path))
    db.executescript(OLD + "INSERT INTO runs (id) VALUES ('x');")
    db.execute(f"PRAGMA application_id = {SCHEMA.application_id}")
    db.execute("PRAGMA user_version = 1")
    try:
        yield db
    finally:
        db.close()


def test_an_older_store_is_led_up_step_by_step_with_a_copy_first(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with version_1(path) as db:
        migrate_database(db, str(path), SCHEMA._replace(version=3, migrations={2: TO_2, 3: TO_3}))
        assert db.execute("SELECT name, key FROM runs, tags").fetchall() == [("nx", "a;b")]
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
        migrate_database(db, str(path), SCHEMA._replace(version=3, migrations={2: TO_2, 3: TO_3}))
    copy = backup_path(str(path), 1)
    assert copy.stat().st_mode & 0o777 == 0o600
    old = sqlite3.connect(copy)
    assert old.execute("SELECT * FROM runs").fetchall() == [(1, "x")]
    assert old.execute("PRAGMA user_version").fetchone() == (1,)
    old.close()


def test_a_migration_that_fails_changes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    broken = "CREATE TABLE half (x); INSERT INTO nowhere VALUES (1);"
    with version_1(path) as db:
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            migrate_database(
                db, str(path), SCHEMA._replace(version=3, migrations={2: TO_2, 3: broken})
            )
        assert db.execute("PRAGMA user_version").fetchone() == (2,)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall() == []
        migrate_database(db, str(path), SCHEMA._replace(version=3, migrations={2: TO_2, 3: TO_3}))
        assert db.execute("PRAGMA user_version").fetchone() == (3,)


def test_statements_are_split_where_sql_ends_them() -> None:
    script = "CREATE TABLE t (x); -- a; b\nINSERT INTO t VALUES (';'); /* ; */ SELECT 1;"
    assert len(list(split_statements(script))) == 3


WRITER = """
import sys
from stepscope.store import Store
from tests.factories import run, user
from tests.store.made import record
name = sys.argv[2]
with Store.open(sys.argv[1]) as store:
    for at in range(40):
        store.put([run(user(name), id=f"{name}{at}", name=f"{name}{at}")])
        store.put([run(user("both"), id=f"both{at}", name=f"both{at}")])
        store.append([record(f"{name}{at}", measure=f"m{at % 7}"), record(f"both{at}")])
"""


def test_two_processes_may_make_a_store_and_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], stderr=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=300)
        assert (writer.returncode, errors) == (0, b"")
    with Store.open(path) as store:
        assert len(store.runs()) == 160
        assert len(list(store.records())) == 160
        assert int(store.column("outcome").answered.sum()) == 40
        assert len(store.measures()) == 8
    assert sound(path)


def sound(path: Path) -> bool:
    db = sqlite3.connect(path)
    found = db.execute("PRAGMA integrity_check").fetchall()
    broken = db.execute("PRAGMA foreign_key_check").fetchall()
    db.close()
    return found == [("ok",)] and broken == []


@contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


@pytest.mark.parametrize("size", [1, 4_096, 30_000, 100_000, 250_000, 400_000, 700_000, 1_000_000])
def test_a_full_disk_is_told_apart_loses_nothing_and_can_be_resumed(
    tmp_path: Path, size: int
) -> None:
    path = tmp_path / "s.db"
    runs = [run(user("x" * 2_000), id=f"r{at}", name=f"r{at:04}") for at in range(600)]
    records = [record(f"r{at}", measure=f"m{m}") for at in range(600) for m in range(3)]

    def fill() -> None:
        with no_file_longer_than(size), Store.open(path) as store:
            store.put(runs)
            store.append(records)

    with pytest.raises(EnvironmentFault) as caught:
        fill()
    assert caught.value.exit_code == 5
    assert "\n" not in str(caught.value)
    with Store.open(path) as store:
        kept = len(store.runs())
        assert kept % 256 == 0
        store.put(runs)
        store.append(records)
        assert len(store.runs()) == 600
        assert len(list(store.records())) == 1_800
    assert sound(path)


def test_a_locked_store_says_who_to_wait_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store.open(path) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        store._db.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(EnvironmentFault, match="another process keeps the store locked"):
            store.put([run(user("a"))])
        other.execute("ROLLBACK")
        other.close()
        assert store.put([run(user("a"))]).new == 1


def test_quarantine_and_accounts_are_kept_once() -> None:
    broken = [
        Quarantined(reason="not JSON", offset=12, raw=b"\xff\x00{", uri="a.jsonl"),
        Quarantined(reason="too deep", offset=3, raw=b"[" * 9, uri="a.jsonl"),
    ]
    with Store.open(":memory:") as store:
        assert store.quarantine(broken) == 2
        assert store.quarantine(broken) == 0
        assert list(store.quarantined()) == [broken[1], broken[0]]
        store.keep_account("a.jsonl", {"runs": 1})
        store.keep_account("a.jsonl", {"runs": 2, "problem": None})
        assert list(store.accounts()) == [{"runs": 2, "problem": None}]


def test_no_sql_is_made_from_text() -> None:
    """Queries are constants joined to constants; `where` is the only part that varies."""
    import ast

    room = Path(__file__).parents[2] / "src" / "stepscope" / "store"
    for file in sorted(room.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(getattr(v, "value", "")) for v in node.values).strip()
                assert not text.startswith(("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE")), file


def test_an_error_of_the_caller_is_not_mistaken_for_one_of_the_store() -> None:
    def runs() -> Iterator[Trajectory]:
        yield run(user("a"))
        raise StepscopeError("from the file")

    with Store.open(":memory:") as store, pytest.raises(StepscopeError, match="from the file"):
        store.put(runs())
