"""What each span of a trace is to its run: who speaks, which frames repeat what is inside them.

A model's span around another model's span (a framework's frame around its client's) makes no step
of its own; what only the frame says, the span inside takes over. An agent or a chain is read by its
own input and output only where no model's span below says more; a chain, moreover, only in a trace
without any model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from stepscope.formats.spans.graph import Graph
from stepscope.formats.spans.said import Message, Said, joined

# Spans that end the reach of a model's frame: what is below them is another round.
_WALLS = frozenset({"tool", "agent", "handoff"})
_FRAMED = frozenset({"model", "embedding", "retrieval"})
# What a frame leaves to the span inside it.
_TAKEN = (
    "inputs",
    "outputs",
    "given",
    "made",
    "usage",
    "cost_usd",
    "model",
    "finish_reason",
    "parts",
    "tools",
)


class Telling(NamedTuple):
    """By position of the span.

    Attributes:
        sayings: what each span says, frames folded into what they frame.
        agents: the agent that a span belongs to, by the nearest agent's span.
        speaks: spans that make steps.
    """

    sayings: list[Said]
    agents: list[str | None]
    speaks: list[bool]


def telling(sayings: Sequence[Said], tree: Graph) -> Telling:
    """Return what is to be made of what spans say."""
    count = len(sayings)
    found = list(sayings)
    frame: list[int | None] = [None] * count  # the frame that a span stands in
    outer: list[int | None] = [None] * count  # the frame that this span is for those below
    agents: list[str | None] = [None] * count
    for at in tree.order:
        said, parent = found[at], tree.parents[at]
        above = None if parent is None else outer[parent]
        own = said.agent if said.sort == "agent" else None
        agents[at] = own or (None if parent is None else agents[parent])
        if said.sort in _WALLS:
            continue
        outer[at] = above
        if said.sort in _FRAMED:
            frame[at] = above if above is not None and _same(found[above], said) else None
            outer[at] = at
    frames = {at for at in frame if at is not None}
    _fold(found, frame, frames, tree)
    _instruct(found, tree)
    below = _below(found, tree)
    chains = not any(said.sort == "model" for said in found)
    speaks = [_speaks(found, at, tree, below=below[at], chains=chains) for at in range(count)]
    for at in frames | set(tree.superseded):
        speaks[at] = False
    return Telling(found, agents, speaks)


def _same(outer: Said, inner: Said) -> bool:
    return outer.sort == inner.sort


def _fold(found: list[Said], frame: list[int | None], frames: set[int], tree: Graph) -> None:
    """Give what only a frame says to the spans in it: its input to the first, the rest to the last.

    A count of tokens or a cost is the sum of several rounds; it goes inside only where no round has
    its own.
    """
    inside: dict[int, list[int]] = {}
    for at in tree.order:
        outer = frame[at]
        if outer is not None:
            inside.setdefault(outer, []).append(at)
    for outer in [at for at in tree.order if at in frames]:
        rounds = sorted(inside[outer], key=lambda at: (tree.start[at], at))
        first, last = rounds[0], rounds[-1]
        frame_said = found[outer]
        if any(found[at].usage is not None for at in rounds):
            frame_said = msgspec.structs.replace(frame_said, usage=None)
        if any(found[at].cost_usd is not None for at in rounds):
            frame_said = msgspec.structs.replace(frame_said, cost_usd=None)
        if first == last and _calls(frame_said) and not _calls(found[last]):
            # A client that wrote its answer as text lost the calls in it.
            found[last] = msgspec.structs.replace(found[last], outputs=(), made=())
        found[last] = joined([found[last], _only(frame_said, _TAKEN[1:], first == last)])
        if not any(found[at].inputs for at in rounds):
            found[first] = joined([found[first], Said(inputs=frame_said.inputs)])


def _calls(said: Said) -> bool:
    return any(message.calls for message in said.outputs or said.made)


def _instruct(found: list[Said], tree: Graph) -> None:
    """Give what only an agent was told by the system to the first model in it.

    Not where a model of that agent was told anything by the system itself.
    """
    told = {at: _system(said) for at, said in enumerate(found) if said.sort == "agent"}
    owner: list[int | None] = [None] * len(found)
    for at in tree.order:
        parent = tree.parents[at]
        owner[at] = at if told.get(at) else None if parent is None else owner[parent]
    models: dict[int, list[int]] = {}
    for at, agent in enumerate(owner):
        if agent is not None and found[at].sort == "model":
            models.setdefault(agent, []).append(at)
    for agent, members in models.items():
        if not any(_system(found[at]) for at in members):
            first = min(members, key=lambda at: (tree.start[at], at))
            said = found[first]
            inputs = (*told[agent], *(said.inputs or said.given))
            found[first] = msgspec.structs.replace(said, inputs=inputs)


def _system(said: Said) -> tuple[Message, ...]:
    return tuple([message for message in said.inputs or said.given if message.actor == "system"])


def _only(said: Said, names: tuple[str, ...], alone: bool) -> Said:
    """Return these fields of what was said; what is given goes to a span that stands alone."""
    return Said(**{name: getattr(said, name) for name in names if alone or name != "given"})


def _below(found: list[Said], tree: Graph) -> list[bool]:
    """Say of each span whether anything below it tells the run better than its frame."""
    below = [False] * len(found)
    for at in reversed(tree.order):
        parent = tree.parents[at]
        if parent is not None:
            said = found[at]
            more = said.sort == "model" or (said.sort == "agent" and bool(said.outputs))
            below[parent] = below[parent] or below[at] or more
    return below


def _speaks(found: list[Said], at: int, tree: Graph, *, below: bool, chains: bool) -> bool:
    said, parent = found[at], tree.parents[at]
    if said.sort not in {"agent", "chain"}:
        return said.sort not in {None, "other", "evaluation"}
    if below or not (said.inputs or said.outputs or said.given or said.made):
        return False
    if said.sort == "agent":
        return True
    return chains and (parent is None or found[parent].sort in {None, "other"})
