"""Rows as columns: what a report reads, whether they come from SQLite or from a Parquet folder.

A report over many runs never decodes a trace. It reads `Runs`, one array a field, and one
`AnswerColumn` a measure, aligned with them. Where a value is absent its cell holds NaN *and* a
state that says why: arithmetic goes through `AnswerColumn.valued`, never through the NaN.

Which record is current: of a deterministic measure, the one of the version and facts that `score`
last used in the run's workflow; of anything else, the last by version, facts, judge and prompt,
never by time. Either way it must have been made against the run's present case, or against none. A
purged run cannot be asked again: when facts have changed since, its last answer of the same
version stays.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import compress
from typing import Literal, Protocol, Self, runtime_checkable

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import suggest_name
from stepscope.model import Label, Record, signatures
from stepscope.model.records import RULES, STEP_LABELS_NAME
from stepscope.runtime.database import Connection
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Estimate, UnmeasuredKind, format_count

Texts = npt.NDArray[np.object_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ANSWERED = 1
NO_RECORD = 0


def cell_state(kind: UnmeasuredKind) -> int:
    """Return the cell state of an unmeasured kind: -1 for the first kind, -2 for the second."""
    return -1 - UNMEASURED_KINDS.index(kind)


def unmeasured_kind(state: int) -> UnmeasuredKind:
    """Return the unmeasured kind of a negative cell state."""
    return UNMEASURED_KINDS[-1 - state]


def count_unmeasured(state: npt.NDArray[np.int8]) -> dict[str, int]:
    """Return how many cells could not be measured, by kind; those without a record excluded."""
    states, counts = np.unique(state[state < 0], return_counts=True)
    found = {unmeasured_kind(int(s)): int(n) for s, n in zip(states, counts, strict=True)}
    return {kind: found[kind] for kind in UNMEASURED_KINDS if kind in found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Runs as aligned arrays, ordered by name, then id; superseded runs are left out."""

    # what `column` aligns with; unique within one store, no meaning outside it
    key: npt.NDArray[np.int64]
    id: Texts
    name: Texts
    workflow: Texts
    task: Texts  # None where the run names none; so are trial, agent and agent_version
    trial: Texts
    agent: Texts
    agent_version: Texts
    outcome: Texts  # "pass", "fail" or "unknown"
    steps: npt.NDArray[np.int64]
    calls: npt.NDArray[np.int64]
    start_ns: Texts  # of the run itself, whole numbers; None where the trace has no times

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumn:
    """The whole-run answers of one measure, or one aspect of it, aligned with `Runs`."""

    measure: str  # its full name ("redundant_calls.count")
    value: npt.NDArray[np.float64]  # NaN where there is no number
    label: Texts  # None where there is no label
    # 1 answered, 0 no record (not scored), negative: unmeasured, see `unmeasured_kind`
    state: npt.NDArray[np.int8]
    # versions of the measure behind the answers; more than one may not be mixed
    versions: tuple[str, ...] = ()

    @classmethod
    def empty(cls, measure: str, size: int) -> Self:
        """Return a column without records."""
        return cls(
            measure=measure,
            value=np.full(size, np.nan),
            label=np.full(size, None, dtype=np.object_),
            state=np.full(size, NO_RECORD, dtype=np.int8),
        )

    def put(self, at: Ints, state: Ints, value: Floats, label: Texts) -> None:
        """Put answers into the cells at these positions, while the column is filled."""
        # A label without a number is an answer too; only the store tells the two apart.
        self.state[at] = np.minimum(state, ANSWERED)
        self.value[at] = value
        self.label[at] = label

    def __len__(self) -> int:
        return len(self.state)

    def take(self, at: Ints | Bools) -> Self:
        """Return the answers about some of the runs."""
        return replace(self, value=self.value[at], label=self.label[at], state=self.state[at])

    @property
    def answered(self) -> npt.NDArray[np.bool_]:
        """Runs that have an answer: a value, a label or both."""
        return np.equal(self.state, ANSWERED)

    @property
    def valued(self) -> npt.NDArray[np.bool_]:
        """Runs whose answer has a number."""
        return self.answered & ~np.isnan(self.value)

    @property
    def numbers(self) -> Texts:
        """The numbers as objects, None where there is none."""
        found = self.value.astype(np.object_)
        found[~self.valued] = None
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StepColumn:
    """Numbers given to single steps, one entry each, by scorer, run, step and repeat."""

    scorers: tuple[tuple[str, str], ...]  # family and judge of everyone who gave any
    scorer: npt.NDArray[np.int64]  # index into `scorers`
    at: npt.NDArray[np.int64]  # place of the run among the runs asked for
    step: npt.NDArray[np.int64]  # index of the step
    repeat: npt.NDArray[np.int64]  # which scoring of this step by this scorer
    value: npt.NDArray[np.float64]  # the number; NaN where the step was looked at and not scored

    @classmethod
    def of_table(cls, scorers: Iterable[tuple[str, str]], table: Floats) -> Self:
        """Return the column of a table: index of the scorer, place, step, repeat, value."""
        whole = table[:, :4].T.astype(np.int64)
        order = np.lexsort(whole[::-1])
        (scorer, at, step, repeat), value = whole[:, order], table[order, 4]
        who = tuple(scorers)
        return cls(scorers=who, scorer=scorer, at=at, step=step, repeat=repeat, value=value)

    def __len__(self) -> int:
        return len(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """What rules found wrong in runs, one entry each: which signature, in which run, at which step.

    A run may have a signature several times; entries are in no order. Only of runs whose state is
    `ANSWERED` does it mean anything that they have none.
    """

    texts: tuple[str, ...]  # the different signatures, and maybe more
    number: Ints  # index into `texts`
    at: Ints  # place of the run among the runs asked for
    step: Ints  # index of the step, -1 where it is of no one step
    # of each run, as in `AnswerColumn`: negative where rules could not see what went wrong
    state: npt.NDArray[np.int8]

    @property
    def seen(self) -> Bools:
        """Runs whose faults have signatures, if they have any."""
        return np.equal(self.state, ANSWERED)

    def of_seen(self) -> Self:
        """Return the signatures of these runs alone."""
        kept = self.seen[self.at]
        return replace(self, number=self.number[kept], at=self.at[kept], step=self.step[kept])

    def unmeasured(self) -> dict[str, int]:
        """Return how many runs rules could not see, by kind."""
        return count_unmeasured(self.state)


Columns = Mapping[str, AnswerColumn]  # by measure


class Rows(Protocol):
    """What a report is built from: a store, or the Parquet folder exported from one."""

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs that `where` chooses."""

    def column(self, measure: str, runs: Runs | None = None) -> AnswerColumn:
        """Return the answers of one measure, aligned with `runs` (all runs when left out)."""

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""

    def signs(self, runs: Runs, known: Columns | None = None) -> Signs:
        """Return what rules found wrong in `runs`; `known` are columns read of them already."""

    def weights(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """Return the weights of steps by workflow and task, "*" for every task."""

    def noise(self) -> Mapping[str, Estimate]:
        """Return the sigma of each judge whose repeated scorings were looked at."""

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""

    def measures(self) -> tuple[str, ...]:
        """Return the full names of all measures that have records, sorted."""

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield records in an order that does not depend on when they were made."""


@runtime_checkable
class LabelledRows(Protocol):
    """Rows that know what people said, and how they came to be asked."""

    def labels(self, where: Where | None = None, *, measure: str | None = None) -> Iterator[Label]:
        """Yield the labels that hold, in the order in which they were given."""


# The fields of `Runs` that are texts, in its order.
TEXT_FIELDS = ("id", "name", "workflow", "task", "trial", "agent", "agent_version", "outcome")


def text_array(values: Sequence[object]) -> Texts:
    """Return an array of objects, also for an empty sequence."""
    return np.fromiter(values, np.object_, len(values))


def load_runs(db: Connection, where: Where | None) -> Runs:
    """Return the runs that `where` chooses, superseded ones left out, by name, then id."""
    chosen = Where("1") if where is None else where
    numbers = ", ".join(f"group_concat({x})" for x in ("seq", "steps", "calls"))
    texts = ", ".join(f"json_group_array({x})" for x in (*TEXT_FIELDS, "start_ns"))
    (row,) = db.execute(
        "SELECT " + numbers + ", " + texts + " FROM runs"
        " WHERE superseded_by IS NULL AND (" + chosen.sql + ")",
        chosen.parameters,
    )
    *cells, start = map(_decode_cells, row[3:])
    names = list(zip(cells[1], cells[0], strict=True))
    order = np.array(sorted(range(len(names)), key=names.__getitem__), np.int64)
    key, steps, calls = (_numbers(text or "")[order] for text in row[:3])
    held = {x: text_array(of)[order] for x, of in zip(TEXT_FIELDS, cells, strict=True)}
    return Runs(key=key, **held, steps=steps, calls=calls, start_ns=text_array(start)[order])


def read_column(name: str, n: int, fill: Callable[[str, AnswerColumn], set[str]]) -> AnswerColumn:
    """Return the whole-run answers of a measure for `n` runs.

    An aspect without an answer takes over why its measure as a whole was not measured. `fill` puts
    the answers of one name into the cells and returns their versions.
    """
    column = AnswerColumn.empty(name, n)
    state = column.state
    versions = fill(name, column)
    base = name.rpartition(".")[0]
    # Where the measure's name ends and the aspect begins, only its records tell.
    while base and (state == NO_RECORD).any():
        spare = AnswerColumn.empty(base, n)
        whole = fill(base, spare)
        taken = (state == NO_RECORD) & (spare.state < 0)
        if taken.any():
            state[taken] = spare.state[taken]
            versions |= whole
        base = base.rpartition(".")[0]
    return replace(column, versions=tuple(sorted(versions)))


class RunPlaces:
    """Where each run stands in the arrays, and what decides which of its records are current."""

    def __init__(self, db: Connection, chosen: Runs) -> None:
        self._order = np.argsort(chosen.key)
        self._keys = chosen.key[self._order]
        names = chosen.workflow.tolist()
        self._workflows = {name: code for code, name in enumerate(set(names))}
        self._workflow = np.array([self._workflows[name] for name in names], np.int64)
        self.case = np.zeros(len(chosen), dtype=np.int64)
        self.purged = np.zeros(len(chosen), dtype=np.bool_)
        # Most columns of a report have answers about the same runs and cases.
        self.align = lru_cache(1)(self._align)
        found = db.execute(
            "SELECT group_concat(seq), group_concat(case_id), group_concat(purged_ns IS NOT NULL)"
            " FROM runs WHERE case_id <> 0 OR purged_ns IS NOT NULL"
        ).fetchone()
        keys, cases, purged = (_numbers(text or "") for text in found)
        at = self.of(keys)
        self.case[at[at >= 0]] = cases[at >= 0]
        self.purged[at[at >= 0]] = purged[at >= 0] == 1

    def of(self, keys: Ints) -> Ints:
        """Return positions, -1 for a run that was not chosen."""
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._order[at], -1)

    def inside(self, workflows: Container[str], at: Ints) -> Bools:
        """Tell which positions belong to runs of these workflows."""
        inside: Bools = np.array([name in workflows for name in self._workflows], np.bool_)
        return inside[self._workflow[at]]

    def _align(self, runs: str, cases: str) -> tuple[Ints, Ints, Bools]:
        """Return the positions and cases of answers, and which of them are of a case that counts.

        Runs and cases are numbers with commas between them.
        """
        at, case = self.of(_numbers(runs)), _numbers(cases)
        return at, case, (at >= 0) & ((case == 0) | (case == self.case[at]))


