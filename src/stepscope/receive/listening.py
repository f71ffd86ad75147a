"""The receiver as a whole: listen, keep, close, score, until the user ends it.

`ClosingQueue` decides which traces end now and starts the closing process again when it dies. A
trace that the process dies of, twice and alone the second time, stays in the journal and is
reported; the next start tries it once more. A full disk or a locked store is waited for.

At the end nobody is accepted any more, what was promised is on disk, runs whose root has ended are
closed, and the rest waits in the journal for the next start. Connections are limited in number and
in the seconds that they may wait for a head, which uvicorn does as long as a sender likes.
"""

from __future__ import annotations

import asyncio
import errno
import math
import socket
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, ClassVar, TypeVar

import msgspec
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from stepscope import api
from stepscope.errors import EnvironmentFault, StepscopeError, UsageError
from stepscope.receive import closing
from stepscope.receive.journal import DueTrace, Journal
from stepscope.receive.server import Intake, ReceiverGuard, make_receiver_app
from stepscope.runtime.database import MEMORY, hold_lock
from stepscope.runtime.processes import Executor, Job
from stepscope.runtime.signals import handle_stops
from stepscope.safety.limits import MIB
from stepscope.safety.offline import accepted_hosts, open_listener
from stepscope.score.importing import RunDefaults
from stepscope.settings import Settings

# Traces, and bytes of them, in one frame: what is scored together.
_MOST = 64
_MOST_BYTES = 16 * MIB
# Bytes of traces after which the process is exchanged for a fresh one: large ones stay in memory.
_RESTART_BYTES = 64 * MIB
_DIED = "the process that closes runs ended"


class ReceiverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How one start of the receiver works."""

    host: str = "127.0.0.1"  # where it listens
    port: int = 0  # 0: a free one
    token: str | None = None  # what senders must say, None where loopback is enough
    # when a trace ends: seconds without a span, after its root has ended and at any time
    quiet_seconds: float
    idle_seconds: float
    filling: RunDefaults = RunDefaults()  # what a run is given where its trace lacks it
    keep_all: bool = False  # whether traces without an agent are runs too
    head_seconds: float = 10.0  # for the head of a request, from the connection or its first byte
    body_seconds: float = 30.0  # for a whole body; exporters give up after ten
    keep_seconds: int = 65  # for the next request of a connection; exporters send every five
    connections: int = 256  # at once


class ClosingQueue:
    """Closes what is due; all its methods are called in one thread."""

    def __init__(
        self, start: closing.ClosingStart, *, quiet_seconds: float, idle_seconds: float
    ) -> None:
        self._start = start
        self._quiet, self._idle = quiet_seconds, idle_seconds
        self._journal = Journal(start.journal)
        self._journal.reopen_stuck()
        self._asked: SimpleQueue[Job[None]] = SimpleQueue()
        self._answers: Iterator[tuple[None, bytes]] | None = None
        self._done_bytes = 0

    def waiting(self) -> tuple[int, int]:
        """Return how many traces are in the journal, and how many spans of them."""
        return self._journal.waiting()

    def end(self) -> None:
        """End the process, and close the journal."""
        self._exchange()
        self._journal.shrink()
        self._journal.close()

    def sweep(self) -> None:
        """Erase traces that no agent came to."""
        self._journal.sweep(self._idle)

    def due(self, *, last: bool = False) -> list[DueTrace]:
        """Return what ends now; the last time whatever has its root."""
        quiet, idle = (0.0, math.inf) if last else (self._quiet, self._idle)
        return self._journal.due(quiet=quiet, idle=idle, most=_MOST, room=_MOST_BYTES)

    def close(self, due: list[DueTrace]) -> list[closing.ReceiverEvent]:
        """Close traces together; those of a frame that cannot be closed, one by one.

        `EnvironmentFault` where the disk is full or the store locked, nothing being lost.
        """
        try:
            return self._settled(self._ask(due))
        except EnvironmentFault as e:
            if not str(e).startswith(_DIED):
                raise
        return [event for trace in due for event in self._alone(trace)]

    def _alone(self, trace: DueTrace) -> list[closing.ReceiverEvent]:
        try:
            return self._settled(self._ask([trace]))
        except EnvironmentFault as e:
            if not str(e).startswith(_DIED):
                raise
            self._journal.mark(trace.trace, trace.upto, "stuck")
            reason = f"{e}; its spans stay in {self._start.journal}"
            aside = closing.ClosedTrace(
                trace=trace.trace, upto=trace.upto, became="aside", spans=trace.spans, reason=reason
            )
            return [closing.TraceQuarantined(closed=aside)]

    def _ask(self, due: list[DueTrace]) -> closing.ClosingReply:
        if self._answers is None:
            executor = Executor(workers=1, ahead=1, died=_DIED + " (exit code {code})")
            start = msgspec.json.encode(self._start)
            self._answers = executor.map(closing.begin_closing, start, iter(self._asked.get, None))
        self._asked.put(Job(None, msgspec.json.encode(due)))
        try:
            _, answer = next(self._answers)
        except StepscopeError:
            self._exchange()
            raise
        self._done_bytes += sum([trace.bytes for trace in due])
        if self._done_bytes >= _RESTART_BYTES:
            self._exchange()
        return closing.reply_decoder.decode(answer)

    def _exchange(self) -> None:
        if self._answers is not None:
            self._answers.close()  # type: ignore[attr-defined]
        self._answers, self._done_bytes = None, 0
        self._asked = SimpleQueue()

    def _settled(self, reply: closing.ClosingReply) -> list[closing.ReceiverEvent]:
        """Forget in the journal what is in the store, and return what to tell."""
        self._journal.closed([(c.trace, c.upto) for c in reply.closed if c.became != "left"])
        events: list[closing.ReceiverEvent] = []
        for closed in reply.closed:
            match closed.became:
                case "left":
                    self._journal.mark(closed.trace, closed.upto, "left")
                    events.append(closing.TraceLeftOut(closed=closed))
                case "aside":
                    events.append(closing.TraceQuarantined(closed=closed))
                case _:
                    events.append(closing.RunStored(closed=closed))
        if reply.records or reply.unscored:
            events.append(closing.RunsScored(records=reply.records, reason=reply.unscored))
        return events


_TOO_MANY_CONNECTIONS = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class LimitedProtocol(H11Protocol):
    """One connection; uvicorn makes an instance of a subclass that has the options for each."""

    options: ClassVar[ReceiverOptions]

    def __init__(self, *given: Any, **named: Any) -> None:  # uvicorn's own arguments
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait, or say that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.options.connections:
            transport.write(_TOO_MANY_CONNECTIONS)
            transport.close()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that has begun must end."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Go on to the next request, which may have come already."""
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn has None here at first
        if cycle is not None and not cycle.response_complete:
            self._stop()
        elif self.timeout_keep_alive_task is None and self._head is None:
            self._wait()

    def _wait(self) -> None:
        self._head = self.loop.call_later(self.options.head_seconds, self._end)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()


