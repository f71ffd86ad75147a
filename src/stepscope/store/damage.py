"""What is damaged in a store, and a new store of what is readable of it.

SQLite finds pages, keys and rules of the schema that do not hold; our decoders find bodies that are
none. A bit that makes one valid text another one is found by neither. A salvaged store has every
row that can be read from either end of its table; a run whose trace is lost keeps its numbers, as
after a purge. Names in its statements are those of our own schema.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepscope.errors import UsageError
from stepscope.model import Case, Facts, Step, Trajectory, Usage
from stepscope.runtime import database
from stepscope.runtime.database import Connection, Schema
from stepscope.store import records
from stepscope.values import UNMEASURED_KINDS, Estimate

Decode = Callable[[Any], object]

# Table and column -> how what is in it is read; the words and figures of records, too.
BODIES: dict[tuple[str, str], Decode] = {
    ("traces", "head"): msgspec.json.Decoder(Trajectory).decode,
    ("traces", "steps"): msgspec.json.Decoder(tuple[Step, ...]).decode,
    ("cases", "body"): msgspec.json.Decoder(Case).decode,
    ("facts", "body"): msgspec.json.Decoder(Facts).decode,
    ("weights", "body"): records.decode_weights,
    ("noise", "body"): msgspec.json.Decoder(Estimate).decode,
    ("accounts", "body"): msgspec.json.decode,
    ("queues", "body"): msgspec.json.decode,
    ("labels", "cites"): lambda cites: msgspec.json.decode(cites or "[]", type=tuple[int, ...]),
    ("labels", "expanded"): lambda said: msgspec.json.decode(said or "[]", type=tuple[str, ...]),
    ("records", "usage"): msgspec.json.Decoder(Usage).decode,
    ("records", "cites"): lambda cites: msgspec.json.decode(cites or "[]", type=tuple[int, ...]),
    ("records", "state"): lambda state: state > 0 or UNMEASURED_KINDS[-1 - state],
}
TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
# What a damaged body or cell makes of a decoder.
_UNREADABLE = (msgspec.DecodeError, ValueError, TypeError, LookupError, OverflowError)


def find_damage(db: Connection) -> Iterator[str]:
    """Yield what is wrong with a store, one line each; `sqlite3.Error` where a text is no UTF-8."""
    broken = False
    for fault in database.find_faults(db):
        broken = True
        yield fault
    if broken:
        return  # what SQLite cannot walk, no decoder sees whole
    for (table,) in db.execute(TABLES).fetchall():
        rows = db.execute("SELECT * FROM " + table)
        names = [name for name, *_ in rows.description]
        decoders = [(at, BODIES[table, x]) for at, x in enumerate(names) if (table, x) in BODIES]
        for number, row in enumerate(rows):
            for at, decode in decoders:
                if row[at] is not None and not _reads(decode, row[at]):
                    yield f"{table}: the {names[at]} of row {number} cannot be read"


def _reads(decode: Callable[[Any], object], body: object) -> bool:
    try:
        decode(body)
    except _UNREADABLE:
        return False
    return True


class Salvaged(msgspec.Struct, frozen=True, kw_only=True):
    """What could be read of a damaged store."""

    path: str  # of the new store
    rows: dict[str, int]  # table -> rows that are in it
    lost: dict[str, int]  # table -> rows that were found, and could not be read or kept

    def __str__(self) -> str:
        lost = ", ".join(f"{n:,} of {table}" for table, n in self.lost.items()) or "none was found"
        return (
            f"wrote {self.rows['runs']:,} runs, {self.rows['records']:,} records to {self.path}; "
            f"rows that could not be read: {lost}; rows that no page leads to cannot be counted"
        )


def salvage_store(damaged: str, out: str, schema: Schema) -> Salvaged:
    """Write a new store of what is readable of a damaged one; errors as of `Store.salvage`."""
    if Path(out).exists():
        raise UsageError(f"{out} already exists; name a new file")
    with (
        closing(database.open_damaged(damaged)) as old,
        closing(database.open_database(out)) as new,
    ):
        database.migrate_database(new, out, schema)
        new.execute("PRAGMA foreign_keys = OFF")
        tables = [name for (name,) in new.execute(TABLES)]
        with database.transaction(new, out):
            lost = {table: _copy(old, new, table) for table in tables}
            for table in tables:
                columns = [Column(*row) for row in new.execute("PRAGMA table_info(" + table + ")")]
                of_name = {one.name: one for one in columns}
                for _, _, parent, source, target, *_ in new.execute(
                    "PRAGMA foreign_key_list(" + table + ")"
                ).fetchall():
                    orphans = (
                        " WHERE " + source + " NOT IN (SELECT " + target + " FROM " + parent + ")"
                    )
                    column = of_name[source]
                    if column.key or (column.required and column.default is None):
                        lost[table] += new.execute("DELETE FROM " + table + orphans).rowcount
                    else:
                        cell = column.default or "NULL"
                        new.execute("UPDATE " + table + " SET " + source + " = " + cell + orphans)
            new.execute(
                "UPDATE runs SET purged_ns = ? WHERE purged_ns IS NULL"
                " AND seq NOT IN (SELECT run FROM traces)",
                (time.time_ns(),),
            )
        counted = "SELECT count(*) FROM "
        rows = {table: new.execute(counted + table).fetchone()[0] for table in tables}
    if Path(f"{damaged}.blobs").is_dir():
        shutil.copytree(f"{damaged}.blobs", f"{out}.blobs")
    return Salvaged(path=out, rows=rows, lost={table: n for table, n in lost.items() if n})


def _copy(old: Connection, new: Connection, table: str) -> int:
    """Copy the rows of a table that can be read; return how many were seen and are not kept."""
    columns = [Column(*row) for row in new.execute("PRAGMA table_info(" + table + ")")]
    ((sql,),) = new.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,))
    key = "rowid"
    if "WITHOUT ROWID" in sql:
        ordered = sorted(columns, key=lambda column: column.key)
        key = ", ".join(one.name for one in ordered if one.key)
    names = ", ".join(one.name for one in columns)
    verb = "REPLACE" if table == "keys" else "IGNORE"  # a new store has made its own
    cells = ", ".join("?" * len(columns))
    insert = "INSERT OR " + verb + " INTO " + table + " (" + names + ") VALUES (" + cells + ")"
    read = "SELECT " + names + " FROM " + table + " NOT INDEXED "
    lost = 0

    def keep(select: str, values: tuple[object, ...] = ()) -> bool:
        nonlocal lost
        rows = database.read_until_fault(old, read + select, values)
        while True:
            try:
                row = next(rows)
            except StopIteration as end:
                return bool(end.value)
            mended = _mend(table, columns, row)
            if mended is None:
                lost += 1
            else:
                new.execute(insert, mended)

    if not keep("ORDER BY " + key):
        # From the other end, and where it is many small ranges, from both ends of each.
        backwards = " DESC, ".join(key.split(", ")) + " DESC"
        keep("ORDER BY " + backwards)
        if table == "records":
            for question in new.execute("SELECT id FROM questions").fetchall():
                for order in (key, backwards):
                    keep("WHERE question = ? ORDER BY " + order, question)
    return lost


class Column(NamedTuple):
    """A column as SQLite tells of it."""

    at: int
    name: str
    kind: str
    required: int
    default: str | None
    key: int  # its place in the primary key, from 1; 0 where it is not in it


def _mend(table: str, cols: Sequence[Column], row: tuple[object, ...]) -> tuple[object, ...] | None:
    """Return a row without a body that cannot be read, None where it cannot be without it."""
    cells = list(row)
    for column, cell in zip(cols, row, strict=True):
        if cell is None or _reads(BODIES.get((table, column.name), _as_text), cell):
            continue
        if column.required or column.key:
            return None
        cells[column.at] = None
    return tuple(cells)


def _as_text(cell: object) -> object:
    return cell.encode() if isinstance(cell, str) else cell  # surrogates are no text
