"""Adjudication: what two annotators answered differently is asked once more, and then decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from stepscope.calibrate.adopt import choose_labels
from stepscope.calibrate.agreement import measure_agreement
from stepscope.calibrate.judges import (
    calibrate_judges,
    describe_labels,
    find_chosen,
    read_run_labels,
)
from stepscope.errors import DataError
from stepscope.labels.drawing import (
    draw_queue,
    failure_chances,
    list_differing,
    list_population,
    read_draws,
)
from stepscope.labels.questions import LabelQuestion, load_question
from stepscope.labels.session import LabelSession
from stepscope.model import Label, Record, Verdict
from stepscope.model.labels import ADJUDICATION_REPEAT, settle_labels
from stepscope.store import Store
from stepscope.store.where import parse_where
from stepscope.web.label import list_answers
from tests.labels.made import answer, make_store, session, stored

AXIS = load_question("axes.termination")


@pytest.fixture
def store() -> Iterator[Store]:
    with make_store() as made:
        yield made


def both(
    store: Store, question: LabelQuestion = AXIS, *, said: dict[str, str] | None = None, n: int = 6
) -> LabelSession:
    """Have ann and bob answer three shared items, bob the first of the store's order otherwise."""
    ann = session(store, question=question, n=n, overlap=3)
    bob = session(store, "bob", question=question, queue=ann.queue)
    for one in (ann, bob):
        for _ in range(3):
            asked = one.ask()
            assert asked is not None
            first = asked.place == 0 and one is bob
            answer(one, (said or {}).get(one.annotator, "2" if first else "1"), note="so it is")
    return ann


def adjudicate(store: Store, who: str = "eve", question: LabelQuestion = AXIS) -> LabelSession:
    number = draw_queue(store, question, queue="adjudication", n=60)
    return session(store, who, question=question, queue=number)


def test_what_two_answered_differently_is_asked_once_more(store: Store) -> None:
    both(store)
    before, verdicts = list(store.labels()), list(store.records(measure=AXIS.measure))
    at = adjudicate(store)
    asked = answer(at, "2", note="it stops early")
    assert at.ask() is None
    (label,) = stored(store, "eve")
    assert (label.queue, label.probability, label.blind) == ("adjudication", 0.5, False)
    assert (label.label, label.reason, label.repeat) == ("incorrect", "it stops early", 1000)
    # The two first answers stay, and no third verdict joins them.
    assert [one for one in store.labels() if one != label] == before
    assert list(store.records(measure=AXIS.measure)) == verdicts
    differing = {one.annotator: one.label for one in before if one.trajectory == asked.run}
    assert differing == {"ann": "correct", "bob": "incorrect"}
    assert at.summarise() == [
        "1 label so far", "each takes the place of the answers that differ, which are kept",
    ]  # fmt: skip
    # It is done, and not asked again.
    with pytest.raises(DataError, match="nothing to adjudicate"):
        adjudicate(store)


def test_nothing_is_shown_before_both_are_done(store: Store) -> None:
    ann = session(store, question=AXIS, n=6, overlap=3)
    bob = session(store, "bob", question=AXIS, queue=ann.queue)
    for _ in range(3):
        answer(ann, "1")
    for _ in range(2):
        answer(bob, "2")
    assert list_differing(store, AXIS) == ({}, {"bob"})
    with pytest.raises(DataError, match="no two annotators who are done differ"):
        adjudicate(store)
    answer(bob, "2")
    differing, waiting = list_differing(store, AXIS)
    assert (len(differing), set(differing.values()), waiting) == (3, {0.5}, set())
    # A third one who has begun counts when done, and hides nothing of the others.
    cid = session(store, "cid", question=AXIS, queue=ann.queue)
    answer(cid, "3")
    assert list_differing(store, AXIS) == (differing, {"cid"})


def test_a_shared_item_of_an_erased_run_keeps_nobody_waiting(store: Store) -> None:
    ann = session(store, question=AXIS, n=6, overlap=3)
    bob = session(store, "bob", question=AXIS, queue=ann.queue)
    asked = bob.ask()
    assert asked is not None
    for _ in range(3):
        answer(ann, "1")
    store.purge(parse_where(f"name = 'n{asked.run[1:]}'"))
    for _ in range(2):
        answer(bob, "2")
    differing, waiting = list_differing(store, AXIS)
    assert (len(differing), waiting) == (2, set())


