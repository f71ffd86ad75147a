"""The report of 1,000 runs as one HTML file: at most 5 MB, the steps of 25 runs in it.

`python -m bars.report.html_size [FILE]`; FILE defaults to the airline runs beside the repository,
whose 200 runs stand five times for 1,000, under other tasks and agents. The steps of the runs to
look at first are in the file but for texts longer than it takes; what a file leaves out it says.
Code 0: it holds; 3: it does not; 4: the runs are absent.
"""

from __future__ import annotations

import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

import msgspec

from stepscope.formats.reading import read_files
from stepscope.model import Trajectory
from stepscope.report.build import build_report
from stepscope.report.render.html import EMBED, write_html
from stepscope.score import score_runs
from stepscope.store import Store

RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "taubench/airline/runs.json"
COPIES = 5
BYTES = 5_000_000


def prepare(source: Path, copies: int) -> Store:
    """Return a store of the runs, each `copies` times under another task and agent."""
    store = Store.open(":memory:")
    for reading in read_files([str(source)]):
        runs = [run for run in reading if isinstance(run, Trajectory)]
        for copy in range(copies):
            store.put(_copy(run, copy) for run in runs)
    score_runs(store, workers=1)
    return store


def _copy(run: Trajectory, copy: int) -> Trajectory:
    return msgspec.structs.replace(
        run,
        id=sha256(f"{copy} {run.id}".encode()).hexdigest()[:32],
        name=f"{run.name}/{copy}",
        task=f"{copy}-{run.task}",
        agent=f"agent {copy % 2}",
    )


def sizes(source: Path, copies: int) -> tuple[int, int, int, float]:
    """Return runs, bytes of the file, embedded runs, and seconds of CPU for the file."""
    store = prepare(source, copies)
    report = build_report(store)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.html"
        start = time.process_time()
        write_html(store, report, path)
        seconds = time.process_time() - start
        text = path.read_text("utf-8")
    return report.whole.n_runs, len(text.encode()), text.count('data-page="run"') - 1, seconds


def main() -> int:
    """Print the size; return 0 when it is within the bar."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    if not source.exists():
        print(f"not measured: {source} is absent")
        return 4
    runs, size, embedded, seconds = sizes(source, COPIES)
    holds = size <= BYTES and embedded == EMBED
    print(f"{'runs':>8}{'embedded':>10}{'bytes':>12}{'bar':>12}{'CPU s':>8}")
    print(f"{runs:>8,}{embedded:>10}{size:>12,}{BYTES:>12,}{seconds:>8.1f}")
    print("holds" if holds else "MISSED")
    return 0 if holds else 3


if __name__ == "__main__":
    sys.exit(main())
