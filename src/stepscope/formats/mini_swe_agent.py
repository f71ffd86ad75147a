"""Read mini-swe-agent: `trajectory_format` 1 and 1.1, and older bare lists of its messages.

One file is one run. Every command is a call of `bash`; a submission is no success, so the outcome
stays unknown. A bare list is known by its fenced commands, whose answers tell a return code; a chat
in which code is only shown stays a chat.
Format: SWE-agent/mini-swe-agent, `agents/default.py`, and its test files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.chat import Reading
from stepscope.formats.dialects import runs_fences
from stepscope.formats.gathering import gathered
from stepscope.formats.mini_steps import EXIT, answered, judge, mini_step
from stepscope.formats.opening import Opening
from stepscope.formats.plain import Found, PlainFormat
from stepscope.formats.swe_stats import Stats
from stepscope.formats.tokens import total
from stepscope.model import Json, Quarantined, Source, Step, Stream, Trajectory

NAME = "mini_swe_agent"
_RUN = frozenset({"info", "messages", "trajectory_format", "instance_id"})
_INFO = frozenset({"mini_version", "exit_status"})


class _Info(msgspec.Struct, gc=False):
    exit_status: str | None = None
    mini_version: str | None = None
    model_stats: Stats | None = None
    config: Any = None


class _Run(msgspec.Struct, gc=False):
    messages: list[Any]
    trajectory_format: str | None = None
    instance_id: str | None = None
    info: _Info | None = None


def _likeness(opening: Opening) -> float:
    if not opening.records:
        return 0.0
    first = opening.records[0]
    if isinstance(first, list):
        return 0.9 if runs_fences(first) else 0.0
    if not isinstance(first, dict):
        return 0.0
    if "role" in first:
        return 0.9 if runs_fences(opening.records) else 0.0
    info = first.get("info")
    told = text_at(first, "trajectory_format") or ""
    if told.startswith("mini-swe-agent") and "messages" in first:
        return 1.0
    return 0.95 if isinstance(info, dict) and "mini_version" in info and "messages" in first else 0


def _is_part(record: Json) -> bool:
    return not isinstance(record, list) and not (isinstance(record, dict) and "messages" in record)


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    yield from gathered(
        stream,
        is_part=_is_part,
        step=lambda found, index: mini_step(found.value, index, _reading(found)),
        whole=lambda found: (_whole(found, ordinals),),
        run=lambda steps, first: _made(steps, first, _Run([]), None, ordinals=ordinals),
    )


def _reading(found: Found) -> Reading:
    return Reading(judge, found.limits)


def _whole(found: Found, ordinals: Ordinals) -> Trajectory:
    record = found.value
    extra = None
    if isinstance(record, list):
        run = _Run(record)
    else:
        run = msgspec.convert(record, _Run)
        told = None if run.info is None else rest(record["info"], _INFO)
        extra = {**({} if told is None else {"info": told}), **(rest(record, _RUN) or {})} or None
    reading = _reading(found)
    steps = tuple([mini_step(message, at, reading) for at, message in enumerate(run.messages)])
    return _made(steps, found, run, extra, ordinals=ordinals)


def _made(
    steps: tuple[Step, ...],
    found: Found,
    run: _Run,
    extra: dict[str, Json] | None,
    *,
    ordinals: Ordinals,
) -> Trajectory:
    if not steps and run.info is None:
        raise TraceError("a run of mini-swe-agent has messages; found none")
    info = run.info or _Info()
    model = _model(info.config)
    steps = tuple(
        [
            msgspec.structs.replace(step, model=model)
            if model is not None and step.actor == "agent" and step.model is None
            else step
            for step in answered(steps)
        ]
    )
    draft = Trajectory(
        id="",
        name=run.instance_id or "",
        steps=steps,
        source=Source(
            format=NAME,
            format_version=run.trajectory_format,
            uri=found.uri,
            offset=found.offset,
        ),
        workflow=NAME,
        task=run.instance_id,
        agent="mini-swe-agent",
        agent_version=info.mini_version,
        termination=info.exit_status or _ending(steps),
        usage=total(steps),
        cost_usd=(info.model_stats or Stats()).cost_usd,
        extra=extra,
    )
    return finish(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _model(config: Json) -> str | None:
    settings = config.get("model") if isinstance(config, dict) else None
    return text_at(settings, "model_name") if isinstance(settings, dict) else None


def _ending(steps: tuple[Step, ...]) -> str | None:
    extra = steps[-1].extra if steps else None
    return text_at(extra, "exit_status") if extra and extra.get("role") == EXIT else None


FORMAT = PlainFormat(NAME, _likeness, _read)
