"""The store as one object: a file (or memory) that holds runs, their cases, and what was said.

Thin on purpose: every method is one transaction or one query of the modules beside it. Two
processes may write at once; each batch is on disk when the call returns.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from stepscope.model import Case, Facts, Figures, Json, Quarantined, Record, Trajectory, digest
from stepscope.sqlite import faults
from stepscope.store import (
    aside,
    media,
    parquet,
    reading,
    records,
    samples,
    steps,
    trajectories,
    weights,
)
from stepscope.store.columns import Column, Runs, StepColumn, Texts
from stepscope.store.opened import OpenStore
from stepscope.store.prepared import Prepared, batches, prepared
from stepscope.store.purge import Purged, purge
from stepscope.store.records import Line, Question
from stepscope.store.samples import Drawn
from stepscope.store.trajectories import PutCounts, Stored
from stepscope.store.where import Where
from stepscope.values import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["pass", "fail", "unknown"]


class Current(NamedTuple):
    """Which answers of a measure are current in a workflow: their version and facts hash."""

    measure: str
    workflow: str
    version: str
    facts: str


class Store(OpenStore):
    """Runs and records on disk; use as a context manager, or `close` it."""

    def put(self, runs: Iterable[Trajectory]) -> PutCounts:
        """Store runs, in durable batches; known ones take over what came late.

        People's labels become records of family `human`.
        """
        move_media = self.blobs is not None
        return self.put_prepared(prepared(run, move_media=move_media) for run in runs)

    def put_prepared(self, runs: Iterable[Prepared]) -> PutCounts:
        """Store runs that are already rows, as `import` makes them; as durable as `put`."""
        total = PutCounts(0, 0, 0)
        for batch in batches(runs):
            with self._writing():
                counts = trajectories.write(self._db, self._names, batch, self.blobs)
            total = PutCounts(*(a + b for a, b in zip(total, counts, strict=True)))
        return total

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs that `where` chooses as columns, ordered by name, then id."""
        with faults(self.path):
            return reading.runs(self._db, where)

    def column(self, measure: str, runs: Runs | None = None) -> Column:
        """Return the current whole-run answers of a measure, aligned with `runs` (default: all)."""
        chosen = self.runs() if runs is None else runs
        if not len(chosen):
            return reading.column(measure, 0, lambda _measure, _cells: set())
        with faults(self.path):
            fill = partial(reading.fill, self._db, self._places(chosen))
            return reading.column(measure, len(chosen), fill)

    def _places(self, chosen: Runs) -> reading.Places:
        # A report asks for some forty columns of the same runs.
        if self._aligned is None or self._aligned[0] is not chosen:
            self._aligned = (chosen, reading.Places(self._db, chosen))
        return self._aligned[1]

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""
        with faults(self.path):
            return steps.values(self._db, self._places(runs), measure, runs)

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""
        with faults(self.path):
            return steps.cited(self._db, self._places(runs), measure, runs)

    def weights(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """Return the weights of steps by workflow and task, "*" for every task."""
        with faults(self.path):
            return weights.held(self._db)

    def fix_weights(self, of: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Fix weights by workflow and task, "*" for every task, before runs are scored by them.

        Raises:
            StoreError: runs were scored under other weights, or before there were any.
        """
        with self._writing():
            for workflow, tasks in of.items():
                for task, of_task in tasks.items():
                    weights.fix(self._db, workflow, task, of_task)

    def noise(self) -> dict[str, Estimate]:
        """Return the sigma of each judge whose repeated scorings were looked at."""
        with faults(self.path):
            rows = self._db.execute("SELECT judge, body FROM noise ORDER BY judge").fetchall()
        return {judge: msgspec.json.decode(body, type=Estimate) for judge, body in rows}

    def put_noise(self, measured: Mapping[str, Estimate]) -> None:
        """Keep the sigma of judges; a later measurement of a judge replaces the earlier one."""
        now = time.time_ns()
        with self._writing():
            self._db.executemany(
                "INSERT INTO noise (judge, body, measured_ns) VALUES (?, ?, ?)"
                " ON CONFLICT (judge) DO UPDATE SET body = excluded.body,"
                " measured_ns = excluded.measured_ns",
                [(judge, msgspec.json.encode(found), now) for judge, found in measured.items()],
            )

    def put_sample(
        self, rubric: str, population: Iterable[str], probability: float, drawn: Iterable[str]
    ) -> None:
        """Keep which of `population`, by id, were drawn for a rubric, each with `probability`."""
        with self._writing():
            samples.put(self._db, rubric, population, probability, frozenset(drawn))

    def sampled(self, rubric: str) -> dict[str, Drawn]:
        """Return what is known of each run that could have been drawn for a rubric, by id."""
        with faults(self.path):
            return samples.held(self._db, rubric)

    def drawn(self, rubric: str) -> dict[str, float]:
        """Return the inclusion probability of each run that was drawn for a rubric, by id."""
        held = self.sampled(rubric)
        return {run: one.probability for run, one in held.items() if one.chosen}

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""
        with faults(self.path):
            return reading.tag(self._db, key, runs)

    def families(self, measure: str) -> tuple[str, ...]:
        """Return the families of everyone who answered a measure, sorted."""
        with faults(self.path):
            return reading.families(self._db, measure)

    def raters(self, measure: str) -> int:
        """Return how many different judges, people or files answered a measure."""
        with faults(self.path):
            return reading.raters(self._db, measure)

    def measures(self) -> tuple[str, ...]:
        """Return the full names of all measures that have records, sorted."""
        with faults(self.path):
            return reading.measures(self._db)

    def trajectories(self, where: Where | None = None) -> Iterator[Trajectory]:
        """Yield runs with their cases, by name; purged ones are left out."""
        with faults(self.path):
            for stored in trajectories.read(self._db, trajectories.keys(self._db, where)):
                yield stored.trajectory

    def trajectory(self, id: str) -> Trajectory:
        """Return the run with this id; media without their data, see `with_media`.

        Raises:
            StoreError: no such run, or its texts were purged.
        """
        with faults(self.path):
            return trajectories.one(self._db, id).trajectory

    def with_media(self, trajectory: Trajectory) -> Trajectory:
        """Return a stored run with the data of its media read back from the blob folder."""
        with faults(self.path):
            rows = self._db.execute(
                "SELECT place, sha256 FROM media JOIN runs ON runs.seq = media.run WHERE id = ?",
                (trajectory.id,),
            ).fetchall()
        if not rows or self.blobs is None:
            return trajectory
        steps = media.moved_in(trajectory.steps, dict(rows), self.blobs)
        return msgspec.structs.replace(trajectory, steps=steps)

    def blob(self, sha256: str) -> bytes | None:
        """Return the bytes of a medium by their hash; None where no run of the store has it.

        Raises:
            StoreError: the file is missing or has been changed.
        """
        with faults(self.path):
            known = self._db.execute(
                "SELECT 1 FROM media WHERE sha256 = ? LIMIT 1", (sha256,)
            ).fetchone()
        return None if known is None or self.blobs is None else media.read(self.blobs, sha256)

    def find(self, text: str) -> str:
        """Return the id of the run called `text`: its name, its id, or a unique start of its id.

        Raises:
            UsageError: no run or several; the message names candidates.
        """
        with faults(self.path):
            return reading.find(self._db, text)

    def case_of(self, id: str) -> Case | None:
        """Return what the run is measured against, None where nothing is known.

        Raises:
            StoreError: no such run, or its texts were purged.
        """
        return self.trajectory(id).case

    def append(self, batch: Sequence[Record]) -> int:
        """Store records in one durable transaction; return how many were new.

        Raises:
            StoreError: a record is about an unknown run, or its value is not finite.
        """
        with self._writing():
            return records.insert(self._db, self._names, batch)

    def append_lines(self, questions: Sequence[Question], lines: Iterable[Line]) -> int:
        """Store answers that are already cells, as `score` makes them; as durable as `append`."""
        with self._writing():
            return records.insert_lines(self._db, self._names, questions, lines)

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield records ordered by measure, run name and step: never by when they were made."""
        with faults(self.path):
            for row in records.rows(self._db, where, trajectory, measure):
                yield records.record(row)

    def to_arrow(self, where: Where | None = None) -> pa.Table:
        """Return the records as an Arrow table, in the order of `records`.

        Raises:
            ConfigError: pyarrow is not installed.
        """
        with faults(self.path):
            return parquet.records_table(self._db, where)

    def to_parquet(self, folder: str | Path, where: Where | None = None) -> None:
        """Write runs.parquet and records.parquet into a folder, made if new; see `ParquetRows`.

        Raises:
            ConfigError: pyarrow is not installed.
            EnvironmentFault: the folder cannot be written.
        """
        with faults(self.path):
            parquet.write(self._db, Path(folder), where)

    def keys(self, where: Where | None = None) -> list[int]:
        """Return the rows of the runs that can be scored, by name: what `stored` reads."""
        with faults(self.path):
            return trajectories.keys(self._db, where)

    def stored(self, keys: Sequence[int]) -> Iterator[Stored]:
        """Yield runs by row."""
        with faults(self.path):
            yield from trajectories.read(self._db, keys)

    def facts(self, workflow: str) -> Facts | None:
        """Return the facts last fitted for a workflow."""
        with faults(self.path):
            row = self._db.execute(
                "SELECT body FROM facts WHERE workflow = ? ORDER BY fitted_ns DESC, hash LIMIT 1",
                (workflow,),
            ).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Facts)

    def put_facts(self, fitted: Iterable[Facts], current: Iterable[Current]) -> None:
        """Keep facts, and say which answers of which measures are current from now on."""
        now = time.time_ns()
        with self._writing():
            self._db.executemany(
                "INSERT INTO facts (workflow, hash, body, fitted_ns) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (workflow, hash) DO UPDATE SET fitted_ns = excluded.fitted_ns",
                [(f.workflow, digest(f), msgspec.json.encode(f), now) for f in fitted],
            )
            self._db.executemany(
                "INSERT INTO current (measure, workflow, version, facts) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (measure, workflow)"
                " DO UPDATE SET version = excluded.version, facts = excluded.facts",
                list(current),
            )

    def figures(self) -> Iterator[tuple[str, Status, Figures]]:
        """Yield workflow, outcome and figures of every run that is not superseded."""
        with faults(self.path):
            for workflow, outcome, *row in self._db.execute(
                "SELECT workflow, outcome, steps, calls, tokens, cost_usd, seconds FROM runs"
                " WHERE superseded_by IS NULL ORDER BY seq"
            ):
                yield workflow, outcome, Figures._make(row)

    def answered(self, asked: Current) -> set[int]:
        """Return the runs that have current answers of a measure, by row."""
        with faults(self.path):
            return reading.answered(self._db, *asked)

    def workflows(self) -> dict[int, str]:
        """Return the workflow of every run by row."""
        with faults(self.path):
            return dict(self._db.execute("SELECT seq, workflow FROM runs"))

    def changes(self) -> int:
        """Return a number that is another one as soon as another process has written."""
        with faults(self.path):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def scored(self) -> tuple[int, int]:
        """Return how many runs can be scored, and how many have their current outcome."""
        with faults(self.path):
            return reading.scored(self._db)

    def purge(self, where: Where | None = None) -> Purged:
        """Erase traces, reasons, blobs and quarantined bytes; keep numbers, list what remains.

        Raises:
            EnvironmentFault: another process keeps old pages alive; purging again ends the work.
        """
        self._names.forget()
        return purge(self._db, self.path, self.blobs, where)

    def purged(self) -> list[str]:
        """Return the ids of the runs whose texts were erased."""
        with faults(self.path):
            rows = self._db.execute("SELECT id FROM runs WHERE purged_ns IS NOT NULL ORDER BY seq")
            return [row[0] for row in rows]

    def quarantine(self, items: Iterable[Quarantined]) -> int:
        """Keep records that could not be read, their bytes included; return how many were new."""
        with self._writing():
            return aside.put_quarantined(self._db, items, self.redactor)

    def quarantined(self) -> Iterator[Quarantined]:
        """Yield what could not be read, by file and offset."""
        with faults(self.path):
            yield from aside.quarantined(self._db)

    def keep_account(self, uri: str, account: Mapping[str, Json], at_ns: int | None = None) -> None:
        """Keep what the import of one file found; a later import of it replaces the account.

        Files that were imported together have one time, that of its start; now when left out.
        """
        with self._writing():
            aside.put_account(self._db, uri, account, at_ns)

    def accounts(self) -> Iterator[dict[str, Json]]:
        """Yield the accounts of all imported files, by file."""
        with faults(self.path):
            yield from aside.accounts(self._db)

    def accounts_with(self, runs: Collection[str], *, later: bool) -> Iterator[dict[str, Json]]:
        """Yield the accounts of the imports that brought these runs, and of files of no run since.

        With `later`, only those of imports that came after all of the runs, and of their files.
        """
        with faults(self.path):
            yield from aside.accounts_with(self._db, runs, later=later)
