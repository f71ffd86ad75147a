"""The end of a run: its spans out of the journal, into the store, and scored, in a child process.

The child keeps a run of a hundred thousand spans out of the receiver's memory; what kills it
leaves the journal as it was, and doing the same work twice changes nothing. `Event` and its kinds
are what the receiver reports: one line each for a person, one object for a program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from stepscope.api import Notebook
from stepscope.errors import StepscopeError, TraceError
from stepscope.formats.otlp.request import ReceivedSpan
from stepscope.formats.otlp.write import list_recorded_spans
from stepscope.formats.reading import Account, Counts
from stepscope.formats.spans.assemble import assemble
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Quarantined, Source, Trajectory, Warn
from stepscope.receive.journal import DueTrace, Journal, span_key
from stepscope.safety.json import REPAIR_CODES, Repair
from stepscope.safety.limits import Limits
from stepscope.score.importing import RunDefaults
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.values import format_count

FORMAT = "otlp"
_encode = msgspec.json.Encoder().encode


class ClosingStart(msgspec.Struct, frozen=True):
    """The first frame a child reads."""

    store: str  # path of the store
    journal: str  # path of the journal
    settings: Settings  # of the store
    filling: RunDefaults  # what a run is given where its trace lacks it
    keep_all: bool  # whether traces without an agent are runs too


class ClosedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one trace."""

    trace: str  # its id
    upto: int  # the last span of it in the journal that was read
    # a run; the same run as before; nothing, without an agent in it; or set aside, being unreadable
    became: Literal["run", "known", "left", "aside"]
    run: str = ""  # id of the run
    name: str = ""  # what `show` finds it by
    agent: str | None = None  # the agent, None where nothing names it
    spans: int = 0  # spans that it has now
    late: int = 0  # of these, spans that came after it had been closed
    again: int = 0  # spans that came more than once, byte for byte, and count once
    refused: int = 0  # spans that were refused because the trace is at its limits
    account: Account | None = None  # what the import found, as for a file
    reason: str = ""  # why it was set aside


class ClosingReply(msgspec.Struct, frozen=True):
    """What one frame came to."""

    closed: list[ClosedTrace]  # each trace that was asked about
    records: int  # verdicts that are new
    unscored: str  # why nothing was scored, "" where it was


reply_decoder = msgspec.json.Decoder(ClosingReply)


