"""Damage: found by doctor and by whoever reads, a typed error always, and salvaged."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepscope import api
from stepscope.cli.main import main
from stepscope.errors import StepscopeError, StoreError, UsageError
from stepscope.ledger import states
from stepscope.store import Store
from tests.factories import run, user
from tests.store.made import record

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "runs.db"
    with Store.open(found) as store:
        store.put(
            run(user(f"hello {at}" * 30), id=f"r{at:02}", name=f"n{at:02}") for at in range(60)
        )
        store.append([record(f"r{at:02}", step=step) for at in range(60) for step in range(20)])
    return found


def change(path: Path, sql: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute(sql, values)


def page_of(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT max(pageno) FROM dbstat WHERE name = ?", (name,)).fetchone()
    return int(found[0])


def zero(path: Path, page: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[(page - 1) * PAGE : page * PAGE] = bytes(PAGE)
    path.write_bytes(raw)


def read_all(path: Path) -> str:
    with api.open(path) as notebook:
        list(notebook.store.trajectories())
        list(notebook.store.records())
        return notebook.report().json()


BODY = "UPDATE traces SET steps = ? WHERE run = 3"
DAMAGES: dict[str, Callable[[Path], None]] = {
    "a page": lambda path: zero(path, page_of(path, "records")),
    "the last page": lambda path: zero(path, path.stat().st_size // PAGE),
    "a body that is no JSON": lambda path: change(path, BODY, b'[{"kind": "user"'),
    "a body of another kind": lambda path: change(path, BODY, b"[7]"),
    "a body that is no UTF-8": lambda path: change(path, BODY, b'["\xff"]'),
    "a body that is a number": lambda path: change(path, BODY, 12),
    "a name that is no UTF-8": lambda path: change(
        path, "UPDATE runs SET name = CAST(x'ff41' AS TEXT) WHERE seq = 3"
    ),
    "an unmeasured kind that is none": lambda path: change(
        path, "UPDATE records SET state = -100, value = NULL WHERE run = 3"
    ),
    "a record about no run": lambda path: change(path, "DELETE FROM runs WHERE seq = 3"),
    "a row that its index lacks": lambda path: change(
        path, "UPDATE sqlite_master SET sql = replace(sql, '(name)', '(id)') WHERE name = ?",
        "runs_by_name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_a_typed_error_with_what_to_do_and_never_a_report(
    path: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(path)
    with pytest.raises(StoreError, match=r"restore it from a copy.*export NEW\.db --salvage"):
        read_all(path)
    assert main(["doctor", "--store", str(path)]) == 2
    assert "fail  store" in capsys.readouterr().out


def test_flipped_bits_are_never_a_bug(path: Path) -> None:
    raw, rng = path.read_bytes(), random.Random(7)
    whole = read_all(path)
    told = 0
    for _ in range(60):
        flipped = bytearray(raw)
        for _ in range(4):
            flipped[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
        for rest in ("-wal", "-shm"):
            Path(f"{path}{rest}").unlink(missing_ok=True)
        path.write_bytes(flipped)
        try:
            assert read_all(path) == whole
        except StepscopeError:
            told += 1
    assert told > 20


def test_an_error_of_ours_or_of_the_user_is_not_explained_by_damage(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), api.open(path):
        raise ZeroDivisionError
    change(path, BODY, b"[7]")
    with pytest.raises(UsageError), api.open(path):
        raise UsageError("no such run")
    with pytest.raises(StoreError, match="damaged"), api.open(path):
        raise ZeroDivisionError


def test_what_is_readable_is_salvaged_into_a_whole_store(path: Path, tmp_path: Path) -> None:
    change(path, BODY, b"[7]")
    zero(path, page_of(path, "records"))
    out = tmp_path / "new.db"
    assert main(["export", str(out), "--salvage", "--store", str(path)]) == 0
    with Store.open(out) as store:
        assert list(store.damage()) == []
        assert store.purged() == ["r02"]
        assert len(list(store.trajectories())) == 59
        assert len(store.runs()) == 60
        assert 900 < len(list(store.records())) < 1200
        assert store._key() == store._key()
    assert main(["export", str(out), "--salvage", "--store", str(path)]) == 2
    with closing(sqlite3.connect(path)) as old, closing(sqlite3.connect(out)) as new:
        query = "SELECT body FROM keys"
        assert old.execute(query).fetchall() == new.execute(query).fetchall()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER planted AFTER INSERT ON runs BEGIN DELETE FROM runs; END",
        "CREATE VIEW planted AS SELECT 1",
        "CREATE TABLE planted (x)",
        "CREATE INDEX planted ON runs (abs(steps))",
        "ALTER TABLE runs ADD COLUMN planted",
        "DROP TABLE noise",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
        "PRAGMA user_version = 3",
    ],
)
def test_tables_that_are_not_ours_are_refused_before_they_are_used(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(sql)
    with pytest.raises(StoreError, match="holds other tables than stepscope makes"):
        Store.open(path)


def test_a_damaged_reply_of_the_ledger_is_a_typed_error() -> None:
    with pytest.raises(StoreError, match="asked and paid again"):
        states.unpack_reply(b"\x78\x9c no zlib")
