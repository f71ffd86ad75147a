"""The spans that a run was read from, as they were recorded: original ids, names and attributes.

A run keeps its spans in `Trajectory.spans`, and what those have no field for beside them in
`extra`; here they are put together again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from stepscope.formats.otlp_any import TRACE_DIGITS, id_of, sealed
from stepscope.formats.spans.span import Span, SpanEvent, SpanStatus
from stepscope.model import Json, ResultStatus, Trajectory
from stepscope.model import Span as Node

_STATUSES: dict[ResultStatus, SpanStatus] = {"ok": "ok", "error": "error", "unknown": "unset"}


class Recorded(NamedTuple):
    """The spans of a run, the position of its root, and the span of each step."""

    spans: list[Span]
    root: int
    homes: list[str]


def recorded(run: Trajectory, trace_id: str | None = None) -> Recorded:
    """Return the spans of a run; under another trace's id where one is given."""
    own = run.source.run_id or ""
    written = trace_id or id_of(own or run.id, TRACE_DIGITS)
    originals = spans_of(run)
    spans = [sealed(span, written) for span in originals]
    ids = {span.span_id for span in originals}
    root = next((at for at, span in enumerate(originals) if span.parent_id not in ids), 0)
    places = {span.span_id: at for at, span in enumerate(originals)}
    homes = [spans[places.get(step.span or "", root)].span_id for step in run.steps]
    return Recorded(spans, root, homes)


def spans_of(run: Trajectory) -> list[Span]:
    """Return the spans of a run as its recorder wrote them."""
    beside = run.extra or {}
    facts, resources = beside.get("span_facts"), beside.get("resources")
    listed = facts if isinstance(facts, list) and len(facts) == len(run.spans) else []
    return [
        _span(node, run.source.run_id or "", listed[at] if listed else {}, resources)
        for at, node in enumerate(run.spans)
    ]


def _span(node: Node, trace_id: str, facts: Json, resources: Json) -> Span:
    about = dict(facts) if isinstance(facts, dict) else {}
    at, scope, message = (about.pop(key, None) for key in ("resource", "scope", "status_message"))
    resource = resources[at] if isinstance(resources, list) and _is_place(at, resources) else {}
    return Span(
        trace_id=trace_id,
        span_id=node.id,
        parent_id=node.parent,
        name=node.name,
        kind=node.kind,
        start_ns=node.start_ns,
        end_ns=node.end_ns,
        status=_STATUSES[node.status],
        status_message=message if isinstance(message, str) else None,
        attributes=node.attributes,
        events=tuple([_event(event) for event in node.events]),
        resource=resource if isinstance(resource, dict) else {},
        scope=scope if isinstance(scope, str) else None,
        links=node.links,
        extra=about or None,
    )


def _is_place(at: Any, resources: list[Json]) -> bool:
    return isinstance(at, int) and 0 <= at < len(resources)


def _event(event: Json) -> SpanEvent:
    try:
        return msgspec.convert(event, SpanEvent)
    except msgspec.ValidationError:
        return SpanEvent(extra=event if isinstance(event, dict) else {"event": event})
