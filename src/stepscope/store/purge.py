"""Erase what people said and tools returned; keep the numbers, and say what is left.

Erased: traces, reasons, blobs, cases that no other run needs, quarantined bytes. The file is
rewritten afterwards, so that the bytes are gone from it and from its log, not only unlinked from
its tables. An erased run stays erased when its file is imported again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from stepscope.errors import EnvironmentFault
from stepscope.runtime import database
from stepscope.runtime.database import Connection
from stepscope.store.where import Where

# A quarantined record is chosen like an erased run of which only the time of import is known.
_QUARANTINED = (
    "SELECT runs.quarantine FROM (SELECT id AS quarantine, NULL AS seq, NULL AS id, NULL AS name,"
    " NULL AS workflow, NULL AS task, NULL AS trial, NULL AS agent, NULL AS agent_version,"
    " NULL AS outcome, NULL AS steps, NULL AS calls, NULL AS format, NULL AS start_ns,"
    " imported_ns, 1 AS purged_ns FROM quarantine) AS runs WHERE "
)
_DOOMED = "(SELECT seq FROM temp.doomed)"
# Why records of a file were set aside quotes them; how many there were stays.
_REASONS = (
    "UPDATE accounts SET body = CAST(json_replace(told, '$.problem', 'erased', '$.set_aside',"
    " json_object('erased', n)) AS BLOB)"
    " FROM (SELECT uri AS file, CAST(body AS TEXT) AS told,"
    " json_extract(CAST(body AS TEXT), '$.quarantined') AS n FROM accounts)"
    " WHERE file = uri AND uri NOT IN (SELECT uri FROM quarantine WHERE uri NOT NULL)"
    " AND (n > 0 OR uri IN (SELECT uri FROM runs WHERE seq IN " + _DOOMED + "))"
)


class PurgeResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was erased, and what remains."""

    runs: int  # runs whose texts were erased now
    blobs: int  # files of images, audio and other media deleted
    quarantined: int  # records deleted that had never been readable
    replies: int = 0  # raw replies of judges deleted
    remains: tuple[str, ...]  # what is still in the store or beside it, one line each

    def __str__(self) -> str:
        replies = f", {self.replies:,} replies of judges" if self.replies else ""
        head = (
            f"erased the texts of {self.runs:,} runs, {self.blobs:,} blobs, "
            f"{self.quarantined:,} quarantined records{replies}; what remains:"
        )
        return "\n".join((head, *("  " + line for line in self.remains)))


def purge_texts(db: Connection, path: str, blobs: Path | None, where: Where | None) -> PurgeResult:
    """Erase the texts of the runs that `where` chooses, and of their shorter versions."""
    chosen = Where("1") if where is None else where
    with database.transaction(db, path):
        db.execute("DROP TABLE IF EXISTS temp.doomed")
        db.execute("CREATE TEMP TABLE doomed (seq INTEGER PRIMARY KEY)")
        db.execute(
            "INSERT INTO temp.doomed WITH RECURSIVE chosen (seq) AS ("
            "SELECT seq FROM runs WHERE (" + chosen.sql + ") UNION"
            " SELECT runs.seq FROM runs JOIN chosen ON runs.superseded_by = chosen.seq)"
            " SELECT seq FROM chosen",
            chosen.parameters,
        )
        runs = _count(db, "runs WHERE purged_ns IS NULL AND seq IN " + _DOOMED)
        quarantined = db.execute(
            "DELETE FROM quarantine WHERE id IN (" + _QUARANTINED + chosen.sql + ")"
            " OR uri IN (SELECT uri FROM runs WHERE seq IN " + _DOOMED + ")",
            chosen.parameters,
        ).rowcount + _erase_rows_that_name(db)
        for statement in (
            "DELETE FROM traces WHERE run IN " + _DOOMED,
            "DELETE FROM media WHERE run IN " + _DOOMED,
            "UPDATE records SET reason = '' WHERE reason <> '' AND run IN " + _DOOMED,
            "UPDATE labels SET reason = '' WHERE reason <> '' AND run IN " + _DOOMED,
            "UPDATE cases SET body = NULL WHERE id IN (SELECT case_id FROM runs WHERE seq IN "
            + _DOOMED
            + ") AND NOT EXISTS (SELECT 1 FROM runs JOIN traces ON traces.run = runs.seq"
            " WHERE runs.case_id = cases.id)",
            _REASONS,
        ):
            db.execute(statement)
        db.execute(
            # An account keeps its path; by it gates count the unread records beside these runs.
            "UPDATE runs SET purged_ns = coalesce(purged_ns, ?), uri = (SELECT uri FROM accounts"
            " WHERE accounts.uri = runs.uri) WHERE seq IN " + _DOOMED,
            (time.time_ns(),),
        )
        db.execute("DROP TABLE temp.doomed")
    deleted = _sweep(db, path, blobs)
    database.rewrite_database(db, path)
    left = tuple(_remains(db, path))
    return PurgeResult(runs=runs, blobs=deleted, quarantined=quarantined, remains=left)


