"""Which calls of a run are the agent's own, and what a call does: write, escalate, end the run."""

from __future__ import annotations

from functools import lru_cache

from stepscope.effects import infer_effect, words_of
from stepscope.measures.once import once, once_with
from stepscope.model import Effect, Exchange, Facts, Trajectory

# Whom a run is handed to when the agent gives up.
PEOPLE = frozenset({"agent", "agents", "human", "humans", "operator", "supervisor", "support"})
ESCALATIONS = frozenset({"escalate", "escalation", "handoff"})
# First words of tools whose success ends a run: after them no answer of the agent is missing.
ENDS = frozenset(
    {"complete", "done", "end", "exit", "final", "finish", "stop", "submit", "terminate"}
)


def agent_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls that the agent made; where users have tools, theirs are left out."""
    return once(trajectory, "_agent_calls", _agent_calls)


def _agent_calls(trajectory: Trajectory) -> tuple[Exchange, ...]:
    exchanges = trajectory.exchanges
    for exchange in exchanges:
        if exchange.call.requestor != "agent":
            return tuple(x for x in exchanges if x.call.requestor == "agent")
    return exchanges


def failures(trajectory: Trajectory) -> tuple[Exchange, ...]:
    """Return the calls whose result is an error, whoever made them."""
    return once(trajectory, "_failures", _failures)


def _failures(trajectory: Trajectory) -> tuple[Exchange, ...]:
    return tuple([exchange for exchange in trajectory.exchanges if exchange.failed])


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


def writes_of(trajectory: Trajectory, facts: Facts | None) -> tuple[int, ...]:
    """Return which of the agent's calls (by index among them) change the world."""
    return once_with(trajectory, facts, "_writes", _writes_of)


def _writes_of(trajectory: Trajectory, facts: Facts | None) -> tuple[int, ...]:
    made = agent_calls(trajectory)
    return tuple([at for at, x in enumerate(made) if effect_of(x.call.name, facts) == "write"])


@lru_cache(maxsize=4096)
def escalates(tool: str) -> bool:
    """Tell whether a tool's name says that a person takes over.

    >>> escalates("transfer_to_human_agents"), escalates("transfer_funds")
    (True, False)
    """
    words = words_of(tool)
    if not ESCALATIONS.isdisjoint(words) or words[:2] == ["hand", "off"]:
        return True
    return words[:1] == ["transfer"] and not PEOPLE.isdisjoint(words)


@lru_cache(maxsize=4096)
def ends(tool: str) -> bool:
    """Tell whether a tool's name says that the run is over once it is called.

    >>> ends("submit_answer"), ends("send_certificate"), ends("search_onestop_flight")
    (True, False, False)
    """
    return escalates(tool) or not ENDS.isdisjoint(words_of(tool)[:1])
