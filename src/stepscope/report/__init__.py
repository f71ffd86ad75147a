"""Rows in, one `Report` out, rendered many times: text, JSON, Markdown, JUnit.

`build` and `compare` are the only places that turn rows into numbers; no renderer computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.report.types import Curve as Curve
    from stepscope.report.types import Shapes as Shapes

__all__ = ["Curve", "Shapes"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from stepscope.report import types

    return getattr(types, name)
