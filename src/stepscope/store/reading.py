"""The columns of a report, read from SQLite.

Which record is current: of a deterministic measure, the one of the version and facts that `score`
last used in the run's workflow; of anything else, the last by version, facts, judge and prompt,
never by time. Either way it must have been made against the run's present case, or against none.
A purged run cannot be asked again: when facts have changed since, its last answer of the same
version stays.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from stepscope.errors import UsageError
from stepscope.store.columns import ANSWERED, NO_RECORD, Column, Runs, Texts
from stepscope.store.where import Where

# A message that names more runs than this helps nobody.
_CANDIDATES = 5
_FIELDS = (
    "seq, id, name, workflow, task, trial, agent, agent_version, outcome, steps, calls, case_id"
)


def texts(values: object) -> Texts:
    """Return an array of objects, also for an empty sequence."""
    found = np.empty(len(values), dtype=np.object_)  # type: ignore[arg-type]
    found[:] = values
    return found


def runs(db: sqlite3.Connection, where: Where | None) -> Runs:
    """Return the runs that `where` chooses, superseded ones left out, by name, then id."""
    chosen = Where("1") if where is None else where
    rows = db.execute(
        "SELECT " + _FIELDS + " FROM runs WHERE superseded_by IS NULL AND (" + chosen.sql + ")"
        " ORDER BY name, id",
        chosen.parameters,
    ).fetchall()
    columns = list(zip(*rows, strict=True)) or [()] * 12
    return Runs(
        key=np.array(columns[0], dtype=np.int64),
        id=texts(columns[1]),
        name=texts(columns[2]),
        workflow=texts(columns[3]),
        task=texts(columns[4]),
        trial=texts(columns[5]),
        agent=texts(columns[6]),
        agent_version=texts(columns[7]),
        outcome=texts(columns[8]),
        steps=np.array(columns[9], dtype=np.int64),
        calls=np.array(columns[10], dtype=np.int64),
    )


def tag(db: sqlite3.Connection, key: str, chosen: Runs) -> Texts:
    """Return the value of one tag of each of the runs, None where a run has no such tag."""
    found = dict(db.execute("SELECT run, value FROM tags WHERE key = ?", (key,)))
    return texts([found.get(run) for run in chosen.key.tolist()])


class Cells(NamedTuple):
    """A column while it is filled, and which record each cell came from (0: none)."""

    value: npt.NDArray[np.float64]
    label: Texts
    state: npt.NDArray[np.int8]
    question: npt.NDArray[np.int64]
    case: npt.NDArray[np.int64]

    @classmethod
    def empty(cls, size: int) -> Self:
        """Return cells without records."""
        return cls(
            np.full(size, np.nan),
            np.full(size, None, dtype=np.object_),
            np.full(size, NO_RECORD, dtype=np.int8),
            np.zeros(size, dtype=np.int64),
            np.zeros(size, dtype=np.int64),
        )


def column(measure: str, size: int, fill: Callable[[str, Cells], set[str]]) -> Column:
    """Return the whole-run answers of a measure for `size` runs.

    An aspect without an answer takes over why its measure as a whole was not measured.

    Args:
        measure: its full name.
        size: how many runs the column is aligned with.
        fill: puts the answers of one name into value, label and state; returns their versions.
    """
    cells = Cells.empty(size)
    state = cells.state
    versions = fill(measure, cells)
    base = measure.rpartition(".")[0]
    # Where the measure's name ends and the aspect begins, only its records tell.
    while base and (state == NO_RECORD).any():
        spare = Cells.empty(size)
        whole = fill(base, spare)
        taken = (state == NO_RECORD) & (spare.state < 0)
        if taken.any():
            state[taken] = spare.state[taken]
            versions |= whole
        base = base.rpartition(".")[0]
    return Column(
        measure=measure,
        value=cells.value,
        label=cells.label,
        state=state,
        versions=tuple(sorted(versions)),
    )


class Asked(NamedTuple):
    """A question and the workflows in which its answers are current; None for all of them.

    `outdated`: its facts are not those of today, so that only purged runs may still answer by it.
    """

    id: int
    version: str
    workflows: frozenset[str] | None
    outdated: bool = False


class Places:
    """Where each run stands in the arrays, and what decides which of its records are current."""

    def __init__(self, db: sqlite3.Connection, chosen: Runs) -> None:
        self._order = np.argsort(chosen.key)
        self._keys = chosen.key[self._order]
        self._workflows, self._workflow = np.unique(chosen.workflow, return_inverse=True)
        self.case = np.zeros(len(chosen), dtype=np.int64)
        self.purged = np.zeros(len(chosen), dtype=np.bool_)
        rows = db.execute(
            "SELECT seq, case_id, purged_ns IS NOT NULL FROM runs"
            " WHERE case_id <> 0 OR purged_ns IS NOT NULL"
        ).fetchall()
        if rows:
            found = np.array(rows, dtype=np.int64)
            at = self.of(found[:, 0])
            self.case[at[at >= 0]] = found[at >= 0, 1]
            self.purged[at[at >= 0]] = found[at >= 0, 2] == 1

    def of(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return positions, -1 for a run that was not chosen."""
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[at] == keys, self._order[at], -1)

    def inside(self, workflows: frozenset[str], at: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell which positions belong to runs of these workflows."""
        codes = [code for code, name in enumerate(self._workflows) if name in workflows]
        return np.isin(self._workflow[at], codes)


def fill(
    db: sqlite3.Connection,
    place: Places,
    measure: str,
    cells: Cells,
    *,
    text: Literal["label", "cites"] = "label",
) -> set[str]:
    """Put the current answers of one measure name into the cells; return their versions.

    `text` is what the cells hold as their label.
    """
    versions = set()
    for asked in questions(db, measure):
        if asked.outdated and not place.purged.any():
            continue
        rows = db.execute(
            "SELECT run, case_id, state, value, " + text + " FROM records"
            " WHERE question = ? AND step = -1 AND repeat = 0",
            (asked.id,),
        ).fetchall()
        if not rows:
            continue
        keys, cases, states, values, labels = zip(*rows, strict=True)
        at = place.of(np.array(keys, dtype=np.int64))
        case = np.array(cases, dtype=np.int64)
        kept = (at >= 0) & ((case == 0) | (case == place.case[at]))
        if asked.workflows is not None:
            kept &= place.inside(asked.workflows, at)
        if asked.outdated:
            kept &= place.purged[at]
        if not kept.any():
            continue
        found = Found(
            at,
            np.array(states, dtype=np.int8),
            np.array(values, dtype=np.float64),
            texts(labels),
            np.full(len(at), asked.id, dtype=np.int64),
            case,
        )
        # What was made against the run's case wins over what was made against none.
        found.into(cells, kept & (case == 0))
        found.into(cells, kept & (case != 0))
        versions.add(asked.version)
    return versions


class Found(NamedTuple):
    """Answers as they were read, each with its position in the column."""

    at: npt.NDArray[np.int64]
    state: npt.NDArray[np.int8]
    value: npt.NDArray[np.float64]
    label: Texts
    question: npt.NDArray[np.int64]
    case: npt.NDArray[np.int64]

    def into(self, cells: Cells, kept: npt.NDArray[np.bool_]) -> None:
        """Put the kept ones into the cells."""
        if not kept.any():
            return
        at = self.at[kept]
        # A label without a number is an answer too; only the store tells the two apart.
        cells.state[at] = np.minimum(self.state[kept], ANSWERED)
        cells.value[at] = self.value[kept]
        cells.label[at] = self.label[kept]
        cells.question[at] = self.question[kept]
        cells.case[at] = self.case[kept]


def questions(db: sqlite3.Connection, measure: str) -> list[Asked]:
    """Return the questions of a measure whose answers may be current; later ones win."""
    current: dict[tuple[str, str], set[str]] = {}
    for workflow, version, facts in db.execute(
        "SELECT workflow, version, facts FROM current"
        " WHERE measure = ?1 OR substr(?1, 1, length(measure) + 1) = measure || '.'",
        (measure,),
    ):
        current.setdefault((version, facts), set()).add(workflow)
    found: list[Asked] = []
    for id_, version, facts, family in db.execute(
        "SELECT id, version, facts, family FROM questions WHERE measure = ?"
        " ORDER BY version, facts, judge, prompt",
        (measure,),
    ):
        if family != "rules" or not current:
            found.append(Asked(id_, version, None))
            continue
        for (of_version, of_facts), workflows in current.items():
            if of_version == version:
                found.append(Asked(id_, version, frozenset(workflows), of_facts != facts))
    return sorted(found, key=lambda asked: not asked.outdated)


def find(db: sqlite3.Connection, text: str) -> str:
    """Return the id of the run called `text`: its name, its id, or a unique start of its id.

    Raises:
        UsageError: no run or several; the message names candidates.
    """
    for query, parameters in (
        ("id = ?", (text,)),
        ("superseded_by IS NULL AND name = ?", (text,)),
        ("substr(id, 1, ?) = ?", (len(text), text)),
    ):
        found = db.execute(
            "SELECT id, name FROM runs WHERE " + query + " ORDER BY name, id LIMIT 100", parameters
        ).fetchall()
        if len(found) == 1:
            return str(found[0][0])
        if found and text:
            named = ", ".join(f"{id_[:12]} ({name})" for id_, name in found[:_CANDIDATES])
            more = " ..." if len(found) > _CANDIDATES else ""
            raise UsageError(f"{text!r} is more than one run: {named}{more}; give its id")
    raise UsageError(f"no run called {text!r}: give its name, or the first digits of its id")


def answered(
    db: sqlite3.Connection, measure: str, workflow: str, version: str, facts: str
) -> set[int]:
    """Return the runs of a workflow that have whole-run answers against their present case."""
    aspect = measure + "."
    questions = db.execute(
        "SELECT id FROM questions WHERE version = ? AND facts = ? AND family = 'rules'"
        " AND (measure = ? OR substr(measure, 1, ?) = ?)",
        (version, facts, measure, len(aspect), aspect),
    ).fetchall()
    found: set[int] = set()
    for (question,) in questions:
        rows = db.execute(
            "SELECT r.run FROM records AS r JOIN runs ON runs.seq = r.run"
            " WHERE r.question = ? AND r.step = -1 AND r.case_id = runs.case_id"
            " AND runs.workflow = ?",
            (question, workflow),
        )
        found.update(row[0] for row in rows)
    return found


def scored(db: sqlite3.Connection) -> tuple[int, int]:
    """Return how many runs can be scored, and how many have a current answer about their outcome.

    Every measure is asked in the same batch of runs, so that one of them tells how far `score` is.
    """
    live = "runs.superseded_by IS NULL AND runs.purged_ns IS NULL"
    total = db.execute("SELECT count(*) FROM runs WHERE " + live).fetchone()[0]
    done = db.execute(
        "SELECT count(*) FROM current AS c"
        " JOIN questions AS q ON q.measure = c.measure AND q.version = c.version"
        " AND q.facts = c.facts AND q.family = 'rules'"
        " JOIN records AS r ON r.question = q.id AND r.step = -1 AND r.repeat = 0"
        " JOIN runs ON runs.seq = r.run AND runs.workflow = c.workflow"
        " AND runs.case_id = r.case_id"
        " WHERE c.measure = 'outcome' AND " + live
    ).fetchone()[0]
    return total, done


def raters(db: sqlite3.Connection, measure: str) -> int:
    """Return how many different judges, people or files were asked a measure."""
    query = "SELECT count(*) FROM (SELECT DISTINCT family, judge FROM questions WHERE measure = ?)"
    return int(db.execute(query, (measure,)).fetchone()[0])


def measures(db: sqlite3.Connection) -> tuple[str, ...]:
    """Return the full names of all measures with an answer about a whole run or a step."""
    rows = db.execute(
        "SELECT DISTINCT measure FROM questions AS q"
        " WHERE EXISTS (SELECT 1 FROM records AS r WHERE r.question = q.id) ORDER BY measure"
    )
    return tuple(row[0] for row in rows)


def families(db: sqlite3.Connection, measure: str) -> tuple[str, ...]:
    """Return the families of everyone who was asked a measure, sorted."""
    rows = db.execute(
        "SELECT DISTINCT family FROM questions WHERE measure = ? ORDER BY family", (measure,)
    )
    return tuple(row[0] for row in rows)
