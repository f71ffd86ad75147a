"""The action and the example workflows, run as GitHub documents that it runs them.

A step is `bash --noprofile --norc -eo pipefail SCRIPT` with its own environment; inputs are put in
before. What GitHub reads back: GITHUB_OUTPUT (heredocs), GITHUB_STEP_SUMMARY, GITHUB_PATH, the log.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from stepscope.cli.main import main
from tests.faults.providers import serving
from tests.faults.script import Script
from tests.gates.detours import JUDGE, SETTINGS, recorded

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / "action.yml"
WORKFLOWS = sorted((ROOT / "examples" / "workflows").glob("github-*.yml"))
DEEP_WORKFLOW = ROOT / "examples" / "workflows" / "github-deep.yml"
RUNS = ROOT / "examples" / "airline" / "runs.json"
GATES = "[workflow.airline.gates]\nloops = {{ max_per_run = {} }}\n"
HOSTILE = "\n::error::x ##[add-mask]y @team Fixes #1 ``` <b> \x1b[2J"


def parsed(path: Path) -> Any:  # Any: a YAML document
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps_of(path: Path) -> list[dict[str, Any]]:
    document = parsed(path)
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job["steps"]]


def outputs(path: Path) -> dict[str, str]:
    """Read GITHUB_OUTPUT as the runner does: NAME<<DELIMITER, lines, DELIMITER."""
    found = {}
    lines = iter(path.read_text(encoding="utf-8").split("\n"))
    for line in lines:
        if not line:
            continue
        name, delimiter = line.split("<<")
        assert re.fullmatch(r"[0-9a-f]{32}", delimiter)
        value = []
        while (part := next(lines)) != delimiter:
            value.append(part)
        found[name] = "\n".join(value)
    return found


def commands(log: str) -> list[str]:
    """Return the lines that the runner would obey."""
    obeyed, token = [], None
    for line in log.split("\n"):
        if token is not None:
            token = None if line.strip() == f"::{token}::" else token
        elif line.lstrip().startswith("::stop-commands::"):
            token = line.strip().removeprefix("::stop-commands::")
        elif line.lstrip().startswith("::") or "##[" in line:
            obeyed.append(line)
    assert token is None, "commands stay stopped"
    return obeyed


def run_step(
    step: dict[str, Any], folder: Path, given: dict[str, str], **env: str
) -> subprocess.CompletedProcess[str]:
    declared = {name: one.get("default", "") for name, one in parsed(ACTION)["inputs"].items()}
    inputs = declared | {"commit": "c0ffee", "attempt": "1"} | given
    own = {
        key: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda hit: inputs[hit[1]], value)
        for key, value in step.get("env", {}).items()
        if "inputs." in value
    }
    temp = folder / "runner temp"
    temp.mkdir(exist_ok=True)
    script = folder / "step.sh"
    script.write_text(step["run"], encoding="utf-8")
    files = {f"GITHUB_{n}": str(folder / n) for n in ("OUTPUT", "STEP_SUMMARY", "PATH")}
    for path in files.values():
        Path(path).touch()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    base = {"PATH": path, "HOME": str(folder), "GITHUB_ACTIONS": "true", "CI": "true"}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
        cwd=folder,
        env=base | files | {"RUNNER_TEMP": str(temp)} | own | env,
        capture_output=True,
        text=True,
        check=False,
    )


def gate_step() -> dict[str, Any]:
    return next(step for step in steps_of(ACTION) if step.get("id") == "gate")


@pytest.mark.parametrize(
    ("limit", "runs", "code", "outcome"),
    [
        (9, "runs.json", 0, "pass"),
        (6, "runs.json", 3, "fail"),
        (9, "\nruns.json\n\nruns.json\n", 0, "pass"),
        (9, "no runs.json", 2, "error"),
        (9, "$(touch planted); `touch planted`", 2, "error"),
    ],
)
def test_the_gate_step_says_its_code_and_writes_its_files(
    tmp_path: Path, limit: int, runs: str, code: int, outcome: str
) -> None:
    (tmp_path / "runs.json").write_bytes(RUNS.read_bytes())
    (tmp_path / "stepscope.toml").write_text(GATES.format(limit), encoding="utf-8")
    ran = run_step(gate_step(), tmp_path, {"runs": runs})
    assert ran.returncode == code, ran.stdout + ran.stderr
    said = outputs(tmp_path / "OUTPUT")
    folder = tmp_path / "runner temp" / "stepscope-gate"
    assert said == {"exit-code": str(code), "outcome": outcome, "folder": str(folder)}
    assert not (tmp_path / "planted").exists()
    summary = (tmp_path / "STEP_SUMMARY").read_text(encoding="utf-8")
    assert ("Gates of <code>airline</code>" in summary) is (code != 2)
    assert commands(ran.stdout) == []
    if code != 2:
        assert json.loads((folder / "gate.json").read_text())["exit_code"] == code
        assert (folder / "gate.xml").exists()
        assert [path.name for path in (folder / "comments").iterdir()] == ["001.md"]


DEEP = "no_detours = { max_per_run = 0, source = 'step_labels' }\n"


@pytest.mark.parametrize(
    ("tier", "code"), [("", 0), ("rules", 0), ("rules,step_labels", 4), ("$(touch planted)", 2)]
)
def test_the_tier_says_whose_gates_are_run(tmp_path: Path, tier: str, code: int) -> None:
    (tmp_path / "runs.json").write_bytes(RUNS.read_bytes())
    (tmp_path / "stepscope.toml").write_text(GATES.format(9) + DEEP, encoding="utf-8")
    ran = run_step(gate_step(), tmp_path, {"runs": "runs.json", "tier": tier})
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert not (tmp_path / "planted").exists()


def test_what_a_trace_says_commands_nobody(tmp_path: Path) -> None:
    runs = json.loads(RUNS.read_text(encoding="utf-8"))
    for run in runs:
        run["task_id"] = f"{run['task_id']}{HOSTILE}"
    (tmp_path / "runs.json").write_text(json.dumps(runs), encoding="utf-8")
    (tmp_path / "stepscope.toml").write_text(GATES.format(1), encoding="utf-8")
    ran = run_step(gate_step(), tmp_path, {"runs": "runs.json"})
    assert ran.returncode == 3
    assert "add-mask" in ran.stdout
    assert commands(ran.stdout + ran.stderr) == []
    assert "\x1b" not in ran.stdout
    summary = (tmp_path / "STEP_SUMMARY").read_text(encoding="utf-8")
    assert "add-mask" in summary
    for active in ("@team", "#1", "```", "<b>", "\x1b", "::error"):
        assert active not in summary


def test_the_install_step_takes_what_is_on_the_path_or_installs_by_name(tmp_path: Path) -> None:
    install = steps_of(ACTION)[0]
    assert run_step(install, tmp_path, {}).returncode == 0
    assert (tmp_path / "PATH").read_text() == ""
    tools = tmp_path / "tools"
    tools.mkdir()
    script = (
        '#!/bin/bash\nmkdir -p "$4/bin"\nprintf \'#!/bin/bash\\necho "$@"\\n\' > "$4/bin/python"\n'
    )
    executable(tools / "python3", script + 'chmod +x "$4/bin/python"\n')
    path = f"{tools}:/usr/bin:/bin"
    ran = run_step(install, tmp_path, {"version": "0.1.0"}, PATH=path)
    assert ran.stdout == "-I -m pip install --quiet stepscope==0.1.0\n"
    bin_ = tmp_path / "runner temp" / "stepscope-venv" / "bin"
    assert (tmp_path / "PATH").read_text() == f"{bin_}\n"


def executable(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


# Answers as `gh api` does, from a folder of comments: NUMBER -> body.
GH = """#!{python}
import json, os, pathlib, sys
store = pathlib.Path(os.environ["STORE"])
log = store / "log"
words = sys.argv[2:]
method = words[words.index("--method") + 1] if "--method" in words else "GET"
place = next(word for word in words if word.startswith("repos/"))
log.open("a").write(f"{{method}} {{place}}\\n")
if method == "GET":
    for path in sorted(store.glob("*.body")):
        if path.read_text().startswith(os.environ["MARKER"]):
            print(path.stem)
