"""stepscope: an instrument for the path of an AI agent, not only its destination.

    import stepscope as ss
    store = ss.open("runs.db")

`match` compares message lists in memory with a reference, `shapes` classifies the score curves of a
file. Importing this loads nothing else: each name brings in the library when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.api import match as match
    from stepscope.api import open as open
    from stepscope.api import shapes as shapes

__version__ = "0.1.0"

__all__ = ["__version__", "match", "open", "shapes"]


def __getattr__(name: str) -> object:
    if name in {"match", "open", "shapes"}:
        from stepscope import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
