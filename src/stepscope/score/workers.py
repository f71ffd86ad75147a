"""Score chunks of runs in other processes; the parent writes what they answer.

The processes are plain `python -c` children that speak over pipes, not `multiprocessing`: that one
imports the caller's script again in every child, which runs a script without a main guard twice.
Nothing is pickled: frames are msgpack of typed structs. A child ends when its input does, so none
outlives a killed parent; only the parent listens to Ctrl-C.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import IO

import msgspec

from stepscope import errors
from stepscope.errors import EnvironmentFault, StepscopeError
from stepscope.score.asking import Asker, Batch, Plan, Task
from stepscope.store import Store

_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]);"
    " from stepscope.score.workers import serve; serve()"
)
# Objects made before cycles are looked for: a plugin's own cycles are still found, some 10 MB late.
GC_OBJECTS = 100_000
_encode = msgspec.msgpack.encode


class Start(msgspec.Struct, frozen=True):
    """The first frame a child reads."""

    store: str
    plan: Plan


class Fault(msgspec.Struct, frozen=True, tag="fault"):
    """An error of ours that a child met: the name of its class and its message."""

    kind: str
    message: str


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """The answer to one chunk."""

    batch: Batch


_replies = msgspec.msgpack.Decoder(Answered | Fault)


def score_chunk(store: Store, asker: Asker, chunk: Sequence[Task]) -> Batch:
    """Read the runs of a chunk and ask about them; a run purged meanwhile is left out."""
    return asker.batch(store.stored([key for key, _ in chunk]), dict(chunk))


def answered(
    path: str, plan: Plan, chunks: Iterable[Sequence[Task]], workers: int
) -> Iterator[Batch]:
    """Yield the answers to every chunk, in the order of the chunks, from `workers` processes.

    Raises:
        EnvironmentFault: a process died.
        StepscopeError: what a process met, as it met it.
    """
    children = [_start(path, plan) for _ in range(workers)]
    idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
    for child in children:
        idle.put(child)
    pool = ThreadPoolExecutor(workers)
    pending: deque[Future[bytes]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(_ask, idle, list(chunk)))
            # Two chunks a process keep all busy; more would only fill memory.
            if len(pending) >= 2 * workers:
                yield _batch(pending.popleft().result())
        while pending:
            yield _batch(pending.popleft().result())
    finally:
        for child in children:
            child.kill()
        pool.shutdown(cancel_futures=True)
        for child in children:
            _close(child)


def _start(path: str, plan: Plan) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", _CHILD, json.dumps(sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        process_group=0,  # Ctrl-C reaches a whole group, and a child before it can ignore it
    )
    try:
        _send(child.stdin, _encode(Start(path, plan)))
    except BrokenPipeError:
        pass  # it died at start; the first chunk says so
    return child


def _close(child: subprocess.Popen[bytes]) -> None:
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:
                pass  # unsent bytes for a child that is gone
    child.wait()


def _ask(idle: SimpleQueue[subprocess.Popen[bytes]], chunk: list[Task]) -> bytes:
    child = idle.get()
    try:
        _send(child.stdin, _encode(chunk))
        reply = _receive(child.stdout)
    except BrokenPipeError:
        reply = b""
    finally:
        idle.put(child)
    if not reply:
        raise EnvironmentFault(
            f"a scoring process ended (exit code {child.wait()}); what was scored is kept: run it "
            "again to go on, with --workers 1 if memory is short"
        )
    return reply


def _batch(reply: bytes) -> Batch:
    found = _replies.decode(reply)
    if isinstance(found, Answered):
        return found.batch
    kind = getattr(errors, found.kind, StepscopeError)
    raise kind(found.message)


def _send(pipe: IO[bytes] | None, frame: bytes) -> None:
    assert pipe is not None
    pipe.write(len(frame).to_bytes(8, "big"))
    pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes] | None) -> bytes:
    """Return the next frame, b"" at the end."""
    assert pipe is not None
    size = int.from_bytes(pipe.read(8), "big")
    frame = pipe.read(size)
    return frame if len(frame) == size else b""


def serve() -> None:
    """Be a child: read the plan, then answer chunks until the input ends."""
    # What a measure prints must not mix with the frames.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    start = msgspec.msgpack.decode(_receive(sys.stdin.buffer), type=Start)
    try:
        try:
            _serve(start, replies)
        except StepscopeError as e:
            _send(replies, _encode(Fault(type(e).__name__, str(e))))
    except BrokenPipeError:
        os._exit(1)  # the parent is gone; there is nobody left to tell


def _serve(start: Start, replies: IO[bytes]) -> None:
    chunks = msgspec.msgpack.Decoder(list[Task])
    # The first chunk is waited for before the store is opened: a parent killed meanwhile sends
    # none, and its store may be gone.
    frame = _receive(sys.stdin.buffer)
    if not frame:
        return
    with Store.open(start.store) as store:
        asker = Asker(start.plan)
        # Runs and answers are trees without cycles: what the collector would look for is not there,
        # and looking through every kept run takes a tenth of the time.
        gc.freeze()
        gc.set_threshold(GC_OBJECTS)
        while frame:
            _send(replies, _encode(Answered(score_chunk(store, asker, chunks.decode(frame)))))
            frame = _receive(sys.stdin.buffer)
