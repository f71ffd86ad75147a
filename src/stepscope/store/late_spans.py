"""Spans that came after a run had been read, where they leave its steps as they were.

Where late spans make other steps the run gets another id and supersedes the earlier version; here
the id is the same, and what the spans say beside the steps is taken over.
"""

from __future__ import annotations

import sqlite3

import msgspec

from stepscope.model import Trajectory
from stepscope.store.prepared import RunRow

# What spans alone say of a run.
_SAID = ("spans", "tools", "termination", "usage", "cost_usd", "start", "end", "warnings", "extra")


def taken_over(old: Trajectory, now: Trajectory) -> Trajectory | None:
    """Return the earlier reading with the spans of the later one; None where it has no more."""
    if len(now.spans) <= len(old.spans):
        return None
    if not {span.id for span in old.spans} <= {span.id for span in now.spans}:
        return None
    return msgspec.structs.replace(old, **{name: getattr(now, name) for name in _SAID})


def update(db: sqlite3.Connection, seq: int, row: RunRow) -> None:
    """Update the columns of a run that its spans can change."""
    db.execute(
        "UPDATE runs SET tokens = ?, cost_usd = ?, seconds = ?, start_ns = ? WHERE seq = ?",
        (row.tokens, row.cost_usd, row.seconds, row.start_ns, seq),
    )


def current(db: sqlite3.Connection, format: str, run_id: str) -> str | None:
    """Return the id of the latest version of a recorder's run; None where there is none to read."""
    row = db.execute(
        "SELECT id FROM runs WHERE run_id = ? AND format = ? AND superseded_by IS NULL"
        " AND purged_ns IS NULL ORDER BY seq DESC LIMIT 1",
        (run_id, format),
    ).fetchone()
    return None if row is None else str(row[0])
