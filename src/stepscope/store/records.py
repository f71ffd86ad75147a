"""Records as rows: what many records share is stored once, as a question; the rest is one row each.

A batch is one transaction. A record whose unique key is known is left as it is, so that a run that
was scored twice keeps its first answers. Step scores of a file become records of family `imported`
of the run that has their name or id. A score that contradicts one that is there (same judge, step
and repeat), or names a step that the run does not have, is quarantined. Weights of steps are fixed
before anything is scored by them: once a run of a task has a score, other weights are refused,
since weights chosen after the scores can make any run look good. Source of the weights: ARC
(Tribbia), "before".
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import inf
from operator import itemgetter
from typing import NamedTuple

import msgspec

from stepscope import model
from stepscope.errors import StoreError
from stepscope.model.records import GIVEN_VERSION, HUMAN, IMPORTED, RULES, STEP_SCORES
from stepscope.model.trajectory import outcome_of_label
from stepscope.runtime.database import Connection
from stepscope.safety.text import visible_line
from stepscope.shape.weights import SCALE
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Unmeasured

WHOLE = -1  # the step of an answer about the whole run
_VALUE, _LABEL = 1, 2
_STATES = {kind: -1 - at for at, kind in enumerate(UNMEASURED_KINDS)}

# Binding None costs the sqlite3 module more than ten integers: absent columns travel as these and
# become NULL inside the statement. None of them is a value that its column could hold.
_NO_VALUE, _NO_TEXT, _NO_NUMBER = 0.0, "", -1.0

# Step, state, value, label, cites, reason, confidence.
AnswerCells = tuple[int, int, float, str, str, str, float]
# Position of the question in its batch, run, case id, repeat, then the seven cells.
AnswerLine = tuple[int, int, int, int, int, int, float, str, str, str, float]

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
    family: str = RULES
    rubric: str = ""


def encode_answer(answer: model.Answer) -> AnswerCells:
    """Return the columns that an answer fills."""
    step = WHOLE if answer.step is None else answer.step
    if isinstance(answer, Unmeasured):
        return step, _STATES[answer.kind], _NO_VALUE, _NO_TEXT, "", answer.reason, _NO_NUMBER
    state, value = (_LABEL, _NO_VALUE) if answer.value is None else (_VALUE, answer.value)
    cites = str(list(answer.cites)) if answer.cites else ""
    confidence = _NO_NUMBER if answer.confidence is None else answer.confidence
    return step, state, value, answer.label or _NO_TEXT, cites, answer.reason, confidence


class RowIds:
    """Row ids of questions and cases, kept so that a batch asks SQLite only for new ones."""

    def __init__(self) -> None:
        self._questions: dict[Question, int] = {}
        self._cases: dict[str, int] = {"": 0}

    def forget(self) -> None:
        """Drop everything: a transaction that made some of the ids was rolled back."""
        self.__init__()  # type: ignore[misc]

    def question(self, db: Connection, question: Question) -> int:
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

    def case(self, db: Connection, hash_: str, body: bytes | None = None) -> int:
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


def insert_records(db: Connection, names: RowIds, records: Iterable[model.Record]) -> int:
    """Insert records that are not there yet; return how many. Call inside a transaction."""
    runs: dict[str, int] = {}
    rows = []
    now = time.time_ns()
    for record in records:
        answer = record.answer
        run = runs.get(record.trajectory)
        if run is None:
            found = db.execute("SELECT seq FROM runs WHERE id = ?", (record.trajectory,)).fetchone()
            if found is None:
                absent = f"run {record.trajectory!r}, which is not in the store; put it first"
                raise StoreError(f"a record about {absent}")
            run = runs[record.trajectory] = int(found[0])
        asked = (record.version, record.facts, record.judge, record.prompt, record.family)
        question = names.question(db, Question(answer.measure, *asked, record.rubric))
        _refuse_bad_numbers(record)
        usage = _NO_TEXT if record.usage is None else msgspec.json.encode(record.usage).decode()
        cost = _NO_NUMBER if record.cost_usd is None else record.cost_usd
        seconds = _NO_NUMBER if record.seconds is None else record.seconds
        place = (question, run, names.case(db, record.case), record.repeat)
        rows.append((*place, *encode_answer(answer), now, usage, cost, seconds))
    return _insert_rows(db, _INSERT, rows)


def _refuse_bad_numbers(record: model.Record) -> None:
    """Refuse numbers that SQLite would turn into NULL or that mean nothing.

    The value itself is left to the schema, which knows that an answer must have one.
    """
    answer = record.answer
    confidence = answer.confidence if isinstance(answer, model.Verdict) else None
    numbers = {"confidence": confidence, "cost_usd": record.cost_usd, "seconds": record.seconds}
    for name, number in numbers.items():
        if number is not None and not 0 <= number < inf:
            found = f"{name} {number!r}; expected a finite number, zero or more"
            raise StoreError(f"a record of {answer.measure!r} has {found}")


def insert_lines(
    db: Connection, names: RowIds, questions: Sequence[Question], lines: Iterable[AnswerLine]
) -> int:
    """Insert answers that are already cells; return how many were new. Call in a transaction."""
    ids = [names.question(db, question) for question in questions]
    now = time.time_ns()
    return _insert_rows(db, _INSERT_LINES, [(ids[line[0]], *line[1:], now) for line in lines])


def _insert_rows(db: Connection, statement: str, rows: Iterable[tuple[object, ...]]) -> int:
    before = db.total_changes
    # In key order the rows of one question reach neighbouring pages.
    db.executemany(statement, sorted(rows, key=_key))
    return db.total_changes - before


_key = itemgetter(0, 1, 2, 3, 4)


class RecordRow(NamedTuple):
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


_encode = msgspec.json.Encoder().encode
# Of one run it is asked once a question whether that is current, not once a record.
_OF_RUN = "r.run = (SELECT seq FROM runs WHERE id = ?)"
_OF_RUNS = "r.run IN (SELECT seq FROM runs WHERE id IN (SELECT value FROM json_each(?)))"
_IS_CURRENT = (
    f"(q.family <> '{RULES}' OR runs.purged_ns IS NOT NULL OR NOT EXISTS (SELECT 1 FROM current AS"
    " c WHERE c.measure BETWEEN substr(q.measure, 1, instr(q.measure || '.', '.') - 1)"
    " AND q.measure AND c.workflow = runs.workflow AND (c.version, c.facts) <> (q.version, q.facts)"
    " AND substr(q.measure || '.', 1, length(c.measure) + 1) = c.measure || '.'))"
)


def read_record_rows(
    db: Connection, where: Where | None, trajectory: str | Sequence[str] | None, measure: str | None
) -> Iterator[RecordRow]:
    """Yield the records that were asked for, ordered by measure, run and step.

    Of runs by id, those of measures only that are current; a purged run cannot be asked again.
    """
    conditions, parameters = ["runs.superseded_by IS NULL"], []
    if trajectory is not None:
        # By row, so that each question is one look into its key, not a scan of its records.
        one = isinstance(trajectory, str)
        conditions = [_OF_RUN if one else _OF_RUNS, _IS_CURRENT]
        parameters = [trajectory if one else _encode(trajectory).decode()]
    if measure is not None:
        conditions.append("q.measure = ?")
        parameters.append(measure)
    if where is not None:
        conditions.append("(" + where.sql + ")")
    values = (*parameters, *(where.parameters if where else ()))
    return map(RecordRow._make, db.execute(_SELECT + " AND ".join(conditions) + _ORDER, values))


def decode_record(row: RecordRow) -> model.Record:
    """Return a row as a record."""
    step = None if row.step == WHOLE else row.step
    answer: model.Answer
    if row.state < 0:
        answer = Unmeasured(UNMEASURED_KINDS[-1 - row.state], row.reason, row.measure, step)
    else:
        cites = tuple(msgspec.json.decode(row.cites)) if row.cites else ()
        said = (row.measure, row.value, row.label, step, cites, row.reason, row.confidence)
        answer = model.Verdict(*said)
    return model.Record(
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
        usage=None if row.usage is None else msgspec.json.decode(row.usage, type=model.Usage),
        cost_usd=row.cost_usd,
        seconds=row.seconds,
    )


def label_records(
    trajectory: str, given: Iterable[model.TraceLabel], steps: int
) -> Iterator[model.Record]:
    """Yield what people said about a run of so many steps as records of family `human`.

    The judge is the annotator. A label at a step cites it. Several labels of one person at one step
    differ by `repeat`.
    """
    given_by = partial(model.Record, trajectory=trajectory, version=GIVEN_VERSION, family=HUMAN)
    seen: dict[tuple[str, int | None, str], int] = {}
    for label in given:
        outcome = outcome_of_label(label)
        if outcome is not None and outcome.source != "label":
            continue  # no person's word
        key = (label.kind, label.step, label.annotator)
        seen[key] = seen.get(key, -1) + 1
        yield given_by(answer=_labelled(label, steps), judge=label.annotator, repeat=seen[key])


def _labelled(label: model.TraceLabel, steps: int) -> model.Answer:
    measure = f"human.{label.kind}"
    if label.step is not None and not 0 <= label.step < steps:
        reason = f"a person named step {label.step}; the run has {steps} steps"
        return Unmeasured("invalid_evidence", reason, measure)
    reason = f"{label.agent}: {label.reason}" if label.agent else label.reason
    cites = () if label.step is None else (label.step,)
    said = label.category or label.kind
    return model.Verdict(measure, label=said, step=label.step, cites=cites, reason=reason)


LATENCY, COST = f"{STEP_SCORES}.latency_s", f"{STEP_SCORES}.cost_usd"
SCORES_VERSION = "1"

_heads = msgspec.json.Decoder(model.Trajectory)
_NOT_SCORED = "nobody scored this step"


def find_named_run(db: Connection, name: str) -> tuple[int, str, int] | None:
    """Return row, id and steps of the one run that is called `name`, or has it as its id.

    None where there is no such run; of several of one name none is meant.
    """
    for condition in ("id = ?", "name = ? AND superseded_by IS NULL"):
        query = "SELECT seq, id, steps FROM runs WHERE " + condition + " LIMIT 2"
        rows: list[tuple[int, str, int]] = db.execute(query, (name,)).fetchall()
        if len(rows) == 1:
            return rows[0]
    return None


def is_ambiguous(db: Connection, name: str) -> bool:
    """Tell whether more than one run has this name."""
    query = "SELECT 1 FROM runs WHERE name = ? AND superseded_by IS NULL LIMIT 2"
    return len(db.execute(query, (name,)).fetchall()) > 1


def attach_scores(
    db: Connection, names: RowIds, run: tuple[int, str, int], scores: Iterable[model.StepScore]
) -> tuple[list[model.StepScore], list[tuple[model.StepScore, str]]]:
    """Store the scores of a run, given by row, id and number of steps; call inside a transaction.

    Returns the scores that are new, and those that are refused, each with the reason.
    """
    seq, id_, steps = run
    rows = db.execute(
        "SELECT q.judge, r.repeat, r.step, r.value FROM questions AS q CROSS JOIN records AS r"
        " ON r.question = q.id AND r.run = ? WHERE q.measure = ? AND q.family = ?",
        (seq, STEP_SCORES, IMPORTED),
    )
    known = {(judge, repeat, step): value for judge, repeat, step, value in rows}
    fresh: list[model.StepScore] = []
    refused: list[tuple[model.StepScore, str]] = []
    for score in scores:
        key = (score.judge, score.repeat, score.step)
        if score.step >= steps:
            refused.append((score, f"step {score.step}; the run has {steps} steps, counted from 0"))
        elif key not in known:
            known[key] = score.value
            fresh.append(score)
        elif known[key] != score.value:
            before = known[key]
            was = "not scored" if before is None else f"scored {before:g}"
            now = "not scored" if score.value is None else f"{score.value:g}"
            why = f"was {was} before, now {now}; give another scoring its own repeat"
            refused.append((score, f"step {score.step} {why}"))
    if fresh:
        insert_records(db, names, score_records(id_, fresh))
    return fresh, refused


def score_records(trajectory: str, scores: Iterable[model.StepScore]) -> Iterator[model.Record]:
    """Yield scores as records, with what a file says of the steps' time and cost beside them."""
    imported = partial(model.Record, trajectory=trajectory, version=SCORES_VERSION, family=IMPORTED)
    for score in scores:
        step, value, reason = score.step, score.value, score.reason
        said: model.Answer
        if value is None:
            said = Unmeasured("missing_input", reason or _NOT_SCORED, STEP_SCORES, step)
        else:
            said = model.Verdict(STEP_SCORES, value=value, step=step, cites=(step,), reason=reason)
        yield imported(answer=said, judge=score.judge, repeat=score.repeat)
        for name, figure in ((LATENCY, score.latency_s), (COST, score.cost_usd)):
            if figure is not None:
                yield imported(answer=model.Verdict(name, value=figure, step=step))


