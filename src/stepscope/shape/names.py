"""The five shapes, in the order that every array and table uses.

Source: the taxonomy of ARC (Tribbia); where a step is "early" or "late" is a convention of ours,
see `stepscope.shape.templates`.
"""

from __future__ import annotations

from typing import Literal, get_args

ShapeName = Literal["healthy", "early_collapse", "late_drift", "steady_degradation", "recovery"]
ShapeLabel = ShapeName | Literal["unresolved"]

SHAPES: tuple[ShapeName, ...] = get_args(ShapeName)

HEALTHY, EARLY_COLLAPSE, LATE_DRIFT, STEADY_DEGRADATION, RECOVERY = range(5)

# Code of a label that no shape earned, in arrays of codes.
UNRESOLVED = -1
