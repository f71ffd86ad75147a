from __future__ import annotations

import json

import msgspec
import pytest

from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.spans.lists import FORMAT as SPANS
from stepscope.model import Instant, Json, Part
from stepscope.model import Span as Node
from tests.factories import agent, did, run
from tests.formats.otlp_making import (
    RECORDED,
    SHOP,
    exported,
    recorded_run,
    spans_of,
    there_and_back,
    written,
)
from tests.formats.reading import run_of


def test_a_run_that_was_spans_is_written_as_those_spans() -> None:
    told = run_of(request_otlp.FORMAT, exported(RECORDED))
    (request,) = written(told)
    (group,) = json.loads(request.body)["resourceSpans"]
    assert group["resource"] == exported()["resourceSpans"][0]["resource"]
    (inside,) = group["scopeSpans"]
    assert inside["scope"] == {"name": "maker", "version": "1.2"}
    (span,) = inside["spans"]
    ours = [a for a in span["attributes"] if a["key"].startswith("stepscope.")]
    assert {a["key"] for a in ours} == {"stepscope.schema", "stepscope.run", "stepscope.spans"}
    span["attributes"] = [a for a in span["attributes"] if a not in ours]
    del span["events"][0]
    wanted = {**RECORDED, "events": []}
    assert span == wanted


def test_spans_under_ids_that_otlp_cannot_hold_get_others_and_keep_their_own() -> None:
    listed = [
        {"traceId": "t", "spanId": "a", "name": "x", "attributes": {"gen_ai.system": "s"}},
        {"traceId": "t", "spanId": "b", "parentSpanId": "a", "name": "y"},
    ]
    told = run_of(SPANS, listed)
    (request,) = written(told)
    first, second = spans_of(request)
    assert [len(first.trace_id), len(first.span_id)] == [32, 16]
    assert second.parent_id == first.span_id != "a"
    assert [span.id for span in there_and_back(told).spans] == ["a", "b"]


def test_two_runs_of_one_trace_are_two_traces() -> None:
    told = run_of(request_otlp.FORMAT, exported(RECORDED))
    grown = msgspec.structs.replace(told, id="f" * 32)
    assert {s.trace_id for s in spans_of(*written(told, grown))} == {
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "f" * 32,
    }


def test_a_long_run_is_several_requests_and_one_run() -> None:
    long = run(*[agent(str(at) + "x" * 900_000) for at in range(6)])
    made = written(long)
    assert [request.spans for request in made] == [5, 2]
    assert all(len(request.body) < 5_000_000 for request in made)
    # Lines may come in any order.
    lines = b"\n".join([request.body for request in reversed(made)])
    assert run_of(request_otlp.FORMAT, lines).steps == long.steps


def test_a_text_too_long_for_an_attribute_is_written_as_a_structure() -> None:
    long = run(agent("a" * 700_000), agent("b" * 600_000), *did("t", "c" * 600_000))
    long = run(
        msgspec.structs.replace(
            long.steps[0], parts=(Part("text", "a" * 700_000), Part("text", "b" * 700_000))
        )
    )
    (request,) = written(long)
    *_, chat = spans_of(request)
    assert isinstance(chat.attributes["gen_ai.output.messages"], list)
    assert run_of(request_otlp.FORMAT, request.body).steps == long.steps


def test_what_others_add_on_the_way_is_kept() -> None:
    (request,) = written(SHOP)
    body = json.loads(request.body)
    span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    span["attributes"].append({"key": "host.name", "value": {"stringValue": "h"}})
    back = run_of(request_otlp.FORMAT, body)
    assert back.extra == {"added_to_spans": {span["spanId"]: {"host.name": "h"}}}
    assert back.steps == SHOP.steps


@pytest.mark.parametrize("of", ["recorded", "made"])
def test_a_trace_that_lost_or_got_a_span_is_read_like_any_other_and_says_so(of: str) -> None:
    child = {**RECORDED, "spanId": "00f067aa0ba902b9", "parentSpanId": RECORDED["spanId"]}
    told = SHOP if of == "made" else run_of(request_otlp.FORMAT, exported(RECORDED, child))
    for lost in (True, False):
        (request,) = written(told)
        body = json.loads(request.body)
        spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
        if lost:
            del spans[1]
        else:
            body["resourceSpans"] += exported(
                {**RECORDED, "traceId": spans[0]["traceId"], "spanId": "00f067aa0ba902c0"}
            )["resourceSpans"]
        back = run_of(request_otlp.FORMAT, body)
        assert [w.code for w in back.warnings if w.code == "not_restored"] == ["not_restored"]
        assert back.steps


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("stepscope.schema", {"intValue": "2"}, "spans of schema 2; this version reads 1"),
        ("stepscope.run", {"stringValue": "[]"}, "what is kept beside is '[]'; expected an object"),
        ("stepscope.run", {"stringValue": '{"name": {"whole": 1}}'}, "Expected `str`"),
        ("stepscope.run", {"stringValue": '{"steps": {"inside": {"9": {}}}}'}, "does not fit"),
        ("stepscope.run", {"stringValue": '{"steps": 5}'}, "does not fit: '5'"),
        ("stepscope.run", {"stringValue": '{"spam": {"whole": 5}}'}, "none of ours"),
    ],
)
def test_a_mark_that_is_none_is_told_and_the_spans_are_read(
    key: str, value: Json, told: str
) -> None:
    (request,) = written(SHOP)
    body = json.loads(request.body)
    root = body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    for attribute in root["attributes"]:
        if attribute["key"] == key:
            attribute["value"] = value
    back = run_of(request_otlp.FORMAT, body)
    (warning,) = [w for w in back.warnings if w.code == "not_restored"]
    assert told in warning.reason
    assert back.exchanges


def test_times_that_the_protocol_cannot_hold_are_kept_beside() -> None:
    told = recorded_run(Node(id="a" * 16, start_ns=-5, end_ns=2**63))
    (request,) = written(told)
    assert b"startTimeUnixNano" not in request.body
    assert b"endTimeUnixNano" not in request.body
    (span,) = run_of(request_otlp.FORMAT, request.body).spans
    assert (span.start_ns, span.end_ns) == (-5, 2**63)
    early = msgspec.structs.replace(agent("a"), start=Instant(-5, "-5"), end=Instant(0, "0"))
    assert {(s.start_ns, s.end_ns) for s in spans_of(*written(run(early)))} == {(None, None)}


def test_a_message_of_a_status_that_was_not_set_is_written() -> None:
    told = run_of(request_otlp.FORMAT, exported({**RECORDED, "status": {"message": "so so"}}))
    (span,) = spans_of(*written(told))
    assert (span.status, span.status_message) == ("unset", "so so")


def test_spans_that_share_an_id_keep_their_order() -> None:
    doubled = [Node(id="a" * 16, name=name) for name in ("first", "second")]
    (request,) = written(recorded_run(*doubled))
    assert [s.name for s in run_of(request_otlp.FORMAT, request.body).spans] == ["first", "second"]