else:
    body = pathlib.Path(words[words.index("--field") + 1].removeprefix("body=@")).read_text()
    name = place.rsplit("/", 1)[1] if method == "PATCH" else str(100 + len(list(store.iterdir())))
    (store / f"{{name}}.body").write_text(body)
"""


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_comment_is_posted_once_and_then_updated_in_place(tmp_path: Path, path: Path) -> None:
    post = steps_of(path)[-1]
    store, comments, tools = (tmp_path / name for name in ("store", "comments", "tools"))
    for folder in (store, comments, tools):
        folder.mkdir()
    executable(tools / "gh", GH.format(python=sys.executable))
    (comments / "001.md").write_text("<!-- stepscope:gate:a -->\nfirst\n")
    (comments / "002.md").write_text("<!-- stepscope:gate:a%2Db -->\nother\n")
    (comments / "003.md").write_text("@everyone, look here\n")
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "STORE": str(store),
        "REPOSITORY": "o/r",
        "NUMBER": "7",
    }
    for text in ("first", "second"):
        (comments / "001.md").write_text(f"<!-- stepscope:gate:a -->\n{text}\n")
        ran = run_step(post, tmp_path, {}, **env)
        assert ran.returncode == 0, ran.stderr
        assert "comments/003.md was not written by stepscope gate" in ran.stdout
    bodies = sorted(path.read_text() for path in store.glob("*.body"))
    assert bodies == [
        "<!-- stepscope:gate:a -->\nsecond\n",
        "<!-- stepscope:gate:a%2Db -->\nother\n",
    ]
    log = (store / "log").read_text().split("\n")
    assert [line.split()[0] for line in log if line] == ["GET", "POST"] * 2 + ["GET", "PATCH"] * 2


@pytest.mark.parametrize("path", [ACTION, *WORKFLOWS], ids=lambda path: path.name)
def test_scripts_hold_no_expression_and_uses_are_pinned(path: Path) -> None:
    for step in steps_of(path):
        assert "${{" not in step.get("run", "")
        used = step.get("uses", "./")
        assert used.startswith("./") or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", used)
    text = path.read_text(encoding="utf-8")
    assert "pull_request_target" not in text
    assert "://" not in text


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_no_job_reads_traces_and_may_write(path: Path) -> None:
    document = parsed(path)
    assert document["permissions"] == {}
    jobs = document["jobs"]
    assert jobs["gate"]["permissions"] == {"contents": "read"}
    assert jobs["comment"]["permissions"] == {"pull-requests": "write"}
    assert "token" not in json.dumps(jobs["gate"])
    assert "runs:" not in json.dumps(jobs["comment"])
    # The judge's key is in the one step that needs it; without judges there is none.
    holders = [step["name"] for step in steps_of(path) if "secrets" in json.dumps(step)]
    assert holders == (["Judge"] if path == DEEP_WORKFLOW else [])
    assert path.read_text(encoding="utf-8").count("secrets.") == len(holders)


def test_a_pull_request_chooses_no_settings_where_there_is_a_key() -> None:
    jobs = parsed(DEEP_WORKFLOW)["jobs"]
    own, change = [step for step in jobs["gate"]["steps"] if "checkout" in step.get("uses", "")]
    assert "ref" not in own["with"]
    assert change["with"]["path"] == "change"
    assert change["with"]["ref"] == "${{ needs.may.outputs.sha }}"
    assert change["with"]["sparse-checkout"] == "traces"
    named = [step["run"] for step in jobs["gate"]["steps"] if "change" in step.get("run", "")]
    assert named == ["stepscope import change/traces/\nstepscope score\n"]


def test_what_is_commented_is_compared_as_a_whole_and_reaches_no_step() -> None:
    text = DEEP_WORKFLOW.read_text(encoding="utf-8")
    assert text.count("comment.body") == 1
    jobs = parsed(DEEP_WORKFLOW)["jobs"]
    assert "github.event.comment.body == '/eval-deep'" in jobs["may"]["if"]
    assert "github.event.issue.pull_request &&" in jobs["may"]["if"]
    assert jobs["gate"]["needs"] == "may"
    assert "always()" not in jobs["gate"].get("if", "")


ASKED = """#!/bin/bash
echo "$*" >> "$STORE/log"
case "$2" in
  */permission) echo "$PERMISSION" ;;
  *) echo "$HEAD" ;;
