"""What the receiver tells while it runs: one line each for a person, one object for a program."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from stepscope.receive.closing import Closed

# Seconds between two lines about what senders did wrong: they may do it a thousand times a second.
COMPLAIN_EVERY = 10.0


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag=str.lower):
    """Something to be told."""

    def line(self) -> str:
        """Say it in one line."""
        raise NotImplementedError


class Listening(Event, frozen=True, kw_only=True):
    """The receiver can be sent to.

    Attributes:
        url: where.
        store: where runs are kept.
        traces: traces that a former start had not closed yet.
        spans: their spans.
    """

    url: str
    store: str
    traces: int
    spans: int

    def line(self) -> str:
        """Say where to send, and what is taken up."""
        said = f"Receiving OTLP at {self.url}, into {self.store}. Ctrl-C ends."
        if self.traces:
            said += f" Going on with {_n(self.traces, 'open trace')} ({_n(self.spans, 'span')})."
        return said


class Run(Event, frozen=True, kw_only=True):
    """A run was closed: it is in the store, or was there already."""

    closed: Closed

    def line(self) -> str:
        """Account for its spans."""
        closed = self.closed
        agent = "" if closed.agent is None else f" ({closed.agent})"
        parts = [f"{closed.name}{agent}: {_n(closed.spans, 'span')}"]
        if closed.account is not None:
            # Of a file it begins with the format and how many runs, which are known here.
            parts.append(closed.account.line().partition(" 1 run, ")[2])
        if closed.late:
            parts.append(f"reopened by {_n(closed.late, 'late span')}")
        if closed.became == "known":
            parts.append("nothing new")
        parts += _beside(closed)
        return "; ".join(parts)


class Left(Event, frozen=True, kw_only=True):
    """A trace without an agent was left out of the runs."""

    closed: Closed

    def line(self) -> str:
        """Say what was left out."""
        said = f"{self.closed.trace}: {_n(self.closed.spans, 'span')}, none of an agent"
        return "; ".join([f"{said}: left out (--keep-all keeps it)", *_beside(self.closed)])


class Aside(Event, frozen=True, kw_only=True):
    """A trace could not be read: its spans are in quarantine, or still in the journal."""

    closed: Closed

    def line(self) -> str:
        """Say why."""
        return (
            f"{self.closed.trace}: {_n(self.closed.spans, 'span')} set aside: {self.closed.reason}"
        )


class Scored(Event, frozen=True, kw_only=True):
    """Runs that were closed have their verdicts, or the reason why they have none."""

    records: int
    reason: str

    def line(self) -> str:
        """Say how many, or why not."""
        return f"not scored: {self.reason}" if self.reason else f"scored: {self.records:,} verdicts"


class Refused(Event, frozen=True, kw_only=True):
    """Requests were refused, or spans within them."""

    requests: int
    spans: int
    reason: str

    def line(self) -> str:
        """Say how much, and the last reason."""
        parts = [_n(self.requests, "request")] if self.requests else []
        parts += [_n(self.spans, "span")] if self.spans else []
        return f"refused {' and '.join(parts)}; the last: {self.reason}"


class Trouble(Event, frozen=True, kw_only=True):
    """Something that the user should look at; the receiver goes on."""

    said: str

    def line(self) -> str:
        """Say it."""
        return self.said


class Stopped(Event, frozen=True, kw_only=True):
    """The receiver has ended; what is open waits for its next start.

    Attributes:
        runs: runs closed, reopened ones counted each time.
        spans: spans in them.
        left: spans of traces without an agent.
        traces: traces that stay open in the journal.
        waiting: their spans.
        journal: where they wait.
    """

    runs: int
    spans: int
    left: int
    traces: int
    waiting: int
    journal: str

    def line(self) -> str:
        """Say what was received, and what stays open."""
        said = f"Stopped. {_n(self.runs, 'run')} of {_n(self.spans, 'span')}"
        if self.left:
            said += f", {_n(self.left, 'span')} without an agent"
        if self.traces:
            waiting = f"{_n(self.traces, 'trace')} ({_n(self.waiting, 'span')})"
            said += f"; in {self.journal} wait {waiting} for the next --listen"
        return said + "."


Tell = Callable[[Event], None]


class Complaints:
    """What senders did wrong, told at once and then every ten seconds."""

    def __init__(self, tell: Tell) -> None:
        """Tell `tell`."""
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
            self._tell(Refused(requests=self._requests, spans=self._spans, reason=self._reason))
            self._requests = self._spans = 0


def _beside(closed: Closed) -> list[str]:
    parts = [f"{_n(closed.again, 'span')} came again"] if closed.again else []
    return [*parts, f"{_n(closed.refused, 'span')} refused"] if closed.refused else parts


def _n(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
