"""For tests of agents and of plugins: the pytest plugin, and checks of what a plugin promises.

The plugin (`pytest_plugin`) is loaded by its entry point in every pytest session, so this imports
nothing: each name brings in the library when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.testing.format_check import check_format as check_format
    from stepscope.testing.model_check import check_model as check_model

__all__ = ["check_format", "check_model"]


def __getattr__(name: str) -> object:
    if name == "check_format":
        from stepscope.testing.format_check import check_format

        return check_format
    if name == "check_model":
        from stepscope.testing.model_check import check_model

        return check_model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
