"""Models: what is configured, how each is asked, what it costs, how long to wait.

One module a dialect. A name is loaded when it is first asked for, so that no SDK is.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.models.anthropic import open_anthropic as open_anthropic
    from stepscope.models.configured import JudgesTable as JudgesTable
    from stepscope.models.configured import JudgeTable as JudgeTable
    from stepscope.models.configured import PriceTable as PriceTable
    from stepscope.models.dialect import request_hash as request_hash
    from stepscope.models.openai import open_openai as open_openai
    from stepscope.models.opening import model_family as model_family
    from stepscope.models.opening import open_model as open_model
    from stepscope.models.prices import Prices as Prices
    from stepscope.models.replay import ReplayModel as ReplayModel
    from stepscope.models.replay import read_replies as read_replies
    from stepscope.models.replay import write_replies as write_replies

_HOMES = {
    "JudgeTable": "configured",
    "JudgesTable": "configured",
    "PriceTable": "configured",
    "Prices": "prices",
    "ReplayModel": "replay",
    "model_family": "opening",
    "open_anthropic": "anthropic",
    "open_model": "opening",
    "open_openai": "openai",
    "read_replies": "replay",
    "request_hash": "dialect",
    "write_replies": "replay",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(f"stepscope.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
