"""What is missing or cannot be read never turns a gate green, and nothing else turns it red.

Twelve cases, four trials each; the baseline passes all. Half of the runs fail now, and each row of
the tables says how somebody keeps them from being read.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.main import main

CASES, TRIALS = range(12), range(4)
DROP = "outcome = { max_drop = 0.05 }"
Files = Mapping[str, Iterable[str]]


def policy(gate: str, more: str = 'baseline = "base.json"') -> str:
    return f"[workflow.w]\n{more}\n[workflow.w.gates]\n{gate}\n"


def line(case: int, trial: int, *, passed: bool = True, text: str = "new", **more: Any) -> str:
    said = [
        {"role": "user", "content": f"{text}: do {case}, {trial}"},
        {"role": "assistant", "content": "done"},
    ]
    record = {"task_id": f"c{case}", "trial": trial, "workflow": "w", "reward": float(passed)}
    return json.dumps({**record, "messages": said, **more})


def runs(text: str = "new", **more: Any) -> list[str]:
    return [line(case, trial, text=text, **more) for case in CASES for trial in TRIALS]


def half(text: str = "new", *, passed: bool) -> list[str]:
    """Return the runs of two trials of each case."""
    chosen = TRIALS[:2] if passed else TRIALS[2:]
    return [line(case, n, passed=passed, text=text) for case in CASES for n in chosen]


PASSING, FAILING = half(passed=True), half(passed=False)
CUT = [record[:-3] for record in FAILING]
DEEP = ['{"task_id": "c1", "messages": ' + "[" * 5000 for _ in FAILING]
LARGE = [line(case, 9, note="x" * 3000) for case in CASES for _ in TRIALS[:2]]


def write(folder: str, files: Files) -> None:
    Path(folder).mkdir(exist_ok=True)
    for name, lines in files.items():
        (Path(folder) / name).write_text("\n".join(lines), encoding="utf-8")


def done(*commands: str) -> None:
    for command in commands:
        assert main(command.split()) == 0


def decided(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    """Gate the folder `t`; return the exit code and what was decided of its workflow."""
    capsys.readouterr()
    code = main(["gate", "--json", "--runs", "t", *more])
    (workflow,) = json.loads(capsys.readouterr().out)["report"]["workflows"]
    return code, workflow


@pytest.fixture
def based(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with settings, a store and its baseline of 48 passing runs."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    Path("stepscope.toml").write_text(policy(DROP), encoding="utf-8")
    Path("base.jsonl").write_text("\n".join(runs("base")), encoding="utf-8")
    done("import base.jsonl", "score", "baseline update --yes")
    return tmp_path


HIDDEN: dict[str, Files] = {
    "read honestly": {"a.jsonl": [*PASSING, *FAILING]},
    "bad JSON": {"a.jsonl": [*PASSING, *CUT]},
    "bad JSON in a file of their own": {"a.jsonl": PASSING, "b.jsonl": CUT},
    "too deep": {"a.jsonl": [*PASSING, *DEEP]},
    "too large": {"a.jsonl": [*PASSING, *LARGE]},
    "behind a first line that is cut": {"a.jsonl": ["x" + FAILING[0][:9], *FAILING], "b": PASSING},
    "the file is cut before them": {"a.jsonl": [*PASSING, *FAILING[:1]]},
    "the file is cut inside the first": {"a.jsonl": [*PASSING, FAILING[0][:60]]},
    "absent": {"a.jsonl": PASSING},
    "an empty file": {"a.jsonl": PASSING, "b.jsonl": []},
    "whole cases absent": {"a.jsonl": [line(c, n) for c in CASES[:6] for n in TRIALS]},
    "passing runs twice": {"a.jsonl": [*PASSING, *PASSING]},
    "passing runs twice, in other words": {"a.jsonl": [*PASSING, *half("other", passed=True)]},
    "more trials of some cases": {
        "a.jsonl": [line(c, n) for c in CASES[:6] for n in range(9)],
    },
    "cases renamed": {"a.jsonl": [*PASSING, *(r.replace('"c', '"d') for r in FAILING)]},
    "another workflow": {"a.jsonl": [*PASSING, *(r.replace('"w"', '"v"') for r in FAILING)]},
    "cases that are retired, unread": {
        "a.jsonl": [*PASSING, *(r[:-3].replace('"c', '"old') for r in FAILING)],
    },
    "a trace that declares one trial": {
        "a.jsonl": [line(case, 0, trials=1, design={"trials": 1}) for case in CASES],
    },
}


def test_a_named_file_that_holds_no_run_counts_as_one(based: Path) -> None:
    log = {"version": 2, "status": "success", "eval": {"eval_id": "e", "task": "w"}, "samples": []}
    write("t", {"a.jsonl": runs(), "log.json": [json.dumps(log)]})
    Path("stepscope.toml").write_text(policy("outcome = { min_rate = 1.0 }"), encoding="utf-8")
    assert main(["gate", "--runs", "t"]) == 0  # of a folder, not named
    assert main(["gate", "--runs", "t/a.jsonl", "--runs", "t/log.json"]) == 3


@pytest.mark.parametrize("how", HIDDEN)
@pytest.mark.parametrize("text", ["new", "base"])
def test_failing_runs_that_are_hidden_fail(based: Path, how: str, text: str) -> None:
    settings = f"{policy(DROP)}[limits]\nline_bytes = 2000\ndepth = 100\n"
    Path("stepscope.toml").write_text(settings, encoding="utf-8")
    same = {
        name: [r.replace("new:", f"{text}:") for r in lines] for name, lines in HIDDEN[how].items()
    }
    write("t", same)
    assert main(["gate", "--runs", "t", "--undecided", "pass"]) == 3


@pytest.mark.parametrize(
    ("files", "more"),
    [
        ({"a.jsonl": runs()}, ""),
        ({"a.jsonl": runs("base")}, ""),
        ({"a.jsonl": [*runs("base")[:-3], *runs()[-3:]]}, ""),
        ({"a.jsonl": runs(), "README.md": ["# Traces", "{not one}"]}, ""),
        ({"a.jsonl": [*runs(), *(line(c, 9) for c in CASES)]}, ""),
        ({"a.jsonl": [*runs("base"), *(line(c, 9) for c in CASES)]}, ""),
        ({"a.jsonl": [*runs(), line(99, 0)]}, ""),
        ({"a.jsonl": [*runs("base"), *runs()]}, ""),
        ({"a.jsonl": [line(c, 0) for c in CASES]}, "--trials 1"),
        (
            {"a.jsonl": [line(c, n) for c in CASES[:9] for n in TRIALS]},
            " ".join(f"--cases c{c}" for c in CASES[:9]),
        ),
    ],
)
def test_what_lacks_nothing_passes(based: Path, files: Files, more: str) -> None:
    write("t", files)
    assert main(["gate", "--runs", "t", *more.split()]) == 0


@pytest.mark.parametrize(
    "gate",
    [
        DROP,
        'outcome = { max_drop = 0.05, rule = "proof" }',
        "outcome = { min_rate = 0.75 }",
        "outcome = { min_rate = 1.0 }",
        "no_errors = { max_per_run = 0 }",
        "recovery = { min_rate = 1.0 }",
        "steps.p95 = { max_per_run = 60, severity = 'hard' }",
        "efficiency.steps = { max_per_run = 9, max_drop = 0.05 }",
        "step_efficiency = { max_ratio_to_baseline_median = 1.3 }",
        "termination = { max_rate = 0.25, label = 'limit' }",
        "termination = { max_drop = 0.1 }",
    ],
)
def test_every_gate_counts_what_is_missing_at_its_worst_and_says_so(
    based: Path, capsys: pytest.CaptureFixture[str], gate: str
) -> None:
    Path("stepscope.toml").write_text(policy(gate), encoding="utf-8")
    done("baseline update --yes")
    write("t", {"a.jsonl": runs()})
    assert main(["gate", "--runs", "t", "--undecided", "pass"]) == 0
    write("t", {"a.jsonl": PASSING})
    code, workflow = decided(capsys, "--undecided", "pass")
    (asked,) = workflow["gates"]
    assert (code, workflow["absent"]) == (3, "at their worst: 24 missing trials")
    assert workflow["absent"] in asked["reason"]
    assert (asked["n_runs"], asked["n_failing"]) == (24, 12)


UNREAD = "outcome = { min_rate = 1.0 }"
ERRORS = "no_errors = { max_per_run = 0 }"


@pytest.mark.parametrize(
    ("more", "files", "code"),
    [
        ("", {"a.jsonl": [*runs(), CUT[0]]}, 3),
        ("", {"a.jsonl": [line(0, 0, workflow="v"), CUT[0]], "b.jsonl": runs()}, 3),
        ("", {"a.jsonl": runs(), "notes.txt": ["half a {"]}, 0),
        ("", {"a.jsonl": PASSING}, 0),
        ("trials = 4", {"a.jsonl": runs()}, 0),
        ("trials = 4", {"a.jsonl": PASSING}, 3),
        ("trials = 2", {"a.jsonl": PASSING}, 0),
    ],
)
def test_without_a_baseline_each_unread_record_counts_once(
    based: Path, more: str, files: Files, code: int
) -> None:
    Path("stepscope.toml").write_text(policy(UNREAD, more), encoding="utf-8")
    write("t", files)
    assert main(["gate", "--runs", "t"]) == code
    done("import t --store s.db", "score --store s.db")
    assert main(["gate", "--store", "s.db"]) == code


def test_unread_records_are_proof_against_a_rate_as_failing_runs_are(based: Path) -> None:
    gate = policy("outcome = { min_rate = 0.75 }", "")
    Path("stepscope.toml").write_text(gate, encoding="utf-8")
    for files in ([*PASSING, *FAILING], [*PASSING, *CUT]):
        write("t", {"a.jsonl": files})
        assert main(["gate", "--runs", "t", "--undecided", "pass"]) == 3


def test_an_unread_record_stands_for_a_missing_trial_and_for_no_more(
    based: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kept, said in ((46, "2 missing trials"), (47, "1 missing trial, 1 unread record")):
        write("t", {"a.jsonl": [*runs()[:kept], *CUT[:2]]})
        assert decided(capsys)[1]["absent"] == f"at their worst: {said}"


@pytest.mark.parametrize("text", ["new", "base"])
@pytest.mark.parametrize(
    "files",
    [
        {"a.jsonl": [*PASSING, *CUT]},
        {"a.jsonl": CUT, "b.jsonl": PASSING},
        {"a.jsonl": [PASSING[0], *CUT], "b.jsonl": PASSING},
        {"a.jsonl": PASSING},
    ],
)
def test_a_store_that_holds_them_as_set_aside_fails(based: Path, text: str, files: Files) -> None:
    same = {name: [r.replace("new:", f"{text}:") for r in lines] for name, lines in files.items()}
    write("t", same)
    done("import t", "score")
    assert main(["gate"]) == 3


@pytest.mark.parametrize("erased", ["--older-than 0d", "--where \"task = 'c0'\""])
def test_what_is_erased_takes_no_unread_record_with_it(based: Path, erased: str) -> None:
    Path("stepscope.toml").write_text(policy("outcome = { min_rate = 1.0 }", ""), encoding="utf-8")
    write("t", {"a.jsonl": [line(0, 1, text="t"), *CUT]})
    write("u", {"c.jsonl": runs()})
    done(*(f"{one} --store n.db" for one in ("import t", "import u", "score")))
    assert main(["gate", "--store", "n.db"]) == 3
    assert main(["purge", "--store", "n.db", "--yes", *shlex.split(erased)]) == 0
    assert main(["gate", "--store", "n.db"]) == 3


CASH = """[[policy]]
name = "no cash"
forbid = "refund"
where = { method = "cash" }
"""


@pytest.mark.parametrize(("most", "code"), [(0, 3), (1, 3), (2, 4), (3, 4)])
def test_a_proved_breach_beside_a_call_that_cannot_be_read_stays_one(
    based: Path, most: int, code: int
) -> None:
    given = ['{"method": "cash"}', '{"method": "cash", "usd": 1}', '{"method": ']
    made = [
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": str(n),
                    "type": "function",
                    "function": {"name": "refund", "arguments": text},
                }
            ],
        }
        for n, text in enumerate(given)
    ]
    gate = policy(f"policy = {{ max_per_run = {most} }}", "")
    Path("stepscope.toml").write_text(gate + CASH, encoding="utf-8")
    write("t", {"a.jsonl": [line(0, 1, messages=made)]})
    assert main(["gate", "--runs", "t"]) == code


def test_the_baseline_s_own_file_written_over_fails(based: Path) -> None:
    Path("base.jsonl").write_text("\n".join([*half("base", passed=True), *CUT]), encoding="utf-8")
    done("import base.jsonl", "score")
    assert main(["gate"]) == 3


def test_what_older_or_other_imports_set_aside_changes_nothing(based: Path) -> None:
    Path("stepscope.toml").write_text(policy(f"{DROP}\n{ERRORS}"), encoding="utf-8")
    other = [line(case, 0, text="old", workflow="v") for case in CASES]
    write("old", {"a.jsonl": [*other, *CUT]})
    write("t", {"a.jsonl": runs()})
    write("later", {"a.jsonl": [*(r.replace("old:", "later:") for r in other), *CUT]})
    done("import old", "import t", "import later", "score", "gate")
    done("import old", "gate")


def test_a_record_that_a_later_import_of_its_file_reads_is_not_unread(based: Path) -> None:
    Path("stepscope.toml").write_text(policy(f"{DROP}\n{ERRORS}"), encoding="utf-8")
    write("t", {"a.jsonl": [*runs()[:-1], runs()[-1][:-3]]})
    done("import t", "score")
    assert main(["gate"]) == 3
    write("t", {"a.jsonl": runs()})
    done("import t", "score")
    assert main(["gate"]) == 0


def test_a_session_that_has_grown_is_one_trial(based: Path) -> None:
    def sessions(text: str) -> list[str]:
        ids = [(case, n, f"{text} {case} {n}") for case in CASES for n in TRIALS]
        grown = [
            {"role": "user", "content": "do it"},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "more"},
        ]
        return [
            line(case, n, run_id=name, messages=grown[:size])
            for case, n, name in ids
            for size in (2, 3)
        ]

    write("b", {"a.jsonl": sessions("base")})
    done("import b", "score", "baseline update --yes --where steps=3")
    write("t", {"a.jsonl": sessions("new")})
    assert main(["gate", "--runs", "t"]) == 0


def test_hiding_the_failures_in_every_rerun_fails(
    based: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for look, text in enumerate(("new", "again", "once more"), 1):
        write("t", {"a.jsonl": half(text, passed=True)})
        code, workflow = decided(capsys, "--commit", "c")
        said = f"at their worst: {24 * look} missing trials"
        assert (code, workflow["n_runs"], workflow["absent"]) == (3, 24 * look, said)
    write("t", {"a.jsonl": runs("whole")})
    assert decided(capsys, "--commit", "c")[0] == 0


def test_runs_of_the_baseline_fill_no_place_of_new_ones_and_dilute_nothing(
    based: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("t", {"a.jsonl": [*runs("base"), *PASSING, *FAILING]})
    code, workflow = decided(capsys)
    assert (code, workflow["n_runs"], workflow["absent"]) == (3, 48, "")


def test_sessions_without_a_task_are_no_cases_that_could_come_back(based: Path) -> None:
    def sessions(text: str) -> list[str]:
        return [line(0, at, text=text, task_id=None, run_id=f"{text} {at}") for at in range(48)]

    Path("stepscope.toml").write_text(policy(f"{UNREAD}\n{ERRORS}"), encoding="utf-8")
    write("b", {"a.jsonl": sessions("base")})
    done("import b --store s.db", "score --store s.db", "baseline update --yes --store s.db")
    write("t", {"a.jsonl": sessions("new")})
    assert main(["gate", "--runs", "t"]) == 0


def test_a_named_file_that_cannot_be_read_counts_as_one_record(
    based: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.toml").write_text(policy(UNREAD, ""), encoding="utf-8")
    write("t", {"a.jsonl": runs(), "b.jsonl": ["x" + FAILING[0]]})
    assert main(["gate", "--runs", "t/b.jsonl"]) == 2
    assert main(["gate", "--runs", "t/a.jsonl", "--runs", "nowhere.jsonl"]) == 2
    capsys.readouterr()
    assert main(["gate", "--runs", "t/b.jsonl", "--runs", "t/a.jsonl"]) == 3
    shown = capsys.readouterr().out
    assert "at their worst: 1 unread record" in shown
    assert "t/b.jsonl: no known trace" in shown


def test_a_narrower_design_is_said_in_every_line_and_comment(
    based: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = "declared: 12 of the baseline's 12 cases, 12 of its 48 trials"
    settings = policy(DROP, 'baseline = "base.json"\ntrials = 1')
    for text, more in ((policy(DROP), ["--trials", "1"]), (settings, [])):
        Path("stepscope.toml").write_text(text, encoding="utf-8")
        write("t", {"a.jsonl": [line(case, 0) for case in CASES]})
        for form in ("--json", "--junit", "--markdown"):
            capsys.readouterr()
            assert main(["gate", "--runs", "t", form, *more]) == 0
            shown = capsys.readouterr().out.replace("&#58;", ":").replace("&#x27;", "'")
            assert declared in shown.replace("&apos;", "'").replace("&#39;", "'")
    Path("stepscope.toml").write_text(settings.replace("= 1", "= 0"), encoding="utf-8")
    assert main(["gate", "--runs", "t"]) == 2


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("{")])
def test_runs_that_are_missing_leave_a_baseline_that_cannot_be_read_code_4(
    based: Path, change: Callable[[Path], object]
) -> None:
    change(Path("base.json"))
    write("t", {"a.jsonl": [*PASSING, *CUT]})
    assert main(["gate", "--runs", "t"]) == 4


@pytest.mark.parametrize("more", [["--cases", "c99"], ["--cases", ""], ["--trials", "1000000"]])
def test_a_design_that_nobody_could_have_run_is_a_mistake(based: Path, more: list[str]) -> None:
    write("t", {"a.jsonl": PASSING})
    assert main(["gate", "--runs", "t", *more]) == 2


def test_a_new_case_may_be_declared_and_must_have_been_run(based: Path) -> None:
    write("t", {"a.jsonl": [*runs(), *(line(99, n) for n in TRIALS)]})
    assert main(["gate", "--runs", "t", "--cases", "c99", "--cases", "c1"]) == 0


def test_a_baseline_or_log_that_would_not_end_is_not_waited_for(based: Path) -> None:
    write("t", {"a.jsonl": runs()})
    os.mkfifo("looks.json")
    assert main(["gate", "--runs", "t", "--commit", "abc"]) == 5
    Path("base.json").unlink()
    os.mkfifo("base.json")
    assert main(["gate", "--runs", "t"]) == 5
