"""J6: the store, beside bare SQLite and JSON lines, and reports over many records.

Durable append: the same 100,000 records in batches of 5,000, each batch on disk before the next.
The peers get rows that are ready made: bare SQLite (WAL, synchronous FULL, one executemany a batch)
into a table with the same columns and the same unique key but without our checks and references;
JSON lines with one fsync a batch. Ours starts from `Record` objects.

Reports: over 100,000 records in the store, and over 10,000,000 in a Parquet folder, which is the
export of the former a hundred times over, with other ids; each in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks import generate
from benchmarks.rounds import ROOT, Row, Samples, table
from stepscope.formats.reading import read_files
from stepscope.model import Record, Trajectory
from stepscope.report.build import build_report
from stepscope.score import score_runs
from stepscope.store import ParquetRows, Store
from stepscope.store.parquet import RECORDS, RUNS
from stepscope.store.records import encode_answer
from stepscope.values import Unmeasured

RECORD_COUNT = 100_000
BATCH = 5_000
ROUNDS = 7
COPIES = 100
# A measured run of the generator gives some 39 records.
RUN_COUNT = 2_700
APPEND_SHARE = 0.5
REPORT_SECONDS = 0.5
COLUMN_SECONDS = 0.3
PARQUET_SECONDS = 5.0

Values = tuple[object, ...]

PEER_TABLE = """
CREATE TABLE records (
    question INTEGER, run INTEGER, case_id INTEGER, repeat INTEGER, step INTEGER, state INTEGER,
    value REAL, label TEXT, cites TEXT, reason TEXT, confidence REAL, usage TEXT, cost_usd REAL,
    seconds REAL, at_ns INTEGER,
    PRIMARY KEY (question, run, case_id, repeat, step)
) WITHOUT ROWID
"""


def made(folder: Path, count: int) -> Path:
    """Return a store of generated runs, scored."""
    path = folder / "made.db"
    files = [str(file) for file in generate.files(count)]
    with Store.open(path) as store:
        store.put(i for r in read_files(files) for i in r if isinstance(i, Trajectory))
        score_runs(store)
    return path


def ready(records: Sequence[Record]) -> list[Values]:
    """Return the rows as the peer inserts them: numbers for names, None for what is absent."""
    ids: dict[object, int] = {}

    def number(name: object) -> int:
        return ids.setdefault(name, len(ids))

    now = time.time_ns()
    rows: list[Values] = []
    for r in records:
        step, state, value, label, cites, reason, _ = encode_answer(r.answer)
        absent = isinstance(r.answer, Unmeasured)
        rows.append(
            (
                number((r.answer.measure, r.version, r.facts, r.judge, r.prompt)),
                number(r.trajectory),
                number(r.case),
                r.repeat,
                step,
                state,
                None if absent or state == 2 else value,
                label or None,
                cites,
                reason,
                None,
                None,
                None,
                None,
                now,
            )
        )
    return rows


def ours(folder: Path, runs: Sequence[Trajectory], records: Sequence[Record]) -> float:
    """Append records to a store that holds the runs; return seconds."""
    with Store.open(folder / "ours.db") as store:
        store.put(runs)
        start = time.perf_counter()
        for at in range(0, len(records), BATCH):
            store.append(records[at : at + BATCH])
        return time.perf_counter() - start


def bare(folder: Path, rows: Sequence[Values]) -> float:
    """Insert rows with SQLite alone; return seconds."""
    db = sqlite3.connect(folder / "bare.db", isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(PEER_TABLE)
    start = time.perf_counter()
    for at in range(0, len(rows), BATCH):
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            rows[at : at + BATCH],
        )
        db.execute("COMMIT")
    seconds = time.perf_counter() - start
    db.close()
    return seconds


def lines(folder: Path, rows: Sequence[Values]) -> float:
    """Write rows as JSON lines, flushed to disk after every batch; return seconds."""
    start = time.perf_counter()
    with (folder / "rows.jsonl").open("wb") as file:
        for at in range(0, len(rows), BATCH):
            file.write(msgspec.json.Encoder().encode_lines(rows[at : at + BATCH]))
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - start


def in_turn(store: Path, count: int, rounds: int) -> dict[str, Samples]:
    """Run every competitor's rounds in turn; return seconds."""
    with Store.open(store) as opened:
        records = list(opened.records())[:count]
        runs = [msgspec.structs.replace(t, steps=()) for t in opened.trajectories()]
    rows = ready(records)
    plan: dict[str, Callable[[Path], float]] = {
        "ours": lambda folder: ours(folder, runs, records),
        "bare": lambda folder: bare(folder, rows),
        "lines": lambda folder: lines(folder, rows),
    }
    taken: dict[str, list[float]] = {name: [] for name in plan}
    for number in range(rounds + 1):
        for name, work in plan.items():
            with tempfile.TemporaryDirectory(dir=generate.DATA) as folder:
                seconds = work(Path(folder))
            if number:  # the first round warms up
                taken[name].append(seconds)
    return {name: Samples(tuple(values)) for name, values in taken.items()}


