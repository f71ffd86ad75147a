from __future__ import annotations

import json
from base64 import b64encode
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.otlp.protobuf import encode_protobuf
from stepscope.formats.otlp.values import any_value_json, make_id
from stepscope.formats.otlp.write import iter_requests
from stepscope.model import Json, Part, Step, ToolCall, ToolDef, ToolResult, Usage, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, failed, result, run, system, user
from tests.formats.otlp.making import (
    RECORDED,
    SHOP,
    airline,
    decode_request,
    exported,
    judged,
    record,
    spans_of,
    written,
)
from tests.formats.reading import run_of

json_format: Any = import_module("google.protobuf.json_format")


messages: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")


NAMES = json.loads(
    (Path(__file__).parents[2] / "data" / "semantic-conventions.json").read_text("utf-8")
)


def test_the_protocol_itself_takes_every_line_and_protobuf_says_the_same() -> None:
    recorded = run_of(request_otlp.FORMAT, exported(RECORDED))
    verdict = record(Verdict("m", 0.5, step=2, cites=(0,)))
    odd = run(
        calls(ToolCall("f", {"big": 2**63, "no": None, "yes": True, "x": [1.5, -1]}, "c")),
        result("Error: no", "error", call_id="c"),
        system("s"),
        extra={"b": 2**64 - 1},
    )
    for told in (SHOP, recorded, odd, *airline()[:2]):
        for request in iter_requests([(told, [verdict])]):
            value = json.loads(request.body)
            for group in value["resourceSpans"]:
                for inside in group["scopeSpans"]:
                    for span in inside["spans"]:
                        for held in (span, *span.get("links", [])):
                            for key in ("traceId", "spanId", "parentSpanId"):
                                if key in held:
                                    held[key] = base64(held[key])
            message = json_format.ParseDict(value, messages.ExportTraceServiceRequest())
            theirs = messages.ExportTraceServiceRequest()
            theirs.ParseFromString(encode_protobuf(request.body))
            assert theirs == message


def base64(text: str) -> str:
    return b64encode(bytes.fromhex(text)).decode()


@pytest.mark.parametrize(
    ("value", "written_as"),
    [
        (True, {"boolValue": True}),
        (-1, {"intValue": "-1"}),
        (2**63 - 1, {"intValue": "9223372036854775807"}),
        (2**63, {"stringValue": "9223372036854775808"}),
        (-(2**63) - 1, {"stringValue": "-9223372036854775809"}),
        (0.5, {"doubleValue": 0.5}),
        (None, {}),
        ((), {"arrayValue": {"values": []}}),
        ({"a": 1}, {"kvlistValue": {"values": [{"key": "a", "value": {"intValue": "1"}}]}}),
    ],
)
def test_every_value_has_the_form_that_the_protocol_has_for_it(
    value: Json, written_as: Json
) -> None:
    assert any_value_json(value) == written_as


def test_an_id_of_zeros_is_none_and_gets_another() -> None:
    assert make_id("0" * 16, 16) == "fcdb4b423f4e5283"
    assert make_id("0" * 15 + "1", 16) == "0" * 15 + "1"


def test_numbers_below_zero_are_the_same_in_protobuf() -> None:
    below = {"key": "n", "value": {"intValue": "-5"}}
    told = run_of(
        request_otlp.FORMAT, exported({**RECORDED, "attributes": [*RECORDED["attributes"], below]})
    )
    (request,) = written(told)
    (span,) = decode_request(encode_protobuf(request.body), "application/x-protobuf")
    assert span.attributes["n"] == -5
    assert [span] == spans_of(request)


def test_every_name_that_is_written_is_a_published_one() -> None:
    used = Usage(input_total=9, cache_read=1, cache_write=1, output_total=1, reasoning=1)
    step = Step(
        index=0,
        actor="agent",
        model="m",
        usage=used,
        error="x",
        first_token_seconds=1.0,
        finish_reason="stop",
        agent="a",
    )
    told = run(
        user("u"),
        step,
        *did("t"),
        *failed("t"),
        agent="a",
        agent_version="1",
        tags={"session": "s"},
        tools=(ToolDef("t"),),
        usage=used,
    )
    records = [record(Verdict("m", 0.5, "l", 1, (0,), "r", 0.5)), record(Unmeasured("error", "r"))]
    keys: set[str] = set()
    for how in ("gen_ai", "openinference"):
        for span in judged(told, *records, how=how):
            keys |= span.attributes.keys()
            keys |= {key for event in span.events for key in event.attributes}
            keys |= span.resource.keys()
    known = set(NAMES["opentelemetry-semantic-conventions"]["names"])
    theirs = set(NAMES["openinference-semantic-conventions"]["names"])
    for key in keys:
        if key.startswith("evaluations."):
            assert ".".join(key.split(".")[2:]) in theirs, key
        elif not key.startswith("stepscope."):
            assert key in known, key
    assert len(keys) > 30


@pytest.mark.shared_data
def test_messages_are_valid_by_the_schemas_of_the_conventions(shared: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    folder = shared / "formats" / "otel_genai"
    schemas = {
        f"gen_ai.{key}": jsonschema.Draft202012Validator(
            json.loads((folder / f"gen-ai-{name}.json").read_text("utf-8"))
        )
        for key, name in (
            ("input.messages", "input-messages"),
            ("output.messages", "output-messages"),
        )
    }
    parts = (
        Part("image", media_type="image/png", data="aGk="),
        Part("file", uri="https://example.org/a.pdf"),
        Part("refusal", "no"),
        Part("data", extra={"a": 1}),
        Part("reasoning"),
    )
    odd = run(
        msgspec.structs.replace(user("u"), parts=parts),
        msgspec.structs.replace(
            agent("u"), parts=parts, calls=(ToolCall("t", [1], kind="server"),)
        ),
        Step(index=0, actor="environment", results=(ToolResult("c", "t", parts, {"a": 1}),)),
        agent("done"),
    )
    checked = 0
    for told in (odd, SHOP, *airline()[:2]):
        for span in spans_of(*written(told)):
            for key, schema in schemas.items():
                if key in span.attributes:
                    schema.validate(json.loads(span.attributes[key]))
                    checked += 1
    assert checked > 20
