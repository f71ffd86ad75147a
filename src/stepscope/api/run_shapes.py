"""One curve of a file with shape, break and gate, made of columns when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.api.score_curves import Curves
from stepscope.errors import DataError, UsageError
from stepscope.shape.breaks import break_point
from stepscope.shape.names import SHAPES, UNRESOLVED, ShapeLabel
from stepscope.shape.types import Batch
from stepscope.shape.weights import gate_failed, weighted
from stepscope.values import Unmeasured

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
