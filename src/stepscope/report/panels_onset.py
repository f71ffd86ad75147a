"""Where a behaviour shows over a run: in how many runs, from which place on, and how it spreads.

A rate alone hides whether a behaviour is there from the start or comes when a run grows long. Steps
that the judge could not answer are in no share. A run is cut into ten parts of equal length by the
place of its steps, whatever it consists of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.model import Verdict
from stepscope.report.panels_shares import Bench, Group
from stepscope.report.panels_types import Onset
from stepscope.report.panels_votes import PRESENT
from stepscope.report.rows import Table
from stepscope.store.judged import Judged, OfRun

TENTHS = 10
Floats = npt.NDArray[np.float64]


def onsets(
    table: Table, judged: Sequence[Judged], groups: Sequence[Group], benches: Sequence[Bench]
) -> Iterator[Onset]:
    """Yield what each judge says of each behaviour, by group of runs."""
    by_rubric = {bench.aspect.rubric: bench for bench in benches}
    for one in judged:
        bench = by_rubric.get(one.asked.measure)
        if not one.main or bench is None or bench.aspect.failing != PRESENT:
            continue
        first, present, told = _places(table, one)
        votes = next(v for v in bench.aspect.votes if v.member.judge == one.asked.judge)
        for of in groups:
            chosen = np.zeros(len(table), np.bool_)
            chosen[of.places] = True
            began = chosen & ~np.isnan(first)
            clusters = table.clusters
            yield Onset(
                rubric=one.asked.measure,
                judge=one.asked.judge,
                group=of.title,
                runs=bench.share(votes.failing, votes.answered & chosen, {}),
                onset=stats.quantile(first[began], 0.5, clusters[began], unit="share of the run"),
                tenths=tuple(
                    stats.ratio(
                        present[chosen, tenth],
                        told[chosen, tenth],
                        clusters[chosen],
                        unit_of_n="steps",
                    )
                    for tenth in range(TENTHS)
                ),
            )


def _places(table: Table, one: Judged) -> tuple[Floats, Floats, Floats]:
    """Return the place of the first step that shows it, and steps that do and that were judged.

    The first has shape (runs,), NaN where no step does; the others (runs, tenths).
    """
    first = np.full(len(table), np.nan)
    present, told = (np.zeros((len(table), TENTHS)) for _ in range(2))
    for at, of_run in one.runs.items():
        last = max(int(table.runs.steps[at]) - 1, 1)
        for step, shows in _shown(of_run):
            place = min(step / last, 1.0)
            tenth = min(int(place * TENTHS), TENTHS - 1)
            told[at, tenth] += 1
            if shows:
                present[at, tenth] += 1
                first[at] = np.fmin(first[at], place)
    return first, present, told


def _shown(of_run: OfRun) -> Iterator[tuple[int, bool]]:
    for step, record in of_run.steps.get(0, {}).items():
        if isinstance(record.answer, Verdict):
            yield step, record.answer.label == PRESENT
