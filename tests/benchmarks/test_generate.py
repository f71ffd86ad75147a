from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import generate

BUNDLED = generate.sources(())


def test_the_same_seed_gives_the_same_runs_whatever_the_count() -> None:
    assert list(generate.runs(8, BUNDLED)) == list(generate.runs(30, BUNDLED))[:8]


def test_another_seed_gives_other_runs() -> None:
    assert list(generate.runs(3, BUNDLED, seed=0)) != list(generate.runs(3, BUNDLED, seed=1))


def test_no_two_generated_runs_are_the_same_trial_of_a_task() -> None:
    seen = Counter((run["task_id"], run["trial"]) for run in generate.runs(100, BUNDLED))
    assert max(seen.values()) == 1
    assert len(seen) == 100


def test_every_result_still_answers_a_call_of_its_run() -> None:
    for run in generate.runs(60, BUNDLED):
        calls = {c["id"] for m in run["traj"] for c in m.get("tool_calls") or ()}
        answered = {m["tool_call_id"] for m in run["traj"] if m["role"] == "tool"}
        assert answered <= calls


def test_perturbation_leaves_something_for_each_measure_to_find() -> None:
    originals = {(r["task_id"], r["trial"]): r for r in BUNDLED}
    rewards = errors = longer = shorter = 0
    for run in generate.runs(200, BUNDLED):
        origin = originals[run["task_id"], run["trial"] % 10]
        rewards += run["reward"] != origin["reward"]
        errors += any((m.get("content") or "").startswith("Error: request") for m in run["traj"])
        longer += len(run["traj"]) > len(origin["traj"])
        shorter += len(run["traj"]) < len(origin["traj"])
    assert min(rewards, errors, longer, shorter) >= 10


@pytest.mark.parametrize("steps", [5, 200])
def test_runs_can_be_asked_for_at_a_length(steps: int) -> None:
    lengths = [len(run["traj"]) for run in generate.runs(20, BUNDLED, steps=steps)]
    assert all(abs(length - steps) <= 4 for length in lengths)


def test_files_hold_all_runs_and_are_written_once(tmp_path: Path) -> None:
    written = generate.files(10, data=tmp_path, runs_a_file=4)
    first = [path.stat().st_mtime_ns for path in written]
    assert [len(json.loads(path.read_bytes())) for path in written] == [4, 4, 2]
    again = generate.files(10, data=tmp_path, runs_a_file=4)
    assert [path.stat().st_mtime_ns for path in again] == first
