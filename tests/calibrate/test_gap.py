"""The held-out gap: decided on its interval, over versions together, never without its power."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import stepscope
from stepscope import stats
from stepscope.api import Notebook
from stepscope.calibrate.gap import GroupGap, HeldOutGap, decide_gap, decide_retirement, measure_gap
from stepscope.cases.files import load_cases
from stepscope.cases.split import Split, draw_split, freeze
from stepscope.cli.main import main
from stepscope.errors import UsageError
from stepscope.model import Case, Outcome
from stepscope.settings import Settings
from stepscope.values import Decision, Estimate, Unmeasured
from tests.factories import agent, run, user

CASES = [Case(workflow="shop", task=f"t{at}") for at in range(50)]
SPLIT = draw_split(CASES, share=0.2)
HELD = sorted(task for _, task in SPLIT.tasks("held_out"))
OTHERS = sorted(task for _, task in SPLIT.tasks("development"))


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return stepscope.open(tmp_path / "runs.db", settings=Settings())


def put(notebook: Notebook, version: str, failed: list[str], unknown: tuple[str, ...] = ()) -> None:
    runs = []
    for task in (*HELD, *OTHERS):
        said = Outcome(status="fail" if task in failed else "pass", source="reward")
        runs.append(
            run(
                user(f"{task} {version}"), agent("Done."), id=f"{task}/{version}",
                name=f"shop/{task}/{version}", task=task, trial=version, agent="a",
                agent_version=version,
                outcome=Outcome() if task in unknown else said,
            )
        )  # fmt: skip
    notebook.store.put(runs)


def gap(
    notebook: Notebook, split: Split = SPLIT, by: str = "agent_version", measure: str = "outcome"
) -> HeldOutGap:
    return measure_gap(notebook.store, "cases", split, by=by, measure=measure)


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value=value, low=low, high=high, method="t", n=20, n_tasks=20)


def group(score: float, outcome: str = "undecided") -> GroupGap:
    absent = Unmeasured("undefined", "none")
    return GroupGap(
        group="v", score=estimate(score, score - 0.03, score + 0.03), development=absent,
        held_out=absent, gap=absent, power=None, p_adjusted=None,
        decision=Decision("fail" if outcome == "fail" else "undecided", ""),
    )  # fmt: skip


def test_an_agent_that_fails_on_held_out_tasks_alone_is_inflated(notebook: Notebook) -> None:
    put(notebook, "1", HELD[:6])
    found = gap(notebook).groups[0]
    assert isinstance(found.gap, Estimate)
    assert (round(found.gap.value, 3), found.gap.n, found.gap.unit_of_n) == (0.6, 50, "tasks")
    assert found.decision.outcome == "fail"
    assert found.decision.reason.startswith("inflation")


def test_as_many_failures_on_both_sides_are_no_inflation(notebook: Notebook) -> None:
    put(notebook, "1", [*HELD[:2], *OTHERS[:8]])
    found = gap(notebook).groups[0]
    assert isinstance(found.gap, Estimate)
    assert (round(found.gap.value, 3), found.decision.outcome) == (0.0, "undecided")


@pytest.mark.parametrize(
    ("low", "high", "p", "outcome"),
    [
        (0.01, 0.20, 0.02, "fail"),
        (0.01, 0.20, 0.08, "undecided"),  # other versions were looked at, too
        (-0.01, 0.20, 0.04, "undecided"),
        (0.01, 0.04, 0.01, "pass"),  # a gap, but a small one
        (-0.20, 0.049, 0.5, "pass"),
        (-0.20, 0.05, 0.5, "undecided"),
    ],
)
def test_the_decision_is_on_the_interval(low: float, high: float, p: float, outcome: str) -> None:
    assert decide_gap(estimate((low + high) / 2, low, high), p).outcome == outcome


def test_unmeasured_runs_that_could_undo_a_gap_leave_it_undecided(notebook: Notebook) -> None:
    put(notebook, "1", HELD[:6], unknown=(*HELD[6:], *OTHERS[:30]))
    found = gap(notebook).groups[0]
    assert isinstance(found.gap, Estimate)
    assert found.gap.unmeasured == {"not_scored": 34}
    assert (found.gap.low or 0) > 0
    assert found.gap.worst_low == pytest.approx(10 / 40 - 4 / 10)
    assert found.decision == Decision("undecided", "34 runs without a score could undo the gap")


def test_unmeasured_runs_that_could_hide_a_gap_make_nothing_healthy() -> None:
    near = estimate(0.0, -0.04, 0.04)
    for worst, outcome in ((0.05, "undecided"), (0.049, "pass")):
        found = replace(near, worst_high=worst, unmeasured={"not_scored": 3})
        assert decide_gap(found, 1.0).outcome == outcome
    assert decide_gap(replace(near, worst_high=0.5, unmeasured={"not_scored": 3}), 1.0).reason == (
        "3 runs without a score could hide a gap"
    )


def test_the_power_is_that_of_the_tasks_that_are_there() -> None:
    # Non-central t, 38 degrees of freedom, shift .1/(.15*sqrt(1/32 + 1/8)) = 1.687.
    assert stats.power_apart(32, 8, 0.15, 0.1) == pytest.approx(0.376, abs=5e-4)
    rng = np.random.default_rng(0)
    dev, held = rng.normal(0.8, 0.15, (4000, 32)), rng.normal(0.7, 0.15, (4000, 8))
    error = stats.pooled_sd(dev, held) * (1 / 32 + 1 / 8) ** 0.5
    shown = (dev.mean(axis=1) - held.mean(axis=1)) / error > 2.0244
    assert float(shown.mean()) == pytest.approx(0.376, abs=0.02)


def test_two_parts_have_students_interval() -> None:
    # By hand: means .5 and .95, squares .2 + .005 over 4 degrees of freedom, t = 2.776.
    found = stats.compare_parts([0.2, 0.4, 0.6, 0.8], [0.9, 1.0], rng=np.random.default_rng(0))
    assert not isinstance(found, Unmeasured)
    assert isinstance(found.effect, Estimate)
    half = 2.776445 * (0.205 / 4 * (1 / 4 + 1 / 2)) ** 0.5
    assert found.effect.low == pytest.approx(0.45 - half, abs=1e-5)
    assert found.effect.high == pytest.approx(0.45 + half, abs=1e-5)
    # Exactly: 2 of the 15 ways to draw two of six differ by at least as much.
    assert found.p == pytest.approx(2 / 15, abs=0.02)


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [([], [0.5], "insufficient_data"), ([0.5], [0.5], "insufficient_data"), ([], [], None)],
)
def test_parts_without_tasks_are_unmeasured(
    first: list[float], second: list[float], kind: str | None
) -> None:
    found = stats.compare_parts(first, second, rng=np.random.default_rng(0))
    assert isinstance(found, Unmeasured)
    assert kind is None or found.kind == kind


def test_parts_without_spread_have_a_value_and_no_interval() -> None:
    found = stats.compare_parts([0.5, 0.5], [0.7, 0.7], rng=np.random.default_rng(0))
    assert not isinstance(found, Unmeasured)
    assert isinstance(found.effect, Estimate)
    assert (round(found.effect.value, 9), found.effect.low) == (0.2, None)
    assert decide_gap(found.effect, found.p).outcome == "undecided"


def test_the_trend_is_of_the_same_tasks(notebook: Notebook) -> None:
    put(notebook, "1", [*HELD[:5], *OTHERS[:20]])
    put(notebook, "2", [*HELD[:6], *OTHERS[:10]])
    put(notebook, "10", HELD[:8])
    found = gap(notebook)
    assert [one.group for one in found.groups] == ["1", "2", "10"]
    assert isinstance(found.trend, Estimate)
    # The others gain .25 a version, the held-out tasks lose .15.
    assert found.trend.value == pytest.approx(0.4)
    assert found.trend_decision.outcome == "fail"


def test_one_version_has_no_trend(notebook: Notebook) -> None:
    put(notebook, "1", [])
    assert isinstance(gap(notebook).trend, Unmeasured)


@pytest.mark.parametrize(
    ("scores", "outcome"),
    [
        ([0.93, 0.94, 0.95], "fail"),
        ([0.93, 0.91, 0.95], "pass"),
        ([0.92, 0.94, 0.95], "pass"),
        ([0.5, 0.93, 0.94, 0.95], "fail"),
        ([0.93, 0.94], "undecided"),
    ],
)
def test_a_benchmark_is_retired_above_92_three_times_running(
    scores: list[float], outcome: str
) -> None:
    assert decide_retirement([group(one) for one in scores]).outcome == outcome


def test_saturated_and_contaminated_are_two_words() -> None:
    told = decide_retirement([group(0.93), group(0.94), group(0.95)]).reason
    assert "saturated; not every interval is above 0.92" in told
    told = decide_retirement([group(0.93), group(0.94), group(0.95, "fail")]).reason
    assert "contamination is suspected" in told
    assert "saturated" not in told


def test_runs_of_other_tasks_are_left_out_and_counted(notebook: Notebook) -> None:
    put(notebook, "1", [])
    notebook.store.put([run(user("x"), agent("y"), task="another")])
    assert gap(notebook).other_runs == 1
    with pytest.raises(UsageError, match="none of the chosen runs is of a task of this corpus"):
        gap(notebook, draw_split([Case(workflow="q", task=str(n)) for n in range(5)], share=0.4))


@pytest.mark.parametrize(
    ("by", "measure", "said"),
    [("task", "outcome", "is not a field"), ("colour", "outcome", "is not a field"),
     ("agent", "nothing", "no run has it")],
)  # fmt: skip
def test_a_field_or_measure_that_is_none_is_refused(
    notebook: Notebook, by: str, measure: str, said: str
) -> None:
    put(notebook, "1", [])
    with pytest.raises(UsageError, match=said):
        gap(notebook, by=by, measure=measure)


def test_the_command_says_inflation_by_its_exit_code(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(notebook, "1", HELD[:6])
    notebook.close()
    corpus = tmp_path / "cases.jsonl"
    lines = [f'{{"workflow": "shop", "task": "{case.task}"}}' for case in CASES]
    corpus.write_text("\n".join(lines), encoding="utf-8")
    words = ["calibrate", "gap", str(corpus), "--store", str(tmp_path / "runs.db")]
    assert main(words) == 2
    assert "no frozen corpus" in capsys.readouterr().err
    freeze(SPLIT, corpus)
    # Frozen from cases that say less than these would be edited ones; these say the same.
    assert main(words) == 3
    out = capsys.readouterr().out
    assert "+60 points" in out
    assert "inflation: the gap is above 0" in out
    assert "find a true gap of 0.10 with a chance of" in out
    assert main([*words, "--json"]) == 3


def test_a_file_of_a_frozen_folder_is_measured_by_the_split_of_the_folder(
    notebook: Notebook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(notebook, "1", failed=HELD)
    folder = tmp_path / "cases"
    folder.mkdir()
    for name, tasks in (("one", (*HELD[:5], *OTHERS[:20])), ("two", (*HELD[5:], *OTHERS[20:]))):
        rows = [f'{{"workflow": "shop", "task": "{task}"}}' for task in tasks]
        (folder / f"{name}.jsonl").write_text("\n".join(rows), encoding="utf-8")
    told = ["--store", str(tmp_path / "runs.db"), "--json"]
    assert main(["calibrate", "gap", str(folder / "one.jsonl"), *told]) == 2
    freeze(draw_split(load_cases(folder), share=0.2), folder)
    capsys.readouterr()
    counts = []
    for place in (folder, folder / "one.jsonl", folder / "two.jsonl"):
        assert main(["calibrate", "gap", str(place), *told]) == 3
        ((group,),) = [one["groups"] for one in json.loads(capsys.readouterr().out)]
        counts.append((group["held_out"]["n_tasks"], group["development"]["n_tasks"]))
    assert counts == [(10, 40), (5, 20), (5, 20)]
