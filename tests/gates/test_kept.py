"""What is kept between invocations of gate is shown, and what cannot be read says so."""

from __future__ import annotations

from pathlib import Path

import msgspec

from stepscope.gates.baseline import make_baseline, write_baseline
from stepscope.gates.looks import (
    Looks,
    PolicyLooks,
    look_key,
    look_log_path,
    read_gate_history,
    replace_entry,
)
from stepscope.gates.settings import WorkflowPolicy
from stepscope.store.columns import Rows
from stepscope.store.where import Where
from tests.gates.rows import gates, report, rows, trials

BEFORE = rows(*trials("before", [4, 4, 2]))
NOW = rows(*trials("now", [4, 1, 2]))


def placed(folder: Path, workflow: str = "w", bound: float = 0.05) -> WorkflowPolicy:
    asked = gates(workflow, outcome={"max_drop": bound})
    return msgspec.structs.replace(asked, baseline=str(folder / "b.json"))


def held(folder: Path, of: Rows = BEFORE) -> WorkflowPolicy:
    policy = placed(folder)
    write_baseline(make_baseline(of, policy, commit="abc"), folder / "b.json")
    return policy


def test_what_the_runs_would_change_in_the_baseline_is_said(tmp_path: Path) -> None:
    (found,) = read_gate_history(NOW, [held(tmp_path)])
    assert (found.workflow, found.file, found.problems) == ("w", "b.json", ())
    assert found.holds == "12 runs of 3 cases, commit abc, bot"
    assert found.changes[:3] == (
        "runs: 12 runs of 3 cases -> 12 runs of 3 cases",
        "outcome: mean 0.8333 over 12 runs -> mean 0.5833 over 12 runs",
        "  case c1: mean 1 over 4 runs -> mean 0.25 over 4 runs",
    )


def test_the_same_runs_change_nothing_though_nobody_says_their_commit(tmp_path: Path) -> None:
    (found,) = read_gate_history(BEFORE, [held(tmp_path)])
    assert found.changes == ("nothing changes",)


def test_a_baseline_that_is_not_there_says_what_makes_it(tmp_path: Path) -> None:
    (found,) = read_gate_history(NOW, [placed(tmp_path)])
    assert (found.holds, found.changes) == ("", ())
    (problem,) = found.problems
    assert problem.startswith("there is no file ")
    assert problem.endswith("b.json'; make it: stepscope baseline update --workflow w")


def test_no_run_to_compare_leaves_what_the_baseline_holds(tmp_path: Path) -> None:
    (found,) = read_gate_history(rows(), [held(tmp_path)], where=Where("1 = 0", ()))
    assert found.holds == "12 runs of 3 cases, commit abc, bot"
    assert found.problems[0].startswith("no baseline: no run of 'w'")


def test_looks_are_those_of_the_workflow_under_any_policy(tmp_path: Path) -> None:
    policy = held(tmp_path)
    log = Looks.open(look_log_path(tmp_path / "b.json"))
    other = placed(tmp_path, "the w")  # its keys end as those of w do
    for commit, asked in (
        ("sha 1", placed(tmp_path, bound=0.1)), ("sha 1", policy), ("sha 2", policy),
    ):  # fmt: skip
        report(NOW, asked, BEFORE, commit=commit, looks=log)
    report(rows(*trials("again", [4, 1, 2])), policy, BEFORE, commit="sha 2", looks=log)
    entry = log.log.entries[look_key("sha 1", "w", policy.hash)]
    log.log = replace_entry(log.log, look_key("x", "the w", other.hash), entry)
    log.save()
    first, second = read_gate_history(NOW, [policy, other])
    assert first.looked == (
        PolicyLooks(commit="sha 1", looks=1, runs=12, current=False),
        PolicyLooks(commit="sha 1", looks=1, runs=12, current=True),
        PolicyLooks(commit="sha 2", looks=2, runs=24, current=True),
    )
    assert [one.commit for one in second.looked] == ["x"]


def test_a_torn_log_is_said_and_the_baseline_is_still_compared(tmp_path: Path) -> None:
    policy = held(tmp_path)
    look_log_path(tmp_path / "b.json").write_text("{", encoding="utf-8")
    (found,) = read_gate_history(BEFORE, [policy])
    assert "is not a log of looks" in found.problems[0]
    assert found.changes == ("nothing changes",)


def test_a_workflow_without_gates_is_left_out(tmp_path: Path) -> None:
    assert read_gate_history(NOW, [gates("w")]) == ()
