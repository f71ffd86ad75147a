"""Score chunks of runs in other processes; the parent writes what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from stepscope import processes
from stepscope.score.asking import Asker, Batch, Plan, Task
from stepscope.store import Store

# Chunks asked before their turn: two a process keep all busy; more would only fill memory.
_AHEAD = 2
_DIED = (
    "a scoring process ended (exit code {code}); what was scored is kept: run it again to go on, "
    "with --workers 1 if memory is short"
)
_encode = msgspec.msgpack.encode


class _Start(msgspec.Struct, frozen=True):
    """The first frame a child reads."""

    store: str
    plan: Plan


_starts = msgspec.msgpack.Decoder(_Start)
_chunks = msgspec.msgpack.Decoder(list[Task])
_batches = msgspec.msgpack.Decoder(Batch)


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
    for _, reply in processes.answered(
        __name__,
        _encode(_Start(path, plan)),
        (processes.Job(None, _encode(list(chunk))) for chunk in chunks),
        workers=workers,
        ahead=_AHEAD,
        died=_DIED,
    ):
        yield _batches.decode(reply)


def serve() -> None:
    """Be a child: read the plan, then answer chunks until the input ends."""
    processes.serve(_begin)


@contextmanager
def _begin(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    start = _starts.decode(first)
    with Store.open(start.store) as store:
        asker = Asker(start.plan)
        yield lambda frame: _encode(score_chunk(store, asker, _chunks.decode(frame)))
