"""What ATIF has no field for, kept under `extra.stepscope`, and put back when it is read again.

The residue of a value is whatever reading its ATIF form back would get wrong, so that it is right
by construction: fields that ATIF carries faithfully are not written twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from stepscope.errors import TraceError
from stepscope.model import Json, Source, Step, ToolCall, ToolResult, Trajectory

KEY = "stepscope"
_AT = "at"
_FOLDED = "folded"

T = TypeVar("T", bound=msgspec.Struct)


def difference(value: msgspec.Struct, back: msgspec.Struct, *, skip: Sequence[str] = ()) -> Json:
    """Return the fields of `value` that `back` has otherwise, as JSON values."""
    return {
        name: msgspec.to_builtins(getattr(value, name))
        for name in value.__struct_fields__
        if name not in skip and getattr(value, name) != getattr(back, name)
    }


def restored(value: T, residue: Json) -> T:
    """Return `value` with the fields of a residue put back.

    Raises:
        TraceError: the residue is none.
        msgspec.ValidationError: a field of another type than ours.
    """
    if not isinstance(residue, dict):
        raise TraceError(f"`extra.{KEY}` is {str(residue)[:60]!r}; expected an object")
    kinds = {field.name: field.type for field in msgspec.structs.fields(value)}
    fields = {k: msgspec.convert(v, kinds[k]) for k, v in residue.items() if k in kinds}
    return msgspec.structs.replace(value, **fields) if fields else value


def split(extra: dict[str, Json] | None) -> tuple[dict[str, Json] | None, Json]:
    """Return an `extra` without the residue, and the residue."""
    if extra is None or KEY not in extra:
        return extra, None
    return {k: v for k, v in extra.items() if k != KEY} or None, extra[KEY]


def carried(extra: dict[str, Json] | None) -> dict[str, Json]:
    """Return what of an `extra` is written in its place; our own key is the residue's alone."""
    return {key: value for key, value in (extra or {}).items() if key != KEY}


def joined(extra: dict[str, Json] | None, residue: dict[str, Json]) -> dict[str, Json] | None:
    """Return an `extra` that carries a residue, unless there is nothing to carry."""
    return {**(extra or {}), KEY: residue} if residue else extra


def restored_run(draft: Trajectory, kept: Json) -> Trajectory:
    """Return a run with what `extra.stepscope` keeps of it; where it was read stays the new file.

    Raises:
        TraceError: what is kept is no residue.
    """
    if kept is None:
        return draft
    if isinstance(kept, dict):
        kept = {key: value for key, value in kept.items() if key not in {"id", "steps"}}
    run = restored(draft, kept)
    here = draft.source
    source: Source = msgspec.structs.replace(run.source, uri=here.uri, offset=here.offset)
    return msgspec.structs.replace(run, source=source)


def restored_steps(read: Sequence[Step], kept: Json) -> tuple[Step, ...]:
    """Return the steps as they were before results were moved beside their calls.

    Raises:
        TraceError: the steps do not fit together.
    """
    moved: dict[int, dict[int, ToolResult]] = {}
    steps = [_restored_step(step, moved) for step in read]
    folded = kept.get(_FOLDED, []) if isinstance(kept, dict) else []
    steps += msgspec.convert(folded, list[Step])
    if not moved and not folded:
        return tuple(steps)
    whole = sorted((_refilled(step, moved) for step in steps), key=lambda step: step.index)
    if moved or [step.index for step in whole] != list(range(len(whole))):
        raise TraceError(f"the steps under `extra.{KEY}` do not fit together")
    return tuple(whole)


def _restored_step(step: Step, moved: dict[int, dict[int, ToolResult]]) -> Step:
    extra, residue = split(step.extra)
    own: list[ToolResult] = []
    for result in step.results:
        told, result_residue = split(result.extra)
        if result_residue is None:
            own.append(result)
            continue
        came = restored(msgspec.structs.replace(result, extra=told), result_residue)
        if _AT in result_residue:
            index, position = msgspec.convert(result_residue[_AT], tuple[int, int])
            moved.setdefault(index, {})[position] = came
        else:
            own.append(came)
    calls = tuple([_restored_call(call) for call in step.calls])
    step = msgspec.structs.replace(step, extra=extra, calls=calls, results=tuple(own))
    return step if residue is None else restored(step, residue)


def _restored_call(call: ToolCall) -> ToolCall:
    extra, residue = split(call.extra)
    if residue is None:
        return call
    return restored(msgspec.structs.replace(call, extra=extra), residue)


def _refilled(step: Step, moved: dict[int, dict[int, ToolResult]]) -> Step:
    """Return a step with the results that had been moved away from it, each in its place."""
    back = moved.pop(step.index, None)
    if back is None:
        return step
    own = iter(step.results)
    n = len(step.results) + len(back)
    if not set(back) <= set(range(n)):
        raise TraceError(f"step {step.index} has no place for the results {sorted(back)}")
    results = tuple([back[at] if at in back else next(own) for at in range(n)])
    return msgspec.structs.replace(step, results=results)


def moved_mark(step: Step, position: int) -> dict[str, Any]:
    """Return the mark of a result that belongs at `position` of another step."""
    return {_AT: [step.index, position]}


def folded(steps: Sequence[Step]) -> dict[str, Json]:
    """Return the steps of which nothing is left once their results are moved away."""
    bare = [msgspec.structs.replace(step, results=()) for step in steps]
    return {_FOLDED: msgspec.to_builtins(bare)} if bare else {}
