"""The receiver as a whole: listen, keep, close, score, until the user ends it.

Three things go on at once: senders are answered, spans are put on disk, traces that end are closed
in another process. At the end nobody is accepted any more, what was promised is on disk, runs whose
root has ended are closed, and the rest waits in the journal for the next start.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import TypeVar

import msgspec
import uvicorn
from starlette.types import ASGIApp

from stepscope import api
from stepscope.api.reading import Filling
from stepscope.errors import EnvironmentFault, UsageError
from stepscope.receive.app import make_app
from stepscope.receive.closing import Start
from stepscope.receive.closings import Closings, Waits
from stepscope.receive.events import (
    Complaints,
    Event,
    Left,
    Listening,
    Run,
    Stopped,
    Tell,
    Trouble,
)
from stepscope.receive.intake import Intake
from stepscope.receive.journal import Bounds
from stepscope.receive.patience import Patience, protocol
from stepscope.receive.policy import Address, Policy, hosts
from stepscope.settings import Settings
from stepscope.sqlite import MEMORY, faults

BACKLOG = 128
# Seconds between two looks for traces that end.
TICK = 0.25
# Seconds until a disk that was full, or a store that was locked, is tried again.
PATIENCE = 5.0
# Seconds until it is told again that something is waited for.
TELL_EVERY = 60.0
# Seconds for requests that are under way when the receiver ends.
GRACE = 5
_MAX_HEAD_BYTES = 32 * 1024
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
T = TypeVar("T")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How one start of the receiver works.

    Attributes:
        place: where it listens.
        token: what senders must say, None where loopback is enough.
        waits: when a trace ends.
        filling: what a run is given where its trace lacks it.
        keep_all: whether traces without an agent are runs too.
        patience: with senders.
    """

    place: Address
    token: str | None
    waits: Waits
    filling: Filling = Filling()
    keep_all: bool = False
    patience: Patience = Patience()


def listen(store: str, settings: Settings, plan: Plan, tell: Tell) -> Stopped:
    """Receive until SIGINT or SIGTERM, and return what came of it.

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
    with _alone(journal), closing(_bound(plan.place)) as listening:
        start = Start(store, journal, settings, plan.filling, plan.keep_all)
        stopped = asyncio.run(_Receiver(start, plan, tell).run(listening))
    # The process that closes runs was killed when idle: its log is folded into the file.
    api.open(store, settings=settings).close()
    return stopped


class _Receiver:
    """One start: what goes on at once, and what has come of it so far."""

    def __init__(self, start: Start, plan: Plan, tell: Tell) -> None:
        self._start = start
        self._plan = plan
        self._tell = tell
        self._complaints = Complaints(tell)
        self._stopping = asyncio.Event()
        self._runs = self._spans = self._left = 0
        self._troubled = ("", 0.0)
        # Closing has one thread: its connection to the journal belongs to it.
        self._pool = ThreadPoolExecutor(1, "closing")

    async def run(self, listening: socket.socket) -> Stopped:
        """Receive until a signal comes, or something breaks that waiting does not mend."""
        limits = self._start.settings.limits
        bounds = Bounds(limits.spans, limits.trace_bytes)
        host, port = listening.getsockname()[:2]
        policy = Policy(hosts=hosts(host, port), token=self._plan.token)
        try:
            async with Intake(self._start.journal, limits, bounds).running() as intake:
                closings = await self._in_pool(Closings, self._start, self._plan.waits)
                patience = self._plan.patience
                tell = self._complaints.add
                app = make_app(intake, policy, tell, body_seconds=patience.body_seconds)
                server = _server(app, patience)
                serving = asyncio.create_task(server.serve(sockets=[listening]))
                while not (server.started or serving.done()):
                    await asyncio.sleep(0.01)  # until then a signal would not find us
                found = await self._in_pool(closings.waiting)
                url, store = _url(host, port), self._start.store
                self._tell(Listening(url=url, store=store, traces=found.traces, spans=found.spans))
                await self._until_stopped(server, serving, closings, intake)
            # What was promised is on disk now, and nothing more comes in.
            return await self._last(closings)
        finally:
            self._pool.shutdown()

    async def _until_stopped(
        self,
        server: uvicorn.Server,
        serving: asyncio.Task[None],
        closings: Closings,
        intake: Intake,
    ) -> None:
        ending = asyncio.create_task(self._close_what_ends(closings))
        await asyncio.wait({serving, ending, intake.work}, return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        self._stopping.set()
        await serving
        if intake.work.done():
            intake.work.result()  # raises what broke it
        await ending

    async def _close_what_ends(self, closings: Closings) -> None:
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
                self._trouble(str(e))
                wait = PATIENCE
            await self._pause(wait)

    def _trouble(self, said: str) -> None:
        """Tell what is waited for, once a minute while it stays the same."""
        if said != self._troubled[0] or time.monotonic() - self._troubled[1] >= TELL_EVERY:
            self._troubled = (said, time.monotonic())
            self._tell(Trouble(said=f"{said}; what came in is kept, and tried again"))

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _last(self, closings: Closings) -> Stopped:
        """Close what has its root, and tell what is left."""
        while due := await self._in_pool(closings.due, last=True):
            self._count(await self._in_pool(closings.close, due))
        self._complaints.say(now=True)
        found = await self._in_pool(closings.waiting)
        await self._in_pool(closings.end)
        stopped = Stopped(
            runs=self._runs,
            spans=self._spans,
            left=self._left,
            traces=found.traces,
            waiting=found.spans,
            journal=self._start.journal,
        )
        self._tell(stopped)
        return stopped

    def _count(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Run):
                self._runs += 1
                self._spans += event.closed.spans
            elif isinstance(event, Left):
                self._left += event.closed.spans
            self._tell(event)

    async def _in_pool(self, call: Callable[..., T], *given: object, **named: object) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(call, *given, **named))


class _Server(uvicorn.Server):
    """uvicorn that ends on a signal, and leaves it to us what that means."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Ask to end on SIGINT and SIGTERM; afterwards they are what they were."""
        before = {sig: signal.signal(sig, self.handle_exit) for sig in _SIGNALS}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


def _server(app: ASGIApp, patience: Patience) -> _Server:
    return _Server(
        uvicorn.Config(
            app,
            http=protocol(patience),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_MAX_HEAD_BYTES,
            timeout_keep_alive=patience.keep_seconds,
            timeout_graceful_shutdown=GRACE,
        )
    )


@contextmanager
def _alone(journal: str) -> Iterator[None]:
    """Hold a lock that no other receiver gets, and that a kill gives back.

    Raises:
        UsageError: another receiver has it.
    """
    path = f"{journal}.lock"
    with faults(path), closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            store = journal.removesuffix(".journal")
            raise UsageError(
                f"another stepscope import --listen works for {store}; end it, or name another "
                "store with --store"
            ) from e
        yield


def _bound(place: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        # A port whose last connection is still closing is free for us.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(BACKLOG)
    except OSError as e:
        listening.close()
        where = f"{place.host} port {place.port}"
        if e.errno == errno.EADDRINUSE:
            raise UsageError(
                f"{where} is in use (by another collector?); choose another, as "
                f"--listen {place.host}:{place.port + 1}"
            ) from e
        if e.errno in {errno.EACCES, errno.EADDRNOTAVAIL}:
            raise UsageError(f"cannot listen at {where}: {e.strerror}; choose another") from e
        raise EnvironmentFault(f"cannot listen at {where}: {e.strerror}") from e
    return listening


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
