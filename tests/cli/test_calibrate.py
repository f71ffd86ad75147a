"""`stepscope calibrate judge` and `labels`: what they print, exit codes, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.cli.main import main
from stepscope.model import Label
from stepscope.store import Store
from tests.calibrate.made import whole
from tests.factories import agent, run

AXIS = "axes.termination"
# A third fail; the judge misses every tenth run, as often on either side.
PEOPLE = ["incorrect" if at % 3 == 0 else "correct" for at in range(180)]
JUDGE = [
    {"incorrect": "correct", "correct": "incorrect"}[said]
    if at % 20 in (0, 1) and at < 40
    else said
    for at, said in enumerate(PEOPLE)
]


@pytest.fixture
def labelled(tmp_path: Path) -> str:
    """A store of 180 runs that a judge judged and one person labelled."""
    path = tmp_path / "labelled.db"
    with Store.open(path) as made:
        made.put(
            run(agent("x"), id=f"r{at}", name=f"shop/{at}/0", task=str(at)) for at in range(180)
        )
        made.append(whole("openai/a", JUDGE))
        made.append_labels(
            Label(
                trajectory=f"r{at}", measure=f"judge.{AXIS}", annotator="ana", label=said,
                queue="uniform", probability=0.5,
            )
            for at, said in enumerate(PEOPLE)
        )  # fmt: skip
    return str(path)


def test_a_judge_is_held_against_people(labelled: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "judge", "--store", labelled]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{AXIS} 1   openai/a   against ana   180 runs\n")
    assert "  Protocol: passes. 180 labels; bias" in shown
    assert main(["calibrate", "judge", "--store", labelled, "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)["judges"]
    assert one["figures"]["accuracy"]["value"] == pytest.approx(176 / 180)
    assert one["decision"]["outcome"] == "pass"


def test_a_judge_without_labels_is_unmeasured_and_another_rubric_is_refused(
    labelled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "judge", "--store", labelled, "--rubric", "axes.planning"]) == 2
    assert "rated rubrics: axes.termination" in capsys.readouterr().err
    path = tmp_path / "judged.db"
    with Store.open(path) as made:
        made.put([run(agent("x"), id="r0")])
        made.append(whole("openai/a", ["correct"]))
    assert main(["calibrate", "judge", "--store", str(path)]) == 4
    assert "Nothing to compare: no run here" in capsys.readouterr().out


def test_labels_of_the_store_and_of_a_file_say_what_they_decide(
    labelled: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "labels", "--store", labelled]) == 0
    assert capsys.readouterr().out.startswith(f"{AXIS}: 180 labels of 180 items by 1 person.\n")
    file = tmp_path / "more.csv"
    # The same as before by another person, of whom two rows are of no run and of no label.
    rows = ["run,who,label", *(f"r{at},ben,correct" for at in range(30)), "r999,ben,correct"]
    file.write_text("\n".join([*rows, "r31,ben,perhaps"]), encoding="utf-8")
    asked = ["calibrate", "labels", str(file), "--rubric", AXIS, "--store", labelled]
    assert main([*asked, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["labels"], found["refused"]) == (30, 2)
    assert "No rate from 30 of unknown probability" in found["said"][1]
    # Nothing of the file was stored.
    with Store.open(labelled) as store:
        assert {label.annotator for label in store.labels()} == {"ana"}


def test_a_rubric_without_a_file_is_refused(
    labelled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", "labels", "--rubric", AXIS, "--store", labelled]) == 2
    assert "--rubric and --rater are for a FILE" in capsys.readouterr().err
