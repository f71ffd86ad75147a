"""stepscope: an instrument for the path of an AI agent, not only its destination.

    import stepscope as ss
    store = ss.open("runs.db")

`match` compares message lists in memory with a reference. Importing this loads nothing else: either
name brings in the library when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.api import match as match
    from stepscope.api import open as open

__version__ = "0.1.0"

__all__ = ["__version__", "match", "open"]


def __getattr__(name: str) -> object:
    if name in {"match", "open"}:
        from stepscope import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
