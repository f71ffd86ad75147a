"""Read an ATIF record as runs: the run itself, then those of its subagents as children.

What ATIF has no field for is kept by `atif.write` under `extra.stepscope` and put back here. That
residue is whatever reading the ATIF form back would get wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import DecodedRecord, convert_record
from stepscope.model import (
    Actor,
    Json,
    Part,
    PartKind,
    Source,
    Step,
    StepKind,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
    Warn,
)

KEY = "stepscope"
_AT = "at"
_FOLDED = "folded"

T = TypeVar("T", bound=msgspec.Struct)


def find_atif_residue(
    value: msgspec.Struct, back: msgspec.Struct, *, skip: Sequence[str] = ()
) -> Json:
    """Return the fields of `value` that `back` has otherwise, as JSON values."""
    return {
        name: msgspec.to_builtins(getattr(value, name))
        for name in value.__struct_fields__
        if name not in skip and getattr(value, name) != getattr(back, name)
    }


def apply_atif_residue(value: T, residue: Json) -> T:
    """Return `value` with the fields of a residue put back."""
    if not isinstance(residue, dict):
        raise TraceError(f"`extra.{KEY}` is {str(residue)[:60]!r}; expected an object")
    kinds = {field.name: field.type for field in msgspec.structs.fields(value)}
    held = {k: msgspec.convert(v, kinds[k]) for k, v in residue.items() if k in kinds}
    return msgspec.structs.replace(value, **held) if held else value


def split_extra(extra: dict[str, Json] | None) -> tuple[dict[str, Json] | None, Json]:
    """Return an `extra` without the residue, and the residue."""
    if extra is None or KEY not in extra:
        return extra, None
    return {k: v for k, v in extra.items() if k != KEY} or None, extra[KEY]


def carry_extra(extra: dict[str, Json] | None) -> dict[str, Json]:
    """Return what of an `extra` is written in its place; our own key is the residue's alone."""
    return {key: value for key, value in (extra or {}).items() if key != KEY}


def join_extra(extra: dict[str, Json] | None, residue: dict[str, Json]) -> dict[str, Json] | None:
    """Return an `extra` that carries a residue, unless there is nothing to carry."""
    return {**(extra or {}), KEY: residue} if residue else extra


def restore_run_fields(draft: Trajectory, kept: Json) -> Trajectory:
    """Return a run with what `extra.stepscope` keeps of it; it was read where the new file is."""
    if kept is None:
        return draft
    if isinstance(kept, dict):
        kept = {key: value for key, value in kept.items() if key not in {"id", "steps"}}
    run = apply_atif_residue(draft, kept)
    here = draft.source
    source: Source = msgspec.structs.replace(run.source, uri=here.uri, offset=here.offset)
    return msgspec.structs.replace(run, source=source)


def restore_atif_steps(read: Sequence[Step], kept: Json) -> tuple[Step, ...]:
    """Return the steps as they were before results were moved beside their calls."""
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
    extra, residue = split_extra(step.extra)
    own: list[ToolResult] = []
    for result in step.results:
        told, result_residue = split_extra(result.extra)
        if result_residue is None:
            own.append(result)
            continue
        came = apply_atif_residue(msgspec.structs.replace(result, extra=told), result_residue)
        if _AT in result_residue:
            index, position = msgspec.convert(result_residue[_AT], tuple[int, int])
            moved.setdefault(index, {})[position] = came
        else:
            own.append(came)
    calls = tuple([_restored_call(call) for call in step.calls])
    step = msgspec.structs.replace(step, extra=extra, calls=calls, results=tuple(own))
    return step if residue is None else apply_atif_residue(step, residue)


def _restored_call(call: ToolCall) -> ToolCall:
    extra, residue = split_extra(call.extra)
    bare = msgspec.structs.replace(call, extra=extra)
    return bare if residue is None else apply_atif_residue(bare, residue)


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


def mark_moved(step: Step, position: int) -> dict[str, Any]:
    """Return the mark of a result that belongs at `position` of another step."""
    return {_AT: [step.index, position]}


def fold_steps(steps: Sequence[Step]) -> dict[str, Json]:
    """Return the steps of which nothing is left once their results are moved away."""
    bare = [msgspec.structs.replace(step, results=()) for step in steps]
    return {_FOLDED: msgspec.to_builtins(bare)} if bare else {}


