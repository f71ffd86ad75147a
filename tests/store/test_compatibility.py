"""What the version before the redesign wrote opens, and says the same.

`tests/data/before-house.zip` holds a store, the ledger of its judges, a receiver's journal, a
baseline and settings, written by commit 3d99c86, and what that version then printed as JSON. The
runs are airline runs of tau-bench; their licence is in the archive.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from stepscope.cli.main import main
from stepscope.receive.journal import Journal
from stepscope.store import Store

DATA = Path(__file__).parents[1] / "data" / "before-house.zip"


@pytest.fixture(autouse=True)
def before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with zipfile.ZipFile(DATA) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Where to look is another list since `localise` ranks every step: version 2 of its records. An axis
# that could say correct says nothing of a report of schema 2. Rank flips ask every figure.
CHANGED = {
    "report": {"look_first", "next", "schema", "whole", "profiles", "panels", "rank_flips"},
    "show": {"suspects", "curve"},
}
ADDED = {"report": {"checks", "modes"}, "show": {"because", "nobody", "reliability"}}


# What a report does not cover is said in other words since.
REWORDED = {
    "suspect-step accuracy (": "how often a suspect step is the one that went wrong (",
    "recovery from injected errors (none": "recovery from injected errors (no such errors",
}


@pytest.mark.parametrize(
    ("command", "said"), [("report", "report.json"), ("show 798150564b902c76", "show.json")]
)
def test_an_older_store_says_the_same_but_for_where_to_look(
    before: Path, capsys: pytest.CaptureFixture[str], command: str, said: str
) -> None:
    assert main([*command.split(), "--json"]) == 0
    written = (before / said).read_text("utf-8")
    for old, new in REWORDED.items():
        written = written.replace(old, new)
    now, then = json.loads(capsys.readouterr().out), json.loads(written)
    name = command.split()[0]
    assert now.keys() - then.keys() == ADDED[name]
    kept = then.keys() - CHANGED[name]
    assert {key: now[key] for key in kept} == {key: then[key] for key in kept}
    if name == "show":
        assert now["curve"]["reason"] == "the steps of this run have no scores"


def test_axes_of_an_older_store_give_no_figure_and_all_others_the_same(
    before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--json"]) == 0
    now = json.loads(capsys.readouterr().out)["whole"]
    # Few tasks are said in other words since.
    written = (before / "report.json").read_text("utf-8")
    then = json.loads(re.sub(r"(\d+ tasks): weak", r"weak evidence: only \1", written))["whole"]
    axes = {key for key in now["figures"] if key.startswith("axes.")}
    assert {now["figures"][key]["reason"] for key in axes} == {
        "answers of version 1; run `stepscope score`",
        "answers of version 2; run `stepscope score`",
    }
    # A value of one task is known since, and has no interval.
    recovered, absent = (whole["figures"].pop("errors.recovered") for whole in (now, then))
    assert (recovered["value"], recovered["n_tasks"], recovered["low"]) == (0.0, 1, None)
    assert absent["kind"] == "insufficient_data"
    others = now["figures"].keys() - axes
    # Said otherwise since: a policy in words is recorded, rules are declared.
    then["figures"]["policy.violations"]["reason"] = "no rules in settings"
    # Counts a run have limits of another kind.
    key = "redundant_calls.per_run"
    limits = [whole["figures"][key].pop("high") for whole in (now, then)]
    assert limits[0] == pytest.approx(limits[1], rel=0.25)
    methods = {whole["figures"][key].pop("method") for whole in (now, then)}
    assert len(methods) == 2
    assert {key: now["figures"][key] for key in others} == {
        key: then["figures"][key] for key in others
    }


def test_an_older_store_is_not_ranked_and_names_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["report", "--json"]) == 0
    now = json.loads(capsys.readouterr().out)
    failed = [run for run in now["look_first"] if run["outcome"] == "fail"]
    assert failed
    for run in failed:
        assert run["reliability"].startswith("Not ranked: no record of localise that is current")
        assert {one["share"] for one in run["suspects"]} <= {None}
    assert now["next"][0].startswith("stepscope score")


def test_answers_to_an_older_version_of_a_rubric_stay_beside_those_to_the_new_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The older ledger opens; another wording is another question, bought when it is told to."""
    judges = ["--judge", "quick.py:MINE", "--judge", "quick.py:YOURS"]
    runs = ["--rubric", "axes.termination", "--where", "agent = 'gpt-4o'"]

    def answers() -> dict[str, int]:
        with Store.open("stepscope.db") as store:
            found = Counter(one.version for one in store.records(measure="judge.axes.termination"))
        return dict(found)

    older = answers()
    assert set(older) == {"1"}
    for bought in (r"[1-9]\d* new from judges, 0", r"0 new from judges, [1-9]\d*"):
        assert main(["judge", *judges, *runs, "--again"]) == 0
        assert re.search(f"replies: {bought} from the ledger", capsys.readouterr().out)
    assert answers() == {**older, "2": 12}


def test_an_older_baseline_is_compared_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--where", "agent = 'gpt-4o'"]) in {0, 3, 4}
    assert "baseline.json" not in capsys.readouterr().err


def test_an_older_journal_gives_its_spans(before: Path) -> None:
    with Journal(str(before / "stepscope.db.journal")) as journal:
        (due,) = journal.due(quiet=0, idle=1e9, most=10, room=1_000_000)
        assert len(list(journal.spans(due.trace, due.upto))) == 2
