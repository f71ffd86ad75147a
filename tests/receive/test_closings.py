"""The process that closes runs may die: the others are closed, and what it died of is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepscope import api
from stepscope.errors import StoreError
from stepscope.formats.otlp.request import ReceivedSpan
from stepscope.receive.closing import ClosingStart, RunsScored, RunStored, TraceQuarantined
from stepscope.receive.journal import Journal
from stepscope.receive.listening import ClosingQueue
from stepscope.safety.limits import Limits
from stepscope.score.importing import RunDefaults
from stepscope.settings import Settings
from stepscope.store import Store
from tests.formats.otlp.making import decode_request
from tests.receive.sending import export, span

pytestmark = pytest.mark.slow


@contextmanager
def closings(folder: Path) -> Iterator[ClosingQueue]:
    store = str(folder / "runs.db")
    start = ClosingStart(store, f"{store}.journal", Settings(), RunDefaults(), False)
    found = ClosingQueue(start, quiet_seconds=0, idle_seconds=600)
    try:
        yield found
    finally:
        found.end()


def keep(folder: Path, *traces: str) -> None:
    api.open(folder / "runs.db", settings=Settings()).close()
    with Journal(str(folder / "runs.db.journal")) as journal:
        for trace in traces:
            read = decode_request(export(span(trace, "1")), "application/json")
            limits = Limits(spans=10, trace_bytes=10_000)
            journal.keep([[ReceivedSpan(one) for one in read]], limits)


def test_a_trace_that_the_process_dies_of_is_left_and_the_others_are_closed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, "1", "2", "3")
    poisoned = "2".rjust(32, "0")
    with sqlite3.connect(tmp_path / "runs.db.journal") as db:
        db.execute("UPDATE spans SET body = '{' WHERE trace = ?", (poisoned,))
    with closings(tmp_path) as at:
        events = at.close(at.due())
        runs = [event.closed.trace[-1] for event in events if isinstance(event, RunStored)]
        (aside,) = [event for event in events if isinstance(event, TraceQuarantined)]
        assert runs == ["1", "3"]
        assert aside.closed.trace == poisoned
        assert "exit code 1" in aside.line()
        assert sum(event.records for event in events if isinstance(event, RunsScored)) > 10
        assert at.due() == []
        assert at.waiting() == (1, 1)
    with Store.open(tmp_path / "runs.db") as store:
        assert len(store.runs()) == 2
    with closings(tmp_path) as again:  # the next start tries it once more
        assert [due.trace for due in again.due()] == [poisoned]
    assert "ValidationError" in capfd.readouterr().err


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "runs.db.journal"
    with sqlite3.connect(place) as db:
        db.execute("CREATE TABLE mine (a)")
    with pytest.raises(StoreError, match="no journal of a receiver"):
        Journal(str(place))


def test_a_journal_gives_its_space_back_when_nothing_waits(tmp_path: Path) -> None:
    keep(tmp_path, *[f"{at:x}" for at in range(1, 200)])
    place = tmp_path / "runs.db.journal"
    full = place.stat().st_size
    with Journal(str(place)) as journal:
        journal.shrink()
        assert journal.waiting() == (199, 199)
        due = journal.due(quiet=0, idle=1, most=1_000, room=10**9)
        journal.closed([(one.trace, one.upto) for one in due])
        journal.shrink()
    assert place.stat().st_size < full / 2


def test_time_stands_still_while_nothing_listens(tmp_path: Path) -> None:
    keep(tmp_path, "1")
    path = str(tmp_path / "runs.db.journal")
    with Journal(path) as journal:
        before = journal.now()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE traces SET last = last + 1000")
    with Journal(path) as journal:
        assert 1000 <= journal.now() < before + 1005
        assert journal.due(quiet=5, idle=5, most=9, room=9) == []
        assert len(journal.due(quiet=0, idle=5, most=9, room=9)) == 1
