"""Items that a model gave in one breath as one step, as chat messages have them.

Reasoning, then what is said, then the calls made at once: one turn of the agent. It ends with an
item that holds its own result, with whatever another party says, and where the model thinks or
speaks again behind a call. So a run recorded as Responses items has the steps that the same run has
as chat messages, and parallel calls stay in one step.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from stepscope.model import Part, Step


def turns(steps: Iterable[Step]) -> list[Step]:
    """Return steps of one item each, joined where they are one turn; their indexes are kept."""
    made: list[Step] = []
    for step in steps:
        if made and _continues(made[-1], step):
            made[-1] = joined_turn(made[-1], step)
        else:
            made.append(step)
    return made


def placed(steps: Iterable[Step], first: int = 0) -> tuple[Step, ...]:
    """Return steps with the indexes that they have in their run."""
    return tuple([msgspec.structs.replace(step, index=at) for at, step in enumerate(steps, first)])


def _continues(turn: Step, step: Step) -> bool:
    """Say whether a step belongs to the turn before it."""
    if not (_is_turn(turn) and _is_turn(step)) or turn.agent != step.agent:
        return False
    # A result, or the tokens of an answer, stand at its end.
    if turn.results or turn.usage is not None:
        return False
    if step.calls:
        return True
    if turn.calls or not _thinks(turn.parts):
        return False
    return turn.id is None or step.id is None


def _is_turn(step: Step) -> bool:
    return step.actor == "agent" and step.kind in {"message", "call"} and step.error is None


def _thinks(parts: tuple[Part, ...]) -> bool:
    return bool(parts) and all(part.kind in {"reasoning", "data"} for part in parts)


def joined_turn(turn: Step, step: Step) -> Step:
    """Return a turn with what was said next in the same breath."""
    return msgspec.structs.replace(
        turn,
        kind="call" if turn.calls or step.calls else "message",
        parts=(*turn.parts, *step.parts),
        calls=(*turn.calls, *step.calls),
        results=step.results,
        model=turn.model if turn.model is not None else step.model,
        usage=step.usage if step.usage is not None else turn.usage,
        id=turn.id if turn.id is not None else step.id,
        extra={**(turn.extra or {}), **(step.extra or {})} or None,
    )
