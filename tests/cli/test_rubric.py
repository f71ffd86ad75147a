"""Evaluation sets are judged by locked rubrics alone, or marked; test sets are consumed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stepscope.cases.files import load_cases
from stepscope.cases.split import draw_split, freeze
from stepscope.cli.main import main
from stepscope.judges.lock import read_lock, write_lock
from stepscope.store import Store
from tests.cli.test_judge import KEYS, SETTINGS, A
from tests.faults.providers import Threaded, serving
from tests.faults.script import Script

AXIS = "axes.termination"
JUDGE = ["judge", "--judge", A, "--rubric", AXIS, "--store", "good.db"]


@pytest.fixture
def provider(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Threaded]:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)
    corpus = workspace / "held.jsonl"
    rows = [f'{{"workflow": "airline", "task": "{task}"}}' for task in (5, 9, 11, 14)]
    corpus.write_text("\n".join(rows), encoding="utf-8")
    freeze(draw_split(load_cases(corpus), share=0.25), corpus)
    with serving(Script(answer="quoting")) as serves:
        settings = SETTINGS.format(base=serves.base)
        settings += '[workflow.airline]\ncases = "held.jsonl"\n'
        (workspace / "stepscope.toml").write_text(settings, encoding="utf-8")
        yield serves


@pytest.fixture
def held(provider: Threaded) -> str:
    """The where of the runs of the held-out task."""
    from stepscope.cases.split import load_split

    split = load_split(Path("held.jsonl"))
    assert split is not None
    ((_, task),) = split.tasks("held_out")
    return f"task = '{task}'"


def versions() -> set[str]:
    with Store.open("good.db") as store:
        return {one.version for one in store.records(measure=f"judge.{AXIS}")}


def test_an_evaluation_set_is_not_judged_by_an_unlocked_rubric(
    provider: Threaded, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*JUDGE, "--where", held]) == 2
    said = capsys.readouterr().err
    assert "4 runs of an evaluation set (held out of held.jsonl, " in said
    assert f"rubric {AXIS} not locked: lock it first (stepscope rubric lock {AXIS})" in said
    assert provider.asked == []
    # Near miss: runs of the other part.
    assert main([*JUDGE, "--where", f"not {held} and task in ('5', '9', '11', '14')"]) == 0
    assert versions() == {"2"}


def test_a_locked_rubric_judges_it_and_the_test_set_is_consumed(
    provider: Threaded, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rubric", "lock", AXIS, "--store", "good.db"]) == 0
    assert main([*JUDGE, "--where", held]) == 0
    entry = read_lock(Path()).get(AXIS)
    assert entry is not None
    assert [(one.version, one.runs) for one in entry.tests] == [("2", 4)]
    assert versions() == {"2"}
    assert main(["rubric", "list", AXIS]) == 0
    assert "locked; tuned on 0 runs; test sets consumed: held out of held.jsonl, " in (
        capsys.readouterr().out
    )


def test_allow_unlocked_marks_every_record(provider: Threaded, held: str) -> None:
    assert main([*JUDGE, "--where", held, "--allow-unlocked"]) == 0
    assert versions() == {"2+unlocked"}
    assert not Path("rubrics.lock").exists()
    # The same question is not paid for twice once the rubric is locked.
    asked = len(provider.asked)
    assert main(["rubric", "lock", AXIS, "--store", "good.db"]) == 0
    assert main([*JUDGE, "--where", held]) == 0
    assert len(provider.asked) == asked
    assert versions() == {"2", "2+unlocked"}


def test_a_rubric_that_changed_since_it_was_locked_consumes_no_test_set(
    provider: Threaded, held: str
) -> None:
    assert main(["rubric", "lock", AXIS]) == 0
    entry = read_lock(Path()).get(AXIS)
    assert entry is not None
    other = replace(entry, prompt="0" * 16)
    write_lock(Path(), read_lock(Path()).put([other]))
    assert main([*JUDGE, "--where", held]) == 2
    assert main([*JUDGE, "--where", held, "--allow-unlocked"]) == 0
    assert versions() == {"2+unlocked"}
    assert read_lock(Path()).get(AXIS) == other


def test_runs_with_the_tag_evaluation_are_a_test_set(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
    Path("stepscope.toml").write_text(SETTINGS.format(base=provider.base), encoding="utf-8")
    tagged = ["--store", "good.db", "--where", "task = '11' and tag.evaluation = 'june'"]
    assert main(["import", str(runs), "--tag", "evaluation=june", "--store", "good.db"]) == 0
    assert main(["judge", "--judge", A, "--rubric", AXIS, *tagged]) == 2
    assert "(tag evaluation=june)" in capsys.readouterr().err


def test_a_lock_edited_by_hand_stops_judging(
    provider: Threaded, held: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rubric", "lock", AXIS, "--store", "good.db"]) == 0
    lock = Path("rubrics.lock")
    lock.write_text(lock.read_text("utf-8").replace('"version": "2"', '"version": "1"'), "utf-8")
    assert main([*JUDGE, "--where", held]) == 2
    assert "rubrics.lock was edited by hand" in capsys.readouterr().err
    assert provider.asked == []


def test_history_of_a_rubric_that_nobody_answered_is_unmeasured(
    workspace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rubric", "history", AXIS, "--store", "good.db"]) == 4
    assert f"{AXIS}: versions 2" in capsys.readouterr().out
    assert main(["rubric", "lock", AXIS]) == 0
    words = ["rubric", "adopt", AXIS, "--old", "a/b", "--new", "a/c", "--store", "good.db"]
    assert main(words) == 2
    assert "a/b did not answer under version any: no answers of it" in capsys.readouterr().err


def test_drift_asks_fixed_runs_again_and_says_whether_the_judge_has_shifted(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.toml").write_text(SETTINGS.format(base=provider.base), encoding="utf-8")
    assert main([*JUDGE, "--drift", "20"]) == 2
    assert "0 runs to ask about again" in capsys.readouterr().err
    assert main(["calibrate", "drift", "--store", "good.db"]) == 4
    assert main(JUDGE) == 0
    asked = len(provider.asked)
    assert asked == 20
    assert main([*JUDGE, "--drift", "20"]) == 0
    assert main([*JUDGE, "--drift", "20"]) == 0
    assert len(provider.asked) == 3 * asked
    with Store.open("good.db") as store:
        repeats = {one.repeat for one in store.records(measure=f"judge.{AXIS}")}
    assert repeats == {0, 1000, 1001}
    capsys.readouterr()
    assert main(["calibrate", "drift", "--store", "good.db"]) == 0
    out = capsys.readouterr().out
    assert "local/claude-a, axes.termination, occasion 2, 20 runs: no shift is shown" in out
    assert main([*JUDGE, "--drift", "20", "--again"]) == 2
    assert main(["judge", "--judge", A, "--rubric", "no_look", "--drift", "20"]) == 2


def test_bias_asks_runs_with_one_thing_changed_and_says_whether_the_judge_leans(
    provider: Threaded, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("stepscope.toml").write_text(SETTINGS.format(base=provider.base), encoding="utf-8")
    assert main([*JUDGE, "--bias", "20"]) == 2
    assert "0 runs to ask about again" in capsys.readouterr().err
    assert main(["calibrate", "bias", "--store", "good.db"]) == 4
    assert "stepscope judge --bias 100 asks" in capsys.readouterr().out
    assert main(JUDGE) == 0
    assert len(provider.asked) == 20
    for _ in range(2):  # the second time nothing is bought
        assert main([*JUDGE, "--bias", "20"]) == 0
        assert len(provider.asked) == 4 * 20
    with Store.open("good.db") as store:
        repeats = {one.repeat for one in store.records(measure=f"judge.{AXIS}")}
    assert repeats == {0, 1_000_000, 1_000_001, 1_000_002}
    capsys.readouterr()
    assert main(["calibrate", "bias", "--store", "good.db"]) == 4
    out = capsys.readouterr().out
    assert "local/claude-a, axes.termination, longer: about " in out
    assert out.count("of 20 pairs ") == 3
    assert main(["calibrate", "drift", "--store", "good.db"]) == 4
    assert main([*JUDGE, "--bias", "20", "--again"]) == 2
    assert main([*JUDGE, "--bias", "20", "--drift", "20"]) == 2
    assert main([*JUDGE, "--bias", "20", "--repeat", "2"]) == 2
    assert main(["judge", "--judge", A, "--rubric", "no_look", "--bias", "20"]) == 2
