"""A run as the rows that the store will hold: made anywhere, also in another process.

Encoding a run costs as much as reading it, and needs no store. What comes out is plain enough to
travel, and all that `stepscope.store.trajectories.write` looks at. Refuses nothing: a figure too
large for a column stays in the trace only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from stepscope.model import Label, StepScore, Trajectory, figures
from stepscope.safety.limits import MIB
from stepscope.store import media

# Runs written in one transaction: a flush is shared by many, and a batch fits into memory.
BATCH_RUNS = 256
# Fewer of them where runs are long.
BATCH_BYTES = 32 * MIB
_MAX_INTEGER = 2**63 - 1  # SQLite's

encode = msgspec.json.Encoder().encode


class RunRow(NamedTuple):
    """The columns of `runs` that a trace fills, by their names in the schema."""

    id: str
    name: str
    workflow: str
    task: str | None
    trial: str | None
    agent: str | None
    agent_version: str | None
    outcome: str
    steps: int
    calls: int
    tokens: int | None
    cost_usd: float | None
    seconds: float | None
    format: str
    run_id: str | None
    uri: str
    start_ns: int | None


class Prepared(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A run encoded for the store.

    Attributes:
        row: its columns.
        head: the trace as JSON without steps and case.
        steps: its steps as JSON, media that go to blobs left out.
        case: hash and JSON of what it is measured against.
        tags: as in the trace.
        labels: as in the trace.
        blobs: media that go beside the store.
        scores: as in the trace.
    """

    row: RunRow
    head: bytes
    steps: bytes
    case: tuple[str, bytes] | None = None
    tags: dict[str, str] = {}
    labels: tuple[Label, ...] = ()
    blobs: tuple[media.Blob, ...] = ()
    scores: tuple[StepScore, ...] = ()

    @property
    def held_bytes(self) -> int:
        """How much memory the run holds, but for what is small."""
        return len(self.steps) + sum([len(blob.content) for blob in self.blobs])


def prepared(trajectory: Trajectory, *, move_media: bool) -> Prepared:
    """Return a run encoded for a store; `move_media` where it has a folder for blobs."""
    t = trajectory
    steps = encode(t.steps)
    blobs: list[media.Blob] = []
    if move_media and media.MARK in steps:
        kept, blobs = media.moved_out(t.steps)
        steps = encode(kept)
    return Prepared(
        _row(t),
        encode(msgspec.structs.replace(t, steps=(), case=None)),
        steps,
        None if t.case is None else (t.case.hash, encode(t.case)),
        t.tags,
        t.labels,
        tuple(blobs),
        t.scores,
    )


def batches(runs: Iterable[Prepared]) -> Iterator[list[Prepared]]:
    """Yield runs in batches; nothing is locked while the caller reads its files."""
    batch: list[Prepared] = []
    held = 0
    for run in runs:
        batch.append(run)
        held += run.held_bytes
        if len(batch) >= BATCH_RUNS or held >= BATCH_BYTES:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def _row(t: Trajectory) -> RunRow:
    found = figures(t)
    return RunRow(
        t.id,
        t.name,
        t.workflow,
        t.task,
        t.trial,
        t.agent,
        t.agent_version,
        t.outcome.status,
        found.steps,
        found.calls,
        _fits(found.tokens),
        found.cost_usd,
        found.seconds,
        t.source.format,
        t.source.run_id,
        t.source.uri,
        _fits(_start_ns(t)),
    )


def _fits(number: int | None) -> int | None:
    return number if number is None or abs(number) <= _MAX_INTEGER else None


def _start_ns(t: Trajectory) -> int | None:
    if t.start is not None:
        return t.start.ns
    return next((step.start.ns for step in t.steps if step.start is not None), None)