# Each column of a question's answers as one text: a row of Python for each run takes twice the
# time. A text would round numbers that are not whole: they follow as rows where they are asked for.
_ANSWERS = """
    SELECT group_concat(run), group_concat(case_id), group_concat(state), json_group_array({text}),
        group_concat(CAST(value AS INTEGER)), total(value <> CAST(value AS INTEGER))
    FROM records WHERE question = ?1 AND step = -1 AND repeat = 0
    UNION ALL
    SELECT value, 0, 0, 0, 0, 0 FROM records
    WHERE question = ?1 AND step = -1 AND repeat = 0 AND state = 1 AND ?2
"""
_decode_texts = msgspec.json.Decoder(list[str | None]).decode
_decode_cells = msgspec.json.Decoder(list[str | int | None]).decode


def _numbers(text: str) -> Ints:
    if len(text) == 2 * text.count(",") + 1:  # digits alone: states, flags, small counts
        return np.frombuffer(text.encode(), np.uint8)[::2] - np.int64(48)
    return np.fromstring(text, dtype=np.int64, sep=",")


def _read_answers(
    db: Connection, question: int, text: str
) -> tuple[str, str, Ints, Floats, Texts] | None:
    """Return runs and cases as `align` takes them, states, values and texts; None without any."""
    asked = _ANSWERS.format(text=text)
    (head,) = db.execute(asked, (question, False))
    if head[0] is None:
        return None
    # One statement sees one state of the store.
    head, *rows = db.execute(asked, (question, True)) if head[-1] else [head]
    runs, cases, states, texts, whole, _ = head
    state = _numbers(states)
    value = np.full(len(state), np.nan)
    value[state == 1] = [row[0] for row in rows] or _numbers(whole or "")
    # Most measures have no text at all.
    held = text_array(_decode_texts(texts)) if '"' in texts else np.full(len(state), None)
    return runs, cases, state, value, held


