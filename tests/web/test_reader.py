"""The server shows the store as it is now: written to, replaced, gone, of another version."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

import stepscope
from stepscope.api.reader import ANSWERS_KEPT, StoreReader, StoreState
from stepscope.errors import StoreError, UsageError
from stepscope.runtime import database
from stepscope.settings import Settings
from stepscope.store import Store
from tests.cli.conftest import alter
from tests.factories import run, user
from tests.scored import RUNS
from tests.web.conftest import Client, opened


def names(store: Store) -> list[str]:
    return [str(name) for name in store.runs().name]


def asked(path: Path, *acts: str) -> list[object]:
    """Ask for the state, and again after each act on the file; an error counts as an answer."""

    async def ask() -> list[object]:
        reader = StoreReader(path)
        found: list[object] = []
        for act in ("", *acts):
            if act == "gone":
                path.unlink()
            elif act:
                alter(path, act)
            try:
                found.append(await reader.state())
            except (StoreError, UsageError) as e:
                found.append(type(e))
        await reader.close()
        return found

    return asyncio.run(ask())


def test_a_store_that_has_not_changed_is_not_opened_again(store: Path) -> None:
    assert asked(store, "", "") == [StoreState(1, 20, 20)] * 3


def test_what_another_process_writes_is_seen_at_once(store: Path) -> None:
    forget = "DELETE FROM records"
    assert asked(store, forget) == [StoreState(1, 20, 20), StoreState(2, 20, 0)]


def test_a_newer_version_and_a_lost_file_are_told_and_got_over(store: Path) -> None:
    newer, back = "PRAGMA user_version = 9999", "PRAGMA user_version = 3"
    with sqlite3.connect(store) as db:
        version = db.execute("PRAGMA user_version").fetchone()[0]
    db.close()
    back = f"PRAGMA user_version = {version}"
    assert asked(store, newer, back, "gone") == [
        StoreState(1, 20, 20),
        StoreError,
        StoreState(2, 20, 20),
        UsageError,
    ]


def test_a_file_put_in_the_place_of_another_is_read(store: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with Store.open(other) as made:
        made.put([run(user("hello"), id="a1", name="only/1/0")])

    async def ask() -> list[list[str]]:
        reader = StoreReader(store)
        before = await reader.ask(names)
        other.replace(store)
        after = await reader.ask(names)
        await reader.close()
        return [before[:1], after]

    assert asyncio.run(ask()) == [["airline/11/0"], ["only/1/0"]]


def test_tables_are_looked_through_once_a_file_and_not_after_every_change(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.db"
    other.write_bytes(store.read_bytes())
    looked: list[str] = []
    find = database.find_faults

    def find_faults(db: sqlite3.Connection, *tables: str) -> Iterator[str]:
        looked.extend(tables)
        yield from find(db, *tables)

    monkeypatch.setattr(database, "find_faults", find_faults)

    async def ask() -> list[int]:
        reader = StoreReader(store)
        counts = []
        for act in (None, "DELETE FROM records", "replaced"):
            if act == "replaced":
                other.replace(store)
            elif act:
                alter(store, act)
            await reader.ask(names)
            counts.append(looked.count("runs"))
        await reader.close()
        return counts

    assert asyncio.run(ask()) == [1, 1, 2]


def test_few_answers_are_kept_and_none_longer_than_the_store_stays(store: Path) -> None:
    async def ask() -> list[int]:
        reader = StoreReader(store)
        calls: list[object] = []

        def question(store: Store) -> int:
            calls.append(store)
            return len(calls)

        found = [await reader.ask_once("a", question) for _ in range(2)]
        for key in range(ANSWERS_KEPT):
            await reader.ask_once(key, question)
        found.append(await reader.ask_once("a", question))
        alter(reader.path, "DELETE FROM records")
        found.append(await reader.ask_once("a", question))
        await reader.close()
        return found

    assert asyncio.run(ask()) == [1, 1, 2 + ANSWERS_KEPT, 3 + ANSWERS_KEPT]


def events(client: httpx2.Client) -> Iterator[dict[str, int]]:
    with client.stream("GET", "/api/events") as answer:
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        kind = ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            if name == "data":
                assert kind == "store"
                yield json.loads(value)


def test_an_open_page_hears_how_far_a_running_score_is(tmp_path: Path, stranger: Client) -> None:
    path = tmp_path / "runs.db"
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.add(RUNS, agent="gpt-4o")
        heard = events(opened(stranger(path)))
        first = next(heard)
        notebook.score(workers=1)
        last = next(heard)
    assert (first["runs"], first["scored"]) == (20, 0)
    assert (last["runs"], last["scored"]) == (20, 20)
    assert last["version"] > first["version"]


@pytest.mark.parametrize(
    ("act", "status", "said"),
    [
        ("PRAGMA user_version = 9999", 400, "of version 9999"),
        ("gone", 400, "any more"),
        ("a link to itself", 400, "any more"),
    ],
)
def test_a_store_that_cannot_be_read_any_more_is_told_in_a_line(
    store: Path, stranger: Client, act: str, status: int, said: str
) -> None:
    client = opened(stranger(store))
    assert client.get("/api/runs.json").status_code == 200
    if act in ("gone", "a link to itself"):
        store.unlink()
        if act != "gone":
            store.symlink_to(store)
    else:
        alter(store, act)
    answer = client.get("/api/runs.json")
    assert answer.status_code == status
    assert said in answer.text