def _erase_rows_that_name(db: Connection) -> int:
    """Erase what was set aside of files without runs (of verdicts, scores) and names a doomed run.

    A name is a whole field of it, of CSV or of JSON.
    """
    doomed = db.execute("SELECT id, name FROM runs WHERE seq IN " + _DOOMED)
    names = {one for row in doomed for one in row if one}
    loose = db.execute(
        "SELECT id, raw FROM quarantine WHERE uri NOT IN (SELECT uri FROM runs WHERE uri NOT NULL)"
    )
    fields = ((id_, re.split(rb"[\",;\t\r\n]", raw) + raw.split(b'"')) for id_, raw in loose)
    found = [
        (id_,)
        for id_, parts in fields
        if not names.isdisjoint(part.decode(errors="replace").strip() for part in parts)
    ]
    db.executemany("DELETE FROM quarantine WHERE id = ?", found)
    return len(found)


def _sweep(db: Connection, path: str, blobs: Path | None) -> int:
    """Delete the files that no run refers to; `put` writes its own under the same lock."""
    if blobs is None or not blobs.is_dir():
        return 0
    with database.transaction(db, path):
        kept = {row[0] for row in db.execute("SELECT DISTINCT sha256 FROM media")}
        files = (file for file in blobs.iterdir() if re.match("[0-9a-f]{64}", file.name))
        doomed = [file for file in files if file.name not in kept]
        try:
            for file in doomed:
                file.unlink()
        except OSError as e:
            raise EnvironmentFault(f"{file}: cannot be deleted ({e.strerror}); purge again") from e
    return len(doomed)


def _remains(db: Connection, path: str) -> Iterable[str]:
    with database.translate_faults(path):
        purged = _count(db, "runs WHERE purged_ns IS NOT NULL")
        whole = _count(db, "runs WHERE purged_ns IS NULL")
        numbers = _count(db, "records JOIN runs ON runs.seq = records.run WHERE purged_ns > 0")
        labels = _count(db, "labels JOIN runs ON runs.seq = labels.run WHERE purged_ns > 0")
        quarantined = _count(db, "quarantine")
        accounts = _count(db, "accounts")
    yield f"{purged:,} erased runs: id, name, workflow, task, trial, agent, outcome, figures, tags"
    yield f"{numbers:,} records of theirs: numbers, labels and cited steps, without reasons"
    if labels:
        yield f"{labels:,} labels of people about them: names of annotators, answers, times"
    yield f"{whole:,} runs with everything, {quarantined:,} quarantined records"
    yield f"{accounts:,} accounts of imported files: paths, and counts that gates go on to read"
    if path != database.MEMORY:
        for copy in sorted(Path(path).parent.glob(Path(path).name + ".v*.bak")):
            yield f"the backup {copy}, made before a migration, with everything it held then"
        if Path(f"{path}.journal").exists():
            yield f"{path}.journal: spans of runs that `import --listen` has not closed yet"


def _count(db: Connection, of: str) -> int:
    return int(db.execute("SELECT count(*) FROM " + of).fetchone()[0])
