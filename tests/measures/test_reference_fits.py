"""When a call does what a reference asks for, and when a passed check outranks the reference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.cli.main import main
from stepscope.findings.ranking import find_new_write
from stepscope.measures.outcome import OUTCOME, SUBGOALS, TERMINATION
from stepscope.measures.same_calls import excludes, fits_reference, same_arguments
from stepscope.model import Case, Json, Outcome, SubGoal, ToolDef, Trajectory, Verdict
from tests.factories import agent, did, run, user

DEFAULTS = ToolDef("book", schema={"properties": {"bags": {"default": 0}, "x": True}})
SWAPPED: dict[str, Json] = {"ids": ["a", "b"], "new_ids": ["x", "y"]}
FLIGHT = {"flight": "H1", "date": "2024-05-25"}


@pytest.mark.parametrize(
    ("made", "wanted", "fits"),
    [
        ({"ids": ["b", "a"]}, {"ids": ["a", "b"]}, True),
        ({"ids": ["a", "a"]}, {"ids": ["a", "b"]}, False),
        ({"ids": ["a", "b", "c"]}, {"ids": ["a", "b"]}, False),
        ({"ids": []}, {"ids": ["a"]}, False),
        ({"at": [2, 1]}, {"at": [1, 2]}, False),  # coordinates have an order
        ({"argv": ["-r", "rm"]}, {"argv": ["rm", "-r"]}, False),
        # things that go together by their places
        ({"ids": ["b", "a"], "new_ids": ["y", "x"]}, SWAPPED, True),
        ({"ids": ["b", "a"], "new_ids": ["x", "y"]}, SWAPPED, False),
        # a thing that is replaced by itself is left as it was
        ({"ids": ["a", "b"], "new_ids": ["x", "b"]}, {"ids": ["a"], "new_ids": ["x"]}, True),
        ({"ids": ["a", "b"], "new_ids": ["x", "y"]}, {"ids": ["a"], "new_ids": ["x"]}, False),
        ({"ids": ["a", "b"], "new_ids": ["x"]}, {"ids": ["a"], "new_ids": ["x"]}, False),
        # what the reference leaves out, beside and inside of records
        ({"id": "a", "note": "n"}, {"id": "a"}, True),
        ({"legs": [{**FLIGHT, "from": "EWR"}]}, {"legs": [FLIGHT]}, True),
        ({"legs": [{"flight": "H1"}]}, {"legs": [FLIGHT]}, False),
        # what the call leaves out
        ({"id": "a"}, {"id": "a", "bags": 0}, True),
        ({"id": "a"}, {"id": "a", "bags": 1}, False),
        ({"id": 1}, {"id": True}, False),
        ("a", {"id": "a"}, False),
    ],
)  # fmt: skip
def test_a_call_fits_whatever_makes_no_difference(
    made: Json, wanted: dict[str, Json], fits: bool
) -> None:
    assert fits_reference(made, wanted, DEFAULTS) is fits


def test_two_writes_are_the_same_up_to_the_same_but_not_with_another_argument_more() -> None:
    assert same_arguments({"ids": ["a", "b"]}, {"ids": ["b", "a"], "bags": 0}, DEFAULTS)
    assert same_arguments({"legs": [FLIGHT]}, {"legs": [{**FLIGHT, "from": "EWR"}]})
    assert not same_arguments({"id": "a"}, {"id": "a", "insurance": "yes"})
    assert same_arguments("x", "x")
    assert not same_arguments("x", {"id": "x"})


def test_references_exclude_each_other_only_where_a_thing_can_be_done_once() -> None:
    def goal(tool: str, **arguments: Json) -> SubGoal:
        return SubGoal(tool, tool, arguments)

    by_card = goal("return_items", order="#1", items=["a"], payment="card")
    assert excludes(by_card, goal("return_items", order="#1", items=["a"], payment="paypal"))
    assert excludes(by_card, goal("exchange_items", order="#1", items=["a"], payment="card"))
    assert not excludes(by_card, goal("return_items", order="#1", items=["b"], payment="card"))
    pay = goal("pay", users=["a", "b"], amount=10)
    assert not excludes(pay, goal("pay", users=["a", "b"], amount=20))
    assert not excludes(goal("book", flight="1"), goal("book", flight="2"))


def cancelled(tool: str, outcome: Outcome) -> tuple[Trajectory, Case]:
    case = Case(
        workflow="w", task="t", subgoals=(SubGoal("refund", "refund", {"id": "1"}),), reference=()
    )
    made = run(user("refund 1"), *did(tool, "done", id="2"), agent("ok"), case=case)
    return msgspec.structs.replace(made, outcome=outcome), case


@pytest.mark.parametrize(
    ("outcome", "label", "value", "ending"),
    [
        (Outcome("pass", "check"), "another_way", 1.0, "stopped_well"),
        (Outcome("pass", "reward", 1.0), "another_way", 1.0, "stopped_well"),
        (Outcome("pass", "label"), "none", 0.0, "too_early"),
        (Outcome("fail", "check"), "none", 0.0, "too_early"),
        (Outcome(), "none", 0.0, "too_early"),
    ],
)
def test_a_passed_check_outranks_the_reference_and_a_persons_word_does_not(
    outcome: Outcome, label: str, value: float, ending: str
) -> None:
    made, case = cancelled("refund", outcome)
    goals = next(iter(SUBGOALS(made, case, None)))
    assert isinstance(goals, Verdict)
    assert (goals.label, goals.value) == (label, value)
    (stopped,) = TERMINATION(made, case, None)
    assert isinstance(stopped, Verdict)
    assert stopped.label == ending
    others = {a.measure: a for a in SUBGOALS(made, case, None)}["subgoals.other_writes"]
    assert isinstance(others, Verdict)
    assert others.value == (0.0 if label == "another_way" else 1.0)


def test_a_write_by_a_tool_of_no_sub_goal_is_still_told_of_a_passing_run() -> None:
    made, case = cancelled("cancel_order", Outcome("pass", "check"))
    others = {a.measure: a for a in SUBGOALS(made, case, None)}["subgoals.other_writes"]
    assert isinstance(others, Verdict)
    assert others.cites == (1,)


def test_nobody_who_agrees_is_no_contradiction() -> None:
    made, case = cancelled("refund", Outcome("pass", "check"))
    assert [a.measure for a in OUTCOME(made, case, None)] == ["outcome"]


def test_a_write_in_another_order_is_none_that_passing_trials_lack() -> None:
    passing = run(*did("refund_items", "ok", order="1", item_ids=["a", "b"]), agent("x"))
    same = run(*did("refund_items", "ok", order="1", item_ids=["b", "a"]), agent("x"))
    other = run(*did("refund_items", "ok", order="1", item_ids=["b", "c"]), agent("x"))
    assert find_new_write(same, [passing], None) is None
    found = find_new_write(other, [passing], None)
    assert found is not None
    assert found.step == 0


def tau_bench(reward: float, *made: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    action = {"name": "return_items", "kwargs": {"order_id": "1", "item_ids": ["a", "b"]}}
    turns: list[dict[str, Any]] = [{"role": "user", "content": "return a and b"}]
    for at, (name, arguments) in enumerate(made):
        call = {"name": name, "arguments": json.dumps(arguments)}
        turns.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"c{at}", "type": "function", "function": call}],
            }
        )
        turns.append({"role": "tool", "tool_call_id": f"c{at}", "name": name, "content": "done"})
    turns.append({"role": "assistant", "content": "It is done."})
    task = {"user_id": "u", "instruction": "return a and b", "actions": [action], "outputs": []}
    return {"task_id": 0, "reward": reward, "info": {"task": task}, "traj": turns, "trial": 0}


def test_show_and_report_say_that_a_passing_run_reached_it_another_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        tau_bench(1.0, ("return_items", {"order_id": "1", "item_ids": ["a", "b", "c"]})),
        tau_bench(1.0, ("return_items", {"order_id": "1", "item_ids": ["b", "a"]})),
    ]
    runs[1]["trial"] = 1
    (tmp_path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    store = ["--store", str(tmp_path / "s.db")]
    assert main(["import", str(tmp_path / "runs.json"), *store]) == 0
    assert main(["score", *store, "--workers", "1"]) == 0
    capsys.readouterr()
    names = ["tau_bench/0/0", "tau_bench/0/1"]
    assert main(["report", *store]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "in 1 run another way, as the passed check says" in said
    goals = ("0 of 1; reached another way", "sub-goals reached: all")
    for name, expected in zip(names, goals, strict=True):
        assert main(["show", name, *store]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert expected in shown
        assert "return_items not as asked" not in shown
