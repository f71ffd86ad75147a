"""`report PATHS`: these traces are read, scored and reported, and nothing else of the store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.cli.main import main

GOOD = {"task": "1", "trial": "0", "reward": 1}


def write_run(path: Path, said: str, /, **fields: object) -> Path:
    messages = [{"role": "user", "content": said}, {"role": "assistant", "content": "done"}]
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"messages": messages, **GOOD, **fields}), encoding="utf-8")
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders of traces: of the first one run is in the store, with one that is in neither."""
    monkeypatch.chdir(tmp_path)
    known = write_run(tmp_path / "traces" / "a.json", "first")
    write_run(tmp_path / "traces" / "b.json", "second", task="2", reward=0)
    other = write_run(tmp_path / "other" / "c.json", "third", task="3")
    assert main(["import", str(known), str(other)]) == 0
    return tmp_path


def report(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[Any, str]:
    capsys.readouterr()
    assert main(["report", *arguments, "--json"]) == code
    printed = capsys.readouterr()
    return json.loads(printed.out), printed.err


def test_known_and_new_runs_of_the_paths_are_scored_and_reported_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = report(capsys, "traces")
    assert found["whole"]["n_runs"] == 2
    passed = found["whole"]["figures"]["outcome.pass"]
    assert (passed["value"], passed["n"]) == (0.5, 2)
    assert said == "2 runs: 1 new, 1 known; 0 set aside\n"
    with stepscope.open() as store:
        assert len(store.store.runs()) == 3  # the store is kept
        assert store.store.scored() == (3, 2)  # and what was not asked about is left alone


def test_without_paths_all_runs_of_the_store_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, said = report(capsys)
    assert (found["whole"]["n_runs"], said) == (2, "")


def test_filters_choose_among_the_runs_of_the_paths(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found, _ = report(capsys, "traces", "--where", "outcome = 'fail' or task = '3'")
    assert found["whole"]["n_runs"] == 1
    capsys.readouterr()
    assert main(["report", "traces", "--where", "task = '3'"]) == 2
    assert "no run matches" in capsys.readouterr().err


def test_what_is_set_aside_or_refused_says_why_and_a_lost_file_is_code_2(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = '{"task_id": 1, "trial": 0, "reward": 1, "traj": "x"}\n'
    (folder / "traces" / "broken.jsonl").write_text(bad, encoding="utf-8")
    (folder / "traces" / "notes.txt").write_text("Dear diary,\n", encoding="utf-8")
    found, said = report(capsys, "traces", code=2)
    assert found["whole"]["n_runs"] == 2
    assert "broken.jsonl" in said.splitlines()[0]
    assert "set aside 1: `$.traj`" in said.splitlines()[0]
    assert "notes.txt: no known trace; it looks like text" in said
    assert said.splitlines()[-1].startswith("error: nothing was read of ")


def test_paths_without_a_run_are_an_error_that_says_so(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    (folder / "empty" / "notes.txt").write_text("Dear diary,\n", encoding="utf-8")
    capsys.readouterr()
    assert main(["report", "empty"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines()[-1] == "error: no run was read, so there is nothing to report"


def test_a_session_that_has_grown_is_reported_by_its_longer_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (
        '{"type": "user", "sessionId": "s", "uuid": "1", "timestamp": "2026-01-01T00:00:00Z", '
        '"message": {"role": "user", "content": "hello"}}',
        '{"type": "assistant", "sessionId": "s", "uuid": "2", "parentUuid": "1", "timestamp": '
        '"2026-01-01T00:00:01Z", "message": {"role": "assistant", "content": [{"type": "text", '
        '"text": "hello"}]}}',
        '{"type": "user", "sessionId": "s", "uuid": "3", "parentUuid": "2", "timestamp": '
        '"2026-01-01T00:00:02Z", "message": {"role": "user", "content": "more"}}',
    )
    short, long = tmp_path / "short.jsonl", tmp_path / "long.jsonl"
    short.write_text("\n".join(lines[:2]) + "\n", encoding="utf-8")
    long.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main(["import", str(long)]) == 0
    found, _ = report(capsys, "short.jsonl")
    assert found["whole"]["n_runs"] == 1
    with stepscope.open() as store:
        assert store.store.runs().steps.tolist() == [3]


def test_another_run_of_the_same_name_is_not_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(write_run(folder / "twin.json", "first, otherwise"))]) == 0
    found, _ = report(capsys, "traces/a.json")
    assert found["whole"]["n_runs"] == 1


def test_a_run_that_bears_the_id_of_another_is_not_reported_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_run(tmp_path / "traces" / "a.json", "first")
    assert main(["import", str(path)]) == 0
    with stepscope.open() as store:
        id_ = store.store.runs().id[0]
    liar = write_run(tmp_path / "liar.json", "liar", task=id_, trial=None, workflow="")
    assert main(["import", str(liar)]) == 0
    found, _ = report(capsys, "traces")
    assert found["whole"]["n_runs"] == 1


def test_scores_are_reported_with_the_run_that_they_are_about(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with stepscope.open() as store:
        name = store.store.runs().name[0]
    rows = "\n".join(f"{name},{step},0.9" for step in (0, 1))
    (folder / "scores.csv").write_text(f"run,step,score\n{rows}\n", encoding="utf-8")
    found, _ = report(capsys, "scores.csv")
    assert found["whole"]["n_runs"] == 1


def test_commands_that_follow_name_the_paths_quoted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(folder / "my traces" / "a.json", "first")
    capsys.readouterr()
    assert main(["report", "my traces", "--store", "my store.db"]) == 0
    assert "stepscope report 'my traces' --json --store 'my store.db'" in " ".join(
        capsys.readouterr().out.split()
    )


def test_a_folder_of_verdicts_takes_no_traces(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "traces", "--store", "other"]) == 2
    assert "is a folder of verdicts" in capsys.readouterr().err
