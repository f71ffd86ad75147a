"""Read and write the Agent Trajectory Interchange Format (ATIF), v1.0 to v1.8.

One record is one run, with its subagents' runs inside it; they come out as children. ATIF has no
error flag, no end times and no outcome: a result's status is guessed from its text and marked so.
What was written by us carries the rest under `extra.stepscope` and comes back whole
(docs/formats/atif.md has the table). Input tokens include cached ones. Several runs are written as
JSON lines, subagents' runs inside their parents'.
Format: Agent Trajectory Interchange Format RFC, schema "ATIF-v1.8" (harbor 0.25.0).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import BinaryIO

import msgspec

from stepscope.formats.atif import read
from stepscope.formats.atif.read import AtifRun
from stepscope.formats.fields import function_json, parse_time, time_bounds
from stepscope.formats.finish import find_oddities
from stepscope.formats.format import RecordFormat, read_each
from stepscope.formats.opening import Opening
from stepscope.model import (
    Actor,
    Instant,
    Json,
    Part,
    Source,
    Step,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
)

SCHEMA = "ATIF-v1.8"

_SOURCES: dict[Actor, str] = {
    "system": "system",
    "user": "user",
    "agent": "agent",
    "environment": "system",
}
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
    reached: set[str] = set()
    waiting = list(roots)
    while waiting:
        one = waiting.pop()
        reached.add(one.id)
        waiting += inside.get(one.id, ())
    for run in roots:
        file.write(msgspec.json.encode(write_atif_run(run, inside)) + b"\n")
    for run in runs:
        # Runs that are each other's parents hang on no root.
        if run.id not in reached:
            file.write(msgspec.json.encode(write_atif_run(run, {})) + b"\n")


def write_atif_run(run: Trajectory, inside: dict[str, list[Trajectory]]) -> dict[str, Json]:
    """Return a run as ATIF, with those of its subagents."""
    steps, gone = _steps(run)
    extra = read.carry_extra(run.extra)
    more = extra.pop("agent", None)
    agent: dict[str, Json] = {
        "name": run.agent or "unknown",
        "version": run.agent_version or "unknown",
    }
    if isinstance(more, dict):
        agent.update({key: more[key] for key in ("model_name", "extra") if key in more})
    if run.tools is not None:
        agent["tool_definitions"] = [
            {"type": "function", "function": function_json(tool)} for tool in run.tools
        ]
    record: dict[str, Json] = {
        "schema_version": SCHEMA,
        "session_id": run.source.run_id or run.id,
        "trajectory_id": run.source.run_id or run.id,
        "agent": agent,
        "steps": steps,
        **{key: extra.pop(key) for key in _RUN_KEYS if isinstance(extra.get(key), str)},
    }
    more = extra.pop("final_metrics", None)
    metrics = {f"total_{key}": value for key, value in _metrics(run).items()}
    if isinstance(more, dict):
        metrics.update({key: more[key] for key in ("total_steps", "extra") if key in more})
    if metrics:
        record["final_metrics"] = metrics
    if extra:
        record["extra"] = extra
    # What reading the record back would get wrong of the run, its steps apart.
    bare = {**record, "steps": []}
    source = Source(format=read.NAME, format_version=SCHEMA, run_id=record["trajectory_id"])
    back, _ = read.draft_atif_run(bare, msgspec.convert(bare, AtifRun), source)
    start, end = time_bounds(run.steps)
    back = msgspec.structs.replace(back, start=start, end=end)
    # Where a run was read is this machine's business: paths are not written.
    # The warnings that reading the steps again would not give by itself.
    again = find_oddities(run.steps)
    told = msgspec.structs.replace(
        run,
        warnings=tuple([warning for warning in run.warnings if warning not in again]),
        source=msgspec.structs.replace(run.source, uri="", offset=None),
    )
    kept = read.find_atif_residue(told, back, skip=("id", "steps")) | read.fold_steps(gone)
    if kept:
        record["extra"] = read.join_extra(extra, kept)
    if run.id in inside:
        record["subagent_trajectories"] = [
            write_atif_run(child, inside) for child in inside[run.id]
        ]
    return record


def _metrics(spent: Trajectory | Step) -> dict[str, Json]:
    usage = spent.usage or Usage()
    counts = {
        "prompt_tokens": usage.input_total,
        "completion_tokens": usage.output_total,
        "cached_tokens": usage.cache_read,
        "cost_usd": spent.cost_usd,
    }
    return {key: value for key, value in counts.items() if value is not None}


def _steps(run: Trajectory) -> tuple[list[Json], list[Step]]:
    """Return the steps as ATIF, and those that are gone because all their results moved."""
    moves = _moves(run)
    coming: dict[int, list[Json]] = {}
    gone: list[Step] = []
    for step in run.steps:
        for position, result in enumerate(step.results):
            if (step.index, position) in moves:
                to, call_id = moves[step.index, position]
                mark = read.mark_moved(step, position)
                coming.setdefault(to, []).append(_result(result, call_id, mark))
    written: list[Json] = []
    for step in run.steps:
        staying = [
            result for at, result in enumerate(step.results) if (step.index, at) not in moves
        ]
        if step.results and not (staying or step.parts or step.calls):
            gone.append(step)
            continue
        own = _call_ids(step) if step.actor == "agent" else []
        results = [
            _result(r, r.call_id if r.call_id in own else None, {}) for r in staying
        ] + coming.get(step.index, [])
        written.append(_step(step, len(written), results))
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


def _step(step: Step, position: int, results: list[Json]) -> Json:
    extra = read.carry_extra(step.extra)
    atif: dict[str, Json] = {"step_id": position + 1, "source": _SOURCES[step.actor]}
    moment = None if step.start is None else _timestamp(step.start)
    if moment is not None:
        atif["timestamp"] = moment
    atif["message"] = _message(step.parts)
    if step.actor == "agent":
        # ATIF allows these on an agent's step alone.
        fields: dict[str, Json] = {}
        if step.model is not None:
            fields["model_name"] = step.model
        thoughts = [p.text for p in step.parts if p.kind == "reasoning" and p.text is not None]
        if thoughts:
            fields["reasoning_content"] = "\n".join(thoughts)
        if step.calls:
            ids = _call_ids(step)
            fields["tool_calls"] = [
                _call(call, call_id) for call, call_id in zip(step.calls, ids, strict=True)
            ]
        told = _metrics(step)
        more = extra.get("metrics")
        if isinstance(more, dict) and more.keys() <= _METRICS_KEYS:
            told |= extra.pop("metrics")
        if told:
            fields["metrics"] = told
        fields |= {key: extra.pop(key) for key in _STEP_KEYS if key in extra}
        atif |= fields
    if results:
        atif["observation"] = {"results": results}
    if step.replayed:
        atif["is_copied_context"] = True
    if extra:
        atif["extra"] = extra
    back = read.read_atif_step(atif, position)
    calls_lost = step.actor != "agent"
    skip = ("results",) if calls_lost else ("results", "calls")
    residue = read.find_atif_residue(step, back, skip=skip)
    if residue:
        atif["extra"] = read.join_extra(extra, residue)
    return atif


def _message(parts: tuple[Part, ...]) -> Json:
    texts = [part.text for part in parts if part.kind == "text" and part.text is not None]
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else ""


def _timestamp(time: Instant) -> str | None:
    """The time as ISO 8601; None for a year that ISO 8601 cannot say."""
    if parse_time(time.text) == time:
        return time.text
    whole, nanoseconds = divmod(time.ns, 1_000_000_000)
    try:
        moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return None
    return f"{moment}.{nanoseconds:09d}Z"


def _call(call: ToolCall, call_id: str) -> Json:
    given = call.arguments
    atif: dict[str, Json] = {
        "tool_call_id": call_id,
        "function_name": call.name,
        "arguments": given if isinstance(given, dict) else {"value": given},
    }
    extra = read.carry_extra(call.extra)
    if extra:
        atif["extra"] = extra
    residue = read.find_atif_residue(call, read.read_atif_call(atif))
    if residue:
        atif["extra"] = read.join_extra(extra, residue)
    return atif


def _result(result: ToolResult, call_id: str | None, mark: dict[str, Json]) -> Json:
    extra = read.carry_extra(result.extra)
    atif: dict[str, Json] = {} if call_id is None else {"source_call_id": call_id}
    if result.parts:
        atif["content"] = _message(result.parts)
    if "subagent_trajectory_ref" in extra:
        atif["subagent_trajectory_ref"] = extra.pop("subagent_trajectory_ref")
    if extra:
        atif["extra"] = extra
    residue = read.find_atif_residue(result, read.read_atif_result(atif)) | mark
    if residue:
        atif["extra"] = read.join_extra(extra, residue)
    return atif


def _likeness(opening: Opening) -> float:
    record = opening.first("schema_version")
    if record is None:
        return 0.0
    version = record["schema_version"]
    return 1.0 if isinstance(version, str) and version.startswith("ATIF-v") else 0.0


FORMAT = RecordFormat(
    read.NAME,
    _likeness,
    read_each(lambda found, ordinals: read.read_atif_runs(found, found.value, ordinals, None)),
)
