"""The shapes of the score curves in a file, without a store: read, classified, counted in passing.

Memory stays bounded: curves are classified some thousands at a time and forgotten, but for a few
numbers each, from which the shares of the fleet are estimated at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.api.score_curves import Curves, curves
from stepscope.errors import DataError, UsageError
from stepscope.model import Stream
from stepscope.report.curve_types import Shapes
from stepscope.report.step_points import repeated
from stepscope.shape.batch import classify_ragged
from stepscope.shape.breaks import break_point
from stepscope.shape.fleet import prevalence
from stepscope.shape.names import SHAPES, UNRESOLVED, ShapeLabel
from stepscope.shape.types import Batch
from stepscope.shape.weights import gate_failed, weighted
from stepscope.stats import codes
from stepscope.values import Estimate, Unmeasured

Floats = npt.NDArray[np.float64]
Weights = Mapping[str, Sequence[float]]

# Weights of every run, beside those of a run or a task by its name.
EVERY = "*"
_SIGNALS = ("latency", "cost")


class RunShape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one run of a file, for each of its judges; steps are those of the file.

    Attributes:
        run: its name in the file.
        judge: who scored it; "" where the file does not say.
        steps: steps that are in the file, in order.
        scores: their scores, None where nobody scored.
        sigma: noise of a score; None where it was averaged over a range.
        shape: the shape, "unresolved", or why there is none.
        posterior: probability by shape.
        unmodelled: no shape fits.
        low_level: the mean is low, whatever the shape.
        mean: mean score.
        break_step: the most probable break; None where no break is declared.
        break_first: first step of the 90 % run of the break.
        break_last: last step of it.
        break_from: what the break rests on: "scores", and "latency" and "cost" where told.
        watch: steps where latency or cost spikes and the score holds.
        weighted: mean under the weights; None without weights or with a score missing.
        gate_failed: steps of weight 3 below the gate.
    """

    run: str
    judge: str
    steps: tuple[int, ...]
    scores: tuple[float | None, ...]
    sigma: float | None
    shape: ShapeLabel | Unmeasured
    posterior: dict[str, float] = msgspec.field(default_factory=dict)
    unmodelled: bool = False
    low_level: bool = False
    mean: float | None = None
    break_step: int | None = None
    break_first: int | None = None
    break_last: int | None = None
    break_from: tuple[str, ...] = ()
    watch: tuple[int, ...] = ()
    weighted: float | None = None
    gate_failed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Classified:
    """Curves of one sigma with their shapes; `run` makes one of them into a value."""

    curves: Curves
    batch: Batch
    sigma: float | None
    quantum: float | None
    weights: Weights

    def __len__(self) -> int:
        return len(self.curves)

    def run(self, at: int) -> RunShape:
        """Return one curve with its shape."""
        held = self.curves
        name, judge = held.runs[at]
        mine = slice(int(held.starts[at]), int(held.starts[at + 1]))
        scores = [None if np.isnan(s) else float(s) for s in held.scores[mine].tolist()]
        found = RunShape(
            run=name,
            judge=judge,
            steps=tuple(held.steps[mine].tolist()),
            scores=tuple(scores),
            sigma=self.sigma,
            shape=self._absence(at) or "unresolved",
        )
        found = self._weighed(found, at)
        return found if isinstance(found.shape, Unmeasured) else self._shaped(found, at, mine)

    def fails(self, at: int) -> bool:
        """Tell whether a step of weight 3 is below the gate."""
        return bool(self.of_weights(at)) and bool(self.run(at).gate_failed)

    def of_weights(self, at: int) -> tuple[float, ...] | None:
        """Return the weights of a curve: of the file, else by run, task, or for every run.

        Raises:
            UsageError: there are more or fewer than the run has steps.
        """
        held = self.curves
        name, _ = held.runs[at]
        own = held.numbers.get("weight")
        mine = slice(int(held.starts[at]), int(held.starts[at + 1]))
        if own is not None and not np.isnan(own[mine]).any():
            return tuple(own[mine].tolist())
        for key in (name, held.tasks[at], EVERY):
            if key in self.weights:
                found = tuple(self.weights[key])
                if len(found) != mine.stop - mine.start and key != EVERY:
                    raise UsageError(
                        f"{len(found)} weights for {key!r}, whose run {name!r} has "
                        f"{mine.stop - mine.start} scored steps; expected one a step"
                    )
                return found if len(found) == mine.stop - mine.start else None
        return None

    def _absence(self, at: int) -> Unmeasured | None:
        reason = int(self.batch.reasons[at])
        return self.batch.absences[reason - 1] if reason else None

    def _weighed(self, found: RunShape, at: int) -> RunShape:
        weights = self.of_weights(at)
        if weights is None:
            return found
        try:
            mean = weighted(found.scores, weights)
            rule = gate_failed(found.scores, weights, sigma=self.sigma)
        except DataError as e:
            raise UsageError(f"run {found.run!r}: {e}") from e
        failed = () if isinstance(rule, Unmeasured) else rule.failed
        return msgspec.structs.replace(
            found,
            weighted=None if isinstance(mean, Unmeasured) else mean,
            gate_failed=tuple([found.steps[step] for step in failed]),
        )

    def _shaped(self, found: RunShape, at: int, mine: slice) -> RunShape:
        batch = self.batch
        row = int(np.searchsorted(batch.rows, at))
        label = int(batch.label[row])
        unmodelled = bool(batch.unmodelled[row])
        found = msgspec.structs.replace(
            found,
            shape="unresolved" if label == UNRESOLVED else SHAPES[label],
            posterior=dict(zip(SHAPES, batch.posterior[row].tolist(), strict=True)),
            unmodelled=unmodelled,
            low_level=bool(batch.low_level[row]),
            mean=float(batch.mean[row]),
            break_from=("scores",),
        )
        signals = {n: self.curves.numbers[n][mine] for n in _SIGNALS if n in self.curves.numbers}
        if any((~np.isnan(cells)).any() for cells in signals.values()):
            return self._fused(found, signals)
        entry = [int(a[row]) for a in (batch.break_step, batch.break_low, batch.break_high)]
        return found if unmodelled else _broken(found, entry)

    def _fused(self, found: RunShape, signals: Mapping[str, Floats]) -> RunShape:
        """Return a curve with the break that scores, latency and cost give together."""
        broke = break_point(
            found.scores,
            latency=signals.get("latency"),
            cost=signals.get("cost"),
            sigma=self.sigma,
            quantum=self.quantum,
        )
        if isinstance(broke, Unmeasured):
            return found
        entry = [-1 if at is None else at for at in (broke.step, broke.first, broke.last)]
        watched = msgspec.structs.replace(
            found,
            watch=tuple([found.steps[at] for at in broke.watch]),
            break_from=broke.sources,
        )
        return watched if found.unmodelled else _broken(watched, entry)


def _broken(found: RunShape, entry: Sequence[int]) -> RunShape:
    step, first, last = (None if at < 0 else found.steps[at] for at in entry)
    return msgspec.structs.replace(found, break_step=step, break_first=first, break_last=last)


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
