"""Rank flips of a report and of a comparison: which figures of the path are asked, and whose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import unescape
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.model import Verdict
from stepscope.report.build import FEWER_IS_BETTER, MORE_IS_BETTER, build_report
from stepscope.report.compare import compare_groups
from stepscope.report.words import COMPARED, LABELS
from stepscope.values import Estimate, RankFlips, Unmeasured
from tests.factories import FAILED, PASSED, agent, did, run, user
from tests.report.made_panels import ONE, RIGHT, TWO, WRONG, axis, runs, said, store_of
from tests.report.rows import LiteralRows, rows

TASKS = 20
Column = Sequence[float | None]


def two(**values: Column) -> LiteralRows:
    """Return runs of x and then of y on the same tasks; y passes 15 of 20, x 5."""
    tasks = [str(at) for at in range(TASKS)]
    outcome = [1.0] * 5 + [0.0] * 15 + [1.0] * 15 + [0.0] * 5
    named = {key.replace("__", "."): column for key, column in values.items()}
    return LiteralRows(
        tasks * 2,
        agents=["x"] * TASKS + ["y"] * TASKS,
        values={"outcome": outcome, **named},
    )


def found_in(literal: LiteralRows) -> RankFlips:
    report = build_report(rows(literal), by="agent")
    assert isinstance(report.rank_flips, RankFlips)
    assert compare_groups(rows(literal), "x", "y").rank_flips == report.rank_flips
    return report.rank_flips


LESS, MORE = [0.0] * TASKS, [1.0] * TASKS


@pytest.mark.parametrize(
    ("measure", "figure", "more_is_better"),
    [
        ("subgoals", "subgoals.reached", True),
        ("recovery", "errors.recovered", True),
        ("redundant_calls__count", "redundant_calls.per_run", False),
        ("policy", "policy.violations", False),
    ],
)
def test_every_figure_of_the_path_can_flip(
    measure: str, figure: str, *, more_is_better: bool
) -> None:
    worse = [*MORE, *LESS] if more_is_better else [*LESS, *MORE]
    (flip,) = found_in(two(**{measure: worse})).flips
    assert (flip.first, flip.second, flip.figure) == ("y", "x", figure)
    assert isinstance(flip.outcome, Estimate)
    assert flip.outcome.value == 0.5
    assert found_in(two(**{measure: worse[::-1]})).flips == ()  # better by both: no flip


def test_what_is_unmeasured_is_counted_in_the_two_groups_that_flip_alone() -> None:
    worse = [*LESS[:-2], None, None, *MORE[:-1], None]
    (flip,) = found_in(two(policy=worse)).flips
    path = flip.path
    assert isinstance(path, Estimate)
    assert path.unmeasured == {"not_scored": 3}


def test_an_axis_of_the_rules_can_flip() -> None:
    literal = two()
    labels = ["uncertain"] * TASKS + ["incorrect"] * TASKS
    literal.labels["axes.sequencing"] = labels
    (flip,) = found_in(literal).flips
    assert flip.figure == "axes.sequencing"


@pytest.mark.parametrize(("second", "flipped"), [(RIGHT, True), ("uncertain", False)])
def test_an_axis_of_judges_is_asked_of_runs_that_all_of_them_answered(
    second: str, *, flipped: bool
) -> None:
    passing, failing = runs(14, ("x",), PASSED), runs(14, ("x", "y"), FAILED)[14:]
    told = [said(ONE, one, axis(ONE, WRONG, 1)) for one in passing[:13]]
    told += [said(ONE, one, axis(ONE, RIGHT)) for one in failing]
    told += [said(TWO, one, axis(TWO, RIGHT)) for one in failing]
    told += [said(TWO, one, axis(TWO, second)) for one in passing[:12]]
    # What rules prove is a figure of its own.
    told += [said("rules", one, axis("rules", WRONG, 1)) for one in failing]
    told += [said("rules", one, Verdict("outcome", value=1.0)) for one in passing]
    told += [said("rules", one, Verdict("outcome", value=0.0)) for one in failing]
    store = store_of([*passing, *failing], told)
    found = build_report(store, by="agent").rank_flips
    assert compare_groups(store, "x", "y").rank_flips == found
    if flipped:
        assert isinstance(found, RankFlips)
        (flip,) = found.flips
        assert (flip.first, flip.second, flip.figure) == ("x", "y", "judged.axes.tool_selection")
        assert isinstance(flip.path, Estimate)
        assert flip.path.value == 1.0  # one judge is enough
        assert flip.path.unmeasured == {"incomplete": 1}  # the last run nobody was asked about
    else:
        assert isinstance(found, Unmeasured)


@pytest.mark.parametrize(("chance", "flipped"), [(0.5, True), (0.9, False)])
def test_runs_that_were_drawn_unevenly_are_not_compared_by_their_judges(
    chance: float, *, flipped: bool
) -> None:
    passing, failing = runs(12, ("x",), PASSED), runs(12, ("x", "y"), FAILED)[12:]
    told = [said(ONE, one, axis(ONE, WRONG, 1)) for one in passing]
    told += [said(ONE, one, axis(ONE, RIGHT)) for one in failing]
    told += [said("rules", one, Verdict("outcome", value=1.0)) for one in passing]
    told += [said("rules", one, Verdict("outcome", value=0.0)) for one in failing]
    store = store_of([*passing, *failing], told)
    for drawn, probability in ((passing, 0.5), (failing, chance)):
        ids = [one.id for one in drawn]
        store.put_sample("axes.tool_selection", ids, probability, ids)
    found = build_report(store, by="agent").rank_flips
    assert isinstance(found, RankFlips) == flipped


def test_what_the_figures_are_called_is_known() -> None:
    figures = (*MORE_IS_BETTER, *FEWER_IS_BETTER)
    assert len(figures) == 14
    assert all(key in LABELS for key in figures)
    assert all(key in COMPARED for key in figures if not key.startswith("judged."))


def test_one_group_very_many_and_those_without_shared_tasks_are_unmeasured() -> None:
    def found(tasks: Sequence[str], agents: Sequence[str]) -> Unmeasured | RankFlips:
        values: Column = [float(at % 2) for at in range(len(tasks))]
        literal = LiteralRows(tasks, agents=agents, values={"outcome": values, "subgoals": values})
        return build_report(rows(literal)).rank_flips

    letters = [chr(97 + at) for at in range(21)]
    alone = Unmeasured("not_applicable", "one group; pairs of groups are compared")
    assert found(["1", "2"], ["a", "a"]) == alone
    many = Unmeasured("not_applicable", "21 groups; pairs of 2 to 20 are compared")
    assert found(["1"] * 21 + ["2"] * 21, letters * 2) == many
    assert isinstance(found(["1"] * 20 + ["2"] * 20, letters[:20] * 2), RankFlips)
    apart = found(["1", "2", "3", "4"], ["a", "a", "b", "b"])
    assert isinstance(apart, Unmeasured)
    assert apart.kind == "insufficient_data"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store of two agents on 14 tasks: the one that passes asks all it knows again."""
    path = tmp_path_factory.mktemp("fleet") / "runs.db"
    asked = did("find", "two hoses, $12", name="hose")
    with stepscope.open(path) as notebook:
        notebook.store.put(
            run(
                user("what hoses are there?"),
                *asked * (1 if who == "careful" else 4 + task % 3),
                agent("two hoses"),
                id=f"{task:02x}{trial}{who == 'careful':d}" + "a" * 28,
                name=f"shop/{task}/{trial}/{who}",
                task=str(task),
                trial=str(trial),
                agent=who,
                outcome=PASSED if (task + trial) % 7 < (6 if who == "hasty" else 2) else FAILED,
            )
            for who in ("careful", "hasty")
            for task in range(14)
            for trial in range(2)
        )
        notebook.score(workers=1)
    return path


