"""For tests of agents and of plugins: the pytest plugin, and checks of what a plugin promises.

The plugin (`pytest_plugin`) is loaded by its entry point in every pytest session, so this imports
nothing: each name brings in the library when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

if TYPE_CHECKING:
    from stepscope.testing.format_check import check_format as check_format
    from stepscope.testing.model_check import check_model as check_model

__all__, __getattr__, __dir__ = lazy_names(
    __name__, {".format_check": ("check_format",), ".model_check": ("check_model",)}
)
