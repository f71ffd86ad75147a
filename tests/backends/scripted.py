"""A server of HTTP that does what a test says, and notes every request in the order they came."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import parse_qs, urlsplit

from stepscope.model import Json


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)


class Answer(NamedTuple):
    """One reply: bytes are sent as they are, an iterator as long as it lasts, all else as JSON."""

    body: Json | bytes | Iterator[bytes] = None
    status: int = 200
    headers: Mapping[str, str] = MappingProxyType({})


Script = Callable[[Asked], Answer]


class Served(NamedTuple):
    """Where it is served, and the ledger: nothing is ever taken out of it."""

    base: str
    ledger: list[Asked]

    def times(self, method: str, path: str) -> int:
        return sum((asked.method, asked.path) == (method, path) for asked in self.ledger)


@contextmanager
def served(script: Script) -> Iterator[Served]:
    """Answer on a free port of loopback by `script` until the block ends."""
    ledger: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536  # head and body in one packet

        def _answer(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("content-length") or 0)
            asked = Asked(
                self.command,
                parts.path,
                parse_qs(parts.query, keep_blank_values=True),
                {key.lower(): value for key, value in self.headers.items()},
                self.rfile.read(length),
            )
            ledger.append(asked)
            answer = script(asked)
            held = answer.body
            if isinstance(held, Iterator):
                self._stream(held)
                return
            body = held if isinstance(held, bytes) else json.dumps(held).encode()
            self.send_response(answer.status)
            headers = {"content-type": "application/json", **answer.headers}
            for key, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)

        def _stream(self, chunks: Iterator[bytes]) -> None:
            self.send_response(200)
            self.send_header("connection", "close")
            self.end_headers()
            for chunk in chunks:
                self.wfile.write(chunk)
                self.wfile.flush()

        do_GET = do_POST = do_PATCH = do_PUT = _answer

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            if not isinstance(sys.exception(), ConnectionError):  # a client may hang up
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{server.server_port}", ledger)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
