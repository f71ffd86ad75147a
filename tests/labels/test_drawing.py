"""Queues: what may be asked, and how probable each item was."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.errors import ConfigError, DataError, UsageError
from stepscope.labels.drawing import draw_queue, find_queue, read_draws
from stepscope.labels.questions import PEOPLES, load_question
from stepscope.model import Label, Record, Verdict
from stepscope.shape.types import SHAPES
from stepscope.store import Store
from stepscope.store.where import parse_where
from tests.labels.made import make_store, session

AXIS = load_question("axes.termination")


def judged(store: Store, confidence: dict[str, tuple[str, float]]) -> None:
    store.append(
        [
            Record(
                trajectory=run,
                answer=Verdict(AXIS.measure, label=label, confidence=sure),
                version="2",
                family="openai",
                judge="openai/m",
                rubric=AXIS.name,
            )
            for run, (label, sure) in confidence.items()
        ]
    )


def items(store: Store, queue: int) -> list[tuple[str, float | None]]:
    found = [store.hold_item(queue, at, "ann") for at in range(read_draws(store)[queue].size)]
    return [(one.run, one.probability) for one in found if one is not None]


def test_a_uniform_draw_gives_every_item_the_same_known_probability() -> None:
    with make_store(runs=40) as store:
        queue = draw_queue(store, AXIS, queue="uniform", n=10, overlap=3)
        found = items(store, queue)
        assert len({run for run, _ in found}) == 10
        assert {probability for _, probability in found} == {0.25}
        draw = read_draws(store)[queue]
        assert (draw.population, draw.size, draw.overlap) == (40, 10, 3)


def test_every_item_is_drawn_as_often_as_its_probability_says() -> None:
    with make_store(runs=20) as store:
        often = dict.fromkeys(store.runs().id.tolist(), 0)
        for seed in range(400):
            for run, _ in items(store, draw_queue(store, AXIS, queue="uniform", n=5, seed=seed)):
                often[run] += 1
        # Binomial(400, .25): 100, standard deviation 8.7.
        assert 65 < min(often.values())
        assert max(often.values()) < 135


def test_steps_are_those_of_the_agent() -> None:
    with make_store(runs=3, steps=4) as store:
        question = load_question("step_labels")
        queue = draw_queue(store, question, queue="uniform", n=100)
        draw = read_draws(store)[queue]
        assert (draw.population, draw.size) == (12, 12)
        assert sorted(set(store.queue_items(queue).step.tolist())) == [1, 2, 3, 4]


def test_an_active_queue_takes_what_judges_doubt_with_known_probabilities() -> None:
    with make_store(runs=60) as store:
        ids = store.runs().id.tolist()
        sure = {run: ("correct", 0.98 if at % 4 else 0.5) for at, run in enumerate(ids)}
        judged(store, sure)
        queue = draw_queue(store, AXIS, queue="active", n=20)
        draw = read_draws(store)[queue]
        assert draw.queue == "active"
        assert "half of it uniform until 20 labels check the judges" in draw.remark
        chance = dict(items(store, queue))
        doubted = [p for run, p in chance.items() if sure[run][1] == 0.5]
        others = [p for run, p in chance.items() if sure[run][1] != 0.5]
        assert len(doubted) > len(others) / 3
        # By hand: 15 of doubt .5, 45 of .14; weights 1/120 + .5 * doubt / 13.8, times 20.
        assert {round(p, 3) for p in doubted if p} == {0.529}
        assert {round(p, 3) for p in others if p} == {0.268}
        assert find_queue(store, AXIS, "active") == queue


def test_an_active_queue_that_gains_nothing_is_drawn_uniformly_and_says_so() -> None:
    with make_store(runs=40) as store:
        queue = draw_queue(store, AXIS, queue="active", n=10)
        assert read_draws(store)[queue].remark.startswith("no judge answered this")
        ids = store.runs().id.tolist()
        judged(
            store, {run: ("incorrect" if at % 3 else "correct", 0.9) for at, run in enumerate(ids)}
        )
        queue = draw_queue(store, AXIS, queue="active", n=10)
        draw = read_draws(store)[queue]
        assert (draw.queue, draw.remark) == (
            "uniform", "judges' doubt would narrow the interval by 0 %, under 10 %: uniform",
        )  # fmt: skip
        assert {p for _, p in items(store, queue)} == {0.25}
        assert find_queue(store, AXIS, "active") == queue


def test_confidence_is_recalibrated_on_enough_random_labels() -> None:
    with make_store(runs=120) as store:
        ids = store.runs().id.tolist()
        # A judge who says .98 or .6 and is right as often in both cases.
        judged(store, {run: ("correct", 0.98 if at % 2 else 0.6) for at, run in enumerate(ids)})
        said = ["incorrect" if at % 8 in (0, 1) else "correct" for at in range(120)]
        labels = [
            Label(
                trajectory=run, measure=AXIS.measure, annotator="ann", label=label, queue="uniform",
                probability=0.5,
            )
            for run, label in zip(ids, said, strict=True)
        ]  # fmt: skip
        store.append_labels(labels[:10])
        before = draw_queue(store, AXIS, queue="active", n=10)
        store.append_labels(labels)
        after = draw_queue(store, AXIS, queue="active", n=10)
        draws = read_draws(store)
        assert (draws[before].queue, draws[after].queue) == ("active", "uniform")


def test_chosen_items_have_no_probability_and_each_run_comes_once() -> None:
    with make_store() as store:
        chosen = [("r03", 2), ("r03", 1), ("gone", 0), ("r01", 1)]
        queue = draw_queue(store, AXIS, queue="disagreement", n=9, chosen=chosen)
        assert items(store, queue) == [("r03", None), ("r01", None)]
        with pytest.raises(DataError, match="is empty here"):
            draw_queue(store, AXIS, queue="disagreement", n=9, chosen=[("gone", None)])
        with pytest.raises(DataError, match="asks about steps"):
            draw_queue(
                store, load_question("step_labels"), queue="look_first", n=9, chosen=[("r01", None)]
            )


def test_nothing_to_label_is_said() -> None:
    with make_store(runs=0) as store:
        with pytest.raises(DataError, match="nothing to label"):
            draw_queue(store, AXIS, queue="uniform", n=9)
        with pytest.raises(DataError, match="expected 1 or more"):
            draw_queue(store, AXIS, queue="uniform", n=0)


def test_a_queue_is_found_again_by_what_it_asks() -> None:
    with make_store() as store:
        queue = draw_queue(store, AXIS, queue="uniform", n=5)
        assert find_queue(store, AXIS, "uniform") == queue
        assert find_queue(store, load_question("axes.sequencing"), "uniform") is None
        assert find_queue(store, AXIS, "norming", norming=1) is None
        assert find_queue(store, AXIS, "uniform", where=parse_where("steps > 1")) is None
        changed = msgspec.structs.replace(AXIS, guide="otherwise")
        assert find_queue(store, changed, "uniform") is None
        with pytest.raises(KeyError):
            session(store, question=AXIS, queue=99)


def test_the_shapes_people_choose_from_are_those_of_the_classifier() -> None:
    assert tuple(one.label for one in PEOPLES["shape"].answers) == SHAPES


def test_what_people_are_asked_follows_the_rubric() -> None:
    assert [one.label for one in AXIS.answers] == ["correct", "incorrect", "not_applicable"]
    assert [one.failing for one in AXIS.answers] == [False, True, False]
    assert (AXIS.unit, load_question("axes.termination", steps=True).unit) == ("run", "step")
    scores = load_question("no_look")
    assert (scores.measure, scores.unit) == ("scores", "step")
    assert [one.value for one in scores.answers] == [0.1, 0.4, 0.7, 0.95]
    assert {one.label for one in scores.answers} == {None}
    assert scores.answer("?").label is None
    assert load_question("attribution").name == "decisive_step"
    assert load_question("behaviour.sycophancy").unit == "step"
    with pytest.raises(ConfigError, match="no rubric called 'ton' for people"):
        load_question("ton")
    with pytest.raises(UsageError, match="leave out --steps"):
        load_question("outcome", steps=True)


def test_an_active_queue_goes_on_with_a_uniform_one_that_was_drawn_in_its_place_alone() -> None:
    with make_store() as store:
        draw_queue(store, AXIS, queue="uniform", n=5)
        assert find_queue(store, AXIS, "active") is None
        instead = draw_queue(store, AXIS, queue="active", n=5)
        assert read_draws(store)[instead].queue == "uniform"
        assert find_queue(store, AXIS, "active") == instead
