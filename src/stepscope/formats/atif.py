"""Read and write the Agent Trajectory Interchange Format (ATIF), v1.0 to v1.8.

One record is one run, with its subagents' runs inside it; they come out as children. ATIF has no
error flag, no end times and no outcome: a result's status is guessed from its text and marked so.
What was written by us carries the rest under `extra.stepscope` and comes back whole
(docs/formats/atif.md has the table). Input tokens include cached ones. Several runs are written as
JSON lines, subagents' runs inside their parents'.
Format: Agent Trajectory Interchange Format RFC, schema "ATIF-v1.8" (harbor 0.25.0).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal, TypeVar

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.finish import Ordinals, find_oddities
from stepscope.formats.format import DecodedRecord, RecordFormat, convert_record, read_each
from stepscope.formats.opening import Opening
from stepscope.model import (
    Actor,
    Instant,
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
# Of a result, the step and the place in it where it belongs; steps all of whose results have moved.
_AT, _FOLDED = "at", "folded"

T = TypeVar("T", bound=msgspec.Struct)


def find_atif_residue(
    value: msgspec.Struct, back: msgspec.Struct, *, skip: Sequence[str] = ()
) -> dict[str, Json]:
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


def _restored_call(call: ToolCall) -> ToolCall:
    extra, residue = split_extra(call.extra)
    bare = msgspec.structs.replace(call, extra=extra)
    return bare if residue is None else apply_atif_residue(bare, residue)


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


_ACTORS: dict[str, Actor] = {"system": "system", "user": "user", "agent": "agent"}
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


_STEP = frozenset({"step_id", *_Step.__struct_fields__})
_CALL, _RESULT = frozenset(_Call.__struct_fields__), frozenset(_Result.__struct_fields__)
_STEP_METRICS = frozenset(_Metrics.__struct_fields__)


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
    thoughts = [Part("reasoning", step.reasoning_content)] if step.reasoning_content else []
    kind: StepKind = "call" if calls else "message"
    match step.extra:
        case {"context_management": {"type": "compaction"}} if not calls:
            kind = "compaction"
    return Step(
        index=index,
        actor=_ACTORS[step.source],
        kind=kind,
        parts=(*thoughts, *read_content_parts(step.message)),
        calls=calls,
        results=results,
        model=step.model_name,
        usage=_read_usage(step.metrics),
        cost_usd=None if step.metrics is None else step.metrics.cost_usd,
        start=start,
        replayed=bool(step.is_copied_context),
        extra=extra or None,
    )


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
    given, read, made = told.prompt_tokens, told.cached_tokens, told.completion_tokens
    return fields.known_usage(Usage(input_total=given, cache_read=read, output_total=made))


NAME = "atif"

_AGENT = frozenset({"name", "version", "tool_definitions"})
_FINAL_METRICS = frozenset(f"total_{name}" for name in _STEP_METRICS)


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


_RUN = frozenset(AtifRun.__struct_fields__)


def read_atif_runs(
    found: DecodedRecord, record: Json, ordinals: Ordinals, parent: Trajectory | None
) -> tuple[Trajectory, ...]:
    """Return the run of a record and, behind it, those of its subagents."""
    record = fields.expect_object(record, "an ATIF run is an object")
    run, unexpected = convert_record(record, AtifRun)
    record = {key: value for key, value in record.items() if key not in unexpected.values}
    if not run.schema_version.startswith("ATIF-v1."):
        raise TraceError(f"schema {run.schema_version!r}; this importer reads ATIF-v1.0 to v1.8")
    source = found.source(NAME, run.trajectory_id or run.session_id, run.schema_version)
    draft, kept = draft_atif_run(record, run, source)
    draft = unexpected.keep_in(draft)
    if parent is not None:
        draft = msgspec.structs.replace(draft, parent=parent.id)
    whole = found.finish(restore_run_fields(draft, kept), ordinals)
    children: list[Trajectory] = []
    for subagent in run.subagent_trajectories or ():
        children += read_atif_runs(found._replace(repairs=()), subagent, ordinals, whole)
    own = tuple([child.id for child in children if child.parent == whole.id])
    if own:
        whole = msgspec.structs.replace(whole, children=own)
    return (whole, *children)


def draft_atif_run(told: dict[str, Json], run: AtifRun, source: Source) -> tuple[Trajectory, Json]:
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
        if more := fields.rest(told.get(key) or {}, known):
            extra[key] = more
    extra.update(fields.rest(told, _RUN) or {})
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


SCHEMA = "ATIF-v1.8"

# Fields of the format that have none in our model: they travel in our `extra` and go back.
_STEP_KEYS = ("reasoning_effort", "llm_call_count")
_RUN_KEYS = ("notes", "continued_trajectory_ref", "session_id")
_METRICS_KEYS = frozenset({"prompt_token_ids", "completion_token_ids", "logprobs", "extra"})

# Where a result came -> the step of the call that it answers, and that call's id.
Moves = dict[tuple[int, int], tuple[int, str]]


def write(trajectories: Iterable[Trajectory], file: BinaryIO) -> None:
    """Write runs, one JSON object a line; a run whose parent is among them goes inside it."""
    runs = list(trajectories)
    ids = {run.id for run in runs}
    inside: dict[str, list[Trajectory]] = {}
    for run in runs:
        if run.parent in ids and run.parent is not None:
            inside.setdefault(run.parent, []).append(run)
    roots = [run for run in runs if run.parent not in ids]
    reached = list(roots)
    for one in reached:  # grows while it is walked
        reached += inside.get(one.id, ())
    for run in roots:
        file.write(msgspec.json.encode(write_atif_run(run, inside)) + b"\n")
    hanging = {run.id for run in reached}
    for run in runs:
        # Runs that are each other's parents hang on no root.
        if run.id not in hanging:
            file.write(msgspec.json.encode(write_atif_run(run, {})) + b"\n")


def write_atif_run(run: Trajectory, inside: dict[str, list[Trajectory]]) -> dict[str, Json]:
    """Return a run as ATIF, with those of its subagents."""
    steps, gone = _write_steps(run)
    extra = carry_extra(run.extra)
    more = extra.pop("agent", None)
    agent: dict[str, Json] = {"name": run.agent or "unknown"}
    agent["version"] = run.agent_version or "unknown"
    if isinstance(more, dict):
        agent.update({key: more[key] for key in ("model_name", "extra") if key in more})
    if run.tools is not None:
        agent["tool_definitions"] = [
            {"type": "function", "function": fields.function_json(tool)} for tool in run.tools
        ]
    atif: dict[str, Json] = {
        "schema_version": SCHEMA,
        "session_id": run.source.run_id or run.id,
        "trajectory_id": run.source.run_id or run.id,
        "agent": agent,
        "steps": steps,
        **{key: extra.pop(key) for key in _RUN_KEYS if isinstance(extra.get(key), str)},
    }
    more = extra.pop("final_metrics", None)
    metrics = {f"total_{key}": value for key, value in _write_metrics(run).items()}
    if isinstance(more, dict):
        metrics.update({key: more[key] for key in ("total_steps", "extra") if key in more})
    if metrics:
        atif["final_metrics"] = metrics
    if extra:
        atif["extra"] = extra
    # What reading the record back would get wrong of the run, its steps apart.
    bare = {**atif, "steps": []}
    source = Source(format=NAME, format_version=SCHEMA, run_id=atif["trajectory_id"])
    back, _ = draft_atif_run(bare, msgspec.convert(bare, AtifRun), source)
    start, end = fields.time_bounds(run.steps)
    back = msgspec.structs.replace(back, start=start, end=end)
    # Where a run was read is this machine's business: paths are not written.
    # The warnings that reading the steps again would not give by itself.
    again = find_oddities(run.steps)
    told = msgspec.structs.replace(
        run,
        warnings=tuple([warning for warning in run.warnings if warning not in again]),
        source=msgspec.structs.replace(run.source, uri="", offset=None),
    )
    kept = find_atif_residue(told, back, skip=("id", "steps"))
    if gone:
        bare_steps = [msgspec.structs.replace(step, results=()) for step in gone]
        kept[_FOLDED] = msgspec.to_builtins(bare_steps)
    if kept:
        atif["extra"] = {**extra, KEY: kept}
    if run.id in inside:
        atif["subagent_trajectories"] = [write_atif_run(child, inside) for child in inside[run.id]]
    return atif


def _write_metrics(spent: Trajectory | Step) -> dict[str, Json]:
    usage = spent.usage or Usage()
    counts: dict[str, Json]
    counts = {"prompt_tokens": usage.input_total, "completion_tokens": usage.output_total}
    counts |= {"cached_tokens": usage.cache_read, "cost_usd": spent.cost_usd}
    return {key: value for key, value in counts.items() if value is not None}


def _write_steps(run: Trajectory) -> tuple[list[Json], list[Step]]:
    """Return the steps as ATIF, and those that are gone because all their results moved."""
    moves = _moves(run)
    coming: dict[int, list[Json]] = {}
    gone: list[Step] = []
    for step in run.steps:
        for position, result in enumerate(step.results):
            if (step.index, position) in moves:
                to, call_id = moves[step.index, position]
                mark = {_AT: [step.index, position]}
                coming.setdefault(to, []).append(_write_result(result, call_id, mark))
    written: list[Json] = []
    for step in run.steps:
        stays = [result for at, result in enumerate(step.results) if (step.index, at) not in moves]
        if step.results and not (stays or step.parts or step.calls):
            gone.append(step)
            continue
        own = _call_ids(step) if step.actor == "agent" else []
        named = [result.call_id if result.call_id in own else None for result in stays]
        results = [_write_result(r, call_id, {}) for r, call_id in zip(stays, named, strict=True)]
        results += coming.get(step.index, [])
        written.append(_write_step(step, len(written), results))
    return written, gone


def _moves(run: Trajectory) -> Moves:
    moves: Moves = {}
    by_index = {step.index: step for step in run.steps}
    for exchange in run.exchanges:
        if exchange.result_step is None or exchange.result_step == exchange.step:
            continue
        asking = by_index[exchange.step]
        if asking.actor != "agent":
            continue
        called = next(n for n, call in enumerate(asking.calls) if call is exchange.call)
        came = by_index[exchange.result_step].results
        position = next(n for n, result in enumerate(came) if result is exchange.result)
        moves[exchange.result_step, position] = (exchange.step, _call_ids(asking)[called])
    return moves


def _call_ids(step: Step) -> list[str]:
    """The ids of a step's calls; a call without one is given one, for ATIF demands it."""
    return [call.id or f"call-{step.index}-{n}" for n, call in enumerate(step.calls)]


