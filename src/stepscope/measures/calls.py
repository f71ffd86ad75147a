"""Which calls of a run are the agent's own, and what a call does to the world."""

from __future__ import annotations

from stepscope.effects import infer_effect
from stepscope.model import Effect, Exchange, Facts, Trajectory


def agent_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls that the agent made; where users have tools, theirs are left out."""
    exchanges = trajectory.exchanges
    for exchange in exchanges:
        if exchange.call.requestor != "agent":
            return tuple(x for x in exchanges if x.call.requestor == "agent")
    return exchanges


def succeeded(exchange: Exchange) -> bool:
    """Tell whether an answer came that is no error; without an answer nobody knows."""
    return exchange.result is not None and exchange.result.status != "error"


def effect_of(tool: str, facts: Facts | None) -> Effect:
    """Return what a tool does to the world: as declared, else as its name suggests.

    >>> effect_of("book_flight", None), effect_of("poke", Facts(effects={"poke": "write"}))
    ('write', 'write')
    """
    if facts is not None and tool in facts.effects:
        return facts.effects[tool]
    return infer_effect(tool)
