"""The end of a run: its spans out of the journal, into the store, and scored. Runs as a child.

In a process of its own, so that a run of a hundred thousand spans neither stops the receiver from
answering nor stays in its memory; what kills this process leaves the journal as it was. Doing the
same work twice, as after a kill, changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from typing import Literal

import msgspec

from stepscope.api import Notebook
from stepscope.api.reading import Filling
from stepscope.errors import StepscopeError, TraceError
from stepscope.formats.account import Account, Tally
from stepscope.formats.otlp_recorded import spans_of
from stepscope.formats.spans import Span, assemble
from stepscope.model import Quarantined, Source, Trajectory, Warn
from stepscope.processes import serve as serve_child
from stepscope.receive.journal import CACHE_KIBIBYTES, Due, Journal, Kept, key
from stepscope.safety.forgiving import REPAIR_CODES, Repair
from stepscope.safety.limits import Limits
from stepscope.settings import Settings
from stepscope.sqlite import connect
from stepscope.store import Store, late_spans

FORMAT = "otlp"
_encode = msgspec.json.Encoder().encode


class Start(msgspec.Struct, frozen=True):
    """The first frame a child reads.

    Attributes:
        store: path of the store.
        journal: path of the journal.
        settings: of the store.
        filling: what a run is given where its trace lacks it.
        keep_all: whether traces without an agent are runs too.
    """

    store: str
    journal: str
    settings: Settings
    filling: Filling
    keep_all: bool


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one trace.

    Attributes:
        trace: its id.
        upto: the last span of it in the journal that was read.
        became: a run; the same run as before; nothing, since no agent is in it; or it was set
            aside, since it cannot be read.
        run: id of the run.
        name: what `show` finds it by.
        agent: the agent, None where nothing names it.
        spans: spans that it has now.
        late: of these, spans that came after it had been closed.
        again: spans that came more than once, byte for byte, and count once.
        refused: spans that were refused because the trace is at its limits.
        account: what the import found, as for a file.
        reason: why it was set aside.
    """

    trace: str
    upto: int
    became: Literal["run", "known", "left", "aside"]
    run: str = ""
    name: str = ""
    agent: str | None = None
    spans: int = 0
    late: int = 0
    again: int = 0
    refused: int = 0
    account: Account | None = None
    reason: str = ""


class Reply(msgspec.Struct, frozen=True):
    """What one frame came to.

    Attributes:
        closed: each trace that was asked about.
        records: verdicts that are new.
        unscored: why nothing was scored, "" where it was.
    """

    closed: list[Closed]
    records: int
    unscored: str


starts = msgspec.json.Decoder(Start)
frames = msgspec.json.Decoder(list[Due])
replies = msgspec.json.Decoder(Reply)


def serve() -> None:
    """Be a child: read the start, then traces to close until the input ends."""
    serve_child(_begin)


@contextmanager
def _begin(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    start = starts.decode(first)
    with (
        Notebook(Store.open(start.store), start.settings) as notebook,
        Journal(start.journal) as journal,
        closing(connect(start.store)) as db,
    ):
        db.execute(f"PRAGMA cache_size = -{CACHE_KIBIBYTES}")
        closer = Closer(notebook, journal, db, start)
        yield lambda frame: _encode(closer.close(frames.decode(frame)))


class Closer:
    """Closes traces of one journal into one store."""

    def __init__(
        self, notebook: Notebook, journal: Journal, db: sqlite3.Connection, start: Start
    ) -> None:
        """Read from `journal` and from `db`, which is the notebook's store again."""
        self._notebook = notebook
        self._journal = journal
        self._db = db
        self._filling = start.filling
        self._keep_all = start.keep_all

    def close(self, due: list[Due]) -> Reply:
        """Store every trace that is due, then score what lacks verdicts."""
        done = [self._close(trace) for trace in due]
        records, unscored = 0, ""
        if any(closed.became == "run" for closed in done):
            try:
                records = self._notebook.score(workers=1).records
            except StepscopeError as e:
                # The runs are kept; `stepscope score` says the same, and goes on from here.
                unscored = str(e)
        return Reply(done, records, unscored)

    def _close(self, due: Due) -> Closed:
        limits = self._notebook.settings.limits
        kept = self._journal.spans(due.trace, due.upto)
        found = late_spans.current(self._db, FORMAT, due.trace)
        before = None if found is None else self._notebook.store.trajectory(found)
        known = [] if before is None else spans_of(before)
        fresh, again = _fresh(known, kept)
        about = Closed(
            trace=due.trace,
            upto=due.upto,
            became="known",
            spans=len(known) + len(fresh),
            again=due.again + again,
            refused=due.refused,
        )
        if before is not None and not fresh:
            return msgspec.structs.replace(about, run=before.id, name=before.name)
        late = 0 if before is None else len(fresh)
        try:
            run = _assembled(due, before, known, fresh, limits)
        except TraceError as e:
            self._quarantine(due, str(e))
            return msgspec.structs.replace(about, became="aside", reason=str(e))
        if not run.steps and not self._keep_all and before is None:
            return msgspec.structs.replace(about, became="left")
        run = self._filling.of(run)
        account = self._put(run)
        return msgspec.structs.replace(
            about,
            became="run",
            run=run.id,
            name=run.name,
            agent=run.agent,
            late=late,
            account=account,
        )

    def _put(self, run: Trajectory) -> Account:
        store = self._notebook.store
        store.put([run])
        return self._account(run, run.source.uri)

    def _account(self, found: Trajectory | Quarantined, uri: str) -> Account:
        tally = Tally(uri, FORMAT, None)
        tally.counts.add(found)
        account = tally.account()
        self._notebook.store.keep_account(uri, msgspec.to_builtins(account))
        return account

    def _quarantine(self, due: Due, reason: str) -> None:
        kept = self._journal.spans(due.trace, due.upto)
        raw = b"[" + b",".join([_encode(one.span) for one in kept]) + b"]"
        aside = Quarantined(reason=reason, offset=0, raw=raw, uri=_uri(due.trace))
        self._notebook.store.quarantine([aside])
        self._account(aside, aside.uri)


def _fresh(known: list[Span], kept: Iterable[Kept]) -> tuple[list[Kept], int]:
    """Return what is in the journal and not in the store, and how much is in both."""
    held = {key(_encode(span)) for span in known}
    fresh: list[Kept] = []
    again = 0
    for one in kept:
        if held and key(_encode(one.span)) in held:
            again += 1
        else:
            fresh.append(one)
    return fresh, again


def _assembled(
    due: Due, before: Trajectory | None, known: list[Span], fresh: list[Kept], limits: Limits
) -> Trajectory:
    """Return the run of a trace, marked where it was closed before or is not whole."""
    told = () if before is None else before.warnings
    repairs = {Repair(w.code, w.reason): None for w in told if w.code in REPAIR_CODES}
    for one in fresh:
        repairs.update(dict.fromkeys(one.repairs))
    (run,) = assemble(
        [*known, *(one.span for one in fresh)],
        source=Source(format=FORMAT, uri=_uri(due.trace)),
        limits=limits,
        repairs=repairs,
    )
    marks: list[Warn] = []
    if before is not None:
        reason = f"{len(fresh)} span(s) came after the run had been closed"
        marks.append(Warn("late_spans", reason))
    if due.refused:
        reason = f"{due.refused} span(s) were refused: the trace was at its limits"
        marks.append(Warn("spans_refused", reason))
    return msgspec.structs.replace(run, warnings=(*run.warnings, *marks)) if marks else run


def _uri(trace: str) -> str:
    return f"received/{trace}"
