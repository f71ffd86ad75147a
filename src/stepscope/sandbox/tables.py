"""Query a SQLite file that a run left behind; runs inside the sandbox, as a script of its own.

Imports the standard library alone. Refuses statements that do anything but read.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

# Rows of one look; what is more is told.
ROWS = 100
REFUSED = 3
# A cell's longest text or blob; SQLite refuses longer ones itself.
_CELL_BYTES = 1 << 20
_QUERY_BYTES = 10_000
_ALLOWED = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
)
# Functions of builds of SQLite that load code or open files.
_OUTSIDE = ("load_extension", "readfile", "writefile", "edit", "fts3_tokenizer")


def query_table(path: Path, text: str) -> list[str]:
    """Return a query's rows as lines of JSON, blobs as base64; sqlite3.Error where it fails."""
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as table:
        table.execute("PRAGMA trusted_schema = OFF")
        table.execute("PRAGMA cell_size_check = ON")
        table.execute("PRAGMA temp_store = MEMORY")
        table.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _CELL_BYTES)
        table.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        table.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _QUERY_BYTES)
        table.set_authorizer(_allowed)
        # Not every text of a hostile file is UTF-8.
        table.text_factory = lambda raw: raw.decode("utf-8", "replace")
        found = table.execute(text)
        if found.description is None:
            raise sqlite3.ProgrammingError("only a SELECT gives rows")
        lines = [_row_line([column[0] for column in found.description])]
        lines += [_row_line(row) for row in found.fetchmany(ROWS)]
        return [*lines, f"(more than {ROWS} rows)"] if found.fetchone() is not None else lines


def _allowed(
    action: int, first: str | None, second: str | None, database: str | None, by: str | None
) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _OUTSIDE:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _row_line(cells: object) -> str:
    return json.dumps(cells, ensure_ascii=False, default=_blob, separators=(",", ":"))


def _blob(cell: object) -> str:
    assert isinstance(cell, bytes)
    return base64.b64encode(cell).decode()


def main() -> int:
    """Print the rows of the query; return `REFUSED` where there are none to be had."""
    try:
        lines = query_table(Path(sys.argv[1]), sys.argv[2])
    except (sqlite3.Error, sqlite3.Warning) as e:
        sys.stderr.write(str(e))
        return REFUSED
    sys.stdout.write("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