def fill_cells(
    db: Connection,
    place: RunPlaces,
    measure: str,
    cells: AnswerColumn,
    *,
    text: Literal["label", "cites"] = "label",
    made_by: Ints | None = None,
) -> set[str]:
    """Put the current answers of one measure name into the cells; return their versions.

    `text` is what the cells hold as their label. Into `made_by`, shape (runs, 2), go the rows of
    the question and of the case of each answer. Later questions win over earlier ones, and all of
    them over one whose facts are not those of today, by which only purged runs may still answer.
    """
    current = db.execute(
        "SELECT workflow, version, facts FROM current"
        " WHERE measure = ?1 OR substr(?1, 1, length(measure) + 1) = measure || '.'",
        (measure,),
    ).fetchall()
    questions = db.execute(
        "SELECT id, version, facts, family FROM questions WHERE measure = ?"
        " ORDER BY version, facts, judge, prompt",
        (measure,),
    ).fetchall()
    versions = set()
    for outdated in (True, False) if place.purged.any() else (False,):
        for id_, version, facts, family in questions:
            workflows = None
            if family == RULES and current:
                workflows = {w for w, v, f in current if v == version and (f != facts) == outdated}
                if not workflows:
                    continue
            elif outdated:
                continue
            found = _read_answers(db, id_, text)
            if found is None:
                continue
            keys, cases, state, value, label = found
            at, case, kept = place.align(keys, cases)
            if workflows is not None:
                kept = kept & place.inside(workflows, at)
            if outdated:
                kept = kept & place.purged[at]
            if not kept.any():
                continue
            # What was made against the run's case wins over what was made against none.
            for mine in filter(np.any, (kept & (case == 0), kept & (case != 0))):
                mine = ... if mine.all() else mine
                cells.put(at[mine], state[mine], value[mine], label[mine])
                if made_by is not None:
                    made_by[at[mine], 0], made_by[at[mine], 1] = id_, case[mine]
            versions.add(version)
    return versions


