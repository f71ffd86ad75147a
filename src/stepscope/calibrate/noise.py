"""The sigma of every judge, from steps that it scored more than once.

Scorings of one step by one judge under different `repeat` are duplicates. What this measures is how
well a judge agrees with itself; a judge that is wrong the same way each time has no noise here.
Kept by the store, the upper limit is what shapes are classified with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.errors import TraceError
from stepscope.formats.scores.rows import read_score_rows
from stepscope.formats.scores.runs import group_runs
from stepscope.model import Quarantined, Stream
from stepscope.model.records import STEP_SCORES
from stepscope.store import Store
from stepscope.values import Decision, Estimate, Unmeasured


class JudgeNoise(msgspec.Struct, frozen=True, kw_only=True):
    """How far apart one judge scores the same step twice."""

    judge: str  # who scored; "" where the scores name nobody
    sigma: Estimate | Unmeasured  # in the unit of the scores, or why it is not known
    # whether its whole interval is small enough for shapes; None without sigma
    decision: Decision | None = None


Scorings = dict[str, list[tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]]]


def noise_of_store(store: Store, *, quantum: float | None = None) -> list[JudgeNoise]:
    """Return the noise of every judge with step scores in the store."""
    column = store.step_values(STEP_SCORES, store.runs())
    steps = int(column.step.max(initial=0)) + 1
    found: Scorings = {}
    for number, (_, judge) in enumerate(column.scorers):
        mine = (column.scorer == number) & ~np.isnan(column.value)
        entry = column.at[mine] * steps + column.step[mine]
        found.setdefault(judge, []).append((column.value[mine], entry))
    return list(_noises(found, quantum))


def noise_of_file(stream: Stream, *, quantum: float | None = None) -> list[JudgeNoise]:
    """Return the noise of every judge in a file of scores; `TraceError` names a bad row."""
    found: Scorings = {}
    begun = 0
    for group in group_runs(read_score_rows(stream), stream.uri):
        if isinstance(group, Quarantined):
            raise TraceError(f"{stream.uri}, {group.reason}", offset=group.offset)
        rows = group.rows
        run = np.repeat(np.arange(len(group.names)), np.diff(group.starts))
        changes = (run[1:] != run[:-1]) | (rows.step[1:] != rows.step[:-1])
        entry = begun + np.cumsum(np.append(0, changes))
        begun = int(entry[-1]) + 1
        names = np.array(rows.texts.get("judge") or [""] * len(rows), dtype=np.object_)
        for judge in dict.fromkeys(names.tolist()):
            mine = np.equal(names, judge) & ~np.isnan(rows.score)
            found.setdefault(judge, []).append((rows.score[mine], entry[mine]))
    return list(_noises(found, quantum))


def _noises(found: Scorings, quantum: float | None) -> Iterator[JudgeNoise]:
    for judge in sorted(found):
        scores = np.concatenate([scores for scores, _ in found[judge]])
        steps = np.concatenate([steps for _, steps in found[judge]])
        sigma = stats.sigma(scores, steps, quantum=quantum)
        decision = None if isinstance(sigma, Unmeasured) else stats.tolerable(sigma)
        yield JudgeNoise(judge=judge, sigma=sigma, decision=decision)


def store_noise(store: Store, measured: Iterable[JudgeNoise]) -> int:
    """Keep the sigma of judges in the store, where shapes look it up; return how many."""
    known = {noise.judge: noise.sigma for noise in measured if isinstance(noise.sigma, Estimate)}
    store.put_noise(known)
    return len(known)
