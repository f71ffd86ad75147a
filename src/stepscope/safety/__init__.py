"""What stands between hostile text and everything else: limits, visible text, secrets.

A name is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.safety.limits import Limits as Limits
    from stepscope.safety.redact import Redactor as Redactor
    from stepscope.safety.secrets import OwnSecret as OwnSecret

_HOMES = {"Limits": "limits", "OwnSecret": "secrets", "Redactor": "redact"}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.safety.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
