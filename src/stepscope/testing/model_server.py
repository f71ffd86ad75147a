"""A provider that does what a check says, on loopback: right, or badly in one way.

On bare asyncio, because a web framework cannot be told to break a connection amid a reply.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Literal, NamedTuple

import msgspec

Badly = Literal["", "hang", "reset", "half", "gzip"]


class Canned(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent back.

    Attributes:
        body: the reply's.
        status: its HTTP status.
        headers: further ones.
        delay: seconds before it.
        together: sent as soon as so many requests are open at once, after `delay` in any case.
        badly: never sent, reset before it, ended after half of it, or packed by gzip.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    delay: float = 0.0
    together: int = 0
    badly: Badly = ""


class Asked(NamedTuple):
    """One request: its path, its headers with names in lower case, its body."""

    path: str
    headers: Mapping[str, str]
    body: bytes


class ModelServer:
    """What a server of this check was asked, and what it answers."""

    def __init__(self, base: str) -> None:
        """Stand at an address."""
        self.base = base
        self.canned = Canned()
        self.asked: list[Asked] = []
        self.most_in_flight = 0
        self._in_flight = 0
        self._stop = asyncio.Event()
        self._crowd = asyncio.Event()
        self._open: dict[asyncio.Task[None] | None, asyncio.StreamWriter] = {}

    async def serve(self, held: socket.socket) -> None:
        """Answer on a listening socket until `stop` is called."""
        listening = await asyncio.start_server(self._connected, sock=held)
        await self._stop.wait()
        listening.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*[task for task in self._open if task is not None])

    def stop(self) -> None:
        """End, from the thread that serves."""
        self._stop.set()
        self._crowd.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        task = asyncio.current_task()
        self._open[task] = writer
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._answered(writer, await _request(reader)):
                pass
        writer.close()
        del self._open[task]

    async def _answered(self, writer: asyncio.StreamWriter, asked: Asked) -> bool:
        """Answer as told; return whether the connection stands."""
        canned = self.canned
        self.asked.append(asked)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        if self._in_flight >= canned.together > 0:
            self._crowd.set()
        try:
            async with asyncio.timeout(None if canned.badly == "hang" else canned.delay):
                await (self._crowd if canned.together else self._stop).wait()
        except TimeoutError:
            if canned.together:
                self._crowd.set()  # one such wait tells enough
        self._in_flight -= 1
        if canned.badly in {"hang", "reset"}:
            writer.transport.abort()
            return False
        writer.write(_head(canned) + _body(canned))
        await writer.drain()
        return canned.badly != "half"


@contextmanager
def serving() -> Iterator[ModelServer]:
    """Serve in a thread until the block ends."""
    held = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = ModelServer(f"http://127.0.0.1:{held.getsockname()[1]}")
    loop = asyncio.new_event_loop()

    def whole() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.serve(held))

    thread = threading.Thread(target=whole, name="model server")
    thread.start()
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()


async def _request(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    path = head[0].split(" ")[1]
    pairs = [line.partition(":") for line in head[1:] if line]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return Asked(path, headers, await _chunks(reader))
    return Asked(path, headers, await reader.readexactly(int(headers.get("content-length", "0"))))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int(await reader.readuntil(b"\r\n"), 16):
        body += await reader.readexactly(size)
        await reader.readuntil(b"\r\n")
    await reader.readuntil(b"\r\n")
    return bytes(body)


def _packed(canned: Canned) -> bytes:
    return gzip.compress(canned.body, 1) if canned.badly == "gzip" else canned.body


def _head(canned: Canned) -> bytes:
    headers = {"content-type": "application/json", "content-length": str(len(_packed(canned)))}
    if canned.badly == "gzip":
        headers["content-encoding"] = "gzip"
    lines = [f"{name}: {value}" for name, value in {**headers, **canned.headers}.items()]
    return "\r\n".join([f"HTTP/1.1 {canned.status} Said", *lines, "", ""]).encode()


def _body(canned: Canned) -> bytes:
    body = _packed(canned)
    return body[: len(body) // 2] if canned.badly == "half" else body
