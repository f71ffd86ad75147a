"""Two runs side by side by their calls: what both did, did otherwise, or only one did.

Calls are matched in order by name and arguments, as lines are in a difference of texts; between two
matches, calls of the same tool stand opposite each other with what differs in their arguments.
Source: the matching of `difflib` (Ratcliff and Obershelp), over calls instead of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from stepscope.model import Exchange, Trajectory
from stepscope.report.calls import brief, differences, words
from stepscope.report.cutting import cut
from stepscope.report.run_text import result_text
from stepscope.safety.text import visible_line

# Calls of one run that are matched; matching costs the product of both lengths.
MOST = 400
# Characters of a call and of what it gave.
WIDTH = 120
# Differences named of one pair of calls.
NAMED = 5

How = Literal["same", "result", "arguments", "left", "right"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One call: its step, in few words, what came back, whether it failed."""

    step: int
    words: str
    status: str
    result: str


class Differing(NamedTuple):
    """One place where the arguments of two calls differ."""

    path: str
    was: str
    now: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two calls side by side, or one alone; `differs` names what is not the same."""

    how: How
    left: Side | None
    right: Side | None
    differs: tuple[Differing, ...] = ()


class Place(NamedTuple):
    """A pair of calls, one of them absent where only one run made it."""

    left: Exchange | None
    right: Exchange | None


def aligned(first: Trajectory, second: Trajectory) -> Iterator[Pair]:
    """Yield the calls of two runs side by side, in order."""
    for left, right in _places(first.exchanges[:MOST], second.exchanges[:MOST]):
        how, differs = _compared(left, right)
        yield Pair(how=how, left=_side(left), right=_side(right), differs=tuple(differs))


def _places(left: Sequence[Exchange], right: Sequence[Exchange]) -> Iterator[Place]:
    matcher = SequenceMatcher(
        None, [call.key for call in left], [call.key for call in right], autojunk=False
    )
    for _, a, b, c, d in matcher.get_opcodes():
        yield from _between(left[a:b], right[c:d])


def _between(left: Sequence[Exchange], right: Sequence[Exchange]) -> Iterator[Place]:
    """Pair calls of the same tool in order; what has no counterpart stands alone."""
    matcher = SequenceMatcher(
        None, [call.call.name for call in left], [call.call.name for call in right], autojunk=False
    )
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            yield from (Place(x, y) for x, y in zip(left[a:b], right[c:d], strict=True))
        else:
            yield from (Place(x, None) for x in left[a:b])
            yield from (Place(None, y) for y in right[c:d])


def _compared(left: Exchange | None, right: Exchange | None) -> tuple[How, list[Differing]]:
    if left is None or right is None:
        return ("right" if left is None else "left"), []
    if left.key != right.key:
        found = list(differences(left.call.arguments, right.call.arguments))
        said = [
            Differing(visible_line(path or "arguments"), brief(was), brief(now))
            for path, was, now in found[:NAMED]
        ]
        rest = len(found) - NAMED
        return "arguments", said + ([Differing(f"and {rest} more", "", "")] if rest > 0 else [])
    return ("same" if _given(left) == _given(right) else "result"), []


def _given(exchange: Exchange) -> str:
    return "" if exchange.result is None else result_text(exchange.result)


def _side(exchange: Exchange | None) -> Side | None:
    if exchange is None:
        return None
    status = "no answer" if exchange.result is None else exchange.result.status
    return Side(
        step=exchange.step,
        words=cut(visible_line(words(exchange.call)), WIDTH),
        status=status,
        result=cut(visible_line(_given(exchange)), WIDTH),
    )