def _write_step(step: Step, position: int, results: list[Json]) -> Json:
    extra = carry_extra(step.extra)
    source = "system" if step.actor == "environment" else step.actor
    atif: dict[str, Json] = {"step_id": position + 1, "source": source}
    moment = None if step.start is None else _timestamp(step.start)
    if moment is not None:
        atif["timestamp"] = moment
    atif["message"] = _write_content(step.parts)
    if step.actor == "agent":
        # ATIF allows these on an agent's step alone.
        own: dict[str, Json] = {} if step.model is None else {"model_name": step.model}
        thoughts = [p.text for p in step.parts if p.kind == "reasoning" and p.text is not None]
        if thoughts:
            own["reasoning_content"] = "\n".join(thoughts)
        if step.calls:
            own["tool_calls"] = list(map(_write_call, step.calls, _call_ids(step)))
        told = _write_metrics(step)
        more = extra.get("metrics")
        if isinstance(more, dict) and more.keys() <= _METRICS_KEYS:
            told |= extra.pop("metrics")
        if told:
            own["metrics"] = told
        own |= {key: extra.pop(key) for key in _STEP_KEYS if key in extra}
        atif |= own
    if results:
        atif["observation"] = {"results": results}
    if step.replayed:
        atif["is_copied_context"] = True
    skip = ("results", "calls") if step.actor == "agent" else ("results",)
    return _with_residue(
        atif, extra, lambda: find_atif_residue(step, read_atif_step(atif, position), skip=skip)
    )


