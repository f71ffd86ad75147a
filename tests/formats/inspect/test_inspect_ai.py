"""Inspect samples become runs: each thing that was said or done once, and nothing dropped."""

from __future__ import annotations

import pytest

from stepscope.formats.inspect.read import FORMAT
from stepscope.model import Usage
from tests.formats.inspect.made import (
    Record,
    assistant,
    at,
    begin,
    call,
    end,
    log,
    model,
    ran,
    tool,
    user,
)
from tests.formats.inspect.told import ASK, DONE, GO, run, script
from tests.formats.reading import codes, run_of


def test_what_a_model_is_given_again_is_said_once() -> None:
    found = run(
        model([GO], ASK),
        ran("c1", "etc", message_id="t"),
        model([GO, ASK, tool("c1", "etc", "t")], DONE),
        messages=[GO, ASK, tool("c1", "etc", "t"), DONE],
    )
    assert script(found) == [
        "user message go",
        "agent call look ls(c1)",
        "environment result c1:ok:etc",
        "agent message done",
    ]
    assert [step.id for step in found.steps] == ["u", "a", "t", "b"]
    assert found.steps[1].calls[0].arguments == {"dir": "/"}
    assert found.warnings == ()


@pytest.mark.parametrize("listed", [True, False])
def test_a_pool_has_equal_messages_once_and_each_time_is_a_step(*, listed: bool) -> None:
    more, first, second = user("more", "u"), assistant("one", "a"), assistant("two", "b")
    found = run(
        model([], first, refs=[[0, 1]]),
        model([], second, refs=[[0, 2], [0, 1]]),
        events_data={"messages": [more, first], "calls": []},
        messages=[more, first, user("more", "u2"), second] if listed else [],
    )
    assert [step.id for step in found.steps] == ["u", "a", None, "b"]
    assert script(found) == [
        "user message more",
        "agent message one",
        "user message more",
        "agent message two",
    ]


def test_messages_without_ids_are_told_apart_by_how_often_they_come() -> None:
    more, first = user("more"), assistant("one")
    found = run(
        model([more], first),
        model([more, first, more], assistant("one")),
        model([more, first, more, first, more], assistant("two")),
        messages=[more, first, more, first, more, assistant("two")],
    )
    assert [step.text for step in found.steps] == ["more", "one", "more", "one", "more", "two"]


def test_a_context_cut_short_is_not_said_again_but_its_summary_is() -> None:
    found = run(
        model([GO], ASK),
        ran("c1", "etc"),
        {
            "event": "compaction",
            "type": "summary",
            "tokens_before": 9,
        },
        model([GO, user("in short", "s")], DONE),
    )
    assert script(found)[2:] == [
        "environment result c1:ok:etc",
        "environment compaction",
        "user message in short",
        "agent message done",
    ]
    assert found.steps[3].extra == {"event": "compaction", "type": "summary", "tokens_before": 9}


def test_words_put_otherwise_later_stand_beside_those_that_were_said() -> None:
    other = assistant("[helper] done", "b")
    found = run(model([GO], DONE), model([GO, other], ASK), messages=[GO, other, ASK])
    assert [step.text for step in found.steps] == ["go", "done", "look"]
    assert found.steps[1].extra is not None
    assert found.steps[1].extra["retold"] == [
        {"parts": [{"kind": "text", "text": "[helper] done"}]}
    ]
    assert "retold" not in (found.steps[2].extra or {})


def test_words_of_an_agent_that_no_model_said_are_context() -> None:
    shown = {"role": "assistant", "content": "", "tool_calls": [call("c0")]}
    found = run(model([GO, shown, tool("c0", "x"), user("so")], DONE))
    assert script(found) == [
        "user message go",
        "agent call ls(c0) replayed",
        "environment result c0:ok:x replayed",
        "user message so",
        "agent message done",
    ]
    assert found.warnings == ()


def test_a_message_that_no_event_has_stands_behind_the_one_it_followed() -> None:
    own = assistant("by hand", "h")
    found = run(model([GO], DONE), model([GO, DONE], ASK), messages=[GO, DONE, own, ASK])
    assert [step.text for step in found.steps] == ["go", "done", "by hand", "look"]
    assert [step.index for step in found.steps] == [0, 1, 2, 3]


