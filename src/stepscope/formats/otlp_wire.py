"""OTLP's spans from the protobuf that exporters send, field by field, without a library.

A span is read alone: one that is broken is refused alone, and no more is held in memory than the
request and one span. Lengths are checked before anything is sliced. What the request holds that the
protocol did not have when this was written stays, as base64 by field number, in `extra`.
Source: Protocol Buffers, "Encoding"; opentelemetry-proto 1.45.2, `collector/trace/v1`,
`trace/v1/trace.proto`, `common/v1/common.proto`, `resource/v1/resource.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.errors import LimitError, TraceError
from stepscope.formats.otlp_values import KINDS
from stepscope.formats.otlp_wire_values import MAX_VALUES, Values, as_json
from stepscope.formats.protobuf import BYTES, FIXED32, FIXED64, VARINT, Field, fields
from stepscope.formats.spans import Span, SpanEvent, SpanStatus
from stepscope.model import Json
from stepscope.safety.forgiving import Repair
from stepscope.safety.limits import Limits

_STATUSES: tuple[SpanStatus, ...] = ("unset", "ok", "error")
_COUNTS = {10: "droppedAttributesCount", 12: "droppedEventsCount", 14: "droppedLinksCount"}


class Frame(NamedTuple):
    """What the groups around a span say of it; as `otlp_values.Member` has it."""

    resource: dict[str, Json]
    scope: str | None
    beside: dict[str, Json]


class Place(NamedTuple):
    """A span's bytes in a request, and its frame."""

    frame: Frame
    at: int
    end: int


class _Read:
    """What was read of a span so far; ids and times by the numbers of their fields."""

    def __init__(self, extra: dict[str, Json]) -> None:
        self.ids: dict[int, str] = {}
        self.times: dict[int, int] = {}
        self.attributes: dict[str, Json] = {}
        self.events: list[SpanEvent] = []
        self.links: list[Json] = []
        self.extra = extra
        self.name, self.kind = "", ""
        self.status: SpanStatus = "unset"
        self.said: str | None = None


