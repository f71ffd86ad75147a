"""Records as rows: what many records share is stored once, as a question; the rest is one row each.

A batch is one transaction: durable as a whole or not there at all. A record whose unique key is
known is left as it is, so that a run that was scored twice keeps its first answers.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from stepscope.errors import StoreError
from stepscope.model import Answer, Label, Record, Usage, Verdict
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Unmeasured

WHOLE = -1  # the step of an answer about the whole run
_VALUE, _LABEL = 1, 2
_STATES = {kind: -1 - at for at, kind in enumerate(UNMEASURED_KINDS)}
HUMAN_VERSION = "1"

# Binding None costs the sqlite3 module more than ten integers: absent columns travel as these and
# become NULL inside the statement. None of them is a value that its column could hold.
_NO_VALUE, _NO_TEXT, _NO_NUMBER = 0.0, "", -1.0

# Step, state, value, label, cites, reason, confidence.
Cells = tuple[int, int, float, str, str, str, float]
# Position of the question in its batch, run, case id, repeat, then the seven cells.
Line = tuple[int, int, int, int, int, int, float, str, str, str, float]

_INSERT = (
    "INSERT INTO records (question, run, case_id, repeat, step, state, value, label, cites, reason,"
    " confidence, at_ns, usage, cost_usd, seconds) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"
    " CASE WHEN ?6 = 1 THEN ?7 END, nullif(?8, ''), ?9, ?10, nullif(?11, -1.0), ?12,"
    " nullif(?13, ''), nullif(?14, -1.0), nullif(?15, -1.0))"
    # Why nobody was asked gives way to an answer of somebody who was; nothing else does.
    " ON CONFLICT (question, run, case_id, repeat, step) DO UPDATE SET state = excluded.state,"
    " value = excluded.value, label = excluded.label, cites = excluded.cites,"
    " reason = excluded.reason, confidence = excluded.confidence, usage = excluded.usage,"
    " cost_usd = excluded.cost_usd, seconds = excluded.seconds, at_ns = excluded.at_ns"
    " WHERE records.state < 0 AND records.seconds IS NULL AND excluded.seconds IS NOT NULL"
)
# Rules cost nothing: three columns fewer to bind.
_INSERT_LINES = (
    "INSERT INTO records (question, run, case_id, repeat, step, state, value, label, cites, reason,"
    " confidence, at_ns) VALUES (?1, ?2, ?3, ?4, ?5, ?6, CASE WHEN ?6 = 1 THEN ?7 END,"
    " nullif(?8, ''), ?9, ?10, nullif(?11, -1.0), ?12)"
    " ON CONFLICT (question, run, case_id, repeat, step) DO NOTHING"
)
_SELECT = (
    "SELECT runs.id, q.measure, q.version, q.facts, q.judge, q.prompt, q.family, q.rubric,"
    " cases.hash, r.repeat, r.step, r.state, r.value, r.label, r.cites, r.reason, r.confidence,"
    " r.usage, r.cost_usd, r.seconds, r.run, r.question, r.case_id"
    " FROM questions AS q CROSS JOIN records AS r ON r.question = q.id"
    " JOIN runs ON runs.seq = r.run JOIN cases ON cases.id = r.case_id WHERE "
)
_ORDER = (
    " ORDER BY q.measure, runs.name, runs.id, r.step, q.version, q.facts, q.judge, q.prompt,"
    " cases.hash, r.repeat"
)


class Question(NamedTuple):
    """What the records of one measure share: the part of their key that names no run."""

    measure: str
    version: str
    facts: str = ""
    judge: str = ""
    prompt: str = ""
    family: str = "rules"
    rubric: str = ""


def cells(answer: Answer) -> Cells:
    """Return the columns that an answer fills."""
    step = WHOLE if answer.step is None else answer.step
    if isinstance(answer, Unmeasured):
        return step, _STATES[answer.kind], _NO_VALUE, _NO_TEXT, "", answer.reason, _NO_NUMBER
    return (
        step,
        _LABEL if answer.value is None else _VALUE,
        _NO_VALUE if answer.value is None else answer.value,
        answer.label or _NO_TEXT,
        str(list(answer.cites)) if answer.cites else "",
        answer.reason,
        _NO_NUMBER if answer.confidence is None else answer.confidence,
    )


class Names:
    """Row ids of questions and cases, kept so that a batch asks SQLite only for new ones."""

    def __init__(self) -> None:
        self._questions: dict[Question, int] = {}
        self._cases: dict[str, int] = {"": 0}

    def forget(self) -> None:
        """Drop everything: a transaction that made some of the ids was rolled back."""
        self.__init__()  # type: ignore[misc]

    def question(self, db: sqlite3.Connection, question: Question) -> int:
        """Return the id of a question, made if new; call inside a transaction."""
        if question not in self._questions:
            db.execute(
                "INSERT INTO questions (measure, version, facts, judge, prompt, family, rubric)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (measure, version, facts, judge, prompt) DO NOTHING",
                question,
            )
            found = db.execute(
                "SELECT id FROM questions WHERE measure = ? AND version = ? AND facts = ?"
                " AND judge = ? AND prompt = ?",
                question[:5],
            ).fetchone()
            self._questions[question] = found[0]
        return self._questions[question]

    def case(self, db: sqlite3.Connection, hash_: str, body: bytes | None = None) -> int:
        """Return the id of a case, made if new; call inside a transaction.

        A body is written where none is, however well the id is known: it may have been purged.
        """
        if body is not None or hash_ not in self._cases:
            db.execute(
                "INSERT INTO cases (hash, body) VALUES (?, ?)"
                " ON CONFLICT (hash) DO UPDATE SET body = excluded.body"
                " WHERE body IS NULL AND excluded.body IS NOT NULL",
                (hash_, body),
            )
        if hash_ not in self._cases:
            found = db.execute("SELECT id FROM cases WHERE hash = ?", (hash_,)).fetchone()
            self._cases[hash_] = found[0]
        return self._cases[hash_]


def insert(db: sqlite3.Connection, names: Names, records: Iterable[Record]) -> int:
    """Insert records that are not there yet; return how many. Call inside a transaction.

    Raises:
        StoreError: a record is about a run that the store does not hold.
    """
    runs: dict[str, int] = {}
    rows = []
    now = time.time_ns()
    for record in records:
        answer = record.answer
        run = runs.get(record.trajectory)
        if run is None:
            run = runs[record.trajectory] = _run(db, record.trajectory)
        question = names.question(
            db,
            Question(
                answer.measure,
                record.version,
                record.facts,
                record.judge,
                record.prompt,
                record.family,
                record.rubric,
            ),
        )
        _check(record)
        usage = _NO_TEXT if record.usage is None else msgspec.json.encode(record.usage).decode()
        rows.append(
            (
                question,
                run,
                names.case(db, record.case),
                record.repeat,
                *cells(answer),
                now,
                usage,
                _NO_NUMBER if record.cost_usd is None else record.cost_usd,
                _NO_NUMBER if record.seconds is None else record.seconds,
            )
        )
    return _write(db, _INSERT, rows)


def _check(record: Record) -> None:
    """Refuse numbers that SQLite would turn into NULL or that mean nothing.

    The value itself is left to the schema, which knows that an answer must have one.
    """
    answer = record.answer
    confidence = answer.confidence if isinstance(answer, Verdict) else None
    for name, number in (
        ("confidence", confidence),
        ("cost_usd", record.cost_usd),
        ("seconds", record.seconds),
    ):
        if number is not None and not 0 <= number < inf:
            raise StoreError(
                f"a record of {answer.measure!r} has {name} {number!r}; expected a finite number, "
                "zero or more"
            )


def insert_lines(
    db: sqlite3.Connection, names: Names, questions: Sequence[Question], lines: Iterable[Line]
) -> int:
    """Insert answers that are already cells; return how many were new. Call in a transaction."""
    ids = [names.question(db, question) for question in questions]
    now = time.time_ns()
    return _write(db, _INSERT_LINES, [(ids[line[0]], *line[1:], now) for line in lines])


def _write(db: sqlite3.Connection, statement: str, rows: Iterable[tuple[object, ...]]) -> int:
    before = db.total_changes
    # In key order the rows of one question reach neighbouring pages.
    db.executemany(statement, sorted(rows, key=_key))
    return db.total_changes - before


_key = itemgetter(0, 1, 2, 3, 4)


def _run(db: sqlite3.Connection, trajectory: str) -> int:
    found = db.execute("SELECT seq FROM runs WHERE id = ?", (trajectory,)).fetchone()
    if found is None:
        raise StoreError(
            f"a record about run {trajectory!r}, which is not in the store; put it first"
        )
    return int(found[0])


class Row(NamedTuple):
    """A record as it is read: its columns with those of its question."""

    trajectory: str
    measure: str
    version: str
    facts: str
    judge: str
    prompt: str
    family: str
    rubric: str
    case: str
    repeat: int
    step: int
    state: int
    value: float | None
    label: str | None
    cites: str
    reason: str
    confidence: float | None
    usage: str | None
    cost_usd: float | None
    seconds: float | None
    run: int
    question: int
    case_id: int


def rows(
    db: sqlite3.Connection, where: Where | None, trajectory: str | None, measure: str | None
) -> Iterator[Row]:
    """Yield the records that were asked for, ordered by measure, run and step."""
    conditions, parameters = ["runs.superseded_by IS NULL"], []
    if trajectory is not None:
        # By row, so that each question is one look into its key, not a scan of its records.
        conditions, parameters = ["r.run = (SELECT seq FROM runs WHERE id = ?)"], [trajectory]
    if measure is not None:
        conditions.append("q.measure = ?")
        parameters.append(measure)
    if where is not None:
        conditions.append("(" + where.sql + ")")
    values = (*parameters, *(where.parameters if where else ()))
    return map(Row._make, db.execute(_SELECT + " AND ".join(conditions) + _ORDER, values))


def record(row: Row) -> Record:
    """Return a row as a record."""
    step = None if row.step == WHOLE else row.step
    answer: Answer
    if row.state < 0:
        answer = Unmeasured(UNMEASURED_KINDS[-1 - row.state], row.reason, row.measure, step)
    else:
        answer = Verdict(
            measure=row.measure,
            value=row.value,
            label=row.label,
            step=step,
            cites=tuple(msgspec.json.decode(row.cites)) if row.cites else (),
            reason=row.reason,
            confidence=row.confidence,
        )
    return Record(
        trajectory=row.trajectory,
        answer=answer,
        version=row.version,
        family=row.family,
        case=row.case,
        facts=row.facts,
        judge=row.judge,
        rubric=row.rubric,
        prompt=row.prompt,
        repeat=row.repeat,
        usage=None if row.usage is None else msgspec.json.decode(row.usage, type=Usage),
        cost_usd=row.cost_usd,
        seconds=row.seconds,
    )


def labels(trajectory: str, given: Iterable[Label], steps: int) -> Iterator[Record]:
    """Yield what people said about a run of so many steps as records of family `human`.

    The judge is the annotator. A label at a step cites it. Several labels of one person at one step
    differ by `repeat`.
    """
    seen: dict[tuple[str, int | None, str], int] = {}
    for label in given:
        key = (label.kind, label.step, label.annotator)
        seen[key] = seen.get(key, -1) + 1
        yield Record(
            trajectory=trajectory,
            answer=_labelled(label, steps),
            version=HUMAN_VERSION,
            family="human",
            judge=label.annotator,
            repeat=seen[key],
        )


def _labelled(label: Label, steps: int) -> Answer:
    measure = f"human.{label.kind}"
    if label.step is not None and not 0 <= label.step < steps:
        reason = f"a person named step {label.step}; the run has {steps} steps"
        return Unmeasured("invalid_evidence", reason, measure)
    reason = f"{label.agent}: {label.reason}" if label.agent else label.reason
    cites = () if label.step is None else (label.step,)
    return Verdict(
        measure=measure,
        label=label.category or label.kind,
        step=label.step,
        cites=cites,
        reason=reason,
    )
