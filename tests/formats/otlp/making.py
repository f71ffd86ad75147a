"""Runs, spans and records that the tests of what is written as OTLP share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from stepscope.formats import tau_bench
from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.otlp.request import ReceivedSpan, media_type, read_request
from stepscope.formats.otlp.write import ExportRequest, Verdicts, iter_requests
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Instant, Json, Record, Source, Step, Stream, Trajectory, Verdict
from stepscope.model import Span as Node
from stepscope.safety.limits import Limits
from stepscope.values import Unmeasured
from tests.factories import agent, did, run, system, user
from tests.formats.reading import run_of

AIRLINE = Path(__file__).parents[3] / "examples" / "airline" / "runs.json"


SHOP = run(
    system("You sell shoes."),
    user("Where is my order?"),
    *did("find", "shipped", order=12),
    agent("It is on its way."),
    user("Thanks"),
)


def written(*runs: Trajectory, **choice: Any) -> list[ExportRequest]:
    return list(iter_requests([(each, ()) for each in runs], **choice))


def decode_request(body: bytes, content_type: str) -> list[RawSpan]:
    """The spans of one export request; an error where one is refused."""
    spans = []
    for item in read_request(body, media_type(content_type), Limits()):
        if not isinstance(item, ReceivedSpan):
            raise item
        spans.append(item.span)
    return spans


def spans_of(*made: ExportRequest) -> list[RawSpan]:
    return [s for r in made for s in decode_request(r.body, "application/json")]


def judged(about: Trajectory, *records: Record, how: Verdicts = "gen_ai") -> list[RawSpan]:
    return spans_of(*iter_requests([(about, records)], verdicts=how))


def record(answer: Verdict | Unmeasured, **more: Any) -> Record:
    return Record(trajectory="r1", answer=answer, version="2", **more)


RECORDED: dict[str, Json] = {
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
    "spanId": "00f067aa0ba902b7",
    "name": "chat",
    "kind": 3,
    "startTimeUnixNano": "5",
    "endTimeUnixNano": "9",
    "traceState": "vendor=1",
    "attributes": [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
        {"key": "gen_ai.completion", "value": {"stringValue": "hello"}},
        {"key": "mine", "value": {"arrayValue": {"values": [{"doubleValue": 0.5}, {}]}}},
    ],
    "events": [{"name": "e", "timeUnixNano": "6", "attributes": []}],
    "links": [{"traceId": "4bf92f3577b34da6a3ce929d0e0e4736", "spanId": "00f067aa0ba902b8"}],
    "status": {"code": 1},
}


def exported(*spans: dict[str, Json]) -> dict[str, Json]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    scope = {"name": "maker", "version": "1.2"}
    return {
        "resourceSpans": [
            {"resource": resource, "scopeSpans": [{"scope": scope, "spans": list(spans)}]}
        ]
    }


def there_and_back(told: Trajectory) -> Trajectory:
    (request,) = written(told)
    return run_of(request_otlp.FORMAT, request.body)


def airline() -> list[Trajectory]:
    with AIRLINE.open("rb") as file:
        return [
            r for r in tau_bench.FORMAT.read(Stream(file, "runs.json")) if isinstance(r, Trajectory)
        ]


def recorded_run(*spans: Node, steps: tuple[Step, ...] = ()) -> Trajectory:
    source = Source(format="spans", run_id=str(RECORDED["traceId"]))
    return Trajectory(id="r", name="r", steps=steps, source=source, spans=spans)


def timed(step: Step, start: int | None, end: int | None) -> Step:
    first, last = (None if at is None else Instant(at, str(at)) for at in (start, end))
    return msgspec.structs.replace(step, start=first, end=last)
