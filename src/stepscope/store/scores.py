"""Step scores that came from a file, as records of family `imported`, and to which run they belong.

A run of which only scores are known (source format `SCORES`) is looked for in the store by its name
or id: where a run is found, the scores are that run's, and nothing else is kept of the file's run.
A score that contradicts one that is there (same judge, step and repeat), or names a step that the
run does not have, is quarantined; the same score again changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

import msgspec

from stepscope.model import SCORES, Record, StepScore, Trajectory, Verdict
from stepscope.safety.text import visible_line
from stepscope.store.records import Names, insert
from stepscope.values import Unmeasured

MEASURE = "scores"
LATENCY, COST = f"{MEASURE}.latency_s", f"{MEASURE}.cost_usd"
FAMILY = "imported"
VERSION = "1"

_encode = msgspec.json.Encoder().encode
_heads = msgspec.json.Decoder(Trajectory)
_NOT_SCORED = "nobody scored this step"


def of_run(db: sqlite3.Connection, name: str) -> tuple[int, str, int] | None:
    """Return row, id and steps of the one run that is called `name`, or has it as its id.

    None where there is no such run; of several of one name none is meant.
    """
    for condition in ("id = ?", "name = ? AND superseded_by IS NULL"):
        rows = db.execute(
            "SELECT seq, id, steps FROM runs WHERE " + condition + " LIMIT 2", (name,)
        ).fetchall()
        if len(rows) == 1:
            return int(rows[0][0]), str(rows[0][1]), int(rows[0][2])
    return None


def several(db: sqlite3.Connection, name: str) -> bool:
    """Tell whether more than one run has this name."""
    rows = db.execute(
        "SELECT 1 FROM runs WHERE name = ? AND superseded_by IS NULL LIMIT 2", (name,)
    ).fetchall()
    return len(rows) > 1


def attach(
    db: sqlite3.Connection, names: Names, run: tuple[int, str, int], scores: Iterable[StepScore]
) -> tuple[list[StepScore], list[tuple[StepScore, str]]]:
    """Store the scores of a run; call inside a transaction.

    Args:
        db: the store.
        names: ids of questions.
        run: row, id and number of steps of the run.
        scores: what was read.

    Returns:
        The scores that are new, and those that are refused, each with the reason.
    """
    seq, id_, steps = run
    known = _known(db, seq)
    fresh: list[StepScore] = []
    refused: list[tuple[StepScore, str]] = []
    for score in scores:
        key = (score.judge, score.repeat, score.step)
        if score.step >= steps:
            what = f"step {score.step}; the run has {steps} steps, counted from 0"
            refused.append((score, what))
        elif key not in known:
            known[key] = score.value
            fresh.append(score)
        elif known[key] != score.value:
            refused.append((score, f"step {score.step} {_before(known[key], score)}"))
    if fresh:
        insert(db, names, records(id_, fresh))
    return fresh, refused


def _known(db: sqlite3.Connection, seq: int) -> dict[tuple[str, int, int], float | None]:
    rows = db.execute(
        "SELECT q.judge, r.repeat, r.step, r.value FROM questions AS q CROSS JOIN records AS r"
        " ON r.question = q.id AND r.run = ? WHERE q.measure = ? AND q.family = ?",
        (seq, MEASURE, FAMILY),
    )
    return {(judge, repeat, step): value for judge, repeat, step, value in rows}


def _before(value: float | None, score: StepScore) -> str:
    was = "not scored" if value is None else f"scored {value:g}"
    now = "not scored" if score.value is None else f"{score.value:g}"
    return f"was {was} before, now {now}; give another scoring its own repeat"


def records(trajectory: str, scores: Iterable[StepScore]) -> Iterator[Record]:
    """Yield scores as records, with what a file says of the steps' time and cost beside them."""
    for score in scores:
        step = score.step
        yield Record(
            trajectory=trajectory,
            answer=Unmeasured("missing_input", score.reason or _NOT_SCORED, MEASURE, step)
            if score.value is None
            else Verdict(
                measure=MEASURE, value=score.value, step=step, cites=(step,), reason=score.reason
            ),
            version=VERSION,
            family=FAMILY,
            judge=score.judge,
            repeat=score.repeat,
        )
        for name, value in ((LATENCY, score.latency_s), (COST, score.cost_usd)):
            if value is not None:
                yield Record(
                    trajectory=trajectory,
                    answer=Verdict(measure=name, value=value, step=step),
                    version=VERSION,
                    family=FAMILY,
                )


def quarantine(
    db: sqlite3.Connection,
    refused: Iterable[tuple[StepScore, str]],
    *,
    name: str,
    uri: str,
    now: int,
) -> int:
    """Keep refused scores with the records that could not be read; return how many are new."""
    before = db.total_changes
    db.executemany(
        "INSERT INTO quarantine (uri, place, reason, raw, imported_ns) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (uri, place, reason) DO NOTHING",
        [
            (uri, score.step, f"run {visible_line(name)[:80]!r}: {why}", _encode(score), now)
            for score, why in refused
        ],
    )
    return db.total_changes - before


def earlier(db: sqlite3.Connection, seq: int, name: str, steps: int) -> tuple[StepScore, ...]:
    """Move to a new run the scores that came before its trace did, and return them.

    The run that was nothing but these scores is superseded by it. Where a score names a step that
    the trace lacks, both runs stay as they are.
    """
    found = db.execute(
        "SELECT seq FROM runs WHERE name = ? AND format = ? AND superseded_by IS NULL"
        " AND seq <> ? AND steps <= ?",
        (name, SCORES, seq, steps),
    ).fetchall()
    moved: list[StepScore] = []
    for (other,) in found:
        moved += move(db, other, seq)
        db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (seq, other))
    return tuple(moved)


def move(db: sqlite3.Connection, old: int, new: int) -> tuple[StepScore, ...]:
    """Move the scores of a run to the run that takes its place, and return them."""
    db.execute(
        "UPDATE OR IGNORE records SET run = ? WHERE run = ? AND question IN"
        " (SELECT id FROM questions WHERE family = ?)",
        (new, old, FAMILY),
    )
    row = db.execute("SELECT head FROM traces WHERE run = ?", (old,)).fetchone()
    return () if row is None else _heads.decode(row[0]).scores
