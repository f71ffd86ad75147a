"""Step scores reach the run they speak of, once, and never in silence contradict each other."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from stepscope.errors import StoreError
from stepscope.model import Case, Source, Step, StepScore, Trajectory, Verdict
from stepscope.runtime.database import backup_path
from stepscope.store import PutCounts, Store
from stepscope.values import Unmeasured
from tests.factories import agent, run, user


def scored(name: str = "shop/1/0", *scores: StepScore, **more: object) -> Trajectory:
    steps = max((score.step for score in scores), default=0) + 1
    return Trajectory(
        id=f"of {name} {steps}",
        name=name,
        steps=tuple(Step(index=i, actor="agent", kind="other") for i in range(steps)),
        source=Source(format="step_scores", uri="s.csv", run_id=name),
        scores=scores,
        **more,  # type: ignore[arg-type]
    )


def score(step: int, value: float | None, **more: object) -> StepScore:
    return StepScore(step=step, value=value, **more)  # type: ignore[arg-type]


def values(store: Store) -> list[tuple[str, str, int, int | None, float | None]]:
    return [
        (r.trajectory, r.judge, r.repeat, r.answer.step, getattr(r.answer, "value", None))
        for r in store.records(measure="scores")
    ]


@pytest.mark.parametrize("named", ["shop/1/0", "r1"])
def test_scores_go_to_the_run_of_that_name_or_id(named: str) -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("b"))])
        assert store.put([scored(named, score(0, 0.5), score(1, 0.7))]) == PutCounts(0, 1, 0)
        assert values(store) == [("r1", "", 0, 0, 0.5), ("r1", "", 0, 1, 0.7)]
        assert [s.value for s in store.trajectory("r1").scores] == [0.5, 0.7]
        assert len(store.runs()) == 1


def test_a_run_that_the_store_does_not_have_is_kept_as_its_scores() -> None:
    with Store.open(":memory:") as store:
        assert store.put([scored("new", score(0, 0.5), score(2, None))]) == PutCounts(1, 0, 0)
        (found,) = store.trajectories()
        answers = [r.answer for r in store.records(measure="scores")]
    assert (found.name, len(found.steps)) == ("new", 3)
    assert isinstance(answers[0], Verdict)
    assert isinstance(answers[1], Unmeasured)
    assert (answers[1].kind, answers[1].step) == ("missing_input", 2)


def test_the_same_scores_again_change_nothing() -> None:
    with Store.open(":memory:") as store:
        for expected in (PutCounts(1, 0, 0), PutCounts(0, 1, 0)):
            assert store.put([scored("x", score(0, 0.5), score(1, None))]) == expected
        assert len(values(store)) == 2
        assert list(store.quarantined()) == []
        assert len(store.trajectory("of x 2").scores) == 2


@pytest.mark.parametrize(
    ("again", "why"),
    [
        (score(0, 0.6), "run 'x': step 0 was scored 0.5 before, now 0.6; give another scoring its"),
        (score(0, None), "run 'x': step 0 was scored 0.5 before, now not scored"),
        (score(5, 0.6), "run 'x': step 5; the run has 1 steps, counted from 0"),
    ],
)
def test_a_score_that_contradicts_is_set_aside_and_counted(again: StepScore, why: str) -> None:
    with Store.open(":memory:") as store:
        store.put([scored("x", score(0, 0.5))])
        assert store.put([scored("x", again)]).refused == 1
        (kept,) = store.quarantined()
        assert kept.reason.startswith(why)
        assert values(store) == [("of x 1", "", 0, 0, 0.5)]


def test_another_repeat_or_judge_is_another_scoring() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("x", score(0, 0.5))])
        more = (score(0, 0.6, repeat=1), score(0, 0.7, judge="gpt"))
        assert store.put([scored("x", *more)]) == PutCounts(0, 1, 0)
        assert [row[1:3] for row in values(store)] == [("", 0), ("", 1), ("gpt", 0)]


def test_a_trace_that_comes_later_takes_the_scores_over() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("shop/1/0", score(1, 0.5))])
        store.put([run(user("a"), agent("b"))])
        assert list(store.runs().id) == ["r1"]
        assert values(store) == [("r1", "", 0, 1, 0.5)]
        assert len(store.trajectory("r1").scores) == 1


def test_a_trace_that_lacks_a_scored_step_does_not() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("shop/1/0", score(2, 0.5))])
        store.put([run(user("a"), agent("b"))])
        assert sorted(store.runs().id) == ["of shop/1/0 3", "r1"]


def test_scores_of_a_session_stay_with_it_when_it_grows() -> None:
    def session(*steps: Step, id: str) -> Trajectory:
        source = Source(format="claude_code", run_id="s")
        return msgspec.structs.replace(run(*steps, id=id, name="s"), source=source)

    with Store.open(":memory:") as store:
        store.put([session(user("a"), agent("b"), id="short")])
        store.put([scored("s", score(1, 0.5))])
        assert store.put([session(user("a"), agent("b"), user("c"), id="long")]).superseded == 1
        assert values(store) == [("long", "", 0, 1, 0.5)]
        assert len(store.trajectory("long").scores) == 1


def test_scores_of_a_name_that_several_runs_have_are_set_aside() -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), id="x"), run(user("b"), id="y")])
        assert store.put([scored("shop/1/0", score(0, 0.5), score(1, 0.6))]).refused == 2
        assert {kept.reason for kept in store.quarantined()} == {
            "run 'shop/1/0': more than one run has this name; give the run's id"
        }
        assert sorted(store.runs().id) == ["x", "y"]
        store.put([scored("y", score(0, 0.5))])
        assert values(store) == [("y", "", 0, 0, 0.5)]


def test_time_and_cost_of_a_step_are_records_beside_its_score() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("x", score(0, 0.5, latency_s=1.5, cost_usd=0.02))])
        found = {name: list(store.records(measure=name)) for name in store.measures()}
    assert [(n, getattr(r[0].answer, "value", None)) for n, r in found.items()] == [
        ("scores", 0.5),
        ("scores.cost_usd", 0.02),
        ("scores.latency_s", 1.5),
    ]


def weighted(*weights: float, task: str = "t") -> Case:
    return Case(workflow="", task=task, weights=weights)


def test_weights_are_fixed_before_the_first_score_and_then_stand() -> None:
    with Store.open(":memory:") as store:
        store.put([scored("x", score(0, 0.5), task="t", case=weighted(3))])
        store.put([scored("y", score(0, 0.4), task="t", case=weighted(3))])
        assert store.weights() == {("", "t"): (3.0,)}
        changed = scored("z", score(0, 0.4), task="t", case=weighted(1))
        with pytest.raises(StoreError, match=r"are 1 now and fixed as 3 when its runs were scored"):
            store.put([changed])
        store.put([scored("o", score(0, 0.4), task="other")])
        late = scored("p", score(0, 0.4), task="other", case=weighted(1, task="other"))
        with pytest.raises(StoreError, match="none were fixed when its runs were scored; put them"):
            store.put([late])
        assert store.weights() == {("", "t"): (3.0,)}


def test_weights_may_change_while_nothing_is_scored() -> None:
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("b"))])
        store.fix_weights({"shop": {"*": (1.0, 2.0)}})
        store.fix_weights({"shop": {"*": (2.0, 2.0)}})
        store.put([scored("shop/1/0", score(0, 0.5))])
        store.fix_weights({"shop": {"*": (2.0, 2.0)}})
        with pytest.raises(StoreError, match="every task"):
            store.fix_weights({"shop": {"*": (1.0, 2.0)}})


def test_a_store_of_version_1_is_led_up_with_a_copy_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Store.open(path) as store:
        store.put([run(user("a"), agent("b"))])
    db = sqlite3.connect(path)
    db.executescript(
        "DROP TABLE weights; DROP TABLE noise; DROP TABLE keys; DROP TABLE samples;"
        " DROP TABLE labels; DROP TABLE queued; DROP TABLE queues;"
        " PRAGMA user_version = 1;"
    )
    db.close()
    with Store.open(path) as store:
        store.put([scored("shop/1/0", score(0, 0.5))])
        assert store.weights() == {}
        assert store.sampled("axes.termination") == {}
        assert len(store.runs()) == 1
    assert backup_path(str(path), 1).exists()
