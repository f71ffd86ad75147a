"""Labels of people as rows, the human verdicts that follow from them, and queues of items to label.

A label and its verdict are written in one transaction, so that neither is there without the other;
a label of a norming round has no verdict, nor has an adjudicated one, which is taken back with any
of the answers that it settles. One annotator has one label of an item and reading: the
same again is known, another one contradicts it, and one under another policy replaces it. Order is
that in which labels came, never that of a clock. An item that is not shared is held by the first
annotator who asks for it, decided inside the write lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec

from stepscope.errors import StoreError, UsageError
from stepscope.model import Label
from stepscope.model.labels import ADJUDICATION
from stepscope.model.records import GIVEN_VERSION, HUMAN, IMPORTED
from stepscope.runtime.database import Connection
from stepscope.safety.redact import Redactor
from stepscope.store.records import WHOLE, RowIds, insert_records
from stepscope.store.where import Where

LabelFate = Literal["new", "known", "replaced", "contradicts"]
LabelFates = list[LabelFate]

# The tables of version 5, and what people had said in files before: labels of unknown probability.
LABEL_TABLES = """
CREATE TABLE labels (
    id          INTEGER PRIMARY KEY,
    measure     TEXT NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    step        INTEGER NOT NULL CHECK (step >= -1),
    annotator   TEXT NOT NULL CHECK (annotator <> ''),
    repeat      INTEGER NOT NULL CHECK (repeat >= 0),
    round       INTEGER NOT NULL CHECK (round >= 0),
    label       TEXT CHECK (label <> ''),
    value       REAL CHECK (value BETWEEN 0 AND 1),
    decided     INTEGER NOT NULL CHECK (decided IN (0, 1)),
    queue       TEXT NOT NULL,
    probability REAL CHECK (probability > 0 AND probability <= 1),
    policy      TEXT NOT NULL,
    blind       INTEGER CHECK (blind IN (0, 1)),
    position    INTEGER CHECK (position >= 0),
    seconds     REAL CHECK (seconds >= 0),
    expanded    TEXT NOT NULL,
    given_ns    INTEGER,
    cites       TEXT NOT NULL,
    confidence  REAL CHECK (confidence BETWEEN 0 AND 1),
    reason      TEXT NOT NULL,
    withdrawn   INTEGER NOT NULL CHECK (withdrawn IN (0, 1)),
    CHECK (decided = 0 OR label IS NOT NULL OR value IS NOT NULL)
);
CREATE UNIQUE INDEX labels_by_item ON labels (run, measure, step, annotator, repeat, round)
    WHERE withdrawn = 0;
CREATE TABLE queues (
    id       INTEGER PRIMARY KEY,
    body     BLOB NOT NULL,
    drawn_ns INTEGER NOT NULL
);
CREATE TABLE queued (
    queue       INTEGER NOT NULL REFERENCES queues (id),
    place       INTEGER NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    step        INTEGER NOT NULL CHECK (step >= -1),
    probability REAL CHECK (probability > 0 AND probability <= 1),
    shared      INTEGER NOT NULL CHECK (shared IN (0, 1)),
    holder      TEXT,
    PRIMARY KEY (queue, place)
) WITHOUT ROWID;
INSERT INTO labels (measure, run, step, annotator, repeat, round, label, value, decided, queue,
    policy, expanded, cites, confidence, reason, withdrawn)
    SELECT q.measure, r.run, r.step, q.judge, min(r.repeat), 0, r.label,
    CASE WHEN r.value BETWEEN 0 AND 1 THEN r.value END, 1, 'file', '', '', r.cites, r.confidence,
    r.reason, 0
    FROM records AS r JOIN questions AS q ON q.id = r.question
    WHERE q.family = 'human' AND q.version = '1' AND q.judge <> '' AND r.state > 0
    AND (q.measure = 'scores' OR substr(q.measure, 1, 6) = 'judge.')
    AND (r.label IS NOT NULL OR r.value BETWEEN 0 AND 1)
    GROUP BY r.run, q.measure, r.step, q.judge, r.repeat;
