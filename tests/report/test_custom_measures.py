"""A measure of the user is seen wherever a built-in one is."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.report.build import build_report
from stepscope.report.rows import is_custom
from stepscope.settings import Settings
from stepscope.values import Estimate
from tests.factories import PASSED, agent, did, run, user
from tests.report.rows import LiteralRows, rows

MEASURES = """
from stepscope.model import Scale, Verdict
from stepscope.values import Unmeasured

class Politeness:
    name, version, scale, learns = "politeness", "1", Scale(low=0, high=9), ()
    def __call__(self, trajectory, case, facts):
        thanks = tuple(s.index for s in trajectory.steps if "thank" in s.text)
        if not trajectory.exchanges:
            return [Unmeasured("not_applicable", "no call", "politeness")]
        tone = "warm @all</script>" if thanks else "cold"
        return [Verdict("politeness", float(len(thanks)), cites=thanks),
                Verdict("politeness.tone", label=tone)]

POLITENESS = Politeness()
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(MEASURES, "utf-8")
    path = tmp_path / "s.db"
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.store.put(
            [
                run(
                    user("hi"), *did("x"), *[agent("thank you")] * (n % 2),
                    id=f"r{n}", name=f"shop/{n}", task=f"{n}", agent="ab"[n // 3], outcome=PASSED,
                )
                for n in range(6)
            ]
            + [run(user("hi"), id="none", name="shop/none", task="9", agent="a")]
        )  # fmt: skip
        notebook.score(workers=1)
        notebook.score(measures=["own.py:POLITENESS"], workers=1)
    return path


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words, "--store", "s.db"]) == 0
    return capsys.readouterr().out


def test_its_mean_and_its_labels_are_in_the_report_on_every_medium(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, "report")
    assert "politeness.tone=cold" in text
    assert "3 of 6 runs" in text
    for medium in ((), ("--markdown",), ("--junit",)):
        assert "politeness" in shown(capsys, "report", *medium)
    assert "</script>" not in shown(capsys, "report", "--markdown")
    figures = json.loads(shown(capsys, "report", "--json"))["whole"]["figures"]
    found = figures["politeness"]
    assert (found["value"], found["n"], found["unmeasured"]) == (0.5, 6, {"not_applicable": 1})
    assert figures["politeness.tone=cold"]["value"] == 0.5
    assert shown(capsys, "report", "--get", "politeness").startswith("politeness  0.50  ")
    shown(capsys, "report", "--html", "r.html")
    page = Path("r.html").read_text("utf-8")
    assert "politeness" in page
    assert "warm @all</script>" not in page
    assert "warm @all</script>" in unescape(page)


def test_its_answer_stands_beside_the_rules_of_a_run(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Own measures  politeness 1 [3]" in shown(capsys, "show", "shop/1")
    assert "Own measures  politeness not_applicable: no call" in shown(capsys, "show", "shop/none")


def test_groups_are_compared_by_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "compare", "a", "b", "--json"))["differences"]
    assert found["politeness"]["first"]["value"] == pytest.approx(1 / 3)


def test_an_export_of_verdicts_has_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    shown(capsys, "export", "ex", "--verdicts", "only", "--format", "parquet")
    assert main(["report", "--store", "ex", "--get", "politeness"]) == 0
    assert capsys.readouterr().out.startswith("politeness  0.50  ")


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("politeness", True),
        ("match", False),
        ("match.f1", False),
        ("matching", True),  # only begins as a built-in one
        ("axes.sequencing", False),
        ("human.label", False),
        ("judge.axes.sequencing", False),
        ("scores", False),
        ("scores.latency_s", False),
    ],
)
def test_what_is_built_in_or_said_by_others_is_not_of_the_user(name: str, *, own: bool) -> None:
    assert is_custom(name) == own


def test_a_measure_that_gives_values_and_labels_has_both() -> None:
    literal = LiteralRows(
        [f"{n}" for n in range(4)],
        values={"tone": [1.0, 3.0, None, None]},
        labels={"tone": [None, None, "warm", "warm"]},
    )
    figures = build_report(rows(literal)).whole.figures
    mean, share = figures["tone"], figures["tone=warm"]
    assert isinstance(mean, Estimate)
    assert isinstance(share, Estimate)
    assert (mean.value, mean.n, share.value, share.n) == (2.0, 2, 0.5, 4)
    assert mean.unmeasured == {"no_number": 2}
