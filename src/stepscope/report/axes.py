"""The failure profile: by axis, the share of the runs it could judge in which it found a fault.

A run that an axis calls uncertain is neither good nor bad: it is counted beside the share, and the
worst case counts it either way. A run that an axis does not apply to asks nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from stepscope import stats
from stepscope.report.keys import AXES, UNCERTAIN, explained
from stepscope.report.rows import Table
from stepscope.report.types import Figure
from stepscope.values import Unmeasured

INCORRECT = "incorrect"


def judged(table: Table, measure: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return which runs an axis found at fault, 1 or 0, and which it could judge."""
    column = table.columns[measure]
    decided = column.answered & (column.label != UNCERTAIN)
    return (column.label == INCORRECT).astype(np.float64), decided


def axes(table: Table) -> Iterator[tuple[str, Figure]]:
    """Yield the share of incorrect runs of each axis, by the key of the figure."""
    for key in AXES:
        faults, decided = judged(table, key)
        lost = table.lost(key)
        clusters = table.clusters[decided]
        figure: Figure = stats.proportion(faults[decided], clusters, unmeasured=lost)
        if not decided.any() and UNCERTAIN in lost:
            why = f"the rules can tell in none of {lost[UNCERTAIN]:,} runs"
            figure = Unmeasured("insufficient_data", why)
        yield key, explained(key, figure)