_ACTORS: dict[str, Actor] = {"system": "system", "user": "user", "agent": "agent"}
_STEP = frozenset(
    "step_id timestamp source model_name message reasoning_content tool_calls observation metrics "
    "is_copied_context extra".split()
)
_CALL = frozenset({"tool_call_id", "function_name", "arguments", "extra"})
_RESULT = frozenset({"source_call_id", "content", "extra"})
_STEP_METRICS = frozenset({"prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd"})
_MEDIA: dict[str, PartKind] = {"image": "image", "audio": "audio"}


class _Call(msgspec.Struct, gc=False):
    function_name: str
    arguments: Any = None
    tool_call_id: str | None = None
    extra: dict[str, Any] | None = None


class _Result(msgspec.Struct, gc=False):
    source_call_id: str | None = None
    content: str | list[Any] | None = None
    extra: dict[str, Any] | None = None


class _Metrics(msgspec.Struct, gc=False):
    """Counts of a step; those of a run have the same names behind `total_`."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class _Step(msgspec.Struct, gc=False):
    source: Literal["system", "user", "agent"]
    message: str | list[Any] | None = None
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None
    observation: dict[str, Any] | None = None
    metrics: _Metrics | None = None
    is_copied_context: bool | None = None
    extra: dict[str, Any] | None = None


def read_atif_step(value: Json, index: int) -> Step:
    """Return one ATIF step as the step at `index`."""
    try:
        step = msgspec.convert(value, _Step)
        calls = tuple([read_atif_call(call) for call in step.tool_calls or ()])
        listed = (step.observation or {}).get("results", [])
        results = tuple([read_atif_result(r) for r in msgspec.convert(listed, list[Any])])
    except msgspec.ValidationError as e:
        raise TraceError(f"step {index}: {e}") from e
    start = fields.parse_time(step.timestamp)
    extra = {**(step.extra or {}), **(fields.rest(value, _STEP) or {})}
    for key, known in (("metrics", _STEP_METRICS), ("observation", frozenset({"results"}))):
        if more := fields.rest(value.get(key) or {}, known):
            extra[key] = more
    if step.timestamp is not None and start is None:
        extra["timestamp"] = step.timestamp
    return Step(
        index=index,
        actor=_ACTORS[step.source],
        kind=_kind(step, calls),
        parts=_parts(step),
        calls=calls,
        results=results,
        model=step.model_name,
        usage=_read_usage(step.metrics),
        cost_usd=None if step.metrics is None else step.metrics.cost_usd,
        start=start,
        replayed=bool(step.is_copied_context),
        extra=extra or None,
    )


def _kind(step: _Step, calls: tuple[ToolCall, ...]) -> StepKind:
    if calls:
        return "call"
    management = (step.extra or {}).get("context_management")
    if isinstance(management, dict) and management.get("type") == "compaction":
        return "compaction"
    return "message"


def _parts(step: _Step) -> tuple[Part, ...]:
    parts = read_content_parts(step.message)
    thoughts = [Part("reasoning", step.reasoning_content)] if step.reasoning_content else []
    return (*thoughts, *parts)


def read_content_parts(content: str | list[Json] | None) -> tuple[Part, ...]:
    """Return text, or a list of ATIF content parts, as parts."""
    if not content:
        return ()
    if isinstance(content, str):
        return (Part("text", content),)
    return tuple([_part(part) for part in content])


def _part(part: Json) -> Part:
    match part:
        case {"type": "text", "text": str(text)}:
            return Part("text", text, extra=fields.rest(part, frozenset({"type", "text"})))
        case {"type": "image" | "audio" as kind, "source": {"path": str(path)} as source}:
            extra = fields.rest(source, frozenset({"path"}))
            return fields.url_part(_MEDIA[kind], path, extra=extra)
        case dict():
            return Part("data", extra=part)
    return Part("data", extra={"value": part})


def read_atif_call(value: Json) -> ToolCall:
    """Return one ATIF tool call."""
    call = msgspec.convert(value, _Call)
    extra = {**(call.extra or {}), **(fields.rest(value, _CALL) or {})}
    return ToolCall(call.function_name, call.arguments, call.tool_call_id, extra=extra or None)


def read_atif_result(value: Json) -> ToolResult:
    """Return one ATIF observation result, judged by its text."""
    result = msgspec.convert(value, _Result)
    parts = read_content_parts(result.content)
    text = fields.parts_text(parts)
    extra = {**(result.extra or {}), **(fields.rest(value, _RESULT) or {})}
    judged = fields.infer_text_status(text) if text else fields.UNKNOWN_STATUS
    return ToolResult(result.source_call_id, None, parts, None, *judged, extra=extra or None)


def _read_usage(metrics: _Metrics | None) -> Usage | None:
    told = metrics or _Metrics()
    usage = Usage(
        input_total=told.prompt_tokens,
        cache_read=told.cached_tokens,
        output_total=told.completion_tokens,
    )
    return None if usage == Usage() else usage


NAME = "atif"

_RUN = frozenset(
    "schema_version session_id trajectory_id agent steps final_metrics subagent_trajectories "
    "extra".split()
)
_AGENT = frozenset({"name", "version", "tool_definitions"})
_FINAL_METRICS = frozenset(
    "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd".split()
)


class _Agent(msgspec.Struct, gc=False):
    name: str
    version: str | None = None
    model_name: str | None = None
    tool_definitions: list[Any] | None = None


class AtifRun(msgspec.Struct, gc=False):
    """The keys of a run, typed; what stands beside them is kept."""

    schema_version: str
    steps: list[Any]
    agent: _Agent
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: dict[str, Any] | None = None
    subagent_trajectories: list[Any] | None = None
    extra: dict[str, Any] | None = None


def read_atif_runs(
    found: DecodedRecord, record: Json, ordinals: Ordinals, parent: Trajectory | None
) -> tuple[Trajectory, ...]:
    """Return the run of a record and, behind it, those of its subagents."""
    if not isinstance(record, dict):
        raise TraceError(f"an ATIF run is an object; found {str(record)[:60]!r}")
    run, unexpected = convert_record(record, AtifRun)
    record = {key: value for key, value in record.items() if key not in unexpected.values}
    if not run.schema_version.startswith("ATIF-v1."):
        raise TraceError(f"schema {run.schema_version!r}; this importer reads ATIF-v1.0 to v1.8")
    source = found.source(NAME, run.trajectory_id or run.session_id, run.schema_version)
    draft, kept = draft_atif_run(record, run, source)
    draft = unexpected.keep_in(draft)
    if parent is not None:
        draft = msgspec.structs.replace(draft, parent=parent.id)
    whole = finish_run(
        restore_run_fields(draft, kept), ordinals, limits=found.limits, repairs=found.repairs
    )
    children = [
        descendant
        for subagent in run.subagent_trajectories or ()
        for descendant in read_atif_runs(found._replace(repairs=()), subagent, ordinals, whole)
    ]
    own = tuple([child.id for child in children if child.parent == whole.id])
    if own:
        whole = msgspec.structs.replace(whole, children=own)
    return (whole, *children)


def draft_atif_run(
    record: dict[str, Json], run: AtifRun, source: Source
) -> tuple[Trajectory, Json]:
    """Return a run without its id, and what `extra.stepscope` keeps of it."""
    extra = dict(run.extra or {})
    kept = extra.pop(KEY, None)
    read = [read_atif_step(step, index) for index, step in enumerate(run.steps)]
    steps = restore_atif_steps(read, kept)
    start, end = fields.time_bounds(steps)
    metrics = run.final_metrics or {}
    counts = {key.removeprefix("total_"): metrics[key] for key in metrics if key in _FINAL_METRICS}
    total = msgspec.convert(counts, _Metrics)
    for key, known in (("agent", _AGENT), ("final_metrics", _FINAL_METRICS)):
        if more := fields.rest(record.get(key) or {}, known):
            extra[key] = more
    extra.update(fields.rest(record, _RUN) or {})
    if run.session_id is not None and run.session_id != source.run_id:
        extra["session_id"] = run.session_id
    draft = Trajectory(
        id="",
        name=source.run_id or "",
        steps=steps,
        source=source,
        workflow=NAME,
        agent=run.agent.name,
        agent_version=run.agent.version,
        tools=fields.tool_defs(run.agent.tool_definitions),
        usage=_read_usage(total),
        cost_usd=total.cost_usd,
        start=start,
        end=end,
        warnings=tuple(
            Warn("step_id_not_sequential", f"step_id is {step['step_id']!r}; expected {at + 1}", at)
            for at, step in enumerate(run.steps)
            if isinstance(step, dict) and step.get("step_id", at + 1) != at + 1
        ),
        extra=extra or None,
    )
    return draft, kept
