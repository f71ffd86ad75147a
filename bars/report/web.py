"""The local server with 20,000 runs: how long its pages take, and how much memory it needs.

`python -m bars.report.web [RUNS] [STEPS]`, 20,000 and 100,000 unless given. The store is made of
`benchmarks.generate` and one run of 500 steps; a second one holds a run of STEPS. The server is a
process of its own, asked over loopback; what counts is its CPU time a page, and its highest
resident memory. What it has kept is forgotten before a page by a write to the store, but where a
reader goes on from the page before.
Code 0: every page within its bar; 3: one is not.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx2

import stepscope
from benchmarks import generate
from stepscope.safety.limits import MIB, Limits
from stepscope.settings import Settings

MEMORY_BYTES = 1024 * MIB
# A run of 100,000 steps is one record of some 45 MB.
LIMITS = Limits(line_bytes=128 * MIB, steps=200_000)
# The task of the long run, which no generated run has.
TASK = 9001


class Asked(NamedTuple):
    """A page: its name, its address, the seconds it may take, whether the store changes before."""

    name: str
    address: str
    seconds: float
    anew: bool = True


class Took(NamedTuple):
    """What a page took: CPU seconds of the server, seconds on the clock, bytes that came."""

    cpu: float
    wall: float
    size: int


# The first page waits for what the server loads at its start.
FLEET = (
    Asked("first page of all", "/", 3.0),
    Asked("overview", "/", 1.0),
    Asked("overview, page 2", "/?page=1&sort=steps", 0.3, anew=False),
    Asked("overview, filtered", "/?where=outcome+%3D+%27fail%27", 1.0),
    Asked("profile", "/profile", 1.0),
    Asked("run of 500 steps", "/run/RUN", 0.3),
    Asked("runs as CSV", "/api/runs.csv", 2.0),
)
LONG = (
    Asked("first page of all", "/gates", 3.0),
    Asked("long run, opened", "/run/RUN", 10.0),
    Asked("long run, a window", "/run/RUN?from=5000", 0.3, anew=False),
    Asked("long run, its end", "/run/RUN?step=99999", 0.3, anew=False),
    Asked("long run, one step", "/run/RUN/raw?step=9", 0.3, anew=False),
)


def make(folder: Path, runs: int, steps: int) -> Path:
    """Make a store of so many runs and one more of so many steps, scored."""
    path = folder / "runs.db"
    file = folder / "long.json"
    (long,) = generate.runs(1, generate.sources(), steps=steps)
    file.write_text(json.dumps([long | {"task_id": TASK}]), encoding="utf-8")
    with stepscope.open(path, settings=Settings(limits=LIMITS)) as notebook:
        if runs:
            notebook.add([str(part) for part in generate.files(runs)], agent="gpt-4o")
        notebook.add(file, agent="gpt-4o")
        notebook.score()
    return path


def long_run(store: Path) -> str:
    """Return the id of the long run."""
    with sqlite3.connect(store) as db:
        found = db.execute("SELECT id FROM runs WHERE task = ?", (str(TASK),)).fetchone()[0]
    db.close()
    return str(found)


@contextmanager
def viewing(store: Path) -> Iterator[tuple[httpx2.Client, int]]:
    """Start `stepscope view`; give a client that is inside, and the server's process."""
    program = "import sys; from stepscope.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "view", "--no-open", "--json", "--store", str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            assert process.stdout is not None
            url = json.loads("".join(process.stdout.readline() for _ in range(4)))["url"]
            with httpx2.Client(base_url=url.partition("/?")[0], timeout=120) as client:
                assert client.get(url).is_redirect
                yield client, process.pid
        finally:
            process.terminate()


def measured(store: Path, pages: Sequence[Asked]) -> Iterator[tuple[Asked, Took]]:
    """Yield what each page took, then the memory of the server as the size of a last row."""
    run = long_run(store)
    with viewing(store) as (client, pid):
        for asked in pages:
            address = asked.address.replace("RUN", run)
            if asked.anew:
                change(store)
            before, start = cpu(pid), time.perf_counter()
            answer = client.get(address)
            wall = time.perf_counter() - start
            assert answer.status_code == 200, f"{address}: {answer.text[:200]}"
            yield asked, Took(cpu(pid) - before, wall, len(answer.content))
        yield Asked("", "", 0.0), Took(0.0, 0.0, memory(pid))


def change(store: Path) -> None:
    """Write to the store as another process does, and nothing that a page shows."""
    with sqlite3.connect(store) as db:
        db.execute("UPDATE accounts SET imported_ns = imported_ns + 1")
    db.close()


def cpu(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int) -> int:
    """Return the highest resident memory of a process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"process {pid} does not say its memory")


def table(runs: int, steps: int, pages: Sequence[Asked]) -> bool:
    """Print the table of one store; return whether everything is within its bar."""
    held = True
    with tempfile.TemporaryDirectory() as folder:
        store = make(Path(folder), runs, steps)
        print(f"{runs:,} runs and one of {steps:,} steps")
        print(f"{'page':<22}{'CPU, s':>8}{'clock, s':>10}{'bar, s':>8}{'kB':>8}")
        for asked, took in measured(store, pages):
            if asked.name:
                fine = took.cpu <= asked.seconds
                said = f"{took.cpu:>8.2f}{took.wall:>10.2f}{asked.seconds:>8.1f}"
                line = f"{asked.name:<22}{said}{took.size / 1000:>8.0f}"
            else:
                fine = took.size <= MEMORY_BYTES
                line = f"memory of the server, highest: {took.size / MIB:.0f} MiB (bar 1,024)"
            held &= fine
            print(line if fine else f"{line}   MISSED", flush=True)
    return held


def main(runs: str = "20000", steps: str = "100000") -> int:
    """Run the bar; return its exit code."""
    fleet = table(int(runs), 500, FLEET)
    long = table(0, int(steps), LONG)
    return 0 if fleet and long else 3


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
