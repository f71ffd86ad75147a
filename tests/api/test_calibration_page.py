"""The Calibration page: a part for each question, or which command answers it."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.api import calibration
from stepscope.api.calibration import list_calibration
from stepscope.cases.split import draw_split, freeze
from stepscope.gates.settings import WorkflowTable
from stepscope.model import Case, Label, Outcome, Verdict
from stepscope.model.records import BIAS_REPEAT, DRIFT_REPEAT
from stepscope.report.document import Document, EmptyNotice, Table
from stepscope.report.render.pages import make_calibration_page
from stepscope.settings import Settings
from stepscope.store import Store
from tests.calibrate.made import AXIS, said, store
from tests.factories import agent, run, user
from tests.report.test_production import EVALUATION, PRODUCTION, put

JUDGE = "openai/a"
TITLES = [
    "Labels of people", "Judges beside people", "Noise of judges", "Drift of judges",
    "Bias of judges", "Versions of rubrics", "Held-out gap", "Evaluation and production",
]  # fmt: skip


def verdict(bad: bool) -> Verdict:
    return Verdict(f"judge.{AXIS}", label="incorrect" if bad else "correct")


def judged(runs: int = 24, judge: str = JUDGE) -> Store:
    """Return runs that were judged under two versions, again, and by a person, who differs once."""
    made = store(runs)
    for version, repeat in (("1", 0), ("2", 0), ("2", DRIFT_REPEAT)):
        made.append([
            said(judge, n, verdict(n < 8 + (version == "1")), version=version, repeat=repeat,
                 prompt=version * 16, family="openai")
            for n in range(runs)
        ])  # fmt: skip
    made.append([
        said(judge, n, verdict(n < 9), version="2", repeat=BIAS_REPEAT, prompt="b" * 16,
             family="openai")
        for n in range(runs)
    ])  # fmt: skip
    made.append_labels([
        Label(
            trajectory=f"r{n}", measure=f"judge.{AXIS}", annotator="ann", queue="uniform",
            label="incorrect" if n < 7 else "correct", probability=0.5, given_at=n,
        )
        for n in range(runs)
    ])  # fmt: skip
    return made


def cells(part: Document | EmptyNotice, table: int = 0) -> list[list[str]]:
    assert not isinstance(part, EmptyNotice)
    found = [one for section in part for one in section if isinstance(one, Table)]
    return [[cell.text for cell in row.cells] for row in found[table].rows]


def test_an_empty_store_says_what_to_run_for_every_part(tmp_path: Path) -> None:
    with stepscope.open(tmp_path / "runs.db") as notebook:
        text, parts = list_calibration(notebook.store, Settings())
    assert text == "No judge has been compared with people."
    assert list(parts) == TITLES
    for part in parts.values():
        assert isinstance(part, EmptyNotice)
        assert part.commands


def test_judges_are_beside_people_with_their_drift_and_their_versions() -> None:
    with judged() as made:
        text, parts = list_calibration(made, Settings())
    assert text == (
        "1 judge compared with people: 0 accepted, 0 rejected, 1 undecided. "
        "Asked again: 0 of 1 shifted."
    )
    assert ["accuracy", "96 %"] in [row[:2] for row in cells(parts["Judges beside people"])]
    assert cells(parts["Judges beside people"], 1) == [
        ["correct", "16", "1"],
        ["incorrect", "0", "7"],
    ]
    assert [row[:4] for row in cells(parts["Drift of judges"])] == [
        [JUDGE, AXIS, "1", "correct"], [JUDGE, AXIS, "1", "incorrect"],
    ]  # fmt: skip
    assert [row[:5] for row in cells(parts["Versions of rubrics"])] == [
        [AXIS, JUDGE, "1 -> 2", "24", "1 of 24"]
    ]
    assert [row[:5] for row in cells(parts["Bias of judges"])] == [
        [JUDGE, AXIS, "longer", "+4.2 points", "-10 to 18"]
    ]
    labels = parts["Labels of people"]
    assert not isinstance(labels, EmptyNotice)


def test_the_gap_is_of_the_corpora_of_the_settings(tmp_path: Path) -> None:
    cases = [Case(workflow="shop", task=f"t{at}") for at in range(20)]
    corpus = tmp_path / "cases"
    corpus.mkdir()
    split = draw_split(cases, share=0.2)
    freeze(split, corpus)
    held = {task for _, task in split.tasks("held_out")}
    settings = Settings(workflow={"shop": WorkflowTable(cases=str(corpus))})
    with stepscope.open(tmp_path / "runs.db", settings=Settings()) as notebook:
        assert isinstance(list_calibration(notebook.store, settings)[1][TITLES[6]], EmptyNotice)
        notebook.store.put(
            run(
                user(case.task), agent("Done."), id=case.task, name=case.task, task=case.task,
                agent_version="7", outcome=Outcome(status="fail" if case.task in held else "pass"),
            )
            for case in cases
        )  # fmt: skip
        (row,) = cells(list_calibration(notebook.store, settings)[1][TITLES[6]])
        assert isinstance(list_calibration(notebook.store, Settings())[1][TITLES[6]], EmptyNotice)
        (corpus / "split.json").write_text("{}", encoding="utf-8")
        edited = list_calibration(notebook.store, settings)[1][TITLES[6]]
    assert isinstance(edited, EmptyNotice)
    assert "split.json" in edited.said
    assert row[0] == "7"
    assert row[3] == "+100 points"


def test_tagged_runs_of_evaluation_and_production_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Store.open(":memory:") as made:
        put(made, "eval", EVALUATION, tag="evaluation")
        assert isinstance(list_calibration(made, Settings())[1][TITLES[-1]], EmptyNotice)
        put(made, "live", PRODUCTION, tag="production")
        part = list_calibration(made, Settings())[1][TITLES[-1]]
        monkeypatch.setattr(calibration, "MOST_RUNS", 100)
        many = list_calibration(made, Settings())[1][TITLES[-1]]
    rows = {row[0]: row[-1] for row in cells(part)}
    assert rows["early collapse"] == "less"
    assert rows["steady degradation"] == "more"
    assert isinstance(many, EmptyNotice)
    assert many.said == "200 runs are compared by a command, not while a page is opened."


@pytest.mark.parametrize("hidden", [True, False])
def test_a_name_that_holds_a_key_is_hidden_on_the_page(hidden: bool) -> None:
    key = "sk-ant-api03-" + "a1B2" * 10
    with judged(judge=f"openai/{key}") as made:
        made.redact(Settings().redaction.forms, shown=hidden)
        body = make_calibration_page(*list_calibration(made, Settings())).body
    assert (key in body) is not hidden
    assert "Drift of judges" in body
