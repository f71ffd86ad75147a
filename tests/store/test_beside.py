"""Files of an open store are not opened beside it: that would let other processes in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.errors import UsageError
from stepscope.safety.limits import hold_database, is_in_use, open_file

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
# Whether another process gets the lock of the first connection, at byte 128 of the wal-index
# (https://sqlite.org/walformat.html, 2.2.2): then it may empty the file.
ASKS = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 128)
    except OSError:
        sys.exit(0)
sys.exit("the lock is free")
"""


def assert_locked(store: Path) -> None:
    index = store.with_name(store.name + "-shm")
    asked = subprocess.run([sys.executable, "-c", ASKS, str(index)], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr


def test_a_store_keeps_its_locks_where_its_folder_is_read_and_written(tmp_path: Path) -> None:
    shutil.copy(RUNS, tmp_path)
    path = tmp_path / "runs.db"
    with stepscope.open(path) as store:
        assert store.add(tmp_path / "runs.json", agent="a").runs == 20
        assert_locked(path)
        problems = {one.uri: one.problem or "" for one in store.add(tmp_path, agent="a").files}
        assert "a store in use" in problems[str(path)]
        assert_locked(path)
        for name in ("runs.db", "runs.db-wal", "runs.db-shm"):
            with pytest.raises(UsageError, match="name another file to write to"):
                store.report().html(tmp_path / name)
        store.report().html(tmp_path / "report.html")
        assert_locked(path)


def test_a_database_is_in_use_as_long_as_any_connection_is_open(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"x")
    first, second = hold_database(path), hold_database(path)
    (tmp_path / "link.db").symlink_to(path)
    (tmp_path / "trace.json").symlink_to("a.db-shm")
    (tmp_path / "other.db").write_bytes(b"y")
    in_use = ("a.db", "a.db-wal", "a.db-shm", "a.db-journal", "link.db", "trace.json")
    for end in (first, second):
        assert [name for name in in_use if not is_in_use(tmp_path / name)] == []
        assert not is_in_use(tmp_path / "other.db")
        assert not is_in_use(tmp_path / "absent")
        with pytest.raises(OSError, match="in use"):
            open_file(path)
        end()
    assert not is_in_use(path)
    with open_file(path) as file:
        assert file.read() == b"x"
