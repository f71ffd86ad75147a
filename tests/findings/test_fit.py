"""The ranking refitted on the labels of a store: when, how it is compared, and where it is kept."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

import stepscope
from stepscope.api import Notebook
from stepscope.cli.main import main
from stepscope.errors import ConfigError
from stepscope.findings.fit import (
    FEWEST_RUNS,
    LabelledRun,
    fit_store,
    fit_weights,
    measure_suspects,
    named_steps,
    read_labelled,
)
from stepscope.findings.ranking import fit_path, read_fit
from stepscope.model import Record, TraceLabel, Trajectory, Verdict
from stepscope.report.rows import read_table
from stepscope.report.suspects import read_look_first
from stepscope.score import score_runs
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.values import Estimate
from tests.factories import FAILED, agent, did, run, user


def labelled(number: int, at: int | None) -> Trajectory:
    """A failed run of four calls, in which people name one step of the agent."""
    steps = [user(f"order {number}")]
    for call in range(4):
        steps += did("get", "ok", id=f"{number}-{call}")
    label = () if at is None else (TraceLabel(kind="decisive_step", step=at),)
    name = f"shop/{number}/0"
    made = run(*steps, agent("Done."), id=f"{number:032x}", name=name, task=str(number // 2))
    return msgspec.structs.replace(made, outcome=FAILED, labels=label)


def filled(path: Path, count: int, at: int | None) -> Store:
    store = Store.open(path)
    store.put([labelled(number, at) for number in range(count)])
    score_runs(store, workers=1)
    return store


def test_fewer_than_thirty_labels_fit_nothing_and_say_how_many_are_missing(tmp_path: Path) -> None:
    with filled(tmp_path / "few.db", FEWEST_RUNS - 4, 3) as store:
        found = fit_store(store)
    assert (found.runs, found.missing, found.used) == (26, 4, False)
    assert str(found).endswith("4 more are needed, the default ranking is kept")
    assert list(tmp_path.glob("*.localise.json")) == []


def test_labels_of_one_place_are_learned_and_used_in_every_list(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with filled(path, 40, 3) as store:
        before = next(iter(read_look_first(store, read_table(store, None), 1)))
        found = fit_store(store)
        after = next(iter(read_look_first(store, read_table(store, None), 1)))
    assert found.used
    assert found.gain is not None
    assert found.error is not None
    assert found.gain > found.error
    assert (found.shipped_first, found.fitted_first) == (0.0, 1.0)
    assert before.suspects[0].first != 3
    assert after.suspects[0].first == 3
    assert after.nobody == pytest.approx(0.5 / 41, rel=0.05)
    shares = [one.share for one in after.suspects if one.share is not None]
    assert sum(shares) + (after.nobody or 0.0) == pytest.approx(1.0)
    assert main(["calibrate", "localise", "--store", str(path), "--json"]) == 0


def test_labels_that_stand_everywhere_gain_nothing_and_are_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    with Store.open(path) as store:
        store.put([labelled(number, (1, 3, 5, 7, 9)[number * 7 % 5]) for number in range(40)])
        score_runs(store, workers=1)
    assert main(["calibrate", "localise", "--store", str(path), "--json"]) == 4
    assert json.loads(capsys.readouterr().out)["used"] is False
    assert fit_path(str(path)) == Path(f"{path}.localise.json")
    assert read_fit(str(path)) == {}


def test_a_fit_that_cannot_be_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "runs.db.localise.json").write_text('{"calls": 3}', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"runs\.db\.localise\.json' is not a fit .* delete it"):
        read_fit(str(tmp_path / "runs.db"))


def test_people_name_a_step_by_a_label_or_by_a_verdict_and_judges_do_not() -> None:
    made = labelled(1, 5)
    said = Verdict("judge.attribution", label="plan", step=3)
    people = Record(trajectory=made.id, answer=said, version="1", family="human", judge="ann")
    judge = Record(trajectory=made.id, answer=said, version="1", family="x/y", judge="x/y")
    cited = Verdict("judge.attribution", label="plan", cites=(7, 9))
    whole = Record(trajectory=made.id, answer=cited, version="1", family="human", judge="bob")
    assert named_steps(made, [judge]) == [5]
    assert named_steps(made, [judge, people, whole]) == [3, 5, 7]


def test_the_weight_of_the_log_share_is_drawn_to_one() -> None:
    rng = np.random.default_rng(3)
    runs = []
    for number in range(400):
        rows = np.zeros((5, 2))
        rows[:, 0] = np.log(rng.dirichlet(np.ones(5)))
        named = int(rng.choice(5, p=np.exp(2.0 * rows[:, 0]) / np.exp(2.0 * rows[:, 0]).sum()))
        runs.append(LabelledRun(str(number), "calls", rows, named))
    weights, _ = fit_weights(runs)
    few, _ = fit_weights(runs[:10])
    assert weights[0, 0] == pytest.approx(2.0, abs=0.25)
    assert 1.0 < few[0, 0] < weights[0, 0]


@pytest.mark.shared_data
def test_on_the_runs_that_the_shipped_table_was_fitted_on_nothing_is_gained(
    shared: Path, tmp_path: Path
) -> None:
    path = tmp_path / "ww.db"
    with stepscope.open(path) as notebook:
        notebook.add(shared / "whowhen")
        notebook.score(workers=1)
        found = notebook.calibrate_localise()
        beside = notebook.calibrate_judge()["localise"].figures["first"]
    assert isinstance(beside, Estimate)
    assert (beside.value, beside.n) == (found.shipped_first, 89)
    # Of the 90 runs one label stands on the code executor, which is no step of the agent's.
    assert (found.runs, found.missing, found.used) == (89, 0, False)
    assert str(found).startswith(
        "89 failed runs in which people named a step\non tasks not used in"
    )


def test_the_list_of_suspects_stands_beside_people_like_a_judge(tmp_path: Path) -> None:
    with filled(tmp_path / "runs.db", 12, 3) as store:
        runs = list(read_labelled(store))
        figures = measure_suspects(runs)
        view = Notebook(store, Settings()).calibrate_judge()
        one = view["localise"]
        # What the list puts first is not step 3, but it is among the first five of five steps.
        assert (len(runs), one.n, one.rubric) == (12, 12, "attribution")
        first, five = figures["first"], figures["among_five"]
        assert isinstance(first, Estimate)
        assert isinstance(five, Estimate)
        assert (first.value, five.value, first.n_tasks) == (0.0, 1.0, 6)
        assert one.figures == figures
        assert "named step first    0 %" in view.text()
        assert Notebook(store, Settings()).calibrate_judge(where="agent = 'x'").value == ()
        rules = view["rules"]
        # Ids of five signs, which nobody had said: all four calls of the last two runs are proved.
        # Of 60 steps of the agent people name twelve.
        assert (rules.unit, rules.n, rules.confusion) == ("steps", 60, ((2, 10), (6, 42)))
        values = [f.value for f in rules.figures.values() if isinstance(f, Estimate)]
        assert values == pytest.approx([2 / 8, 2 / 12])
        assert "recall of named 17 %" in " ".join(view.text().split())
    with filled(tmp_path / "none.db", 12, None) as store:
        assert list(read_labelled(store)) == []
        assert Notebook(store, Settings()).calibrate_judge().value == ()
