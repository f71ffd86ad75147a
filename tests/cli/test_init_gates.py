"""`stepscope init` on runs: gates that load, decide, and say what they would catch."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from stepscope.cli.main import main
from stepscope.model import Trajectory
from stepscope.settings import load_settings
from stepscope.store import Store
from tests.cli.conftest import RUNS
from tests.factories import FAILED, PASSED, agent, did, run, user

BASELINE = Path("baselines/airline.json")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def made(n: int, *, workflow: str = "shop", **fields: object) -> Iterator[Trajectory]:
    """Yield runs of tasks of their own, every fifth of which fails."""
    for at in range(n):
        one = run(
            user("go"), *did("pay", amount=at), agent("done"), task=str(at),
            id=f"{workflow}{fields}{at}".encode().hex(), name=f"{workflow}/{at}",
            outcome=PASSED if at % 5 else FAILED,
        )  # fmt: skip
        yield msgspec.structs.replace(one, workflow=workflow, **fields)


def put(*groups: Iterator[Trajectory]) -> None:
    with Store.open("stepscope.db") as store:
        for group in groups:
            store.put(group)


def section(workflow: str = "shop") -> str:
    return Path("stepscope.toml").read_text("utf-8").partition(f"[workflow.{workflow}]")[2]


def test_gates_are_written_that_run_and_the_power_beside_them_is_what_gate_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["import", str(RUNS), "--agent", "gpt-4o"]) == 0
    assert main(["init", "--yes"]) == 0
    assert "gates   airline: outcome, no_new_modes, step_efficiency" in capsys.readouterr().out
    (policy,) = load_settings(".").policies
    assert [gate.name for gate in policy.gates] == ["outcome", "no_new_modes", "step_efficiency"]
    comments = re.findall(r"^# (.* would be detected.*)$", section("airline"), re.MULTILINE)
    assert len(comments) == 3
    capsys.readouterr()
    assert main(["gate", "--json"]) == 0
    gates = json.loads(capsys.readouterr().out)["report"]["workflows"][0]["gates"]
    for comment, gate in zip(comments, gates, strict=True):
        assert gate["outcome"] == "pass"
        assert gate["reason"].endswith(comment)


def test_worse_runs_fail_the_written_gates_and_the_same_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(made(60))
    assert main(["init", "--yes"]) == 0
    worse = [msgspec.structs.replace(one, outcome=FAILED) for one in made(60)]
    with Store.open("worse.db") as store:
        store.put(msgspec.structs.replace(one, id=f"{one.id}00") for one in worse)
    assert main(["score", "--store", "worse.db"]) == 0
    assert main(["gate", "--store", "worse.db"]) == 3
    assert main(["gate"]) == 0


def test_what_cannot_decide_on_so_few_runs_is_left_out_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put(made(3))
    assert main(["init", "--yes"]) == 0
    assert "no gate can decide yet for shop" in capsys.readouterr().out
    assert tomllib.loads(Path("stepscope.toml").read_text("utf-8")).get("workflow") is None
    assert re.search(r"^# outcome = .*  # not yet: ", section(), re.MULTILINE)
    assert not Path("baselines").exists()
    assert load_settings(".").policies == ()


def test_runs_without_an_outcome_have_no_gate_on_it() -> None:
    put(msgspec.structs.replace(one, outcome=type(one.outcome)()) for one in made(60))
    assert main(["init", "--yes"]) == 0
    (policy,) = load_settings(".").policies
    assert "outcome" not in [gate.name for gate in policy.gates]
    assert "step_efficiency" in [gate.name for gate in policy.gates]
    assert "outcome" not in section().replace("# What", "")


def test_of_several_versions_the_one_with_most_runs_makes_the_baseline() -> None:
    put(made(40, agent="a", agent_version="1"), made(60, agent="a", agent_version="2"))
    assert main(["init", "--yes"]) == 0
    text = Path("stepscope.toml").read_text("utf-8")
    assert "# What later runs are compared with: 60 runs of 60 tasks of a 2.\n" in text
    assert json.loads(Path("baselines/shop.json").read_text("utf-8"))["n_runs"] == 60
    assert main(["gate"]) in (0, 3, 4)


def test_a_baseline_that_is_there_is_kept_and_compared_with() -> None:
    put(made(60))
    assert main(["init", "--yes"]) == 0
    before = Path("baselines/shop.json").read_bytes()
    put(made(80, agent="b"))
    assert main(["init", "--yes", "--force"]) == 0
    assert Path("baselines/shop.json").read_bytes() == before
    assert "compared with: 60 runs" in Path("stepscope.toml").read_text("utf-8")


def test_a_file_in_the_place_of_a_baseline_is_not_overwritten() -> None:
    put(made(60))
    Path("baselines").mkdir()
    Path("baselines/shop.json").write_text("mine", encoding="utf-8")
    assert main(["init", "--yes"]) == 0
    assert Path("baselines/shop.json").read_text("utf-8") == "mine"
    assert main(["gate"]) == 4


@pytest.mark.parametrize(
    ("workflow", "baseline"),
    [
        ("a.b c", r"a-b-c-\w{6}\.json"),
        ('x"]\n[gate]\ntier = ["all"]', r"x-gate-tier-all-\w{6}\.json"),
        ("../../etc/passwd", r"etc-passwd-\w{6}\.json"),
        ("\x1b[31m\u202e", r"31m-\w{6}\.json"),
        ("it's", r"it-s-\w{6}\.json"),
        ("é", r"runs-\w{6}\.json"),
    ],
)
def test_a_workflow_of_any_name_gives_settings_that_load_and_a_file_in_the_folder(
    workflow: str, baseline: str, capsys: pytest.CaptureFixture[str]
) -> None:
    put(made(60, workflow=workflow))
    assert main(["init", "--yes"]) == 0
    assert not re.search("[\x1b\u202e]", capsys.readouterr().out)
    assert not re.search("[\x1b\u202e]", Path("stepscope.toml").read_text("utf-8"))
    (policy,) = load_settings(".").policies
    assert policy.workflow == workflow
    (written,) = Path("baselines").iterdir()
    assert re.fullmatch(baseline, written.name)
    assert main(["gate"]) == 0


def test_a_workflow_whose_name_is_a_secret_is_not_written() -> None:
    secret = "sk-proj-" + "aB3dE5gH" * 5
    put(made(60, workflow=secret), made(60))
    assert main(["init", "--yes"]) == 0
    assert secret not in Path("stepscope.toml").read_text("utf-8")
    assert [policy.workflow for policy in load_settings(".").policies] == ["shop"]