def quarantine_scores(
    db: Connection, refused: Sequence[tuple[model.StepScore, str]], *, name: str, uri: str, now: int
) -> int:
    """Keep refused scores with the records that could not be read; return how many there are."""
    of = f"run {visible_line(name)[:80]!r}"
    db.executemany(
        "INSERT INTO quarantine (uri, place, reason, raw, imported_ns) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (uri, place, reason) DO NOTHING",
        [(uri, score.step, f"{of}: {why}", _encode(score), now) for score, why in refused],
    )
    return len(refused)


def move_earlier_scores(db: Connection, seq: int, name: str, n: int) -> tuple[model.StepScore, ...]:
    """Move to a new run the scores that came before its trace did, and return them.

    The run that was nothing but these scores is superseded by it. Where a score names a step that
    the trace lacks, both runs stay as they are.
    """
    found = db.execute(
        "SELECT seq FROM runs WHERE name = ? AND format = ? AND superseded_by IS NULL"
        " AND seq <> ? AND steps <= ?",
        (name, model.SCORES, seq, n),
    ).fetchall()
    moved: list[model.StepScore] = []
    for (other,) in found:
        moved += move_scores(db, other, seq)
        db.execute("UPDATE runs SET superseded_by = ? WHERE seq = ?", (seq, other))
    return tuple(moved)


