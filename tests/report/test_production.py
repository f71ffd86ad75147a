"""Evaluation against production: shares of shapes with intervals, and what to add to the suite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepscope.cli.main import main
from stepscope.errors import UsageError
from stepscope.lab.curves import article_curve
from stepscope.model import Record, Verdict
from stepscope.report.production import ProductionComparison, compare_production
from stepscope.shape.types import ShapeName
from stepscope.store import Store
from stepscope.store.where import parse_where
from stepscope.values import Unmeasured
from tests.factories import agent, run

# The article's example.
EVALUATION: dict[ShapeName, int] = {
    "early_collapse": 35, "late_drift": 28, "recovery": 22, "steady_degradation": 15,
}  # fmt: skip
PRODUCTION: dict[ShapeName, int] = {
    "early_collapse": 12, "late_drift": 31, "recovery": 19, "steady_degradation": 38,
}  # fmt: skip
SIDES = (parse_where("tag.of = 'eval'"), parse_where("tag.of = 'live'"))


def put(
    store: Store,
    side: str,
    counts: dict[ShapeName, int],
    *,
    judge: str = "openai/a",
    prompt: str = "p" * 16,
    users: int = 0,
    tag: str = "of",
) -> None:
    rng = np.random.default_rng(len(side))
    shapes = [shape for shape, n in counts.items() for _ in range(n)]
    ids = [f"{side}{at}" for at in range(len(shapes))]
    steps = [agent(f"step {at}") for at in range(10)]
    store.put(
        run(
            *steps, id=id_, name=f"{side}/{at}/0", task=id_, trial="0",
            tags={tag: side} | ({"user": f"{side}{at % users}"} if users else {}),
        )
        for at, id_ in enumerate(ids)
    )  # fmt: skip
    store.append([
        Record(
            trajectory=id_, answer=Verdict("scores", value=float(value), step=at), version="2",
            family=judge.partition("/")[0], judge=judge, rubric="no_look", prompt=prompt,
        )
        for id_, shape in zip(ids, shapes, strict=True)
        for at, value in enumerate(
            np.clip(article_curve(shape, 10) + rng.normal(0, 0.02, 10), 0, 1)
        )
    ])  # fmt: skip


def compared(store: Store) -> ProductionComparison:
    found = compare_production(store, SIDES)
    assert not isinstance(found.shapes, Unmeasured)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "runs.db")


def test_the_articles_example_moves_by_23_points_twice(store: Store) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", PRODUCTION)
    found = compared(store)
    lines = {line.split()[0]: line for line in str(found).splitlines()}
    assert "  -23 points, " in lines["early_collapse"]
    assert "  +23 points, " in lines["steady_degradation"]
    assert {one.shape: one.change for one in found.diverged} == {
        "early_collapse": "less", "steady_degradation": "more",
    }  # fmt: skip
    assert str(found).endswith("add cases that bring steady_degradation to the evaluation suite")


def test_equal_mixes_show_no_difference(store: Store) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", EVALUATION)
    found = compared(store)
    assert found.diverged == ()
    assert "no difference is shown" in str(found)


def test_runs_of_one_user_move_together(store: Store) -> None:
    put(store, "eval", EVALUATION, users=5)
    put(store, "live", PRODUCTION, users=4)
    found = compared(store)
    assert found.clusters == (5, 4)


@pytest.mark.parametrize("other", [{"judge": "anthropic/b"}, {"prompt": "q" * 16}])
def test_scores_of_another_judge_or_prompt_are_refused(store: Store, other: dict[str, str]) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", {"recovery": 9}, **other)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no run of production has a curve by the step scores of"):
        compare_production(store, SIDES)


def test_runs_on_neither_side_do_not_choose_the_judge(store: Store) -> None:
    put(store, "eval", {"recovery": 9, "early_collapse": 9})
    put(store, "live", {"recovery": 9, "early_collapse": 9})
    put(store, "elsewhere", EVALUATION, judge="anthropic/b")
    assert compared(store).source == "step scores of a judge of openai/a"


def test_runs_without_a_shape_are_counted_and_may_undo_a_change(store: Store) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", PRODUCTION)
    for start, stop, undone in ((0, 30, False), (30, 40, True)):
        store.put(
            run(agent("no score"), id=f"bare{at}", name=f"bare/{at}/0", task=f"bare{at}",
                trial="0", tags={"of": "live"})
            for at in range(start, stop)
        )  # fmt: skip
        found = compared(store)
        assert found.unmeasured == ({}, {"missing_input": stop})
        assert f"100 users or tasks; without a shape: {stop}" in str(found)
        # 12 of 100 and 30 that nobody scored are at most 42 of 130, below the 35 of 100 before;
        # with 40 they may be 52 of 140. The 38 are at least 38 of 140, above 15 of 100.
        assert ("could undo the change of early_collapse\n" in str(found)) is undone


def test_runs_that_no_shape_fits_are_counted(store: Store) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", PRODUCTION)
    zigzag = run(*map(agent, "abcdefghij"), id="z", name="z/0/0", task="z", tags={"of": "live"})
    store.put([zigzag])
    store.append([
        Record(
            trajectory="z", answer=Verdict("scores", value=float(at % 2), step=at), version="2",
            family="openai", judge="openai/a", rubric="no_look", prompt="p" * 16,
        )
        for at in range(10)
    ])  # fmt: skip
    assert compared(store).unmeasured == ({}, {"unmodelled": 1})


def test_a_tag_that_no_run_has_names_no_user(store: Store) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", PRODUCTION)
    with pytest.raises(UsageError, match="no run has the tag 'usr'"):
        compare_production(store, SIDES, user="usr")


@pytest.mark.parametrize(
    ("second", "said"), [("tag.of = 'eval'", "100 runs on both sides"), ("task = 'x'", "no run is")]
)
def test_sides_that_share_runs_or_have_none_are_refused(
    store: Store, second: str, said: str
) -> None:
    put(store, "eval", EVALUATION)
    with pytest.raises(UsageError, match=said):
        compare_production(store, (SIDES[0], parse_where(second)))


def test_the_commands_say_by_their_exit_code_whether_something_moved(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    put(store, "eval", EVALUATION)
    put(store, "live", PRODUCTION)
    place = ["--store", str(store.path)]
    store.close()
    sides = ["tag.of = 'eval'", "tag.of = 'live'"]
    words = ["calibrate", "production", "--evaluation", sides[0], "--production", sides[1], *place]
    assert main(words) == 3
    assert "evaluation: 100 runs of 100 users or tasks" in capsys.readouterr().out
    assert main([*words, "--json"]) == 3
    assert main(["calibrate", "followup", "--before", sides[0], "--after", sides[1], *place]) == 3
    assert "before: 100 runs" in capsys.readouterr().out
