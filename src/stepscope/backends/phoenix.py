"""Pull traces from a Phoenix server through its REST interface, and send spans and annotations.

Pulled are all traces that began since a time, or all of which the server took in a span since the
previous pull (its spans are numbered as they come in). Each is then read whole, so that a late
span never makes half a run. The interface gives spans without resource, scope, OpenTelemetry kind
and links: that is counted. Spans go in as OTLP in protobuf, the only form that it takes; a span
that it knows stays as it is. An annotation is unique by span or trace, name and identifier.
Source: arize-phoenix 20.26.1, `server/api/routers/v1/spans.py`, `traces.py`, `annotations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from stepscope.backends import types
from stepscope.backends.client import Client, QueryValue, Rejected
from stepscope.errors import TraceError, UsageError
from stepscope.formats.spans.attributes import unflatten
from stepscope.formats.spans.lists import read_flat_span
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json
from stepscope.safety.json import Decoded, Repair

FORMAT = "phoenix"
# Traces read with one question, and spans on one page of the answer.
_TRACES = 20
_SPANS = 200
_LISTED = 500
_MARK = "newest_span"
# Attributes that hold JSON as a text; Phoenix keeps what they say, one key for each value.
_SPREAD = ("tool.parameters", "metadata", "llm.prompt_template.variables")
_WITHHELD = "spans without resource, scope, kind and links"


def fetch_phoenix(asked: types.PullQuery) -> Iterator[types.PulledItem]:
    """Yield the runs of the traces that are asked for."""
    if any(character in asked.place for character in "/?#"):
        raise UsageError(
            f"{asked.place!r}: Phoenix finds no project by a name with / ? or #; name it by "
            "its id, as the address of its page shows it"
        )
    try:
        reply = asked.client.get(_path(asked, "spans"), {"limit": 1})
        found = types.list_objects(reply, "data", asked)
    except Rejected as e:
        if e.status == 404:
            raise UsageError(
                f"{asked.client.access.host} has no project {asked.place!r}; "
                f"names are as its page of projects shows them ({e})"
            ) from e
        raise
    newest = found[0].get("id") if found else None
    for batch in types.in_batches(_traces(asked), _TRACES):
        spans: list[RawSpan] = []
        repairs: list[Repair] = []
        wanted = set(batch)
        for record in _pages(asked, {"trace_id": batch}, repairs):
            try:
                span = phoenix_span(record)
            except (TraceError, msgspec.ValidationError) as e:
                yield types.quarantine_reply(record, str(e), asked)
                continue
            if span.trace_id in wanted:  # a server that does not know the filter sends all
                spans.append(span)
                asked.told.withheld[_WITHHELD] += 1
        absent = wanted - {span.trace_id for span in spans}
        asked.withhold("traces listed and not returned", len(absent))
        yield from types.assemble_runs(spans, asked, format=FORMAT, repairs=repairs)
    asked.told.mark = {_MARK: newest}


def _path(asked: types.PullQuery, what: str) -> str:
    return f"/v1/projects/{quote(asked.place, safe='')}/{what}"


def _traces(asked: types.PullQuery) -> Iterator[str]:
    known = set[str]()
    for trace_id in _began_since(asked) if asked.mark is None else _came_since(asked):
        if trace_id not in known:
            known.add(trace_id)
            yield trace_id


def _began_since(asked: types.PullQuery) -> Iterator[str]:
    query: dict[str, QueryValue] = {"order": "asc"}
    if asked.since_ns is not None:
        query["start_time"] = types.iso_time(asked.since_ns)

    def ask(limit: int, cursor: dict[str, str]) -> Decoded:
        return asked.client.get(_path(asked, "traces"), {"limit": limit, **query, **cursor})

    for page in types.iter_pages(ask, _LISTED, asked, "next_cursor"):
        for trace in types.list_objects(page, "data", asked):
            yield str(trace.get("trace_id"))


def _came_since(asked: types.PullQuery) -> Iterator[str]:
    """Yield the traces of spans that came in after the marked one, the newest first."""
    mark = (asked.mark or {}).get(_MARK)
    for span in _pages(asked, {}, []):
        if mark is not None and span.get("id") == mark:
            return
        context = span.get("context")
        if isinstance(context, dict):
            yield str(context.get("trace_id"))


def _pages(
    asked: types.PullQuery, chosen: dict[str, list[str]], repairs: list[Repair]
) -> Iterator[dict[str, Json]]:
    """Yield spans as they are, the newest first."""

    def ask(limit: int, cursor: dict[str, str]) -> Decoded:
        return asked.client.get(_path(asked, "spans"), {**chosen, "limit": limit, **cursor})

    for page in types.iter_pages(ask, _SPANS, asked, "next_cursor"):
        repairs += page.repairs
        yield from types.list_objects(page, "data", asked)


def phoenix_span(record: dict[str, Json]) -> RawSpan:
    """Return one span of the interface."""
    told = dict(record)
    kind = told.pop("span_kind", None)
    code, message = told.pop("status_code", None), told.pop("status_message", None)
    told["status"] = {"code": code, **({"message": message} if message else {})}
    span = read_flat_span(told)
    kept: dict[str, Json] = {}
    for key, value in span.attributes.items():
        base = next((name for name in _SPREAD if key.startswith(f"{name}.")), None)
        if base is None:
            kept[key] = value
        elif base not in kept:
            kept[base] = msgspec.json.encode(unflatten(span.attributes, f"{base}.")).decode()
    if kind not in {None, "", "UNKNOWN"}:
        kept["openinference.span.kind"] = kind
    return msgspec.structs.replace(span, attributes=kept)


# Annotations of one request.
_BATCH = 200
# Spans reach the database behind the answer: how often, and how many seconds apart, to ask for one.
_LOOKS, _PAUSE = 40, 0.5


class PhoenixSender:
    """One project of one server."""

    def __init__(self, client: Client, place: str, sleep: Callable[[float], None]) -> None:
        """Send to the project called `place`, which Phoenix makes where there is none."""
        self._client = client
        self._place = place
        self._sleep = sleep

    def spans(self, body: bytes) -> None:
        """Send one request of OTLP."""
        types.send_protobuf(self._client, "/v1/traces", body, {"x-project-name": self._place})

    def verdicts(self, found: Sequence[types.Evaluation], *, fresh: bool) -> int:
        """Annotate spans, and the trace with what is about the whole run."""
        absent = 0
        for kind, of_trace in (("span", False), ("trace", True)):
            chosen = [each for each in found if (each.span is None) is of_trace]
            for batch in types.in_batches(chosen, _BATCH):
                absent += self._annotate(f"/v1/{kind}_annotations", batch, fresh=fresh)
        return absent

    def _annotate(self, path: str, batch: list[types.Evaluation], *, fresh: bool) -> int:
        """Send annotations of one kind; return how many are about spans not there."""
        body = {"data": [_annotation(each) for each in batch]}
        for _ in range(_LOOKS if fresh else 1):
            try:
                self._client.post(f"{path}?sync=true", body)
            except Rejected as e:
                if e.status != 404:
                    raise
                if fresh:
                    self._sleep(_PAUSE)
            else:
                return 0
        if len(batch) == 1:
            return 1
        # Some may be there: a batch is refused whole for one that is not.
        return sum(self._annotate(path, [each], fresh=False) for each in batch)


def _annotation(each: types.Evaluation) -> dict[str, Any]:
    told = {"score": each.value, "label": each.label, "explanation": each.reason or None}
    return {
        **({"trace_id": each.trace} if each.span is None else {"span_id": each.span}),
        "name": each.name,
        "annotator_kind": each.annotator,
        "result": {key: value for key, value in told.items() if value is not None},
        "metadata": each.about,
        "identifier": f"stepscope:{each.key}",
    }
