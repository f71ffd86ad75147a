from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.formats import otlp, tau_bench
from stepscope.formats.otlp import decode_request
from stepscope.formats.otlp_write import Request, Verdicts, protobuf, requests
from stepscope.formats.spans import Span
from stepscope.formats.spans.assembling import assemble
from stepscope.formats.spans.lists import FORMAT as SPANS
from stepscope.model import (
    Instant,
    Json,
    Part,
    Record,
    Source,
    Step,
    Stream,
    ToolCall,
    ToolDef,
    ToolResult,
    Trajectory,
    Usage,
    Verdict,
)
from stepscope.values import Unmeasured
from tests.factories import agent, calls, did, failed, result, run, system, user
from tests.formats.reading import run_of

json_format: Any = import_module("google.protobuf.json_format")
messages: Any = import_module("opentelemetry.proto.collector.trace.v1.trace_service_pb2")

HERE = Path(__file__)
AIRLINE = HERE.parents[2] / "examples" / "airline" / "runs.json"
NAMES = json.loads((HERE.parents[1] / "data" / "semantic-conventions.json").read_text("utf-8"))

SHOP = run(
    system("You sell shoes."),
    user("Where is my order?"),
    *did("find", "shipped", order=12),
    agent("It is on its way."),
    user("Thanks"),
)


def written(*runs: Trajectory, **choice: Any) -> list[Request]:
    return list(requests([(each, ()) for each in runs], **choice))


def spans_of(*made: Request) -> list[Span]:
    return [s for r in made for s in decode_request(r.body, "application/json")]


def judged(about: Trajectory, *records: Record, how: Verdicts = "gen_ai") -> list[Span]:
    return spans_of(*requests([(about, records)], verdicts=how))


def record(answer: Verdict | Unmeasured, **more: Any) -> Record:
    return Record(trajectory="r1", answer=answer, version="2", **more)


def test_a_run_is_an_agent_its_rounds_and_its_tools() -> None:
    root, first, tool, last = spans_of(*written(SHOP))
    assert [s.name for s in (root, first, tool, last)] == [
        "invoke_agent",
        "chat",
        "execute_tool find",
        "chat",
    ]
    assert [s.parent_id for s in (root, first, tool, last)] == [None] + [root.span_id] * 3
    assert [s.kind for s in (root, first, tool, last)] == [
        "internal",
        "client",
        "internal",
        "client",
    ]
    assert json.loads(first.attributes["gen_ai.input.messages"]) == [
        {"role": "system", "parts": [{"type": "text", "content": "You sell shoes."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]},
    ]
    assert tool.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "find",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.arguments": '{"order":12}',
        "gen_ai.tool.call.result": "shipped",
    }
    # What a chat is given is what was said since the last one, not everything again.
    assert json.loads(last.attributes["gen_ai.input.messages"]) == [
        {
            "role": "tool",
            "parts": [{"type": "tool_call_response", "id": None, "response": "shipped"}],
        },
    ]
    assert json.loads(last.attributes["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "It is on its way."}],
            "finish_reason": "unknown",
        },
    ]


