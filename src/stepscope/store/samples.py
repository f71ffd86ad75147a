"""Random draws: samples of runs for a rubric, and queues of runs or steps for people to label.

Each run has its own random number in a draw, so that a larger draw contains the smaller one. Every
item keeps the probability with which it was drawn. An item of a queue that is not shared is asked
of one annotator: the first who asks for it holds it, decided inside the write lock.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.errors import DataError, StoreError
from stepscope.runtime.database import Connection
from stepscope.store.records import WHOLE

SAMPLED = (
    "SELECT runs.id, probability FROM samples JOIN runs ON runs.seq = samples.run WHERE rubric = ?"
)


def run_number(seed: int, rubric: str, run: str) -> float:
    """Return a run's own random number, in [0, 1): the same in every draw of one seed."""
    raw = blake2b(f"{seed}\0{rubric}\0{run}".encode(), digest_size=8).digest()
    return (int.from_bytes(raw, "big") >> 11) / (1 << 53)


def draw_sample(
    population: Iterable[str], n: int, *, seed: int, rubric: str
) -> tuple[list[str], float]:
    """Draw `n` runs without replacement, all equally likely; return them and that probability.

    A larger draw of the same seed contains the smaller one. Order is that of the population.
    `DataError` where `n` is less than 1, or there is nothing to draw from.
    """
    runs = list(population)
    if n < 1 or not runs:
        raise DataError(f"a sample of {n} from {len(runs)} runs; expected 1 or more of each")
    chosen = frozenset(sorted(runs, key=lambda run: (run_number(seed, rubric, run), run))[:n])
    return [run for run in runs if run in chosen], len(chosen) / len(runs)


def write_sample(
    db: Connection,
    rubric: str,
    population: Iterable[str],
    probability: float,
    chosen: Collection[str],
) -> None:
    """Write which of a population were drawn for a rubric; call inside a transaction."""
    now = time.time_ns()
    db.executemany(
        "INSERT INTO samples (rubric, run, probability, chosen, drawn_ns)"
        " SELECT ?1, seq, ?3, ?4, ?5 FROM runs WHERE id = ?2"
        " ON CONFLICT (rubric, run) DO UPDATE SET chosen = max(chosen, excluded.chosen),"
        " probability = max(probability, excluded.probability),"
        " drawn_ns = excluded.drawn_ns",
        [(rubric, run, probability, run in chosen, now) for run in population],
    )


class QueuedItem(NamedTuple):
    """A run or a step of it that was drawn; `probability` None where it was chosen otherwise."""

    run: int  # the key of the run, as `Runs.key` has it
    step: int | None
    probability: float | None
    shared: bool  # asked of every annotator


class QueueItems(NamedTuple):
    """The items of a queue as arrays of one length, in the order of the draw."""

    run: npt.NDArray[np.int64]
    step: npt.NDArray[np.int64]  # -1: the whole run
    shared: npt.NDArray[np.bool_]
    holders: dict[int, str]  # who alone was given an item, by its place


class HeldItem(NamedTuple):
    """An item that an annotator was given, and whether its run can still be shown."""

    run: str  # id
    step: int | None
    probability: float | None
    gone: str  # "purged", "grown" into a longer run, or ""


def write_queue(db: Connection, body: bytes, items: Iterable[QueuedItem]) -> int:
    """Write a queue; return its number. Call inside a transaction."""
    insert = "INSERT INTO queues (body, drawn_ns) VALUES (?, ?)"
    made = db.execute(insert, (body, time.time_ns())).lastrowid
    assert made is not None
    db.executemany(
        "INSERT INTO queued (queue, place, run, step, probability, shared)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (
            (made, place, run, WHOLE if step is None else step, probability, shared)
            for place, (run, step, probability, shared) in enumerate(items)
        ),
    )
    return made


def read_queue(db: Connection, queue: int) -> QueueItems:
    """Return the items of a queue."""
    query = "SELECT run, step, shared FROM queued WHERE queue = ? ORDER BY place"
    rows = db.execute(query, (queue,))
    found = np.fromiter((cell for row in rows for cell in row), dtype=np.int64).reshape(-1, 3)
    held = "SELECT place, holder FROM queued WHERE queue = ? AND holder IS NOT NULL"
    holders = dict(db.execute(held, (queue,)).fetchall())
    return QueueItems(found[:, 0], found[:, 1], found[:, 2].astype(np.bool_), holders)


def hold_item(db: Connection, queue: int, place: int, annotator: str) -> HeldItem | None:
    """Give an item to an annotator; None where another holds it. Call inside a transaction."""
    row = db.execute(
        "SELECT runs.id, step, probability, shared, holder, purged_ns, superseded_by FROM queued"
        " JOIN runs ON runs.seq = queued.run WHERE queue = ? AND place = ?",
        (queue, place),
    ).fetchone()
    if row is None:
        raise StoreError(f"queue {queue} has no item {place}; it was drawn in another store")
    run, step, probability, shared, holder, purged, superseded = row
    if not shared and holder not in (None, annotator):
        return None
    if not shared and holder is None:
        hold = "UPDATE queued SET holder = ? WHERE queue = ? AND place = ?"
        db.execute(hold, (annotator, queue, place))
    gone = "purged" if purged is not None else "grown" if superseded is not None else ""
    return HeldItem(run, None if step == WHOLE else step, probability, gone)