def test_items_of_one_annotator_of_norming_of_another_policy_or_unit_are_not_adjudicated(
    store: Store,
) -> None:
    def label(run: str, who: str, said: str = "correct", **fields: Any) -> Label:
        given = {"policy": AXIS.policy, "queue": "uniform", "probability": 0.25, **fields}
        return Label(
            trajectory=run, measure=AXIS.measure, annotator=who, label=said, **given
        )  # fmt: skip

    store.append_labels(
        [
            label("r01", "ann"),
            label("r02", "ann", queue="norming", round=1, probability=None),
            label("r02", "bob", "incorrect", queue="norming", round=1, probability=None),
            label("r03", "ann"),
            label("r03", "bob", "incorrect", policy="older"),
            label("r04", "ann", step=1),
            label("r04", "bob", "incorrect", step=1),
            label("r05", "ann"),
            label("r05", "ann", "incorrect", repeat=1),
            label("r05", "bob"),
            label("r06", "ann"),
            label("r06", "bob"),
        ]
    )
    assert list_differing(store, AXIS) == ({}, set())
    steps = load_question("axes.termination", steps=True)
    store.append_labels([label("r07", who, said, step=1, policy=steps.policy) for who, said in
                         (("ann", "correct"), ("bob", "incorrect"))])  # fmt: skip
    ((_, step),) = list_differing(store, steps)[0]
    assert step == 1
    # Near misses: a file says no policy; undecided differs, too; and the runs are chosen.
    store.append_labels(
        [
            label("r01", "bob", "incorrect", policy="", queue="file", probability=None),
            label("r06", "cid", "uncertain", decided=False),
            label("r08", "ann", queue="look_first", probability=1.0),
            label("r08", "bob", "incorrect"),
        ]
    )
    found, _ = list_differing(store, AXIS)
    assert list(found.values()) == [0.25, 0.25, 0.25]
    queue = draw_queue(store, AXIS, queue="adjudication", n=2)
    assert (read_draws(store)[queue].size, read_draws(store)[queue].population) == (2, 3)
    assert len(list_differing(store, AXIS, parse_where("name = 'n06'"))[0]) == 1


def test_of_three_annotators_all_answers_are_shown_and_none_with_a_name(store: Store) -> None:
    ann = both(store)
    cid = session(store, "cid", question=AXIS, queue=ann.queue)
    for _ in range(3):
        answer(cid, "1")
    at = adjudicate(store)
    asked = at.ask()
    assert asked is not None
    # What is no first answer is not shown, and does not count.
    (one,) = [x for x in cid.given if x.trajectory == asked.run]
    store.append_labels([structs.replace(one, queue="norming", round=1, probability=None),
                         structs.replace(one, repeat=1),
                         structs.replace(one, annotator="dan", policy="older")])  # fmt: skip
    at = session(store, "eve", question=AXIS, queue=at.queue)
    lines = list(list_answers(at, asked))
    assert sorted(line.partition(": ")[2] for line in lines) == [
        "Correct. No reason given.", "Correct. Reason: so it is", "Incorrect. Reason: so it is",
    ]  # fmt: skip
    assert [line.partition(":")[0] for line in lines] == ["Answer 1", "Answer 2", "Answer 3"]
    assert list(list_answers(at, asked)) == lines


def test_the_order_of_answers_does_not_tell_whose_they_are() -> None:
    with make_store(runs=30) as store:
        ann = session(store, question=AXIS, n=30, overlap=30)
        bob = session(store, "bob", question=AXIS, queue=ann.queue)
        for key, one in (("1", ann), ("2", bob)):
            for _ in range(30):
                answer(one, key)
        at = adjudicate(store)
        first = []
        while (asked := at.ask()) is not None:
            first.append(next(list_answers(at, asked)))
            answer(at, "1")
        assert len(first) == 30
        assert 5 < first.count("Answer 1: Correct. No reason given.") < 25


def test_one_of_the_two_may_adjudicate_and_keeps_the_first_answer(store: Store) -> None:
    both(store)
    at = adjudicate(store, "ann")
    asked = answer(at, "2")
    said = [one for one in stored(store) if one.trajectory == asked.run]
    assert [(one.label, one.queue, one.blind) for one in said] == [
        ("correct", "uniform", True), ("incorrect", "adjudication", False),
    ]  # fmt: skip
    assert at.undo()
    assert at.ask() == asked
    assert [one.label for one in stored(store) if one.trajectory == asked.run] == ["correct"]


