"""The score curves of many runs as columns: the same points as `step_points`, no trace decoded.

Of several scorers the one who scored most steps of these runs is taken for all of them. Step labels
stand in only where no run has a score: shapes of two sources are never put together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt

import numpy as np
import numpy.typing as npt

from stepscope.report.curve_types import CurveSource
from stepscope.report.step_points import LABEL_SCORES, LABEL_SIGMA
from stepscope.store.columns import Rows, Runs, StepColumn
from stepscope.store.scores import FAMILY, MEASURE
from stepscope.values import Estimate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

# Labels say little of a run's shape: for more runs than this they are not read.
LABELLED_RUNS = 20_000
# Labelled runs are read in this many parts: templates for each length of a run take longer to make
# than a report may take. What is not known of unlabelled steps does not average out over a part, so
# that its noise is that of one step.
PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPoints:
    """Curves laid end to end.

    Attributes:
        at: shape (k,), place of each run that has a curve among the runs asked for, rising.
        lengths: shape (k,), its scored steps.
        steps: shape (n,), index of each scored step in its run.
        scores: shape (n,), NaN where a step was looked at and not scored.
        sigma: shape (n,), noise of each score; None where nobody has measured it.
        source: where the scores come from.
        judge: who gave them.
        repeats: fewest and most scorings averaged in a score.
        others: scorers left aside.
    """

    at: Ints
    lengths: Ints
    steps: Ints
    scores: Floats
    sigma: Floats | None
    source: CurveSource
    judge: str = ""
    repeats: tuple[int, int] = (1, 1)
    others: tuple[str, ...] = ()


def fleet_points(rows: Rows, runs: Runs) -> FleetPoints | None:
    """Return the curves of the runs; None where there are none."""
    column = rows.step_values(MEASURE, runs)
    if len(column):
        return _scored(column, rows.noise())
    return _labelled(rows, runs) if len(runs) <= LABELLED_RUNS else None


def _scored(column: StepColumn, noise: Mapping[str, Estimate]) -> FleetPoints:
    scored = np.bincount(column.scorer[~np.isnan(column.value)], minlength=len(column.scorers))
    order = sorted(range(len(column.scorers)), key=lambda i: (-scored[i], column.scorers[i]))
    family, judge = column.scorers[order[0]]
    mine = np.flatnonzero(column.scorer == order[0])
    at, step, value = column.at[mine], column.step[mine], column.value[mine]
    first = np.flatnonzero(np.append(True, (at[1:] != at[:-1]) | (step[1:] != step[:-1])))
    known = ~np.isnan(value)
    counts = np.add.reduceat(known.astype(np.int64), first)
    sums = np.add.reduceat(np.where(known, value, 0.0), first)
    scores = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    begins = np.flatnonzero(np.append(True, at[first][1:] != at[first][:-1]))
    lengths = np.diff(np.append(begins, len(first)))
    # As for one run: the noise of a mean is that of its step with the fewest scorings.
    fewest = np.minimum.reduceat(np.where(counts > 0, counts, np.iinfo(np.int64).max), begins)
    measured = noise.get(judge)
    sigma = None
    if measured is not None and measured.high is not None:
        held = np.maximum(np.where(fewest == np.iinfo(np.int64).max, 1, fewest), 1)
        sigma = np.repeat(np.minimum(measured.high / np.sqrt(held), 1.0), lengths)
    some = counts[counts > 0]
    return FleetPoints(
        at=at[first][begins],
        lengths=lengths,
        steps=step[first],
        scores=scores,
        sigma=sigma,
        source="imported" if family == FAMILY else "judge",
        judge=judge,
        repeats=(int(some.min(initial=1)), int(some.max(initial=1))),
        others=tuple(sorted(column.scorers[i][1] or "unnamed" for i in order[1:])),
    )


def _labelled(rows: Rows, runs: Runs) -> FleetPoints | None:
    by_label = {
        label: rows.cited(f"step_labels.{name}", runs)
        for label, name in (("ERROR", "errors"), ("REDUNDANT", "redundant"))
    }
    acted = rows.cited("step_labels.steps", runs)
    at: list[int] = []
    lengths: list[int] = []
    steps: list[int] = []
    scores: list[float] = []
    for place, made in enumerate(acted):
        labels: dict[int, str] = {}
        for label in ("REDUNDANT", "ERROR"):
            labels.update(dict.fromkeys(by_label[label][place] or (), label))
        if not made or not labels:
            continue
        parts = min(len(made), PARTS)
        ends = [len(made) * part // parts for part in range(parts + 1)]
        values = [LABEL_SCORES[labels.get(step, "")] for step in made]
        at.append(place)
        lengths.append(parts)
        steps += [made[first] for first in ends[:-1]]
        scores += [sum(values[a:b]) / (b - a) for a, b in pairwise(ends)]
    if not at:
        return None
    return FleetPoints(
        at=np.array(at, np.int64),
        lengths=np.array(lengths, np.int64),
        steps=np.array(steps, np.int64),
        scores=np.array(scores, np.float64),
        sigma=np.full(len(steps), LABEL_SIGMA),
        source="step_labels",
    )


def noise_text(found: FleetPoints, noise: Mapping[str, Estimate]) -> str:
    """Say which noise the scores were taken to have, and where that comes from."""
    if found.source == "step_labels":
        return f"{LABEL_SIGMA:g}, assumed: nobody scored these steps"
    measured = noise.get(found.judge)
    if found.sigma is None or measured is None or measured.high is None:
        return "unknown, averaged over a range; stepscope calibrate sigma measures it"
    low, high = (f"{measured.high / sqrt(n):.3f}".lstrip("0") for n in reversed(found.repeats))
    said = low if low == high else f"{low} to {high}"
    return f"{said}, the upper limit over repeated scorings"


def source_text(found: FleetPoints) -> str:
    """Say where the scores come from, and who was left aside."""
    if found.source == "step_labels":
        return "labels that rules gave to steps, taken as scores"
    kind = "imported step scores" if found.source == "imported" else "step scores of a judge"
    said = f"{kind} of {found.judge}" if found.judge else kind
    low, high = found.repeats
    if high > 1:
        said += f", means of {low if low == high else f'{low} to {high}'} scorings"
    if found.others:
        said += f" ({', '.join(found.others)} left aside)"
    return said
