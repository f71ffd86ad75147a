"""A working directory for a command: a good store of the bundled runs, and every bad input."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.settings import Settings

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a good store of the bundled runs, and every bad input there is."""
    tree = tmp_path_factory.mktemp("tree")
    good = tree / "good.db"
    assert main(["import", str(RUNS), "--agent", "gpt-4o", "--store", str(good)]) == 0
    assert main(["score", "--store", str(good), "--workers", "1"]) == 0
    # Judges' fences are made of the store's key, and scripted answers of what is asked: with a key
    # of its own every store would have other answers.
    alter(good, "update keys set body = zeroblob(32) where name = 'redaction'")
    stepscope.open(tree / "none.db", settings=Settings()).close()
    (tree / "empty.jsonl").write_bytes(b"")
    (tree / "binary").write_bytes(bytes(range(256)) * 64)
    (tree / "other.json").write_text('{"a": 1}', encoding="utf-8")
    (tree / "text.txt").write_text("Dear diary,\n", encoding="utf-8")
    (tree / "text.db").write_text("not a store, but long enough to be one " * 50, encoding="utf-8")
    (tree / "folder").mkdir()
    alter(tree / "other.db", "create table notes (text)")
    shutil.copy(good, tree / "newer.db")
    alter(tree / "newer.db", "pragma user_version = 9999")
    return tree


def alter(store: Path, sql: str) -> None:
    connection = sqlite3.connect(store)
    connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.fixture
def workspace(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(tree, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