"""

_COLUMNS = (
    "measure step annotator repeat round label value decided queue probability policy blind "
    "position seconds expanded given_ns cites confidence reason"
).split()
_NAMES, _MARKS = ", ".join(_COLUMNS), ", ?" * len(_COLUMNS)
_INSERT = "INSERT INTO labels (run, withdrawn, " + _NAMES + ") VALUES (?, 0" + _MARKS + ")"
_ITEM = (
    "run = ? AND measure = ? AND step = ? AND annotator = ? AND repeat = ? AND round = ?"
    " AND withdrawn = 0"
)
_SELECT = (
    "SELECT runs.id, labels."
    + ", labels.".join(_COLUMNS)
    + " FROM labels JOIN runs ON runs.seq = labels.run WHERE withdrawn = 0"
)


def insert_labels(
    db: Connection, names: RowIds, labels: Iterable[Label], redactor: Redactor, *, whole: bool
) -> LabelFates:
    """Insert labels with their verdicts; return what became of each. Call inside a transaction.

    `StoreError` where a label is about a run that is not there; `UsageError` where an annotator has
    verdicts of the same measure here that are no person's, or, `whole`, one contradicts another.
    """
    fates = [_insert(db, names, label, redactor) for label in labels]
    if whole and "contradicts" in fates:
        raise UsageError(
            "another answer of this item is stored, perhaps from another window: press u to take "
            "it back, or start stepscope label again"
        )
    return fates


def _insert(db: Connection, names: RowIds, label: Label, redactor: Redactor) -> LabelFate:
    label = msgspec.structs.replace(label, reason=redactor.redact(label.reason))
    row = db.execute("SELECT seq FROM runs WHERE id = ?", (label.trajectory,)).fetchone()
    if row is None:
        absent = f"run {label.trajectory!r}, which is not in the store; put it first"
        raise StoreError(f"a label about {absent}")
    item = (row[0], *_item(label))
    before = db.execute(
        "SELECT id, label, value, policy, probability FROM labels WHERE " + _ITEM, item
    ).fetchone()
    if before is not None:
        # One that was chosen says nothing of a rate; asked again at random, it does.
        drawn = before[4] is None and label.probability is not None
        if not label.policy or (before[3] == label.policy and not drawn):
            return "known" if before[1:3] == (label.label, label.value) else "contradicts"
        _withdraw(db, before[0])
    db.execute(_INSERT, (row[0], *_cells(label)))
    if label.has_verdict:
        _check_rater(db, label)
        if not insert_records(db, names, [label.record()]):
            said = f"{label.annotator!r} said {label.measure} in the trace itself"
            raise UsageError(f"{said}; name the annotator otherwise")
    return "new" if before is None else "replaced"


def _item(label: Label) -> tuple[str, int, str, int, int]:
    step = WHOLE if label.step is None else label.step
    return label.measure, step, label.annotator, label.repeat, label.round


def _cells(label: Label) -> tuple[object, ...]:
    coded = {
        "step": _item(label)[1],
        "expanded": msgspec.json.encode(label.expanded).decode() if label.expanded else "",
        "given_ns": label.given_at,
        "cites": str(list(label.cites)) if label.cites else "",
    }
    return tuple(coded[name] if name in coded else getattr(label, name) for name in _COLUMNS)


def _check_rater(db: Connection, label: Label) -> None:
    """Refuse an annotator whose verdicts of this measure are no person's: they would be mixed."""
    found = db.execute(
        "SELECT family FROM questions WHERE measure = ? AND version = ? AND facts = ''"
        " AND judge = ? AND prompt = ''",
        (label.measure, GIVEN_VERSION, label.annotator),
    ).fetchone()
    if found is not None and found[0] != HUMAN:
        kind = "imported" if found[0] == IMPORTED else f"of family {found[0]}"
        has = f"{label.annotator!r} has {kind} verdicts of {label.measure} here"
        raise UsageError(f"{has}; name the annotator otherwise")


def _withdraw(db: Connection, id_: int) -> Label:
    """Mark a label as taken back and delete its verdict, and what was adjudicated; return it."""
    (row,) = db.execute(_SELECT + " AND labels.id = ?", (id_,)).fetchall()
    label = _decode(row)
    measure, step, annotator, repeat, _ = _item(label)
    db.execute("UPDATE labels SET withdrawn = 1 WHERE id = ?", (id_,))
    if label.has_verdict:
        db.execute(
            "UPDATE labels SET withdrawn = 1 WHERE queue = ? AND (run, measure, step) ="
            " (SELECT run, measure, step FROM labels WHERE id = ?)",
            (ADJUDICATION, id_),
        )
        db.execute(
            "DELETE FROM records WHERE run = (SELECT seq FROM runs WHERE id = ?) AND step = ?"
            " AND repeat = ? AND question IN (SELECT id FROM questions WHERE measure = ?"
            " AND version = ? AND judge = ? AND prompt = '' AND family = ?)",
            (label.trajectory, step, repeat, measure, GIVEN_VERSION, annotator, HUMAN),
        )
    return label


def withdraw_label(db: Connection, label: Label) -> bool:
    """Take back the label that an annotator has of this item; return whether there was one."""
    found = db.execute(
        "SELECT id FROM labels WHERE run = (SELECT seq FROM runs WHERE id = ?)"
        " AND " + _ITEM.removeprefix("run = ? AND "),
        (label.trajectory, *_item(label)),
    ).fetchone()
    if found is not None:
        _withdraw(db, found[0])
    return found is not None


def read_labels(
    db: Connection, where: Where | None, measure: str | None, *, superseded: bool
) -> Iterator[Label]:
    """Yield the labels that hold, in the order in which they were given."""
    sql, values = _SELECT, list[object]()
    if not superseded:
        sql += " AND runs.superseded_by IS NULL"
    if measure is not None:
        sql += " AND labels.measure = ?"
        values.append(measure)
    if where is not None:
        sql += " AND (" + where.sql + ")"
        values += where.parameters
    return map(_decode, db.execute(sql + " ORDER BY labels.id", values))


_steps_of = msgspec.json.Decoder(tuple[int, ...]).decode
_words_of = msgspec.json.Decoder(tuple[str, ...]).decode


def _decode(row: tuple[Any, ...]) -> Label:
    cells = dict(zip(("trajectory", *_COLUMNS), row, strict=True))
    cells["step"] = None if cells["step"] == WHOLE else cells["step"]
    cells["decided"] = bool(cells["decided"])
    cells["blind"] = None if cells["blind"] is None else bool(cells["blind"])
    cells["given_at"] = cells.pop("given_ns")
    cells["expanded"] = _words_of(cells["expanded"] or "[]")
    cells["cites"] = _steps_of(cells["cites"] or "[]")
    return Label(**cells)
