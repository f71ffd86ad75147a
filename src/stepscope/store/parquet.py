"""The same rows as Parquet: runs.parquet, records.parquet and labels.parquet, written and read.

Records are sorted by measure, and no row group holds two measures: a report over ten million rows
reads the groups of one measure at a time and keeps only the columns it needs. `run` in records is
the row of runs.parquet. Traces are not part of it. Filters mean exactly what they mean in a store:
the light columns are put into SQLite in memory, and SQLite answers. Needs pyarrow, an optional
extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from itertools import groupby, islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import structs

from stepscope.errors import ConfigError, EnvironmentFault, StoreError, UsageError
from stepscope.model import Label, Record
from stepscope.model.records import RULES, STEP_LABELS_NAME
from stepscope.model.signatures import is_of_steps, is_signed
from stepscope.runtime.database import Connection, open_memory
from stepscope.safety.limits import open_output
from stepscope.store import columns, records
from stepscope.store import columns as stored
from stepscope.store.labels import read_labels
from stepscope.store.records import WHOLE, RecordRow, decode_record
from stepscope.store.where import Where
from stepscope.values import UNMEASURED_KINDS, Estimate

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq


# Rows of one group: some tens of megabytes while it is written or read.
GROUP_ROWS = 1_000_000
_FETCH_ROWS = 50_000
RUNS, RECORDS, LABELS = "runs.parquet", "records.parquet", "labels.parquet"
RUN_FIELDS = (
    "id name workflow task trial agent agent_version outcome steps calls tokens cost_usd seconds "
    "format start_ns imported_ns"
).split()
_TAGS = (
    "(SELECT json_group_object(key, value) FROM (SELECT key, value FROM tags"
    " WHERE tags.run = runs.seq ORDER BY key))"
)


def arrow_schemas() -> tuple[pa.Schema, pa.Schema]:
    """Return the schemas of runs and records."""
    try:
        import pyarrow as pa
    except ImportError as e:
        raise ConfigError("Parquet needs pyarrow: pip install 'stepscope[parquet]'") from e
    word = pa.dictionary(pa.int32(), pa.string())
    runs: dict[str, pa.DataType] = {
        **dict.fromkeys(RUN_FIELDS, pa.string()),
        **dict.fromkeys(("steps", "calls", "tokens", "start_ns", "imported_ns"), pa.int64()),
        **dict.fromkeys(("cost_usd", "seconds"), pa.float64()),
        "tags": pa.string(),  # a JSON object
    }
    records: dict[str, pa.DataType] = {
        "run": pa.int32(),
        "current": pa.bool_(),  # a report reads this row
        "trajectory": pa.string(),
        "measure": word,
        "step": pa.int32(),  # null: the whole run
        "state": pa.int8(),  # 1 answered, negative: unmeasured, see columns.kind_of
        "value": pa.float64(),
        "label": word,
        "unmeasured": word,  # the kind
        "cites": pa.list_(pa.int32()),
        "reason": pa.string(),
        "confidence": pa.float64(),
        **dict.fromkeys(("version", "family", "case", "facts", "judge", "rubric", "prompt"), word),
        "repeat": pa.int32(),
        "usage": pa.string(),  # a JSON object
        "cost_usd": pa.float64(),
        "seconds": pa.float64(),
    }
    return pa.schema(list(runs.items())), pa.schema(list(records.items()))


def label_schema() -> pa.Schema:
    """Return the schema of labels: the fields of `model.Label`."""
    import pyarrow as pa

    kinds: dict[str, pa.DataType] = {
        **dict.fromkeys(Label.__struct_fields__, pa.string()),
        **dict.fromkeys(("value", "probability", "seconds", "confidence"), pa.float64()),
        **dict.fromkeys(("step", "round", "position", "given_at", "repeat"), pa.int64()),
        **dict.fromkeys(("decided", "blind"), pa.bool_()),
        "expanded": pa.list_(pa.string()),
        "cites": pa.list_(pa.int64()),
    }
    return pa.schema(list(kinds.items()))


def records_table(db: Connection, where: Where | None) -> pa.Table:
    """Return the records as one table."""
    _, schema = arrow_schemas()
    import pyarrow as pa

    batches = [batch for _, batch in _batches(db, where, schema)]
    return pa.Table.from_batches(batches, schema).unify_dictionaries()


def write_parquet(db: Connection, folder: Path, where: Where | None) -> None:
    """Write the three files; each is whole when it has its name, mode 0600."""
    run_schema, record_schema = arrow_schemas()
    import pyarrow as pa
    import pyarrow.parquet as pq

    chosen = Where("1") if where is None else where
    # One snapshot for all files.
    db.execute("BEGIN")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        runs = db.execute(
            "SELECT " + ", ".join(RUN_FIELDS) + ", " + _TAGS + " FROM runs"
            " WHERE superseded_by IS NULL AND (" + chosen.sql + ") ORDER BY name, id",
            chosen.parameters,
        ).fetchall()
        columns = list(zip(*runs, strict=True)) or [()] * len(run_schema)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, run_schema, strict=True)]
        with open_output(folder / RUNS, private=True) as file:
            pq.write_table(pa.Table.from_arrays(arrays, schema=run_schema), file)
        with (
            open_output(folder / RECORDS, private=True) as file,
            pq.ParquetWriter(file, record_schema) as writer,
        ):
            for _, group in groupby(_batches(db, where, record_schema), key=lambda item: item[0]):
                while rows := list(islice(group, GROUP_ROWS // _FETCH_ROWS)):
                    table = pa.Table.from_batches([batch for _, batch in rows], record_schema)
                    writer.write_table(table, row_group_size=GROUP_ROWS)
        given = map(structs.asdict, read_labels(db, where, None, superseded=False))
        with open_output(folder / LABELS, private=True) as file:
            pq.write_table(pa.Table.from_pylist([*given], label_schema()), file)
    except OSError as e:
        raise EnvironmentFault(f"{folder}: Parquet cannot be written here ({e})") from e
    finally:
        db.execute("ROLLBACK")


def _batches(
    db: Connection, where: Where | None, schema: pa.Schema
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records as batches of one measure each, with its name."""
    import pyarrow as pa

    runs = columns.load_runs(db, where)
    aligned = columns.RunPlaces(db, runs)
    places = {int(key): at for at, key in enumerate(runs.key)}
    for measure, group in groupby(
        records.read_record_rows(db, where, None, None), key=attrgetter("measure")
    ):
        # The very rows that `Store.column` would read.
        made_by = np.zeros((len(runs), 2), dtype=np.int64)
        cells = stored.AnswerColumn.empty(measure, len(runs))
        columns.fill_cells(db, aligned, measure, cells, made_by=made_by)
        current = [(question, case) for question, case in made_by.tolist()]
        while rows := list(islice(group, _FETCH_ROWS)):
            lines = [_cells(row, places[row.run], current[places[row.run]]) for row in rows]
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*lines, strict=True), schema, strict=True)
            ]
            yield measure, pa.RecordBatch.from_arrays(arrays, schema=schema)


