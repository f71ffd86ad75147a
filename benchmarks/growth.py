"""How time and memory grow with the number of runs and with the length of a run.

Cost a run must not grow with the number of runs; cost a step may grow by n log n at most. Each size
is one `stepscope import` and one `stepscope score` in processes of their own, so that the memory
printed is the peak of that size alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import generate
from benchmarks.j7_start import OURS
from benchmarks.peers import clean_environment
from benchmarks.rounds import machine

RUNS = (1_000, 10_000, 100_000)
STEPS = (10, 100, 10_000)
# Few runs of great length: 20 runs of 10,000 steps are what 8,000 usual runs are.
RUNS_BY_STEPS = {10: 2_000, 100: 500, 10_000: 20}


class Cost(NamedTuple):
    """What one command took: wall seconds, CPU seconds of all its processes, peak memory."""

    wall: float
    cpu: float
    peak_mib: float


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Run a command and return what it took.

    Raises:
        RuntimeError: the command failed.
    """
    log = folder / "log.txt"
    start = time.perf_counter()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=clean_environment(), stdout=out, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        last = (log.read_text(encoding="utf-8").strip().splitlines() or ["nothing"])[-1]
        raise RuntimeError(f"{command[1]} gave {process.returncode}: {last}")
    wall = time.perf_counter() - start
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def both(files: Sequence[Path]) -> tuple[Cost, Cost, float]:
    """Import and score files in a fresh folder; return both costs and the size of the store."""
    with tempfile.TemporaryDirectory(dir=generate.DATA) as name:
        folder = Path(name)
        read = cost([str(OURS), "import", *map(str, files)], folder)
        scored = cost([str(OURS), "score"], folder)
        stored = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        return read, scored, stored / 1e6


def line(label: str, count: int, files: Sequence[Path]) -> str:
    """Measure one size; return its line."""
    read, scored, stored = both(files)
    megabytes = sum(path.stat().st_size for path in files) / 1e6
    wall = read.wall + scored.wall
    return (
        f"{label:>14} {count:>8} {megabytes:>8.0f} {read.wall:>9.1f} {scored.wall:>9.1f} "
        f"{1e3 * wall / count:>9.2f} {1e3 * wall / megabytes:>9.1f} "
        f"{read.peak_mib:>9.0f} {scored.peak_mib:>9.0f} {stored:>9.0f}"
    )


def main() -> int:
    """Print both tables; `--quick` leaves the largest size of each out."""
    quick = "--quick" in sys.argv[1:]
    print(machine())
    print(
        f"{'':>14} {'runs':>8} {'MB':>8} {'import s':>9} {'score s':>9} {'ms a run':>9} "
        f"{'ms a MB':>9} {'MiB imp.':>9} {'MiB sc.':>9} {'store MB':>9}"
    )
    for count in RUNS[: 2 if quick else 3]:
        print(line("", count, generate.files(count)), flush=True)
    for steps in STEPS[: 2 if quick else 3]:
        count = RUNS_BY_STEPS[steps]
        print(line(f"{steps} steps", count, generate.files(count, steps=steps)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
