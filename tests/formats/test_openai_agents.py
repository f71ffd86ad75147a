"""Exports recorded from openai-agents 0.24.0 against a scripted server, and its saved states."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats.openai_agents_files import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import codes, lines, read, refused, run_of, written

DATA = Path(__file__).parent / "data"
TRACE = {"object": "trace", "id": "t", "workflow_name": "w", "group_id": "g", "metadata": {"a": 1}}


def recorded(name: str) -> bytes:
    return (DATA / f"openai_agents_{name}").read_bytes()


def exports(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in recorded(name).splitlines()]


def span(own: str, parent: str | None, second: int, /, **about: Json) -> dict[str, Any]:
    error = about.pop("error", None)
    return {
        "object": "trace.span",
        "id": own,
        "trace_id": "t",
        "parent_id": parent,
        "started_at": f"2026-11-22T04:00:{second:02}.5+00:00",
        "ended_at": f"2026-11-22T04:00:{second + 1:02}.5+00:00",
        "span_data": about,
        "error": error,
    }


SPANS = [
    TRACE,
    {
        **span("a", None, 0, type="agent", name="A", tools=["f"], handoffs=["B"]),
        "ended_at": "2026-11-22T04:00:20Z",
    },
    span("r", "a", 1, type="response", response_id="resp_1", usage={"input_tokens": 3}),
    span("f", "a", 3, type="function", name="f", input='{"x": 1}', output="done", mcp_data=None),
    span("h", "a", 5, type="handoff", from_agent="A", to_agent="B"),
    span("c", None, 7, type="custom", name="mine", data={"rows": 3}),
]
STATE: dict[str, Any] = json.loads(recorded("state.json"))


def told(run: Trajectory) -> list[tuple[str, str, str | None]]:
    return [(step.actor, step.kind, step.agent) for step in run.steps]


def test_a_team_recorded_through_chat_completions_is_one_run_with_agents_and_a_handoff() -> None:
    run = run_of(FORMAT, recorded("chat.jsonl"))
    assert told(run) == [
        ("environment", "guardrail", None),
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "call", "Triage"),
        ("system", "message", None),
        ("user", "message", None),
        ("agent", "message", "Speller"),
        ("environment", "result", None),
        ("agent", "call", "Triage"),
        ("agent", "handoff", "Triage"),
        ("system", "message", None),
        ("environment", "result", None),
        ("agent", "call", "Billing"),
        ("environment", "result", None),
        ("environment", "result", None),
        ("agent", "message", "Billing"),
    ]
    assert [call.name for call in run.steps[12].calls] == ["get_order", "refund"]
    assert [(e.call.name, e.result_step, e.failed) for e in run.exchanges] == [
        ("spell", 7, False),
        ("transfer_to_billing", 11, False),
        ("get_order", 13, False),
        ("refund", 14, True),
    ]
    assert run.steps[9].extra == {"to": "Billing"}
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.cache_read, run.usage.output_total) == (105, 20, 30)
    assert (run.workflow, run.tags, run.agent) == ("chat team", {"session": "g1"}, "Triage")
    assert [(tool.name, tool.agent) for tool in run.tools or ()] == [
        ("spell", "Triage"),
        ("get_order", "Billing"),
        ("refund", "Billing"),
    ]
    assert (run.warnings, run.termination, len(run.spans)) == ((), None, 20)


def test_a_failed_tool_is_an_explicit_error_with_the_reason_that_the_span_gives() -> None:
    result = run_of(FORMAT, recorded("chat.jsonl")).steps[14].results[0]
    assert (result.status, result.source) == ("error", "explicit")
    assert result.error == (
        "Error running tool (non-fatal): Tool execution failed. Error details are redacted."
    )
    assert result.text == "An error occurred while running the tool. Please try again."


def test_responses_have_tokens_and_a_warning_in_the_place_of_their_messages() -> None:
    run = run_of(FORMAT, recorded("responses.jsonl"))
    assert codes(run) == [("response_without_body", at) for at in (1, 3, 5, 7, 12)]
    assert (run.steps[1].id, run.steps[1].parts, run.steps[1].agent) == ("resp_96", (), "Triage")
    assert [(e.call.name, e.failed) for e in run.exchanges] == [
        ("spell", False),
        ("get_order", False),
        ("refund", True),
    ]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total) == (150, 35)
    assert [step.extra for step in run.steps if step.kind == "handoff"] == [{"to": "Billing"}]


def test_a_response_whose_body_a_processor_kept_is_read_without_a_warning() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"x": 1}'}
    held = dict(SPANS[2], span_data={**SPANS[2]["span_data"], "response": {"output": [call]}})
    run = run_of(FORMAT, [*SPANS[:2], held, *SPANS[3:]])
    assert codes(run) == []
    assert [(e.call.id, e.result_step) for e in run.exchanges] == [("c", 1)]


@pytest.mark.parametrize(
    ("name", "steps", "termination"),
    [
        ("error.jsonl", 4, "Error in agent run: Error code: 500 - boom"),
        ("tripped.jsonl", 1, "Guardrail tripwire triggered: polite"),
    ],
)
def test_a_run_that_failed_says_how_it_ended(name: str, steps: int, termination: str) -> None:
    run = run_of(FORMAT, recorded(name))
    assert (len(run.steps), run.termination, run.agent) == (steps, termination, "Triage")


def test_a_failure_within_a_tool_is_not_the_runs() -> None:
    inner = span("b", "f", 3, type="agent", name="B", error={"message": "no", "data": None})
    assert run_of(FORMAT, [*SPANS, inner]).termination is None


def test_a_guardrail_is_a_step_that_says_whether_it_tripped() -> None:
    step = run_of(FORMAT, recorded("tripped.jsonl")).steps[0]
    assert [part.extra for part in step.parts] == [{"name": "polite", "triggered": True}]


@pytest.mark.parametrize(
    "file",
    [
        SPANS,
        lines(*SPANS),
        lines(*reversed(SPANS)),
        {"data": SPANS},
        [{**TRACE, "spans": SPANS[1:]}],
        lines(SPANS),
    ],
    ids=["array", "lines", "any order", "a request", "spans in their trace", "a line of a list"],
)
def test_however_exports_are_wrapped_a_trace_is_one_run(file: Json) -> None:
    run = run_of(FORMAT, file)
    assert told(run) == [
        ("agent", "message", "A"),
        ("agent", "call", "A"),
        ("environment", "result", None),
        ("agent", "handoff", "A"),
    ]
    assert (run.name, run.workflow, run.tags) == ("t", "w", {"session": "g"})
    assert run.extra is not None
    assert run.extra["metadata"] == {"a": 1}
    assert run.spans[0].attributes["openai_agents.type"] is not None


def test_two_traces_of_a_file_are_two_runs_and_one_without_spans_says_so() -> None:
    other = {**TRACE, "id": "u", "group_id": None}
    first, second = read(FORMAT, [*SPANS, other])
    assert isinstance(first, Trajectory)
    assert isinstance(second, Trajectory)
    assert (first.name, second.name, len(second.steps)) == ("t", "u", 0)
    assert codes(second) == [("no_agent_span", None)]
    assert first.id != second.id


def test_tools_that_a_server_lists_are_offered_and_users_own_spans_are_kept() -> None:
    listing = span("m", "a", 1, type="mcp_tools", server="s", result=["g"])
    run = run_of(FORMAT, [*SPANS, listing])
    assert [tool.name for tool in run.tools or ()] == ["f", "g"]
    assert run.spans[4].attributes["openai_agents.data"] == {"rows": 3}


def test_an_mcp_tool_is_told_from_a_function() -> None:
    about = {"type": "function", "name": "f", "input": "{}", "mcp_data": {"server": "s"}}
    (exchange,) = run_of(FORMAT, [span("f", None, 1, **about)]).exchanges
    assert (exchange.call.kind, exchange.call.extra) == ("mcp", {"mcp_data": {"server": "s"}})


@pytest.mark.parametrize(
    ("more", "status", "source"),
    [
        ({"error": None}, "ok", "protocol"),
        ({"error": {"message": "no"}}, "error", "explicit"),
        ({"error": None, "ended_at": None}, "unknown", "none"),
    ],
)
def test_a_tool_that_ended_without_an_error_worked(
    more: dict[str, Json], status: str, source: str
) -> None:
    (exchange,) = run_of(FORMAT, [{**SPANS[3], "parent_id": None, **more}]).exchanges
    assert exchange.result is not None
    assert (exchange.result.status, exchange.result.source) == (status, source)
    bare = {key: value for key, value in SPANS[3].items() if key != "error"}
    (exchange,) = run_of(FORMAT, [{**bare, "parent_id": None}]).exchanges
    assert exchange.result is not None
    assert exchange.result.status == "unknown"


def test_what_generations_and_responses_used_stands_at_their_steps_else_with_their_frame() -> None:
    chat = run_of(FORMAT, recorded("chat.jsonl"))
    assert [step.model for step in chat.steps if step.usage is not None] == ["scripted"] * 5
    held = {"model": "m", "id": "resp_2", "usage": {"input_tokens": 7}, "output": []}
    body = span("r", None, 1, type="response", response=held, input="hi")
    (asked, step) = run_of(FORMAT, [body]).steps
    assert (asked.text, step.model, step.id) == ("hi", "m", "resp_2")
    assert step.usage is not None
    assert step.usage.input_total == 7
    frames = [line for line in exports("chat.jsonl") if line.get("span_data", {})]
    for line in frames:
        line["span_data"].pop("usage", None)
    total = run_of(FORMAT, frames).usage
    assert total is not None
    assert (total.input_total, total.cache_read, total.output_total) == (105, 20, 30)


def test_what_a_trace_says_that_is_no_list_of_spans_is_kept() -> None:
    run = run_of(FORMAT, [{**TRACE, "spans": "none"}, *SPANS[1:]])
    assert run.extra is not None
    assert run.extra["spans"] == "none"
    assert (run.extra["span_facts"][0]["started_at"]) == "2026-11-22T04:00:00.5+00:00"


def test_a_state_may_begin_with_items_and_have_a_trace() -> None:
    asked = [{"role": "user", "content": "hi"}, {"role": "user", "content": "there"}]
    trace = {"object": "trace", "id": "trace_1", "workflow_name": "shop"}
    run = run_of(FORMAT, {**STATE, "original_input": asked, "trace": trace})
    assert [step.text for step in run.steps[:2]] == ["hi", "there"]
    assert (run.name, run.workflow, run.source.run_id) == ("trace_1", "shop", "trace_1")


def test_an_answer_that_is_held_in_part_has_its_tokens_in_the_total_alone() -> None:
    state = json.loads(json.dumps(STATE))
    del state["session_items"][0]
    run = run_of(FORMAT, state)
    assert [step.usage is not None for step in run.steps if step.calls] == [False, True]
    assert run.usage is not None
    assert run.usage.input_total == 90
    assert run.extra is not None
    assert run.extra["model_responses"][0]["output"] == [STATE["session_items"][0]["raw_item"]]


def test_a_saved_state_is_a_run_of_its_items_with_their_agents_and_tokens() -> None:
    run = run_of(FORMAT, recorded("state.json"))
    assert told(run) == [
        ("user", "message", None),
        ("environment", "guardrail", None),
        ("agent", "call", "Triage"),
        ("agent", "handoff", "Triage"),
        ("agent", "call", "Billing"),
        ("environment", "result", None),
        ("agent", "message", "Billing"),
    ]
    assert [part.kind for part in run.steps[2].parts] == ["reasoning"]
    assert [(e.call.id, e.result_step, e.failed) for e in run.exchanges] == [
        ("c2", 3, False),
        ("c3", 5, False),
    ]
    assert [step.usage.input_total for step in run.steps if step.usage is not None] == [30, 30, 30]
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total, run.usage.cache_read) == (90, 21, 30)
    assert (run.source.format_version, run.agent, run.warnings) == ("1.21", "Triage", ())
    call = run.steps[4].calls[0]
    assert call.extra is not None
    assert (call.extra["id"], call.extra["description"]) == ("fc_c3", "Look an order up.")


def test_a_state_that_waits_for_approval_says_so() -> None:
    waiting = {
        "type": "tool_approval_item",
        "agent": {"name": "Billing"},
        "raw_item": {"type": "function_call", "call_id": "c9", "name": "f", "arguments": "{}"},
    }
    state = {
        **STATE,
        "current_step": {"type": "next_step_interruption"},
        "session_items": [*STATE["session_items"], waiting],
    }
    run = run_of(FORMAT, state)
    assert (run.termination, run.steps[-1].kind, run.steps[-1].extra) == (
        "interruption",
        "other",
        waiting,
    )
    assert run.extra is not None
    assert run.extra["generated_items"] == STATE["generated_items"]


def test_a_state_before_any_request_has_no_tokens_rather_than_none_used() -> None:
    empty = {"requests": 0, "input_tokens": 0, "output_tokens": 0}
    state = {
        "$schemaVersion": "1.13",
        "original_input": "hi",
        "model_responses": [],
        "context": {"usage": empty},
    }
    assert run_of(FORMAT, state).usage is None
    used = {**state, "context": {"usage": {**empty, "requests": 1, "input_tokens": 4}}}
    assert run_of(FORMAT, used).usage is not None


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ([{**SPANS[1], "span_data": 3}], "needs an object under `span_data`"),
        ([{**SPANS[1], "trace_id": None}], "needs text under `id` and `trace_id`"),
        ([{**TRACE, "id": 3}], "a trace needs text under `id`"),
        ({**STATE, "original_input": 3}, "`original_input` is '3'"),
        ({**STATE, "session_items": [{"type": "x"}]}, "an object under `raw_item`"),
        ({**STATE, "model_responses": [{}]}, "expected `output`"),
        ({**STATE, "generated_items": {"a": 1}}, "`generated_items` is"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


def test_a_span_that_is_none_is_quarantined_alone() -> None:
    kept = read(FORMAT, {"data": [*SPANS, {"object": "trace.span"}]})
    assert [type(item) for item in kept] == [Quarantined, Trajectory]


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (SPANS, True),
        (lines(*SPANS), True),
        (TRACE, True),
        ({"data": SPANS}, True),
        (STATE, True),
        (recorded("responses.jsonl"), True),
        ({"object": "trace", "id": "x"}, False),
        ({"object": "list", "data": [{"object": "response"}]}, False),
        ({"data": []}, False),
        ({"$schemaVersion": "1"}, False),
        ([], False),
    ],
)
def test_sniff_knows_agents_exports_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident


@pytest.mark.parametrize("name", ["chat.jsonl", "state.json"])
def test_the_format_keeps_what_formats_promise(name: str) -> None:
    assert check_format(FORMAT, DATA / f"openai_agents_{name}").runs >= 1