def multiply(source: Path, target: Path, copies: int) -> int:
    """Write a Parquet folder that holds an export many times over; return how many records."""
    runs = pq.read_table(source / RUNS)
    with pq.ParquetWriter(target / RUNS, runs.schema) as writer:
        for copy in range(copies):
            renamed = runs
            for at, name in ((0, "id"), (1, "name")):
                longer = pa.array([f"{text}-{copy:04}" for text in runs.column(name).to_pylist()])
                renamed = renamed.set_column(at, runs.schema.field(at), longer)
            writer.write_table(renamed)
    file = pq.ParquetFile(source / RECORDS)
    count = 0
    with pq.ParquetWriter(target / RECORDS, file.schema_arrow) as writer:
        for group in range(file.num_row_groups):
            part = file.read_row_group(group)
            run = part.column("run")
            many = []
            for copy in range(copies):
                shifted = pc.add(run, pa.scalar(copy * runs.num_rows, pa.int32()))
                many.append(part.set_column(0, part.schema.field(0), shifted))
            whole = pa.concat_tables(many)
            writer.write_table(whole, row_group_size=1_000_000)
            count += whole.num_rows
    return count


def read(kind: str, path: str) -> None:
    """Be the process that reads: print seconds of columns and of the report, and peak memory."""
    rows = Store.open(path) if kind == "store" else ParquetRows(path)
    start = time.perf_counter()
    runs = rows.runs()
    found = [rows.column(measure, runs) for measure in rows.measures()]
    columns = time.perf_counter() - start
    del found
    start = time.perf_counter()
    build_report(rows)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"columns": columns, "report": seconds, "peak_mib": peak, "runs": len(runs)}))


def reading(kind: str, path: Path, rounds: int) -> list[dict[str, float]]:
    """Read in fresh processes; return what each said."""
    command = [sys.executable, "-m", "benchmarks.j6_store", kind, str(path)]
    return [
        json.loads(subprocess.run(command, check=True, capture_output=True, cwd=ROOT).stdout)
        for _ in range(rounds)
    ]


def rows(taken: dict[str, Samples], store: list[dict[str, float]], count: int) -> list[Row]:
    """Turn the rounds over 100,000 records into comparisons with the limits."""
    mine, peer = taken["ours"], taken["bare"]
    columns = Samples(tuple(said["columns"] for said in store))
    report = Samples(tuple(said["report"] for said in store))
    return [
        Row(
            work=f"append {count:,} records against bare SQLite",
            ours=f"{count / mine.median:,.0f} /s",
            peer=f"{count / peer.median:,.0f} /s",
            reached=peer.median / mine.median,
            limit=APPEND_SHARE,
            at_least=True,
            spread=f"{mine.spread:.0%}, peer {peer.spread:.0%}",
        ),
        _seconds(f"runs and all columns over {count:,}", columns, COLUMN_SECONDS),
        _seconds(f"report over {count:,} records", report, REPORT_SECONDS),
    ]


def _seconds(work: str, taken: Samples, limit: float) -> Row:
    return Row(
        work=work,
        ours=f"{taken.median:.3f} s",
        peer="-",
        reached=taken.median,
        limit=limit,
        at_least=False,
        spread=f"{taken.spread:.0%}",
        unit="s",
    )


def main() -> int:
    """Print the table; return 1 when a limit is missed."""
    generate.DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=generate.DATA) as name:
        folder = Path(name)
        store = made(folder, RUN_COUNT)
        taken = in_turn(store, RECORD_COUNT, ROUNDS)
        found = rows(taken, reading("store", store, ROUNDS), RECORD_COUNT)
        with Store.open(store) as opened:
            opened.to_parquet(folder / "once")
        (folder / "many").mkdir()
        count = multiply(folder / "once", folder / "many", COPIES)
        size = sum(file.stat().st_size for file in (folder / "many").iterdir()) / 1e6
        many = reading("parquet", folder / "many", 3)
        report = Samples(tuple(said["report"] for said in many))
        found.append(_seconds(f"report over {count:,} in Parquet", report, PARQUET_SECONDS))
        print(table(found))
    print(f"medians of {ROUNDS} rounds in turn after one to warm up; batches of {BATCH:,}")
    print(f"JSON lines with fsync: {RECORD_COUNT / taken['lines'].median:,.0f} records/s")
    print(
        f"Parquet: {many[0]['runs']:,} runs, {size:.0f} MB, all columns "
        f"{many[0]['columns']:.2f} s, peak {max(said['peak_mib'] for said in many):.0f} MiB"
    )
    return 0 if all(row.met for row in found) else 1


if __name__ == "__main__":
    if len(sys.argv) == 3:
        read(sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
