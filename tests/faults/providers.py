"""A provider of models that does what a script says: real HTTP, real protocols, no model.

It speaks OpenAI's chat completions, files and batches under `/v1`, and Anthropic's messages and
message batches, on one port of loopback. What it answers is a valid instance of the schema that was
sent, chosen by the hash of the request, or what the script says (`script.Script`: faults by number,
by text, by default; answer functions by name). What it was really asked stands in an append-only
file (`oracle.Entry`): one line when a request has come whole, one when its answer has gone.

In a thread of a test, with the script changed at will:

    with serving(Script(first=(Fault(status=429),))) as provider:
        client = AsyncOpenAI(base_url=provider.openai, api_key="none")
        provider.script = Script(answer="echo")
        provider.asked  # every request, as it came

In a process of its own, which outlives the process that is killed:

    with started(folder, Script(always=Fault(delay=0.05))) as provider:
        provider.entries()

By hand: `python -m tests.faults.providers --port=8000 --delay=0.1`. With `--processes=4` several
processes share the port; each has batches of its own, so that is for chat alone.
`POST /_script` puts another script in place, `GET /_state` tells what was asked.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.faults.oracle import Entry, Oracle, entries
from tests.faults.script import Fault, Script
from tests.faults.server import Server
from tests.faults.wire import Asked

ROOT = Path(__file__).resolve().parents[2]
# Seconds until a started process must listen.
_START = 120.0
# Answers rightly, always.
RIGHT = Script()


class Provider:
    """A provider that is running.

    Attributes:
        base: its address; Anthropic's SDK takes it as `base_url`.
        ledger: the file of what was asked; None where none was wanted.
    """

    def __init__(self, base: str, ledger: Path | None) -> None:
        """Be at this address."""
        self.base = base
        self.ledger = ledger

    @property
    def anthropic(self) -> str:
        """The base address for Anthropic's SDK."""
        return self.base

    @property
    def openai(self) -> str:
        """The base address for OpenAI's SDK."""
        return f"{self.base}/v1"

    def entries(self) -> list[Entry]:
        """Return what was asked, from the file."""
        return [] if self.ledger is None else entries(self.ledger)

    def put(self, script: Script) -> None:
        """Put another script in place; numbers begin at 0 again."""
        body = msgspec.json.encode(script)
        request = urllib.request.Request(f"{self.base}/_script", data=body, method="POST")
        with urllib.request.urlopen(request, timeout=_START) as reply:
            reply.read()


class Threaded(Provider):
    """A provider in a thread of this process: its requests and its script are at hand."""

    def __init__(self, base: str, ledger: Path | None, server: Server) -> None:
        """Be served by `server`."""
        super().__init__(base, ledger)
        self._server = server

    @property
    def asked(self) -> list[Asked]:
        """Requests to models, in the order they came."""
        return self._server.asked

    @property
    def most_in_flight(self) -> int:
        """The largest number of requests to models that were open at once."""
        return self._server.most_in_flight

    def finish(self) -> None:
        """End every batch now."""
        self._server.finish()

    @property
    def looks(self) -> int:
        """How often batches were looked at."""
        return self._server.looks

    @property
    def script(self) -> Script:
        """What it does."""
        return self._server.script

    @script.setter
    def script(self, script: Script) -> None:
        self._server.put(script)


@contextmanager
def serving(script: Script = RIGHT, *, ledger: Path | None = None) -> Iterator[Threaded]:
    """Serve in a thread until the block ends; yield the provider."""
    server = Server(script, Oracle(ledger))
    loop = asyncio.new_event_loop()
    held = socket.create_server(("127.0.0.1", 0), backlog=1024)
    port = held.getsockname()[1]
    stop = asyncio.Event()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(server.serve(held, stop))

    thread = threading.Thread(target=run, name="provider")
    thread.start()
    try:
        yield Threaded(f"http://127.0.0.1:{port}", ledger, server)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


@contextmanager
def started(
    folder: Path,
    script: Script = RIGHT,
    *,
    processes: int = 1,
    ledger: bool = True,
    sync: bool = True,
) -> Iterator[Provider]:
    """Serve in processes of their own until the block ends; yield the provider.

    Args:
        folder: where the ledger (`provider.jsonl`) and the script are written.
        script: what it does.
        processes: how many share the port.
        ledger: whether what was asked is written down.
        sync: whether every line is forced to the disk.
    """
    path = folder / "provider.jsonl" if ledger else None
    told = folder / "provider-script.json"
    told.write_bytes(msgspec.json.encode(script))
    command = [sys.executable, "-m", "tests.faults.providers", f"--script={told}"]
    command += [f"--processes={processes}"] + ([] if sync else ["--no-sync"])
    command += [] if path is None else [f"--ledger={path}"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        base = process.stdout.readline().strip()
        if not base:
            raise RuntimeError("the scripted provider did not start")
        _wait(base)
        yield Provider(base, path)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _wait(base: str) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{base}/_state", timeout=_START) as reply:
                reply.read()
                return
        except OSError:
            time.sleep(0.02)
    raise RuntimeError(f"the scripted provider at {base} does not answer")


def _listening(port: int, *, shared: bool) -> socket.socket:
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", port))
    held.listen(1024)
    return held


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.providers")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--no-sync", action="store_true")
    parser.add_argument("--script", type=Path)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--answer", default="hash")
    parser.add_argument("--processes", type=int, default=1)
    return parser.parse_args()


async def _serve(options: argparse.Namespace, script: Script, held: socket.socket) -> None:
    server = Server(script, Oracle(options.ledger, sync=not options.no_sync), keep=False)
    await server.serve(held, asyncio.Event())


def main() -> int:
    """Serve until killed; print the address on the first line."""
    options = _options()
    script = Script(always=Fault(delay=options.delay), answer=options.answer)
    if options.script is not None:
        script = msgspec.json.decode(options.script.read_bytes(), type=Script)
    shared = options.processes > 1
    held = _listening(options.port, shared=shared)
    port = held.getsockname()[1]
    sys.stdout.write(f"http://127.0.0.1:{port}\n")
    sys.stdout.flush()
    for _ in range(options.processes - 1):
        if os.fork() == 0:
            held.close()
            held = _listening(port, shared=True)
            break
    asyncio.run(_serve(options, script, held))
    return 0


if __name__ == "__main__":
    sys.exit(main())