SAID = "hasty is ahead of careful by outcome (+57 points, "
BEHIND = ") and behind by redundant calls per run (+3.93, "


@pytest.mark.parametrize("command", [("report", "--by", "agent"), ("compare", "careful", "hasty")])
@pytest.mark.parametrize("medium", [(), ("--markdown",)])
def test_a_fleet_that_passes_more_and_repeats_more_is_a_flip_on_every_medium(
    fleet: Path,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
    medium: tuple[str, ...],
) -> None:
    assert main([*command, "--store", str(fleet), *medium]) == 0
    shown = " ".join(unescape(capsys.readouterr().out).split())
    assert SAID in shown
    assert BEHIND in shown
    assert "Rank flips: none" not in shown
    assert "alike" not in shown
    assert main([*command, "--store", str(fleet), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rank_flips"]
    assert [flip["figure"] for flip in found["flips"]] == ["redundant_calls.per_run"]
    assert found["flips"][0]["p_adjusted"] <= 0.025
    assert "redundant_calls.per_run" in found["figures"]


def test_the_page_says_the_flip_beside_the_vectors_and_in_the_comparison(
    fleet: Path, tmp_path: Path
) -> None:
    page = tmp_path / "r.html"
    assert main(["report", "--store", str(fleet), "--html", str(page), "--embed", "0"]) == 0
    html = page.read_text("utf-8")
    assert f'<p class="warning">Rank flip: {SAID}' in html
    assert '<p class="warning">Rank flip: shop · hasty is ahead of shop · careful' in html
    assert html.count(BEHIND) == 2
