"""Rows in, one `Report` out, rendered many times: text, JSON, Markdown, JUnit.

`build` and `compare` are the only places that turn rows into numbers; no renderer computes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.report.types import Curve as Curve
    from stepscope.report.types import Shapes as Shapes

__all__, __getattr__, __dir__ = lazy_names(__name__, {".types": ("Curve", "Shapes")})
