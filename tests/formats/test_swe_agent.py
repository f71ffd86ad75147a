"""Moves and messages of a SWE-agent run are told once each, and nothing of either is dropped."""

from __future__ import annotations

import json

import pytest

from stepscope.formats.swe_agent import FORMAT
from stepscope.model import Json, Step, Usage
from tests.formats.reading import codes, refused, run_of, written


def move(action: str, observation: str = "done", **fields: Json) -> dict[str, Json]:
    told = {"action": action, "observation": observation, "response": f"I run {action}."}
    return {**told, "thought": "", "execution_time": 0.5, "state": {"open_file": "n/a"}, **fields}


def said(action: str, call_id: str, arguments: str, name: str = "open") -> dict[str, Json]:
    function = {"name": name, "arguments": arguments}
    return {
        "role": "assistant",
        "content": f"I run {action}.",
        "action": action,
        "thought": "",
        "agent": "main",
        "message_type": "action",
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }


def seen(text: str, call_id: str) -> dict[str, Json]:
    common = {"role": "tool", "agent": "main", "message_type": "observation"}
    return {**common, "content": text, "tool_call_ids": [call_id]}


RUN: dict[str, Json] = {
    "environment": "main",
    "trajectory": [move("open a.py", query=[{"role": "user"}]), move("ls"), move("submit", "diff")],
    "history": [
        {"role": "system", "content": "Be kind.", "agent": "main", "message_type": "system_prompt"},
        {"role": "user", "content": "Look how it is done.", "agent": "main", "is_demo": True},
        {"role": "assistant", "content": "I run ls.", "action": "ls", "is_demo": True},
        {"role": "user", "content": "Fix it.", "agent": "main", "message_type": "observation"},
        said("open a.py", "c1", '{"path": "a.py"}'),
        seen("done\n(Open file: a.py)", "c1"),
        {"role": "assistant", "content": "An answer that was no move.", "agent": "main"},
        {"role": "user", "content": "Call a tool.", "agent": "main"},
        said("ls", "c2", '{"command": "ls"}', "bash"),
        seen("done", "c2"),
    ],
    "info": {
        "exit_status": "submitted",
        "submission": "diff",
        "swe_agent_version": "1.1.0",
        "model_stats": {
            "instance_cost": 0.5,
            "tokens_sent": 9,
            "tokens_received": 2,
            "api_calls": 3,
        },
    },
    "replay_config": json.dumps(
        {"problem_statement": {"id": "repo-i1"}, "agent": {"model": {"name": "m-1"}}}
    ),
}


