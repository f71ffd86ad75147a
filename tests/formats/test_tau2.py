"""tau2's simulations in both layouts: who called, what failed, what was spent, what was asked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.formats.opening import detect
from stepscope.formats.tau2 import FORMAT
from stepscope.model import Json, Quarantined, ReferenceCall, SubGoal, Trajectory
from tests.formats.reading import codes, read, refused, run_of, written

MADE = (Path(__file__).parents[1] / "data" / "made-tau2.json").read_bytes()
RESULTS: Json = json.loads(MADE)
SIMULATION: Json = RESULTS["simulations"][0]


def runs() -> list[Trajectory]:
    return [run for run in read(FORMAT, MADE) if isinstance(run, Trajectory)]


def test_every_simulation_gives_what_was_counted() -> None:
    assert detect(MADE, "f").name == "tau2"
    counted = []
    for run in runs():
        failed = [exchange for exchange in run.exchanges if exchange.failed]
        assert run.usage is not None or run.trial == "2"
        tokens = (run.usage.input_total, run.usage.output_total) if run.usage else None
        counted.append((run.name, len(run.steps), len(run.exchanges), len(failed), tokens))
    assert counted == [
        ("telecom/t1/0", 9, 3, 1, (230, 22)),
        ("telecom/t1/1", 3, 2, 0, (100, 10)),
        ("telecom/t1/2", 2, 0, 0, None),
    ]
    assert [codes(run) for run in runs()] == [
        [],
        [("call_without_result", 2), ("call_without_result", 2)],
        [],
    ]


def test_users_call_tools_too() -> None:
    steps = runs()[0].steps
    assert [(s.actor, s.kind, [c.requestor for c in s.calls]) for s in (steps[2], steps[6])] == [
        ("agent", "call", ["agent", "agent"]),
        ("user", "call", ["user"]),
    ]
    assert steps[7].results[0].extra == {"requestor": "user"}


def test_a_tool_says_itself_whether_it_failed() -> None:
    steps = runs()[0].steps
    told = [steps[at].results[0] for at in (3, 4, 7)]
    assert [(r.status, r.source, r.error) for r in told] == [
        ("ok", "explicit", None),
        ("error", "explicit", "Error: not allowed"),
        ("ok", "explicit", None),
    ]
    silent = {**SIMULATION, "messages": [{"role": "tool", "id": "x", "content": "Error: no"}]}
    (result,) = run_of(FORMAT, silent).steps[0].results
    assert (result.status, result.source) == ("unknown", "none")


def test_only_what_the_agent_spent_is_the_runs_cost() -> None:
    run = runs()[0]
    assert (run.cost_usd, run.agent, run.steps[2].model, run.steps[5].model) == (
        0.02,
        "llm_agent",
        "model-1-2026",
        None,
    )
    assert run.steps[1].cost_usd is None
    assert run.steps[1].extra == {
        "cost": 0.002,
        "usage": {"prompt_tokens": 50, "completion_tokens": 5},
    }
    assert run.start is not None
    assert (run.start.text, run.steps[2].extra) == (
        "2026-08-18T10:00:00",
        {"generation_time_seconds": 0.7, "raw_data": {"model": "model-1-2026"}},
    )


def test_the_task_becomes_the_case_with_the_agents_actions_only() -> None:
    case = runs()[0].case
    assert case is not None
    assert (case.workflow, case.task, case.outputs) == ("telecom", "t1", ("roaming",))
    assert case.reference == (
        ReferenceCall("get_line", {"line_id": "L1"}),
        ReferenceCall("enable_roaming", {"line_id": "L1", "note": "asked"}),
    )
    assert case.subgoals == (SubGoal("enable_roaming", "enable_roaming", {"line_id": "L1"}),)
    assert case.request == "telecom\nYour data does not work.\nYou are u1.\nBe brief."
    assert case.setup == RESULTS["tasks"][0]["initial_state"]
    assert case.extra is not None
    assert case.extra["evaluation_criteria"] == RESULTS["tasks"][0]["evaluation_criteria"]


def test_an_end_that_tau2_does_not_count_is_no_failure() -> None:
    assert [(run.outcome.status, run.outcome.reward, run.termination) for run in runs()] == [
        ("pass", 1.0, "user_stop"),
        ("fail", 0.0, "max_steps"),
        ("unknown", None, "infrastructure_error"),
    ]


@pytest.mark.parametrize(("matches", "source"), [(False, "check"), (True, "reward")])
def test_a_database_that_differs_is_why_a_run_failed(matches: bool, source: str) -> None:
    simulation = {**RESULTS["simulations"][1], "termination_reason": "user_stop"}
    simulation["reward_info"] = {"reward": 0.0, "db_check": {"db_match": matches}}
    made = json.dumps({**RESULTS, "simulations": [simulation]}).encode()
    (run,) = [one for one in read(FORMAT, made) if isinstance(one, Trajectory)]
    assert (run.outcome.status, run.outcome.source) == ("fail", source)


def test_a_models_review_is_kept_and_no_label_of_people() -> None:
    run = runs()[0]
    assert run.labels == ()
    assert run.extra is not None
    assert run.extra["review"] == SIMULATION["review"]
    assert run.extra["results"] == {"timestamp": RESULTS["timestamp"], "info": RESULTS["info"]}
    assert run.source.run_id == "s-0"


def test_a_simulation_in_its_own_file_finds_its_task_in_the_results_beside(tmp_path: Path) -> None:
    index = {**RESULTS, "simulation_index": [{"id": "s-0", "task_id": "t1", "trial": 0}]}
    del index["simulations"]
    (tmp_path / "results.json").write_bytes(written(index))
    folder = tmp_path / "simulations"
    folder.mkdir()
    file = written(SIMULATION)
    (folder / "s-0.json").write_bytes(file)
    assert (detect(written(index), "f").name, detect(file, "f").name) == ("tau2", "tau2")
    assert read(FORMAT, index) == []
    alone = run_of(FORMAT, SIMULATION, uri=str(folder / "s-0.json"))
    together = runs()[0]
    assert (alone.id, alone.name, alone.case) == (together.id, together.name, together.case)
    # Elsewhere there is no telling which task it was.
    stray = run_of(FORMAT, SIMULATION, uri=str(tmp_path / "s-0.json"))
    assert (stray.id, stray.name, stray.case) == (together.id, "tau2/t1/0", None)


def test_several_answers_in_one_message_are_one_step() -> None:
    calls = [{"id": "a", "name": "f", "arguments": {}}, {"id": "b", "name": "f", "arguments": {}}]
    answers = [{"role": "tool", "id": c["id"], "content": "x", "error": False} for c in calls]
    messages: Json = [
        {"role": "assistant", "tool_calls": calls},
        {"role": "tool", "tool_messages": answers},
    ]
    run = run_of(FORMAT, {**SIMULATION, "messages": messages})
    assert ([r.call_id for r in run.steps[1].results], codes(run)) == (["a", "b"], [])


def test_one_simulation_that_cannot_be_read_is_set_aside_without_the_others() -> None:
    voice = {**SIMULATION, "messages": None, "ticks": [{"tick_id": 0}]}
    found = read(FORMAT, {**RESULTS, "simulations": [voice, 3, SIMULATION]})
    assert [type(item) for item in found] == [Quarantined, Quarantined, Trajectory]
    assert "only ticks" in refused(FORMAT, voice).reason
    assert "only ticks" in refused(FORMAT, {**voice, "messages": []}).reason
    assert "'hearer'" in refused(FORMAT, {**SIMULATION, "messages": [{"role": "hearer"}]}).reason


@pytest.mark.parametrize(
    ("value", "sure"),
    [
        (RESULTS, True),
        (SIMULATION, True),
        ({"info": RESULTS["info"], "tasks": RESULTS["tasks"]}, True),
        ({"tasks": []}, False),
        ({"task_id": "t", "termination_reason": "done"}, False),
    ],
)
def test_results_are_known_by_what_they_hold(value: Json, sure: bool) -> None:
    assert (FORMAT.sniff(written(value)) >= 0.9) is sure
