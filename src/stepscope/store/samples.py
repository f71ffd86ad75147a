"""Samples of runs that were drawn for a rubric, so that estimates can speak of all that were there.

Every run that could have been drawn is kept, with the probability that it was: a report weighs the
ones that were, and knows which runs it may not speak of. A second draw of a run raises its
probability, never lowers it: draws take the runs of the smallest random numbers, each run's own.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from stepscope.errors import DataError


class Drawn(NamedTuple):
    """A run that could have been drawn: whether it was, and with which probability."""

    chosen: bool
    probability: float


def number(seed: int, rubric: str, run: str) -> float:
    """Return a run's own random number, in [0, 1): the same in every draw of one seed."""
    raw = blake2b(f"{seed}\0{rubric}\0{run}".encode(), digest_size=8).digest()
    return (int.from_bytes(raw, "big") >> 11) / (1 << 53)


def draw(population: Iterable[str], n: int, *, seed: int, rubric: str) -> tuple[list[str], float]:
    """Draw `n` runs without replacement, all equally likely; return them and that probability.

    A larger draw of the same seed contains the smaller one. Order is that of the population.

    Raises:
        DataError: `n` is less than 1, or there is nothing to draw from.
    """
    runs = list(population)
    if n < 1 or not runs:
        raise DataError(f"a sample of {n} from {len(runs)} runs; expected 1 or more of each")
    lowest = sorted(runs, key=lambda run: (number(seed, rubric, run), run))[:n]
    chosen = frozenset(lowest)
    return [run for run in runs if run in chosen], len(chosen) / len(runs)


def put(
    db: sqlite3.Connection,
    rubric: str,
    population: Iterable[str],
    probability: float,
    drawn: frozenset[str],
) -> None:
    """Keep a draw; call inside a transaction."""
    now = time.time_ns()
    db.executemany(
        "INSERT INTO samples (rubric, run, probability, chosen, drawn_ns)"
        " SELECT ?1, seq, ?3, ?4, ?5 FROM runs WHERE id = ?2"
        " ON CONFLICT (rubric, run) DO UPDATE SET chosen = max(chosen, excluded.chosen),"
        " probability = max(probability, excluded.probability), drawn_ns = excluded.drawn_ns",
        [(rubric, run, probability, run in drawn, now) for run in population],
    )


def held(db: sqlite3.Connection, rubric: str) -> dict[str, Drawn]:
    """Return every run that could have been drawn, by id."""
    rows = db.execute(
        "SELECT runs.id, chosen, probability FROM samples JOIN runs ON runs.seq = samples.run"
        " WHERE rubric = ?",
        (rubric,),
    )
    return {run: Drawn(bool(chosen), probability) for run, chosen, probability in rows}
