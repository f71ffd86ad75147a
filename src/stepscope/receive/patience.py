"""Connections that do not wait forever: for a head ten seconds, for the next one a minute.

uvicorn waits for the first byte of a request, and for the last of its head, as long as a sender
likes; whoever opens enough connections and says nothing would keep all others out.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# Seconds for the head of a request, from the connection or its first byte.
HEAD_SECONDS = 10.0
# Seconds that a connection is kept for the next request: exporters send every five.
KEEP_SECONDS = 65
MOST_CONNECTIONS = 256
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class PatientProtocol(H11Protocol):
    """One connection."""

    def __init__(self, *given: Any, **named: Any) -> None:  # uvicorn's own arguments
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait, or say that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.write(_FULL)
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
        self._head = self.loop.call_later(HEAD_SECONDS, self._end)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()
