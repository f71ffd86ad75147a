"""What google-adk 2.13.0 saved of a run with a scripted model, and older files of its own tests."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.google_adk.read import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import codes, lines, read, refused, run_of, written

DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> dict[str, Any]:
    held: dict[str, Any] = json.loads((DATA / f"google_adk_{name}.json").read_bytes())
    return held


SESSION, EVALSET, RESULT = recorded("session"), recorded("evalset"), recorded("result")
STEPS = [
    ("user", "message", None),
    ("agent", "call", "triage"),
    ("agent", "handoff", "triage"),
    ("agent", "call", "billing"),
    ("environment", "result", None),
    ("agent", "message", "billing"),
]


def told(run: Trajectory) -> list[tuple[str, str, str | None]]:
    return [(step.actor, step.kind, step.agent) for step in run.steps]


def event(*parts: dict[str, Json], author: str = "bot", **more: Json) -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)} if parts else None
    return {"invocation_id": "e", "author": author, "content": content, **more}


def session(*events: Json, **more: Json) -> dict[str, Any]:
    return {"id": "s", "app_name": "shop", "user_id": "u", "events": list(events), **more}


def asked(text: str) -> dict[str, Json]:
    return {"role": "user", "parts": [{"text": text}]}


LEGACY: dict[str, Any] = {
    "eval_set_id": "set",
    "eval_cases": [
        {
            "eval_id": "case",
            "conversation": [
                {
                    "invocation_id": "i",
                    "user_content": asked("Turn it off."),
                    "final_response": {"role": "model", "parts": [{"text": "Done."}]},
                    "intermediate_data": {
                        "tool_uses": [
                            {"id": None, "name": "find", "args": {"q": "lamp"}},
                            {"id": "b", "name": "off", "args": {"id": 1}},
                        ],
                        "tool_responses": [
                            {"id": "b", "name": "off", "response": {"result": "ok"}},
                            {"id": None, "name": "find", "response": {"error": "no lamp"}},
                        ],
                        "intermediate_responses": [["helper", [{"text": "On it."}]]],
                    },
                    "creation_timestamp": 1747340826.1,
                }
            ],
            "session_input": {"app_name": "home", "user_id": "u", "state": {"room": "hall"}},
        }
    ],
}


def test_a_session_is_a_run_with_its_agents_a_handoff_and_tokens() -> None:
    run = run_of(FORMAT, SESSION)
    assert told(run) == [*STEPS, ("user", "message", None), ("agent", "message", "billing")]
    assert [part.kind for part in run.steps[3].parts] == ["reasoning"]
    assert [call.name for call in run.steps[3].calls] == ["get_order", "refund"]
    assert [(e.call.name, e.result_step, e.failed) for e in run.exchanges] == [
        ("transfer_to_agent", 2, False),
        ("get_order", 4, False),
        ("refund", 4, True),
    ]
    assert run.steps[2].extra is not None
    assert run.steps[2].extra["to"] == "billing"
    first = run.steps[1].usage
    assert first is not None
    assert (first.input_total, first.cache_read, first.output_total, first.reasoning) == (
        20,
        8,
        7,
        2,
    )
    assert (run.steps[7].error, run.steps[1].model) == ("SAFETY: blocked", "scripted-1")
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == (80, 28)
    assert (run.workflow, run.agent, run.source.run_id) == ("shop", "triage", SESSION["id"])
    assert run.extra is not None
    assert run.extra["state"] == {"tier": "gold"}
    assert run.warnings == ()


def test_camel_case_and_snake_case_are_one_run() -> None:
    assert run_of(FORMAT, SESSION).id == run_of(FORMAT, recorded("session_snake")).id


def test_bare_events_one_a_line_or_in_a_list_are_one_run() -> None:
    events = SESSION["events"]
    one, other = run_of(FORMAT, lines(*events)), run_of(FORMAT, events)
    assert told(one) == told(run_of(FORMAT, SESSION))
    assert one.id == other.id


def test_older_sessions_tell_tokens_and_tools_in_a_log_beside_their_events() -> None:
    log = {
        "event_id": "e1",
        "model_request": {"config": {"tools": [{"function_declarations": [{"name": "f"}]}]}},
        "model_response": {
            "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 2},
            "model_version": "g",
            "candidates": [{"finish_reason": "STOP"}],
        },
    }
    events = [event({"text": "a"}, id="e1"), event({"text": "b"}, id="e2")]
    run = run_of(FORMAT, session(*events, event_logs=[log, 3, {"event_id": "e9"}]))
    first, second = run.steps
    assert (first.model, first.finish_reason, second.model, second.usage) == (
        "g",
        "STOP",
        None,
        None,
    )
    assert first.usage is not None
    assert (first.usage.input_total, first.usage.output_total) == (3, 2)
    assert [tool.name for tool in run.tools or ()] == ["f"]
    own = event({"text": "a"}, id="e1", model_version="own", usage_metadata={"promptTokenCount": 9})
    (kept,) = run_of(FORMAT, session(own, event_logs=[log])).steps
    assert (kept.model, kept.usage and kept.usage.input_total) == ("own", 9)


def test_two_sessions_one_a_line_are_two_runs() -> None:
    found = read(FORMAT, lines(SESSION, {**SESSION, "id": "other"}))
    assert [item.source.run_id for item in found if isinstance(item, Trajectory)] == [
        SESSION["id"],
        "other",
    ]


def test_an_eval_case_is_a_reference_run_and_its_own_case() -> None:
    run = run_of(FORMAT, EVALSET)
    steps = list(STEPS)
    steps[2] = ("environment", "result", None)
    assert told(run) == steps
    assert (run.task, run.workflow, run.tags) == ("refund-12", "refunds", {"kind": "reference"})
    assert (run.name, run.source.run_id) == ("refunds/refund-12/reference", "refunds/refund-12")
    assert run.case is not None
    assert [call.name for call in run.case.reference or ()] == [
        "transfer_to_agent",
        "get_order",
        "refund",
    ]
    assert (run.case.request, run.case.setup) == ("Refund order 12.", {"tier": "gold"})
    assert run.usage is not None
    assert (run.usage.input_total, run.outcome.status, run.start) == (60, "unknown", None)


def test_an_older_case_has_its_tools_with_their_responses_and_what_agents_said() -> None:
    run = run_of(FORMAT, LEGACY)
    assert told(run) == [
        ("user", "message", None),
        ("agent", "call", None),
        ("environment", "result", None),
        ("agent", "call", None),
        ("environment", "result", None),
        ("agent", "message", "helper"),
        ("agent", "message", None),
    ]
    assert [(e.call.name, e.result_step, e.failed) for e in run.exchanges] == [
        ("find", 2, True),
        ("off", 4, False),
    ]
    assert run.case is not None
    assert [(call.name, call.arguments) for call in run.case.reference or ()] == [
        ("find", {"q": "lamp"}),
        ("off", {"id": 1}),
    ]
    assert run.case.extra == {
        "responses": ["On it.", "Done."],
        "session_input": {"app_name": "home", "user_id": "u"},
    }
    assert run.extra is not None
    assert run.extra["invocations"] == [{"invocation_id": "i", "creation_timestamp": 1747340826.1}]


def test_a_final_response_that_asks_for_a_tool_is_told_once() -> None:
    asks: dict[str, Json] = {"parts": [{"function_call": {"id": "a", "name": "f", "args": {}}}]}
    turn = {
        "user_content": asked("Do it."),
        "intermediate_data": {"invocation_events": [{"author": "bot", "content": asks}]},
        "final_response": asks,
    }
    assert told(run_of(FORMAT, {"eval_id": "x", "conversation": [turn]})) == [
        ("user", "message", None),
        ("agent", "call", "bot"),
    ]
    bare = {**turn, "intermediate_data": None}
    assert told(run_of(FORMAT, {"eval_id": "x", "conversation": [bare]})) == [
        ("user", "message", None),
        ("agent", "call", None),
    ]


def test_what_an_app_says_of_its_agents_is_read_and_the_rest_is_kept() -> None:
    agents = {
        "b": {"name": "b", "instructions": "Be.", "tool_declarations": [{"google_search": {}}]},
        "a": {"name": "a", "toolDeclarations": [{"functionDeclarations": [{"name": "f"}]}]},
        "c": 3,
    }
    turn = {"user_content": asked("hi"), "app_details": {"agentDetails": agents}}
    run = run_of(FORMAT, {"eval_id": "x", "conversation": [turn]})
    assert [(tool.name, tool.agent) for tool in run.tools or ()] == [("f", "a")]
    assert run.extra is not None
    assert run.extra["invocations"] == [
        {
            "instructions": {"b": "Be."},
            "app_details": {
                "b": {"tool_declarations": [{"google_search": {}}]},
                "c": {"value": 3},
            },
        }
    ]


def test_a_case_alone_is_read_as_one_of_a_set() -> None:
    run = run_of(FORMAT, LEGACY["eval_cases"][0])
    assert (run.task, len(run.steps)) == ("case", 7)


def test_a_result_is_the_run_of_its_session_held_against_its_case() -> None:
    failed, passed = read(FORMAT, RESULT)
    assert isinstance(failed, Trajectory)
    assert isinstance(passed, Trajectory)
    assert [step.text for step in failed.steps] == ["Refund order 12.", "I will not."]
    assert (failed.outcome.status, failed.outcome.source, failed.outcome.reason) == (
        "fail",
        "check",
        "tool_trajectory_avg_score 0.0 of 1.0",
    )
    assert (passed.outcome.status, told(passed)) == ("pass", STEPS)
    assert failed.case is not None
    assert [call.name for call in failed.case.reference or ()] == [
        "transfer_to_agent",
        "get_order",
        "refund",
    ]
    assert (passed.name, passed.task) == ("refunds/refund-12", "refund-12")
    assert passed.source.run_id == RESULT["eval_case_results"][1]["session_id"]
    assert [(tool.name, tool.agent) for tool in passed.tools or ()] == [
        ("transfer_to_agent", "billing"),
        ("get_order", "billing"),
        ("refund", "billing"),
        ("transfer_to_agent", "triage"),
    ]
    assert passed.tools is not None
    assert passed.tools[1].schema is not None
    assert passed.extra is not None
    assert passed.extra["invocations"][0]["instructions"]["triage"] == "You route."
    assert passed.extra["invocations"][0]["duration"] >= 0


def test_a_result_without_a_session_is_made_of_what_was_kept_of_it() -> None:
    bare = copy.deepcopy(RESULT)
    for result in bare["eval_case_results"]:
        del result["session_details"]
    _, passed = read(FORMAT, bare)
    assert isinstance(passed, Trajectory)
    assert [step.text for step in passed.steps][-1] == "Order 12 is not delivered, so no refund."
    assert [(e.call.name, e.failed) for e in passed.exchanges] == [
        ("transfer_to_agent", False),
        ("get_order", False),
        ("refund", True),
    ]
    assert passed.usage is not None
    assert passed.usage.input_total == 60
    assert passed.start is not None


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(1, "pass"), ("PASSED", "pass"), (2, "fail"), (3, "unknown"), (4, "unknown")],
)
def test_the_outcome_is_what_the_evaluation_said(status: Json, outcome: str) -> None:
    result = {**RESULT["eval_case_results"][1], "final_eval_status": status}
    run = run_of(FORMAT, result)
    assert (run.outcome.status, (run.extra or {})["final_eval_status"]) == (outcome, status)


def test_partial_events_are_replayed_and_make_no_calls() -> None:
    call: dict[str, Json] = {"function_call": {"id": "a", "name": "f"}}
    run = run_of(FORMAT, session(event(call, partial=True), event(call)))
    assert [step.replayed for step in run.steps] == [True, False]
    assert [e.step for e in run.exchanges] == [1]


def test_compaction_transcripts_and_branches_are_kept() -> None:
    compacted = event(actions={"compaction": {"start_timestamp": 1}})
    spoken = event(author="user", input_transcription={"text": "hello", "finished": True})
    run = run_of(FORMAT, session(compacted, spoken, event({"text": "x"}, branch="a.b")))
    assert [step.kind for step in run.steps] == ["compaction", "message", "message"]
    assert run.steps[1].text == "hello"
    assert run.steps[2].extra == {"invocation_id": "e", "branch": "a.b"}


def test_tokens_of_the_providers_own_tools_are_input() -> None:
    told_tokens = {"promptTokenCount": 5, "toolUsePromptTokenCount": 3, "thoughtsTokenCount": 2}
    usage = run_of(FORMAT, session(event({"text": "x"}, usage_metadata=told_tokens))).usage
    assert usage is not None
    assert (usage.input_total, usage.output_total, usage.cache_read) == (8, 2, None)


def test_a_scenario_is_quarantined_alone() -> None:
    scenario = {"eval_id": "sim", "conversation_scenario": {"starting_prompt": "hi"}}
    file = {**LEGACY, "eval_cases": [scenario, *LEGACY["eval_cases"], 3]}
    kept = read(FORMAT, file)
    assert [type(item) for item in kept] == [Quarantined, Trajectory, Quarantined]
    first = kept[0]
    assert isinstance(first, Quarantined)
    assert "'sim' describes a user to be simulated" in first.reason
    assert json.loads(first.raw) == scenario


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (session(), "a session without events"),
        (session(event(content=3)), "event 0 needs a list under `parts`"),
        (session(event({"text": "x"}), 3), "event 1 is '3'"),
        ({"eval_id": "x", "conversation": 3}, "a conversation is '3'"),
        ({"eval_id": "x", "conversation": [3]}, "an invocation is '3'"),
        (
            {"eval_id": "x", "conversation": [{"intermediate_data": {"tool_uses": [3]}}]},
            "`tool_uses` is '[3]'",
        ),
        (
            {"eval_id": "x", "final_eval_status": 1, "eval_metric_result_per_invocation": 3},
            "`eval_metric_result_per_invocation` is '3'",
        ),
        ({"a": 1, "input": {}}, "no session"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


def test_an_event_that_cannot_be_read_is_quarantined_and_the_run_says_where() -> None:
    kept = read(FORMAT, lines(event({"text": "a"}), event(content=3), event({"text": "b"})))
    assert [type(item) for item in kept] == [Quarantined, Trajectory]
    run = kept[1]
    assert isinstance(run, Trajectory)
    assert codes(run) == [("record_quarantined", 1)]


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (SESSION, True),
        (recorded("session_snake"), True),
        (lines(*SESSION["events"]), True),
        (EVALSET, True),
        (RESULT, True),
        (LEGACY, True),
        (session(), True),
        (written(SESSION)[:900], True),
        ({"id": "x", "events": [{"type": "a"}]}, False),
        ({"events": [event({"text": "x"})]}, False),
        ({"eval_id": 1}, False),
        ([{"author": "a", "content": "b"}], False),
        ([], False),
    ],
)
def test_sniff_knows_adk_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


@pytest.mark.parametrize("name", ["session", "evalset", "result"])
def test_the_format_keeps_what_formats_promise(name: str) -> None:
    assert check_format(FORMAT, DATA / f"google_adk_{name}.json").runs >= 1
