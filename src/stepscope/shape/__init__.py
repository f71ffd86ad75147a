"""Score curves in, shape posteriors and break points out; numpy and scipy only, knows no agent.

A name is loaded when it is first asked for, so that a report can name shapes without numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.shape.articles import v3_many as v3_many
    from stepscope.shape.breaks import break_point as break_point
    from stepscope.shape.classifier import classify as classify
    from stepscope.shape.classifier import classify_many as classify_many
    from stepscope.shape.fleet import compare_fleets as compare_fleets
    from stepscope.shape.fleet import prevalence as prevalence
    from stepscope.shape.noise import learn_noise as learn_noise
    from stepscope.shape.types import SHAPES as SHAPES
    from stepscope.shape.types import Shape as Shape
    from stepscope.shape.types import ShapeBatch as ShapeBatch

_HOMES = {
    "SHAPES": "types",
    "Shape": "types",
    "ShapeBatch": "types",
    "break_point": "breaks",
    "classify": "classifier",
    "classify_many": "classifier",
    "compare_fleets": "fleet",
    "learn_noise": "noise",
    "prevalence": "fleet",
    "v3_many": "articles",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.shape.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