def test_what_a_model_used_and_why_it_stopped_has_the_names_of_the_conventions() -> None:
    step = Step(
        index=0,
        actor="agent",
        parts=(Part("reasoning", "hm"), Part("text", "yes")),
        model="m-1",
        usage=Usage(input_total=100, cache_read=60, cache_write=10, output_total=50, reasoning=20),
        finish_reason="length",
        first_token_seconds=0.5,
        start=Instant(2_000_000_000, "2"),
        end=Instant(3_000_000_000, "3"),
        agent="seller",
    )
    told = run(
        step,
        tools=(ToolDef("find", "Finds.", {"type": "object"}),),
        agent="shop",
        agent_version="7",
        tags={"session": "s-1"},
    )
    root, chat = spans_of(*written(told))
    assert root.name == "invoke_agent shop"
    assert json.loads(root.attributes["gen_ai.tool.definitions"]) == [
        {
            "type": "function",
            "name": "find",
            "description": "Finds.",
            "parameters": {"type": "object"},
        }
    ]
    about = {k: v for k, v in root.attributes.items() if "stepscope" not in k}
    about.pop("gen_ai.tool.definitions")
    assert about == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "shop",
        "gen_ai.agent.version": "7",
        "gen_ai.conversation.id": "s-1",
        "gen_ai.workflow.name": "shop",
    }
    assert (chat.name, chat.start_ns, chat.end_ns) == ("chat m-1", 2_000_000_000, 3_000_000_000)
    about = {k: v for k, v in chat.attributes.items() if "messages" not in k and "steps" not in k}
    assert about == {
        "gen_ai.operation.name": "chat",
        "gen_ai.agent.name": "seller",
        "gen_ai.request.model": "m-1",
        "gen_ai.response.model": "m-1",
        "gen_ai.response.finish_reasons": ["length"],
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 50,
        "gen_ai.usage.cache_read.input_tokens": 60,
        "gen_ai.usage.cache_creation.input_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 20,
        "gen_ai.response.time_to_first_chunk": 0.5,
    }
    assert json.loads(chat.attributes["gen_ai.output.messages"])[0]["parts"] == [
        {"type": "reasoning", "content": "hm"},
        {"type": "text", "content": "yes"},
    ]


def test_a_failed_tool_has_an_error_and_no_result() -> None:
    *_, tool = spans_of(*written(run(*failed("find", "TimeoutError"))))
    assert (tool.status, tool.status_message) == ("error", "TimeoutError")
    assert tool.attributes["error.type"] == "TimeoutError"
    assert "gen_ai.tool.call.result" not in tool.attributes
    *_, tool = spans_of(*written(run(*failed("find", "Error: no such order"))))
    assert tool.attributes["error.type"] == "_OTHER"


def test_a_call_that_nothing_answered_is_a_span_without_result_or_error() -> None:
    *_, tool = spans_of(*written(run(calls(ToolCall("find", {}, "c1")))))
    assert tool.attributes["gen_ai.tool.call.id"] == "c1"
    assert tool.status == "unset"
    assert not {"error.type", "gen_ai.tool.call.result"} & tool.attributes.keys()


def test_ids_come_from_the_run_and_nothing_else() -> None:
    first, again = (spans_of(*written(SHOP)) for _ in range(2))
    assert [s.span_id for s in first] == [s.span_id for s in again]
    assert len({s.span_id for s in first}) == len(first)
    named = msgspec.structs.replace(SHOP, id="0af7651916cd43dd8448eb211c80319c")
    assert {s.trace_id for s in spans_of(*written(named))} == {named.id}
    # An id that no trace can have is hashed.
    assert {s.trace_id for s in first} == {"82f3e9c695dc6b8d1b11818d5701919e"}


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


def test_a_run_that_was_spans_is_written_as_those_spans() -> None:
    told = run_of(otlp.FORMAT, exported(RECORDED))
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


def there_and_back(told: Trajectory) -> Trajectory:
    (request,) = written(told)
    return run_of(otlp.FORMAT, request.body)


def test_two_runs_of_one_trace_are_two_traces() -> None:
    told = run_of(otlp.FORMAT, exported(RECORDED))
    grown = msgspec.structs.replace(told, id="f" * 32)
    assert {s.trace_id for s in spans_of(*written(told, grown))} == {
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "f" * 32,
    }


def test_spans_without_times_stand_at_those_beside_them_and_their_steps_stay_without() -> None:
    early = msgspec.structs.replace(agent("a"), start=Instant(7, "7"), end=Instant(8, "8"))
    told = run(user("go"), early, agent("b"))
    root, first, second = spans_of(*written(told))
    assert [(s.start_ns, s.end_ns) for s in (root, first, second)] == [(7, 8), (7, 8), (8, 8)]
    back = there_and_back(told)
    assert [s.start for s in back.steps] == [None, Instant(7, "7"), None]


def test_a_run_without_times_has_none_unless_it_is_placed() -> None:
    assert {(s.start_ns, s.end_ns) for s in spans_of(*written(SHOP))} == {(None, None)}
    placed = spans_of(*written(SHOP, placed_at=1_000_000_000))
    assert [(s.start_ns, s.end_ns) for s in placed] == [
        (1_000_000_000, 1_003_000_000),
        (1_000_000_000, 1_001_000_000),
        (1_001_000_000, 1_002_000_000),
        (1_002_000_000, 1_003_000_000),
    ]