_decode = msgspec.json.Decoder(tuple[int, ...]).decode


def rank_question(version: str, judged: int) -> tuple[bool, int]:
    """Return by what a question to a judge counts: asked as usual, then by runs with a number."""
    return judged > 0 and "+" not in version, judged


def step_values(db: Connection, places: RunPlaces, measure: str, runs: Runs) -> StepColumn:
    """Return the numbers that a measure gave to single steps, whoever gave them.

    Of several questions to one judge that one counts by which most of these runs have a number
    (`rank_question`), of two the last by version and prompt, never by time. Answers against another
    case than the run's present one are left out.
    """
    asked = db.execute(
        "SELECT family, judge, version, id FROM questions WHERE measure = ?"
        " ORDER BY family, judge, version, facts, prompt",
        (measure,),
    ).fetchall()
    several: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for family, judge, *question in asked if len(runs) else ():
        several.setdefault((family, judge), []).append((*question,))
    scorers: list[tuple[str, str]] = []
    parts = []
    for name, ids in several.items():
        most, part = (False, 0), np.empty((0, 4))
        for version, id_ in ids:
            rows = db.execute(
                "SELECT run, case_id, step, repeat, value FROM records"
                " WHERE question = ? AND step >= 0",
                (id_,),
            ).fetchall()
            table = np.array(rows, dtype=np.float64).reshape(-1, 5)
            at = places.of(table[:, 0].astype(np.int64))
            case = table[:, 1].astype(np.int64)
            kept = (at >= 0) & ((case == 0) | (case == places.case[at]))
            rank = rank_question(version, len(np.unique(at[kept & ~np.isnan(table[:, 4])])))
            if kept.any() and rank >= most:
                most, part = rank, np.column_stack([at[kept], table[kept, 2:]])
        if len(part):
            parts.append(np.column_stack([np.full(len(part), len(scorers)), part]))
            scorers.append(name)
    return StepColumn.of_table(scorers, np.concatenate([np.empty((0, 5)), *parts]))


