"""A `view` at work in a process of its own, and a client that writes bytes to it."""

# fmt: off
from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from bars.attack._third import ended

# Streams that a fork no longer uses: they would close what they stood for.
OLD: list[object] = []


class Answer(NamedTuple):
    """What a server answered; a status of 0 where it closed without a word."""

    status: int
    heads: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    def head(self, name: str) -> str:
        """Return the last header of this name."""
        return dict(self.heads).get(name, "")


def raw(port: int, request: bytes, seconds: float = 9.0) -> Answer:
    """Send bytes, and return the first answer."""
    said = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as made:
        with suppress(OSError):
            made.sendall(request)
        try:
            while part := made.recv(65536):
                said += part
                head, mark, body = said.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                if mark and length and (len(body) >= int(length[1]) or request[:4] == b"HEAD"):
                    break
        except TimeoutError:
            return Answer(-1, [], said)
        except OSError:
            pass
    head, _, body = said.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    heads = [(k.strip().lower(), v.strip()) for k, _, v in (x.partition(":") for x in lines[1:])]
    return Answer(status, heads, body)


class Server:
    """A `view` that is at work in a fork of this process."""

    def __init__(self, *words: str) -> None:
        """Start it, and come in by its address."""
        read, write = os.pipe()
        error, told = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(write, 1)
            os.dup2(told, 2)
            OLD.append((sys.stdout, sys.stderr))
            sys.stdout, sys.stderr = (os.fdopen(n, "w", encoding="utf-8") for n in (1, 2))
            from stepscope.cli.main import main
            from stepscope.runtime.signals import interrupt_on_stops

            interrupt_on_stops()
            code = main(["view", "--no-open", "--json", *words])
            sys.stderr.flush()
            os._exit(code)
        os.close(write)
        os.close(told)
        self._error = error
        self.said = b""
        while b"}" not in self.said:
            part = os.read(read, 4096)
            if not part:
                raise RuntimeError(f"view did not start: {os.read(error, 9999)!r}")
            self.said += part
        self.url = str(json.loads(self.said)["url"])
        found = re.search(r":(\d+)/\?token=(.*)", self.url)
        assert found
        self.port, self.token = int(found[1]), found[2]
        self.host = f"127.0.0.1:{self.port}"
        self.cookie = ""

    def open(self) -> Answer:
        """Spend the token, and keep the cookie."""
        end = time.monotonic() + 9
        while True:
            with suppress(ConnectionError):
                first = self.ask(f"/?token={self.token}")
                break
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.05)
        self.cookie = first.head("set-cookie").partition(";")[0]
        return first

    def ask(self, path: str, method: str = "GET", heads: dict[str, str] | None = None,
            body: bytes = b"") -> Answer:  # fmt: skip
        """Ask as a browser does, but for these headers; one that is empty is left out."""
        held = {"Host": self.host, "Cookie": self.cookie, "Connection": "close", **(heads or {})}
        lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in held.items() if v)]
        return raw(self.port, "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body)

    def errors(self) -> str:
        """Return what it said on standard error so far."""
        os.set_blocking(self._error, False)
        try:
            return os.read(self._error, 1 << 20).decode("utf-8", "replace")
        except BlockingIOError:
            return ""

    def stop(self, kind: int = signal.SIGINT) -> int:
        """End it, and return its code."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, kind)
        return ended(self.pid)


@contextmanager
def served(*words: str) -> Iterator[Server]:
    """A server whose page is open; at its end it must not have said that anything is a bug."""
    server = Server(*words)
    try:
        server.open()
        yield server
    finally:
        told = server.errors()
        server.stop(signal.SIGKILL)
        assert not re.search("Traceback|bug", told), told[-300:]
