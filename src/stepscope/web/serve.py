"""Listen on one address and serve until the user stops it.

The port is taken before anything is printed, so that what is printed works. Only HTTP/1.1 is
spoken; headers that claim to come from a proxy are not believed.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import socket

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from stepscope.errors import EnvironmentFault, UsageError
from stepscope.safety.offline import open_listener

# Tried first where no port is asked for, so that a bookmark keeps its address.
USUAL_PORT = 7357
# Requests that wait for a connection to be taken.
BACKLOG = 64
# What the door refuses must reach it first: twice its own limit of headers, and the address.
MAX_HEAD_BYTES = 64 * 1024
# A browser sends a head at once.
HEAD_SECONDS = 10.0
# A stream of events never ends by itself; a page is done in a second.
GRACE_SECONDS = 1
# New objects after which unreachable cycles are looked for.
GC_OBJECTS = 50_000


def open_socket(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens at `host`; without a port at the usual one, or any free one."""
    if port is not None:
        return _bound(host, port)
    try:
        return _bound(host, USUAL_PORT)
    except UsageError:
        return _bound(host, 0)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return open_listener(host, port, BACKLOG)
    except OSError as e:
        away = f"{host!r} is no address of this machine; choose another with --host"
        advice = {
            errno.EADDRINUSE: f"port {port} is in use; choose another with --port, or leave it out",
            errno.EACCES: f"port {port} is the system's; choose one above 1023 with --port",
            errno.EADDRNOTAVAIL: away,
        }
        if e.errno in advice:
            raise UsageError(advice[e.errno]) from e
        raise EnvironmentFault(f"cannot listen at {host} port {port}: {e.strerror}") from e


def socket_url(listening: socket.socket) -> str:
    """Return what to type into a browser for a listening socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class TimedProtocol(H11Protocol):
    """A connection on which the head of every request has to come in time."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._deadline = self.loop.call_later(HEAD_SECONDS, transport.close)

    def data_received(self, data: bytes) -> None:
        """Take what came; a request that was begun has to end."""
        super().data_received(data)
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn has None here at first
        if cycle is not None and not cycle.response_complete:
            self._cancel()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._cancel()
        super().connection_lost(exc)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def make_server(app: ASGIApp) -> uvicorn.Server:
    """Return what serves an application; it says nothing by itself."""
    config = uvicorn.Config(
        app,
        http=TimedProtocol,
        ws="none",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    return uvicorn.Server(config)


def serve_until_stopped(app: ASGIApp, listening: socket.socket) -> None:
    """Serve until a stop; raises KeyboardInterrupt, on SIGINT and SIGTERM after closing."""
    # Reading 20,000 runs makes a million short-lived rows: looking for cycles among them every 700
    # objects would take a third of the time.
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)
    make_server(app).run(sockets=[listening])