def test_an_answer_that_is_taken_back_takes_the_adjudication_along(store: Store) -> None:
    ann = both(store)
    bob = session(store, "bob", question=AXIS, queue=ann.queue)
    asked = answer(adjudicate(store), "2")
    # Another item of bob's is no matter.
    place = next(at for at in bob.given if at.trajectory != asked.run)
    store.withdraw_label(place)
    assert len(stored(store, "eve")) == 1
    store.append_labels([place])
    (other,) = [at for at in bob.given if at.trajectory == asked.run]
    store.withdraw_label(other)
    assert stored(store, "eve") == []
    # Alike by now: nothing is left to settle. Different again: it is asked again.
    store.append_labels([structs.replace(other, label="correct")])
    assert list_differing(store, AXIS) == ({}, set())
    store.withdraw_label(other)
    store.append_labels([structs.replace(other, label="not_applicable")])
    assert len(list_differing(store, AXIS)[0]) == 1


def test_who_adjudicated_labels_no_more_blind(store: Store) -> None:
    ann = both(store)
    answer(adjudicate(store), "2")
    eve = session(store, "eve", question=AXIS, queue=ann.queue)
    cid = session(store, "cid", question=AXIS, queue=ann.queue)
    answer(eve)
    answer(cid)
    assert [one.blind for one in stored(store, "eve")] == [False, False]
    assert [one.blind for one in stored(store, "cid")] == [True]
    assert eve.summarise()[0] == "3 labels of 3 annotators so far"


def test_scores_are_adjudicated_too(store: Store) -> None:
    scores = load_question("no_look")
    both(store, scores)
    at = adjudicate(store, question=scores)
    asked = answer(at, "3")
    (label,) = stored(store, "eve")
    assert (label.value, label.step) == (0.7, asked.step)


def test_the_adjudicated_answer_decides_with_the_draw_of_the_first() -> None:
    def label(who: str, said: str, **fields: Any) -> Label:
        return Label(trajectory="r1", measure="judge.m", annotator=who, label=said, **fields)

    first = [
        label("ann", "pass", queue="look_first"),
        label("bob", "fail", queue="active", probability=0.4, policy="p"),
    ]
    last = label("eve", "fail", queue="adjudication", probability=0.4, repeat=ADJUDICATION_REPEAT)
    other = structs.replace(first[0], trajectory="r2")
    assert settle_labels([*first, other]) == [*first, other]
    found = settle_labels([*first, last, other])
    assert [(one.trajectory, one.annotator, one.queue) for one in found] == [
        ("r1", "eve", "active"), ("r2", "ann", "look_first"),
    ]  # fmt: skip
    assert (found[0].probability, found[0].policy, found[0].is_random) == (0.4, "p", True)
    # Alone it is of a selected item, and for no rate.
    assert settle_labels([last]) == [last]
    assert not last.is_random
    # Of two adjudications the last; a norming round is no first answer.
    later = structs.replace(last, annotator="ann", label="pass")
    assert settle_labels([*first, last, later])[0].label == "pass"
    practice = structs.replace(first[0], queue="norming", round=1)
    assert settle_labels([practice, last]) == [practice, last]
    # Two of three said pass, and it is adjudicated as a failure.
    uniform = structs.replace(first[1], queue="uniform")
    three = [uniform, label("ann", "pass"), label("cid", "pass")]
    assert choose_labels(three)[0] == {("r1", None): "pass"}
    truth, left, _ = choose_labels([*three, last])
    assert (truth, left) == ({("r1", None): "fail"}, {})


def judged(store: Store, runs: int) -> None:
    store.append(
        [
            Record(
                trajectory=f"r{at:02}", answer=Verdict(AXIS.measure, label="correct"),
                version="2", family="openai", judge="openai/m", rubric=AXIS.name,
            )
            for at in range(runs)
        ]
    )  # fmt: skip


@pytest.mark.parametrize(
    ("key", "confusion", "note"),
    [
        ("1", {("correct", "correct"): 6}, ""),
        ("2", {("correct", "correct"): 4, ("incorrect", "correct"): 2}, ""),
        # An answer that nobody gave before, and none.
        ("3", {("correct", "correct"): 4, ("not_applicable", "correct"): 2}, ""),
        ("?", {("correct", "correct"): 4}, "people could not decide 2 runs: left out"),
        ("", {("correct", "correct"): 4}, "people are split on 2 runs: left out"),
    ],
)
def test_judges_are_held_against_the_adjudicated_answer(
    key: str, confusion: dict[tuple[str, str], int], note: str
) -> None:
    with make_store(runs=6) as store:
        judged(store, 6)
        ann = session(store, question=AXIS, n=6, overlap=6)
        bob = session(store, "bob", question=AXIS, queue=ann.queue)
        for _ in range(6):
            answer(ann, "1")
            asked = bob.ask()
            assert asked is not None
            answer(bob, "2" if asked.run in ("r01", "r04") else "1")
        before = measure_agreement(store, rubric=AXIS.name)
        while key and (at := adjudicate(store)).ask() is not None:
            answer(at, key)
            answer(at, key)
            break
        (found,) = calibrate_judges(store)
        said = {
            (found.labels[row], found.labels[column]): n
            for (row, column), n in np.ndenumerate(np.array(found.confusion))
            if n
        }
        assert said == confusion
        assert found.people == ("ann", "bob")
        assert bool(note) == bool(found.notes[:-1])
        assert note in found.notes or not note
        # The two first answers alone say whether people agree.
        after = measure_agreement(store, rubric=AXIS.name)
        assert after == before
        assert find_chosen(store, None, AXIS.name) == {}


