"""Ask a SQLite file that a run left behind, so that neither the file nor the query can do harm.

The file is opened read-only and as it stands; every statement but reading is refused before it is
compiled, functions that reach outside too; what a query may compute and hold is bounded. Rows come
back as lines of JSON.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from stepscope.judges.tools import Refused

# Rows of one look; what is more is told.
ROWS = 100
# A cell's longest text or blob, in bytes; longer ones are refused by SQLite itself.
_CELL_BYTES = 1 << 20
# Steps of SQLite's machine between two looks at what was used, and how many such looks.
_STRIDE = 10_000
_STRIDES = 2_000
_ALLOWED = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_RECURSIVE,
    }
)
# Functions of builds of SQLite that load code or open files.
_OUTSIDE = frozenset({"load_extension", "readfile", "writefile", "edit", "fts3_tokenizer"})


def query(path: Path, text: str) -> str:
    """Return the rows of a query as lines of JSON, the names of the columns first.

    Raises:
        Refused: the file is no database, or the query is wrong, does not only read, or costs too
            much.
    """
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as table:
            _bound(table)
            return _rows(table, text)
    except (sqlite3.Error, sqlite3.Warning) as e:
        raise Refused(f"SQLite refuses: {e}") from e


def _bound(table: sqlite3.Connection) -> None:
    table.execute("PRAGMA trusted_schema = OFF")
    table.execute("PRAGMA cell_size_check = ON")
    table.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _CELL_BYTES)
    table.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    table.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, 10_000)
    left = _STRIDES

    def step() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    table.set_progress_handler(step, _STRIDE)
    table.set_authorizer(_allowed)
    # Not every text of a hostile file is UTF-8.
    table.text_factory = lambda raw: raw.decode("utf-8", "replace")


def _allowed(
    action: int, first: str | None, second: str | None, database: str | None, by: str | None
) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _OUTSIDE:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _rows(table: sqlite3.Connection, text: str) -> str:
    found = table.execute(text)
    if found.description is None:
        raise Refused("only a SELECT gives rows")
    lines = [_line([column[0] for column in found.description])]
    lines += [_line(row) for row in found.fetchmany(ROWS)]
    if found.fetchone() is not None:
        lines.append(f"(more than {ROWS} rows)")
    return "\n".join(lines)


def _line(cells: object) -> str:
    return msgspec.json.encode(cells, enc_hook=repr).decode()