def _with_residue(
    atif: dict[str, Json], extra: dict[str, Json], residue: Callable[[], dict[str, Json]]
) -> Json:
    """Return a form of ATIF with its `extra`, and then with what reading it back gets wrong."""
    if extra:
        atif["extra"] = extra
    if lost := residue():
        atif["extra"] = {**extra, KEY: lost}
    return atif


def _write_content(parts: tuple[Part, ...]) -> Json:
    texts = [part.text for part in parts if part.kind == "text" and part.text is not None]
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else ""


def _timestamp(time: Instant) -> str | None:
    """The time as ISO 8601; None for a year that ISO 8601 cannot say."""
    if fields.parse_time(time.text) == time:
        return time.text
    whole, nanoseconds = divmod(time.ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment}.{nanoseconds:09d}Z"


def _write_call(call: ToolCall, call_id: str) -> Json:
    given = call.arguments
    atif: dict[str, Json] = {"tool_call_id": call_id, "function_name": call.name}
    atif["arguments"] = given if isinstance(given, dict) else {"value": given}
    extra = carry_extra(call.extra)
    return _with_residue(atif, extra, lambda: find_atif_residue(call, read_atif_call(atif)))


def _write_result(came: ToolResult, call_id: str | None, mark: dict[str, Json]) -> Json:
    more = carry_extra(came.extra)
    atif: dict[str, Json] = {} if call_id is None else {"source_call_id": call_id}
    if came.parts:
        atif["content"] = _write_content(came.parts)
    if "subagent_trajectory_ref" in more:
        atif["subagent_trajectory_ref"] = more.pop("subagent_trajectory_ref")
    return _with_residue(atif, more, lambda: find_atif_residue(came, read_atif_result(atif)) | mark)


def _likeness(opening: Opening) -> float:
    version = (opening.first("schema_version") or {}).get("schema_version")
    return 1.0 if isinstance(version, str) and version.startswith("ATIF-v") else 0.0


FORMAT = RecordFormat(
    NAME,
    _likeness,
    read_each(lambda found, ordinals: read_atif_runs(found, found.value, ordinals, None)),
)
