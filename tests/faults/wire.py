"""HTTP/1.1 as a scripted provider speaks it: right, or wrong in every way that a script names.

Written on bare asyncio because a web framework cannot be told to reset a connection amid a body;
and because it must answer faster than any client that is measured against it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from tests.faults.script import Fault

_HEAD_END = b"\r\n\r\n"
_REASONS = {status.value: status.phrase for status in HTTPStatus}
# Bytes that go out at once when a body drips.
_DROP = 1


class Asked(NamedTuple):
    """One request, whole; header names in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body, decoded; what it holds is the protocol's business."""
        return json.loads(self.body)


class Answer(NamedTuple):
    """What is sent back, and how."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = {}
    how: Fault = Fault()


Sent = Callable[[int], None]
Answering = Callable[[Asked], Awaitable[tuple[Answer, Sent]]]


class Connection(asyncio.Protocol):
    """One connection, kept alive from request to request."""

    def __init__(self, answering: Answering) -> None:
        """Answer every request that comes whole by `answering`."""
        self._answering = answering
        self._held = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._drained.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        # What the kernel has taken is gone; what is still with us is not.
        transport.set_write_buffer_limits(0)

    def connection_lost(self, error: Exception | None) -> None:
        self._drained.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        self._held += data
        if self._task is None:
            self._next()

    def _next(self) -> None:
        found = _request(self._held)
        if found is None:
            return
        asked, used = found
        del self._held[:used]
        self._task = asyncio.create_task(self._answer(asked))

    async def _answer(self, asked: Asked) -> None:
        try:
            answer, sent = await self._answering(asked)
        except (KeyError, TypeError, ValueError):
            # A request that cannot be read is a fault of the test: hang up, and say where.
            self._transport.abort()
            raise
        status = 0
        try:
            if await self._send(answer):
                status = answer.status
        finally:
            sent(status)
        self._task = None
        if not self._transport.is_closing():
            self._next()

    async def _send(self, answer: Answer) -> bool:
        """Send the answer as its fault says; return whether its last byte is gone."""
        how = answer.how
        if how.delay:
            await asyncio.sleep(how.delay)
        if how.hang:
            await asyncio.Event().wait()
        if how.reset == "before":
            return self._reset()
        head, body = _encoded(answer)
        if how.reset == "headers":
            self._transport.write(head)
            return self._reset()
        if how.reset == "body" or how.truncated:
            self._transport.write(head + body[: len(body) // 2])
            await self._drained.wait()
            return self._reset() if how.reset else self._closed()
        if how.drip:
            self._transport.write(head)
            for at in range(0, len(body), _DROP):
                self._transport.write(body[at : at + _DROP])
                await asyncio.sleep(how.drip)
            return not self._transport.is_closing()
        self._transport.write(head + body)
        await self._drained.wait()
        return not self._transport.is_closing()

    def _reset(self) -> bool:
        held = self._transport.get_extra_info("socket")
        # Lingering for no time makes the kernel send a reset instead of an end.
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
        return False

    def _closed(self) -> bool:
        self._transport.close()
        return False


def _encoded(answer: Answer) -> tuple[bytes, bytes]:
    """Return head and body as bytes, padded and packed as the fault says."""
    how = answer.how
    body = answer.body if how.body is None else how.body.encode()
    headers = {"content-type": "application/json", **answer.headers}
    if how.padding:
        body += b" " * how.padding
    if how.bomb:
        body += b" " * how.bomb
    if how.gzip or how.bomb:
        body = gzip.compress(body)
        headers["content-encoding"] = "gzip"
    headers |= how.headers
    reason = _REASONS.get(answer.status, "Scripted")
    lines = [f"HTTP/1.1 {answer.status} {reason}"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    lines += [f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("latin-1"), body


def _request(held: bytearray) -> tuple[Asked, int] | None:
    """Return the first request of these bytes and its length, None while it is not whole."""
    end = held.find(_HEAD_END)
    if end < 0:
        return None
    first, *lines = held[:end].decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    start = end + len(_HEAD_END)
    if headers.get("transfer-encoding", "").lower() == "chunked":
        whole = _unchunked(held, start)
        if whole is None:
            return None
        body, used = whole
    else:
        used = start + int(headers.get("content-length", "0"))
        if len(held) < used:
            return None
        body = bytes(held[start:used])
    method, target, _ = first.split(" ", 2)
    path, _, query = target.partition("?")
    return Asked(method, path, dict(parse_qsl(query)), headers, body), used


def _unchunked(held: bytearray, start: int) -> tuple[bytes, int] | None:
    """Return a chunked body and where it ends, None while it is not whole."""
    body = bytearray()
    at = start
    while True:
        line = held.find(b"\r\n", at)
        if line < 0:
            return None
        size = int(bytes(held[at:line]).partition(b";")[0], 16)
        at = line + 2
        if len(held) < at + size + 2:
            return None
        body += held[at : at + size]
        at += size + 2
        if size == 0:
            return bytes(body), at