def test_a_verdict_is_an_event_of_the_span_of_its_step() -> None:
    verdict = Verdict("redundant_calls", 0.25, "some", 2, (1, 2), "twice", 0.5)
    whole = Verdict("outcome", label="pass")
    root, first, tool, last = judged(SHOP, record(verdict, judge="j"), record(whole))
    (event,) = first.events
    assert event.name == "gen_ai.evaluation.result"
    assert event.attributes == {
        "gen_ai.evaluation.name": "redundant_calls",
        "gen_ai.evaluation.score.value": 0.25,
        "gen_ai.evaluation.score.label": "some",
        "gen_ai.evaluation.explanation": "twice",
        "stepscope.version": "2",
        "stepscope.family": "rules",
        "stepscope.step": 2,
        "stepscope.judge": "j",
        "stepscope.cites": [1, 2],
        "stepscope.confidence": 0.5,
    }
    (event,) = root.events
    assert event.attributes["gen_ai.evaluation.score.label"] == "pass"
    assert "gen_ai.evaluation.score.value" not in event.attributes
    assert (tool.events, last.events) == ((), ())


@pytest.mark.parametrize(("step", "name"), [(3, "execute_tool find"), (4, "chat"), (99, "root")])
def test_a_verdict_about_a_result_stands_on_its_tool_and_one_about_nothing_on_the_root(
    step: int, name: str
) -> None:
    told = judged(SHOP, record(Verdict("m", 1.0, step=step)))
    (span,) = [span for span in told if span.events]
    assert span.name == ("invoke_agent" if name == "root" else name)


def test_what_was_not_measured_has_an_error_and_no_score() -> None:
    absent = Unmeasured("missing_input", "no times", "efficiency")
    root, *_ = judged(SHOP, record(absent))
    about = root.events[0].attributes
    assert about["error.type"] == "missing_input"
    assert about["gen_ai.evaluation.explanation"] == "no times"
    assert not {k for k in about if ".score." in k}


def test_openinference_gets_indexed_evaluations_behind_those_that_are_there() -> None:
    named = {**RECORDED, "attributes": [*RECORDED["attributes"]]}
    named["attributes"].append(
        {"key": "evaluations.0.evaluation.name", "value": {"stringValue": "theirs"}}
    )
    told = run_of(otlp.FORMAT, exported(named))
    records = [record(Verdict("m", 0.5, reason="so")), record(Unmeasured("budget", "spent", "n"))]
    (span,) = judged(told, *records, how="openinference")
    found = {k: v for k, v in span.attributes.items() if k.startswith("evaluations.")}
    assert json.loads(found.pop("evaluations.1.evaluation.metadata"))["stepscope.version"] == "2"
    second = json.loads(found.pop("evaluations.2.evaluation.metadata"))
    assert second["stepscope.unmeasured"] == "budget"
    assert found == {
        "evaluations.0.evaluation.name": "theirs",
        "evaluations.1.evaluation.name": "m",
        "evaluations.1.evaluation.score": 0.5,
        "evaluations.1.evaluation.explanation": "so",
        "evaluations.1.evaluation.annotator_kind": "CODE",
        "evaluations.1.evaluation.identifier": "stepscope m 2",
        "evaluations.2.evaluation.name": "n",
        "evaluations.2.evaluation.explanation": "spent",
        "evaluations.2.evaluation.annotator_kind": "CODE",
        "evaluations.2.evaluation.identifier": "stepscope n 2",
    }


@pytest.mark.parametrize("how", ["gen_ai", "openinference"])
@pytest.mark.parametrize("of", ["recorded", "made"])
def test_verdicts_are_not_taken_for_what_people_said_of_the_run(how: Verdicts, of: str) -> None:
    told = SHOP if of == "made" else run_of(otlp.FORMAT, exported(RECORDED))
    (request,) = requests(
        [(told, [record(Verdict("m", 0.5)), record(Verdict("n", 1.0))])],
        verdicts=how,
    )
    assert request.verdicts == 2
    back = run_of(otlp.FORMAT, request.body)
    (warning,) = [w for w in back.warnings if w.code == "verdicts_not_read"]
    assert warning.reason.startswith("2 verdicts")
    assert (back.labels, back.steps) == (told.labels, told.steps)


