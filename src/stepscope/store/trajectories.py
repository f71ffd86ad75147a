"""Put runs in, take runs out: the trace as JSON, and beside it the few columns that reports read.

Importing is idempotent: a known id changes nothing, except that a late outcome, label, tag, agent
or case is taken over. A session that has grown supersedes its shorter version.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepscope.errors import StoreError
from stepscope.model import Case, Figures, Outcome, Step, Trajectory, figures
from stepscope.store import media
from stepscope.store.records import Names, insert, labels
from stepscope.store.where import Where

# Runs written in one transaction: a flush is shared by many, and a batch fits into memory.
BATCH_RUNS = 256
_MAX_INTEGER = 2**63 - 1  # SQLite's; a larger figure stays in the trace only

_encode = msgspec.json.Encoder().encode
_heads = msgspec.json.Decoder(Trajectory)
_steps = msgspec.json.Decoder(tuple[Step, ...])
_cases = msgspec.json.Decoder(Case)


class PutCounts(NamedTuple):
    """Runs that were new, runs that were known, versions of a session that were superseded."""

    new: int
    known: int
    superseded: int


class Prepared(NamedTuple):
    """A run encoded for the store, before the write lock is taken."""

    trajectory: Trajectory
    head: bytes
    steps: bytes
    blobs: list[media.Blob]


def batches(trajectories: Iterable[Trajectory], *, move_media: bool) -> Iterator[list[Prepared]]:
    """Yield encoded runs in batches; nothing is locked while the caller reads its files."""
    source = iter(trajectories)
    while batch := [_prepared(t, move_media) for t in islice(source, BATCH_RUNS)]:
        yield batch


def _prepared(trajectory: Trajectory, move_media: bool) -> Prepared:
    steps = _encode(trajectory.steps)
    blobs: list[media.Blob] = []
    if move_media and media.MARK in steps:
        kept, blobs = media.moved_out(trajectory.steps)
        steps = _encode(kept)
    return Prepared(trajectory, _head(trajectory), steps, blobs)


def _head(trajectory: Trajectory) -> bytes:
    return _encode(msgspec.structs.replace(trajectory, steps=(), case=None))


def write(
    db: sqlite3.Connection, names: Names, batch: list[Prepared], blobs: Path | None
) -> PutCounts:
    """Write one batch, its media into the folder `blobs`; call inside a transaction."""
    new = known = superseded = 0
    now = time.time_ns()
    for run in batch:
        found = db.execute(
            "SELECT runs.seq, traces.head FROM runs LEFT JOIN traces ON traces.run = runs.seq"
            " WHERE id = ?",
            (run.trajectory.id,),
        ).fetchone()
        if found is None:
            if blobs is not None:
                for blob in run.blobs:
                    media.write(blobs, blob)
            superseded += _add(db, names, run, now)
            new += 1
            continue
        known += 1
        # Purged runs have no head and stay erased.
        if found[1] is not None and found[1] != run.head:
            _late(db, names, found[0], found[1], run.trajectory)
        elif found[1] is not None and run.trajectory.case is not None:
            _set_case(db, names, found[0], run.trajectory.case)
    return PutCounts(new, known, superseded)


def _add(db: sqlite3.Connection, names: Names, run: Prepared, now: int) -> int:
    """Insert a new run; return how many versions of its session were superseded."""
    t = run.trajectory
    case_id = 0 if t.case is None else names.case(db, t.case.hash, _encode(t.case))
    seq = db.execute(
        "INSERT INTO runs (id, name, workflow, task, trial, agent, agent_version, outcome, steps,"
        " calls, tokens, cost_usd, seconds, format, run_id, uri, start_ns, imported_ns, case_id)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            t.id,
            t.name,
            t.workflow,
            t.task,
            t.trial,
            t.agent,
            t.agent_version,
            t.outcome.status,
            *_storable(figures(t)),
            t.source.format,
            t.source.run_id,
            t.source.uri,
            _fits(_start_ns(t)),
            now,
            case_id,
        ),
    ).lastrowid
    assert seq is not None
    db.execute("INSERT INTO traces (run, head, steps) VALUES (?, ?, ?)", (seq, run.head, run.steps))
    if t.tags:
        _set_tags(db, seq, t)
    if run.blobs:
        db.executemany(
            "INSERT INTO media (run, place, sha256) VALUES (?, ?, ?)",
            [(seq, blob.place, blob.sha256) for blob in run.blobs],
        )
    if t.labels:
        insert(db, names, labels(t))
    return _supersede(db, seq, run) if t.source.run_id is not None else 0


def _set_tags(db: sqlite3.Connection, seq: int, trajectory: Trajectory) -> None:
    db.executemany(
        "INSERT INTO tags (run, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (run, key) DO UPDATE SET value = excluded.value",
        [(seq, key, value) for key, value in trajectory.tags.items()],
    )


def _set_case(db: sqlite3.Connection, names: Names, seq: int, case: Case) -> None:
    case_id = names.case(db, case.hash, _encode(case))
    db.execute(
        "UPDATE runs SET case_id = ? WHERE seq = ? AND case_id <> ?", (case_id, seq, case_id)
    )


def _late(
    db: sqlite3.Connection, names: Names, seq: int, head: bytes, trajectory: Trajectory
) -> None:
    """Take over what a later import knows about a run; what it does not know stays as it is."""
    old = _heads.decode(head)
    fresh = tuple(label for label in trajectory.labels if label not in old.labels)
    merged = msgspec.structs.replace(
        old,
        outcome=trajectory.outcome if trajectory.outcome != Outcome() else old.outcome,
        agent=trajectory.agent if trajectory.agent is not None else old.agent,
        agent_version=trajectory.agent_version or old.agent_version,
        tags={**old.tags, **trajectory.tags},
        labels=old.labels + fresh,
    )
    if trajectory.case is not None:
        _set_case(db, names, seq, trajectory.case)
    if merged == old:
        return
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (_encode(merged), seq))
    db.execute(
        "UPDATE runs SET outcome = ?, agent = ?, agent_version = ? WHERE seq = ?",
        (merged.outcome.status, merged.agent, merged.agent_version, seq),
    )
    _set_tags(db, seq, merged)
    if fresh:
        insert(db, names, labels(msgspec.structs.replace(merged, steps=trajectory.steps)))
    if merged.outcome != old.outcome:
        # The outcome is in no record's key; what was computed from the old one is wrong now.
        db.execute(
            "DELETE FROM records WHERE run = ? AND question IN"
            " (SELECT id FROM questions WHERE family = 'rules')",
            (seq,),
        )


def _supersede(db: sqlite3.Connection, seq: int, run: Prepared) -> int:
    """Mark which versions of a session are shorter ones of another; return how many."""
    source = run.trajectory.source
    others = db.execute(
        "SELECT runs.seq, traces.steps FROM runs JOIN traces ON traces.run = runs.seq"
        " WHERE run_id = ? AND format = ? AND superseded_by IS NULL AND runs.seq <> ?",
        (source.run_id, source.format, seq),
    ).fetchall()
    count = 0
    for other, steps in others:
        if _grown(steps, run.steps):
            db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (seq, other))
            count += 1
        elif _grown(run.steps, steps):
            db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (other, seq))
            return count + 1
    return count


def _grown(short: bytes, long: bytes) -> bool:
    """Tell whether `long` is `short` with steps added; key order is not meaning."""
    if len(long) <= len(short):
        return False
    if long.startswith(short[:-1] + b","):
        return True
    before, after = _steps.decode(short), _steps.decode(long)
    return len(after) > len(before) and after[: len(before)] == before


def _storable(found: Figures) -> Figures:
    return found._replace(tokens=_fits(found.tokens))


def _fits(number: int | None) -> int | None:
    return number if number is None or abs(number) <= _MAX_INTEGER else None


def _start_ns(t: Trajectory) -> int | None:
    if t.start is not None:
        return t.start.ns
    return next((step.start.ns for step in t.steps if step.start is not None), None)


def keys(db: sqlite3.Connection, where: Where | None) -> list[int]:
    """Return the runs that `where` chooses, superseded and purged ones left out, by name."""
    chosen = Where("1") if where is None else where
    query = (
        "SELECT seq FROM runs WHERE superseded_by IS NULL AND purged_ns IS NULL AND ("
        + chosen.sql
        + ") ORDER BY name, id"
    )
    return [row[0] for row in db.execute(query, chosen.parameters)]


class Stored(NamedTuple):
    """A run read back: its row, the row of its case, and the run itself with its case."""

    key: int
    case_id: int
    trajectory: Trajectory


def read(db: sqlite3.Connection, chosen: Sequence[int]) -> Iterator[Stored]:
    """Yield runs by row, in the order asked for; one purged meanwhile is left out."""
    cases: dict[int, Case | None] = {0: None}
    for key in chosen:
        row = db.execute(
            "SELECT head, traces.steps, case_id FROM traces JOIN runs ON runs.seq = traces.run"
            " WHERE traces.run = ?",
            (key,),
        ).fetchone()
        if row is None:
            continue
        head, steps, case_id = row
        if case_id not in cases:
            body = db.execute("SELECT body FROM cases WHERE id = ?", (case_id,)).fetchone()[0]
            cases[case_id] = None if body is None else _cases.decode(body)
        trajectory = msgspec.structs.replace(
            _heads.decode(head), steps=_steps.decode(steps), case=cases[case_id]
        )
        yield Stored(key, case_id, trajectory)


def one(db: sqlite3.Connection, id_: str) -> Stored:
    """Return the run of an id.

    Raises:
        StoreError: no such run, or its texts were purged.
    """
    row = db.execute("SELECT seq, purged_ns FROM runs WHERE id = ?", (id_,)).fetchone()
    if row is None:
        raise StoreError(f"no run {id_!r} in the store")
    for found in read(db, [row[0]]):
        return found
    raise StoreError(f"run {id_!r}: its texts were purged; only its numbers remain")