def test_words_that_repeat_are_each_in_their_own_place() -> None:
    more, one = user("more"), assistant("one")
    found = run(
        model([more], one),
        model([more, one, more], one),
        model([more, one, more, one, user("end")], DONE),
        messages=[more, one, more, user("by hand"), one, user("end"), DONE],
    )
    assert [step.text for step in found.steps] == [
        "more", "one", "more", "by hand", "one", "end", "done"
    ]  # fmt: skip


def test_a_result_is_one_step_whichever_of_message_and_event_is_first() -> None:
    error = {"type": "timeout", "message": "x"}
    calls = assistant("", "a", call("c1"), call("c1"))
    given = [GO, calls, tool("c1", "first", "t1"), tool("c1", "second", "t2")]
    found = run(
        model([GO], calls),
        model(given, DONE),
        ran("c1", "first", error=error),
        ran("c1", "second"),
        messages=given,
    )
    assert script(found) == [
        "user message go",
        "agent call ls(c1) ls(c1)",
        "environment result c1:error:first",
        "environment result c1:ok:second",
        "agent message done",
    ]
    assert [step.start is not None for step in found.steps[2:4]] == [True, True]


def test_a_result_that_no_call_asked_for_is_context_where_models_were_asked() -> None:
    asked = run(model([GO], DONE), messages=[GO, DONE, tool("c9", "x")])
    assert [step.replayed for step in asked.steps] == [False, False, True]
    alone = run(messages=[GO, tool("c9", "x")])
    assert [step.replayed for step in alone.steps] == [False, False]
    assert codes(alone) == [("result_without_call", 1)]


def test_a_log_of_messages_alone_is_read() -> None:
    found = run(messages=[GO, ASK, tool("c1", "etc"), DONE])
    assert script(found) == [
        "user message go",
        "agent call look ls(c1)",
        "environment result c1:ok:etc",
        "agent message done",
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        ({"type": "timeout", "message": "10 s"}, "timeout: 10 s"),
        ({"type": "permission", "message": ""}, "permission"),
        ({"type": "sandbox_unavailable", "message": "gone"}, "sandbox_unavailable: gone"),
    ],
)
@pytest.mark.parametrize("where", ["event", "message", "both"])
def test_a_tools_error_is_explicit_with_its_type(error: Record, text: str, where: str) -> None:
    in_event = {"error": error} if where != "message" else {}
    in_message = {"error": error} if where != "event" else {}
    found = run(
        model([GO], ASK),
        ran("c1", "", **in_event),
        model([GO, ASK, tool("c1", "why", "t", **in_message)], DONE),
    )
    (result,) = found.steps[2].results
    assert (result.status, result.source, result.error) == ("error", "explicit", text)
    assert result.text == "why"
    assert result.extra is not None
    assert result.extra["error_type"] == error["type"]


def test_a_result_that_was_cut_keeps_what_the_tool_gave() -> None:
    found = run(
        model([GO], ASK),
        ran("c1", "all of it", truncated=[9, 3]),
        model([GO, ASK, tool("c1", "all")], DONE),
    )
    (result,) = found.steps[2].results
    assert result.text == "all"
    assert result.truncated
    assert result.extra == {
        "truncated": [9, 3],
        "returned": [{"kind": "text", "text": "all of it"}],
    }


def test_texts_kept_apart_are_put_back_and_those_missing_are_told() -> None:
    here, gone = "attachment://" + "a" * 32, "tc://" + "b" * 32
    found = run(
        model([user(here, "u")], assistant([{"type": "text", "text": gone}], "a")),
        {
            "event": "info",
            "data": {"x": [here]},
        },
        attachments={"a" * 32: "a long text"},
    )
    assert [step.text for step in found.steps] == ["a long text", gone]
    assert found.extra is not None
    assert found.extra["events"][0]["data"] == {"x": ["a long text"]}
    assert codes(found) == [("missing_attachment", None)]


