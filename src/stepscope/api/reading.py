"""Traces into rows, on all cores: the parent splits files and writes, others read and encode.

What comes out, and in what order, does not depend on how many processes there are: the same bytes
of the same portion give the same rows, and what only a whole file knows is added as they are put
together. A small import stays in one process. Memory is bounded whatever the files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import msgspec

from stepscope import processes
from stepscope.errors import StepscopeError
from stepscope.formats.account import Account, Counts
from stepscope.formats.building import Ordinals
from stepscope.formats.importing import Reading, readings
from stepscope.formats.portions import Joint, Portion, portions, read
from stepscope.model import Quarantined, Trajectory
from stepscope.safety.limits import MIB, Limits
from stepscope.store.prepared import Prepared, prepared

# Starting processes costs about half a second: what reading this much costs in one process.
POOL_FROM_BYTES = 24 * MIB
# One frame: some ten milliseconds of work.
_BATCH_BYTES = MIB
_BATCH_EVENTS = 256
# Frames a process that are asked before their turn: it works on while a transaction is flushed.
_AHEAD = 8
_DIED = (
    "a reading process ended (exit code {code}); what was read is kept: run it again to go on, "
    "with --workers 1 if memory is short"
)
_encode = msgspec.msgpack.encode


class Filling(msgspec.Struct, frozen=True):
    """What a run is given where its trace lacks it."""

    agent: str | None = None
    agent_version: str | None = None
    tags: dict[str, str] = {}

    def of(self, run: Trajectory) -> Trajectory:
        """Return the run with what it lacked."""
        if not (self.agent or self.agent_version or self.tags):
            return run
        return msgspec.structs.replace(
            run,
            agent=run.agent or self.agent,
            agent_version=run.agent_version or self.agent_version,
            tags={**self.tags, **run.tags},
        )


class Plan(msgspec.Struct, frozen=True):
    """What every process needs to know."""

    limits: Limits
    filling: Filling
    move_media: bool


class Reply(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What came of a portion, as rows; `seen` are the contents whose ordinal was asked for."""

    runs: list[Prepared]
    broken: list[Quarantined]
    counts: Counts
    seen: dict[bytes, int]
    fault: tuple[str, str] | None


class End(msgspec.Struct, frozen=True):
    """The end of a file, as an event."""


# What comes out: runs as rows, broken records, and after each file its account.
Item = Prepared | Quarantined | Account
# In the order of the files; a portion stands for what comes of it.
Event = Portion | Prepared | Quarantined | End


class _Batch:
    """Events in order, how many bytes they hold, and what ended the reading behind them."""

    def __init__(self) -> None:
        self.events: list[tuple[Joint, Event]] = []
        self.bytes = 0
        self.failure: StepscopeError | None = None

    def add(self, joint: Joint, event: Event) -> None:
        self.events.append((joint, event))
        if isinstance(event, Portion | Quarantined):
            self.bytes += len(event.raw)
        elif isinstance(event, Prepared):
            self.bytes += event.held_bytes

    @property
    def full(self) -> bool:
        return self.bytes >= _BATCH_BYTES or len(self.events) >= _BATCH_EVENTS

    @property
    def portions(self) -> list[Portion]:
        return [event for _, event in self.events if isinstance(event, Portion)]


_plans = msgspec.msgpack.Decoder(Plan)
_frames = msgspec.msgpack.Decoder(list[Portion])
_replies = msgspec.msgpack.Decoder(list[Reply])


def rows(
    paths: Sequence[str], plan: Plan, *, format_name: str | None, workers: int | None
) -> Iterator[Item]:
    """Yield what the paths hold, in order.

    Args:
        paths: files, folders, globs, zips, - for standard input.
        plan: how they are read.
        format_name: the format; told from the content when left out.
        workers: processes; when left out, one a core for much to read and none for little.

    Raises:
        TraceError: a path named is no trace; all before it was yielded.
        UsageError: a glob that matches nothing, a folder without files.
        EnvironmentFault: a process died.
    """
    batches = _batches(readings(paths, format_name=format_name, limits=plan.limits), plan)
    for batch, replies in _answered(batches, plan, workers):
        answers = iter(replies)
        for joint, event in batch.events:
            match event:
                case Portion():
                    yield from _joined(joint, event, next(answers), plan)
                case End():
                    yield joint.reading.account
                case _:
                    yield event
        if batch.failure is not None:
            raise batch.failure


def _batches(found: Iterable[Reading], plan: Plan) -> Iterator[_Batch]:
    batch = _Batch()
    try:
        for joint, event in _events(found, plan):
            batch.add(joint, event)
            if batch.full:
                yield batch
                batch = _Batch()
    except StepscopeError as e:
        batch.failure = e  # raised in its turn, behind what was read before it
    yield batch


def _events(found: Iterable[Reading], plan: Plan) -> Iterator[tuple[Joint, Event]]:
    for reading in found:
        joint = Joint(reading)
        split = portions(reading)
        if split is None:
            for item in reading:
                yield joint, item if isinstance(item, Quarantined) else _prepared(item, plan)
        else:
            for part in split:
                if isinstance(part, Quarantined):
                    reading.tally.counts.add(part)
                yield joint, part
        yield joint, End()


def _joined(
    joint: Joint, portion: Portion, reply: Reply, plan: Plan
) -> Iterator[Prepared | Quarantined]:
    if joint.knows(reply.seen):
        reply = _reply(portion, plan, joint.ordinals)
    else:
        joint.ordinals.seen.update(reply.seen)
    yield from reply.runs
    yield from reply.broken
    joint.take(reply.counts, reply.fault)


def _answered(
    batches: Iterator[_Batch], plan: Plan, workers: int | None
) -> Iterator[tuple[_Batch, list[Reply]]]:
    if workers is None:
        ahead, size = [], 0
        for batch in batches:
            ahead.append(batch)
            size += batch.bytes
            if size >= POOL_FROM_BYTES:
                break
        workers = processes.cores() if size >= POOL_FROM_BYTES else 1
        batches = chain(ahead, batches)
    if workers == 1:
        for batch in batches:
            yield batch, _replied(batch.portions, plan)
        return
    for batch, answer in processes.answered(
        __name__,
        _encode(plan),
        (processes.Job(batch, _encode(batch.portions), batch.bytes) for batch in batches),
        workers=workers,
        ahead=_AHEAD,
        died=_DIED,
    ):
        yield batch, _replies.decode(answer)


def serve() -> None:
    """Be a child: read the plan, then portions until the input ends."""
    processes.serve(_begin)


@contextmanager
def _begin(first: bytes) -> Iterator[Callable[[bytes], bytes]]:
    plan = _plans.decode(first)
    yield lambda frame: _encode(_replied(_frames.decode(frame), plan))


def _replied(asked: Iterable[Portion], plan: Plan) -> list[Reply]:
    return [_reply(portion, plan, Ordinals()) for portion in asked]


def _reply(portion: Portion, plan: Plan, ordinals: Ordinals) -> Reply:
    found = read(portion, plan.limits, ordinals)
    runs, broken = [], []
    for item in found.items:
        if isinstance(item, Quarantined):
            broken.append(item)
        else:
            runs.append(_prepared(item, plan))
    return Reply(runs, broken, found.counts, ordinals.seen, found.fault)


def _prepared(run: Trajectory, plan: Plan) -> Prepared:
    return prepared(plan.filling.of(run), move_media=plan.move_media)
