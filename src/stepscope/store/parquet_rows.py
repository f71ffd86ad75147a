"""Rows read from a Parquet folder that `Store.to_parquet` wrote: what a report takes for a store.

Memory is bounded by one row group and the columns asked for. Filters mean exactly what they mean in
a store: the light columns are put into SQLite in memory, and SQLite answers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.errors import StoreError
from stepscope.model import Record
from stepscope.store import reading
from stepscope.store.columns import Column, Runs, StepColumn, Texts
from stepscope.store.parquet import RECORDS, RUN_FIELDS, RUNS, arrow_schemas
from stepscope.store.records import WHOLE, Row, record
from stepscope.store.where import Where
from stepscope.values import Estimate

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_COLUMNS = ["run", "current", "state", "value", "label", "version"]
_DECODED_ROWS = 10_000
_PLAIN = frozenset(Row._fields) - {"step", "cites", "question", "case_id"}


class ParquetRows:
    """The runs and records of an export; satisfies `stepscope.store.Rows`."""

    def __init__(self, folder: str | Path) -> None:
        """Open both files of a folder.

        Raises:
            ConfigError: pyarrow is not installed.
            StoreError: the folder holds no export.
        """
        _, self._schema = arrow_schemas()
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._folder = Path(folder)
        try:
            self._runs = pq.read_table(self._folder / RUNS, memory_map=True)
            self._records = pq.ParquetFile(self._folder / RECORDS, memory_map=True)
        except (OSError, pa.ArrowInvalid) as e:
            raise StoreError(
                f"{folder}: no export of records ({e}); make one with "
                "stepscope export FOLDER --verdicts --to parquet"
            ) from e
        if self._records.schema_arrow.names != self._schema.names:
            raise StoreError(f"{folder}: {RECORDS} has other columns than this stepscope writes")
        self._groups = _groups(self._records, self._folder)

    def runs(self, where: Where | None = None) -> Runs:
        """Return the runs that `where` chooses; `key` is the row in runs.parquet."""
        keys = np.arange(self._runs.num_rows, dtype=np.int64)
        table = self._runs
        if where is not None:
            keys = self._chosen(where)
            table = table.take(keys)
        return Runs(
            key=keys,
            id=_texts(table, "id"),
            name=_texts(table, "name"),
            workflow=_texts(table, "workflow"),
            task=_texts(table, "task"),
            trial=_texts(table, "trial"),
            agent=_texts(table, "agent"),
            agent_version=_texts(table, "agent_version"),
            outcome=_texts(table, "outcome"),
            steps=table.column("steps").to_numpy(),
            calls=table.column("calls").to_numpy(),
        )

    def column(self, measure: str, runs: Runs | None = None) -> Column:
        """Return the current whole-run answers of a measure, aligned with `runs` (default: all)."""
        chosen = self.runs() if runs is None else runs
        return reading.column(measure, len(chosen), partial(self._fill, self._places(chosen)))

    def step_values(self, measure: str, runs: Runs) -> StepColumn:
        """Return the numbers that a measure gave to single steps of `runs`, whoever gave them."""
        places = self._places(runs)
        found: list[tuple[tuple[str, str], int, int, int, float]] = []
        for row in self._rows_of(measure):
            at = int(places[row["run"]])
            if at >= 0 and row["step"] is not None:
                value = np.nan if row["value"] is None else row["value"]
                found.append(((row["family"], row["judge"]), at, row["step"], row["repeat"], value))
        scorers = sorted({row[0] for row in found})
        number = {name: i for i, name in enumerate(scorers)}
        rows = [(number[name], *rest) for name, *rest in found]
        table = np.array(sorted(rows), dtype=np.float64).reshape(-1, 5)
        scorer, at_, step, repeat = table[:, :4].T.astype(np.int64)
        return StepColumn(
            scorers=tuple(scorers),
            scorer=scorer,
            at=at_,
            step=step,
            repeat=repeat,
            value=table[:, 4],
        )

    def cited(self, measure: str, runs: Runs) -> list[tuple[int, ...] | None]:
        """Return the steps that whole-run answers cite, aligned with `runs`; None without one."""
        found: list[tuple[int, ...] | None] = [None] * len(runs)
        places = self._places(runs)
        for row in self._rows_of(measure):
            at = int(places[row["run"]])
            if at >= 0 and row["step"] is None and row["current"] and row["state"] > 0:
                found[at] = tuple(row["cites"] or ())
        return found

    def weights(self) -> dict[tuple[str, str], tuple[float, ...]]:
        """Return no weights: an export has none."""
        return {}

    def noise(self) -> dict[str, Estimate]:
        """Return no sigma: an export has none."""
        return {}

    def _places(self, runs: Runs) -> npt.NDArray[np.int64]:
        places = np.full(self._runs.num_rows, -1, dtype=np.int64)
        places[runs.key] = np.arange(len(runs))
        return places

    def _rows_of(self, measure: str) -> Iterator[dict[str, Any]]:
        groups = self._groups.get(measure, ())
        if groups:
            for batch in self._records.iter_batches(_DECODED_ROWS, groups):
                yield from batch.to_pylist()

    def tag(self, key: str, runs: Runs) -> Texts:
        """Return the value of one tag of each of the runs, None where a run has no such tag."""
        tags = self._runs.column("tags").take(runs.key).to_pylist()
        read = msgspec.json.Decoder(dict[str, str]).decode
        return reading.texts([read(text).get(key) if text else None for text in tags])

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
        for batch in self._records.iter_batches(_DECODED_ROWS, groups):
            for row in batch.to_pylist():
                if trajectory is None:
                    if kept is not None and row["run"] not in kept:
                        continue
                elif row["trajectory"] != trajectory:
                    continue
                yield record(_row(row))

    def _fill(self, places: npt.NDArray[np.int64], measure: str, cells: reading.Cells) -> set[str]:
        versions: set[str] = set()
        for group in self._groups.get(measure, ()):
            table = self._records.read_row_group(group, columns=_COLUMNS)
            at = places[table.column("run").to_numpy()]
            kept = table.column("current").to_numpy() & (at >= 0)
            if not kept.any():
                continue
            found = reading.Found(
                at,
                table.column("state").to_numpy(),
                table.column("value").to_numpy(),
                _words(table, "label"),
                nothing := np.zeros(len(at), dtype=np.int64),
                nothing,
            )
            found.into(cells, kept)
            versions |= set(_words(table, "version")[kept])
        return versions

    def _chosen(self, where: Where) -> npt.NDArray[np.int64]:
        db = sqlite3.connect(":memory:")
        try:
            db.execute("CREATE TABLE runs (seq INTEGER PRIMARY KEY, " + ", ".join(RUN_FIELDS) + ")")
            db.execute("CREATE TABLE tags (run INTEGER, key, value, PRIMARY KEY (run, key))")
            columns = [self._runs.column(name).to_pylist() for name in RUN_FIELDS]
            marks = ", ".join("?" * (len(RUN_FIELDS) + 1))
            db.executemany(
                "INSERT INTO runs VALUES (" + marks + ")",
                zip(range(self._runs.num_rows), *columns, strict=True),
            )
            for at, text in enumerate(self._runs.column("tags").to_pylist()):
                tags = msgspec.json.decode(text or "{}", type=dict[str, str])
                db.executemany(
                    "INSERT INTO tags VALUES (?, ?, ?)", [(at, k, v) for k, v in tags.items()]
                )
            found = db.execute(
                "SELECT seq FROM runs WHERE " + where.sql + " ORDER BY seq", where.parameters
            ).fetchall()
        finally:
            db.close()
        return np.array([row[0] for row in found], dtype=np.int64)


def _groups(file: pq.ParquetFile, folder: Path) -> dict[str, list[int]]:
    """Return the row groups of each measure, told from their statistics alone."""
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


def _texts(table: pa.Table, name: str) -> Texts:
    return table.column(name).to_numpy().astype(np.object_, copy=False)


def _words(table: pa.Table, name: str) -> Texts:
    """Return a dictionary column as objects; equal words share one object."""
    import pyarrow as pa

    parts = []
    for chunk in table.column(name).chunks:
        assert isinstance(chunk, pa.DictionaryArray)
        words = np.array([*chunk.dictionary.to_pylist(), None], dtype=np.object_)
        parts.append(words[chunk.indices.fill_null(len(words) - 1).to_numpy()])
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.object_)


def _row(cells: dict[str, Any]) -> Row:
    return Row(
        **{name: cells[name] for name in Row._fields if name in _PLAIN},
        step=WHOLE if cells["step"] is None else cells["step"],
        cites=str(cells["cites"]) if cells["cites"] else "",
        question=0,
        case_id=0,
    )
