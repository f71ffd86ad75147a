"""Curves from a file of step scores, some thousands at a time; repeats of a step are averaged.

A row that cannot be read is an error that names it: a curve with a hole that nobody meant has
another shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.errors import TraceError
from stepscope.formats.score_files import chunks
from stepscope.formats.score_groups import Group, groups
from stepscope.formats.score_rows import BadRow
from stepscope.model import Stream

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Curves held at once: enough that what is made for a length of curve serves many.
BATCH_CURVES = 20_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curves:
    """Curves laid end to end, one for each run and judge.

    Attributes:
        runs: name and judge of each curve, m of them.
        tasks: task of each, "" where the file does not say.
        starts: shape (m + 1,), where each begins.
        steps: shape (n,), index of each scored step.
        scores: shape (n,), NaN where nobody scored.
        repeats: shape (m,), fewest scorings averaged in a score of the curve.
        numbers: latency, cost and weight of each step, where the file has them; NaN where empty.
    """

    runs: list[tuple[str, str]]
    tasks: list[str]
    starts: Ints
    steps: Ints
    scores: Floats
    repeats: Ints
    numbers: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.runs)

    def take(self, at: Ints) -> Curves:
        """Return the curves at some places."""
        spans = [np.arange(self.starts[i], self.starts[i + 1]) for i in at.tolist()]
        entries = np.concatenate(spans) if spans else np.empty(0, np.int64)
        lengths = np.diff(self.starts)[at]
        return Curves(
            runs=[self.runs[i] for i in at.tolist()],
            tasks=[self.tasks[i] for i in at.tolist()],
            starts=np.append(0, np.cumsum(lengths)),
            steps=self.steps[entries],
            scores=self.scores[entries],
            repeats=self.repeats[at],
            numbers={name: cells[entries] for name, cells in self.numbers.items()},
        )


def curves(stream: Stream) -> Iterator[Curves]:
    """Yield the curves of a file in batches.

    Raises:
        TraceError: a row cannot be read, or a column is missing; the message names the row.
    """
    held: list[Curves] = []
    for found in groups(chunks(stream), stream.uri):
        if isinstance(found, BadRow):
            raise TraceError(f"{stream.uri}, row {found.row}: {found.reason}", offset=found.row)
        held.append(_averaged(found))
        if sum(map(len, held)) >= BATCH_CURVES:
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _averaged(group: Group) -> Curves:
    """Return the curves of whole runs; rows are ordered by run, judge, step, repeat."""
    rows = group.rows
    run = np.repeat(np.arange(len(group.names)), np.diff(group.starts))
    judges = rows.texts.get("judge")
    changes = run[1:] != run[:-1]
    if judges is not None:
        changes |= np.array([a != b for a, b in zip(judges[1:], judges, strict=False)], np.bool_)
    first = np.append(True, changes)
    own = np.append(True, changes | (rows.step[1:] != rows.step[:-1]))
    entry = np.flatnonzero(own)
    known = ~np.isnan(rows.score)
    counts = np.add.reduceat(known.astype(np.int64), entry)
    sums = np.add.reduceat(np.where(known, rows.score, 0.0), entry)
    begins = np.flatnonzero(first[entry])
    fewest = np.minimum.reduceat(np.where(counts > 0, counts, np.iinfo(np.int64).max), begins)
    places = entry[begins].tolist()
    tasks = rows.texts.get("task")
    return Curves(
        runs=[(rows.run[i], "" if judges is None else judges[i]) for i in places],
        tasks=["" if tasks is None else tasks[i] for i in places],
        starts=np.append(begins, len(entry)),
        steps=rows.step[entry],
        scores=np.where(counts > 0, sums / np.maximum(counts, 1), np.nan),
        repeats=np.where(fewest == np.iinfo(np.int64).max, 1, fewest),
        numbers={name: cells[entry] for name, cells in rows.numbers.items()},
    )


def _joined(parts: list[Curves]) -> Curves:
    names = {name: None for part in parts for name in part.numbers}
    offsets = np.cumsum([0, *(len(part.steps) for part in parts)])
    starts = [part.starts[:-1] + off for part, off in zip(parts, offsets.tolist(), strict=False)]
    return Curves(
        runs=[run for part in parts for run in part.runs],
        tasks=[task for part in parts for task in part.tasks],
        starts=np.append(np.concatenate(starts), offsets[-1]),
        steps=np.concatenate([part.steps for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        repeats=np.concatenate([part.repeats for part in parts]),
        numbers={
            name: np.concatenate([
                part.numbers.get(name, np.full(len(part.steps), np.nan)) for part in parts
            ])
            for name in names
        },
    )  # fmt: skip