def cited_steps(
    db: Connection, places: RunPlaces, measure: str, runs: Runs
) -> list[tuple[int, ...] | None]:
    """Return the steps that the whole-run answers of a measure cite; None where there is none."""
    if not len(runs):
        return []
    cells = AnswerColumn.empty(measure, len(runs))
    fill_cells(db, places, measure, cells, text="cites")
    return [
        None if state != 1 else _decode(text) if text else ()
        for state, text in zip(cells.state.tolist(), cells.label.tolist(), strict=True)
    ]


# Run, step, words (see `sign_step`) and cites of answers as they are stored; cites of errors only.
SignColumns = tuple[Ints, Ints, Sequence[str], Sequence[str]]


def see_runs(column: Callable[[str], AnswerColumn], measures: Iterable[str]) -> Ints:
    """Return the state of each run's signatures: whether rules could see what went wrong.

    `column` reads one of `measures`. Unmeasured is a run of which nothing shows what tools gave
    back, neither a status nor a text, and one on which a rule that signs has crashed.
    """
    state = column(STEP_LABELS_NAME).state.astype(np.int64)
    blind = np.not_equal(column("errors").state, ANSWERED)
    blind &= column("axes.result_interpretation").state == cell_state("missing_input")
    state[blind & (state == ANSWERED)] = cell_state("missing_input")
    crashed = cell_state("error")
    for measure in filter(signatures.is_signed, measures):
        state[column(measure).state == crashed] = crashed
    return state


