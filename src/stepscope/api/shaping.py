"""The shapes of the score curves in a file, without a store: read, classified, counted in passing.

Memory stays bounded: curves are classified some thousands at a time and forgotten, but for a few
numbers each, from which the shares of the fleet are estimated at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt

from stepscope.api.run_shapes import Classified, RunShape, Weights
from stepscope.api.score_curves import Curves, curves
from stepscope.model import Stream
from stepscope.report.curve_types import Shapes
from stepscope.report.step_points import repeated
from stepscope.shape.batch import classify_ragged
from stepscope.shape.fleet import prevalence
from stepscope.shape.names import SHAPES, UNRESOLVED
from stepscope.stats import codes
from stepscope.values import Estimate, Unmeasured

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class _Counts:
    """What is kept of every curve that was read."""

    labels: Counter[str] = field(default_factory=Counter)
    beside: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    likelihoods: list[Floats] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    judges: set[str] = field(default_factory=set)
    sigmas: set[float | None] = field(default_factory=set)
    repeats: int = 1


class FileShapes:
    """The shapes of a file of scores: iterate once over its curves, then ask for the `fleet`.

    A context manager that closes the file.
    """

    def __init__(
        self,
        stream: Stream,
        *,
        sigma: float | None = None,
        quantum: float | None = None,
        weights: Weights | None = None,
        noise: Mapping[str, Estimate] | None = None,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            stream: the file.
            sigma: noise of one score; when left out that of `noise`, else it is averaged over.
            quantum: step between the values that the judge can give.
            weights: of steps, by name of a run or task, or `EVERY`.
            noise: the sigma of each judge, from repeated scorings.
            seed: where random draws start.
            progress: called with the number of curves done, and 0.
        """
        self._stream = stream
        self._sigma = sigma
        self._quantum = quantum
        self._weights = weights or {}
        self._noise = noise or {}
        self._seed = seed
        self._progress = progress
        self._counts = _Counts()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stream.file.close()

    def __iter__(self) -> Iterator[RunShape]:
        """Yield every curve of the file.

        Raises:
            TraceError: a row cannot be read, or a column is missing; the message names the row.
        """
        for part in self.batches():
            for at in range(len(part)):
                yield part.run(at)

    def batches(self) -> Iterator[Classified]:
        """Yield curves some thousands at a time, classified; raises as `__iter__`."""
        done = 0
        for held in curves(self._stream):
            for sigma, part in self._by_sigma(held):
                batch = classify_ragged(
                    part.scores, np.diff(part.starts), sigma=sigma, quantum=self._quantum
                )
                found = Classified(
                    curves=part,
                    batch=batch,
                    sigma=sigma,
                    quantum=self._quantum,
                    weights=self._weights,
                )
                self._count(found)
                yield found
            done += len(held)
            if self._progress is not None:
                self._progress(done, 0)

    def fleet(self) -> Shapes:
        """Return the shares of the shapes over the curves read so far, and what was counted."""
        counts = self._counts
        rows = np.concatenate([*counts.likelihoods, np.empty((0, len(SHAPES)))])
        unmodelled = counts.beside["unmodelled"]
        lost = dict(counts.lost)
        shares = prevalence(
            rows,
            rng=np.random.default_rng(self._seed),
            clusters=codes(counts.tasks) if all(counts.tasks) and counts.tasks else None,
            unmeasured={**lost, **({"unmodelled": unmodelled} if unmodelled else {})},
        )
        return Shapes(
            shares={} if isinstance(shares, Unmeasured) else shares,
            no_shares=shares if isinstance(shares, Unmeasured) else None,
            labels={name: counts.labels[name] for name in SHAPES if counts.labels[name]},
            n_runs=len(rows) + unmodelled,
            unresolved=counts.beside["unresolved"],
            unmodelled=unmodelled,
            low_level=counts.beside["low_level"],
            gate_failed=counts.beside["gate_failed"],
            unmeasured=lost,
            source=self._source(),
            sigma=self._noise_text(),
        )

    def _by_sigma(self, held: Curves) -> Iterator[tuple[float | None, Curves]]:
        """Yield the curves by the noise of their scores: one part, unless judges differ."""
        asked = list(zip(held.runs, held.repeats.tolist(), strict=True))
        known = {
            key: repeated(key[0], key[1], self._noise) if self._sigma is None else self._sigma
            for key in {(judge, repeats) for (_, judge), repeats in asked}
        }
        self._counts.judges.update(judge for judge, _ in known)
        self._counts.repeats = max(self._counts.repeats, *(n for _, n in known))
        self._counts.sigmas.update(known.values())
        values = list(dict.fromkeys(known.values()))
        if len(values) == 1:
            yield values[0], held
            return
        of = [known[judge, repeats] for (_, judge), repeats in asked]
        for value in values:
            yield value, held.take(np.flatnonzero([sigma == value for sigma in of]))

    def _count(self, found: Classified) -> None:
        counts, batch = self._counts, found.batch
        fitted = ~batch.unmodelled
        for code, n in zip(*np.unique(batch.label[fitted], return_counts=True), strict=True):
            if code == UNRESOLVED:
                counts.beside["unresolved"] += int(n)
            else:
                counts.labels[SHAPES[code]] += int(n)
        counts.beside["unmodelled"] += int(batch.unmodelled.sum())
        counts.beside["low_level"] += int(batch.low_level.sum())
        if self._weights or "weight" in found.curves.numbers:
            counts.beside["gate_failed"] += sum(found.fails(at) for at in range(len(found)))
        for reason, n in zip(*np.unique(batch.reasons, return_counts=True), strict=True):
            if reason:
                counts.lost[batch.absences[reason - 1].kind] += int(n)
        counts.likelihoods.append(batch.log_likelihood[fitted])
        counts.tasks += [found.curves.tasks[at] for at in batch.rows[fitted].tolist()]

    def _source(self) -> str:
        counts = self._counts
        named = sorted(judge for judge in counts.judges if judge)
        said = f"{self._stream.uri}, judged by {', '.join(named)}" if named else self._stream.uri
        return f"{said}, means of up to {counts.repeats} scorings" if counts.repeats > 1 else said

    def _noise_text(self) -> str:
        if self._sigma is not None:
            return f"{self._sigma:g}, given"
        known = sorted(sigma for sigma in self._counts.sigmas if sigma is not None)
        if not known:
            return "unknown, averaged over a range; --sigma says it"
        said = f"{known[0]:.3f}" + (f" to {known[-1]:.3f}" if len(known) > 1 else "")
        more = "; of some judges unknown" if None in self._counts.sigmas else ""
        return f"{said}, the upper limit over repeated scorings{more}"
