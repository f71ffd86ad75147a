"""Senders for tests: spans as OTLP's JSON, requests over a plain socket, a receiver to send to."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

JSON_TYPE = "application/json"
PROTOBUF_TYPE = "application/x-protobuf"
# Seconds for anything that a test waits for.
PATIENCE = 120
BEGIN = 1_700_000_000_000_000_000
SECOND = 1_000_000_000


def attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def span(trace: str, id: str, parent: str = "", **about: Any) -> dict[str, Any]:
    """A model's call, as the GenAI conventions tell it; a root unless it has a parent."""
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"hello {id}"}]}])
    return {
        "traceId": trace.rjust(32, "0"),
        "spanId": id.rjust(16, "0"),
        "parentSpanId": parent and parent.rjust(16, "0"),
        "name": "chat",
        "kind": 3,
        "startTimeUnixNano": str(BEGIN + SECOND * int(id, 16)),
        "endTimeUnixNano": str(BEGIN + SECOND * int(id, 16) + SECOND // 2),
        "attributes": [
            attribute("gen_ai.operation.name", "chat"),
            attribute("gen_ai.input.messages", said),
        ],
        **about,
    }


def plain(trace: str, id: str, parent: str = "") -> dict[str, Any]:
    """A span that no agent has made."""
    return span(trace, id, parent, name="GET /", attributes=[attribute("http.route", "/")])


def export(*spans: Mapping[str, Any]) -> bytes:
    scoped = {"scope": {"name": "tests"}, "spans": list(spans)}
    resource = {"attributes": [attribute("service.name", "shop")]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]}).encode()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Receiver:
    """A `stepscope import --listen` in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], store: Path) -> None:
        self.process = process
        self.store = store
        self.first = self.event()
        self.url: str = self.first["url"]

    def event(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        found: dict[str, Any] = json.loads(line)
        return found

    def until(self, kind: str) -> dict[str, Any]:
        """The next event of a kind; what comes before it is passed over."""
        while (found := self.event())["event"] != kind:
            pass
        return found

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)

    def send(
        self, body: bytes, headers: Mapping[str, str] | None = None, path: str = "/v1/traces"
    ) -> Answer:
        connection = self.connection()
        try:
            connection.request("POST", path, body, headers or {"Content-Type": JSON_TYPE})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def stop(self, how: signal.Signals = signal.SIGINT) -> tuple[int, dict[str, Any]]:
        """The exit code, and the last event."""
        self.process.send_signal(how)
        out, err = self.process.communicate(timeout=PATIENCE)
        assert err == "", err
        return self.process.returncode, json.loads(out.splitlines()[-1])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


# A receiver of eight connections that waits so many seconds for a head and for a body.
_WAITING = """
import msgspec
from stepscope.receive.listening import ReceiverOptions, run_receiver
from stepscope.settings import Settings

plan = ReceiverOptions(
    quiet_seconds=0.1, idle_seconds=600, head_seconds=%r, body_seconds=%r, connections=8
)
tell = lambda e: print(msgspec.json.encode(e).decode(), flush=True)
run_receiver("runs.db", Settings(), plan, tell)
"""
PATIENT = _WAITING % (PATIENCE, PATIENCE)
# It gives up after a second, for tests of what comes slowly.
IMPATIENT = _WAITING % (0.6, 1.0)


@contextmanager
def receiver(
    folder: Path,
    *options: str,
    env: Mapping[str, str] | None = None,
    listen: str = "127.0.0.1:0",
    code: str | None = None,
) -> Iterator[Receiver]:
    """A receiver at a free port, with the store `runs.db` of a folder; killed at the end."""
    asked = command(listen, "--store", "runs.db", "--json", *options)
    process = subprocess.Popen(
        asked if code is None else [sys.executable, "-c", code],
        cwd=folder,
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Receiver(process, folder / "runs.db")
    finally:
        process.kill()
        process.communicate()


def command(listen: str, *options: str) -> Sequence[str]:
    code = "import sys; from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
    return [sys.executable, "-c", code, "import", "--listen", listen, *options]
