"""An ATIF record as runs: the run itself, then those of its subagents as children."""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.atif_residue import KEY, restored_run, restored_steps
from stepscope.formats.atif_step import atif_step
from stepscope.formats.building import Ordinals, finish, rest
from stepscope.formats.envelope import tool_defs
from stepscope.formats.plain import Found
from stepscope.formats.times import bounds
from stepscope.model import Json, Source, Trajectory, Usage, Warn

NAME = "atif"

_RUN = frozenset(
    "schema_version session_id trajectory_id agent steps final_metrics subagent_trajectories "
    "extra".split()
)
_AGENT = frozenset({"name", "version", "tool_definitions"})
_METRICS = frozenset(
    "total_prompt_tokens total_completion_tokens total_cached_tokens total_cost_usd".split()
)


class _Agent(msgspec.Struct, gc=False):
    name: str
    version: str | None = None
    model_name: str | None = None
    tool_definitions: list[Any] | None = None


class _Metrics(msgspec.Struct, gc=False):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None


class Run(msgspec.Struct, gc=False):
    """The keys of a run, typed; what stands beside them is kept."""

    schema_version: str
    steps: list[Any]
    agent: _Agent
    session_id: str | None = None
    trajectory_id: str | None = None
    final_metrics: _Metrics | None = None
    subagent_trajectories: list[Any] | None = None
    extra: dict[str, Any] | None = None


def runs_of(
    found: Found, record: Json, ordinals: Ordinals, parent: Trajectory | None
) -> tuple[Trajectory, ...]:
    """Return the run of a record and, behind it, those of its subagents."""
    if not isinstance(record, dict):
        raise TraceError(f"an ATIF run is an object; found {str(record)[:60]!r}")
    run = msgspec.convert(record, Run)
    if not run.schema_version.startswith("ATIF-v1."):
        raise TraceError(f"schema {run.schema_version!r}; this importer reads ATIF-v1.0 to v1.8")
    source = Source(
        format=NAME,
        format_version=run.schema_version,
        uri=found.uri,
        offset=found.offset,
        run_id=run.trajectory_id or run.session_id,
    )
    draft, kept = draft_of(record, run, source)
    if parent is not None:
        draft = msgspec.structs.replace(draft, parent=parent.id)
    whole = finish(restored_run(draft, kept), ordinals, limits=found.limits, repairs=found.repairs)
    children = [
        descendant
        for subagent in run.subagent_trajectories or ()
        for descendant in runs_of(found._replace(repairs=()), subagent, ordinals, whole)
    ]
    own = tuple([child.id for child in children if child.parent == whole.id])
    if own:
        whole = msgspec.structs.replace(whole, children=own)
    return (whole, *children)


def draft_of(record: dict[str, Json], run: Run, source: Source) -> tuple[Trajectory, Json]:
    """Return a run without its id, and what `extra.stepscope` keeps of it."""
    extra = dict(run.extra or {})
    kept = extra.pop(KEY, None)
    read = [atif_step(step, index) for index, step in enumerate(run.steps)]
    steps = restored_steps(read, kept)
    start, end = bounds(steps)
    agent = record["agent"]
    metrics = record.get("final_metrics") or {}
    for key, value in (
        ("agent", rest(agent, _AGENT)),
        ("final_metrics", rest(metrics, _METRICS)),
    ):
        if value is not None:
            extra[key] = value
    extra.update(rest(record, _RUN) or {})
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
        tools=tool_defs(run.agent.tool_definitions),
        usage=_usage(run.final_metrics),
        cost_usd=None if run.final_metrics is None else run.final_metrics.total_cost_usd,
        start=start,
        end=end,
        warnings=_misnumbered(run.steps),
        extra=extra or None,
    )
    return draft, kept


def _misnumbered(steps: list[Json]) -> tuple[Warn, ...]:
    return tuple(
        [
            Warn("step_id_not_sequential", f"step_id is {step['step_id']!r}; expected {at + 1}", at)
            for at, step in enumerate(steps)
            if isinstance(step, dict) and step.get("step_id", at + 1) != at + 1
        ]
    )


def _usage(metrics: _Metrics | None) -> Usage | None:
    if metrics is None:
        return None
    usage = Usage(
        input_total=metrics.total_prompt_tokens,
        cache_read=metrics.total_cached_tokens,
        output_total=metrics.total_completion_tokens,
    )
    return None if usage == Usage() else usage
