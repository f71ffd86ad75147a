"""Long runs in overlapping windows, each with a digest of what was done before it.

A window holds as many whole steps as a judge can read and answer for at once. The digest is made
from the calls, results and users' words before it, a line each, by rule and not by a model. Steps
in two windows are judged twice: what they agree on is told as a figure of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stepscope.judges.fence import Fence
from stepscope.judges.rendering import Block, Context, Copy, Piece, fitted

# Steps that two windows share: enough to see a disagreement, few enough to pay twice.
OVERLAP_STEPS = 4
# Of a window's room, what its digest may take.
_DIGEST_SHARE = 0.2
# Of each text that the digest tells.
_TOLD_CHARACTERS = 160
# Of a window that gives this much to one step, the rest is cut.
_FEWEST_STEPS = 2 * OVERLAP_STEPS


class Window(NamedTuple):
    """Steps `first` up to but without `end`, and what is sent of them."""

    first: int
    end: int
    context: Context

    def inside(self, step: int, steps: int) -> int:
        """Return how far a step is from an edge of this window that is not an end of the run."""
        left = steps if self.first == 0 else step - self.first
        right = steps if self.end == steps else self.end - 1 - step
        return min(left, right)


def windows(copy: Copy, *, fence: Fence, room: int, most_steps: int) -> tuple[Window, ...] | None:
    """Return the windows of a run in order, one where it fits; None where not even a few steps do.

    Args:
        copy: the run as judges read it.
        fence: around it.
        room: bytes that one context may have.
        most_steps: how many steps one answer has room for.
    """
    steps = len(copy.steps)
    most = max(most_steps, OVERLAP_STEPS + 1)
    if steps <= most:
        whole = copy.whole(fence, room)
        # Cut only what no division into windows would spare.
        if whole is not None and (whole.left_out == 0 or steps <= _FEWEST_STEPS):
            return (Window(0, steps, whole),)
    sizes = [_size(block, fence) for block in copy.steps]
    around = len(f"{fence.opening()}\n{fence.closing()}".encode())
    made: list[Window] = []
    first = 0
    while True:
        before = digest(copy, first, int(room * _DIGEST_SHARE))
        taken = around + sum(_size(block, fence) for block in (*copy.tools, *before))
        end = _end(sizes, first, room - taken, most)
        blocks = (*copy.tools, *before, *copy.steps[first:end])
        context = fitted(blocks, fence=fence, room=room)
        if context is None:
            return None
        made.append(Window(first, end, context))
        if end == steps:
            return tuple(made)
        first = end - OVERLAP_STEPS


def digest(copy: Copy, end: int, room: int) -> tuple[Block, ...]:
    """Return a block that tells the steps before `end` in a line each, the latest kept first."""
    told: list[Piece] = []
    left, skipped = room, 0
    for block in reversed(copy.steps[:end]):
        for piece in reversed(block.pieces):
            if not _matters(block, piece):
                continue
            said = " ".join(piece.text.split())[:_TOLD_CHARACTERS]
            left -= len(said.encode()) + _TOLD_CHARACTERS // 2
            if left < 0:
                skipped += 1
            else:
                told.append(Piece(f"step {block.at}, {piece.label}", said))
    if not told and not skipped:
        return ()
    words = f"digest of steps 0 to {end - 1}, each text cut"
    if skipped:
        words += f", {skipped} earlier texts left out"
    return (Block(words, tuple(reversed(told))),)


def plan_of(made: Sequence[Window]) -> str:
    """Return the windows in words.

    >>> plan_of([Window(0, 30, Context("", 0)), Window(26, 40, Context("", 0))])
    '2 windows: steps 0 to 29, 26 to 39'
    """
    ranges = ", ".join(f"{window.first} to {window.end - 1}" for window in made)
    return f"{len(made)} windows: steps {ranges}"


def _matters(block: Block, piece: Piece) -> bool:
    return piece.label.startswith(("call", "result")) or (
        block.actor == "user" and piece.label == "text"
    )


def _size(block: Block, fence: Fence) -> int:
    lines = [fence.head(block.words)]
    for piece in block.pieces:
        lines += (fence.label(piece.label), fence.data(piece.text))
    return sum(len(line.encode()) + 1 for line in lines)


def _end(sizes: Sequence[int], first: int, room: int, most: int) -> int:
    """Return where a window ends: after what fits, and after a few steps in any case."""
    end, left = first, room
    while end < len(sizes) and end - first < most:
        left -= sizes[end]
        if left < 0 and end - first >= min(most, _FEWEST_STEPS):
            break
        end += 1
    return end
