"""Score curves in, shape posteriors and break points out; numpy and scipy only, knows no agent.

A name is loaded when it is first asked for, so that a report can name shapes without numpy.
`DataError` is raised where arrays do not fit each other and where an argument makes no sense.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.shape.articles import v3_many as v3_many
    from stepscope.shape.breaks import break_point as break_point
    from stepscope.shape.classifier import classify as classify
    from stepscope.shape.classifier import classify_many as classify_many
    from stepscope.shape.classifier import classify_ragged as classify_ragged
    from stepscope.shape.fleet import compare_fleets as compare_fleets
    from stepscope.shape.fleet import prevalence as prevalence
    from stepscope.shape.fleet import weigh_fleet as weigh_fleet
    from stepscope.shape.inputs import lay_out as lay_out
    from stepscope.shape.noise import learn_noise as learn_noise
    from stepscope.shape.types import SHAPES as SHAPES
    from stepscope.shape.types import Shape as Shape
    from stepscope.shape.types import ShapeBatch as ShapeBatch

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".articles": ("v3_many",),
        ".breaks": ("break_point",),
        ".classifier": ("classify", "classify_many", "classify_ragged"),
        ".fleet": ("compare_fleets", "prevalence", "weigh_fleet"),
        ".inputs": ("lay_out",),
        ".noise": ("learn_noise",),
        ".types": ("SHAPES", "Shape", "ShapeBatch"),
    },
)
