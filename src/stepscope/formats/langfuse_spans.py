"""An observation of Langfuse as a span, in the words that its own SDK sends over OpenTelemetry.

Attributes that the observation was sent with stand in its metadata; they are a span's attributes
again, so that every dialect reads them. What only the API says (project, prices, times of storing)
stays in the span's `extra`.
Source: langfuse 5.0.4, `_client/attributes.py` and the API's `ObservationV2`.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.errors import TraceError
from stepscope.formats.building import rest, text_at
from stepscope.formats.langfuse_records import Record
from stepscope.formats.spans.attributes import decoded
from stepscope.formats.spans.span import Span
from stepscope.formats.times import instant
from stepscope.model import Json
from stepscope.safety.limits import Limits

_OWN = "langfuse.observation."
# Fields of an observation as attributes of its span.
_ATTRIBUTES = {
    "type": f"{_OWN}type",
    "level": f"{_OWN}level",
    "statusMessage": f"{_OWN}status_message",
    "input": f"{_OWN}input",
    "output": f"{_OWN}output",
    "model": f"{_OWN}model.name",
    "modelParameters": f"{_OWN}model.parameters",
    "usageDetails": f"{_OWN}usage_details",
    "costDetails": f"{_OWN}cost_details",
    "completionStartTime": f"{_OWN}completion_start_time",
    "promptName": f"{_OWN}prompt.name",
    "promptVersion": f"{_OWN}prompt.version",
    "toolDefinitions": f"{_OWN}tool_definitions",
    "sessionId": "session.id",
    "userId": "user.id",
    "traceName": "langfuse.trace.name",
}
_KNOWN = frozenset(_ATTRIBUTES) | frozenset(
    "id traceId parentObservationId name startTime endTime metadata".split()
)
# Counts of a time before `usageDetails`, by the name that they have there.
_COUNTS = {"promptTokens": "input", "completionTokens": "output", "totalTokens": "total"}
_COSTS = ("totalCost", "calculatedTotalCost")
_PARTS = ("attributes", "resourceAttributes", "scope")


def span_of(record: Record, limits: Limits) -> Span:
    """Return an observation as a span of its trace.

    Raises:
        TraceError: it has no id, or no trace.
    """
    own, trace = text_at(record, "id"), text_at(record, "traceId")
    if not own or trace is None:
        raise TraceError(
            f"an observation needs texts under `id` and `traceId`; found {record.get('id')!r:.40} "
            f"and {record.get('traceId')!r:.40}"
        )
    metadata = decoded(record.get("metadata"), limits)
    told = metadata if isinstance(metadata, dict) else {}
    scope, version = _scope(told.get("scope"))
    failed = text_at(record, "level") == "ERROR"
    start, end = instant(record.get("startTime")), instant(record.get("endTime"))
    extra = {**(rest(record, _KNOWN) or {}), **_untimed(record)}
    if told and version is not None:
        extra["scope"] = version
    return Span(
        trace_id=trace,
        span_id=own,
        parent_id=text_at(record, "parentObservationId") or None,
        name=text_at(record, "name") or "",
        start_ns=None if start is None else start.ns,
        end_ns=None if end is None else end.ns,
        status="error" if failed else "unset",
        status_message=text_at(record, "statusMessage") or None,
        attributes=_attributes(record, metadata, told),
        resource=_object(told.get("resourceAttributes")),
        scope=scope,
        extra=extra or None,
    )


def _attributes(record: Record, metadata: Json, told: Mapping[str, Json]) -> dict[str, Json]:
    found = dict(_object(told.get("attributes")))
    for key, name in _ATTRIBUTES.items():
        held = record.get(key)
        if held is not None and held != {}:
            found[name] = held
    if f"{_OWN}model.name" not in found and record.get("providedModelName") is not None:
        found[f"{_OWN}model.name"] = record["providedModelName"]
    if f"{_OWN}usage_details" not in found and (counts := _counts(record)):
        found[f"{_OWN}usage_details"] = counts
    if f"{_OWN}cost_details" not in found and (cost := _cost(record)) is not None:
        found[f"{_OWN}cost_details"] = {"total": cost}
    for key, held in told.items():
        if held is not None and not (key in _PARTS and isinstance(held, dict)):
            found[f"{_OWN}metadata.{key}"] = held
    if not isinstance(metadata, dict) and metadata not in (None, ""):
        found[f"{_OWN}metadata"] = metadata
    return found


def _counts(record: Record) -> dict[str, Json]:
    """Return the counts of older exports; all of them 0 is how those say that there are none."""
    usage = record.get("usage")
    found: dict[str, Json] = {}
    if isinstance(usage, dict):
        unit = usage.get("unit")
        if unit in (None, "TOKENS"):
            found = {_COUNTS.get(key) or key: held for key, held in usage.items()}
    for key, name in _COUNTS.items():
        found.setdefault(name, record.get(key))
    counts = {key: held for key, held in found.items() if isinstance(held, int)}
    return {**counts} if any(counts.values()) else {}


def _cost(record: Record) -> float | None:
    """Return a cost that is said without its details; 0 is how the API says that there is none."""
    for key in _COSTS:
        cost = record.get(key)
        if isinstance(cost, int | float) and not isinstance(cost, bool) and cost > 0:
            return cost
    return None


def _untimed(record: Record) -> dict[str, Json]:
    """Return times that are none, and ids of parents that are no text, as they stood."""
    found: dict[str, Json] = {}
    for key in ("startTime", "endTime"):
        if record.get(key) is not None and instant(record[key]) is None:
            found[key] = record[key]
    for key in ("parentObservationId", "name"):
        if record.get(key) is not None and text_at(record, key) is None:
            found[key] = record[key]
    return found


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _scope(value: Json) -> tuple[str | None, Json]:
    """Return the instrumentation as spans name it, and the whole where it says more."""
    if not isinstance(value, dict):
        return None, None
    name, version = text_at(value, "name"), text_at(value, "version")
    known = frozenset({"name"} if version is None else {"name", "version"})
    if name is None or not rest(value, known):
        return _joined(name, version), None if name is not None else value
    return _joined(name, version), value


def _joined(name: str | None, version: str | None) -> str | None:
    return f"{name}@{version}" if name and version else name
