"""Other people's verdicts into the store: records of family `imported`, or `human`.

They become a rater like any other, for agreement and calibration. What cannot be placed is kept
aside and counted; a file imported twice changes nothing, and one that contradicts what the same
rater said before is set aside row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from stepscope.api.verdict_cells import (
    USUAL,
    Columns,
    Refused,
    Steps,
    aspect,
    index,
    verdict,
)
from stepscope.errors import TraceError, UsageError
from stepscope.formats.verdict_rows import Row, rows
from stepscope.model import Json, Quarantined, Record, Stream, Verdict
from stepscope.safety.text import visible_line
from stepscope.store import Store

VERSION = "1"
Family = Literal["imported", "human"]
# Records held before they are stored.
_BATCH = 5_000

Key = tuple[str, int | None, str, int]
Said = tuple[str | None, float | None]


class AddedVerdicts(msgspec.Struct, frozen=True, kw_only=True):
    """What an import of verdicts found.

    Attributes:
        uri: the file.
        rows: rows in it.
        new: verdicts that the store did not have.
        known: verdicts that it had.
        empty: rows without a label or score: nobody rated.
        quarantined: rows set aside, by why.
        rubrics: verdicts of each rubric.
        raters: who rated.
        unknown: rubrics that nothing here knows: their labels were taken as they are.
    """

    uri: str
    rows: int
    new: int
    known: int
    empty: int
    quarantined: dict[str, int]
    rubrics: dict[str, int]
    raters: tuple[str, ...]
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it in a line or two."""
        aside = sum(self.quarantined.values())
        why = ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.quarantined.items()))
        parts = [
            f"{self.uri}: {self.rows:,} rows",
            f"{self.new:,} new verdicts, {self.known:,} known",
            *([f"{self.empty:,} without a verdict"] if self.empty else []),
            f"{aside:,} quarantined" + (f" ({why})" if why else ""),
        ]
        told = ", ".join(f"{visible_line(name)} {n:,}" for name, n in self.rubrics.items())
        lines = ["; ".join(parts)]
        if told:
            lines.append(f"{told}; raters: {visible_line(', '.join(self.raters))}")
        lines += [
            f"{visible_line(name)} is no rubric known here: labels were taken as they are"
            for name in self.unknown
        ]
        return "\n".join(lines)


class _Adding:
    """One import under way: what the store knew, and what was found so far."""

    def __init__(self, store: Store, columns: Columns, family: Family) -> None:
        self._store = store
        self._columns = columns
        self._family = family
        runs = store.runs()
        counts = zip(runs.id.tolist(), runs.name.tolist(), runs.steps.tolist(), strict=True)
        self._runs: dict[str, Steps | None] = {}
        for id_, name, steps in counts:
            # A name of several runs means none of them.
            self._runs[name] = None if name in self._runs else Steps(id_, steps)
            self._runs[id_] = Steps(id_, steps)
        self._said: dict[str, dict[Key, Said]] = {}
        self.known = self.empty = 0
        self.quarantined: dict[str, int] = {}
        self.rubrics: dict[str, int] = {}
        self.raters: dict[str, None] = {}

    def record(self, row: Row) -> Record | None:
        """Return a row as a record; None where it holds nothing, or nothing new.

        Raises:
            Refused: it cannot be placed.
        """
        cells, columns = row.cells, self._columns
        name = aspect(cells, columns)
        found = verdict(cells, columns, name, self._run(cells))
        if found is None:
            self.empty += 1
            return None
        rater = columns.rater or str(columns.cell(cells, "judge") or "").strip()
        if not rater:
            raise Refused("no rater", "nobody is named; map a column to judge, or say --rater")
        given = columns.cell(cells, "repeat")
        repeat = 0 if given is None or given == "" else index(given, "repeat")
        run = self._run(cells).run
        key, said = (run, found.step, rater, repeat), (found.label, found.value)
        before = self._before(found.measure)
        if key in before and before[key] != said:
            raise Refused("contradicts", _contradiction(before[key], said))
        self.rubrics[name] = self.rubrics.get(name, 0) + 1
        self.raters[rater] = None
        if key in before:
            self.known += 1
            return None
        before[key] = said
        return Record(
            trajectory=run,
            answer=msgspec.structs.replace(
                found, reason=self._store.redactor.redact(found.reason).text
            ),
            version=VERSION,
            family=self._family,
            judge=rater,
            rubric=name,
            repeat=repeat,
        )

    def _run(self, cells: Mapping[str, Json]) -> Steps:
        said = self._columns.cell(cells, "run")
        name = "" if said is None else str(said)
        if name not in self._runs:
            raise Refused("unknown run", f"no run called {visible_line(name)[:60]!r} in the store")
        found = self._runs[name]
        if found is None:
            raise Refused("unknown run", f"several runs are called {visible_line(name)[:60]!r}")
        return found

    def _before(self, measure: str) -> dict[Key, Said]:
        """Return what was said under a measure; read from the store once.

        Raises:
            UsageError: a rater's verdicts are here under another family.
        """
        if measure not in self._said:
            self._said[measure] = {}
            for record in self._store.records(measure=measure):
                answer = record.answer
                if record.prompt or record.version != VERSION or not isinstance(answer, Verdict):
                    continue
                if record.family in ("imported", "human") and record.family != self._family:
                    self._refuse_other_family(record)
                key = (record.trajectory, answer.step, record.judge, record.repeat)
                self._said[measure][key] = (answer.label, answer.value)
        return self._said[measure]

    def _refuse_other_family(self, record: Record) -> None:
        if self._columns.rater == record.judge:
            raise UsageError(
                f"{record.judge!r} rated {record.answer.measure} here as {record.family}; import "
                f"them as {record.family} again, or name the rater otherwise with --rater"
            )


