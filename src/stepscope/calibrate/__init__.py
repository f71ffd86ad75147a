"""Can the instrument be trusted: agreement of raters, noise of judges, the held-out gap.

A name is loaded when it is first asked for: most need numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.calibrate.agreement import measure_agreement as measure_agreement
    from stepscope.calibrate.gap import HeldOutGap as HeldOutGap
    from stepscope.calibrate.gap import measure_gap as measure_gap
    from stepscope.calibrate.grounding import GroundedScore as GroundedScore
    from stepscope.calibrate.grounding import measure_grounding as measure_grounding
    from stepscope.calibrate.modes import compare_modes as compare_modes
    from stepscope.calibrate.types import Agreement as Agreement
    from stepscope.calibrate.types import RubricAgreement as RubricAgreement

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".agreement": ("measure_agreement",),
        ".gap": ("HeldOutGap", "measure_gap"),
        ".grounding": ("GroundedScore", "measure_grounding"),
        ".modes": ("compare_modes",),
        ".types": ("Agreement", "RubricAgreement"),
    },
)
