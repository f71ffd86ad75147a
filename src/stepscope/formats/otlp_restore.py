"""Runs of ours out of spans that `otlp_write` wrote: whole again, in whatever order spans come.

The mark on a trace's root says that it is one of ours and keeps what spans cannot say of a run.
A trace that lost spans on its way, or whose mark cannot be read, is read like any other, with a
warning. Verdicts written on spans are not read back: they are counted in a warning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.envelope import tool_defs
from stepscope.formats.otlp_marks import (
    COUNT_KEY,
    MARK,
    SCHEMA,
    SCHEMA_KEY,
    SCOPE,
    SPAN_KEY,
    SPANS_KEY,
    STEPS_KEY,
)
from stepscope.formats.otlp_messages import instant, steps_in, usage_in
from stepscope.formats.otlp_residue import restored
from stepscope.formats.otlp_verdicts import unjudged
from stepscope.formats.spans.attributes import decoded
from stepscope.formats.spans.span import Span
from stepscope.model import Json, Source, Step, Trajectory, Warn
from stepscope.safety.limits import Limits

# Reads the spans of a trace as those of any recorder.
Draft = Callable[[list[Span]], Trajectory]

_OWN = ("gen_ai.", "stepscope.", "error.type")
_MARKS = frozenset({MARK, SCHEMA_KEY, SPAN_KEY, SPANS_KEY})


def read_trace(
    spans: Sequence[Span], source: Source, limits: Limits, draft: Draft
) -> Trajectory | None:
    """Return the run that a trace of ours holds, without its id; None where it is not of ours."""
    marked = [span for span in spans if MARK in span.attributes]
    if not marked:
        return None
    clean, verdicts = _without_verdicts(spans)
    try:
        run = _restored(clean, marked[-1], source, limits, draft)
    except (TraceError, msgspec.ValidationError) as e:
        run = draft(clean)
        lost = Warn("not_restored", f"read as any recorder's: {e}")
        run = msgspec.structs.replace(run, warnings=(*run.warnings, lost))
    if not verdicts:
        return run
    told = Warn("verdicts_not_read", f"{verdicts} verdicts of stepscope on its spans are left out")
    return msgspec.structs.replace(run, warnings=(*run.warnings, told))


def _without_verdicts(spans: Sequence[Span]) -> tuple[list[Span], int]:
    bare = [unjudged(span) for span in spans]
    return [span for span, _ in bare], sum([count for _, count in bare])


def _restored(
    spans: list[Span], root: Span, source: Source, limits: Limits, draft: Draft
) -> Trajectory:
    schema = root.attributes.get(SCHEMA_KEY)
    if schema != SCHEMA:
        raise TraceError(f"spans of schema {schema!r}; this version reads {SCHEMA}")
    run = restored(base_of(spans, source, limits, draft), decoded(root.attributes[MARK], limits))
    here = msgspec.structs.replace(run.source, uri=source.uri, offset=source.offset)
    return msgspec.structs.replace(run, source=here)


def base_of(spans: list[Span], source: Source, limits: Limits, draft: Draft) -> Trajectory:
    """Return what spans of ours say of a run by themselves.

    Raises:
        TraceError: spans are missing, or what is kept beside them does not fit.
        msgspec.ValidationError: the same.
    """
    root = next((span for span in spans if COUNT_KEY in span.attributes), None)
    if root is None:
        return draft([_original(span, limits) for span in _in_order(spans, limits)])
    if foreign := [span.span_id for span in spans if span.scope != SCOPE]:
        raise TraceError(f"{len(foreign)} spans of others are among them, {foreign[0]!r} first")
    steps = [step for span in spans for step in _steps(span, limits)]
    steps.sort(key=lambda step: step.index)
    if len(steps) != root.attributes[COUNT_KEY]:
        raise TraceError(f"{len(steps)} of {root.attributes[COUNT_KEY]!r} steps are there")
    about = root.attributes
    session = _text(about, "gen_ai.conversation.id")
    tools = decoded(about.get("gen_ai.tool.definitions"), limits)
    return Trajectory(
        id="",
        name="",
        steps=tuple(steps),
        source=source,
        workflow=_text(about, "gen_ai.workflow.name") or "",
        agent=_text(about, "gen_ai.agent.name"),
        agent_version=_text(about, "gen_ai.agent.version"),
        tags={} if session is None else {"session": session},
        tools=tool_defs(tools) if isinstance(tools, list) else None,
        usage=usage_in(about),
        start=instant(root.start_ns),
        end=instant(root.end_ns),
        extra=_added(spans),
    )


def _text(about: Mapping[str, Json], key: str) -> str | None:
    value = about.get(key)
    return value if isinstance(value, str) else None


def _steps(span: Span, limits: Limits) -> list[Step]:
    if STEPS_KEY not in span.attributes:
        return []
    kept = decoded(span.attributes[STEPS_KEY], limits)
    told = steps_in(span, limits)
    if not isinstance(kept, list) or len(kept) != len(told):
        raise TraceError(f"span {span.span_id!r} tells {len(told)} steps and keeps others beside")
    return [restored(step, residue) for step, residue in zip(told, kept, strict=True)]


def _in_order(spans: list[Span], limits: Limits) -> list[Span]:
    """Return recorded spans in the order in which they were first read."""
    listed = next((s.attributes[SPANS_KEY] for s in spans if SPANS_KEY in s.attributes), None)
    order = decoded(listed, limits)
    waiting: dict[str, list[Span]] = {}
    for span in reversed(spans):
        waiting.setdefault(span.span_id, []).append(span)
    if not isinstance(order, list) or Counter(order) != {k: len(v) for k, v in waiting.items()}:
        raise TraceError(f"{len(spans)} spans are there, not those that were written")
    return [waiting[span_id].pop() for span_id in order]


def _original(span: Span, limits: Limits) -> Span:
    """Return a span as it was recorded, without our marks."""
    about = {k: v for k, v in span.attributes.items() if k not in _MARKS}
    bare = msgspec.structs.replace(span, attributes=about)
    kept = span.attributes.get(SPAN_KEY)
    return bare if kept is None else restored(bare, decoded(kept, limits))


def _added(spans: Sequence[Span]) -> dict[str, Json] | None:
    """Return what others put on our spans on their way, by the id of the span."""
    found: dict[str, Json] = {}
    for span in spans:
        more = {k: v for k, v in span.attributes.items() if not k.startswith(_OWN)}
        if span.events:
            more["events"] = [msgspec.to_builtins(event) for event in span.events]
        if more:
            found[span.span_id] = more
    return {"added_to_spans": found} if found else None