esac
"""
SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("number", "permission", "head", "code", "sha"),
    [
        ("7", "write", SHA, 0, SHA),
        ("7", "admin", SHA, 0, SHA),
        ("7", "read", SHA, 1, None),
        ("7", "none", SHA, 1, None),
        ("7", "", SHA, 1, None),
        ("7", "write\nread", SHA, 1, None),
        ("7", "write", "$(touch planted)", 1, None),
        ("", "read", SHA, 0, "f" * 40),
    ],
)
def test_only_who_may_write_has_a_pull_request_judged(
    tmp_path: Path, number: str, permission: str, head: str, code: int, sha: str | None
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    executable(tools / "gh", ASKED)
    ran = run_step(
        next(step for step in steps_of(DEEP_WORKFLOW) if step.get("id") == "may"),
        tmp_path,
        {},
        PATH=f"{tools}:{os.environ['PATH']}",
        STORE=str(tmp_path),
        REPOSITORY="o/r",
        ACTOR="$(touch planted)",
        NUMBER=number,
        NIGHTLY="f" * 40,
        PERMISSION=permission,
        HEAD=head,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    said = (tmp_path / "OUTPUT").read_text(encoding="utf-8")
    assert said == ("" if sha is None else f"sha={sha}\n")
    assert not (tmp_path / "planted").exists()
    assert (tmp_path / "log").exists() is bool(number)


def test_the_nightly_steps_find_planted_detours_with_a_judge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = {step.get("name"): step for step in parsed(DEEP_WORKFLOW)["jobs"]["gate"]["steps"]}
    with serving(Script(answer="exact")) as provider:
        settings = SETTINGS.format(base=provider.base)
        (tmp_path / "stepscope.toml").write_text(settings, encoding="utf-8")

        def judged(name: str, detours: range) -> None:
            (tmp_path / "change" / "traces").mkdir(parents=True)
            shutil.move(recorded(name, detours=detours), tmp_path / "change" / "traces")
            for named in ("Read and score", "Judge"):
                ran = run_step(steps[named], tmp_path, {}, JUDGE=JUDGE)
                assert ran.returncode == 0, ran.stdout + ran.stderr
            shutil.rmtree(tmp_path / "change")

        judged("before", range(0))
        assert main(["baseline", "update", "--yes"]) == 0
        (tmp_path / "stepscope.db").unlink()
        judged("now", range(0, 50, 5))
    given = {
        key: value.replace("${{ needs.may.outputs.sha }}", SHA)
        for key, value in steps["Decide the gates"]["with"].items()
    }
    ran = run_step(gate_step(), tmp_path, given)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    assert "compared with the baseline: drop of 20 points on 50 cases" in ran.stdout
    pr = next(
        s for s in steps_of(WORKFLOWS[1]) if s.get("uses", "") == "./.github/actions/stepscope"
    )
    (tmp_path / "traces").mkdir()
    shutil.move(recorded("now", detours=range(0, 50, 5)), tmp_path / "traces")
    ran = run_step(gate_step(), tmp_path, pr["with"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "not run" in ran.stdout


def test_the_gitlab_job_runs_as_it_stands(tmp_path: Path) -> None:
    jobs = parsed(ROOT / "examples" / "workflows" / "gitlab-ci.yml")
    job = jobs["agent gate"]
    install, line = job["script"]
    assert jobs["agent gate, deep"]["rules"] == [{"if": '$CI_PIPELINE_SOURCE == "schedule"'}]
    assert install == "python -I -m pip install --quiet stepscope"
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "runs.json").write_bytes(RUNS.read_bytes())
    (tmp_path / "stepscope.toml").write_text(GATES.format(6), encoding="utf-8")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "CI_COMMIT_SHA": "c0ffee"}
    ran = subprocess.run(["bash", "-c", line], cwd=tmp_path, env=env, check=False)
    assert ran.returncode == 3
    assert (tmp_path / job["artifacts"]["reports"]["junit"]).exists()
