"""`gate` and `baseline update` from the command line: every way to go wrong has its own answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.store import Store
from stepscope.store.columns import NO_RECORD
from stepscope.store.where import parse_where

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
POLICY = """
[workflow.airline]
baseline = "base.json"
[workflow.airline.gates]
outcome = { max_drop = 0.05 }
loops = { max_per_run = 6, severity = "soft" }
"""
COUNT = "[workflow.airline.gates]\nloops = { max_per_run = %s }\n"


@pytest.fixture
def gated(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The good store with gates and a baseline, on a machine that is no CI machine."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    Path("stepscope.toml").write_text(f'store = "good.db"\n{POLICY}', encoding="utf-8")
    assert main(["baseline", "update", "--yes"]) == 0
    return workspace


def recorded(change: Callable[[dict[str, Any]], None]) -> str:
    """Write the bundled runs, each changed, to a file of their own; return its name."""
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    for run in runs:
        change(run)
    Path("new.json").write_text(json.dumps(runs), encoding="utf-8")
    return "new.json"


def failing(run: dict[str, Any]) -> None:
    run["reward"] = 0.0
    run["traj"][-1]["content"] = "new words, so a new run"


def words(line: str) -> list[str]:
    return [str(RUNS) if word == "RUNS" else word for word in line.split()]


def causes(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    report = json.loads(capsys.readouterr().out)["report"]
    gates = [gate for workflow in report["workflows"] for gate in workflow["gates"]]
    return {gate["name"]: gate["cause"] or gate["outcome"] for gate in gates}


def test_a_soft_failure_is_shown_and_counts_only_when_asked(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["gate"]) == 0
    assert "loops               soft  FAIL" in capsys.readouterr().out
    assert main(["gate", "--fail-on", "soft"]) == 3


def test_a_regression_fails_without_a_store(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("good.db").unlink()
    assert main(["gate", "--runs", recorded(failing)]) == 3
    shown = capsys.readouterr()
    assert "case 20: airline/20/0 and 3 more: 4 of 4 runs are bad" in shown.out
    assert not Path("good.db").exists()


def corrupt(base: Path) -> None:
    base.write_text("{", encoding="utf-8")


def newer(base: Path) -> None:
    base.write_text(
        base.read_text(encoding="utf-8").replace('"schema": 1', '"schema": 99'), encoding="utf-8"
    )


def remeasured(base: Path) -> None:
    base.write_text(
        base.read_text(encoding="utf-8").replace(
            '"outcome": {"version": "1"}', '"outcome": {"version": "0"}'
        ),
        encoding="utf-8",
    )


def other_workflow(base: Path) -> None:
    base.write_text(
        base.read_text(encoding="utf-8").replace('"airline"', '"retail"', 1), encoding="utf-8"
    )


def other_cases(base: Path) -> None:
    text = base.read_text(encoding="utf-8")
    for case in (5, 9, 11, 15, 20):
        text = text.replace(f'"{case}": {{\n   "runs"', f'"x{case}": {{\n   "runs"')
    base.write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (Path.unlink, "baseline_missing"),
        (corrupt, "baseline_corrupt"),
        (newer, "baseline_other_version"),
        (remeasured, "baseline_other_version"),
        (other_workflow, "baseline_other_workflow"),
        (other_cases, "no_shared_cases"),
    ],
)
@pytest.mark.parametrize("undecided", [[], ["--undecided", "pass"]])
def test_a_baseline_that_cannot_be_compared_with_is_code_4_and_says_which_way(
    gated: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    cause: str,
    undecided: list[str],
) -> None:
    damage(Path("base.json"))
    capsys.readouterr()
    assert main(["gate", "--json", "--runs", recorded(failing), *undecided]) == 4
    assert causes(capsys)["outcome"] == cause


def test_vanished_cases_are_named_and_a_gate_that_hangs_on_them_is_not_decided(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    kept = [run for run in runs if run["task_id"] == 20]
    for run in kept:
        run["traj"][-1]["content"] = "new words, so a new run"
    Path("new.json").write_text(json.dumps(kept), encoding="utf-8")
    assert main(["gate", "--runs", "new.json", "--undecided", "pass"]) == 4
    shown = capsys.readouterr().out
    assert "at their worst: 16 missing trials" in shown
    assert "not run, though in the baseline: 5, 9, 11, 15" in shown


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("gate --where agent='nobody'", "no_runs"),
        ("gate --store none.db", "no_runs"),
        ("gate --max-minutes 0", "out_of_time"),
        ("gate --max-minutes 0 --runs RUNS", "out_of_time"),
    ],
)
def test_what_could_not_be_measured_is_code_4(
    gated: Path, capsys: pytest.CaptureFixture[str], line: str, cause: str
) -> None:
    capsys.readouterr()
    command = [*words(line), "--json", "--undecided", "pass", "--fail-on", "hard"]
    assert main(command) == 4
    assert causes(capsys)["outcome"] == cause


def test_runs_that_were_never_scored_are_code_4(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(RUNS), "--store", "raw.db"]) == 0
    capsys.readouterr()
    assert main(["gate", "--json", "--store", "raw.db"]) == 4
    assert set(causes(capsys).values()) == {"no_verdicts"}


@pytest.mark.parametrize(
    ("settings", "line", "says"),
    [
        ("", "gate", "no gate is declared"),
        (POLICY, "gate --workflow airlin", "did you mean 'airline'?"),
        (POLICY, "gate --runs nowhere", "nowhere"),
        (POLICY, "gate --runs folder", "folder"),
        (POLICY, "gate --runs other.json", "other.json"),
        (POLICY, "gate --runs RUNS --store good.db", "--runs needs no store"),
        (POLICY, "gate --json --junit", "choose one"),
        (POLICY, "gate --config nowhere/stepscope.toml", "there is no such file"),
        (POLICY, "gate --config other.json", "expected a folder, stepscope.toml"),
        (POLICY.replace("baseline", 'agent = "me:run"\nbaseline', 1), "gate", "'me:run'"),
        (POLICY + COUNT.replace("airline", "b") % 1, "gate --baseline base.json", "--workflow"),
        (POLICY, "baseline update --store good.db", "say --yes"),
        (POLICY, "baseline update --store none.db --yes", "no baseline: no run"),
        (COUNT % 1, "baseline update --store good.db --yes", "names no baseline"),
        (POLICY.replace("0.05", "5"), "gate", "max_drop is 5"),
    ],
)
def test_what_the_user_can_fix_is_code_2(
    gated: Path, capsys: pytest.CaptureFixture[str], settings: str, line: str, says: str
) -> None:
    Path("stepscope.toml").write_text(settings, encoding="utf-8")
    before = Path("base.json").read_bytes()
    capsys.readouterr()
    assert main(words(line)) == 2
    assert says in capsys.readouterr().err
    assert Path("base.json").read_bytes() == before


def test_a_rule_about_a_tool_that_nobody_has_is_refused_not_kept(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = '[[policy]]\nname = "r"\nforbid = "book_reservatoin"\n'
    gates = "[workflow.airline.gates]\npolicy = { max_per_run = 0 }\n"
    Path("stepscope.toml").write_text(rule + gates, encoding="utf-8")
    assert main(["gate", "--runs", str(RUNS)]) == 2
    assert "'book_reservatoin'" in capsys.readouterr().err
    Path("stepscope.toml").write_text(rule.replace("oin", "ion") + gates, encoding="utf-8")
    assert main(["gate", "--runs", str(RUNS)]) == 3


TOOLS = '[tools]\nthink = "read"\nbook_reservation = "write"\n'
KEPT = '[[policy]]\nname = "r"\nforbid = "think"\nwhere = { no = "x" }\n'
THINKS = '[[policy]]\nname = "r"\nforbid = "write"\nwhere = { thought = "." }\n'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (KEPT + TOOLS, '[[policy]]\nname = "s"\nforbid = "book_reservation"\n' + TOOLS),
        (THINKS + '[tools]\nthink = "read"\n', THINKS + '[tools]\nthink = "write"\n'),
    ],
)
@pytest.mark.parametrize("erased", [False, True])
def test_answers_under_other_settings_are_given_again_and_count_as_none_where_they_cannot_be(
    gated: Path, capsys: pytest.CaptureFixture[str], before: str, after: str, erased: bool
) -> None:
    settings, gate = Path("stepscope.toml"), ["gate", "--json", "--undecided", "pass"]
    gates = 'store = "good.db"\n[workflow.airline.gates]\npolicy = { max_per_run = 0 }\n'
    settings.write_text(gates + before, encoding="utf-8")
    assert main(gate) == 0
    if erased:
        assert main(["purge", "--older-than", "0d", "--yes"]) == 0
        assert main(gate) == 0  # what was answered under the same settings still counts
    settings.write_text(gates + after, encoding="utf-8")
    capsys.readouterr()
    assert main(gate) == (4 if erased else 3)


def test_a_gate_asks_again_about_no_run_of_a_workflow_that_it_does_not_gate(gated: Path) -> None:
    other = {"workflow": "v", "task_id": "t", "messages": [{"role": "user", "content": "Hi"}]}
    Path("v.json").write_text(json.dumps(other), encoding="utf-8")
    for words_ in ("import v.json", "score --measure policy"):
        assert main(words_.split()) == 0
    gates = 'store = "good.db"\n[workflow.airline.gates]\npolicy = { max_per_run = 0 }\n'
    Path("stepscope.toml").write_text(gates + KEPT + TOOLS, encoding="utf-8")
    assert main(["gate"]) == 0
    with Store.open("good.db") as store:
        rules = {
            name: len(found.policy) for name in ("airline", "v") if (found := store.facts(name))
        }
        assert rules == {"airline": 1, "v": 0}
        assert (
            store.column("policy", store.runs(parse_where("workflow = 'v'"))).state[0] != NO_RECORD
        )


def test_records_that_could_not_be_read_are_counted_in_every_output(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.toml").write_text(COUNT % 9, encoding="utf-8")
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    del runs[0]["traj"]
    Path("new.json").write_text(json.dumps(runs), encoding="utf-8")
    for form in ([], ["--json"], ["--markdown"], ["--junit"]):
        capsys.readouterr()
        assert main(["gate", "--runs", "new.json", *form]) == 3
        shown = capsys.readouterr().out
        assert "1 records could not be read, each at its worst" in shown
        assert "at their worst" in shown.replace("&#58;", ":")


def test_reruns_of_a_commit_spend_what_is_left_of_alpha(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(*more: str) -> tuple[int, float]:
        capsys.readouterr()
        main(["gate", "--json", "--runs", recorded(failing), *more])
        report = json.loads(capsys.readouterr().out)["report"]
        return report["look"], round(report["alpha_look"], 6)

    assert look() == (1, 0.025)
    assert look("--commit", "c") == (1, 0.025)
    assert look("--commit", "c") == (1, 0.025)  # the same runs again are the same look
    assert look("--commit", "c", "--attempt", "3") == (3, 0.004167)
    assert Path("looks.json").exists()


def test_a_torn_log_of_looks_is_no_first_look(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("looks.json").write_text("{", encoding="utf-8")
    assert main(["gate", "--commit", "c"]) == 2
    assert "looks.json is not a log of looks" in capsys.readouterr().err


def test_the_job_summary_is_added_to_and_the_log_is_guarded(
    gated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("summary.md").write_text("before\n", encoding="utf-8")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    capsys.readouterr()
    assert main(["gate"]) == 0
    first, *_, last = capsys.readouterr().out.rstrip("\n").split("\n")
    token = first.removeprefix("::stop-commands::")
    assert (len(token), last) == (32, f"::{token}::")
    summary = Path("summary.md").read_text(encoding="utf-8")
    assert summary.startswith("before\n<!-- stepscope:gate:airline -->\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "folder")
    assert main(["gate"]) == 5
    for mine in ("stepscope.toml", "good.db", ".env"):
        Path(mine).touch()
        held = Path(mine).read_bytes()
        monkeypatch.setenv("GITHUB_STEP_SUMMARY", mine)
        assert main(["gate"]) == 2
        assert Path(mine).read_bytes() == held
    os.mkfifo("pipe")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "pipe")
    assert main(["gate"]) == 5


def test_what_is_written_is_of_this_gate_and_links_lead_nowhere(gated: Path) -> None:
    Path("kept").write_text("mine", encoding="utf-8")
    comments = Path("w/comments")
    comments.mkdir(parents=True)
    (comments / "002.md").write_text("of an earlier gate", encoding="utf-8")
    for path in (Path("w/gate.json"), Path("w/gate.xml"), comments / "001.md"):
        path.symlink_to(Path("kept").resolve())
    assert main(["gate", "--write", "w"]) == 0
    assert Path("kept").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in comments.iterdir()] == ["001.md"]


def test_json_in_a_ci_log_is_still_one_document(
    gated: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    capsys.readouterr()
    assert main(["gate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["outcome"] == "pass"


def test_an_update_prints_what_changes_and_writes_only_when_agreed(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = Path("base.json").read_bytes()
    capsys.readouterr()
    chosen = ["--where", "trial in ('0', '1')"]
    assert main(["baseline", "update", *chosen]) == 2
    assert "runs: 20 runs of 5 cases -> 10 runs of 5 cases" in capsys.readouterr().out
    assert Path("base.json").read_bytes() == before
    assert main(["baseline", "update", "--yes", *chosen]) == 0
    assert Path("base.json").read_bytes() != before
    assert main(["baseline", "update", "--yes"]) == 0
    assert Path("base.json").read_bytes() == before


def selftest(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["gate", "--selftest", *options])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_selftest_of_one_seed_is_of_the_same_bytes(
    gated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Path("stepscope.toml").read_text(encoding="utf-8")
    Path("stepscope.toml").write_text(settings.replace("outcome =", "# "), encoding="utf-8")
    first, second = (selftest(capsys, "--json", "--drop", "0.4") for _ in range(2))
    assert (first[0], first[1]) == (0, second[1])
    (found,) = json.loads(first[1])
    assert (found["n_runs"], found["n_cases"], found["drop"]) == (20, 5, 0.4)
    assert [(gate["name"], gate["missed"]["n"]) for gate in found["gates"]] == [("loops", 1000)]
    assert re.search(r"^took [0-9.]+ minutes$", first[2], re.MULTILINE)
    code, shown, _ = selftest(capsys, "--seed", "1")
    assert code == 0
    assert "invocations of 20 runs each, drawn from a baseline of 20 runs of 5 cases" in shown
    assert "Note: 5 cases: too few to say how other cases would do" in shown


def test_a_notebook_tests_its_gates(gated: Path) -> None:
    with stepscope.open("good.db") as store:
        view = store.gate_selftest(drop=0.5, replications=5)
    assert [gate.name for gate in view.value[0].gates] == ["outcome", "loops"]
    assert repr(view).startswith("airline   5 invocations of 20 runs each")
    assert json.loads(view.json())[0]["invocations"] == 5


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("--drop 0", 2, "a selftest takes a drop in (0, 1]"),
        ("--drop nan", 2, "a selftest takes a drop in (0, 1]"),
        ("--baseline none.json", 2, "--selftest draws from the baseline: there is no file 'none"),
        ("--baseline other.json", 2, "other.json is not a baseline"),
        ("--runs RUNS", 2, "error: --runs is not for --selftest, which reads the baselines alone"),
        ("--commit abc --drop 0.2", 2, "error: --commit is not for --selftest"),
        ("--attempt 2", 2, "error: --attempt is not for --selftest"),
        ("--fail-on soft", 2, "error: --fail-on is not for --selftest"),
        ("--junit", 2, "error: --junit is not for --selftest"),
        ("--out found.xml", 2, "error: --out found.xml is not for --selftest"),
        ("--cases nobody", 2, "no case of workflow 'airline' is called 'nobody'"),
        ("--max-minutes 0", 4, "stopped after 0 of 1,000 invocations"),
    ],
)
def test_a_selftest_that_cannot_be_made_says_why(
    gated: Path, capsys: pytest.CaptureFixture[str], line: str, code: int, says: str
) -> None:
    found = selftest(capsys, *words(line))
    assert found[0] == code
    assert says in found[1] + found[2]


@pytest.mark.parametrize("name", ["found.json", "found.md", "found"])
def test_a_selftest_is_written_in_the_form_of_the_files_ending(
    gated: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert selftest(capsys, "--max-minutes", "0", "--out", name)[0] == 4
    assert "0 of 1,000 invocations" in Path(name).read_text("utf-8")


def test_a_drop_is_of_a_selftest(gated: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--drop", "0.1"]) == 2
    assert "--drop is of --selftest" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rule", "tool", "code"),
    [
        ('forbid = "{}"', "book_reservation", 3),
        ('forbid = "{}"', "book_reservations", 2),
        ('before = "calculate"\nrequire = "{}"', "get_user_detail", 2),
    ],
)
def test_a_rule_of_a_case_about_a_tool_that_nobody_has_is_an_error(
    gated: Path, capsys: pytest.CaptureFixture[str], rule: str, tool: str, code: int
) -> None:
    case = '[[task]]\nworkflow = "airline"\ntask = "11"\n[[task.policy]]\nname = "r"\n'
    Path("cases.toml").write_text(case + rule.format(tool), encoding="utf-8")
    Path("stepscope.toml").write_text(
        '[workflow.airline]\ncases = "cases.toml"\n' + COUNT.replace("loops", "policy") % 0,
        encoding="utf-8",
    )
    assert main(["gate", "--runs", str(RUNS)]) == code
    said = capsys.readouterr().err
    assert ("case airline/11: [[policy]] 'r' names the tool" in said) == (code == 2)