def _contradiction(before: Said, now: Said) -> str:
    was, is_ = (" ".join(str(part) for part in said if part is not None) for said in (before, now))
    return f"said {was!r} before, now {is_!r}; give another reading its own repeat"


def add_verdicts(
    store: Store, stream: Stream, columns: Columns, *, family: Family = "imported"
) -> AddedVerdicts:
    """Read a file of verdicts into the store.

    Raises:
        UsageError: a column that was named is not there, or is of no field.
        TraceError: the file cannot be read, or holds nothing.
        ConfigError: the rubric is a file that holds none.
    """
    for field in columns.of:
        if field not in USUAL:
            raise UsageError(f"--map {field}=...: no such field; expected {', '.join(USUAL)}")
    columns = columns.resolved()
    adding = _Adding(store, columns, family)
    count = new = 0
    batch: list[Record] = []
    broken: list[Quarantined] = []
    for row in _checked(stream, columns):
        count += 1
        if isinstance(row, Quarantined):
            broken.append(row)
            adding.quarantined["unreadable"] = adding.quarantined.get("unreadable", 0) + 1
            continue
        try:
            record = adding.record(row)
        except Refused as e:
            adding.quarantined[e.kind] = adding.quarantined.get(e.kind, 0) + 1
            where = f"row {row.place}: {e}" if row.tabular else str(e)
            broken.append(Quarantined(reason=where, offset=row.place, raw=row.raw, uri=stream.uri))
            continue
        if record is not None:
            batch.append(record)
        if len(batch) >= _BATCH:
            new += store.append(batch)
            batch = []
    if not count:
        raise TraceError(f"{stream.uri}: no rows; expected a header and verdicts, or JSON lines")
    new += store.append(batch)
    store.quarantine(broken)
    return AddedVerdicts(
        uri=stream.uri,
        rows=count,
        new=new,
        known=adding.known,
        empty=adding.empty,
        quarantined=adding.quarantined,
        rubrics=dict(sorted(adding.rubrics.items())),
        raters=tuple(adding.raters),
        unknown=tuple(name for name in sorted(adding.rubrics) if columns.menu(name) is None),
    )


def _checked(stream: Stream, columns: Columns) -> Iterator[Row | Quarantined]:
    """Yield the rows, once the first says that the columns are there."""
    checked = False
    for row in rows(stream):
        if isinstance(row, Row) and row.tabular and not checked:
            columns.check(row.cells)
            checked = True
        yield row