def read_signs(db: Connection, places: RunPlaces, state: Ints) -> Signs:
    """Return what rules found wrong in the runs, as signatures that other runs share.

    `state` is that of `see_runs`; the texts of a purged run went with its reasons.
    """
    state = np.where(places.purged & (state == ANSWERED), cell_state("missing_input"), state)
    current = db.execute("SELECT measure, workflow, version, facts FROM current").fetchall()
    asked = db.execute(
        "SELECT id, measure, version, facts FROM questions WHERE family = ?", (RULES,)
    ).fetchall()
    found: list[tuple[str, SignColumns]] = []
    for id_, measure, version, facts in asked if len(state) else ():
        if not signatures.is_signed(measure):
            continue
        of = [row for row in current if measure == row[0] or measure.startswith(f"{row[0]}.")]
        workflows = {row[1] for row in of if row[2:] == (version, facts)}
        if of and not workflows:
            continue
        words = "label" if measure == "policy" else "reason"
        cites = "json_group_array(cites)" if measure == "errors" else "'[]'"
        ((*numbers, said, cited),) = db.execute(
            "SELECT group_concat(run), group_concat(case_id), group_concat(step),"
            " json_group_array(" + words + "), " + cites + " FROM records"
            " WHERE question = ? AND repeat = 0 AND state > 0 AND step >= ? AND reason <> ''"
            " AND label IS NOT 'all' AND (label = 'incorrect' OR NOT ?)",
            (id_, 0 if signatures.is_of_steps(measure) else -1, measure.startswith("axes.")),
        )
        if numbers[0] is None:
            continue
        run, case, step = map(_numbers, numbers)
        at = places.of(run)
        kept = (at >= 0) & ((case == 0) | (case == places.case[at]))
        if of:
            kept &= places.inside(workflows, at)
        texts = [list(compress(_decode_texts(x), kept.tolist())) for x in (said, cited)]
        found.append((measure, (run[kept], step[kept], *texts)))
    return sign_answers(found, places.of, state)


def sign_answers(
    answers: Iterable[tuple[str, SignColumns]], place: Callable[[Ints], Ints], state: Ints
) -> Signs:
    """Return the signatures of current answers of rules, by measure.

    `place` gives the places of runs by their rows, -1 for those that were not asked for; `state`
    is that of the runs. An error that has a signature with its tool has no other.
    """
    numbers: dict[str, int] = {}
    parts = [np.empty((3, 0), np.int64)]
    named = np.empty(0, np.int64)
    for measure, (run, step, said, cites) in sorted(answers, key=lambda x: x[0] == "errors"):
        each = dict.fromkeys(said)
        if not signatures.is_of_steps(measure):
            signs = {words: signatures.sign_run(measure, words) for words in each}
            signed = [
                (numbers.setdefault(text, len(numbers)), of, at)
                for of, words in zip(run.tolist(), said, strict=True)
                for text, at in signs[words]
            ]
            parts.append(np.array(signed, np.int64).reshape(-1, 3).T)
            continue
        known = {words: signatures.sign_step(measure, words) for words in each}
        codes = {w: numbers.setdefault(x, len(numbers)) if x else -1 for w, x in known.items()}
        number = np.fromiter(map(codes.__getitem__, said), np.int64, len(said))
        kept = number >= 0
        if measure == STEP_LABELS_NAME:
            named = np.append(named, (run << 32 | step)[[signatures.IS_ERROR in x for x in said]])
        elif measure == "errors":
            # Cited is the call, of which labels of steps speak.
            first = {text: _decode(text)[0] for text in dict.fromkeys(cites) if text}
            call = [first.get(text, at) for text, at in zip(cites, step.tolist(), strict=True)]
            kept &= ~np.isin(run << 32 | np.array(call, np.int64), named)
        parts.append(np.stack([number, run, step])[:, kept])
    table = np.concatenate(parts, axis=1)
    table[1] = place(table[1])
    numbered, at, step = table[:, table[1] >= 0]
    texts, states = tuple(numbers), state.astype(np.int8)
    return Signs(texts=texts, number=numbered, at=at, step=step, state=states)


