"""The log of looks: which runs of a commit were gated already, under which policy.

Rerunning until it is green is seen: every look that brings new runs is counted, its runs are pooled
with those before, and look j may spend alpha/(j(j+1)). Gating the same runs again is the same look.
The log is a JSON file beside the baseline; where it does not survive (a fresh CI machine without
cache), the number of the attempt must be given, and a log that cannot be read is an error, never a
first look. Source of the spending: calibration, section 1 (the sum over all looks is alpha).
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from stepscope.errors import ConfigError, EnvironmentFault
from stepscope.gates.baseline import replace_file
from stepscope.gates.sample import Asked, Cell, Run, Sample

SCHEMA = 1
FILE = "looks.json"
# Commits that stay in the log; the oldest leave first.
KEPT = 200


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """The looks at one commit of one workflow under one policy.

    Attributes:
        looks: how many there were.
        asked: by measure, which question the cells answer.
        runs: the runs of all looks, in the order in which they came.
        cells: by measure, one cell a run.
    """

    looks: int
    asked: dict[str, Asked]
    runs: tuple[Run, ...]
    cells: dict[str, tuple[Cell, ...]]


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """All looks that are remembered, by key."""

    schema: int = SCHEMA
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)


class Looks:
    """The log while a gate runs: read once, renewed by `decide`, written by `save`."""

    def __init__(self, log: Log | None = None, path: Path | None = None) -> None:
        """Hold a log; without a path nothing is ever written."""
        self.log = Log() if log is None else log
        self.path = path

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Read the log at `path`; raises as `load` does."""
        return cls(load(path), Path(path))

    def save(self) -> None:
        """Write the log as a whole or not at all.

        Raises:
            EnvironmentFault: the disk does not take it.
        """
        if self.path is not None:
            replace_file(self.path, msgspec.json.encode(self.log) + b"\n")


def key(commit: str, workflow: str, policy_hash: str) -> str:
    """Return what looks are counted under."""
    return f"{commit} {policy_hash} {workflow}"


def beside(baseline: str | Path) -> Path:
    """Return where the log lies: in the folder of the baseline."""
    return Path(baseline).parent / FILE


def load(path: str | Path) -> Log:
    """Return the log in a file; an empty one where there is none.

    Raises:
        ConfigError: the file is no log: looks would be forgotten.
        EnvironmentFault: the disk does not give it.
    """
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        return Log()
    except OSError as e:
        raise EnvironmentFault(f"{path}: the log of looks cannot be read ({e.strerror})") from e
    try:
        log = msgspec.json.decode(raw, type=Log)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise ConfigError(
            f"{path} is no log of looks ({' '.join(str(e).split())}): restore it, or remove it and "
            "say with --attempt how often this commit was gated"
        ) from e
    if log.schema > SCHEMA:
        raise ConfigError(f"{path} was written by a newer stepscope: upgrade stepscope")
    for name, entry in log.entries.items():
        if any(len(cells) != len(entry.runs) for cells in entry.cells.values()) or entry.looks < 1:
            raise ConfigError(f"{path}: the entry {name!r} is torn; restore the file")
    return log


def pool(entry: Entry | None, sample: Sample) -> tuple[Entry, Sample]:
    """Return the entry after this look, and the runs of all looks together.

    What was scored again takes the place of what was logged. Runs that were logged under another
    question (a measure of another version) are left out: they cannot be pooled, but their looks
    count.
    """
    if entry is None:
        return _entry(1, sample), sample
    now = {run.id for run in sample.runs}
    old = {run.id for run in entry.runs}
    same = all(sample.asked.get(name) == asked for name, asked in entry.asked.items())
    same = same and set(entry.cells) == set(sample.cells)
    kept = [at for at, run in enumerate(entry.runs) if run.id not in now] if same else []
    pooled = Sample(
        runs=(*(entry.runs[at] for at in kept), *sample.runs),
        cells={
            name: (*(entry.cells[name][at] for at in kept), *cells)
            for name, cells in sample.cells.items()
        },
        asked=sample.asked,
        agents=sample.agents,
    )
    looks = entry.looks + (0 if now <= old else 1)
    return _entry(looks, pooled), pooled


def with_entry(log: Log, name: str, entry: Entry) -> Log:
    """Return the log with one entry renewed; the oldest leave when there are too many."""
    entries = {other: held for other, held in log.entries.items() if other != name}
    entries[name] = entry
    return Log(entries=dict(list(entries.items())[-KEPT:]))


def _entry(looks: int, sample: Sample) -> Entry:
    return Entry(looks=looks, asked=dict(sample.asked), runs=sample.runs, cells=dict(sample.cells))
