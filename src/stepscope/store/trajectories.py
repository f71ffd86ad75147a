"""Put runs in, take runs out: the trace as JSON, and beside it the few columns that reports read.

Importing is idempotent: a known id changes nothing, except that a late outcome, label, score, tag,
agent or case is taken over. A session that has grown, or a trace that got late spans, supersedes
its shorter version.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepscope.errors import StoreError
from stepscope.model import SCORES, Case, Outcome, Step, StepScore, Trajectory
from stepscope.store import late_spans, media, scores, weights
from stepscope.store.prepared import Prepared, encode
from stepscope.store.records import Names, insert, labels
from stepscope.store.where import Where

# The columns of `RunRow` in its order, then what is known only here.
_INSERT = (
    "INSERT INTO runs (id, name, workflow, task, trial, agent, agent_version, outcome, steps,"
    " calls, tokens, cost_usd, seconds, format, run_id, uri, start_ns, imported_ns, case_id)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_heads = msgspec.json.Decoder(Trajectory)
_steps = msgspec.json.Decoder(tuple[Step, ...])
_cases = msgspec.json.Decoder(Case)


class PutCounts(NamedTuple):
    """Runs that were new, runs that were known, versions of a session that were superseded.

    `refused` counts step scores that contradict what is known of their run, now in quarantine.
    """

    new: int
    known: int
    superseded: int
    refused: int = 0


def write(
    db: sqlite3.Connection, names: Names, batch: list[Prepared], blobs: Path | None
) -> PutCounts:
    """Write one batch, its media into the folder `blobs`; call inside a transaction."""
    new = known = superseded = refused = 0
    now = time.time_ns()
    for run in batch:
        if run.row.format == SCORES and _is_of_others(db, run):
            refused += _scores_of_others(db, names, run, now)
            known += 1
            continue
        found = db.execute(
            "SELECT runs.seq, traces.head FROM runs LEFT JOIN traces ON traces.run = runs.seq"
            " WHERE id = ?",
            (run.row.id,),
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
            _late(db, names, found[0], found[1], run)
        elif found[1] is not None:
            _set_case(db, names, found[0], run)
        if run.scores:
            refused += _attach(db, names, (found[0], run.row.id, run.row.steps), run, now)
    return PutCounts(new, known, superseded, refused)


def _add(db: sqlite3.Connection, names: Names, run: Prepared, now: int) -> int:
    """Insert a new run; return how many versions of its session were superseded."""
    if run.case is not None:
        weights.fix_case(db, run.row.workflow, run.row.task or run.row.name, run.case[1])
    case_id = 0 if run.case is None else names.case(db, *run.case)
    seq = db.execute(_INSERT, (*run.row, now, case_id)).lastrowid
    assert seq is not None
    db.execute("INSERT INTO traces (run, head, steps) VALUES (?, ?, ?)", (seq, run.head, run.steps))
    if run.tags:
        _set_tags(db, seq, run.tags)
    if run.blobs:
        db.executemany(
            "INSERT INTO media (run, place, sha256) VALUES (?, ?, ?)",
            [(seq, blob.place, blob.sha256) for blob in run.blobs],
        )
    if run.labels:
        insert(db, names, labels(run.row.id, run.labels, run.row.steps))
    if run.scores:
        insert(db, names, scores.records(run.row.id, run.scores))
    elif moved := scores.earlier(db, seq, run.row.name, run.row.steps):
        _keep_scores(db, seq, run.head, moved)
    return _supersede(db, seq, run) if run.row.run_id is not None else 0


def _is_of_others(db: sqlite3.Connection, run: Prepared) -> bool:
    """Tell whether what is known of a run by its scores alone is known as one run or several."""
    name = run.row.name
    return scores.of_run(db, name) is not None or scores.several(db, name)


def _scores_of_others(db: sqlite3.Connection, names: Names, run: Prepared, now: int) -> int:
    """Give scores to the run of their name; return how many cannot be given to one."""
    its = scores.of_run(db, run.row.name)
    if its is not None:
        return _attach(db, names, its, run, now)
    why = "more than one run has this name; give the run's id"
    refused = [(score, why) for score in run.scores]
    scores.quarantine(db, refused, name=run.row.name, uri=run.row.uri, now=now)
    return len(refused)


def _attach(
    db: sqlite3.Connection, names: Names, its: tuple[int, str, int], run: Prepared, now: int
) -> int:
    """Give the scores of a run to the run of row, id and steps `its`; return how many cannot be."""
    if run.case is not None:
        workflow, task = db.execute(
            "SELECT workflow, coalesce(task, name) FROM runs WHERE seq = ?", (its[0],)
        ).fetchone()
        weights.fix_case(db, workflow, task, run.case[1])
    fresh, refused = scores.attach(db, names, its, run.scores)
    head = db.execute("SELECT head FROM traces WHERE run = ?", (its[0],)).fetchone()
    if fresh and head is not None:
        _keep_scores(db, its[0], head[0], fresh)
    if refused:
        scores.quarantine(db, refused, name=run.row.name, uri=run.row.uri, now=now)
    return len(refused)


def _keep_scores(db: sqlite3.Connection, seq: int, head: bytes, fresh: Sequence[StepScore]) -> None:
    """Add scores to a run's own trace, so that an export has them."""
    run = _heads.decode(head)
    whole = msgspec.structs.replace(run, scores=(*run.scores, *fresh))
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (encode(whole), seq))


def _set_tags(db: sqlite3.Connection, seq: int, tags: Mapping[str, str]) -> None:
    db.executemany(
        "INSERT INTO tags (run, key, value) VALUES (?, ?, ?)"
        " ON CONFLICT (run, key) DO UPDATE SET value = excluded.value",
        [(seq, key, value) for key, value in tags.items()],
    )


def _set_case(db: sqlite3.Connection, names: Names, seq: int, run: Prepared) -> None:
    if run.case is None:
        return
    weights.fix_case(db, run.row.workflow, run.row.task or run.row.name, run.case[1])
    case_id = names.case(db, *run.case)
    db.execute(
        "UPDATE runs SET case_id = ? WHERE seq = ? AND case_id <> ?", (case_id, seq, case_id)
    )


def _late(db: sqlite3.Connection, names: Names, seq: int, head: bytes, run: Prepared) -> None:
    """Take over what a later import knows about a run; what it does not know stays as it is."""
    old, now = _heads.decode(head), _heads.decode(run.head)
    fresh = tuple(label for label in now.labels if label not in old.labels)
    grown = late_spans.taken_over(old, now)
    merged = msgspec.structs.replace(
        old if grown is None else grown,
        outcome=now.outcome if now.outcome != Outcome() else old.outcome,
        agent=now.agent if now.agent is not None else old.agent,
        agent_version=now.agent_version or old.agent_version,
        tags={**old.tags, **now.tags},
        labels=old.labels + fresh,
    )
    _set_case(db, names, seq, run)
    if merged == old:
        return
    db.execute("UPDATE traces SET head = ? WHERE run = ?", (encode(merged), seq))
    db.execute(
        "UPDATE runs SET outcome = ?, agent = ?, agent_version = ? WHERE seq = ?",
        (merged.outcome.status, merged.agent, merged.agent_version, seq),
    )
    _set_tags(db, seq, merged.tags)
    if fresh:
        insert(db, names, labels(run.row.id, merged.labels, run.row.steps))
    if grown is not None:
        late_spans.update(db, seq, run.row)
    if merged.outcome != old.outcome or grown is not None:
        # Outcome and spans are in no record's key; what was computed from the old ones is wrong.
        db.execute(
            "DELETE FROM records WHERE run = ? AND question IN"
            " (SELECT id FROM questions WHERE family = 'rules')",
            (seq,),
        )


def _supersede(db: sqlite3.Connection, seq: int, run: Prepared) -> int:
    """Mark which versions of a session are shorter ones of another; return how many."""
    others = db.execute(
        "SELECT runs.seq, traces.steps FROM runs JOIN traces ON traces.run = runs.seq"
        " WHERE run_id = ? AND format = ? AND superseded_by IS NULL AND runs.seq <> ?",
        (run.row.run_id, run.row.format, seq),
    ).fetchall()
    count = 0
    for other, steps in others:
        if _grown(steps, run.steps):
            _replace(db, other, seq)
            count += 1
        elif _grown(run.steps, steps):
            _replace(db, seq, other)
            return count + 1
        elif has_more := _has_more_spans(db, other, run.head):
            _replace(db, other, seq)
            count += 1
        elif has_more is False:
            _replace(db, seq, other)
            return count + 1
    return count


def _has_more_spans(db: sqlite3.Connection, other: int, head: bytes) -> bool | None:
    """Tell whether a trace has all the spans of an earlier version of it: late spans come anywhere.

    False where the earlier one has more; None where they are no versions of each other. Of two with
    the same spans the later one is what became of them.
    """
    row = db.execute("SELECT head FROM traces WHERE run = ?", (other,)).fetchone()
    before = {span.id for span in _heads.decode(row[0]).spans}
    now = {span.id for span in _heads.decode(head).spans}
    if not before or not now:
        return None
    return True if before <= now else False if now < before else None


def _replace(db: sqlite3.Connection, short: int, long: int) -> None:
    """Let a longer version take the place of a shorter one, and its step scores."""
    db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (long, short))
    moved = scores.move(db, short, long)
    if moved:
        head = db.execute("SELECT head FROM traces WHERE run = ?", (long,)).fetchone()[0]
        _keep_scores(db, long, head, moved)


def _grown(short: bytes, long: bytes) -> bool:
    """Tell whether `long` is `short` with steps added; key order is not meaning."""
    if len(long) <= len(short):
        return False
    if long.startswith(short[:-1] + b","):
        return True
    before, after = _steps.decode(short), _steps.decode(long)
    return len(after) > len(before) and after[: len(before)] == before


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