# What stands in both as it is, from `reason` on.
_last_cells = attrgetter(
    *"reason confidence version family case facts judge rubric prompt".split(),
    *("repeat", "usage", "cost_usd", "seconds"),
)


def _cells(row: RecordRow, place: int, current: tuple[int, int]) -> tuple[object, ...]:
    return (
        place,
        row.step == WHOLE and not row.repeat and (row.question, row.case_id) == current,
        row.trajectory,
        row.measure,
        None if row.step == WHOLE else row.step,
        min(row.state, stored.ANSWERED),
        row.value,
        row.label,
        UNMEASURED_KINDS[-1 - row.state] if row.state < 0 else None,
        msgspec.json.decode(row.cites) if row.cites else (),
        *_last_cells(row),
    )


_COLUMNS = ["run", "current", "state", "value", "label", "version"]
_SIGNED = ["family", "facts", "case", "step", "cites", "reason", *_COLUMNS]
_DECODED_ROWS = 10_000
_PLAIN = frozenset(RecordRow._fields) - {"step", "cites", "question", "case_id"}


class ParquetRows:
    """The runs and records of an export; satisfies `stepscope.store.Rows`."""

    def __init__(self, folder: str | Path) -> None:
        """Open both files of a folder; `StoreError` without them, `ConfigError` without pyarrow."""
        _, self._schema = arrow_schemas()
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._folder = Path(folder)
        self._damage = (OSError, ValueError, pa.ArrowException)
        with self._reading():
            self._runs = pq.read_table(self._folder / RUNS, memory_map=True)
            self._records = pq.ParquetFile(self._folder / RECORDS, memory_map=True)
        if self._records.schema_arrow.names != self._schema.names:
            raise StoreError(f"{folder}: {RECORDS} has other columns than this stepscope writes")
        self._groups = _groups(self._records, self._folder)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Read from the files; what is damaged is told of a page when it is read."""
        try:
            yield
        except self._damage as e:
            raise StoreError(
                f"{self._folder}: no export of records, or a damaged one ({e}); make one with "
                "stepscope export FOLDER --verdicts only --format parquet"
            ) from e

    def _batches(self, groups: list[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of some groups."""
        with self._reading():
            for batch in self._records.iter_batches(_DECODED_ROWS, groups):
                yield from batch.to_pylist()

    def runs(self, where: Where | None = None) -> stored.Runs:
        """Return the runs that `where` chooses; `key` is the row in runs.parquet."""
        keys = np.arange(self._runs.num_rows, dtype=np.int64)
        table = self._runs
        if where is not None:
            keys = self._chosen(where)
            table = table.take(keys)
        return stored.Runs(
            key=keys,
            **{name: _texts(table, name) for name in columns.TEXT_FIELDS},
            steps=table.column("steps").to_numpy(),
            calls=table.column("calls").to_numpy(),
            start_ns=columns.text_array(table.column("start_ns").to_pylist()),
        )

    def column(self, measure: str, runs: stored.Runs | None = None) -> stored.AnswerColumn:
        """Return the current whole-run answers of a measure, aligned with `runs` (default: all)."""
        chosen = self.runs() if runs is None else runs
        return columns.read_column(measure, len(chosen), partial(self._fill, self._places(chosen)))

    def step_values(self, measure: str, runs: stored.Runs) -> stored.StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""
        places = self._places(runs)
        rows_of: dict[tuple[str, str], dict[tuple[str, ...], list[Any]]] = {}
        for row in self._rows_of(measure):
            asked = (row["version"], row["facts"], row["prompt"])
            if row["step"] is not None and places[row["run"]] >= 0:
                of_judge = rows_of.setdefault((row["family"], row["judge"]), {})
                of_judge.setdefault(asked, []).append(row)
        found: list[tuple[tuple[str, str], int, int, int, float]] = []
        for name, questions in rows_of.items():
            ranks = {}
            for question, of in questions.items():
                judged = {x["run"] for x in of if x["value"] is not None}
                ranks[columns.rank_question(question[0], len(judged)), question] = of
            for row in ranks[max(ranks)]:
                value = np.nan if row["value"] is None else row["value"]
                found.append((name, int(places[row["run"]]), row["step"], row["repeat"], value))
        scorers = sorted({row[0] for row in found})
        number = {name: i for i, name in enumerate(scorers)}
        rows = [(number[name], *rest) for name, *rest in found]
        table = np.array(sorted(rows), dtype=np.float64).reshape(-1, 5)
        return stored.StepColumn.of_table(scorers, table)

    def cited(self, measure: str, runs: stored.Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""
        found: list[tuple[int, ...] | None] = [None] * len(runs)
        places = self._places(runs)
        for row in self._rows_of(measure):
            at = int(places[row["run"]])
            if at >= 0 and row["step"] is None and row["current"] and row["state"] > 0:
                found[at] = tuple(row["cites"] or ())
        return found

    def signs(self, runs: stored.Runs, known: stored.Columns | None = None) -> stored.Signs:
        """Return what rules found wrong in `runs`; `known` are columns read of them already."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found: list[tuple[str, stored.SignColumns]] = []
        read = cache(lambda measure: (known or {}).get(measure) or self.column(measure, runs))
        state = columns.see_runs(read, self._groups)
        places = self._places(runs)
        for measure in filter(is_signed, self._groups):
            held = self._rows_of_rules(measure)
            run, current = (held.column(name).to_numpy() for name in ("run", "current"))
            counted = held.column("state").to_numpy() > 0
            says = pc.binary_length(held.column("reason")).fill_null(0).to_numpy() > 0
            if measure == STEP_LABELS_NAME:
                # The counts of labels have a reason, until the texts of their run are erased.
                of = places[run[current & counted & ~says]]
                state[of[of >= 0]] = columns.cell_state("missing_input")
            kept = current & counted & says
            if is_of_steps(measure):
                # A row about the whole run is marked as current; one of a step is as its question.
                asked = run.astype(np.int64)
                for name in ("version", "facts", "case"):
                    codes = _codes(held, name)
                    asked = asked * (int(codes.max(initial=0)) + 1) + codes
                kept = np.isin(asked, asked[current]) & counted & says
            kept &= held.column("step").is_valid().to_numpy() == is_of_steps(measure)
            if measure.startswith("axes."):
                kept &= _words(held, "label") == "incorrect"
            rows = held.filter(pa.array(kept))
            run, step = rows.column("run").to_numpy().astype(np.int64), np.full(len(rows), WHOLE)
            if is_of_steps(measure):
                step = rows.column("step").to_numpy().astype(np.int64)
            words = rows.column("label" if measure == "policy" else "reason").to_pylist()
            # Of errors alone it counts which call they cite.
            cited = rows.column("cites").to_pylist() if measure == "errors" else ()
            cites = [str(one) if one else "" for one in cited]
            found.append((measure, (run, step, list(map(str, words)), cites)))
        return stored.sign_answers(found, places.__getitem__, state)

    def weights(self) -> dict[tuple[str, str], tuple[float, ...]]:
        """Return no weights: an export has none."""
        return {}

    def noise(self) -> dict[str, Estimate]:
        """Return no sigma: an export has none."""
        return {}

    def _places(self, runs: stored.Runs) -> npt.NDArray[np.int64]:
        places = np.full(self._runs.num_rows, -1, dtype=np.int64)
        places[runs.key] = np.arange(len(runs))
        return places

    def _rows_of_rules(self, measure: str) -> pa.Table:
        """Return the answers of rules to one measure, with what `signs` reads of them."""
        import pyarrow as pa

        with self._reading():
            parts = [
                part.filter(pa.array(_words(part, "family") == RULES))
                for group in self._groups[measure]
                for part in (self._records.read_row_group(group, _SIGNED),)
            ]
        return pa.concat_tables(parts).unify_dictionaries()

    def _rows_of(self, measure: str) -> Iterator[dict[str, Any]]:
        groups = self._groups.get(measure, ())
        if groups:
            yield from self._batches(groups)

    def tag(self, key: str, runs: stored.Runs) -> stored.Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""
        tags = self._runs.column("tags").take(runs.key).to_pylist()
        read = msgspec.json.Decoder(dict[str, str]).decode
        return columns.text_array([read(text).get(key) if text else None for text in tags])

    def measures(self) -> tuple[str, ...]:
        """Return the full names of all measures that have records, sorted."""
        return tuple(sorted(self._groups))

    def records(
        self,
        where: Where | None = None,
        *,
        trajectory: str | None = None,
        measure: str | None = None,
    ) -> Iterator[Record]:
        """Yield records ordered by measure, run and step."""
        kept = None if where is None else set(self._chosen(where).tolist())
        names = self.measures() if measure is None else (measure,)
        groups = [group for name in names for group in self._groups.get(name, ())]
        if not groups:
            return
        for row in self._batches(groups):
            if trajectory is None:
                if kept is not None and row["run"] not in kept:
                    continue
            elif row["trajectory"] != trajectory:
                continue
            yield decode_record(_row(row))

    def labels(self, where: Where | None = None, *, measure: str | None = None) -> Iterator[Label]:
        """Yield the labels in the order in which they were given; none of an older export."""
        import pyarrow.parquet as pq

        if not (self._folder / LABELS).exists():
            return
        ids = None if where is None else set(self.runs(where).id.tolist())
        with self._reading():
            rows = pq.read_table(self._folder / LABELS).to_pylist()
        try:
            labels = [msgspec.convert(row, Label) for row in rows]
        except msgspec.ValidationError as e:
            raise StoreError(f"{self._folder}: {LABELS} holds no labels ({e})") from e
        for label in labels:
            if measure in (None, label.measure) and (ids is None or label.trajectory in ids):
                yield label

    def _fill(
        self, places: npt.NDArray[np.int64], measure: str, cells: stored.AnswerColumn
    ) -> set[str]:
        versions: set[str] = set()
        for group in self._groups.get(measure, ()):
            with self._reading():
                table = self._records.read_row_group(group, columns=_COLUMNS)
            at = places[table.column("run").to_numpy()]
            kept = table.column("current").to_numpy() & (at >= 0)
            if not kept.any():
                continue
            state, value = (table.column(name).to_numpy()[kept] for name in ("state", "value"))
            cells.put(at[kept], state, value, _words(table, "label")[kept])
            versions |= set(_words(table, "version")[kept])
        return versions

    def _chosen(self, where: Where) -> npt.NDArray[np.int64]:
        if where.reads_traces:
            raise UsageError(
                f"where: {where.text!r} looks into calls and texts, and {self._folder} holds "
                "verdicts only; name a store"
            )
        db = open_memory()
        try:
            db.execute("CREATE TABLE runs (seq INTEGER PRIMARY KEY, " + ", ".join(RUN_FIELDS) + ")")
            db.execute("CREATE TABLE tags (run INTEGER, key, value, PRIMARY KEY (run, key))")
            columns = [self._runs.column(name).to_pylist() for name in RUN_FIELDS]
            db.executemany(
                "INSERT INTO runs VALUES (" + ", ".join("?" * (len(RUN_FIELDS) + 1)) + ")",
                zip(range(self._runs.num_rows), *columns, strict=True),
            )
            for at, text in enumerate(self._runs.column("tags").to_pylist()):
                tags = msgspec.json.decode(text or "{}", type=dict[str, str])
                cells = [(at, key, value) for key, value in tags.items()]
                db.executemany("INSERT INTO tags VALUES (?, ?, ?)", cells)
            stored.offer_answers(db, self)
            found = db.execute(
                "SELECT seq FROM runs WHERE " + where.sql + " ORDER BY seq", where.parameters
            ).fetchall()
        finally:
            db.close()
        return np.array([row[0] for row in found], dtype=np.int64)


def _groups(file: pq.ParquetFile, folder: Path) -> dict[str, list[int]]:
    # Leaf columns are counted; `measure` stands before the one nested field.
    at = file.schema_arrow.get_field_index("measure")
    groups: dict[str, list[int]] = {}
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(at).statistics
        name = None if statistics is None else statistics.min
        if name is None or statistics is None or name != statistics.max:
            raise StoreError(f"{folder}: {RECORDS} mixes measures in a row group; export it again")
        groups.setdefault(name, []).append(group)
    return groups


def _texts(table: pa.Table, name: str) -> stored.Texts:
    return table.column(name).to_numpy().astype(np.object_, copy=False)


def _words(table: pa.Table, name: str) -> stored.Texts:
    """Return a dictionary column as objects; equal words share one object."""
    import pyarrow as pa

    parts = []
    for chunk in table.column(name).chunks:
        assert isinstance(chunk, pa.DictionaryArray)
        words = np.array([*chunk.dictionary.to_pylist(), None], dtype=np.object_)
        parts.append(words[chunk.indices.fill_null(len(words) - 1).to_numpy()])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.object_)


def _codes(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    """Return a dictionary column as numbers from 0, a last one where there is nothing."""
    import pyarrow as pa

    chunks = [one for one in table.column(name).chunks if isinstance(one, pa.DictionaryArray)]
    most = max((len(chunk.dictionary) for chunk in chunks), default=0)
    parts = [chunk.indices.fill_null(most).to_numpy() for chunk in chunks]
    return np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)


def _row(cells: dict[str, Any]) -> RecordRow:
    return RecordRow(
        **{name: cells[name] for name in RecordRow._fields if name in _PLAIN},
        step=WHOLE if cells["step"] is None else cells["step"],
        cites=str(cells["cites"]) if cells["cites"] else "",
        question=0,
        case_id=0,
    )
