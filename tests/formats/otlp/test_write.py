from __future__ import annotations

import json

import msgspec
import pytest

from stepscope.formats.otlp import request as request_otlp
from stepscope.formats.spans.assemble import assemble
from stepscope.model import Instant, Part, Source, Step, ToolCall, ToolDef, Usage
from tests.factories import agent, calls, did, failed, run, user
from tests.formats.otlp.making import (
    RECORDED,
    SHOP,
    airline,
    exported,
    spans_of,
    timed,
    written,
)
from tests.formats.reading import run_of


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


def test_spans_without_times_stand_at_those_beside_them() -> None:
    early = msgspec.structs.replace(agent("a"), start=Instant(7, "7"), end=Instant(8, "8"))
    told = run(user("go"), early, agent("b"))
    root, first, second = spans_of(*written(told))
    assert [(s.start_ns, s.end_ns) for s in (root, first, second)] == [(7, 8), (7, 8), (8, 8)]


def test_a_run_without_times_has_none_unless_it_is_placed() -> None:
    assert {(s.start_ns, s.end_ns) for s in spans_of(*written(SHOP))} == {(None, None)}
    placed = spans_of(*written(SHOP, placed_at=1_000_000_000))
    assert [(s.start_ns, s.end_ns) for s in placed] == [
        (1_000_000_000, 1_003_000_000),
        (1_000_000_000, 1_001_000_000),
        (1_001_000_000, 1_002_000_000),
        (1_002_000_000, 1_003_000_000),
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


def test_what_was_retrieved_is_a_span_of_its_own() -> None:
    found = Step(index=0, actor="environment", kind="retrieval", parts=(Part("text", "page"),))
    _, retrieval, chat = spans_of(*written(run(user("q"), found, agent("a"))))
    assert [retrieval.name, chat.name] == ["retrieval", "chat"]
    assert "gen_ai.input.messages" not in chat.attributes


def test_a_tool_takes_from_its_call_to_its_answer_and_never_ends_before_it_begins() -> None:
    asked, answered = did("t")
    for call, answer, wanted in (
        ((1, 3), (9, None), (3, 9)),
        ((1, 3), (4, 8), (4, 8)),
        ((5, 6), (2, None), (2, 2)),
    ):
        *_, tool = spans_of(*written(run(timed(asked, *call), timed(answered, *answer))))
        assert (tool.start_ns, tool.end_ns) == wanted


def test_spans_without_times_never_go_back_in_time() -> None:
    told = run(timed(agent("a"), 50, 60), timed(agent("b"), 10, 20), agent("c"))
    root, *chats = spans_of(*written(told))
    assert [(s.start_ns, s.end_ns) for s in chats] == [(50, 60), (10, 20), (60, 60)]
    assert (root.start_ns, root.end_ns) == (10, 60)


@pytest.mark.parametrize("of", ["recorded", "made"])
def test_a_backend_may_want_attributes_of_the_resource(of: str) -> None:
    told = SHOP if of == "made" else run_of(request_otlp.FORMAT, exported(RECORDED))
    (request,) = written(told, resource={"openinference.project.name": "p"})
    service = "stepscope" if of == "made" else "shop"
    for span in spans_of(request):
        assert span.resource == {"service.name": service, "openinference.project.name": "p"}


def test_arguments_that_could_not_be_decoded_are_written_as_their_text() -> None:
    broken = ToolCall("t", None, "c", "{no", "not JSON")
    _, chat, tool = spans_of(*written(run(calls(broken))))
    (message,) = json.loads(chat.attributes["gen_ai.output.messages"])
    assert message["parts"][0]["arguments"] == "{no"
    assert tool.attributes["gen_ai.tool.call.arguments"] == "{no"
