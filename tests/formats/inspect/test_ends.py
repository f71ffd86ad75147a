"""What events of Inspect say beside the talk: limits, old steps, scores, tokens, tools, media."""

from __future__ import annotations

from typing import Any

import pytest

from stepscope.formats.inspect.read import FORMAT
from stepscope.model import Outcome
from tests.formats.inspect.made import (
    Record,
    assistant,
    begin,
    call,
    end,
    log,
    model,
    ran,
    sample,
    user,
)
from tests.formats.inspect.told import ASK, DONE, GO, run, script
from tests.formats.reading import codes, refused, run_of


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
        ({"id": "s"}, "`$.epoch` is missing"),
        ({**sample(), "events": [7]}, "an event is '7'; expected an object"),
        (sample({"event": "tool"}), "`$.function` is missing"),
        (sample(messages=[{"role": "wizard"}]), "Invalid enum value 'wizard' - at `$.role`"),
    ],
)
def test_a_sample_that_is_none_is_quarantined_alone(broken: Any, reason: str) -> None:
    assert refused(FORMAT, log(broken)).reason == reason


def test_a_span_within_none_and_one_begun_twice_are_told() -> None:
    found = run(begin("a", "tool", "x", "gone"), begin("a", "tool", "y"))
    assert codes(found) == [("orphan_parent", None), ("duplicate_span", None)]
    assert [span.name for span in found.spans] == ["x", "y"]
