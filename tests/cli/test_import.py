"""`stepscope import` says what became of every file, and its exit code says where nothing came."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main

SAYS = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
BAD = {"messages": 3}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def jsonl(name: str, *records: object) -> str:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return name


def good(**around: object) -> dict[str, object]:
    return {"messages": SAYS, **around}


def test_a_record_set_aside_says_why_and_how_often_on_the_line_of_its_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", jsonl("runs.jsonl", good(task=1), BAD, BAD)]) == 0
    out = capsys.readouterr().out
    assert "2 steps, 0 calls; set aside 2: `messages` is '3'; expected a list\n" in out
    assert "1 run: 1 new, 0 known; 2 set aside\n" in out


def test_many_reasons_are_the_most_frequent_ones_and_how_many_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = [{"messages": n} for n in (1, 2, 2, 3, 4, 5)]
    assert main(["import", jsonl("runs.jsonl", good(), *bad)]) == 0
    out = capsys.readouterr().out
    assert "set aside 6: `messages` is '2'; expected a list (2);" in out
    assert "2 more reasons (--set-aside)" in out


def test_set_aside_lists_every_record_of_these_files_or_of_the_store(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second = jsonl("a.jsonl", good(), BAD), jsonl("b.jsonl", good(task=2), BAD)
    main(["import", first])
    capsys.readouterr()
    main(["import", second, "--set-aside"])
    listed = [line for line in capsys.readouterr().out.splitlines() if ", byte " in line]
    assert [line.split(", byte ")[0] for line in listed] == ["b.jsonl"]
    assert listed[0].endswith("""`messages` is '3'; expected a list: {"messages": 3}""")
    assert main(["import", "--set-aside", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(one["uri"], one["bytes"], one["begins"]) for one in found] == [
        ("a.jsonl", 15, '{"messages": 3}'),
        ("b.jsonl", 15, '{"messages": 3}'),
    ]


def test_a_record_that_was_set_aside_is_listed_without_secrets_and_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "sk-proj-" + "aB3" * 16
    main(["import", jsonl("a.jsonl", good(), {"messages": f"\x1b[31m {key}"}), "--set-aside"])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert key not in out


def test_nothing_set_aside_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    main(["import", jsonl("a.jsonl", good())])
    capsys.readouterr()
    assert main(["import", "--set-aside"]) == 0
    assert capsys.readouterr().out == "no record was set aside\n"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--listen"], "--set-aside is for files; --listen reads nothing but OTLP"),
        (["phoenix:shop"], "--set-aside is for files, not for the traces of a backend"),
        (["--outcomes", "o.csv"], "--set-aside is for runs; --verdicts reads verdicts"),
        (["--cases", "c.toml"], "--cases is for PATHS; --set-aside alone lists every record"),
        (["--agent", "a"], "--agent is for PATHS; --set-aside alone"),
        (["--workflow", "w"], "--workflow is for PATHS; --set-aside alone"),
        (["--since", "7d"], "--since is for PATHS; --set-aside alone"),
        (["a.jsonl", "--json"], "--json is not for --set-aside PATHS; import, then: stepscope "),
    ],
)
def test_what_set_aside_cannot_be_asked_with_is_one_line_and_reads_nothing(
    more: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl("a.jsonl", good(), BAD)
    assert main(["import", "--set-aside", *more]) == 2
    said = capsys.readouterr()
    assert (said.out, said.err.count("\n")) == ("", 1)
    assert says in said.err
    assert not Path("stepscope.db").exists()


def test_a_file_of_which_nothing_could_be_read_fails_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonl("runs/good.jsonl", good())
    jsonl("runs/bad.jsonl", {"task_id": 1, "trial": 0, "reward": 1, "traj": "x"})
    assert main(["import", "runs"]) == 2
    told = capsys.readouterr()
    assert "1 run: 1 new" in told.out
    assert told.err == "error: nothing was read of runs/bad.jsonl\n"


def test_a_folder_without_a_single_run_fails_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    jsonl("runs/a.txt")
    assert main(["import", "runs"]) == 2
    assert capsys.readouterr().err == "error: nothing was read of runs/a.txt\n"


def test_files_that_are_no_traces_are_one_line_a_kind(capsys: pytest.CaptureFixture[str]) -> None:
    jsonl("runs/good.jsonl", good())
    for name in ("LICENSE", "NOTICE", "README"):
        Path("runs", name).write_text(f"This is {name}.", encoding="utf-8")
    for n in range(7):
        Path("runs", f"table{n}.json").write_text(json.dumps({f"k{n}": 1}), encoding="utf-8")
    Path("runs", "only.bin").write_bytes(b"\x00\x01")
    assert main(["import", "runs"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "runs/good.jsonl: openai_messages, 1 run, 2 steps, 0 calls",
        "3 files that are not traces (text): runs/LICENSE, runs/NOTICE, runs/README",
        "runs/only.bin: no known trace; it looks like binary data",
        "7 files that are not traces (a JSON object): runs/table0.json, runs/table1.json, "
        "runs/table2.json, runs/table3.json, runs/table4.json and 2 more",
        "1 run: 1 new, 0 known; 0 set aside; 11 files without runs",
    ]


def test_an_import_that_brings_nothing_new_is_no_failure() -> None:
    path = jsonl("runs.jsonl", good())
    assert (main(["import", path]), main(["import", path])) == (0, 0)


@pytest.mark.parametrize("where", [[], ["--where", "agent = 'nobody'"]])
def test_scoring_nothing_fails_and_scoring_again_does_not(
    where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    jsonl("runs/a.txt")
    path = jsonl("a.jsonl", good())
    if where:
        main(["import", path])
        assert (main(["score"]), main(["score"])) == (0, 0)
    else:
        main(["import", "runs"])
    capsys.readouterr()
    assert main(["score", *where]) == 2
    why = "no run matches" if where else "the store has no runs"
    assert f"error: {why}" in capsys.readouterr().err


def rows() -> list[tuple[str, str, str | None, str | None]]:
    with stepscope.open("stepscope.db") as notebook:
        runs = list(notebook.trajectories())
    return sorted((run.name, run.workflow, run.task, run.trial) for run in runs)


NAMED = ["--workflow", "shop", "--task", "7", "--trial", "0"]


def test_workflow_task_and_trial_are_given_where_a_trace_names_none() -> None:
    jsonl("a.jsonl", good())
    jsonl("b.jsonl", good(workflow="bank", task="t", trial=0))
    assert main(["import", "a.jsonl", "b.jsonl", *NAMED]) == 0
    assert rows() == [("bank/t/0", "bank", "t", "0"), ("shop/7/0", "shop", "7", "0")]


def test_they_may_come_late_and_an_import_without_them_takes_nothing_back() -> None:
    jsonl("a.jsonl", good())
    for options in ([], NAMED, []):
        assert main(["import", "a.jsonl", *options]) == 0
    assert rows() == [("shop/7/0", "shop", "7", "0")]


def test_a_run_whose_trace_names_its_workflow_alone_keeps_the_task_given() -> None:
    jsonl("a.jsonl", good(workflow="bank"))
    for options in (["--task", "7"], []):
        assert main(["import", "a.jsonl", *options]) == 0
    assert rows() == [("bank/7", "bank", "7", None)]


@pytest.mark.parametrize("more", [["--verdicts", "v.csv"], ["--listen"], ["phoenix:x"]])
def test_a_task_is_for_runs_of_files(more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *more, "--task", "7"]) == 2
    assert "error: --task is for " in capsys.readouterr().err
