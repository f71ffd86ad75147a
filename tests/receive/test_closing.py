"""Traces of a journal become runs of a store, in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope import api
from stepscope.formats.otlp.request import ReceivedSpan, read_request
from stepscope.receive.closing import ClosedTrace, Closer, ClosingStart
from stepscope.receive.journal import Journal
from stepscope.runtime.database import open_database
from stepscope.safety.limits import Limits
from stepscope.score.importing import RunDefaults
from stepscope.settings import Settings
from tests.formats.otlp.making import decode_request
from tests.receive.sending import attribute, export, plain, span

T1, T2 = "1".rjust(32, "0"), "2".rjust(32, "0")


class Desk:
    """A journal and a store, and what is done with them."""

    def __init__(self, journal: Journal, closer: Closer, notebook: api.Notebook) -> None:
        self.journal, self.closer, self.notebook = journal, closer, notebook
        self.bounds = Limits(spans=100, trace_bytes=1_000_000)

    def keep(self, *spans: Mapping[str, Any]) -> tuple[int, str]:
        read = decode_request(export(*spans), "application/json")
        (taken,) = self.journal.keep([[ReceivedSpan(one) for one in read]], self.bounds)
        return taken

    def close(self, *, quiet: float = 0, idle: float = 1e9) -> list[ClosedTrace]:
        """Close what is due, as the receiver does."""
        due = self.journal.due(quiet=quiet, idle=idle, most=10, room=1_000_000)
        done = self.closer.close(due).closed
        self.journal.closed([(one.trace, one.upto) for one in done if one.became != "left"])
        for one in done:
            if one.became == "left":
                self.journal.mark(one.trace, one.upto, "left")
        return done

    def runs(self) -> list[Any]:
        return list(self.notebook.trajectories())


@contextmanager
def desk(
    folder: Path, *, settings: Settings | None = None, keep_all: bool = False, **filling: Any
) -> Iterator[Desk]:
    held = settings or Settings()
    store, journal = str(folder / "runs.db"), str(folder / "runs.db.journal")
    start = ClosingStart(store, journal, held, RunDefaults(**filling), keep_all)
    with (
        api.open(store, settings=held) as notebook,
        Journal(journal) as opened,
    ):
        yield Desk(opened, Closer(notebook, opened, start), notebook)


def test_a_trace_whose_root_has_ended_becomes_a_run_with_verdicts(tmp_path: Path) -> None:
    with desk(tmp_path, agent="helper", tags={"a": "b"}) as at:
        at.keep(span("1", "2", parent="1"))
        assert at.close() == []
        at.keep(span("1", "1"))
        (closed,) = at.close()
        assert (closed.became, closed.spans, closed.late) == ("run", 2, 0)
        (run,) = at.runs()
        assert (run.id, run.name, run.agent, run.tags) == (closed.run, T1, "helper", {"a": "b"})
        assert [one.id[-1] for one in run.spans] == ["2", "1"]
        assert list(at.notebook.records())
        assert at.journal.waiting() == (0, 0)
        assert [account["uri"] for account in at.notebook.store.accounts()] == [f"received/{T1}"]


def test_a_root_that_has_not_ended_closes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1", endTimeUnixNano="0"))
        assert at.close() == []
        (closed,) = at.close(idle=0)
        assert closed.became == "run"


def test_late_spans_reopen_a_run_which_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1"), span("1", "3", parent="1"))
        (first,) = at.close()
        at.keep(span("1", "2", parent="1"))
        (again,) = at.close()
        assert (again.became, again.late, again.spans) == ("run", 1, 3)
        assert again.run != first.run
        (run,) = at.runs()
        assert run.id == again.run
        marks = [w.reason for w in run.warnings if w.code == "late_spans"]
        assert marks == ["1 span(s) came after the run had been closed"]


def test_a_late_span_that_makes_no_step_is_kept_all_the_same(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1"))
        (first,) = at.close()
        at.keep(plain("1", "2", parent="1"))
        (again,) = at.close()
        assert (again.run, again.late) == (first.run, 1)
        (run,) = at.runs()
        assert [one.name for one in run.spans] == ["chat", "GET /"]
        assert "late_spans" in {w.code for w in run.warnings}
        assert list(at.notebook.records(where=f"id = '{run.id}'"))


def test_a_span_sent_twice_counts_once_before_and_after_the_run_was_closed(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        assert at.keep(span("1", "1"), span("1", "1")) == (0, "")
        assert at.keep(span("1", "1")) == (0, "")
        assert at.journal.waiting() == (1, 1)
        (closed,) = at.close()
        assert (closed.became, closed.spans, closed.again) == ("run", 1, 2)
        at.keep(span("1", "1"))
        (closed,) = at.close()
        assert (closed.became, closed.spans, closed.again) == ("known", 1, 3)
        (run,) = at.runs()
        assert len(run.spans) == 1
        assert "duplicate_span_id" not in {w.code for w in run.warnings}
        assert at.journal.waiting() == (0, 0)


def test_what_is_done_twice_as_after_a_kill_changes_nothing(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1"))
        at.close()
        at.keep(span("1", "2", parent="1"))
        due = at.journal.due(quiet=0, idle=1e9, most=10, room=1)
        first = at.closer.close(due).closed
        before = msgspec.json.encode(at.runs())
        # The journal never heard of it: the same traces are closed again.
        second = at.closer.close(due).closed
        assert ([one.became for one in first], [one.became for one in second]) == (
            ["run"],
            ["known"],
        )
        assert msgspec.json.encode(at.runs()) == before
        at.journal.closed([(due[0].trace, due[0].upto)])
        assert at.journal.waiting() == (0, 0)


def test_what_comes_while_a_trace_is_closed_keeps_it_open(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1"))
        (due,) = at.journal.due(quiet=0, idle=1e9, most=10, room=1)
        at.keep(span("1", "2", parent="1"))
        (closed,) = at.closer.close([due]).closed
        assert closed.spans == 1
        at.journal.closed([(closed.trace, closed.upto)])
        assert at.journal.waiting() == (1, 1)
        (closed,) = at.close()
        assert (closed.late, closed.spans) == (1, 2)


def test_a_trace_without_an_agent_is_left_out_until_one_comes_to_it(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(plain("1", "1"), plain("2", "1"))
        assert [one.became for one in at.close()] == ["left", "left"]
        assert at.runs() == []
        assert at.journal.waiting() == (2, 2)
        at.keep(span("1", "2", parent="1"))
        (closed,) = at.close()
        assert (closed.became, closed.spans, closed.trace) == ("run", 2, T1)
        assert at.journal.sweep(idle=1e9) == []
        assert [one.trace for one in at.journal.sweep(idle=0)] == [T2]
        assert at.journal.waiting() == (0, 0)


def test_traces_without_an_agent_are_runs_where_all_are_kept(tmp_path: Path) -> None:
    with desk(tmp_path, keep_all=True) as at:
        at.keep(plain("1", "1"))
        (closed,) = at.close()
        assert closed.became == "run"
        (run,) = at.runs()
        assert "no_agent_span" in {w.code for w in run.warnings}


def test_a_trace_at_its_limits_refuses_more_and_says_so_in_its_run(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.bounds = Limits(spans=2, trace_bytes=1_000_000)
        refused, reason = at.keep(
            span("1", "1"), span("1", "2", parent="1"), span("1", "3", parent="1")
        )
        assert refused == 1
        assert "2 spans of" in reason
        (closed,) = at.close()
        assert (closed.spans, closed.refused) == (2, 1)
        (run,) = at.runs()
        marks = [w.reason for w in run.warnings if w.code == "spans_refused"]
        assert marks == ["1 span(s) were refused: the trace was at its limits"]
        at.bounds = Limits(spans=100, trace_bytes=10)
        assert at.keep(span("9", "1"))[0] == 1
        assert at.close() == []


def test_a_trace_that_makes_no_run_is_quarantined_with_its_spans(tmp_path: Path) -> None:
    with desk(tmp_path, settings=Settings(limits=Limits(steps=1))) as at:
        at.keep(span("1", "1"), span("1", "2", parent="1"))
        (closed,) = at.close()
        assert closed.became == "aside"
        assert "limit is 1" in closed.reason
        (aside,) = at.notebook.store.quarantined()
        assert len(json.loads(aside.raw)) == 2
        (account,) = at.notebook.store.accounts()
        assert (account["uri"], account["quarantined"]) == (aside.uri, 1)
        assert at.journal.waiting() == (0, 0)


def test_a_run_read_from_a_file_gets_the_late_spans_of_its_trace(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        file = tmp_path / "otlp.json"
        file.write_bytes(export(span("1", "1")))
        at.notebook.add(file)
        at.keep(span("1", "2", parent="1"))
        (closed,) = at.close(idle=0)
        assert (closed.late, closed.spans) == (1, 2)
        (run,) = at.runs()
        assert len(run.spans) == 2


@pytest.mark.parametrize("again", [False, True])
def test_a_file_of_more_spans_takes_over_a_run_of_the_same_steps(
    tmp_path: Path, again: bool
) -> None:
    with desk(tmp_path) as at:
        for spans in ([span("1", "1")], [span("1", "1"), plain("1", "2", parent="1")]):
            file = tmp_path / "otlp.json"
            file.write_bytes(export(*spans))
            at.notebook.add(file)
        if again:  # the shorter version, once more
            file.write_bytes(export(span("1", "1")))
            at.notebook.add(file)
        (run,) = at.runs()
        assert [one.name for one in run.spans] == ["chat", "GET /"]


def test_a_new_span_keeps_a_trace_open_and_one_that_is_known_does_not(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        at.keep(span("1", "1"))

        def waits() -> int:
            return len(at.journal.due(quiet=50, idle=1e9, most=9, room=1))

        with closing(open_database(at.journal.path)) as db:
            db.execute("UPDATE traces SET last = last - 100")
        assert waits() == 1
        at.keep(span("1", "1"))
        assert waits() == 1
        at.bounds = Limits(spans=1, trace_bytes=1_000_000)
        at.keep(span("1", "2", parent="1"))
        assert waits() == 1
        at.bounds = Limits(spans=2, trace_bytes=1_000_000)
        at.keep(span("1", "2", parent="1"))
        assert waits() == 0


def test_what_was_repaired_in_spans_is_told_in_every_version_of_their_run(tmp_path: Path) -> None:
    with desk(tmp_path) as at:
        odd = span("1", "1", attributes=[*span("1", "1")["attributes"], attribute("nul", "a\0b")])
        read = list(read_request(export(odd), "application/json", Limits()))
        good = [one for one in read if isinstance(one, ReceivedSpan)]
        assert good == read
        at.journal.keep([good], at.bounds)
        at.close()
        at.keep(span("1", "2", parent="1"))
        at.close()
        (run,) = at.runs()
        assert [w.code for w in run.warnings if w.code in {"nul", "late_spans"}] == [
            "nul",
            "late_spans",
        ]