def test_no_verdicts_means_none() -> None:
    (request,) = requests([(SHOP, [record(Verdict("m", 0.5))])], verdicts="none")
    assert (request.verdicts, b"evaluation" in request.body) == (0, False)


def test_a_long_run_is_several_requests_and_one_run() -> None:
    long = run(*[agent(str(at) + "x" * 900_000) for at in range(6)])
    made = written(long)
    assert [request.spans for request in made] == [5, 2]
    assert all(len(request.body) < 5_000_000 for request in made)
    # Lines may come in any order.
    lines = b"\n".join([request.body for request in reversed(made)])
    assert run_of(otlp.FORMAT, lines).steps == long.steps


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
    assert run_of(otlp.FORMAT, request.body).steps == long.steps


def test_what_others_add_on_the_way_is_kept() -> None:
    (request,) = written(SHOP)
    body = json.loads(request.body)
    span = body["resourceSpans"][0]["scopeSpans"][0]["spans"][1]
    span["attributes"].append({"key": "host.name", "value": {"stringValue": "h"}})
    back = run_of(otlp.FORMAT, body)
    assert back.extra == {"added_to_spans": {span["spanId"]: {"host.name": "h"}}}
    assert back.steps == SHOP.steps


@pytest.mark.parametrize("of", ["recorded", "made"])
def test_a_trace_that_lost_or_got_a_span_is_read_like_any_other_and_says_so(of: str) -> None:
    child = {**RECORDED, "spanId": "00f067aa0ba902b9", "parentSpanId": RECORDED["spanId"]}
    told = SHOP if of == "made" else run_of(otlp.FORMAT, exported(RECORDED, child))
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
        back = run_of(otlp.FORMAT, body)
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
    back = run_of(otlp.FORMAT, body)
    (warning,) = [w for w in back.warnings if w.code == "not_restored"]
    assert told in warning.reason
    assert back.exchanges


def airline() -> list[Trajectory]:
    with AIRLINE.open("rb") as file:
        return [
            r for r in tau_bench.FORMAT.read(Stream(file, "runs.json")) if isinstance(r, Trajectory)
        ]


def test_whoever_reads_the_conventions_alone_sees_the_same_calls_answers_and_words() -> None:
    for told in airline()[:4]:
        spans = [
            msgspec.structs.replace(
                span,
                attributes={k: v for k, v in span.attributes.items() if "stepscope" not in k},
            )
            for span in spans_of(*written(told, placed_at=1))
        ]
        (back,) = assemble(spans, source=Source(format="otlp"))
        # What came behind the last answer, no model was told.
        spoken = [s for s in told.steps if s.actor == "agent"]
        assert [s.text for s in back.steps if s.actor == "agent"] == [s.text for s in spoken]
        assert [e.key for e in back.exchanges] == [e.key for e in told.exchanges]
        assert [e.result.text for e in back.exchanges if e.result is not None] == [
            e.result.text for e in told.exchanges if e.result is not None
        ]


def test_the_protocol_itself_takes_every_line_and_protobuf_says_the_same() -> None:
    recorded = run_of(otlp.FORMAT, exported(RECORDED))
    verdict = record(Verdict("m", 0.5, step=2, cites=(0,)))
    odd = run(
        calls(ToolCall("f", {"big": 2**63, "no": None, "yes": True, "x": [1.5, -1]}, "c")),
        result("Error: no", "error", call_id="c"),
        system("s"),
        extra={"b": 2**64 - 1},
    )
    for told in (SHOP, recorded, odd, *airline()[:2]):
        for request in requests([(told, [verdict])]):
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
            theirs.ParseFromString(protobuf(request.body))
            assert theirs == message


def base64(text: str) -> str:
    import base64 as b

    return b.b64encode(bytes.fromhex(text)).decode()


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
