"""Gates that read a judge: a scripted judge without errors, detours planted, and every tier."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stepscope.cli.main import main
from tests.faults.providers import Threaded, serving
from tests.faults.script import Script
from tests.gates.detours import JUDGE, SETTINGS, recorded


@pytest.fixture
def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Threaded]:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    with serving(Script(answer="exact")) as serves:
        settings = SETTINGS.format(base=serves.base)
        Path("stepscope.toml").write_text(settings, encoding="utf-8")
        yield serves


def stored(name: str, **how: Any) -> None:
    """Import, score and judge runs."""
    assert main(["import", recorded(name, **how), "--agent", name]) == 0
    assert main(["score", "--workers", "1"]) == 0
    chosen = ["--where", f"agent = '{name}'"]
    assert main(["judge", "--judge", JUDGE, "--rubric", "step_labels", *chosen]) == 0


def gated(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["gate", "--json", *words])
    report = json.loads(capsys.readouterr().out)["report"]
    return code, {gate["name"]: gate for gate in report["workflows"][0]["gates"]}


DEEP = ("--tier", "rules,step_labels")


def test_planted_detours_fail_against_a_baseline_without_any(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    stored("before")
    assert main(["baseline", "update", "--yes"]) == 0
    stored("now", detours=range(0, 50, 5))
    code, gates = gated(capsys, *DEEP)
    assert (code, gates["no_detours"]["outcome"]) == (3, "fail")
    reason = gates["no_detours"]["reason"]
    assert reason.startswith("compared with the baseline: drop of 20 points on 50 cases")
    assert "50 runs known to be good (the baseline's passing runs)" in reason
    assert (gates["no_detours"]["failing"][0]["steps"], gates["loops"]["outcome"]) == ([3], "pass")
    # Without the judge's tier nothing of it counts, and settings may say which tier it is.
    code, gates = gated(capsys)
    assert (code, gates["no_detours"]["outcome"]) == (0, "not_run")
    settings = Path("stepscope.toml").read_text(encoding="utf-8")
    Path("stepscope.toml").write_text(f'[gate]\ntier = ["step_labels"]\n{settings}', "utf-8")
    code, gates = gated(capsys)
    assert (code, gates["loops"]["outcome"]) == (3, "not_run")
    # Files have no judge's records.
    code, gates = gated(capsys, "--runs", "now.json")
    assert (code, gates["no_detours"]["cause"]) == (4, "no_verdicts")


def test_planted_detours_fail_a_judge_that_is_known_to_call_no_good_run_bad(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    stored("before", trials=2)
    assert main(["baseline", "update", "--yes"]) == 0
    stored("now", detours=range(1, 50, 5))
    code, gates = gated(capsys, *DEEP)
    assert (code, gates["no_detours"]["outcome"]) == (3, "fail")
    assert gates["no_detours"]["reason"].startswith(
        "10 of 50 runs in breach, 1 may be false alarms (0 of 100 runs known to be good are called "
        "bad: the baseline's passing runs)"
    )


def test_runs_without_detours_pass(provider: Threaded, capsys: pytest.CaptureFixture[str]) -> None:
    stored("before", cases=12)
    assert main(["baseline", "update", "--yes"]) == 0
    stored("now", cases=12)
    code, gates = gated(capsys, *DEEP)
    assert (code, gates["no_detours"]["outcome"]) == (0, "pass")


@pytest.mark.parametrize(
    ("tier", "said"),
    [
        ("rules,step_label", "no gate has the source 'step_label'; did you mean 'step_labels'?"),
        ("", "it names no source; known: rules, step_labels"),
        (" , ", "it names no source"),
        ("rules\x1b[2J", "no gate has the source 'rules\\x1b[2J'"),
    ],
)
def test_a_tier_of_nobody_is_a_mistake(
    provider: Threaded, capsys: pytest.CaptureFixture[str], tier: str, said: str
) -> None:
    assert main(["gate", "--runs", recorded("now", cases=1), "--tier", tier]) == 2
    assert f"--tier: {said}" in capsys.readouterr().err
