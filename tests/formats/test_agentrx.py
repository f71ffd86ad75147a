from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.formats import tau_bench
from stepscope.formats.agentrx import FORMAT, parse_labels
from stepscope.formats.format import RunLabels
from stepscope.formats.reading import load_labels_beside, read_files
from stepscope.model import Json, Quarantined, Stream, Trajectory
from stepscope.safety.limits import Limits
from tests.formats.reading import read, written
from tests.formats.test_tau_bench import record

LIMITS = Limits()
FAILURE = {
    "failure_id": 3,
    "step_number": 2,
    "step_reason": "did not ask",
    "failure_category": "Intent Plan  Misalignment",
    "category_reason": "the plan was wrong",
    "failed_agent": "Assistant",
}
LABELLED = {
    "trajectory_id": 11,
    "failures": [FAILURE, {**FAILURE, "failure_id": 4, "step_number": 1, "failed_agent": "User"}],
    "root_cause": {"failure_id": "4", "reason_for_root_cause": "it began here"},
    "failure_summary": "wrong",
}


def run(**fields: Json) -> Trajectory:
    (only,) = read(tau_bench.FORMAT, [record({"role": "user", "content": "hi"}, **fields)])
    assert isinstance(only, Trajectory)
    return only


def test_steps_count_from_1_there_and_from_0_here_and_ids_compare_as_text() -> None:
    task, labels = parse_labels(LABELLED)
    assert task == "11"
    assert [(x.kind, x.step, x.agent, x.category) for x in labels] == [
        ("failure", 1, "Assistant", "intent plan misalignment"),
        ("failure", 0, "User", "intent plan misalignment"),
        ("root_cause", 0, "User", "intent plan misalignment"),
    ]
    assert labels[2].reason == "it began here"
    assert labels[0].extra == {"failure_id": "3", "category_reason": "the plan was wrong"}
    assert {x.annotator for x in labels} == {"AgentRx"}


def test_labels_find_the_run_of_their_task_and_keep_its_id() -> None:
    labels = RunLabels(dict([parse_labels(LABELLED), ("105", ())]))
    bare = run()
    assert not labels.without_run
    labelled = labels.attach(bare)
    assert (labelled.id, len(labelled.labels)) == (bare.id, 3)
    second = run(trial=3)
    assert labels.attach(second) is second
    other = run(task_id=12)
    assert labels.attach(other) is other
    assert labels.without_run == ("105",)


def test_a_label_beyond_the_run_is_kept_without_its_step_and_flagged() -> None:
    task, labels = parse_labels({**LABELLED, "failures": [{**FAILURE, "step_number": 3}]})
    labelled = RunLabels({task: labels}).attach(run())
    assert [(x.kind, x.step) for x in labelled.labels] == [("root_cause", None), ("failure", None)]
    assert [w.code for w in labelled.warnings] == ["label_beyond_run"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"failures": [{**FAILURE, "step_number": 0}]}, "it counts messages from 1"),
        ({"failures": [{**FAILURE, "step_number": "two"}]}, "`$.step_number`"),
        ({"failures": {}}, "`$.failures`"),
        ({"trajectory_id": None}, "`$.trajectory_id`"),
    ],
)
def test_a_label_of_wrong_types_is_quarantined_with_one_line(change: Json, reason: str) -> None:
    (bad,) = read(FORMAT, [LABELLED, {**LABELLED, **change}])
    assert isinstance(bad, Quarantined)
    assert reason in bad.reason


def test_labels_are_found_beside_the_runs_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failure_labels.json").write_bytes(written([LABELLED, 3]))
    found = load_labels_beside(str(tmp_path / "runs.json"), LIMITS)
    assert found is not None
    assert list(found.by_task) == ["11"]
    assert load_labels_beside(str(tmp_path / "failure_labels.json"), LIMITS) is None
    assert load_labels_beside(str(tmp_path / "deeper" / "runs.json"), LIMITS) is None
    monkeypatch.chdir(tmp_path)
    assert load_labels_beside("-", LIMITS) is None


