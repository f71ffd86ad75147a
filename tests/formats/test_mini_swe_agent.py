"""mini-swe-agent's runs in both shapes: commands are calls, and only what was run has a result."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from stepscope.formats.mini_swe_agent import FORMAT
from stepscope.formats.opening import detect
from stepscope.model import Json, Quarantined, Stream, Trajectory
from tests.formats.reading import codes, refused, run_of, written

DATA = Path(__file__).parents[1] / "data"
MADE = (DATA / "made-mini-swe-agent.traj.json").read_bytes()
OLDER = (DATA / "made-mini-swe-agent-older.traj.json").read_bytes()
RUN: Json = json.loads(MADE)
LIST: Json = json.loads(OLDER)


@pytest.mark.parametrize(("file", "steps", "calls", "errors"), [(MADE, 9, 3, 1), (OLDER, 10, 3, 1)])
def test_both_shapes_are_found_by_content_and_give_what_was_counted(
    file: bytes, steps: int, calls: int, errors: int
) -> None:
    assert detect(file, "f").name == "mini_swe_agent"
    run = run_of(FORMAT, file)
    failed = [result for step in run.steps for result in step.results if result.status == "error"]
    assert (len(run.steps), len(run.exchanges), len(failed)) == (steps, calls, errors)
    assert codes(run) == []
    assert run.outcome.status == "unknown"


def test_a_run_keeps_its_task_version_end_and_totals() -> None:
    run = run_of(FORMAT, MADE)
    assert (run.name, run.task, run.agent_version) == ("app-7", "app-7", "2.1.0")
    assert (run.termination, run.source.format_version) == ("Submitted", "mini-swe-agent-1.1")
    assert run.usage is not None
    assert (run.usage.input_total, run.usage.output_total, run.cost_usd) == (430, 35, 0.03)
    assert run.extra is not None
    assert run.extra["info"] == {
        key: RUN["info"][key] for key in ("model_stats", "config", "submission")
    }
    assert run.extra["note"] == RUN["note"]


def test_an_answer_has_cost_time_model_and_tokens_and_says_its_commands_once() -> None:
    step = run_of(FORMAT, MADE).steps[2]
    assert [(call.name, call.arguments, call.id) for call in step.calls] == [
        ("bash", {"command": "cat app.py"}, "c1"),
        ("bash", {"command": "cat lib.py"}, "c2"),
    ]
    assert (step.cost_usd, step.model) == (0.01, "model-1")
    assert step.start is not None
    assert (step.start.ns, step.start.text) == (1764000000500000000, "1764000000.5")
    assert step.extra == {"response": RUN["messages"][2]["extra"]["response"]}


def test_a_return_code_beside_a_message_is_explicit_and_one_in_its_text_a_guess() -> None:
    said = run_of(FORMAT, MADE).steps
    assert [(r.status, r.source, r.error) for r in (*said[3].results, *said[4].results)] == [
        ("ok", "explicit", None),
        ("error", "explicit", "return code 1"),
    ]
    read = run_of(FORMAT, OLDER).steps
    assert [(r.status, r.source) for r in (*read[3].results, *read[7].results)] == [
        ("ok", "heuristic"),
        ("error", "heuristic"),
    ]


def test_a_command_that_never_ran_counts_as_complaint_and_no_result() -> None:
    steps = run_of(FORMAT, OLDER).steps
    assert [(s.actor, s.kind) for s in steps[4:7]] == [
        ("agent", "message"),
        ("user", "message"),
        ("agent", "call"),
    ]
    assert steps[6].calls[0].arguments == {"command": "python app.py"}
    assert (run_of(FORMAT, MADE).steps[6].actor, steps[9].kind) == ("user", "result")


@pytest.mark.parametrize(
    "between",
    [
        [{"role": "user", "content": "Stop.", "extra": {"interrupt_type": "UserInterruption"}}],
        [{"role": "assistant", "content": "No, wait."}, {"role": "user", "content": "Yes?"}],
    ],
)
def test_a_command_that_was_overtaken_has_no_result(between: Json) -> None:
    asked = {"role": "assistant", "content": "I look.", "extra": {"actions": [{"command": "ls"}]}}
    run = run_of(FORMAT, {"info": {"mini_version": "2"}, "messages": [asked, *between]})
    assert codes(run) == [("call_without_result", 0)]
    assert run.steps[-1].actor == "user"


def test_only_a_submission_answers_the_last_command() -> None:
    last = run_of(FORMAT, MADE).steps[8]
    (result,) = last.results
    assert (result.call_id, result.status, result.source) == ("c3", "ok", "protocol")
    assert result.text == "diff --git a/app.py b/app.py\n"
    cut = json.loads(MADE)
    cut["messages"][8]["extra"]["exit_status"] = "LimitsExceeded"
    cut["info"]["exit_status"] = ""
    run = run_of(FORMAT, cut)
    assert (run.steps[8].results, run.termination) == ((), "LimitsExceeded")
    assert codes(run) == [("call_without_result", 7)]


def test_text_mode_takes_actions_from_beside_the_message() -> None:
    beside = {"actions": [{"command": "ls"}], "timestamp": 1764000000}
    failed = {"returncode": -1, "exception_info": "timed out"}
    messages: Json = [
        {"role": "assistant", "content": "I look.", "extra": beside},
        {"role": "user", "content": "nothing", "extra": failed},
    ]
    run = run_of(FORMAT, {"info": {"mini_version": "2"}, "messages": messages})
    (result,) = run.steps[1].results
    assert (run.steps[0].calls[0].arguments, run.steps[0].extra) == ({"command": "ls"}, None)
    assert (result.status, result.source, result.error) == ("error", "explicit", "timed out")
    assert run.steps[1].extra == failed


def test_a_responses_body_is_one_step_and_its_output_the_result() -> None:
    output: Json = [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "So."}],
        },
        {"type": "function_call", "call_id": "c", "name": "bash", "arguments": '{"command": "ls"}'},
    ]
    usage = {"input_tokens": 5, "output_tokens": 2}
    messages: Json = [
        {
            "object": "response",
            "output": output,
            "model": "m",
            "usage": usage,
            "extra": {"cost": 1},
        },
        {"type": "function_call_output", "call_id": "c", "output": "a", "extra": {"returncode": 0}},
    ]
    run = run_of(FORMAT, {"info": {"mini_version": "2"}, "messages": messages})
    asked, told = run.steps
    assert (asked.text, asked.calls[0].id, asked.model, asked.cost_usd) == ("So.", "c", "m", 1.0)
    assert run.usage is not None
    assert (run.usage.input_total, told.results[0].status) == (5, "ok")
    assert codes(run) == []


@pytest.mark.parametrize(
    ("messages", "sure"),
    [
        (LIST, True),
        ([LIST[0], LIST[1], LIST[6]], True),
        # A chat that shows code, and one that is told a return code without having run anything.
        ([LIST[1], LIST[2], {"role": "user", "content": "Thanks, that worked."}], False),
        ([{"role": "assistant", "content": "Hm."}, LIST[3]], False),
    ],
)
def test_a_chat_that_only_shows_code_stays_a_chat(messages: Json, sure: bool) -> None:
    name = "mini_swe_agent" if sure else "openai_messages"
    assert detect(written(messages), "f").name == name


def test_a_run_of_another_shape_is_set_aside_whole_and_a_message_alone() -> None:
    assert "messages" in refused(FORMAT, {"messages": 3}).reason
    assert "extra" in refused(FORMAT, {"messages": [{"role": "user", "extra": 3}]}).reason
    file = written([*LIST[:2], 3, *LIST[2:4]])
    found = list(FORMAT.read(Stream(io.BytesIO(file), "f")))
    assert [type(item) for item in found] == [Quarantined, Trajectory]