def test_the_oldest_logs_have_their_texts_in_a_transcript() -> None:
    found = run_of(
        FORMAT,
        log(
            {
                "id": 1,
                "epoch": 2,
                "input": "go",
                "messages": [],
                "transcript": {
                    "events": [model([user("tc://" + "c" * 32)], DONE)],
                    "content": {"c" * 32: "long"},
                },
            }
        ),
    )
    assert [step.text for step in found.steps] == ["long", "done"]
    assert (found.name, found.task, found.trial) == ("guess/1/2", "1", "2")
    assert found.source.run_id == "E/1/2"


TREE = [
    begin("s", "solvers", "solvers"),
    begin("m", "agent", "boss", "s"),
    model([GO], assistant("", "a", call("c1", "helper")), span_id="m"),
    begin("t", "tool", "helper", "m"),
    ran(
        "c1",
        "found",
        span_id="m",
        agent="helper",
        agent_span_id="h",
        function="helper",
        completed=at(8),
    ),
    begin("h", "agent", "helper", "t"),
    model([user("find", "f")], assistant("looking", "x", call("c2")), span_id="h"),
    ran("c2", "etc", span_id="h"),
    end("h"),
    end("t"),
    model([GO, assistant("", "a", call("c1", "helper"))], DONE, span_id="m"),
    end("m"),
    end("s"),
]


def test_an_agent_within_another_is_a_handoff_and_answers_when_it_ends() -> None:
    found = run(*TREE)
    assert script(found) == [
        "user message go",
        "boss call helper(c1)",
        "boss handoff",
        "user message find",
        "helper call looking ls(c2) side",
        "environment result c2:ok:etc side",
        "environment result c1:ok:found",
        "boss message done",
    ]
    assert found.steps[2].extra == {"to": "helper"}
    assert [(s.id, s.parent, s.kind) for s in found.spans][1:] == [
        ("m", "s", "agent"),
        ("t", "m", "tool"),
        ("h", "t", "agent"),
    ]
    assert found.warnings == ()


def test_a_tool_whose_agent_had_ended_or_never_ended_answers_all_the_same() -> None:
    late = ran("c1", "found", span_id="m", agent_span_id="h")
    asked = model([GO], assistant("", "a", call("c1")), span_id="m")
    root, inner = begin("m", "agent", "boss"), begin("h", "agent", "helper", "m")
    ended = run(root, asked, inner, end("h"), late, model([GO], DONE, span_id="m"))
    assert [step.kind for step in ended.steps] == [
        "message",
        "call",
        "handoff",
        "result",
        "message",
    ]
    cut = run(root, asked, late, inner)
    assert [step.kind for step in cut.steps] == ["message", "call", "handoff", "result"]


def test_a_span_that_names_no_parent_is_in_the_span_of_its_event() -> None:
    found = run(begin("a", "agent", "x"), {**begin("b", None, "y"), "span_id": "a"})
    assert [(span.id, span.parent) for span in found.spans] == [("a", None), ("b", "a")]


def test_a_grader_is_not_the_agent_and_its_tokens_are_taken_off() -> None:
    grade = model([user("good?")], assistant("yes"), usage={"input_tokens": 7, "output_tokens": 1})
    found = run(
        model([GO], DONE, usage={"input_tokens": 3, "output_tokens": 2, "total_cost": 0.5}),
        begin("q", "scorer", "judge"),
        grade | {"span_id": "q"},
        ran("c9") | {"span_id": "q"},
        end("q"),
        model_usage={
            "maker/m": {"input_tokens": 10, "output_tokens": 3, "total_cost": 0.75},
        },
        role_usage={"grader": {"input_tokens": 7, "output_tokens": 1}},
    )
    assert script(found) == ["user message go", "agent message done"]
    assert [event["event"] for event in found.spans[0].events] == ["model", "tool"]
    assert found.usage == Usage(input_total=3, output_total=2)
    assert found.cost_usd == 0.75
    assert found.steps[1].cost_usd == 0.5
    assert found.extra is not None
    assert found.extra["role_usage"] == {"grader": {"input_tokens": 7, "output_tokens": 1}}
