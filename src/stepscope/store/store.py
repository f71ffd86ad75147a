"""The store as one object: a file (or memory) that holds runs, their cases, and records about them.

Every method is one transaction or one query of the modules beside it. Two processes may write at
once; each batch is on disk when the call returns. Beside the runs stand records that could not be
read, the account of each imported file, and the samples drawn for a rubric: every run that could
have been drawn, with its probability. A second draw of a run raises its probability, never lowers
it: draws take the runs of the smallest random numbers, each run's own.
"""

from __future__ import annotations

import hmac
import json
import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import msgspec

from stepscope.errors import UsageError
from stepscope.model import (
    Case,
    Facts,
    Figures,
    Json,
    Label,
    Quarantined,
    Record,
    TraceLabel,
    Trajectory,
    digest,
)
from stepscope.model.records import NOT_MODELS, RULES
from stepscope.runtime import database
from stepscope.runtime.database import Database, Schema
from stepscope.safety.limits import MIB
from stepscope.safety.redact import Redactor, SecretPattern
from stepscope.safety.text import visible_line
from stepscope.store import columns, labels, parquet, records, runs, samples
from stepscope.store.columns import AnswerColumn, Columns, Runs, Signs, StepColumn, Texts
from stepscope.store.purge import PurgeResult, purge_texts
from stepscope.store.records import AnswerLine, Question, RowIds
from stepscope.store.runs import OutcomeFate, PreparedRun, PutCounts, StoredRun, prepare_run
from stepscope.store.where import Where
from stepscope.values import Estimate

if TYPE_CHECKING:
    import pyarrow as pa

    from stepscope.store.damage import Salvaged


_WEIGHTS_AND_NOISE = """
CREATE TABLE weights (
    workflow TEXT NOT NULL,
    task     TEXT NOT NULL,
    hash     TEXT NOT NULL,
    body     BLOB NOT NULL,
    fixed_ns INTEGER NOT NULL,
    PRIMARY KEY (workflow, task)
) WITHOUT ROWID;
CREATE TABLE noise (
    judge       TEXT PRIMARY KEY,
    body        BLOB NOT NULL,
    measured_ns INTEGER NOT NULL
) WITHOUT ROWID;
"""

_KEYS = """
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    body BLOB NOT NULL
) WITHOUT ROWID;
INSERT INTO keys (name, body) VALUES ('redaction', randomblob(32));
"""

_SAMPLES = """
CREATE TABLE samples (
    rubric      TEXT NOT NULL,
    run         INTEGER NOT NULL REFERENCES runs (seq),
    probability REAL NOT NULL CHECK (probability > 0 AND probability <= 1),
    chosen      INTEGER NOT NULL CHECK (chosen IN (0, 1)),
    drawn_ns    INTEGER NOT NULL,
    PRIMARY KEY (rubric, run)
) WITHOUT ROWID;
"""

SCHEMA = Schema(
    application_id=0x53545053,  # "STPS"
    version=5,
    sql=lambda: files("stepscope.store").joinpath("schema.sql").read_text(encoding="utf-8"),
    foreign="an SQLite database of another program, no stepscope store; "
    "name another file with --store",
    newer="a store of version {found}; this stepscope reads up to {version}: upgrade stepscope, "
    "or name another file with --store",
    migrations={2: _WEIGHTS_AND_NOISE, 3: _KEYS, 4: _SAMPLES, 5: labels.LABEL_TABLES},
)


Status = Literal["pass", "fail", "unknown"]
# A message that names more runs than this helps nobody.
_CANDIDATES = 5
# Characters of a name that anybody would type or paste.
_TYPED = 100
# Runs written in one transaction: a flush is shared by many, and a batch fits into memory.
BATCH_RUNS = 256
# Fewer of them where runs are long.
BATCH_BYTES = 32 * MIB
# What reports are made of. Traces are not: each is checked when it is decoded.
_RUN_TABLES = ("runs", "cases", "tags")
_RECORD_TABLES = ("records", "questions", "current", "samples", "weights", "noise")
_LABEL_TABLES = ("labels",)