@contextmanager
def begin_closing(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    """Give what closes traces in a child process, `first` being a `ClosingStart`."""
    start = msgspec.json.decode(first, type=ClosingStart)
    with (
        Notebook(Store.open(start.store), start.settings) as notebook,
        Journal(start.journal) as journal,
    ):
        closer = Closer(notebook, journal, start)
        due = msgspec.json.Decoder(list[DueTrace])
        yield lambda frame: _encode(closer.close(due.decode(frame)))


class Closer:
    """Closes traces of one journal into one store."""

    def __init__(self, notebook: Notebook, journal: Journal, start: ClosingStart) -> None:
        self._notebook = notebook
        self._journal = journal
        self._filling = start.filling
        self._keep_all = start.keep_all

    def close(self, due: list[DueTrace]) -> ClosingReply:
        """Store every trace that is due, then score what lacks verdicts."""
        done = [self._close(trace) for trace in due]
        records, unscored = 0, ""
        if any(closed.became == "run" for closed in done):
            try:
                records = self._notebook.score(workers=1).records
            except StepscopeError as e:
                # The runs are kept; `stepscope score` says the same, and goes on from here.
                unscored = str(e)
        return ClosingReply(done, records, unscored)

    def _close(self, due: DueTrace) -> ClosedTrace:
        limits = self._notebook.settings.limits
        kept = list(self._journal.spans(due.trace, due.upto))
        found = self._notebook.store.latest_version(FORMAT, due.trace)
        before = None if found is None else self._notebook.store.trajectory(found)
        known = [] if before is None else list_recorded_spans(before)
        # What is in the journal and not in the store.
        held = {span_key(_encode(span)) for span in known}
        fresh = [one for one in kept if not held or span_key(_encode(one.span)) not in held]
        about = ClosedTrace(
            trace=due.trace,
            upto=due.upto,
            became="known",
            spans=len(known) + len(fresh),
            again=due.again + len(kept) - len(fresh),
            refused=due.refused,
        )
        if before is not None and not fresh:
            return msgspec.structs.replace(about, run=before.id, name=before.name)
        late = 0 if before is None else len(fresh)
        try:
            run = _assemble_run(due, before, known, fresh, limits)
        except TraceError as e:
            raw = _encode([one.span for one in self._journal.spans(due.trace, due.upto)])
            aside = Quarantined(reason=str(e), offset=0, raw=raw, uri=f"received/{due.trace}")
            self._notebook.store.quarantine([aside])
            self._account(aside, aside.uri)
            return msgspec.structs.replace(about, became="aside", reason=str(e))
        if not run.steps and not self._keep_all and before is None:
            return msgspec.structs.replace(about, became="left")
        run = self._filling.of(run)
        self._notebook.store.put([run])
        return msgspec.structs.replace(
            about,
            became="run",
            run=run.id,
            name=run.name,
            agent=run.agent,
            late=late,
            account=self._account(run, run.source.uri),
        )

    def _account(self, found: Trajectory | Quarantined, uri: str) -> Account:
        counts = Counts()
        counts.add(found)
        account = counts.account(uri, FORMAT)
        self._notebook.store.keep_account(uri, msgspec.to_builtins(account))
        return account


def _assemble_run(
    due: DueTrace,
    before: Trajectory | None,
    known: list[RawSpan],
    fresh: list[ReceivedSpan],
    limits: Limits,
) -> Trajectory:
    """Return the run of a trace, marked where it was closed before or is not whole."""
    told = () if before is None else before.warnings
    repairs = [Repair(w.code, w.reason) for w in told if w.code in REPAIR_CODES]
    repairs += [repair for one in fresh for repair in one.repairs]
    source = Source(format=FORMAT, uri=f"received/{due.trace}")
    spans = [*known, *(one.span for one in fresh)]
    (run,) = assemble(spans, source=source, limits=limits, repairs=dict.fromkeys(repairs))
    marks: list[Warn] = []
    if before is not None:
        reason = f"{len(fresh)} span(s) came after the run had been closed"
        marks.append(Warn("late_spans", reason))
    if due.refused:
        reason = f"{due.refused} span(s) were refused: the trace was at its limits"
        marks.append(Warn("spans_refused", reason))
    return msgspec.structs.replace(run, warnings=(*run.warnings, *marks))


# Seconds between two lines about what senders did wrong: they may do it a thousand times a second.
COMPLAIN_EVERY = 10.0


class ReceiverEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something to be told."""

    def line(self) -> str:
        """Say it in one line."""
        raise NotImplementedError


class ListeningStarted(ReceiverEvent, frozen=True, kw_only=True, tag="listening"):
    """The receiver can be sent to."""

    url: str  # where
    store: str  # where runs are kept
    traces: int  # traces that a former start had not closed yet
    spans: int  # their spans

    def line(self) -> str:
        """Say where to send, and what is taken up."""
        said = f"Receiving OTLP at {self.url}, into {self.store}. Ctrl-C ends."
        if self.traces:
            traces = format_count(self.traces, "open trace")
            said += f" Going on with {traces} ({format_count(self.spans, 'span')})."
        return said


class RunStored(ReceiverEvent, frozen=True, kw_only=True, tag="run"):
    """A run was closed: it is in the store, or was there already."""

    closed: ClosedTrace

    def line(self) -> str:
        """Account for its spans."""
        closed = self.closed
        agent = "" if closed.agent is None else f" ({closed.agent})"
        parts = [f"{closed.name}{agent}: {format_count(closed.spans, 'span')}"]
        if closed.account is not None:
            # Of a file it begins with the format and how many runs, which are known here.
            parts.append(closed.account.line().partition(" 1 run, ")[2])
        if closed.late:
            parts.append(f"reopened by {format_count(closed.late, 'late span')}")
        if closed.became == "known":
            parts.append("nothing new")
        parts += _also(closed)
        return "; ".join(parts)


class TraceLeftOut(ReceiverEvent, frozen=True, kw_only=True, tag="left"):
    """A trace without an agent was left out of the runs."""

    closed: ClosedTrace

    def line(self) -> str:
        """Say what was left out."""
        said = f"{self.closed.trace}: {format_count(self.closed.spans, 'span')}, none of an agent"
        return "; ".join([f"{said}: left out (--keep-all keeps it)", *_also(self.closed)])


class TraceQuarantined(ReceiverEvent, frozen=True, kw_only=True, tag="aside"):
    """A trace could not be read: its spans are in quarantine, or still in the journal."""

    closed: ClosedTrace

    def line(self) -> str:
        """Say why."""
        said = f"{self.closed.trace}: {format_count(self.closed.spans, 'span')} set aside"
        return f"{said}: {self.closed.reason}"


class RunsScored(ReceiverEvent, frozen=True, kw_only=True, tag="scored"):
    """Runs that were closed have their verdicts, or the reason why they have none."""

    records: int
    reason: str

    def line(self) -> str:
        """Say how many, or why not."""
        return f"not scored: {self.reason}" if self.reason else f"scored: {self.records:,} verdicts"


class SpansRefused(ReceiverEvent, frozen=True, kw_only=True, tag="refused"):
    """Requests were refused, or spans within them."""

    requests: int
    spans: int
    reason: str

    def line(self) -> str:
        """Say how much, and the last reason."""
        parts = [format_count(self.requests, "request")] if self.requests else []
        parts += [format_count(self.spans, "span")] if self.spans else []
        return f"refused {' and '.join(parts)}; the last: {self.reason}"


class ReceiverTrouble(ReceiverEvent, frozen=True, kw_only=True, tag="trouble"):
    """Something that the user should look at; the receiver goes on."""

    said: str

    def line(self) -> str:
        """Say it."""
        return self.said


class ReceiverStopped(ReceiverEvent, frozen=True, kw_only=True, tag="stopped"):
    """The receiver has ended; what is open waits for its next start."""

    runs: int  # runs closed, reopened ones counted each time
    spans: int  # spans in them
    left: int  # spans of traces without an agent
    traces: int  # traces that stay open in the journal
    waiting: int  # their spans
    journal: str  # where they wait

    def line(self) -> str:
        """Say what was received, and what stays open."""
        said = f"Stopped. {format_count(self.runs, 'run')} of {format_count(self.spans, 'span')}"
        if self.left:
            said += f", {format_count(self.left, 'span')} without an agent"
        if self.traces:
            waiting = f"{format_count(self.traces, 'trace')} ({format_count(self.waiting, 'span')})"
            said += f"; in {self.journal} wait {waiting} for the next --listen"
        return said + "."


Tell = Callable[[ReceiverEvent], None]


class RefusalReports:
    """What senders did wrong, told at once and then every ten seconds."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._requests = self._spans = 0
        self._reason = ""
        self._said: float | None = None

    def add(self, spans: int, reason: str) -> None:
        """Count one request of which `spans` were refused; 0 where all of it was."""
        self._requests += not spans
        self._spans += spans
        self._reason = reason
        self.say()

    def say(self, *, now: bool = False) -> None:
        """Tell what has gathered, if it is time."""
        due = self._said is None or time.monotonic() - self._said >= COMPLAIN_EVERY
        if (due or now) and self._requests + self._spans:
            self._said = time.monotonic()
            requests, spans, self._requests, self._spans = self._requests, self._spans, 0, 0
            self._tell(SpansRefused(requests=requests, spans=spans, reason=self._reason))


def _also(closed: ClosedTrace) -> list[str]:
    parts = [f"{format_count(closed.again, 'span')} came again"] if closed.again else []
    return [*parts, f"{format_count(closed.refused, 'span')} refused"] if closed.refused else parts
