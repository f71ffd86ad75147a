"""The order in which a trace's spans say their messages: by the recorded clock, ends with starts.

A tool's answer stands where the tool began, or, where other spans speak within it, where it ended.
The messages of an agent that are only listed at its end stand before the tools that they call.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Literal, NamedTuple

from stepscope.formats.spans.graph import Graph
from stepscope.formats.spans.said import Said
from stepscope.formats.spans.span import Span
from stepscope.formats.spans.telling import Telling

What = Literal["given", "spoken", "call", "answer", "made"]

# Among what begins at one time: the question, the model, its calls, their answers.
_RANKS: dict[What, int] = {"given": 0, "spoken": 1, "made": 1, "call": 2, "answer": 3}
# What ends at a time stands before what begins then.
_ENDING = -1


class Turn(NamedTuple):
    """One thing to be said: of the span at `span`; `message` counts an agent's messages."""

    key: tuple[int, int, int, int]
    what: What
    span: int
    message: int = 0
    late: bool = False


def turns(spans: Sequence[Span], tree: Graph, told: Telling) -> list[Turn]:
    """Return what is to be said, in order."""
    found: list[Turn] = []
    inside = _inside(tree, told)
    others = sorted(
        tree.start[at]
        for at in tree.order
        if told.speaks[at] and told.sayings[at].sort not in {"tool", "chain"}
    )
    tools = _began(tree, told)
    for at in tree.order:
        if not told.speaks[at]:
            continue
        said, start = told.sayings[at], tree.start[at]
        ended = spans[at].end_ns
        end = start if ended is None else max(start, ended)
        if said.sort == "tool":
            found.append(_begin(tree, "call", at))
            within = bisect_left(others, end) > bisect_right(others, start)
            late = (inside[at] or within) and end > start and not said.momentary
            key = (end, _ENDING, -tree.depth[at], len(found))
            found.append(Turn(key, "answer", at, late=True) if late else _begin(tree, "answer", at))
        elif said.sort in {"agent", "chain"}:
            found.append(_begin(tree, "given", at))
            found.extend(_listed(said, at, end, tree, tools))
        else:
            found.append(_begin(tree, "spoken", at))
    found.sort(key=lambda turn: turn.key)
    return found


def _begin(tree: Graph, what: What, at: int) -> Turn:
    return Turn((tree.start[at], _RANKS[what], tree.depth[at], at), what, at)


def _inside(tree: Graph, told: Telling) -> list[bool]:
    inside = [False] * len(tree.parents)
    for at in reversed(tree.order):
        parent = tree.parents[at]
        if parent is not None and (told.speaks[at] or inside[at]):
            inside[parent] = True
    return inside


def _began(tree: Graph, told: Telling) -> dict[str, int]:
    """Return when the tool of each call began, by the call's id."""
    began: dict[str, int] = {}
    for at, said in enumerate(told.sayings):
        if said.sort == "tool" and said.call is not None and said.call.id is not None:
            began[said.call.id] = min(tree.start[at], began.get(said.call.id, tree.start[at]))
    return began


def _listed(said: Said, at: int, end: int, tree: Graph, tools: dict[str, int]) -> list[Turn]:
    """Return turns of an agent's own messages, each before the first tool that it or a later calls.

    Messages behind the last known call stand at the agent's end.
    """
    messages = said.outputs or said.made
    found: list[Turn] = []
    lasts = end > tree.start[at]
    key = (end, _ENDING if lasts else _RANKS["made"], -tree.depth[at], 0)
    for count in reversed(range(len(messages))):
        times = [tools[c.id] for c in messages[count].calls if c.id is not None and c.id in tools]
        if times:
            key = min(key, (min(times), _RANKS["made"], tree.depth[at], 0))
        found.append(Turn((*key[:3], count), "made", at, count))
    return found[::-1]
