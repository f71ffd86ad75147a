"""Run a function in other processes: chunks of bytes to them, replies back, in order.

The processes are plain `python -c` children that speak over pipes, not `multiprocessing`: that one
imports the caller's script again in every child, which runs a script without a main guard twice.
Nothing is pickled: what a frame holds is the caller's. A child ends when its input does, so none
outlives a killed parent; only the parent listens to Ctrl-C.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import IO, Generic, NamedTuple, TypeVar

import msgspec

from stepscope import errors
from stepscope.errors import EnvironmentFault, StepscopeError

T = TypeVar("T")
# A function of a module, by whose name a child finds it: given the first frame, it gives what
# replies to the others.
Function = Callable[[bytes], AbstractContextManager[Callable[[bytes], bytes]]]

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from stepscope.runtime.processes import serve_frames; serve_frames(*sys.argv[2:])"
)
# Objects made before cycles are looked for: a plugin's own cycles are still found, some 10 MB late.
GC_OBJECTS = 100_000
_SIZE_BYTES = 8
# Processes a core: more of them wait for each other.
_MOST_A_CORE = 4
_MOST_BYTES = 32 * 1024 * 1024
_REPLY, _FAULT = b"a", b"f"


class Job(NamedTuple, Generic[T]):
    """A frame to be answered."""

    beside: T  # what the caller wants back beside the answer
    frame: bytes  # what is asked
    held: int = 0  # bytes of memory that `beside` and `frame` hold, where they may be many


# An error of ours that a child met: the name of its class and its message.
_faults = msgspec.json.Decoder(tuple[str, str])


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Child processes that work on jobs while the caller takes what is done."""

    workers: int  # how many processes; no more are started than `_MOST_A_CORE`
    ahead: int  # jobs a process that are sent before their turn: they keep it busy, and fill memory
    died: str  # what to tell a user whose process ended, as "a scoring process ended ({code})"
    most_bytes: int = _MOST_BYTES  # bytes held by jobs that are sent before their turn

    def map(
        self, function: Function, start: bytes, jobs: Iterable[Job[T]]
    ) -> Iterator[tuple[T, bytes]]:
        """Yield the reply to every job in order; raise what a process met or `EnvironmentFault`."""
        most = min(self.workers, _MOST_A_CORE * cores())
        children = [start_child(function, start) for _ in range(most)]
        idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for child in children:
            idle.put(child)
        pool = ThreadPoolExecutor(most)
        pending: deque[tuple[Job[T], Future[bytes]]] = deque()
        held = 0
        try:
            for job in jobs:
                pending.append((job, pool.submit(self._ask, idle, job.frame)))
                held += job.held
                while len(pending) >= self.ahead * most or (held >= self.most_bytes and pending):
                    done, future = pending.popleft()
                    held -= done.held
                    yield done.beside, future.result()
            for done, future in pending:
                yield done.beside, future.result()
        finally:
            for child in children:
                child.kill()
            pool.shutdown(cancel_futures=True)
            for child in children:
                close_child(child)

    def _ask(self, idle: SimpleQueue[subprocess.Popen[bytes]], frame: bytes) -> bytes:
        child = idle.get()
        try:
            _send(child.stdin, frame)
            kind, reply = _receive(child.stdout)
        except BrokenPipeError:
            kind, reply = b"", b""
        finally:
            idle.put(child)
        if kind == _FAULT:
            kind_of_error, message = _faults.decode(reply)
            raise getattr(errors, kind_of_error, StepscopeError)(message)
        if kind != _REPLY:
            raise EnvironmentFault(self.died.format(code=child.wait()))
        return reply


def start_child(function: Function, start: bytes) -> subprocess.Popen[bytes]:
    """Return a child that has been sent its first frame."""
    # -P: `import json` before the path is ours would run json.py of the folder.
    line = [sys.executable, "-P", "-c", _CHILD, json.dumps(sys.path)]
    child = subprocess.Popen(
        [*line, function.__module__, function.__name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C reaches a whole group, and a child before it can ignore it
    )
    with suppress(BrokenPipeError):  # it died at start; the first frame says so
        _send(child.stdin, start)
    return child


def close_child(child: subprocess.Popen[bytes]) -> None:
    """Close the pipes of a child and wait for its end."""
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # unsent bytes for a child that is gone
                pipe.close()
    child.wait()


def _send(pipe: IO[bytes] | None, frame: bytes, kind: bytes = _REPLY) -> None:
    assert pipe is not None
    pipe.write(kind + len(frame).to_bytes(_SIZE_BYTES, "big"))
    pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> tuple[bytes, bytes]:
    assert pipe is not None
    head = pipe.read(1 + _SIZE_BYTES)
    size = int.from_bytes(head[1:], "big")
    frame = pipe.read(size)
    return (head[:1], frame) if head and len(frame) == size else (b"", b"")


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look for cycles among new objects only, and rarely, as every child does.

    Runs and answers are trees without cycles: what the collector would look for is not there, and
    looking through every kept run takes a tenth of the time.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(GC_OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def serve_frames(module: str, name: str) -> None:
    """Reply to frames, as a child, until the input ends.

    The function of that name is called with the first frame when the second one has come: a parent
    killed meanwhile sends none, and what it worked on may be gone.
    """
    # What a plugin prints must not mix with the frames.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    begin: Function = getattr(importlib.import_module(module), name)
    try:
        try:
            _serve(begin, replies)
        except StepscopeError as e:
            _send(replies, msgspec.json.encode((type(e).__name__, str(e))), _FAULT)
    except BrokenPipeError:
        os._exit(1)  # the parent is gone; there is nobody left to tell


def _serve(begin: Function, replies: IO[bytes]) -> None:
    start = _receive(sys.stdin.buffer)[1]
    kind, frame = _receive(sys.stdin.buffer)
    if not kind:
        return
    with begin(start) as reply_to, rare_collections():
        while kind:
            _send(replies, reply_to(frame))
            kind, frame = _receive(sys.stdin.buffer)
