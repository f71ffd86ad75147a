"""SIGKILL at random moments while runs are read, stored and scored; a resume gives the same report.

`python -m bars.store.kills`. Every round starts from an empty store, in a process of its own that
is killed after a random part of the time that the whole work takes; then the same work is done
again on what is left. The bytes of `report --json`, the records without their times, and SQLite's
own integrity check must be those of a store that was never interrupted.

Code 0: all equal; 3: one is not. The real runs beside the repository are used where they are
there, else the bundled ones.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

import msgspec

from stepscope import api
from stepscope.report.build import build_report
from stepscope.safety.text import render_json
from stepscope.score import measures, score_runs
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store import store as stores

ROOT = Path(__file__).resolve().parents[2]
SHARED = (
    ROOT.parent / "shared/data/taubench/airline/runs.json",
    ROOT.parent / "shared/data/agentrx-retail/runs.json",
)
KILLS = 200
# Many small transactions, so that kills fall into them and between them; speed is no matter here.
BATCH = 16
# Every fourth round reads and scores in processes, which must end with their parent.
POOLED = 4


class Left(NamedTuple):
    """What identifies the content of a store, whatever happened on the way."""

    report: str
    records: str
    sound: bool


def files(preferred: Sequence[Path] = SHARED) -> list[Path]:
    """Return the files of runs that are there, or the folder of bundled ones."""
    return [path for path in preferred if path.is_file()] or [ROOT / "examples" / "airline"]


def work(path: Path, given: Sequence[Path], workers: int) -> None:
    """Read, store and score everything, as much as is missing."""
    with api.open(path, settings=Settings()) as notebook:
        notebook.add(given, workers=workers)
        score_runs(notebook.store, workers=workers)


def left(path: Path) -> Left:
    """Return what a finished store holds."""
    with Store.open(path) as store:
        report = render_json(build_report(store))
        records = "\n".join(msgspec.json.encode(r).decode() for r in store.records())
    db = sqlite3.connect(path)
    sound = db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    broken = db.execute("PRAGMA foreign_key_check").fetchall()
    db.close()
    return Left(report, records, sound and not broken)


def killed(path: Path, given: Sequence[Path], workers: int, *, seconds: float, count: int) -> str:
    """Do the work in a process that is killed after `seconds`; return how far it got.

    `count` is how many runs there are to store.
    """
    child = os.fork()
    if child == 0:
        work(path, given, workers)
        os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if not path.exists():
        return "before the store"
    db = sqlite3.connect(path)
    try:
        stored = db.execute("SELECT count(*) FROM runs").fetchone()[0]
        scored = db.execute("SELECT count(DISTINCT run) FROM records").fetchone()[0]
    except sqlite3.OperationalError:
        return "before the schema"
    finally:
        db.close()
    if stored < count:
        return "while storing"
    if not scored:
        return "before scoring"
    return "while scoring" if scored < stored else "at the end"


def rounds(given: Sequence[Path], kills: int, *, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Kill and resume; return where the kills fell, and what came out different, a line each."""
    rng = random.Random(seed)
    measures.CHUNK_RUNS = stores.BATCH_RUNS = BATCH
    fell: Counter[str] = Counter()
    different: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        expected = {}
        seconds = {}
        # Twice each: the first round of a process is slower, and kills would fall after the end.
        for workers in (1, 2, 1, 2):
            path = folder / f"whole{len(list(folder.glob('whole*.db')))}.db"
            start = time.monotonic()
            work(path, given, workers)
            seconds[workers] = time.monotonic() - start
            expected[workers] = left(path)
        different += _differences("in processes", expected[2], expected[1])
        with Store.open(path) as store:
            count = len(store.runs())
        for number in range(kills):
            workers = 2 if number % POOLED == POOLED - 1 else 1
            path = folder / f"{number}.db"
            moment = rng.random() * seconds[workers]
            place = killed(path, given, workers, seconds=moment, count=count)
            fell[place] += 1
            work(path, given, 1)
            name = f"kill {number}, {workers} workers, {place}"
            different += _differences(name, left(path), expected[1])
            for file in folder.glob(f"{number}.db*"):
                file.unlink()
    return fell, different


def _differences(name: str, found: Left, expected: Left) -> list[str]:
    """Return one line when something differs: what, and the first line of it."""
    parts = [] if found.sound else ["the file is damaged"]
    for what in ("report", "records"):
        was, now = getattr(expected, what).splitlines(), getattr(found, what).splitlines()
        if was != now:
            pairs = zip_longest(was, now)
            first = next((a, b) for a, b in pairs if a != b)
            parts.append(
                f"{what}: {len(was)} lines, now {len(now)}; {first[0]!r}, now {first[1]!r}"
            )
    return [f"{name}: {'; '.join(parts)}"] if parts else []


def main() -> int:
    """Print where the kills fell and what they did; return 3 when a report differs."""
    fell, different = rounds(files(), KILLS)
    print(f"{KILLS} kills, seed 0; each killed store was resumed to the end")
    for place, count in sorted(fell.items(), key=lambda item: -item[1]):
        print(f"  {count:>4}  {place}")
    print(f"reports, records or files that differ from the uninterrupted ones: {len(different)}")
    for line in different:
        print(f"  {line}")
    return 3 if different else 0


if __name__ == "__main__":
    sys.exit(main())
