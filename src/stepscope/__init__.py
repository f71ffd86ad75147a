"""stepscope: an instrument for the path of an AI agent, not only its destination.

    import stepscope as ss
    store = ss.open("runs.db")

`match` compares message lists in memory with a reference, `shapes` classifies the score curves of a
file. Importing this loads nothing else: each name brings in the library when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.api import match as match
    from stepscope.api import open as open
    from stepscope.api import shapes as shapes

__version__ = "0.1.0"

_names, __getattr__, __dir__ = lazy_names(__name__, {"stepscope.api": ("match", "open", "shapes")})
__all__ = ["__version__", *_names]