def shapes(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    return [(step.actor, step.kind) for step in steps]


def test_each_move_and_each_message_is_told_once_in_its_place() -> None:
    run = run_of(FORMAT, RUN)
    assert shapes(run.steps) == [
        ("system", "message"),
        ("user", "message"),
        ("agent", "message"),
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("agent", "message"),
        ("user", "message"),
        ("agent", "call"),
        ("environment", "result"),
        ("agent", "call"),
        ("environment", "result"),
    ]
    assert [step.index for step in run.steps if step.replayed] == [1, 2]
    assert run.steps[6].text == "An answer that was no move."
    assert codes(run) == []


def test_a_move_takes_the_call_of_its_message_and_keeps_what_both_say() -> None:
    run = run_of(FORMAT, RUN)
    asked, told = run.steps[4:6]
    (call,) = asked.calls
    assert (call.name, call.arguments, call.id) == ("open", {"path": "a.py"}, "c1")
    assert (asked.agent, asked.model, asked.text) == ("main", "m-1", "I run open a.py.")
    assert asked.extra == {
        "query": [{"role": "user"}],
        "action": "open a.py",
        "message_type": "action",
    }
    (result,) = told.results
    assert (result.call_id, result.text, result.status) == ("c1", "done", "unknown")
    assert told.extra == {
        "execution_time": 0.5,
        "state": {"open_file": "n/a"},
        "message_type": "observation",
        "shown": "done\n(Open file: a.py)",
    }
    assert "shown" not in (run.steps[9].extra or {})


def test_a_run_keeps_its_task_totals_and_end_and_claims_no_success() -> None:
    run = run_of(FORMAT, RUN)
    assert (run.name, run.task, run.agent, run.agent_version) == (
        "repo-i1",
        "repo-i1",
        "SWE-agent",
        "1.1.0",
    )
    assert run.usage == Usage(input_total=9, output_total=2)
    assert (run.cost_usd, run.termination, run.outcome.status) == (0.5, "submitted", "unknown")
    assert (run.start, run.end) == (None, None)
    assert run.extra == {
        "info": {"submission": "diff", "model_stats": RUN["info"]["model_stats"]},
        "environment": "main",
        "replay_config": RUN["replay_config"],
    }


def test_zeros_without_any_call_of_a_model_are_no_measurement() -> None:
    stats = {"instance_cost": 0, "tokens_sent": 0, "tokens_received": 0, "api_calls": 0}
    run = run_of(FORMAT, {**RUN, "info": {"model_stats": stats}})
    assert (run.usage, run.cost_usd) == (None, None)
    free = run_of(FORMAT, {**RUN, "info": {"model_stats": {**stats, "api_calls": 2}}})
    assert free.cost_usd == 0
    odd = run_of(
        FORMAT, {**RUN, "info": {"model_stats": {"tokens_sent": -1, "tokens_received": 3}}}
    )
    assert odd.usage is None


@pytest.mark.parametrize(
    ("action", "name"),
    [("ls -l\n", "bash"), ("submit", "submit"), ("submit 'flag'\n", "submit"), ("submits", "bash")],
)
def test_an_action_without_a_tool_call_is_a_line_for_the_shell(action: str, name: str) -> None:
    run = run_of(FORMAT, {"trajectory": [move(action, "Error: no")], "history": []})
    (call,) = run.steps[0].calls
    assert (call.name, call.arguments, call.id) == (name, {"command": action}, None)
    (result,) = run.steps[1].results
    assert (result.name, result.status, result.source) == (name, "error", "heuristic")


def test_a_move_without_action_and_observation_is_a_message_that_keeps_its_state() -> None:
    run = run_of(FORMAT, {"trajectory": [move(" ", "")], "history": []})
    (only,) = run.steps
    assert (only.kind, only.extra) == (
        "message",
        {"execution_time": 0.5, "state": {"open_file": "n/a"}},
    )


def test_a_move_that_the_history_lost_comes_behind_the_task_and_before_what_followed() -> None:
    history = [*RUN["history"][:4], {"role": "assistant", "content": "Something else."}]
    run = run_of(FORMAT, {"trajectory": [move("ls")], "history": history})
    assert [step.text for step in run.steps] == [
        "Be kind.",
        "Look how it is done.",
        "I run ls.",
        "Fix it.",
        "I run ls.",
        "",
        "Something else.",
    ]
    assert [step.replayed for step in run.steps] == [False, True, True, False, False, False, False]


def test_a_thought_is_kept_where_the_answer_is_more_than_it() -> None:
    run = run_of(
        FORMAT, {"trajectory": [move("ls", thought="Hm."), move("ls", thought="I run ls.")]}
    )
    assert [step.extra for step in run.steps[::2]] == [{"thought": "Hm."}, None]


def test_what_is_no_run_is_set_aside() -> None:
    assert "trajectory" in refused(FORMAT, {"history": []}).reason
    assert "object" in refused(FORMAT, {"trajectory": [3]}).reason


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        (RUN, True),
        ({"trajectory": [], "history": [], "info": {}}, True),
        ({"trajectory": []}, False),
        ({"trajectory": [{"action": "ls"}], "history": [], "info": {}}, False),
        ({"trajectory": "open a.py", "history": [], "info": {}}, False),
    ],
)
def test_only_moves_make_a_file_one_of_ours(value: Json, sure: bool) -> None:
    assert (FORMAT.sniff(written(value)) >= 0.9) is sure
