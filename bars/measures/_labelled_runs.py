"""Failed runs in which people named a step, with the features of every step of the agent."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from stepscope.formats.reading import read_files
from stepscope.measures.localise import FACTORS_COLUMN, find_evidence, log_factors
from stepscope.measures.step_features import (
    FAMILIES,
    NAMES,
    agent_steps,
    family_of,
    step_features,
)
from stepscope.model import Trajectory

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SUBSETS: Final = ("whowhen-algorithm", "whowhen-handcrafted", "agentrx, all")
# Log of the product of the factors of all evidence at the step: how other evidence comes in.
COLUMNS: Final = (*NAMES, FACTORS_COLUMN)


class Example(NamedTuple):
    """A failed run and the steps that people named in it."""

    run: Trajectory
    named: tuple[int, ...]

    def near(self, step: int, tolerance: int) -> bool:
        """Tell whether a step is within `tolerance` of any that was named."""
        return any(abs(step - named) <= tolerance for named in self.named)


def examples_of(folder: Path) -> dict[str, list[Example]]:
    """Return the labelled failed runs by set."""
    sets: dict[str, list[Example]] = {}
    for reading in read_files([str(folder / "whowhen"), str(folder / "agentrx-retail")]):
        for run in reading:
            if isinstance(run, Trajectory) and run.outcome.status == "fail":
                for name, named in _named(run):
                    if named:
                        sets.setdefault(name, []).append(Example(run, named))
    return sets


def _named(run: Trajectory) -> list[tuple[str, tuple[int, ...]]]:
    decisive = tuple(x.step for x in run.labels if x.kind == "decisive_step" and x.step is not None)
    failures = tuple(x.step for x in run.labels if x.kind == "failure" and x.step is not None)
    own = tuple(step for step in failures if run.steps[step].actor == "agent")
    return [(run.workflow, decisive), ("agentrx, agent's", own), ("agentrx, all", failures)]


def tuned_on(run: Trajectory) -> bool:
    """Tell whether the run's task belongs to the half that the factors were set on."""
    return sha256((run.task or "").encode()).digest()[0] % 2 == 0


class Runs(NamedTuple):
    """Labelled runs, the rows of all their agents' steps below each other."""

    examples: list[Example]
    subset: Ints  # by run: index into SUBSETS
    family: Ints  # by run: index into FAMILIES
    task: npt.NDArray[np.str_]
    start: Ints  # first row of each run, and one past the last
    rows: Floats
    named: Floats  # by row: 1 where people named the step

    @property
    def n(self) -> int:
        """The number of runs."""
        return len(self.examples)

    def span(self, run: int) -> slice:
        """Return the rows of a run."""
        return slice(int(self.start[run]), int(self.start[run + 1]))

    def has_agent_label(self, run: int) -> bool:
        """Tell whether people named a step of the agent."""
        return bool(self.named[self.span(run)].any())


def read_runs(folder: Path) -> Runs:
    """Return the labelled failed runs with their features."""
    sets = examples_of(folder)
    chosen = [(at, example) for at, name in enumerate(SUBSETS) for example in sets[name]]
    rows, named = [], []
    for _, example in chosen:
        run = example.run
        factors = log_factors(run, find_evidence(run, run.case))
        rows.append(np.column_stack([np.array(step_features(run), np.float64), factors]))
        named.append(np.isin(agent_steps(run), example.named).astype(np.float64))
    lengths = [len(values) for values in rows]
    return Runs(
        examples=[example for _, example in chosen],
        subset=np.array([at for at, _ in chosen]),
        family=np.array([FAMILIES.index(family_of(e.run)) for _, e in chosen]),
        task=np.array([example.run.task or "" for _, example in chosen]),
        start=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows=np.concatenate(rows),
        named=np.concatenate(named),
    )


def hash_data(folder: Path) -> dict[str, str]:
    """Return sha256 over the names and bytes of the files of each set."""
    hashes = {}
    for name in ("whowhen", "agentrx-retail"):
        total = sha256()
        for path in sorted((folder / name).rglob("*.json")):
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
        hashes[name] = total.hexdigest()
    return hashes