BACKLOG = 128
# Seconds between two looks for traces that end.
TICK = 0.25
# Seconds until a disk that was full, or a store that was locked, is tried again.
CLOSE_SECONDS = 5.0
# Seconds until it is told again that something is waited for.
TELL_EVERY = 60.0
# Seconds for requests that are under way when the receiver ends.
GRACE = 5
_MAX_HEAD_BYTES = 32 * 1024
T = TypeVar("T")


def run_receiver(
    store: str, settings: Settings, plan: ReceiverOptions, tell: closing.Tell
) -> closing.ReceiverStopped:
    """Receive until Ctrl-C, SIGTERM or SIGHUP, and return what came of it.

    Raises:
        UsageError: the port is taken, or another receiver works for this store.
        StoreError: the store is none, or has runs scored under other weights.
        EnvironmentFault: the disk does not let it be written.
    """
    if store == MEMORY:
        raise UsageError("runs that are received need a store on disk; name one with --store")
    with api.open(store, settings=settings) as notebook:
        notebook.store.fix_weights(settings.weights)
    journal = f"{store}.journal"
    advice = "end it, or name another store with --store"
    taken = f"another stepscope import --listen works for {store}; {advice}"
    with hold_lock(f"{journal}.lock", taken), _bind(plan.host, plan.port) as listening:
        start = closing.ClosingStart(store, journal, settings, plan.filling, plan.keep_all)
        stopped = asyncio.run(_Receiver(start, plan, tell).run(listening))
    # The process that closes runs was killed when idle: its log is folded into the file.
    api.open(store, settings=settings).close()
    return stopped


