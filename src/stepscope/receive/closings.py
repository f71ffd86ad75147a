"""Which traces end now, and the process that closes them; a process that dies is started again.

A trace that the process dies of, twice and alone the second time, is left in the journal and said;
the next start tries it once more. A disk that is full, or a store that is locked, is waited for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from queue import SimpleQueue

import msgspec

from stepscope import processes
from stepscope.errors import EnvironmentFault, StepscopeError
from stepscope.processes import Job
from stepscope.receive import closing
from stepscope.receive.closing import Closed, Reply, Start, replies
from stepscope.receive.events import Aside, Event, Left, Run, Scored
from stepscope.receive.journal import Due, Journal, Open
from stepscope.safety.limits import MIB

# Traces, and bytes of them, in one frame: what is scored together.
_MOST = 64
_ROOM = 16 * MIB
# Bytes of traces after which the process is exchanged for a fresh one: large ones stay in memory.
_WORN = 64 * MIB
_DIED = "the process that closes runs ended"


class Waits(msgspec.Struct, frozen=True):
    """When a trace ends: seconds without a span, after its root has ended and at any time."""

    quiet: float
    idle: float


class Closings:
    """Closes what is due; all its methods are called in one thread."""

    def __init__(self, start: Start, waits: Waits) -> None:
        """Close traces of the journal and into the store that `start` names."""
        self._start = start
        self._waits = waits
        self._journal = Journal(start.journal)
        self._journal.reopen_stuck()
        self._asked: SimpleQueue[Job[None]] = SimpleQueue()
        self._answers: Iterator[tuple[None, bytes]] | None = None
        self._done_bytes = 0

    def waiting(self) -> Open:
        """Return how much is in the journal."""
        return self._journal.waiting()

    def end(self) -> None:
        """End the process, and close the journal."""
        self._exchange()
        self._journal.shrink()
        self._journal.close()

    def sweep(self) -> None:
        """Erase traces that no agent came to."""
        self._journal.sweep(self._waits.idle)

    def due(self, *, last: bool = False) -> list[Due]:
        """Return what ends now; the last time whatever has its root."""
        quiet, idle = (0.0, math.inf) if last else (self._waits.quiet, self._waits.idle)
        return self._journal.due(quiet=quiet, idle=idle, most=_MOST, room=_ROOM)

    def close(self, due: list[Due]) -> list[Event]:
        """Close traces together; those of a frame that cannot be closed, one by one.

        Raises:
            EnvironmentFault: the disk is full, or the store is locked; nothing was lost.
            StepscopeError: the store is none any more.
        """
        try:
            return self._settled(self._ask(due))
        except EnvironmentFault as e:
            if not str(e).startswith(_DIED):
                raise
        return [event for trace in due for event in self._alone(trace)]

    def _alone(self, trace: Due) -> list[Event]:
        try:
            return self._settled(self._ask([trace]))
        except EnvironmentFault as e:
            if not str(e).startswith(_DIED):
                raise
            self._journal.mark(trace.trace, trace.upto, "stuck")
            reason = f"{e}; its spans stay in {self._start.journal}"
            return [Aside(closed=_aside(trace, reason))]

    def _ask(self, due: list[Due]) -> Reply:
        if self._answers is None:
            self._answers = processes.answered(
                closing.__name__,
                msgspec.json.encode(self._start),
                iter(self._asked.get, None),
                workers=1,
                ahead=1,
                died=_DIED + " (exit code {code})",
            )
        self._asked.put(Job(None, msgspec.json.encode(due)))
        try:
            _, answer = next(self._answers)
        except StepscopeError:
            self._exchange()
            raise
        self._done_bytes += sum([trace.bytes for trace in due])
        if self._done_bytes >= _WORN:
            self._exchange()
        return replies.decode(answer)

    def _exchange(self) -> None:
        if self._answers is not None:
            self._answers.close()  # type: ignore[attr-defined]
        self._answers, self._done_bytes = None, 0
        self._asked = SimpleQueue()

    def _settled(self, reply: Reply) -> list[Event]:
        """Forget in the journal what is in the store, and return what to tell."""
        stored = [(c.trace, c.upto) for c in reply.closed if c.became != "left"]
        self._journal.closed(stored)
        events: list[Event] = []
        for closed in reply.closed:
            match closed.became:
                case "left":
                    self._journal.mark(closed.trace, closed.upto, "left")
                    events.append(Left(closed=closed))
                case "aside":
                    events.append(Aside(closed=closed))
                case _:
                    events.append(Run(closed=closed))
        if reply.records or reply.unscored:
            events.append(Scored(records=reply.records, reason=reply.unscored))
        return events


def _aside(trace: Due, reason: str) -> Closed:
    return Closed(
        trace=trace.trace, upto=trace.upto, became="aside", spans=trace.spans, reason=reason
    )