def test_the_adjudicated_score_takes_the_place_of_the_mean() -> None:
    with make_store(runs=3, steps=1) as store:
        for at, (ann, bob) in enumerate(((0.1, 0.7), (0.4, 0.4), (0.7, 0.7))):
            step = store.trajectory(f"r{at:02}").steps[-1].index
            given = {"trajectory": f"r{at:02}", "measure": "scores", "step": step}
            store.append_labels(
                [Label(annotator=who, value=v, **given) for who, v in (("ann", ann), ("bob", bob))]  # type: ignore[arg-type]
            )
            store.append(
                [
                    Record(
                        trajectory=f"r{at:02}", answer=Verdict("scores", value=0.7, step=step),
                        version="2", family="openai", judge="openai/m", rubric="no_look",
                    )
                ]
            )  # fmt: skip

        def bias() -> float:
            (found,) = calibrate_judges(store, rubric="scores")
            return found.figures["bias"].value  # type: ignore[union-attr]

        # People are split on the first: (.3 + 0) / 2; then (0 + .3 + 0) / 3.
        assert bias() == pytest.approx(0.15)
        at_scores = adjudicate(store, question=load_question("no_look"))
        answer(at_scores, "3")
        assert bias() == pytest.approx(0.1)
        # Two scores of one band, which the adjudicator cannot decide: (0 + .3) / 2.
        step = store.trajectory("r02").steps[-1].index
        other = Label(trajectory="r02", measure="scores", step=step, annotator="cid", value=0.65)
        store.append_labels([other])
        answer(adjudicate(store, question=load_question("no_look")), "?")
        assert bias() == pytest.approx(0.15)


def test_what_labels_can_decide_counts_an_adjudicated_item_once(store: Store) -> None:
    both(store)
    head, rate, judge, rubric = describe_labels(store.labels())
    answer(adjudicate(store), "2")
    assert list(describe_labels(store.labels())) == [
        head, rate, judge, "  The rubric: 3 items by two people or more, 1 adjudicated; stepscope "
        "agree decides.",
    ]  # fmt: skip
    assert head == "axes.termination: 6 labels of 3 items by 2 people."
    assert rubric == "  The rubric: 3 items by two people or more; stepscope agree decides."


def test_what_an_adjudicator_cannot_decide_counts_for_no_rate(store: Store) -> None:
    both(store, said={"ann": "?", "bob": "2"})
    _, rate, judge, _ = describe_labels(store.labels())
    assert "  A rate: 3 labels of a random draw give it" in rate
    assert judge.startswith("  A judge: 97 more labels")
    at = adjudicate(store)
    for key in "??1":
        answer(at, key)
    # Two cannot be decided by who saw both answers, one can.
    _, rate, judge, _ = describe_labels(store.labels())
    assert "  A rate: 1 label of a random draw gives it" in rate
    assert judge.startswith("  A judge: 99 more labels")


def test_a_queue_of_adjudication_shares_nothing(store: Store) -> None:
    both(store)
    at = adjudicate(store)
    draw = read_draws(store)[at.queue]
    assert (draw.queue, draw.size, draw.population, draw.overlap) == ("adjudication", 1, 1, 0)


def test_the_judges_confidence_is_checked_on_the_adjudicated_answer_alone(store: Store) -> None:
    judged(store, 12)
    both(store)
    population = list_population(store, AXIS, None)
    assert failure_chances(store, AXIS, population)[1:] == (12, 6)
    answer(adjudicate(store), "2")
    assert failure_chances(store, AXIS, population)[1:] == (12, 5)


def test_an_adjudicated_answer_is_another_look_at_labels(store: Store) -> None:
    both(store)
    assert len(read_run_labels(store, AXIS.name)) == 6
    answer(adjudicate(store), "2")
    assert len(read_run_labels(store, AXIS.name)) == 7
