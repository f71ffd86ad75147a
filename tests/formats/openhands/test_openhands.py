"""Events as openhands-ai 0.59 writes them; a run of openhands-sdk 1.58 with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscope.formats import swe_agent, whowhen
from stepscope.formats.openhands.read import FORMAT
from stepscope.model import Json, Quarantined, Trajectory
from stepscope.testing import check_format
from tests.formats.reading import codes, lines, read, refused, run_of, written

DATA = Path(__file__).parents[1] / "data"


def recorded(name: str) -> Any:
    return json.loads((DATA / f"openhands_{name}.json").read_bytes())


TRAJECTORY, EVENTS, METRICS = (
    recorded("trajectory"),
    recorded("sdk_events"),
    recorded("sdk_metrics"),
)
STEPS = [
    ("system", "message", None),
    ("user", "message", None),
    ("environment", "retrieval", None),
    ("environment", "retrieval", None),
    ("agent", "call", "CodeActAgent"),
    ("environment", "result", None),
    ("agent", "call", "CodeActAgent"),
    ("environment", "result", None),
    ("agent", "call", "CodeActAgent"),
    ("environment", "result", None),
    ("environment", "message", None),
    ("agent", "handoff", "CodeActAgent"),
    ("environment", "result", None),
    ("environment", "other", None),
    ("agent", "message", "CodeActAgent"),
]


def told(run: Trajectory) -> list[tuple[str, str, str | None]]:
    return [(step.actor, step.kind, step.agent) for step in run.steps]


def action(own: int, name: str, /, source: str = "agent", **args: Json) -> dict[str, Any]:
    return {
        "id": own,
        "timestamp": f"2026-11-22T04:00:{own:02}",
        "source": source,
        "message": "",
        "action": name,
        "args": args,
    }


def observed(own: int, name: str, content: str, /, **more: Json) -> dict[str, Any]:
    time = f"2026-11-22T04:00:{own:02}"
    return {
        "id": own,
        "timestamp": time,
        "source": "agent",
        "observation": name,
        "content": content,
        "extras": {},
        **more,
    }


def test_a_trajectory_is_a_run_of_its_actions_and_observations() -> None:
    run = run_of(FORMAT, TRAJECTORY)
    assert told(run) == STEPS
    assert [(e.call.name, e.call.id, e.result_step, e.failed) for e in run.exchanges] == [
        ("execute_bash", "c1", 5, True),
        ("str_replace_editor", "c2", 7, False),
        ("think", "c3", 9, False),
        ("delegate_to_browsing_agent", "c4", 12, False),
    ]
    assert [step.text for step in run.steps if step.actor in {"user", "agent"}] == [
        "Fix the bug.",
        "I look around.",
        "",
        "",
        "",
        "All done.",
    ]
    result = run.steps[5].results[0]
    assert (result.source, result.error) == ("explicit", "exit code 2")
    assert (run.agent, run.agent_version, run.termination) == ("CodeActAgent", "0.59.0", "finish")
    assert [tool.name for tool in run.tools or ()] == ["execute_bash"]
    assert run.steps[11].extra is not None
    assert run.steps[11].extra["to"] == "BrowsingAgent"
    assert run.steps[10].error == "The action is broken"
    assert run.warnings == ()


def test_tokens_stand_with_the_response_and_sums_and_cost_with_the_run() -> None:
    run = run_of(FORMAT, TRAJECTORY)
    used = run.steps[4].usage
    assert used is not None
    assert (used.input_total, used.cache_read, used.output_total) == (100, 40, 9)
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total, run.cost_usd) == (400, 36, 0.04)
    # Metrics repeat those before; of each only what is new is kept.
    new = [(s.extra or {}).get("llm_metrics", {}).get("costs") for s in run.steps]
    assert [len(costs) for costs in new if costs is not None] == [1, 1, 1, 1]


def test_a_call_has_the_arguments_that_the_model_wrote() -> None:
    call = run_of(FORMAT, TRAJECTORY).steps[6].calls[0]
    assert call.arguments == {"command": "view", "path": "/w/a.py"}
    assert call.raw == '{"command": "view", "path": "/w/a.py"}'
    assert call.extra is not None
    assert call.extra["args"]["path"] == "/w/a.py"


def test_two_actions_of_one_response_count_its_tokens_once() -> None:
    first, second = (json.loads(json.dumps(TRAJECTORY[4])) for _ in range(2))
    second["id"], second["tool_call_metadata"]["tool_call_id"] = 5, "c9"
    run = run_of(FORMAT, [first, second])
    assert [step.usage is None for step in run.steps] == [False, True]
    assert [bool((step.extra or {}).get("model_response")) for step in run.steps] == [True, False]


def test_without_a_models_response_the_cause_pairs_what_was_done_with_what_came() -> None:
    ran = action(4, "run", command="ls", thought="I look.", blocking=False)
    came = observed(5, "run", "a.py", cause=4, extras={"exit_code": 0})
    run = run_of(FORMAT, [action(1, "message", "user", content="hi"), ran, came])
    (exchange,) = run.exchanges
    assert (exchange.call.name, exchange.call.id) == ("run", "event-4")
    assert exchange.call.arguments == {"command": "ls", "blocking": False}
    assert (exchange.result_step, run.steps[1].text) == (2, "I look.")
    assert exchange.result is not None
    assert (exchange.result.status, exchange.result.source) == ("ok", "explicit")


def test_what_is_said_is_told_in_parts_and_what_cannot_be_is_kept() -> None:
    urls: Json = ["data:image/png;base64,aGk=", "https://example.org/a.png"]
    shown = action(1, "message", "user", content="look", image_urls=urls, wait_for_response=True)
    odd = action(2, "message", "user", content=3, tools=["x"], thought="hm")
    first, second = run_of(FORMAT, [shown, odd]).steps
    assert [(part.kind, part.text) for part in first.parts] == [
        ("text", "look"),
        ("image", None),
        ("image", None),
    ]
    assert first.extra is not None
    assert first.extra["args"] == {"wait_for_response": True}
    assert (second.text, (second.extra or {})["args"]) == ("hm", {"content": 3, "tools": ["x"]})
    assert first.start is not None
    assert first.start.text == "2026-11-22T04:00:01"


def test_what_a_delegate_does_is_the_delegates() -> None:
    run = run_of(
        FORMAT,
        [
            action(0, "system", content="s", agent_class="Main"),
            action(1, "delegate", agent="Helper", inputs={}),
            action(2, "run", command="ls"),
            observed(3, "run", "", cause=2),
            observed(4, "delegate", "seen", cause=1),
            action(5, "finish", final_thought="done"),
        ],
    )
    assert [step.agent for step in run.steps if step.actor == "agent"] == ["Main", "Helper", "Main"]


def test_what_the_user_ran_is_not_the_agents_call() -> None:
    run = run_of(FORMAT, [action(1, "run", "user", command="ls"), observed(2, "run", "", cause=1)])
    assert [e.call.requestor for e in run.exchanges] == ["user"]
    assert run.steps[0].actor == "user"


@pytest.mark.parametrize(
    ("name", "content", "more", "status", "source"),
    [
        ("run", "x", {"extras": {"metadata": {"exit_code": 0}}}, "ok", "explicit"),
        ("run", "x", {"extras": {"metadata": {"exit_code": 1}}}, "error", "explicit"),
        ("run", "x", {"success": False}, "error", "explicit"),
        ("run", "still", {"extras": {"exit_code": -1}, "success": False}, "unknown", "none"),
        ("browse", "x", {"extras": {"error": True}}, "error", "explicit"),
        ("browse", "x", {"extras": {"error": False}}, "ok", "explicit"),
        ("error", "no", {}, "error", "explicit"),
        ("user_rejected", "", {}, "error", "explicit"),
        ("edit", "Error: no match", {}, "error", "heuristic"),
        ("mcp", '{"isError": false}', {}, "ok", "heuristic"),
        ("read", "Errors are rare", {}, "unknown", "none"),
    ],
)  # fmt: skip
def test_whether_an_action_worked_is_told_or_guessed(
    name: str, content: str, more: dict[str, Json], status: str, source: str
) -> None:
    run = run_of(FORMAT, [action(1, name), observed(2, name, content, cause=1, **more)])
    (exchange,) = run.exchanges
    assert exchange.result is not None
    assert (exchange.result.status, exchange.result.source) == (status, source)


@pytest.mark.parametrize(
    "file",
    [
        TRAJECTORY,
        lines(*TRAJECTORY),
        lines(TRAJECTORY),
        {"trajectory": TRAJECTORY},
        {"instance_id": "a", "test_result": {}, "history": TRAJECTORY},
        {"instance_id": "a", "history": [TRAJECTORY[n : n + 2] for n in range(1, 15, 2)]},
    ],
    ids=["array", "lines", "line of a list", "download", "output", "older output"],
)
def test_however_events_are_wrapped_they_are_one_run(file: Json) -> None:
    run = run_of(FORMAT, file)
    assert told(run)[-10:] == [
        (actor, kind, agent and run.agent) for actor, kind, agent in STEPS[-10:]
    ]


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        ({}, "unknown"),
        ({"test_result": {"resolved": True}}, "pass"),
        ({"test_result": {"report": {"resolved": False}}}, "fail"),
        ({"report": {"resolved": True}}, "pass"),
        ({"test_result": {"git_patch": "diff"}}, "unknown"),
    ],
)
def test_a_line_of_an_evaluation_has_its_task_and_the_outcome_of_its_report(
    more: dict[str, Json], outcome: str
) -> None:
    line = {
        "instance_id": "django__1",
        "attempt": 2,
        "metadata": {"agent_class": "CodeActAgent", "dataset": "swe-bench"},
        "instruction": "Fix it.",
        "history": TRAJECTORY[1:],
        "error": None,
        **more,
    }
    run = run_of(FORMAT, lines(line))
    assert (run.name, run.workflow, run.task, run.trial) == (
        "swe-bench/django__1/2",
        "swe-bench",
        "django__1",
        "2",
    )
    assert (run.outcome.status, run.agent) == (outcome, "CodeActAgent")
    assert run.extra is not None
    assert run.extra["instruction"] == "Fix it."


def test_an_event_that_cannot_be_read_is_quarantined_and_the_run_says_where() -> None:
    bad = observed(5, "run", "x", cause=4)
    bad["content"] = 3
    kept = read(FORMAT, lines(TRAJECTORY[1], bad, action(6, "finish")))
    assert [type(item) for item in kept] == [Quarantined, Trajectory]
    run = kept[1]
    assert isinstance(run, Trajectory)
    assert codes(run) == [("record_quarantined", 1)]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ({"trajectory": []}, "no events"),
        ({"instance_id": "a", "history": [3]}, "event 0 is '3'"),
        ({"instance_id": "a", "history": [{"source": "wizard"}]}, "event 0 needs a `source`"),
        ({"trajectory": [{"source": "agent", "action": "run", "args": 3}]}, "under `args`"),
        ({"trajectory": [{"source": "agent"}]}, "neither an action nor an observation"),
        ({"trajectory": [{**EVENTS[1], "llm_message": 3}]}, "an object under `llm_message`"),
        ({"trajectory": [{**EVENTS[2], "thought": 3}]}, "a list of contents"),
        ({"trajectory": [{**EVENTS[1], "source": "x"}]}, "event 0 needs a `source`"),
    ],
)
def test_a_record_of_wrong_types_is_quarantined_with_one_line(file: Json, reason: str) -> None:
    bad = refused(FORMAT, file)
    assert reason in bad.reason
    assert "\n" not in bad.reason


@pytest.mark.parametrize(
    ("file", "confident"),
    [
        (TRAJECTORY, True),
        (lines(*TRAJECTORY), True),
        (EVENTS, True),
        ({"trajectory": EVENTS}, True),
        ({"instance_id": "a", "history": TRAJECTORY}, True),
        (lines({"instance_id": "a", "test_result": {}, "history": EVENTS}), True),
        (EVENTS[2], False),
        (TRAJECTORY[2], False),
        ({"history": [{"role": "user", "content": "x"}], "mistake_step": "1"}, False),
        ({"trajectory": [{"action": "ls", "observation": "a", "state": {}}], "info": {}}, False),
        ([{"source": "agent", "action": "run"}], False),
        ([], False),
    ],
)
def test_sniff_knows_openhands_from_others(file: Json, confident: bool) -> None:
    assert (FORMAT.sniff(written(file)) >= 0.5) is confident
    if confident:
        assert swe_agent.FORMAT.sniff(written(file)) < 0.5
        assert whowhen.FORMAT.sniff(written(file)) < 0.5


@pytest.mark.parametrize("name", ["trajectory", "sdk_events"])
def test_the_format_keeps_what_formats_promise(name: str) -> None:
    assert check_format(FORMAT, DATA / f"openhands_{name}.json").runs >= 1
