"""Models: what is configured, how each is asked, what it costs, how long to wait.

One module a dialect. A name is loaded when it is first asked for, so that no SDK is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.lazy import lazy_names

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

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".anthropic": ("open_anthropic",),
        ".configured": ("JudgeTable", "JudgesTable", "PriceTable"),
        ".dialect": ("request_hash",),
        ".openai": ("open_openai",),
        ".opening": ("model_family", "open_model"),
        ".prices": ("Prices",),
        ".replay": ("ReplayModel", "read_replies", "write_replies"),
    },
)