class Current(NamedTuple):
    """Which answers of a measure are current in a workflow: their version and facts hash."""

    measure: str
    workflow: str
    version: str
    facts: str


class Store(Database):
    """Runs and records on disk; use as a context manager, or `close` it."""

    def __init__(self, path: str, *, read_only: bool = False) -> None:
        """Open the store at `path`; `Store.open` takes any path."""
        self._names = RowIds()
        self._checked: set[str] = set()
        self._aligned: tuple[Runs, columns.RunPlaces] | None = None
        # What is kept, sent or filed passes through the first, what is shown through the second.
        self.redactor: Redactor
        self.shown: Redactor | None
        super().__init__(path, SCHEMA, read_only=read_only)

    def _prepare(self) -> None:
        self.redact()
        columns.offer_answers(self._db, self)
        runs.offer_texts(self._db)

    @classmethod
    def open(cls, path: str | Path, *, read_only: bool = False) -> Self:
        """Open a store, making it where there is none; ":memory:" lives as long as the object.

        `StoreError` where it is no store, or of a newer version; `EnvironmentFault` where it cannot
        be opened or made durable.
        """
        return cls(str(path), read_only=read_only)

    @staticmethod
    def salvage(damaged: str | Path, out: str | Path) -> Salvaged:
        """Write a new store of what is readable of a damaged one, and of its folder of media.

        `UsageError` where there is a file of that name, `StoreError` where nothing can be read, and
        `EnvironmentFault` where the new one cannot be written.
        """
        from stepscope.store.damage import salvage_store

        return salvage_store(str(damaged), str(out), SCHEMA)

    def redact(self, own: Iterable[SecretPattern] = (), *, shown: bool = True) -> None:
        """Hide `own` forms of secrets, too, in what is kept of reasons and shown of runs.

        `shown` False shows runs as they are. Placeholders have the key of the store, so they stay
        the same for its life.
        """
        self.redactor = Redactor(self._key(), own)
        self.shown = self.redactor if shown else None

    def _key(self) -> bytes:
        ((key,),) = self._execute("SELECT body FROM keys WHERE name = 'redaction'")
        return key  # type: ignore[no-any-return]  # a BLOB

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes that only this store knows, others for each purpose, for all its life."""
        return hmac.new(self._key(), purpose.encode(), sha256).digest()

    @property
    def blobs(self) -> Path | None:
        """The folder of images, audio and files; None in memory, where they stay in the run."""
        return None if self.path == database.MEMORY else Path(self.path + ".blobs")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with ExitStack() as unless_written:
            unless_written.callback(self._names.forget)
            with database.transaction(self._db, self.path):
                yield
            unless_written.pop_all()

    def put(self, runs: Iterable[Trajectory]) -> PutCounts:
        """Store runs, in durable batches; known ones take over what came late.

        People's labels become records of family `human`.
        """
        move_media = self.blobs is not None
        return self.put_prepared(prepare_run(run, move_media=move_media) for run in runs)

    def put_prepared(self, runs: Iterable[PreparedRun]) -> PutCounts:
        """Store runs that are already encoded, as an import has them; as durable as `put`."""
        total = PutCounts(0, 0, 0)
        batch, held = list[PreparedRun](), 0
        # Nothing is locked while the caller reads its files.
        for run in runs:
            batch.append(run)
            held += run.held_bytes
            if len(batch) >= BATCH_RUNS or held >= BATCH_BYTES:
                total = self._put_batch(batch, total)
                batch, held = [], 0
        return self._put_batch(batch, total) if batch else total

    def _put_batch(self, batch: list[PreparedRun], total: PutCounts) -> PutCounts:
        with self._writing():
            counts = runs.write_runs(self._db, self._names, batch, self.blobs)
        return PutCounts(*(a + b for a, b in zip(total, counts, strict=True)))

    def damage(self) -> Iterator[str]:
        """Yield what is wrong with the store, one line each; nothing where all of it is read."""
        from stepscope.store.damage import find_damage

        with database.translate_faults(self.path):
            yield from find_damage(self._db)

    def _check(self, tables: tuple[str, ...]) -> None:
        """Check tables before what is read of them is believed, each once."""
        left = [table for table in tables if table not in self._checked]
        if left and (found := next(database.find_faults(self._db, *left), None)) is not None:
            raise database.damage_error(self.path, found)
        self._checked.update(left)

    def trust(self, other: Store) -> None:
        """Take over what another reader of the same file has checked."""
        self._checked |= other._checked

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs that `where` chooses as columns, ordered by name, then id."""
        self._check(_RUN_TABLES)
        with database.translate_faults(self.path):
            return columns.load_runs(self._db, where)

    def column(self, measure: str, runs: Runs | None = None) -> AnswerColumn:
        """Return the current whole-run answers of a measure, aligned with `runs` (default: all)."""
        chosen = self.runs() if runs is None else runs
        if not len(chosen):
            return AnswerColumn.empty(measure, 0)
        with database.translate_faults(self.path):
            fill = partial(columns.fill_cells, self._db, self._places(chosen))
            return columns.read_column(measure, len(chosen), fill)

    def _places(self, chosen: Runs) -> columns.RunPlaces:
        self._check(_RECORD_TABLES)
        # A report asks for some forty columns of the same runs.
        if self._aligned is None or self._aligned[0].key is not chosen.key:
            self._aligned = (chosen, columns.RunPlaces(self._db, chosen))
        return self._aligned[1]

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""
        with database.translate_faults(self.path):
            return columns.step_values(self._db, self._places(runs), measure, runs)

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""
        with database.translate_faults(self.path):
            return columns.cited_steps(self._db, self._places(runs), measure, runs)

    def signs(self, runs: Runs, known: Columns | None = None) -> Signs:
        """Return what rules found wrong in `runs`; `known` are columns read of them already."""
        read = cache(lambda measure: (known or {}).get(measure) or self.column(measure, runs))
        state = columns.see_runs(read, self.measures())
        with database.translate_faults(self.path):
            return columns.read_signs(self._db, self._places(runs), state)

    def weights(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """Return the weights of steps by workflow and task, "*" for every task."""
        rows = self._execute("SELECT workflow, task, body FROM weights")
        return {(workflow, task): records.decode_weights(body) for workflow, task, body in rows}

    def fix_weights(self, of: Mapping[str, Mapping[str, Sequence[float]]]) -> None:
        """Fix weights by workflow and task, "*" for every task, before runs are scored by them.

        `StoreError` where runs were scored under other weights, or before there were any.
        """
        with self._writing():
            for workflow, tasks in of.items():
                for task, of_task in tasks.items():
                    records.fix_weights(self._db, workflow, task, of_task)

    def noise(self) -> dict[str, Estimate]:
        """Return the sigma of each judge whose repeated scorings were looked at."""
        rows = self._execute("SELECT judge, body FROM noise ORDER BY judge")
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
            samples.write_sample(self._db, rubric, population, probability, frozenset(drawn))

    def sampled(self, rubric: str) -> dict[str, float]:
        """Return the inclusion probability of each run that could have been drawn, by id."""
        return dict(self._execute(samples.SAMPLED, (rubric,)))

    def drawn(self, rubric: str) -> dict[str, float]:
        """Return the inclusion probability of each run that was drawn for a rubric, by id."""
        return dict(self._execute(samples.SAMPLED + " AND chosen", (rubric,)))

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""
        found = dict(self._execute("SELECT run, value FROM tags WHERE key = ?", (key,)))
        return columns.text_array([found.get(run) for run in runs.key.tolist()])

    def families(self, measure: str) -> tuple[str, ...]:
        """Return the families of everyone who answered a measure, sorted."""
        rows = self._execute(
            "SELECT DISTINCT family FROM questions WHERE measure = ? ORDER BY family", (measure,)
        )
        return tuple([family for (family,) in rows])

    def raters(self, measure: str) -> int:
        """Return how many different judges, people or files answered a measure."""
        asked = "SELECT DISTINCT family, judge FROM questions WHERE measure = ?"
        return len(self._execute(asked, (measure,)))

    def measures(self) -> tuple[str, ...]:
        """Return the full names of all measures that have records, sorted."""
        rows = self._execute(
            "SELECT DISTINCT measure FROM questions AS q"
            " WHERE EXISTS (SELECT 1 FROM records AS r WHERE r.question = q.id) ORDER BY measure"
        )
        return tuple([measure for (measure,) in rows])

    def trajectories(self, where: Where | None = None) -> Iterator[Trajectory]:
        """Yield runs with their cases, by name; purged ones are left out."""
        with database.translate_faults(self.path):
            for stored in runs.read_runs_by_row(self._db, runs.select_keys(self._db, where)):
                yield stored.trajectory

    def trajectory(self, id: str) -> Trajectory:
        """Return a run without data of media (`with_media`); `StoreError` where it was purged."""
        with database.translate_faults(self.path):
            return runs.read_run_by_id(self._db, id).trajectory

    def with_media(self, trajectory: Trajectory) -> Trajectory:
        """Return a stored run with the data of its media read back from the blob folder."""
        rows = self._execute(
            "SELECT place, sha256 FROM media JOIN runs ON runs.seq = media.run WHERE id = ?",
            (trajectory.id,),
        )
        if not rows or self.blobs is None:
            return trajectory
        steps = runs.move_media_in(trajectory.steps, dict(rows), self.blobs)
        return msgspec.structs.replace(trajectory, steps=steps)

    def blob(self, sha256: str) -> bytes | None:
        """Return the bytes of a medium by their hash; None where no run of the store has it.

        `StoreError` where the file is missing or has been changed.
        """
        known = self._execute("SELECT 1 FROM media WHERE sha256 = ? LIMIT 1", (sha256,))
        return runs.read_blob(self.blobs, sha256) if known and self.blobs is not None else None

    def find(self, text: str) -> str:
        """Return the id of a run by name, id or a unique start; `UsageError` names candidates."""
        if not text:
            advice = "give a name, or a prefix of a name or an id; stepscope list prints the names"
            raise UsageError(f"no run is named: {advice}")
        with database.translate_faults(self.path):
            found = runs.find_named(self._db, text)
            if len(found) == 1:
                return found[0][0]
            near = [] if found else runs.find_near(self._db, text)
        named = ", ".join(self.handle(*one) for one in (found or near)[:_CANDIDATES])
        if found:
            named += " ..." if len(found) > _CANDIDATES else ""
            raise UsageError(f"{text!r} is more than one run: {named}; say more, or give the id")
        hint = f"did you mean {named}?" if near else "stepscope list prints the names"
        raise UsageError(f"no run called {text!r}: {hint}")

    def handle(self, id: str, name: str) -> str:
        """Return what names a run on a command line, quoted where a shell needs it.

        Its name; the first digits of its id where another run has that name, where it would not be
        shown as it is (a secret, a control character, a long text), or where it reads as an option.
        """
        ((same,),) = self._execute(runs.COUNT_NAMED, (name, id))
        shown = visible_line(name if self.shown is None else self.shown.redact(name))
        plain = name.strip() and shown == name and name[0] != "-" and len(name) <= _TYPED
        return shlex.quote(name) if plain and not same else id[: runs.HANDLE_DIGITS]

    def names(self, begins: str) -> list[str]:
        """Return names of runs that begin so and can be typed as they are, at most some dozens."""
        with database.translate_faults(self.path):
            found = runs.list_named(self._db, begins)
        return [name for id_, name in found if self.handle(id_, name) == name]

    def among(self, ids: Collection[str], names: Collection[str], text: str) -> Where:
        """Return the condition, called `text`, that a run has one of these ids or names."""
        lists = json.dumps([*ids]), json.dumps([*names])
        return Where(runs.AMONG, lists, text)

    def explain_no_match(self, where: Where | None) -> str:
        """Return why no run matches a filter, with the values that may have been meant."""
        said = columns.explain_no_match(self, where, runs.list_tools(self._db, where))
        return said if self.shown is None else self.shown.redact(said)

    def latest_version(self, format: str, run_id: str) -> str | None:
        """Return the id of the latest version of a recorder's run; None where none can be read."""
        rows = self._execute(
            "SELECT id FROM runs WHERE run_id = ? AND format = ? AND superseded_by IS NULL"
            " AND purged_ns IS NULL ORDER BY seq DESC LIMIT 1",
            (run_id, format),
        )
        return str(rows[0][0]) if rows else None

    def recorder_ids(self) -> dict[str, str | None]:
        """Return the id of each run by its recorder's own; None where several runs share that."""
        found: dict[str, str | None] = {}
        for run_id, id_ in self._execute(
            "SELECT run_id, id FROM runs WHERE run_id IS NOT NULL AND superseded_by IS NULL"
        ):
            found[run_id] = None if run_id in found else id_
        return found

    def give_outcomes(self, given: Iterable[tuple[str, TraceLabel]]) -> list[OutcomeFate]:
        """Give runs outcomes, by id; return what became of each, in order.

        A check outranks a reward, and a reward a person; the earlier of two equals stays.
        """
        fates = []
        with self._writing():
            for id_, label in given:
                row = self._db.execute("SELECT seq FROM runs WHERE id = ?", (id_,)).fetchone()
                fates.append(runs.give_outcome(self._db, self._names, row[0], label))
        return fates

    def give_cases(self, cases: Iterable[Case]) -> list[tuple[int, int]]:
        """Give cases to the runs of their tasks; return for each how many, and how many changed."""
        with self._writing():
            return [runs.give_case(self._db, self._names, case) for case in cases]

    def rewrite_reasons(self, changed: Iterable[Record]) -> int:
        """Replace the reasons of whole-run verdicts of judges; return how many there were."""
        with self._writing():
            before = self._db.total_changes
            for one in changed:
                asked = (one.version, one.facts, one.judge, one.prompt, one.family, one.rubric)
                question = self._names.question(self._db, Question(one.answer.measure, *asked))
                self._db.execute(
                    "UPDATE records SET reason = ? WHERE question = ? AND repeat = ? AND step = -1"
                    " AND run = (SELECT seq FROM runs WHERE id = ?)",
                    (one.answer.reason, question, one.repeat, one.trajectory),
                )
            return self._db.total_changes - before

    def append(self, batch: Sequence[Record]) -> int:
        """Store records in one durable transaction; return how many were new.

        `StoreError` where a record is about an unknown run, or its value is not finite.
        """
        with self._writing():
            return records.insert_records(self._db, self._names, batch)

    def append_labels(self, given: Iterable[Label], *, whole: bool = False) -> labels.LabelFates:
        """Store labels with the human verdicts that follow, durably; return what became of each.

        The first label of an item stays: the same again is "known", another "contradicts"; one
        under another policy, or drawn where the first was chosen, has "replaced" it. If `whole`,
        all are stored, or none where one contradicts. Secrets are hidden in the reasons.

        `StoreError` where a label is about an unknown run; `UsageError` where an annotator has
        verdicts of the same measure that are no person's, and by `whole`.
        """
        with self._writing():
            return labels.insert_labels(self._db, self._names, given, self.redactor, whole=whole)

    def withdraw_label(self, label: Label) -> bool:
        """Take back a label of an item with its verdict; return whether there was one."""
        with self._writing():
            return labels.withdraw_label(self._db, label)

    def labels(
        self, where: Where | None = None, *, measure: str | None = None, superseded: bool = False
    ) -> Iterator[Label]:
        """Yield the labels that hold, in the order in which they were given, whatever clocks say.

        Labels of norming rounds are among them. Those of a run that has grown into a longer one are
        left out, but for `superseded`.
        """
        self._check(_LABEL_TABLES)
        with database.translate_faults(self.path):
            yield from labels.read_labels(self._db, where, measure, superseded=superseded)

    def put_queue(self, body: bytes, items: Iterable[samples.QueuedItem]) -> int:
        """Keep a queue of items to label, described by JSON; return its number."""
        with self._writing():
            return samples.write_queue(self._db, body, items)

    def queues(self) -> dict[int, bytes]:
        """Return what each queue was drawn as, by number, the first drawn first."""
        return dict(self._execute("SELECT id, body FROM queues ORDER BY id"))

    def queue_items(self, queue: int) -> samples.QueueItems:
        """Return the items of a queue as arrays, in the order of the draw."""
        with database.translate_faults(self.path):
            return samples.read_queue(self._db, queue)

    def hold_item(self, queue: int, place: int, annotator: str) -> samples.HeldItem | None:
        """Give an item to an annotator, durably; None where another one alone holds it.

        A shared item is given to everybody.
        """
        with self._writing():
            return samples.hold_item(self._db, queue, place, annotator)

    def append_lines(self, questions: Sequence[Question], lines: Iterable[AnswerLine]) -> int:
        """Store answers that are already cells, as `score` makes them; as durable as `append`."""
        with self._writing():
            return records.insert_lines(self._db, self._names, questions, lines)

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | Sequence[str] | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield records ordered by measure, run name and step: never by when they were made."""
        if trajectory is None:
            self._check(_RECORD_TABLES)
        with database.translate_faults(self.path):
            for row in records.read_record_rows(self._db, where, trajectory, measure):
                yield records.decode_record(row)

    def to_arrow(self, where: Where | None = None) -> pa.Table:
        """Return the records as an Arrow table, in their order; `ConfigError` without pyarrow."""
        with database.translate_faults(self.path):
            return parquet.records_table(self._db, where)

    def to_parquet(self, folder: str | Path, where: Where | None = None) -> None:
        """Write runs.parquet and records.parquet into a folder; `ConfigError` without pyarrow."""
        with database.translate_faults(self.path):
            parquet.write_parquet(self._db, Path(folder), where)

    def keys(self, where: Where | None = None) -> list[int]:
        """Return the rows of the runs that can be scored, by name: what `stored` reads."""
        with database.translate_faults(self.path):
            return runs.select_keys(self._db, where)

    def stored(self, keys: Sequence[int]) -> Iterator[StoredRun]:
        """Yield runs by row."""
        with database.translate_faults(self.path):
            yield from runs.read_runs_by_row(self._db, keys)

    def facts(self, workflow: str) -> Facts | None:
        """Return the facts last fitted for a workflow."""
        return next(self.all_facts(workflow), None)

    def all_facts(self, workflow: str) -> Iterator[Facts]:
        """Yield the facts that were fitted for a workflow, the last first."""
        query = "SELECT body FROM facts WHERE workflow = ? ORDER BY fitted_ns DESC, hash"
        for (body,) in self._execute(query, (workflow,)):
            yield msgspec.json.decode(body, type=Facts)

    def put_facts(self, fitted: Collection[Facts], current: Collection[Current]) -> None:
        """Keep facts, and say which answers of which measures are current from now on."""
        rows = self._execute("SELECT measure, workflow, version, facts FROM current")
        if {*current} <= {*rows} and all(self.facts(f.workflow) == f for f in fitted):
            return
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
        with database.translate_faults(self.path):
            for workflow, outcome, *row in self._db.execute(
                "SELECT workflow, outcome, steps, calls, tokens, cost_usd, seconds FROM runs"
                " WHERE superseded_by IS NULL ORDER BY seq"
            ):
                yield workflow, outcome, Figures._make(row)

    def answered(self, asked: Current) -> set[int]:
        """Return the runs that have whole-run answers of a measure against their present case."""
        aspect = asked.measure + "."
        questions = self._execute(
            "SELECT id FROM questions WHERE version = ? AND facts = ? AND family = ?"
            " AND (measure = ? OR substr(measure, 1, ?) = ?)",
            (asked.version, asked.facts, RULES, asked.measure, len(aspect), aspect),
        )
        found: set[int] = set()
        for (question,) in questions:
            rows = self._execute(
                "SELECT r.run FROM records AS r JOIN runs ON runs.seq = r.run"
                " WHERE r.question = ? AND r.step = -1 AND r.case_id = runs.case_id"
                " AND runs.workflow = ?",
                (question, asked.workflow),
            )
            found.update(run for (run,) in rows)
        return found

    def judged_under_others(self, measure: str, version: str) -> set[tuple[str, str, int]]:
        """Return run, judge and repeat of what has answers of other versions and none of this.

        Versions of another mode ("1+narration-off") are other questions; judges are named without
        the snapshot that answered.
        """
        found: dict[bool, set[tuple[str, str, int]]] = {True: set(), False: set()}
        for id_, judge, family, repeat, said in self._execute(
            "SELECT DISTINCT runs.id, q.judge, q.family, r.repeat, q.version FROM questions AS q"
            " CROSS JOIN records AS r ON r.question = q.id JOIN runs ON runs.seq = r.run"
            " WHERE q.measure = ? AND r.state >= 0",
            (measure,),
        ):
            if family not in NOT_MODELS and (said.partition("+")[1:] == version.partition("+")[1:]):
                found[said == version].add((id_, judge.partition("@")[0], repeat))
        return found[False] - found[True]

    def workflows(self) -> dict[int, str]:
        """Return the workflow of every run by row."""
        return dict(self._execute("SELECT seq, workflow FROM runs"))

    def changes(self) -> int:
        """Return a number that is another one as soon as another process has written."""
        return int(self._execute("PRAGMA data_version")[0][0])

    def scored(self) -> tuple[int, int]:
        """Return how many runs can be scored, and how many have their current outcome.

        Every measure is asked in the same batch of runs, so that this one tells how far `score` is.
        """
        live = "runs.superseded_by IS NULL AND runs.purged_ns IS NULL"
        ((total,),) = self._execute("SELECT count(*) FROM runs WHERE " + live)
        ((done,),) = self._execute(
            "SELECT count(*) FROM current AS c"
            " JOIN questions AS q ON q.measure = c.measure AND q.version = c.version"
            " AND q.facts = c.facts AND q.family = ?"
            " JOIN records AS r ON r.question = q.id AND r.step = -1 AND r.repeat = 0"
            " JOIN runs ON runs.seq = r.run AND runs.workflow = c.workflow"
            " AND runs.case_id = r.case_id"
            " WHERE c.measure = 'outcome' AND " + live,
            (RULES,),
        )
        return total, done

    def purge(self, where: Where | None = None) -> PurgeResult:
        """Erase traces, reasons, blobs and quarantined bytes; keep numbers, list what remains.

        `EnvironmentFault` where another process keeps old pages alive: purging again ends the work.
        """
        self._names.forget()
        return purge_texts(self._db, self.path, self.blobs, where)

    def purged(self) -> list[str]:
        """Return the ids of the runs whose texts were erased."""
        rows = self._execute("SELECT id FROM runs WHERE purged_ns IS NOT NULL ORDER BY seq")
        return [id_ for (id_,) in rows]

    def quarantine(self, items: Iterable[Quarantined]) -> int:
        """Keep records that could not be read, with their bytes; return how many were new.

        Secrets are hidden in the reasons.
        """
        with self._writing():
            now, before = time.time_ns(), self._db.total_changes
            self._db.executemany(
                "INSERT INTO quarantine (uri, place, reason, raw, imported_ns)"
                " VALUES (?, ?, ?, ?, ?) ON CONFLICT (uri, place, reason) DO NOTHING",
                ((q.uri, q.offset, self.redactor.redact(q.reason), q.raw, now) for q in items),
            )
            return self._db.total_changes - before

    def quarantined(self) -> Iterator[Quarantined]:
        """Yield what could not be read, by file and offset."""
        with database.translate_faults(self.path):
            for uri, offset, reason, raw in self._db.execute(
                "SELECT uri, place, reason, raw FROM quarantine ORDER BY uri, place, reason"
            ):
                yield Quarantined(reason=reason, offset=offset, raw=raw, uri=uri)

    def keep_account(self, uri: str, account: Mapping[str, Json]) -> None:
        """Keep what the import of one file found now."""
        self.keep_accounts([(uri, account)], time.time_ns())

    def keep_accounts(self, found: Iterable[tuple[str, Mapping[str, Json]]], at_ns: int) -> None:
        """Keep what the import of files found, in one durable transaction, under its one time.

        A later import of a file replaces the account.
        """
        with self._writing():
            self._db.executemany(
                "INSERT INTO accounts (uri, body, imported_ns) VALUES (?, ?, ?)"
                " ON CONFLICT (uri) DO UPDATE SET body = excluded.body,"
                " imported_ns = excluded.imported_ns",
                [(uri, msgspec.json.encode(account), at_ns) for uri, account in found],
            )

    def accounts(self) -> Iterator[dict[str, Json]]:
        """Yield the accounts of all imported files, by file."""
        with database.translate_faults(self.path):
            for (body,) in self._db.execute("SELECT body FROM accounts ORDER BY uri"):
                yield msgspec.json.decode(body)

    def accounts_with(self, runs: Collection[str], *, later: bool) -> Iterator[dict[str, Json]]:
        """Yield the accounts of the imports that brought these runs, and of files of no run since.

        With `later`, only those of imports that came after all of the runs, and of their files.
        """
        held: dict[str | None, list[bool]] = {}
        times = []
        with database.translate_faults(self.path):
            for id_, uri, at, imported in self._db.execute(
                "SELECT runs.id, runs.uri, runs.imported_ns, accounts.imported_ns"
                " FROM runs LEFT JOIN accounts ON accounts.uri = runs.uri"
            ):
                held.setdefault(uri, []).append(id_ in runs)
                if id_ in runs:
                    times.append((at, at if imported is None else imported))
            if not times:
                return
            since = 1 + max(at for at, _ in times) if later else min(min(pair) for pair in times)
            imports = set() if later else {imported for _, imported in times}
            rows = self._db.execute("SELECT uri, body, imported_ns FROM accounts")
            for uri, body, imported in rows:
                if imported in imports or (imported >= since and any(held.get(uri, [True]))):
                    yield msgspec.json.decode(body)


SentPart = Literal["spans", "verdicts"]

# Without an id: so were those files that are there.
_SENT_SCHEMA = Schema(application_id=0, version=0, sql=str, foreign="no list of what was sent")


class SentLog(Database):
    """What of a store was sent to one target: sending again sends what is new or has changed."""

    def __init__(self, store: str, target: str) -> None:
        """Open the file beside the store at this path."""
        self._target = target
        path = database.MEMORY if store == database.MEMORY else f"{store}.sent.db"
        super().__init__(path, _SENT_SCHEMA)

    def _prepare(self) -> None:
        self._execute(
            "CREATE TABLE IF NOT EXISTS sent (target TEXT NOT NULL, run TEXT NOT NULL,"
            " part TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (target, run, part))"
            " WITHOUT ROWID"
        )

    def holds(self, run: str, part: SentPart, digest: str) -> bool:
        """Whether this very content was taken there."""
        kept = "SELECT digest FROM sent WHERE target = ? AND run = ? AND part = ?"
        return self._execute(kept, (self._target, run, part)) == [(digest,)]

    def keep(self, run: str, part: SentPart, digest: str) -> None:
        """Note that this content was taken there."""
        self._execute(
            "INSERT INTO sent (target, run, part, digest) VALUES (?, ?, ?, ?)"
            " ON CONFLICT (target, run, part) DO UPDATE SET digest = excluded.digest",
            (self._target, run, part, digest),
        )
