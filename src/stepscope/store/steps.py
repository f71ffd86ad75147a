"""Answers about steps as columns, read from SQLite: what score curves are made of."""

from __future__ import annotations

import sqlite3

import msgspec
import numpy as np

from stepscope.store.columns import Runs, StepColumn
from stepscope.store.reading import Cells, Places, fill

_decode = msgspec.json.Decoder(tuple[int, ...]).decode


def values(db: sqlite3.Connection, places: Places, measure: str, runs: Runs) -> StepColumn:
    """Return the numbers that a measure gave to single steps, whoever gave them.

    Of several questions to one judge the last by version and prompt counts, never by time. Answers
    against another case than the run's present one are left out.
    """
    asked = db.execute(
        "SELECT family, judge, id FROM questions WHERE measure = ?"
        " ORDER BY family, judge, version, facts, prompt",
        (measure,),
    ).fetchall()
    if not len(runs):
        asked = []
    last = {(family, judge): id_ for family, judge, id_ in asked}
    scorers: list[tuple[str, str]] = []
    parts = []
    for name, id_ in last.items():
        rows = db.execute(
            "SELECT run, case_id, step, repeat, value FROM records"
            " WHERE question = ? AND step >= 0",
            (id_,),
        ).fetchall()
        if not rows:
            continue
        table = np.array(rows, dtype=np.float64)
        at = places.of(table[:, 0].astype(np.int64))
        case = table[:, 1].astype(np.int64)
        kept = (at >= 0) & ((case == 0) | (case == places.case[at]))
        table = table[kept]
        if len(table):
            parts.append((np.full(len(table), len(scorers)), at[kept], *table[:, 2:].T))
            scorers.append(name)
    columns = zip(*parts, strict=True) if parts else [[np.empty(0)]] * 5
    scorer, at, step, repeat, value = (np.concatenate(list(column)) for column in columns)
    whole = [column.astype(np.int64) for column in (scorer, at, step, repeat)]
    order = np.lexsort(whole[::-1])
    scorer, at, step, repeat = (column[order] for column in whole)
    return StepColumn(
        scorers=tuple(scorers),
        scorer=scorer,
        at=at,
        step=step,
        repeat=repeat,
        value=value.astype(np.float64)[order],
    )


def cited(
    db: sqlite3.Connection, places: Places, measure: str, runs: Runs
) -> list[tuple[int, ...] | None]:
    """Return the steps that the whole-run answers of a measure cite; None where there is none."""
    if not len(runs):
        return []
    cells = Cells.empty(len(runs))
    fill(db, places, measure, cells, text="cites")
    return [
        None if state != 1 else _decode(text) if text else ()
        for state, text in zip(cells.state.tolist(), cells.label.tolist(), strict=True)
    ]