class Reader:
    """One request being read."""

    def __init__(self, raw: bytes, limits: Limits, *, values: int = MAX_VALUES) -> None:
        """Read `raw`, which may hold so many `values`; nothing is looked at yet."""
        self._raw = raw
        self._limits = limits
        self._values = Values(raw, limits, values)

    def repairs(self) -> tuple[Repair, ...]:
        """Return what was repaired since this was last asked."""
        return self._values.repairs()

    def places(self) -> Iterator[Place]:
        """Yield where each span stands.

        Raises:
            TraceError: the groups around the spans are no protobuf of an export request.
            LimitError: there are more values than a request may hold.
        """
        for field in fields(self._raw, 0, len(self._raw)):
            if field.number == 1 and field.kind == BYTES:
                yield from self._group(field.at, field.end)

    def _group(self, at: int, end: int) -> Iterator[Place]:
        resource: dict[str, Json] = {}
        beside: dict[str, Json] = {}
        scoped: list[Field] = []
        group: dict[str, Json] = {}
        for field in fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                resource, more = self._resource(field.at, field.end)
                beside.update({"resource_more": more} if more else {})
            elif field.number == 2 and field.kind == BYTES:
                scoped.append(field)
            elif field.number == 3 and field.kind == BYTES:
                group["schemaUrl"] = self._values.text(field)
            else:
                self._values.unknown(group, field)
        beside.update({"group_more": group} if group else {})
        for field in scoped:
            yield from self._scoped(field, resource, beside)

    def _resource(self, at: int, end: int) -> tuple[dict[str, Json], dict[str, Json]]:
        found: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                self._values.attribute(found, field, 0)
            elif field.number == 2 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        return found, more

    def _scoped(
        self, scoped: Field, resource: dict[str, Json], outer: dict[str, Json]
    ) -> Iterator[Place]:
        scope: str | None = None
        beside, group = dict(outer), dict[str, Json]()
        spans: list[Field] = []
        for field in fields(self._raw, scoped.at, scoped.end):
            if field.number == 2 and field.kind == BYTES:
                self._values.spend()
                spans.append(field)
                if len(spans) > self._limits.spans:
                    raise LimitError(f"more than {self._limits.spans:,} spans (limits.spans)")
            elif field.number == 1 and field.kind == BYTES:
                scope, more = self._scope(field.at, field.end)
                beside.update({"scope_more": more} if more else {})
            elif field.number == 3 and field.kind == BYTES:
                group["schemaUrl"] = self._values.text(field)
            else:
                self._values.unknown(group, field)
        beside.update({"scope_group_more": group} if group else {})
        frame = Frame(resource, scope, beside)
        for field in spans:
            yield Place(frame, field.at, field.end)

    def _scope(self, at: int, end: int) -> tuple[str | None, dict[str, Json]]:
        name = version = ""
        about: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in fields(self._raw, at, end):
            if field.number == 1 and field.kind == BYTES:
                name = self._values.text(field)
            elif field.number == 2 and field.kind == BYTES:
                version = self._values.text(field)
            elif field.number == 3 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 4 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        if about:
            more["attributes"] = [
                {"key": key, "value": as_json(value)} for key, value in about.items()
            ]
        return (f"{name}@{version}" if version else name) if name else None, more

    def span(self, place: Place) -> Span:
        """Return one span.

        Raises:
            TraceError: its bytes are no span, or it has no id.
            LimitError: it nests deeper than `limits.depth`, or holds too many values.
        """
        frame, read = place.frame, _Read(dict(place.frame.beside))
        for field in fields(self._raw, place.at, place.end):
            if field.kind == BYTES:
                self._part(read, field)
            elif field.kind == FIXED64 and field.number in {7, 8}:
                read.times[field.number] = self._fixed(field)
            elif field.kind == VARINT and field.number == 6:
                read.kind = KINDS[field.at] if field.at < len(KINDS) else str(field.at)
            else:
                self._beside(read.extra, field)
        if not read.ids.get(2):
            raise TraceError("a span needs a `spanId`; found none")
        return Span(
            trace_id=read.ids.get(1, ""),
            span_id=read.ids[2],
            parent_id=read.ids.get(4) or None,
            name=read.name,
            kind=read.kind,
            start_ns=_time(read.times.get(7)),
            end_ns=_time(read.times.get(8)),
            status=read.status,
            status_message=read.said,
            attributes=read.attributes,
            events=tuple(read.events),
            resource=frame.resource,
            scope=frame.scope,
            links=tuple(read.links),
            extra=read.extra or None,
        )

    def _part(self, read: _Read, field: Field) -> None:
        """Read one text, id or message of a span."""
        match field.number:
            case 9:
                self._values.attribute(read.attributes, field, 0)
            case 1 | 2 | 4:
                read.ids[field.number] = self._raw[field.at : field.end].hex()
            case 5:
                read.name = self._values.text(field)
            case 11:
                read.events.append(self._event(field))
            case 13:
                read.links.append(self._link(field))
            case 15:
                read.status, read.said = self._status(field, read.extra)
            case _:
                self._beside(read.extra, field)

    def _fixed(self, field: Field) -> int:
        return int.from_bytes(self._raw[field.at : field.end], "little")

    def _beside(self, extra: dict[str, Json], field: Field) -> None:
        if field.number == 3 and field.kind == BYTES:
            extra["traceState"] = self._values.text(field)
        elif field.number in _COUNTS and field.kind == VARINT:
            extra[_COUNTS[field.number]] = field.at
        elif field.number == 16 and field.kind == FIXED32:
            extra["flags"] = self._fixed(field)
        else:
            self._values.unknown(extra, field)

    def _status(self, status: Field, extra: dict[str, Json]) -> tuple[SpanStatus, str | None]:
        message, code = "", 0
        for field in fields(self._raw, status.at, status.end):
            if field.number == 2 and field.kind == BYTES:
                message = self._values.text(field)
            elif field.number == 3 and field.kind == VARINT:
                code = field.at
            else:
                self._values.unknown(extra, field)
        if code >= len(_STATUSES):
            extra["status"] = {"code": code} | ({"message": message} if message else {})
            code = 0
        return _STATUSES[code], message or None

    def _event(self, event: Field) -> SpanEvent:
        self._values.spend()
        name, time = "", None
        about: dict[str, Json] = {}
        more: dict[str, Json] = {}
        for field in fields(self._raw, event.at, event.end):
            if field.number == 1 and field.kind == FIXED64:
                time = self._fixed(field)
            elif field.number == 2 and field.kind == BYTES:
                name = self._values.text(field)
            elif field.number == 3 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 4 and field.kind == VARINT:
                more["droppedAttributesCount"] = field.at
            else:
                self._values.unknown(more, field)
        return SpanEvent(name=name, time_ns=_time(time), attributes=about, extra=more or None)

    def _link(self, link: Field) -> dict[str, Json]:
        self._values.spend()
        about: dict[str, Json] = {}
        found: dict[str, Json] = {}
        for field in fields(self._raw, link.at, link.end):
            if field.number in {1, 2} and field.kind == BYTES:
                key = "traceId" if field.number == 1 else "spanId"
                found[key] = self._raw[field.at : field.end].hex()
            elif field.number == 3 and field.kind == BYTES:
                found["traceState"] = self._values.text(field)
            elif field.number == 4 and field.kind == BYTES:
                self._values.attribute(about, field, 0)
            elif field.number == 5 and field.kind == VARINT:
                found["droppedAttributesCount"] = field.at
            elif field.number == 6 and field.kind == FIXED32:
                found["flags"] = self._fixed(field)
            else:
                self._values.unknown(found, field)
        return {**found, "attributes": about}


def _time(value: int | None) -> int | None:
    """Return nanoseconds; 0 is the protocol's absence."""
    return value if value is not None and 0 < value < 2**63 else None
