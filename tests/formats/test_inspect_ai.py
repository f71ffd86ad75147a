"""Inspect samples become runs: each thing that was said or done once, and nothing dropped."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.formats.inspect_ai import FORMAT
from stepscope.model import Outcome, Step, Trajectory, Usage
from tests.formats.inspect_made import (
    Record,
    assistant,
    at,
    begin,
    call,
    end,
    log,
    model,
    ran,
    sample,
    tool,
    user,
)
from tests.formats.reading import codes, refused, run_of


def run(*events: Record, **more: Any) -> Trajectory:
    return run_of(FORMAT, log(sample(*events, **more)))


def told(step: Step) -> str:
    """A step in one short line: who, what kind, and what."""
    calls = [f"{made.name}({made.id})" for made in step.calls]
    results = [f"{r.call_id}:{r.status}:{r.text}" for r in step.results]
    marks = ["replayed"] * step.replayed + ["side"] * step.sidechain
    said = [step.agent or step.actor, step.kind, step.text, *calls, *results, *marks]
    return " ".join(part for part in said if part)


def script(found: Trajectory) -> list[str]:
    return [told(step) for step in found.steps]


GO = user("go", "u")
ASK = assistant("look", "a", call("c1", dir="/"))
DONE = assistant("done", "b")


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


def test_events_of_people_and_limits_are_steps_and_all_others_stay_whole() -> None:
    found = run(
        begin("s", "solver", "x"),
        {
            "event": "approval",
            "decision": "reject",
            "explanation": "no",
            "approver": "human",
            "span_id": "s",
        },
        {
            "event": "sample_limit",
            "type": "message",
            "message": "over 3",
        },
        {
            "event": "error",
            "error": {"message": "broke", "traceback": "t"},
        },
        {"event": "sandbox", "cmd": "ls", "span_id": "s"},
        {"event": "of tomorrow", "span_id": "s"},
        {"event": "info", "data": 1},
        end("s"),
    )
    assert [(step.kind, step.text, step.error) for step in found.steps] == [
        ("guardrail", "reject: no", None),
        ("other", "over 3", None),
        ("other", "", "broke"),
    ]
    assert found.steps[0].extra == {"event": "approval", "decision": "reject", "explanation": "no",
                                    "approver": "human"}  # fmt: skip
    assert [event["event"] for event in found.spans[0].events] == ["sandbox", "of tomorrow"]
    assert found.extra is not None
    assert [event["data"] for event in found.extra["events"]] == [1]


def test_steps_of_old_logs_are_spans_closed_innermost_first() -> None:
    def step(action: str, name: str, kind: str | None = None) -> Record:
        return {
            "event": "step",
            "action": action,
            "name": name,
            "type": kind,
        }

    found = run(
        step("begin", "outer", "solver"),
        step("begin", "inner"),
        {"event": "info", "data": 1},
        step("end", "outer"),
        {"event": "info", "data": 2},
        step("begin", "match", "scorer"),
        model([GO], DONE),
    )
    assert [(s.name, s.parent, len(s.events)) for s in found.spans] == [
        ("outer", None, 1),
        ("inner", found.spans[0].id, 1),
        ("match", found.spans[0].id, 1),
    ]
    assert script(found) == []


def test_events_within_an_old_event_are_played_in_its_place() -> None:
    inner = model([user("find")], assistant("looking", "x"))
    found = run(
        model([GO], ASK),
        ran("c1", "etc", events=[inner], agent="helper"),
        {"event": "subtask", "name": "sum", "input": {"n": 1}, "result": 2,
         "events": [model([user("add")], assistant("two", "y"))], },
    )  # fmt: skip
    assert script(found) == [
        "user message go",
        "agent call look ls(c1)",
        "user message find",
        "helper message looking",
        "environment result c1:ok:etc",
        "user message add",
        "agent message two",
    ]
    assert [(s.kind, s.name) for s in found.spans] == [("agent", "helper"), ("subtask", "sum")]
    assert found.spans[1].attributes == {"input": {"n": 1}, "result": 2}


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ({"m": {"value": "C"}}, Outcome("pass", "check", 1.0, "m: C")),
        ({"m": {"value": "I"}}, Outcome("fail", "check", 0.0, "m: I")),
        ({"m": {"value": "N"}}, Outcome("fail", "check", 0.0, "m: N")),
        ({"m": {"value": "P"}}, Outcome("unknown", "check", 0.5, "m: P")),
        ({"m": {"value": True}}, Outcome("pass", "check", 1.0, "m: true")),
        ({"m": {"value": 1}}, Outcome("pass", "reward", 1.0, "m: 1")),
        ({"m": {"value": 0}}, Outcome("fail", "reward", 0.0, "m: 0")),
        ({"m": {"value": 0.4}}, Outcome("unknown", "reward", 0.4, "m: 0.4")),
        ({"m": {"value": 7}}, Outcome("unknown", "reward", 7.0, "m: 7")),
        ({"m": {"value": {"a": 1}}}, Outcome(reason='m: {"a":1}')),
        ({"m": {"value": "words"}}, Outcome(reason="m: words")),
        ({"m": {"value": "NaN"}}, Outcome(reason="m: NaN")),
        ({"x": {"value": "I"}, "m": {"value": "C"}}, Outcome("fail", "check", 0.0, "x: I")),
        ({}, Outcome()),
        (None, Outcome()),
    ],
)
def test_the_first_scorer_says_the_outcome(scores: Record | None, outcome: Outcome) -> None:
    assert run(scores=scores).outcome == outcome


def test_the_scorer_that_the_log_names_first_is_the_first() -> None:
    scores = {"x": {"value": "I"}, "m": {"value": "C", "explanation": "it fits", "answer": "4"}}
    about = log()["eval"] | {"scorers": [{"name": "m"}, {"name": "x"}]}
    found = run_of(FORMAT, log(sample(scores=scores), eval=about))
    assert found.outcome.status == "pass"
    results = {"headline": {"scorer": "x"}}
    assert (
        run_of(FORMAT, log(sample(scores=scores), eval=about, results=results)).outcome.reason
        == "x: I"
    )
    assert [(lb.kind, lb.annotator, lb.category, lb.reason, lb.extra) for lb in found.labels] == [
        ("outcome", "x", "I", "", None),
        ("outcome", "m", "C", "it fits", {"answer": "4"}),
    ]


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ({"error": {"message": "broke"}, "output": {"x": 1}}, "error"),
        ({"limit": {"type": "token", "limit": 9}}, "token_limit"),
        ({"limit": "time"}, "time_limit"),
        ({"output": {"model": "m"}}, "completed"),
        ({}, None),
    ],
)
def test_a_sample_ends_on_an_error_at_a_limit_or_by_itself(more: Record, ended: str | None) -> None:
    assert run(**more).termination == ended


def test_a_reply_cut_by_the_provider_ends_the_run() -> None:
    assert run(model([GO], DONE, stop="max_tokens"), output={"m": 1}).termination == "max_tokens"


@pytest.mark.parametrize(
    ("used", "input_total"),
    [
        ({"input_tokens": 3, "input_tokens_cache_read": 40, "total_tokens": 44}, 43),
        ({"input_tokens": 43, "input_tokens_cache_read": 40, "total_tokens": 44}, 43),
        ({"input_tokens": 3, "input_tokens_cache_write": 5, "input_tokens_cache_read": 40}, 48),
        ({"input_tokens": 3}, 3),
    ],
)
def test_input_holds_the_cache_once_whoever_counted(used: Record, input_total: int) -> None:
    found = run(model([GO], DONE, usage={"output_tokens": 1, **used}))
    assert found.steps[1].usage is not None
    assert found.steps[1].usage.input_total == input_total


def test_cached_repeated_unfinished_and_failed_replies_are_marked() -> None:
    failed = {
        "event": "model",
        "model": "maker/m",
        "error": "overloaded",
    }
    found = run(
        failed,
        model([GO], DONE, cache="read", retries=2),
        {**failed, "error": None, "pending": True},
        error_retries=[{"message": "broke"}],
    )
    assert [step.error for step in found.steps] == ["overloaded", None, None, None]
    assert codes(found) == [
        ("cached_reply", 2),
        ("retried", 2),
        ("pending", 3),
        ("sample_retried", None),
    ]


def test_what_went_over_the_wire_is_kept_beside_with_what_it_points_at() -> None:
    wire = {
        "request": {"messages": [], "system": "attachment://" + "d" * 32},
        "call_refs": [[0, 1]],
    }
    found = run(
        model([GO], DONE, call=wire, uuid="e1"),
        events_data={"messages": [], "calls": [{"role": "user"}]},
        attachments={"d" * 32: "long", "e" * 32: "other"},
    )
    assert found.extra is not None
    assert found.extra["calls"] == [{"step": 1, **wire}]
    assert found.extra["call_pool"] == [{"role": "user"}]
    assert found.extra["attachments"] == {"d" * 32: "long"}
    assert found.extra["clock"] == [{"step": 1, "uuid": "e1"}]


def test_a_run_is_the_same_run_when_its_events_are_logged_anew() -> None:
    first = run(model([GO], DONE, uuid="e1", working_start=1.5), ran("c", uuid="e2"))
    again = run(model([GO], DONE, uuid="e3"), ran("c"), metadata={"k": 1})
    other = run(model([GO], DONE), ran("d"))
    assert first.id == again.id != other.id


def test_the_header_is_the_provenance_of_every_run() -> None:
    found = run_of(FORMAT, log(sample(metadata={"level": 3}, target="42"), status="cancelled"))
    assert (found.workflow, found.task, found.trial) == ("pack/guess", "s", "1")
    assert (found.agent, found.agent_version) == ("maker/m", "abc")
    assert found.tags == {
        "model": "maker/m", "dataset": "d", "revision": "abc", "log_status": "cancelled"
    }  # fmt: skip
    assert found.extra is not None
    assert found.extra["metadata"] == {"level": 3}
    assert found.extra["log"]["eval"]["dataset"] == {"name": "d"}
    assert found.case is not None
    assert (found.case.request, found.case.extra) == ("go", {"target": "42"})
    assert codes(found) == [("log_incomplete", None)]


def test_a_tool_of_the_provider_is_call_and_result_in_one_step() -> None:
    used = {"type": "tool_use", "tool_type": "web_search", "id": "w", "name": "search",
            "arguments": '{"q": 1}', "result": "found", "error": None}  # fmt: skip
    thought = {"type": "reasoning", "reasoning": "hm", "signature": "s"}
    (_, step) = run(model([GO], assistant([thought, used], "a"))).steps
    assert [(part.kind, part.text) for part in step.parts] == [("reasoning", "hm")]
    (made,), (result,) = step.calls, step.results
    assert (made.name, made.kind, made.arguments, made.raw) == (
        "search", "server", {"q": 1}, '{"q": 1}'
    )  # fmt: skip
    assert (result.call_id, result.status, result.text) == ("w", "ok", "found")


def test_arguments_that_could_not_be_parsed_are_data() -> None:
    broken = {**call("c1", raw="{x"), "parse_error": "no JSON"}
    (made,) = run(model([GO], assistant("", "a", broken))).steps[1].calls
    assert (made.arguments, made.raw, made.parse_error) == (None, '{"raw":"{x"}', "no JSON")


def test_media_are_parts_with_size_and_hash_and_links_are_kept() -> None:
    picture = {"type": "image", "image": "data:image/png;base64,aGk=", "detail": "auto"}
    link = {"type": "document", "document": "http://x/y.pdf"}
    (step,) = run(messages=[user([picture, link, {"type": "data", "data": {"a": 1}}])]).steps
    assert [(p.kind, p.size, p.uri) for p in step.parts] == [
        ("image", 2, None),
        ("file", None, "http://x/y.pdf"),
        ("data", None, None),
    ]


def test_tools_are_told_once_for_each_agent_they_are_offered_to() -> None:
    offered = [
        {"name": "ls", "description": "lists", "parameters": {"type": "object"}, "options": 1}
    ]
    found = run(model([GO], ASK, tools=offered), model([GO, ASK], DONE, tools=list(offered)))
    assert found.tools is not None
    (one,) = found.tools
    assert (one.name, one.description, one.schema, one.extra) == (
        "ls", "lists", {"type": "object"}, {"options": 1}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ([1], "an Inspect sample is an object; found '[1]'"),
        ({"id": "s"}, "Object missing required field `epoch`"),
        ({**sample(), "events": [7]}, "an event is '7'; expected an object"),
        (sample({"event": "tool"}), "Object missing required field `function`"),
        (sample(messages=[{"role": "wizard"}]), "Invalid enum value 'wizard' - at `$.role`"),
    ],
)
def test_a_sample_that_is_none_is_quarantined_alone(broken: Any, reason: str) -> None:
    assert refused(FORMAT, log(broken)).reason == reason


def test_a_span_within_none_and_one_begun_twice_are_told() -> None:
    found = run(begin("a", "tool", "x", "gone"), begin("a", "tool", "y"))
    assert codes(found) == [("orphan_parent", None), ("duplicate_span", None)]
    assert [span.name for span in found.spans] == ["x", "y"]
