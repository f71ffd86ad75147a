"""Weights of steps, fixed before anything is scored by them.

Weights chosen after the scores are known can make any run look good. So the first weights of a task
stand: once a run of it has a score, others are refused, and so are weights where there were none.
They come from a case, a file of scores, or the settings; what holds for every task of a workflow is
kept under `EVERY`, and weights of the task itself win over it. Source: ARC (Tribbia), "before".
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Mapping

import msgspec

from stepscope.errors import StoreError
from stepscope.model import Case, digest
from stepscope.shape.weights import SCALE

EVERY = "*"
_MARK = b'"weights":'
_SHOWN = 8

_decode = msgspec.json.Decoder(tuple[float, ...]).decode
_cases = msgspec.json.Decoder(Case)


def fix_case(db: sqlite3.Connection, workflow: str, task: str, case: bytes) -> None:
    """Fix the weights that a case brings, if any; call inside a transaction.

    Raises:
        StoreError: see `fix`.
    """
    if _MARK in case:
        found = _cases.decode(case).weights
        if found is not None:
            fix(db, workflow, task, found)


def fix(db: sqlite3.Connection, workflow: str, task: str, weights: Iterable[float]) -> None:
    """Fix the weights of a task, or of `EVERY` task; call inside a transaction.

    Raises:
        StoreError: runs of it were scored under other weights, or before there were any; a weight
            is not 1, 2 or 3.
    """
    wanted = tuple(float(weight) for weight in weights)
    wrong = [weight for weight in wanted if weight not in SCALE]
    if wrong:
        raise StoreError(
            f"a weight of workflow {workflow!r}, task {task!r} is {wrong[0]:g}; expected 1, 2 or 3"
        )
    row = db.execute(
        "SELECT body FROM weights WHERE workflow = ? AND task = ?", (workflow, task)
    ).fetchone()
    held = None if row is None else _decode(row[0])
    if held == wanted:
        return
    if _scored(db, workflow, task):
        of = "every task" if task == EVERY else f"task {task!r}"
        was = "none were fixed" if held is None else f"fixed as {_text(held)}"
        raise StoreError(
            f"weights of workflow {workflow!r}, {of}, are {_text(wanted)} now and {was} when its "
            "runs were scored; put them back, or import runs and scores into a new store"
        )
    db.execute(
        "INSERT INTO weights (workflow, task, hash, body, fixed_ns) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (workflow, task) DO UPDATE SET hash = excluded.hash, body = excluded.body,"
        " fixed_ns = excluded.fixed_ns",
        (workflow, task, digest(wanted), msgspec.json.encode(wanted), time.time_ns()),
    )


def _scored(db: sqlite3.Connection, workflow: str, task: str) -> bool:
    """Tell whether a run that these weights would hold for has a step score."""
    chosen = "1" if task == EVERY else "coalesce(task, name) = ?"
    found = db.execute(
        "SELECT 1 FROM questions AS q CROSS JOIN records AS r ON r.question = q.id"
        " JOIN runs ON runs.seq = r.run WHERE q.measure = 'scores' AND workflow = ?"
        " AND superseded_by IS NULL AND " + chosen + " LIMIT 1",
        (workflow,) if task == EVERY else (workflow, task),
    ).fetchone()
    return found is not None


def held(db: sqlite3.Connection) -> Mapping[tuple[str, str], tuple[float, ...]]:
    """Return all weights by workflow and task."""
    rows = db.execute("SELECT workflow, task, body FROM weights")
    return {(workflow, task): _decode(body) for workflow, task, body in rows}


def _text(weights: tuple[float, ...]) -> str:
    shown = " ".join(f"{weight:g}" for weight in weights[:_SHOWN])
    return shown + (" ..." if len(weights) > _SHOWN else "")
