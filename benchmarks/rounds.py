"""Timing in turn, A B C A B C, and the table that every job prints.

Rounds are interleaved so that a machine which slows down slows everybody down. What is compared is
the median of the rounds; the spread beside it is (slowest - fastest) / median.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import clean_environment

ROOT = Path(__file__).resolve().parent.parent


class Worker:
    """A competitor's process, started once, asked for one round at a time."""

    def __init__(self, python: Path, module: str, files: Sequence[Path]) -> None:
        """Start `module` under `python`; its imports are done before the first round."""
        self._said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._module = module
        self._process = subprocess.Popen(
            [str(python), "-m", f"benchmarks.workers.{module}", *map(str, files)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            cwd=ROOT,
            env=clean_environment(),
            text=True,
        )

    def round(self, name: str) -> dict[str, Any]:
        """Run one round; return its seconds and counts.

        Raises:
            RuntimeError: the process died; the message has the last line that it said.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(name + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._said.seek(0)
            last = (self._said.read().strip().splitlines() or ["nothing"])[-1]
            raise RuntimeError(f"{self._module} died in round {name!r}; it said: {last}")
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> None:
        """End the process by ending its input."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(timeout=60)
        self._said.close()


@contextmanager
def workers(made: dict[str, Worker]) -> Iterator[dict[str, Worker]]:
    """Close every worker at the end, whatever happened."""
    try:
        yield made
    finally:
        for worker in made.values():
            worker.close()


class Samples(NamedTuple):
    """What the rounds of one competitor gave, in one unit."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.values)

    @property
    def spread(self) -> float:
        """(Largest - smallest) / median, a share."""
        return (max(self.values) - min(self.values)) / self.median


class Row(NamedTuple):
    """One comparison: ours beside a peer or beside a fixed limit.

    `reached` is what the limit is put on (a ratio, or seconds); `at_least` says which side is good.
    A least of 0 is no limit: the row is there to compare.
    """

    work: str
    ours: str
    peer: str
    reached: float
    limit: float
    at_least: bool
    spread: str = ""
    unit: str = "x"

    @property
    def share(self) -> float:
        """How much of the limit is used up, 1 being all of it: under 1 the limit is kept."""
        if self.at_least:
            return self.limit / self.reached if self.reached else float("inf")
        return self.reached / self.limit

    @property
    def met(self) -> bool:
        """Whether the limit is kept."""
        return self.share <= 1


def table(rows: Sequence[Row]) -> str:
    """Return the rows as text; `share` is the part of the limit that is used up."""
    head = ("work", "ours", "peer", "ratio", "limit", "share", "", "spread")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    compared = (row.work, row.ours, row.peer, f"{row.reached:.3g} {row.unit}")
    if row.at_least and not row.limit:
        return (*compared, "none", "", "", row.spread)
    sign = ">=" if row.at_least else "<="
    limit = f"{sign} {row.limit:g} {row.unit}"
    return (*compared, limit, f"{row.share:.2f}", "kept" if row.met else "MISSED", row.spread)


def machine() -> str:
    """The shape of this machine: system, cores, memory, Python; no names."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {cores} cores, {memory:.0f} GiB memory, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )
