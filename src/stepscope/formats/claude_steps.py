"""Lines of one thread as steps: lines of one API message become one step, replays are marked."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stepscope.formats.anthropic_blocks import blocks_of, kind_of, message_extra, speaker
from stepscope.formats.claude_line import CONSTANT, Line
from stepscope.formats.times import instant
from stepscope.formats.tokens import anthropic_usage
from stepscope.model import Actor, Json, Part, Step, ToolResult
from stepscope.safety.limits import Limits

_ACTORS: dict[str, Actor] = {"system": "system", "assistant": "agent", "user": "user"}


class Told(NamedTuple):
    """The steps of a thread, and for each of its lines the step it is in or stands before."""

    steps: tuple[Step, ...]
    step_of_line: list[int]


def steps_of(
    lines: list[Line], constants: dict[str, Json], off_path: set[int], limits: Limits
) -> Told:
    """Return the steps of a thread.

    Raises:
        TraceError: a message of a shape that the API does not know.
    """
    again = replays(lines)
    last_usage = _last_of_message(lines, again)
    steps: list[Step] = []
    step_of_line: list[int] = []
    open_message: str | None = None
    for at, line in enumerate(lines):
        if not line.speaks:
            step_of_line.append(len(steps))
            continue
        replayed = at in again
        step = _step(line, len(steps), constants, limits)
        if at not in last_usage:
            step = msgspec.structs.replace(step, usage=None)
        if replayed:
            step = msgspec.structs.replace(step, replayed=True)
        if at in off_path:
            step = msgspec.structs.replace(step, extra={**(step.extra or {}), "abandoned": True})
        if steps and open_message is not None and line.message_id == open_message and not replayed:
            steps[-1] = _merged(steps[-1], step)
        else:
            steps.append(step)
        open_message = None if replayed else line.message_id
        step_of_line.append(len(steps) - 1)
    return Told(tuple(steps), step_of_line)


def _last_of_message(lines: list[Line], again: set[int]) -> set[int]:
    """Return the positions of the lines whose usage counts: the last of every API message."""
    last: dict[str, int] = {}
    alone = set()
    for at, line in enumerate(lines):
        if at in again or line.message is None or line.message.get("usage") is None:
            continue
        if line.message_id is None:
            alone.add(at)
        else:
            last[line.message_id] = at
    return alone | set(last.values())


def replays(lines: list[Line]) -> set[int]:
    """Return the positions of lines logged again, as compaction and resuming do.

    Two equal texts without any id are two texts.
    """
    uuids: set[str] = set()
    contents: set[bytes] = set()
    found: set[int] = set()
    for at, line in enumerate(lines):
        if not line.speaks or line.message is None:
            continue
        if line.uuid is not None:
            if line.uuid in uuids:
                found.add(at)
            uuids.add(line.uuid)
        marked = any("id" in block or "tool_use_id" in block for block in line.blocks)
        if line.message_id is not None or marked:
            content = msgspec.json.encode((line.message_id, line.message.get("content")))
            if content in contents:
                found.add(at)
            contents.add(content)
    return found


def _step(line: Line, index: int, constants: dict[str, Json], limits: Limits) -> Step:
    message = line.message or {}
    content = message.get("content", line.content)
    blocks = blocks_of(content, index, limits)
    model, reason = message.get("model"), message.get("stop_reason")
    start = instant(line.timestamp)
    extra = {**line.extra(), **(message_extra(message) or {})}
    extra |= {k: v for k, v in line.raw.items() if k in CONSTANT and v != constants[k]}
    if line.message_id is not None:
        extra["message_id"] = line.message_id
    if line.timestamp is not None and start is None:
        extra["timestamp"] = line.timestamp
    results = _structured(blocks.results, line)
    if line.toolUseResult is not None and len(results) != 1:
        extra["toolUseResult"] = line.toolUseResult
    return Step(
        index=index,
        actor=speaker(_ACTORS.get(line.type, "user"), blocks),
        kind="compaction" if line.is_compaction else kind_of(blocks),
        parts=blocks.parts,
        calls=blocks.calls,
        results=results,
        model=model if isinstance(model, str) else None,
        usage=anthropic_usage(message.get("usage")),
        start=start,
        finish_reason=reason if isinstance(reason, str) else None,
        id=line.uuid,
        sidechain=line.side,
        extra=extra or None,
    )


def _structured(results: tuple[ToolResult, ...], line: Line) -> tuple[ToolResult, ...]:
    """Return the results with what the tool told Claude Code itself (stdout, stderr, patches)."""
    if line.toolUseResult is None or len(results) != 1:
        return results
    return (msgspec.structs.replace(results[0], structured=line.toolUseResult),)


def _merged(step: Step, more: Step) -> Step:
    """Return two lines of one API message as one step; the first line names it."""
    parts: tuple[Part, ...] = (*step.parts, *more.parts)
    calls = (*step.calls, *more.calls)
    told = more.extra or {}
    extra = {**told, **(step.extra or {})}
    extra["more_lines"] = [*extra.get("more_lines", []), more.id]
    return msgspec.structs.replace(
        step,
        parts=parts,
        calls=calls,
        results=(*step.results, *more.results),
        kind="call" if calls else step.kind,
        usage=more.usage or step.usage,
        end=more.end or more.start or step.end,
        finish_reason=more.finish_reason or step.finish_reason,
        extra=extra,
    )