def move_scores(db: Connection, old: int, new: int) -> tuple[model.StepScore, ...]:
    """Move the scores of a run to the run that takes its place, and return them."""
    db.execute(
        "UPDATE OR IGNORE records SET run = ? WHERE run = ? AND question IN"
        " (SELECT id FROM questions WHERE family = ?)",
        (new, old, IMPORTED),
    )
    row = db.execute("SELECT head FROM traces WHERE run = ?", (old,)).fetchone()
    return () if row is None else _heads.decode(row[0]).scores


EVERY_TASK = "*"
_WEIGHTS_KEY = b'"weights":'
_MOST_SHOWN = 8

decode_weights = msgspec.json.Decoder(tuple[float, ...]).decode
_cases = msgspec.json.Decoder(model.Case)


def fix_case_weights(db: Connection, workflow: str, task: str, case: bytes) -> None:
    """Fix the weights that a case brings, if any; call inside a transaction."""
    if _WEIGHTS_KEY in case:
        found = _cases.decode(case).weights
        if found is not None:
            fix_weights(db, workflow, task, found)


def fix_weights(db: Connection, workflow: str, task: str, weights: Iterable[float]) -> None:
    """Fix the weights of a task, or of `EVERY_TASK` task; call inside a transaction."""
    wanted = tuple(float(weight) for weight in weights)
    wrong = [weight for weight in wanted if weight not in SCALE]
    if wrong:
        raise StoreError(
            f"a weight of workflow {workflow!r}, task {task!r} is {wrong[0]:g}; expected 1, 2 or 3"
        )
    query = "SELECT body FROM weights WHERE workflow = ? AND task = ?"
    row = db.execute(query, (workflow, task)).fetchone()
    held = None if row is None else decode_weights(row[0])
    if held == wanted:
        return
    chosen = "1" if task == EVERY_TASK else "coalesce(task, name) = ?"
    found = db.execute(
        "SELECT 1 FROM questions AS q CROSS JOIN records AS r ON r.question = q.id"
        " JOIN runs ON runs.seq = r.run WHERE q.measure = ? AND workflow = ?"
        " AND superseded_by IS NULL AND " + chosen + " LIMIT 1",
        (STEP_SCORES, workflow) if task == EVERY_TASK else (STEP_SCORES, workflow, task),
    ).fetchone()
    if found is not None:
        of = "every task" if task == EVERY_TASK else f"task {task!r}"
        was = "none were fixed" if held is None else f"fixed as {_text(held)}"
        raise StoreError(
            f"weights of workflow {workflow!r}, {of}, are {_text(wanted)} now and {was} when its "
            "runs were scored; put them back, or import runs and scores into a new store"
        )
    db.execute(
        "INSERT INTO weights (workflow, task, hash, body, fixed_ns) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (workflow, task) DO UPDATE SET hash = excluded.hash, body = excluded.body,"
        " fixed_ns = excluded.fixed_ns",
        (workflow, task, model.digest(wanted), msgspec.json.encode(wanted), time.time_ns()),
    )


def _text(weights: tuple[float, ...]) -> str:
    shown = " ".join(f"{weight:g}" for weight in weights[:_MOST_SHOWN])
    return shown + (" ..." if len(weights) > _MOST_SHOWN else "")
