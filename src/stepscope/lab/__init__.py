"""Experiments with known truth: planted curves and attacks on judges.

A name is loaded when it is first asked for: most need numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.lab.curves import EXAMPLES as EXAMPLES
    from stepscope.lab.curves import add_noise as add_noise
    from stepscope.lab.curves import article_curve as article_curve
    from stepscope.lab.curves import draw_curves as draw_curves
    from stepscope.lab.envelope import CLASSIFIERS as CLASSIFIERS
    from stepscope.lab.envelope import Classifications as Classifications
    from stepscope.lab.envelope import choose_classifiers as choose_classifiers
    from stepscope.lab.envelope import measure_envelope as measure_envelope

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".curves": ("EXAMPLES", "add_noise", "article_curve", "draw_curves"),
        ".envelope": ("CLASSIFIERS", "Classifications", "choose_classifiers", "measure_envelope"),
    },
)