def test_labels_are_known_by_what_they_hold_and_several_files_of_them_add_up(
    tmp_path: Path,
) -> None:
    (tmp_path / "ann.txt").write_bytes(written([LABELLED]))
    (tmp_path / "bob").write_bytes(written([LABELLED]))
    (tmp_path / "link.json").symlink_to(tmp_path / "bob")
    (tmp_path / "notes.json").write_bytes(b'{"failures": "none", "trajectory_id": 3}')
    (tmp_path / "deep").mkdir()
    found = load_labels_beside(str(tmp_path / "runs.json"), LIMITS)
    assert found is not None
    assert [len(labels) for labels in found.by_task.values()] == [6]


def test_labels_that_come_later_or_change_are_seen(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs.json")
    assert load_labels_beside(runs, LIMITS) is None
    before = tmp_path.stat().st_mtime_ns
    (tmp_path / "x").write_bytes(written([LABELLED]))
    os.utime(tmp_path, ns=(before, before))  # as where the clock of the disk is coarse
    assert load_labels_beside(runs, LIMITS) is not None
    (tmp_path / "x").write_bytes(written([{**LABELLED, "trajectory_id": 12}]))
    found = load_labels_beside(runs, LIMITS)
    assert found is not None
    assert list(found.by_task) == ["12"]


def test_in_a_crowded_folder_only_files_called_labels_are_opened(tmp_path: Path) -> None:
    for number in range(2001):
        (tmp_path / f"{number}.json").touch()
    (tmp_path / "ann.json").write_bytes(written([LABELLED]))
    assert load_labels_beside(str(tmp_path / "runs.json"), LIMITS) is None
    (tmp_path / "my-Labels.json").write_bytes(written([LABELLED]))
    assert load_labels_beside(str(tmp_path / "runs.json"), LIMITS) is not None


def test_labels_alone_say_that_they_belong_to_runs(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(written([LABELLED]))
    for reading in read_files([str(tmp_path / "x.json")]):
        assert list(reading) == []
    assert reading.account.line().endswith(
        "labels of runs; import them with the runs, in one folder"
    )


def test_importing_a_folder_joins_labels_and_runs_and_counts_those_without_a_run(
    tmp_path: Path,
) -> None:
    (tmp_path / "failure_labels.json").write_bytes(
        written([LABELLED, {**LABELLED, "trajectory_id": 105}])
    )
    (tmp_path / "runs.json").write_bytes(written([record(), record(task_id=12)]))
    accounts = {}
    found: list[Trajectory | Quarantined] = []
    for reading in read_files([str(tmp_path)]):
        found += list(reading)
        accounts[Path(reading.uri).name] = reading.account
    assert [len(r.labels) for r in found if isinstance(r, Trajectory)] == [3, 0]
    assert accounts["failure_labels.json"].format == "agentrx_labels"
    assert (accounts["failure_labels.json"].runs, accounts["failure_labels.json"].problem) == (
        0,
        None,
    )
    assert accounts["runs.json"].flagged["label_without_run"] == 1


def test_sniff_knows_labels_from_runs() -> None:
    assert FORMAT.sniff(written([LABELLED])) >= 0.5
    assert FORMAT.sniff(written([record()])) == 0.0
    assert FORMAT.sniff(written([{"trajectory_id": "t", "steps": []}])) == 0.0


@pytest.mark.shared_data
def test_fourteen_of_fifteen_labelled_runs_are_there_and_seventeen_failures_with_them(
    shared: Path,
) -> None:
    path = shared / "agentrx-retail" / "runs.json"
    labels = load_labels_beside(str(path), LIMITS)
    assert labels is not None
    with path.open("rb") as file:
        runs = [
            labels.attach(r)
            for r in tau_bench.FORMAT.read(Stream(file, str(path)))
            if isinstance(r, Trajectory)
        ]
    failures = [x for r in runs for x in r.labels if x.kind == "failure"]
    assert sum(bool(r.labels) for r in runs) == 14
    assert (len(failures), sum(x.agent == "User" for x in failures)) == (17, 7)
    assert (labels.without_run, sum(bool(r.warnings) for r in runs)) == (("105",), 0)
    # "At step 3" of run 3 is the third message: the assistant's first, index 2.
    third = next(r for r in runs if r.task == "3")
    assert [x.step for x in third.labels] == [2, 6, 6]
    assert {r.outcome.status for r in runs if r.labels} == {"fail"}