class _Receiver:
    """One start: what goes on at once, and what has come of it so far."""

    def __init__(
        self, start: closing.ClosingStart, plan: ReceiverOptions, tell: closing.Tell
    ) -> None:
        self._start = start
        self._plan = plan
        self._tell = tell
        self._complaints = closing.RefusalReports(tell)
        self._stopping = asyncio.Event()
        self._runs = self._spans = self._left = 0
        self._troubled = ("", 0.0)
        # Closing has one thread: its connection to the journal belongs to it.
        self._pool = ThreadPoolExecutor(1, "closing")

    async def run(self, listening: socket.socket) -> closing.ReceiverStopped:
        """Receive until a signal comes, or something breaks that waiting does not mend."""
        limits = self._start.settings.limits
        host, port = listening.getsockname()[:2]
        plan = self._plan
        try:
            async with Intake(self._start.journal, limits).running() as intake:
                ends = {"quiet_seconds": plan.quiet_seconds, "idle_seconds": plan.idle_seconds}
                closings = await self._in_pool(ClosingQueue, self._start, **ends)
                tell = self._complaints.add
                app = make_receiver_app(intake, tell, body_seconds=plan.body_seconds)
                hosts = accepted_hosts(host, port)
                guarded = ReceiverGuard(app, hosts, plan.token, tell)
                server = _Server(_server_settings(guarded, plan))
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                while not (server.started or serving.done()):
                    await asyncio.sleep(0.01)  # until then a signal would not find us
                traces, spans = await self._in_pool(closings.waiting)
                url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
                store = self._start.store
                told = closing.ListeningStarted(url=url, store=store, traces=traces, spans=spans)
                self._tell(told)
                ending = asyncio.create_task(self._close_what_ends(closings))
                tasks = {serving, ending, intake.work}
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                server.should_exit = True
                self._stopping.set()
                await serving
                if intake.work.done():
                    intake.work.result()  # raises what broke it
                await ending
            # What was promised is on disk now, and nothing more comes in.
            return await self._last(closings)
        finally:
            self._pool.shutdown()

    async def _close_what_ends(self, closings: ClosingQueue) -> None:
        while not self._stopping.is_set():
            self._complaints.say()
            wait = TICK
            try:
                due = await self._in_pool(closings.due)
                if due:
                    self._count(await self._in_pool(closings.close, due))
                    continue
                await self._in_pool(closings.sweep)
            except EnvironmentFault as e:
                # What is waited for is told once a minute while it stays the same.
                said, now = str(e), time.monotonic()
                if said != self._troubled[0] or now - self._troubled[1] >= TELL_EVERY:
                    self._troubled = (said, now)
                    why = f"{said}; what came in is kept, and tried again"
                    self._tell(closing.ReceiverTrouble(said=why))
                wait = CLOSE_SECONDS
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    async def _last(self, closings: ClosingQueue) -> closing.ReceiverStopped:
        """Close what has its root, and tell what is left."""
        while due := await self._in_pool(closings.due, last=True):
            self._count(await self._in_pool(closings.close, due))
        self._complaints.say(now=True)
        traces, waiting = await self._in_pool(closings.waiting)
        await self._in_pool(closings.end)
        stopped = closing.ReceiverStopped(
            runs=self._runs,
            spans=self._spans,
            left=self._left,
            traces=traces,
            waiting=waiting,
            journal=self._start.journal,
        )
        self._tell(stopped)
        return stopped

    def _count(self, events: list[closing.ReceiverEvent]) -> None:
        for event in events:
            if isinstance(event, closing.RunStored):
                self._runs += 1
                self._spans += event.closed.spans
            elif isinstance(event, closing.TraceLeftOut):
                self._left += event.closed.spans
            self._tell(event)

    async def _in_pool(self, call: Callable[..., T], *given: object, **named: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(call, *given, **named))


class _Server(uvicorn.Server):
    """uvicorn that ends on a signal, and leaves it to us what that means."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Ask to end on every stop; afterwards they are what they were."""
        with handle_stops(self.handle_exit):
            yield


def _server_settings(app: ASGIApp, plan: ReceiverOptions) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=type("Limited", (LimitedProtocol,), {"options": plan}),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
        timeout_keep_alive=plan.keep_seconds,
        timeout_graceful_shutdown=GRACE,
    )


def _bind(host: str, port: int) -> socket.socket:
    try:
        return open_listener(host, port, BACKLOG)
    except OSError as e:
        where = f"{host} port {port}"
        if e.errno == errno.EADDRINUSE:
            advice = f"choose another, as --listen {host}:{port + 1}"
            raise UsageError(f"{where} is in use (by another collector?); {advice}") from e
        if e.errno in {errno.EACCES, errno.EADDRNOTAVAIL}:
            raise UsageError(f"cannot listen at {where}: {e.strerror}; choose another") from e
        raise EnvironmentFault(f"cannot listen at {where}: {e.strerror}") from e
