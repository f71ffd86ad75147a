from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import TraceError
from stepscope.formats.otlp.request import FORMAT
from stepscope.formats.spans.lists import FORMAT as LISTS
from stepscope.model import Trajectory
from tests.formats.otlp.making import decode_request
from tests.formats.reading import lines, read, refused, run_of
from tests.formats.spans.making import as_otlp, told

SAYS = [
    {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
    {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
]
SPAN: dict[str, Any] = {
    "traceId": "5B8EFFF798038103D269B633813FC60C",
    "spanId": "EEE19B7EC3C1B174",
    "parentSpanId": "",
    "name": "chat",
    "kind": 3,
    "startTimeUnixNano": "1544712660000000000",
    "endTimeUnixNano": 1544712661000000000,
    "status": {"code": 2, "message": "gone"},
    "attributes": SAYS,
    "flags": 257,
}


def export(*spans: Any, **more: Any) -> dict[str, Any]:
    scoped = {"scope": {"name": "lib", "version": "1"}, "spans": list(spans)}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}], **more}


def test_a_span_keeps_ids_in_lower_case_times_status_resource_and_scope() -> None:
    run = run_of(FORMAT, export(SPAN))
    assert (run.name, run.source.run_id) == ("5b8efff798038103d269b633813fc60c",) * 2
    (node,) = run.spans
    assert (node.id, node.parent, node.kind, node.status) == (
        "eee19b7ec3c1b174",
        None,
        "client",
        "error",
    )
    assert (node.start_ns, node.end_ns) == (1544712660000000000, 1544712661000000000)
    assert run.steps[0].usage is not None
    assert (run.steps[0].usage.input_total, run.steps[0].error) == (7, "gone")
    assert run.extra == {
        "resources": [{"service.name": "shop"}],
        "span_facts": [{"flags": 257, "resource": 0, "scope": "lib@1", "status_message": "gone"}],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"intValue": "9007199254740993"}, 9007199254740993),
        ({"intValue": 4}, 4),
        ({"doubleValue": 0.5}, 0.5),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAE="}, "AAE="),
        ({"arrayValue": {"values": [{"stringValue": "a"}, {"intValue": "1"}]}}, ["a", 1]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {"values": [{"key": "k", "value": {"intValue": "1"}}]}}, {"k": 1}),
        ({"string_value": "a"}, "a"),
        ({}, None),
    ],
)
def test_every_kind_of_value_is_what_it_says(value: Any, expected: object) -> None:
    span = {**SPAN, "attributes": [{"key": "x", "value": value}]}
    assert run_of(FORMAT, export(span)).spans[0].attributes == {"x": expected}


def test_spans_of_one_trace_are_one_run_over_lines_and_batches() -> None:
    second = {**SPAN, "spanId": "02", "parentSpanId": "EEE19B7EC3C1B174"}
    other = {**SPAN, "traceId": "ab", "spanId": "03"}
    runs = read(FORMAT, lines(export(SPAN), export(other), export(second)))
    assert [len(run.spans) for run in runs if isinstance(run, Trajectory)] == [2, 1]


def test_snake_case_and_named_enumerations_are_understood() -> None:
    span = {
        "trace_id": "ab",
        "span_id": "cd",
        "kind": "SPAN_KIND_SERVER",
        "start_time_unix_nano": 5,
        "status": {"code": "STATUS_CODE_OK"},
    }
    run = run_of(FORMAT, {"resource_spans": [{"scope_spans": [{"spans": [span]}]}]})
    (node,) = run.spans
    assert (node.id, node.kind, node.start_ns, node.status) == ("cd", "server", 5, "ok")


def test_a_span_that_is_none_is_set_aside_alone() -> None:
    bad, good = {**SPAN, "spanId": None}, SPAN
    aside, run = read(FORMAT, export(bad, good))
    assert not isinstance(aside, Trajectory)
    assert "`spanId`" in aside.reason
    assert json.loads(aside.raw) == bad
    assert isinstance(run, Trajectory)
    assert len(run.spans) == 1


def test_what_groups_and_scopes_say_beyond_their_fields_stays_beside_each_span() -> None:
    body = export(SPAN)
    group = body["resourceSpans"][0]
    group["schemaUrl"] = "https://example.org/1"
    group["scopeSpans"][0]["scope"]["attributes"] = []
    facts = (run_of(FORMAT, body).extra or {})["span_facts"][0]
    assert facts["group_more"] == {"schemaUrl": "https://example.org/1"}
    assert facts["scope_more"] == {"attributes": []}


@pytest.mark.parametrize("time", [True, "soon", 1.5, []])
def test_a_time_that_is_no_whole_number_sets_the_span_aside(time: object) -> None:
    assert (
        "startTimeUnixNano" in refused(FORMAT, export({**SPAN, "startTimeUnixNano": time})).reason
    )


@pytest.mark.parametrize(
    "body", [{"resourceSpans": 3}, {"resourceSpans": [3]}, {"resourceSpans": [{"scopeSpans": 1}]}]
)
def test_an_export_of_another_shape_is_quarantined_whole(body: Any) -> None:
    assert "needs a list" in refused(FORMAT, body).reason


def test_a_request_is_read_as_its_content_type_says() -> None:
    body = json.dumps(export(SPAN)).encode()
    (span,) = decode_request(body, "application/json; charset=utf-8")
    assert (span.span_id, span.scope) == ("eee19b7ec3c1b174", "lib@1")
    with pytest.raises(TraceError, match="JSON"):
        decode_request(b"{", "application/json")
    with pytest.raises(TraceError, match="Expected `object`"):
        decode_request(b"[]", "application/json")


def test_protobuf_says_what_json_says() -> None:
    proto = "opentelemetry.proto.collector.trace.v1.trace_service_pb2"
    messages = pytest.importorskip(proto, reason="opentelemetry-proto is not installed")
    json_format = pytest.importorskip("google.protobuf.json_format")
    body = export({**SPAN, "links": [{"traceId": "01" * 16, "spanId": "02" * 8}]})
    # Its own JSON has ids in base64.
    in_base64 = json.loads(json.dumps(body))
    span = in_base64["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    for record in (span, span["links"][0]):
        for key in ("traceId", "spanId"):
            record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
    request = json_format.ParseDict(in_base64, messages.ExportTraceServiceRequest())
    sent = decode_request(request.SerializeToString(), "application/x-protobuf")
    assert sent == decode_request(json.dumps(body).encode(), "application/json")
    with pytest.raises(TraceError, match="not protobuf"):
        decode_request(b"\xff\xff", "application/x-protobuf")


# Made for this test: the real lists of spans written again as OTLP, as no recorder wrote them.
@pytest.mark.shared_data
def test_real_spans_written_again_as_otlp_give_the_same_runs(shared: Path) -> None:
    files = sorted((shared / "formats" / "spans").glob("*.json"))
    assert len(files) == 10
    for file in files:
        listed = json.loads(file.read_bytes())
        spans = listed["spans"] if isinstance(listed, dict) else listed
        ours = [run for run in read(LISTS, spans) if isinstance(run, Trajectory)]
        theirs = [
            run for run in read(FORMAT, lines(*as_otlp(spans))) if isinstance(run, Trajectory)
        ]
        assert [told(run) for run in theirs] == [told(run) for run in ours], file.name
        assert [(run.id, run.usage) for run in theirs] == [(run.id, run.usage) for run in ours]
        assert sum(len(run.spans) for run in theirs) == len(spans)
