"""Pull traces from a Phoenix server, through its REST interface.

Which traces: all that began since a time, or all of which the server took in a span since the
previous pull (its spans are numbered as they come in). Each of them is then read whole, so that a
late span never makes half a run. The interface gives spans without resource, instrumentation
scope, kind of OpenTelemetry and links: that is counted, not passed over.
Source: arize-phoenix 20.26.1, `server/api/routers/v1/spans.py` and `traces.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import msgspec

from stepscope.backends.asking import Asked, Found, aside, batched, cursor, objects, runs
from stepscope.backends.client import QueryValue, Rejected, TooLarge
from stepscope.errors import TraceError, UsageError
from stepscope.formats.spans import Span
from stepscope.formats.spans.attributes import nested
from stepscope.formats.spans.lists import flat_span
from stepscope.model import Json
from stepscope.safety.door import Repair

FORMAT = "phoenix"
# Traces read with one question, and spans on one page of the answer.
_TRACES = 20
_SPANS = 200
_LISTED = 500
_MARK = "newest_span"
# Attributes that hold JSON as a text; Phoenix keeps what they say, one key for each value.
_SPREAD = ("tool.parameters", "metadata", "llm.prompt_template.variables")
_WITHHELD = "spans without resource, scope, kind and links"


def fetch(asked: Asked) -> Iterator[Found]:
    """Yield the runs of the traces that are asked for.

    Raises:
        UsageError: no such project, or it cannot be asked for by its name.
        EnvironmentFault: the server cannot be reached, or gives up half way.
    """
    if any(character in asked.place for character in "/?#"):
        raise UsageError(
            f"{asked.place!r}: Phoenix finds no project by a name with / ? or #; name it by "
            "its id, as the address of its page shows it"
        )
    newest = _newest(asked)
    for batch in batched(_traces(asked), _TRACES):
        yield from _read(batch, asked)
    asked.told.mark = {_MARK: newest}


def _path(asked: Asked, what: str) -> str:
    return f"/v1/projects/{quote(asked.place, safe='')}/{what}"


def _newest(asked: Asked) -> Json:
    """Return the number of the span that came in last, None in an empty project."""
    try:
        found = objects(asked.client.get(_path(asked, "spans"), {"limit": 1}), "data", asked)
    except Rejected as e:
        if e.status == 404:
            raise UsageError(
                f"{asked.client.access.host} has no project {asked.place!r}; "
                f"names are as its page of projects shows them ({e})"
            ) from e
        raise
    return found[0].get("id") if found else None


def _traces(asked: Asked) -> Iterator[str]:
    """Yield the ids of the traces that are asked for, each once."""
    known = set[str]()
    ids = _began_since(asked) if asked.mark is None else _came_since(asked)
    for trace_id in ids:
        if trace_id not in known:
            known.add(trace_id)
            yield trace_id


def _began_since(asked: Asked) -> Iterator[str]:
    query: dict[str, QueryValue] = {"limit": _LISTED, "order": "asc"}
    if asked.since_ns is not None:
        query["start_time"] = iso(asked.since_ns)
    seen = set[str]()
    while True:
        page = asked.client.get(_path(asked, "traces"), query)
        for trace in objects(page, "data", asked):
            yield str(trace.get("trace_id"))
        following = cursor(page, "next_cursor", seen, asked)
        if following is None:
            return
        query["cursor"] = following


def _came_since(asked: Asked) -> Iterator[str]:
    """Yield the traces of spans that came in after the marked one, the newest first."""
    mark = (asked.mark or {}).get(_MARK)
    for span in _pages(asked, {}, []):
        if mark is not None and span.get("id") == mark:
            return
        context = span.get("context")
        if isinstance(context, dict):
            yield str(context.get("trace_id"))


def _pages(
    asked: Asked, chosen: dict[str, list[str]], repairs: list[Repair]
) -> Iterator[dict[str, Json]]:
    """Yield spans as they are, the newest first; a page that is too large is asked for in parts."""
    limit, following, seen = _SPANS, "", set[str]()
    while True:
        query: dict[str, QueryValue] = {**chosen, "limit": limit}
        if following:
            query["cursor"] = following
        try:
            page = asked.client.get(_path(asked, "spans"), query)
        except TooLarge:
            if limit == 1:
                raise
            limit = max(1, limit // 8)
            continue
        repairs += page.repairs
        yield from objects(page, "data", asked)
        found = cursor(page, "next_cursor", seen, asked)
        if found is None:
            return
        following = found


def _read(batch: list[str], asked: Asked) -> Iterator[Found]:
    """Yield the runs of whole traces; a span that is none is set aside."""
    spans: list[Span] = []
    repairs: list[Repair] = []
    wanted = set(batch)
    for record in _pages(asked, {"trace_id": batch}, repairs):
        try:
            span = span_of(record)
        except (TraceError, msgspec.ValidationError) as e:
            yield aside(record, str(e), asked)
            continue
        if span.trace_id in wanted:  # a server that does not know the filter sends all
            spans.append(span)
            asked.told.withheld[_WITHHELD] += 1
    if absent := len(wanted - {span.trace_id for span in spans}):
        asked.told.withheld["traces listed and not returned"] += absent
    yield from runs(spans, asked, format=FORMAT, repairs=repairs)


def span_of(record: dict[str, Json]) -> Span:
    """Return one span of the interface.

    Raises:
        TraceError: it has no ids, or no object under `attributes`.
    """
    told = dict(record)
    kind = told.pop("span_kind", None)
    code, message = told.pop("status_code", None), told.pop("status_message", None)
    told["status"] = {"code": code, **({"message": message} if message else {})}
    span = flat_span(told)
    attributes = _rejoined(span.attributes)
    if kind not in {None, "", "UNKNOWN"}:
        attributes["openinference.span.kind"] = kind
    return msgspec.structs.replace(span, attributes=attributes)


def _rejoined(attributes: dict[str, Json]) -> dict[str, Json]:
    """Return attributes with the JSON texts that Phoenix spread over many keys, as texts again."""
    kept: dict[str, Json] = {}
    for key, value in attributes.items():
        base = next((name for name in _SPREAD if key.startswith(f"{name}.")), None)
        if base is None:
            kept[key] = value
        elif base not in kept:
            kept[base] = msgspec.json.encode(nested(attributes, f"{base}.")).decode()
    return kept


def iso(ns: int) -> str:
    """Return nanoseconds since 1970 as a time with its offset, to the microsecond below."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
    return moment.isoformat()
