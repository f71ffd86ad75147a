"""The shapes of the runs of a report: one column a fact, and the shares of each group.

Shares are estimated over all runs of a group that could be classified, resolved or not; runs that
no shape fits are counted beside them. Step labels say too little for shares: there are none then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.report.curve_types import NO_CURVES, Shapes
from stepscope.report.fleet_points import FleetPoints, fleet_points, noise_text, source_text
from stepscope.shape.batch import classify_ragged
from stepscope.shape.fleet import prevalence
from stepscope.shape.names import SHAPES, UNRESOLVED
from stepscope.shape.types import Batch
from stepscope.shape.weights import gate_failed
from stepscope.store.columns import ANSWERED, NO_RECORD, Rows, Runs, kind_of, state_of
from stepscope.store.weights import EVERY
from stepscope.values import Unmeasured

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)
Mask = npt.NDArray[np.bool_] | npt.NDArray[np.int64]

LABELS_ARE_NO_SCORES = Unmeasured(
    "missing_input", "labels of rules say where errors are, not how well the other steps went"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShapes:
    """What the curve of each run says, aligned with the runs of a table.

    Attributes:
        state: 1 classified, 0 without a curve, negative: unmeasured, see `columns.kind_of`.
        label: index of the shape, or -1: unresolved, unmodelled, or not classified.
        unmodelled: no shape fits the run.
        low_level: its mean is low, whatever its shape.
        gate_failed: a step of the highest weight is below the gate.
        break_step: index of the step where it broke, -1 where no break is declared.
        log_likelihood: shape (m, 5); meaningless where the state is not 1.
        source: where the scores come from, in words.
        sigma: their noise, in words.
        scored: whether they are scores, not labels.
    """

    state: npt.NDArray[np.int8]
    label: npt.NDArray[np.int8]
    unmodelled: Flags
    low_level: Flags
    gate_failed: Flags
    break_step: Ints
    log_likelihood: npt.NDArray[np.float64]
    source: str
    sigma: str
    scored: bool

    def take(self, chosen: Mask) -> FleetShapes:
        """Return the chosen rows."""
        return replace(
            self,
            state=self.state[chosen],
            label=self.label[chosen],
            unmodelled=self.unmodelled[chosen],
            low_level=self.low_level[chosen],
            gate_failed=self.gate_failed[chosen],
            break_step=self.break_step[chosen],
            log_likelihood=self.log_likelihood[chosen],
        )

    @property
    def fitted(self) -> Flags:
        """Runs that were classified and that a shape fits."""
        return np.equal(self.state, ANSWERED) & ~self.unmodelled

    def lost(self) -> dict[str, int]:
        """Return how many runs have no shape, by kind; those without a curve are missing input."""
        found = {"missing_input": int((self.state == NO_RECORD).sum())}
        for state, n in zip(
            *np.unique(self.state[self.state < 0], return_counts=True), strict=True
        ):
            kind = kind_of(int(state))
            found[kind] = found.get(kind, 0) + int(n)
        return {kind: n for kind, n in found.items() if n}


def fleet_shapes(rows: Rows, runs: Runs) -> FleetShapes | None:
    """Return what the curves of the runs say; None where no run has one."""
    found = fleet_points(rows, runs)
    if found is None:
        return None
    sigma = found.sigma
    if sigma is not None and len(sigma) and (sigma == sigma[0]).all():
        batch = classify_ragged(found.scores, found.lengths, sigma=float(sigma[0]))
    else:
        batch = classify_ragged(found.scores, found.lengths, sigma=sigma)
    size = len(runs)
    state = np.full(size, NO_RECORD, np.int8)
    kinds = np.array([ANSWERED, *(state_of(absent.kind) for absent in batch.absences)], np.int8)
    state[found.at] = kinds[batch.reasons]
    at = found.at[batch.rows]
    return FleetShapes(
        state=state,
        label=_spread(at, size, batch.label, UNRESOLVED),
        unmodelled=_spread(at, size, batch.unmodelled, False),
        low_level=_spread(at, size, batch.low_level, False),
        gate_failed=_gates(rows, runs, found),
        break_step=_spread(at, size, _steps(found, batch), -1),
        log_likelihood=_spread(at, size, batch.log_likelihood, 0.0),
        source=source_text(found),
        sigma=noise_text(found, rows.noise()),
        scored=found.source != "step_labels",
    )


def _spread(at: Ints, size: int, values: npt.NDArray[T], absent: float) -> npt.NDArray[T]:
    """Return values in the places of their runs, `absent` in all others."""
    whole = np.full((size, *values.shape[1:]), absent, values.dtype)
    whole[at] = values
    return whole


def _steps(found: FleetPoints, batch: Batch) -> Ints:
    """Return the step of the run at which each curve broke, -1 for none."""
    begins = np.cumsum(found.lengths) - found.lengths
    entry = batch.break_step.astype(np.int64)
    broken = (entry >= 0) & ~batch.unmodelled
    return np.where(broken, found.steps[begins[batch.rows] + np.maximum(entry, 0)], -1)


def _gates(rows: Rows, runs: Runs, found: FleetPoints) -> Flags:
    """Tell which runs have a step of the highest weight below the gate."""
    failed = np.zeros(len(runs), np.bool_)
    weights = rows.weights()
    if not weights:
        return failed
    begins = (np.cumsum(found.lengths) - found.lengths).tolist()
    for at, first, length in zip(found.at.tolist(), begins, found.lengths.tolist(), strict=True):
        workflow = runs.workflow[at]
        task = runs.task[at] or runs.name[at]
        own = weights.get((workflow, task)) or weights.get((workflow, EVERY))
        if own is None or len(own) != length:
            continue
        mine = slice(first, first + length)
        sigma = None if found.sigma is None else found.sigma[mine].tolist()
        rule = gate_failed(found.scores[mine].tolist(), own, sigma=sigma)
        failed[at] = not isinstance(rule, Unmeasured) and rule.is_failed
    return failed


def shapes(of: FleetShapes | None, clusters: Ints, seed: int) -> Shapes | Unmeasured:
    """Return the shapes of a group of runs: shares with intervals, and what was counted beside.

    Args:
        of: what the curves of the group say.
        clusters: the task of each run, as a number.
        seed: where random draws start.
    """
    if of is None or not (of.state != NO_RECORD).any():
        return NO_CURVES
    fitted, answered = of.fitted, of.state == ANSWERED
    lost = of.lost()
    unmodelled = int(of.unmodelled.sum())
    shares = LABELS_ARE_NO_SCORES if not of.scored else prevalence(
        of.log_likelihood[fitted],
        rng=np.random.default_rng([seed, 0x53484150]),
        clusters=clusters[fitted],
        unmeasured={**lost, **({"unmodelled": unmodelled} if unmodelled else {})},
    )  # fmt: skip
    counts = np.bincount(of.label[of.label >= 0], minlength=len(SHAPES)).tolist()
    return Shapes(
        shares={} if isinstance(shares, Unmeasured) else shares,
        no_shares=shares if isinstance(shares, Unmeasured) else None,
        labels={str(name): n for name, n in zip(SHAPES, counts, strict=True) if n},
        n_runs=int(answered.sum()),
        unresolved=int((fitted & (of.label == UNRESOLVED)).sum()),
        unmodelled=unmodelled,
        low_level=int(of.low_level.sum()),
        gate_failed=int(of.gate_failed.sum()),
        unmeasured=lost,
        source=of.source,
        sigma=of.sigma,
    )
