"""Connections that do not wait forever: for a head ten seconds, for the next one a minute.

uvicorn waits for the first byte of a request, and for the last of its head, as long as a sender
likes; whoever opens enough connections and says nothing would keep all others out.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Length: 0\r\n\r\n"
)


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited, and for how many.

    Attributes:
        head_seconds: for the head of a request, from the connection or its first byte.
        body_seconds: for a whole body; exporters give up after ten.
        keep_seconds: for the next request of a connection; exporters send every five.
        connections: at once.
    """

    head_seconds: float = 10.0
    body_seconds: float = 30.0
    keep_seconds: int = 65
    connections: int = 256


def protocol(patience: Patience) -> type[H11Protocol]:
    """Return what serves connections with such patience; uvicorn makes one for each."""
    return type("Patient", (PatientProtocol,), {"patience": patience})


class PatientProtocol(H11Protocol):
    """One connection."""

    patience: ClassVar[Patience] = Patience()

    def __init__(self, *given: Any, **named: Any) -> None:  # uvicorn's own arguments
        super().__init__(*given, **named)
        self._head: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait, or say that there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.patience.connections:
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
        self._head = self.loop.call_later(self.patience.head_seconds, self._end)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _end(self) -> None:
        self._head = None
        if not self.transport.is_closing():
            self.transport.close()