def offer_answers(db: Connection, rows: Rows) -> None:
    """Let SQL call what a filter asks of records, by the row of a run.

    `signatures` is a JSON array of its signatures and their codes, NULL where rules could not see
    what went wrong, `annotators` one of the people who labelled it, `axis` the label that rules
    gave it on an axis. Each is read once for all runs, and again when the database has changed.
    """
    state: tuple[int, int] | None = None
    held: dict[str, dict[int, str]] = {}

    def look_up(what: str, run: int | None, read: Callable[[], dict[int, str]]) -> str | None:
        nonlocal state
        ((version,),) = db.execute("PRAGMA data_version").fetchall()
        if state != (version, db.total_changes):
            state = version, db.total_changes
            held.clear()
        if what not in held:
            held[what] = read()
        return held[what].get(run or 0)

    def read_signatures() -> dict[int, str]:
        runs = rows.runs()
        signs = rows.signs(runs)
        names = [(text, signatures.signature_code(text)) for text in signs.texts]
        of_run: dict[int, set[str]] = {}
        keys = runs.key[signs.at].tolist()
        for key, number in zip(keys, signs.number.tolist(), strict=True):
            of_run.setdefault(key, set()).update(names[number])
        found = {key: msgspec.json.encode(sorted(of)).decode() for key, of in of_run.items()}
        return dict.fromkeys(runs.key[signs.seen].tolist(), "[]") | found

    def read_annotators() -> dict[int, str]:
        runs = rows.runs()
        found: dict[str, set[str]] = {}
        for label in rows.labels() if isinstance(rows, LabelledRows) else ():
            found.setdefault(label.trajectory, set()).add(label.annotator)
        names = zip(runs.key.tolist(), runs.id.tolist(), strict=True)
        return {key: msgspec.json.encode(sorted(found.get(id_, ()))).decode() for key, id_ in names}

    def read_axis(axis: str) -> dict[int, str]:
        runs = rows.runs()
        labels = rows.column(f"axes.{axis}", runs).label.tolist()
        return {key: x for key, x in zip(runs.key.tolist(), labels, strict=True) if x}

    db.create_function("signatures", 1, lambda run: look_up("signatures", run, read_signatures))
    db.create_function("annotators", 1, lambda run: look_up("annotators", run, read_annotators))
    db.create_function("axis", 2, lambda run, of: look_up(of, run, partial(read_axis, of)))


# Values that a message names.
_NAMED = 8


def explain_no_match(rows: Rows, where: Where | None, tools: Iterable[str] = ()) -> str:
    """Return why no run matches a filter: which of its values no run has, and which is near.

    `tools` are the tools that the runs call.
    """
    runs = rows.runs()
    if not len(runs):
        return "the store has no runs; read some with stepscope import PATHS"
    chosen = runs if where is None else rows.runs(where)
    if where is None or len(chosen):
        return f"every run that was chosen is erased ({format_count(len(chosen), 'run')})"
    said = []
    for field, value in dict.fromkeys(where.values):
        kind, _, key = field.partition(".")
        if field == "mode":
            signs = rows.signs(runs)
            known = {*signs.texts, *map(signatures.signature_code, signs.texts)}
            if not known:
                how = "" if signs.seen.any() else "; find some with stepscope score"
                said.append(f"no failure mode is known{how}")
                continue
        elif field == "tool":
            known = set(tools)
        elif field in TEXT_FIELDS or kind == "tag":
            column = rows.tag(key, runs) if kind == "tag" else getattr(runs, field)
            known = {text for text in column.tolist() if text is not None}
        else:
            continue
        if value not in known:
            near = suggest_name(value, known)
            near = "" if near.startswith("known") and len(known) > _NAMED else f" ({near})"
            said.append(f"no run has {field} {value!r}{near}")
    why = "; ".join(said) or f"the store has {format_count(len(runs), 'run')}"
    return f"no run matches {where.text}: {why}"
