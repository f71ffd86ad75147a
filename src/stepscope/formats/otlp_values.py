"""OTLP's spans as JSON: typed values, ids in hex, 64-bit numbers as text, enumerations as numbers.

Keys are lowerCamelCase; snake_case, numbers for texts and names for enumerations, which some
writers give, are understood. What a span says beyond the protocol stays in `extra`.
Source: opentelemetry-proto 1.45.2, `trace/v1/trace.proto`, `common/v1/common.proto`; OTLP
specification 1.9, "JSON Protobuf Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import TraceError
from stepscope.formats.building import rest
from stepscope.formats.spans import Span, SpanEvent, SpanStatus
from stepscope.model import Json

KINDS = ("", "internal", "server", "client", "producer", "consumer")
_STATUSES: dict[Json, SpanStatus] = {
    0: "unset",
    1: "ok",
    2: "error",
    "STATUS_CODE_UNSET": "unset",
    "STATUS_CODE_OK": "ok",
    "STATUS_CODE_ERROR": "error",
}
_SPAN = frozenset(
    "traceId spanId parentSpanId name kind startTimeUnixNano endTimeUnixNano attributes events "
    "links status".split()
)
_EVENT = frozenset({"name", "timeUnixNano", "attributes"})
_ATTRIBUTES = frozenset({"attributes"})
_GROUP = frozenset({"resource", "scopeSpans", "instrumentationLibrarySpans"})
_SCOPED = frozenset({"scope", "instrumentationLibrary", "spans"})
_SCOPE = frozenset({"name", "version"})
# The values of one kind or another that an AnyValue may hold.
_PLAIN = ("stringValue", "boolValue", "doubleValue", "bytesValue")


def value_of(value: Json) -> Json:
    """Return what an AnyValue holds; bytes stay base64, a whole number becomes one.

    >>> value_of({"intValue": "12"}), value_of({"arrayValue": {"values": [{"stringValue": "a"}]}})
    (12, ['a'])
    """
    if not isinstance(value, dict):
        return value
    for key in _PLAIN:
        if key in value:
            return value[key]
    if "intValue" in value:
        return _whole(value["intValue"])
    if "arrayValue" in value:
        return [value_of(entry) for entry in _listed(value["arrayValue"])]
    if "kvlistValue" in value:
        return attributes_of(_listed(value["kvlistValue"]))
    return _camel_value(value) if value else None


def _camel_value(value: dict[str, Json]) -> Json:
    camel = {camel_case(key): found for key, found in value.items()}
    return value if camel.keys() == value.keys() else value_of(camel)


def _whole(value: Json) -> Json:
    try:
        return int(value)
    except (TypeError, ValueError):
        return value


def _listed(held: Json) -> list[Json]:
    listed = held.get("values") if isinstance(held, dict) else held
    return listed if isinstance(listed, list) else []


def attributes_of(listed: Json) -> dict[str, Json]:
    """Return a list of keys and values as an object; of a key given twice the last counts."""
    found: dict[str, Json] = {}
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("key"), str):
            found[entry["key"]] = value_of(entry.get("value"))
    return found


def camel_case(key: str) -> str:
    """Return a snake_case key as the protocol's JSON has it.

    >>> camel_case("start_time_unix_nano")
    'startTimeUnixNano'
    """
    first, *others = key.split("_")
    return first + "".join([word.capitalize() for word in others])


def _camel(record: dict[str, Json]) -> dict[str, Json]:
    if not any("_" in key for key in record):
        return record
    return {camel_case(key): found for key, found in record.items()}


class Member(NamedTuple):
    """A span as it stands in a request, and what the groups that hold it say of it.

    `beside` is what resource, scope and groups say beyond attributes, name and version.
    """

    span: Json
    resource: dict[str, Json]
    scope: str | None
    beside: dict[str, Json]


def groups(body: dict[str, Json]) -> Iterator[Member]:
    """Yield every span of a request or an export line, with its resource and its scope.

    Raises:
        TraceError: lists or objects are missing where the protocol has them.
    """
    for group in _each(body, "resourceSpans"):
        resource = group.get("resource")
        about = resource if isinstance(resource, dict) else {}
        attributes = attributes_of(about.get("attributes"))
        of_group = _beside(resource=rest(about, _ATTRIBUTES), group=rest(group, _GROUP))
        for scoped in [*_each(group, "scopeSpans"), *_each(group, "instrumentationLibrarySpans")]:
            scope = scoped.get("scope", scoped.get("instrumentationLibrary"))
            spans = scoped.get("spans")
            if spans is not None and not isinstance(spans, list):
                raise TraceError(f"`spans` needs a list; found {str(spans)[:60]!r}")
            known = rest(scope, _SCOPE) if isinstance(scope, dict) else None
            beside = {**of_group, **_beside(scope=known, scope_group=rest(scoped, _SCOPED))}
            for span in spans or []:
                yield Member(span, attributes, _scope(scope), beside)


def _beside(**found: dict[str, Json] | None) -> dict[str, Json]:
    return {f"{name}_more": more for name, more in found.items() if more}


def _each(record: dict[str, Json], key: str) -> list[dict[str, Json]]:
    listed = _camel(record).get(key)
    if listed is None:
        return []
    if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed):
        return [_camel(entry) for entry in listed]
    raise TraceError(f"`{key}` needs a list of objects; found {str(listed)[:60]!r}")


def _scope(scope: Json) -> str | None:
    if not isinstance(scope, dict) or not isinstance(scope.get("name"), str) or not scope["name"]:
        return None
    version = scope.get("version")
    return f"{scope['name']}@{version}" if version else str(scope["name"])


def span_of(member: Member) -> Span:
    """Return one span of a request.

    Raises:
        TraceError: no object, no id of its own, or a field of another type than the protocol's.
    """
    record = member.span
    if not isinstance(record, dict):
        raise TraceError(f"a span needs an object; found {str(record)[:60]!r}")
    span = _camel(record)
    status = span.get("status")
    told = status if isinstance(status, dict) else {}
    code = told.get("code", 0)
    extra = {**member.beside, **(rest(span, _SPAN) or {})}
    if not isinstance(code, int | str) or code not in _STATUSES:
        code, extra["status"] = 0, status
    return Span(
        trace_id=_hex(span, "traceId") or "",
        span_id=_needed(_hex(span, "spanId"), span),
        parent_id=_hex(span, "parentSpanId"),
        name=_text(span, "name") or "",
        kind=_kind(span.get("kind")),
        start_ns=_time(span, "startTimeUnixNano"),
        end_ns=_time(span, "endTimeUnixNano"),
        status=_STATUSES[code],
        status_message=_text(told, "message"),
        attributes=attributes_of(span.get("attributes")),
        events=tuple([_event(event) for event in _each(span, "events")]),
        resource=member.resource,
        scope=member.scope,
        links=tuple([_link(link) for link in _each(span, "links")]),
        extra=extra or None,
    )


def _needed(span_id: str | None, span: dict[str, Json]) -> str:
    if span_id is None:
        raise TraceError(f"a span needs a `spanId`; found keys {', '.join(list(span)[:6])}")
    return span_id


def _hex(span: dict[str, Json], key: str) -> str | None:
    """Return an id in lower case: hex may be written in either."""
    value = span.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise TraceError(f"a span needs text under `{key}`; found {str(value)[:60]!r}")
    return value.lower()


def _text(record: dict[str, Json], key: str) -> str | None:
    value = record.get(key)
    if value is None or isinstance(value, str):
        return value or None
    raise TraceError(f"a span needs text under `{key}`; found {str(value)[:60]!r}")


def _kind(kind: Json) -> str:
    if isinstance(kind, int) and not isinstance(kind, bool) and 0 <= kind < len(KINDS):
        return KINDS[kind]
    return "" if kind is None else str(kind).removeprefix("SPAN_KIND_").lower()


def _time(record: dict[str, Json], key: str) -> int | None:
    """Return nanoseconds; 0 is the protocol's absence."""
    value = record.get(key)
    whole = _whole(value) if isinstance(value, str | int) and not isinstance(value, bool) else value
    if whole is None or (whole == 0 and whole is not False):
        return None
    if not isinstance(whole, int) or isinstance(whole, bool):
        raise TraceError(f"a span needs nanoseconds under `{key}`; found {str(value)[:60]!r}")
    return whole if 0 < whole < 2**63 else None


def _event(event: dict[str, Json]) -> SpanEvent:
    return SpanEvent(
        name=_text(event, "name") or "",
        time_ns=_time(event, "timeUnixNano"),
        attributes=attributes_of(event.get("attributes")),
        extra=rest(event, _EVENT),
    )


def _link(link: dict[str, Json]) -> dict[str, Json]:
    return {**link, "attributes": attributes_of(link.get("attributes"))}
