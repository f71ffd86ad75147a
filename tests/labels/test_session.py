"""A session at a queue: what is asked, what is stored, what annotators see of each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from stepscope.errors import UsageError
from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import ALREADY_WRONG, DECISIVE, load_question
from stepscope.labels.session import LabelSession
from stepscope.model import Source, TraceLabel
from stepscope.store import Store
from stepscope.store.where import parse_where
from tests.factories import agent, run, user
from tests.labels.made import answer, given, make_store, session, stored

AXIS = "axes.termination"


def test_an_answer_is_stored_with_all_that_calibration_needs(tmp_path: Path) -> None:
    with make_store(str(tmp_path / "runs.db")) as store:
        at = session(store, n=3)
        answer(at, "2")
        asked = answer(at, "2", seconds=4.5, expanded=("before",), note=" why ")
        with Store.open(tmp_path / "runs.db") as other:
            _, label = other.labels()
        assert label.trajectory == asked.run
        assert (label.measure, label.label, label.step) == ("judge.outcome", "fail", None)
        assert (label.queue, label.probability, label.blind) == ("uniform", 0.25, True)
        assert (label.position, label.seconds, label.expanded) == (1, 4.5, ("before",))
        assert (label.policy, label.reason, label.decided) == (at.question.policy, "why", True)
        assert label.given_at is not None
        assert len(list(store.records(measure="judge.outcome"))) == 2


def test_every_item_is_asked_once_and_then_nothing() -> None:
    with make_store() as store:
        at = session(store, n=12)
        assert len({answer(at).run for _ in range(12)}) == 12
        assert at.ask() is None
        assert (at.answered, at.size) == (12, 12)


def test_what_cannot_be_decided_is_kept_as_such() -> None:
    with make_store() as store:
        at = session(store)
        answer(at, "?")
        (label,) = store.labels()
        assert (label.label, label.decided) == ("uncertain", False)
        assert at.summarise() == ["1 label so far"]


def test_an_answer_that_is_taken_back_is_asked_at_once_again() -> None:
    with make_store() as store:
        at = session(store)
        first = answer(at)
        second = answer(at)
        assert at.undo()
        assert [label.trajectory for label in store.labels()] == [first.run]
        assert at.ask() == second
        answer(at, "2")
        assert [label.label for label in store.labels()] == ["pass", "fail"]
        assert at.undo()
        assert at.undo()
        assert not at.undo()
        assert list(store.labels()) == []


def test_what_is_skipped_comes_at_the_end() -> None:
    with make_store() as store:
        at = session(store, n=4)
        first = at.ask()
        assert first is not None
        at.skip(first.place)
        order = [answer(at).run for _ in range(4)]
        assert order[-1] == first.run
        assert len(set(order)) == 4
        assert at.ask() is None


def test_a_session_goes_on_where_it_ended() -> None:
    with make_store() as store:
        at = session(store)
        done = [answer(at).run for _ in range(5)]
        held = at.ask()
        again = session(store, queue=at.queue)
        assert again.ask() == held
        assert again.answered == 5
        assert again.undo()
        assert again.ask().run == done[-1]  # type: ignore[union-attr]


def test_the_same_answer_sent_twice_changes_nothing_and_another_one_is_refused() -> None:
    with make_store() as store:
        at = session(store)
        asked = answer(at)
        before, upcoming = list(store.labels()), at.ask()
        at.answer(given(at, asked))
        assert list(store.labels()) == before
        assert at.ask() == upcoming
        with pytest.raises(UsageError, match="another answer of this item is stored"):
            at.answer(given(at, asked, "2"))
        assert list(store.labels()) == before
        assert upcoming is not None
        with pytest.raises(UsageError, match="not asked now"):
            at.answer(given(at, upcoming._replace(place=upcoming.place + 40)))
        with pytest.raises(UsageError, match=r"expected one of 1, 2 or \?"):
            at.answer(given(at, upcoming, "7"))


def test_two_annotators_share_the_overlap_and_nothing_else() -> None:
    with make_store() as store:
        ann = session(store, n=12, overlap=4)
        bob = session(store, "bob", queue=ann.queue)
        for _ in range(4):
            answer(ann)
            answer(bob)
        while ann.ask() is not None or bob.ask() is not None:
            for one in (ann, bob):
                if one.ask() is not None:
                    answer(one)
        mine, theirs = (
            {label.trajectory for label in stored(store, who)} for who in ("ann", "bob")
        )
        assert len(mine & theirs) == 4
        assert len(mine | theirs) == 12
        assert (ann.size, bob.size) == (len(mine), len(theirs))


def test_every_annotator_has_an_order_of_their_own() -> None:
    with make_store(runs=30) as store:
        ann = session(store, n=30, overlap=30)
        bob = session(store, "bob", queue=ann.queue)
        orders = [[answer(one).run for _ in range(30)] for one in (ann, bob)]
        assert sorted(orders[0]) == sorted(orders[1])
        assert orders[0] != orders[1]


def test_what_others_said_is_shown_when_both_are_done_and_not_before(tmp_path: Path) -> None:
    with two_annotators(tmp_path, n=6, overlap=3) as (ann, bob):
        for _ in range(3):
            answer(ann, "1")
        for _ in range(2):
            answer(bob, "1")
        assert ann.compare() is None
        assert bob.compare() is None
        last = answer(bob, "2")
        assert ann.compare() == ("bob", 3, 2, [(last.run, None, "pass", "fail")])
        assert bob.compare() == ("ann", 3, 2, [(last.run, None, "fail", "pass")])


def test_a_shared_item_whose_run_is_erased_hides_no_comparison(tmp_path: Path) -> None:
    with two_annotators(tmp_path, n=6, overlap=3) as (ann, bob):
        first = answer(ann, "1")
        for _ in range(2):
            answer(ann, "1")
        ann.store.purge(parse_where(f"name = 'n{first.run[1:]}'"))
        asked = answer(bob, "1")
        assert bob.compare() is None
        answer(bob, "2")
        found = bob.compare()
        assert found is not None
        assert (found[:3], asked.run != first.run) == (("ann", 2, 1), True)


def test_a_rubric_that_changed_takes_no_answer_and_old_labels_stay(tmp_path: Path) -> None:
    beside = tmp_path / "tone.policy.md"
    (tmp_path / "tone.md").write_text(own_rubric(), encoding="utf-8")
    with make_store() as store:
        at = session(store, rubric=str(tmp_path / "tone.md"))
        answer(at)
        beside.write_text("Be strict.", encoding="utf-8")
        changed = load_question(str(tmp_path / "tone.md"))
        assert changed.policy != at.question.policy
        assert changed.guide.endswith("Be strict.")
        asked = at.ask()
        assert asked is not None
        with pytest.raises(UsageError, match="the rubric has changed"):
            at.answer(given(at, asked, policy=changed.policy))
        # A queue under the new text starts anew; a label of the same item replaces the old one.
        new = session(store, question=changed, n=12)
        assert new.answered == 0
        for _ in range(12):
            answer(new, "2")
        labels = list(store.labels())
        assert {label.policy for label in labels} == {changed.policy}
        assert len(labels) == 12


def own_rubric() -> str:
    example = '[[examples]]\nanswer = "{0}"\ntrace = "1 agent: {0}"\nwhy = "so"\n'
    head = (
        '+++\nname = "tone"\nkind = "axis"\nversion = "1"\nquestion = "Was the tone right?"\n'
        'answers = ["correct", "incorrect"]\nfailing = ["incorrect"]\nin_scope = ["Tone."]\n'
        '[out_of_scope]\n"Facts" = "outcome"\n'
    )
    return head + example.format("correct") + example.format("incorrect") + "+++\nJudge the tone.\n"


def test_items_of_runs_that_were_erased_or_grew_are_passed_over_and_counted() -> None:
    with make_store(runs=0) as store:
        store.put([run(user("a"), agent(f"b{at}"), id=f"r{at}", name=f"n{at}") for at in range(3)])
        source = Source(format="ours", run_id="s")
        short = structs.replace(run(user("hi"), agent("a"), id="short", name="s"), source=source)
        long = structs.replace(
            run(user("hi"), agent("a"), agent("b"), id="long", name="l"), source=source
        )
        store.put([short])
        at = session(store, n=4)
        store.purge(parse_where("name = 'n1'"))
        store.put([long])
        done = {answer(at).run for _ in range(2)}
        assert done == {"r0", "r2"}
        assert at.ask() is None
        assert at.gone == {"purged": 1, "grown": 1}
        assert at.size == 2


def test_a_clock_that_goes_back_changes_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1_000, 0, -1))
    monkeypatch.setattr("stepscope.labels.session.time.time_ns", lambda: next(ticks))
    with make_store() as store:
        at = session(store)
        order = [answer(at, seconds=-5.0).run for _ in range(3)]
        labels = list(store.labels())
        assert [label.trajectory for label in labels] == order
        assert [label.seconds for label in labels] == [None] * 3
        assert at.undo()
        assert [label.trajectory for label in store.labels()] == order[:2]


@contextmanager
def two_annotators(path: Path, **fields: Any) -> Iterator[tuple[LabelSession, LabelSession]]:
    """Give two sessions at one queue, each with a store of its own, as two processes have."""
    with make_store(str(path / "two.db")) as mine, Store.open(path / "two.db") as theirs:
        ann = session(mine, **fields)
        asked = {"question": ann.question, "queue": ann.queue}
        yield ann, session(theirs, "bob", **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("decisive", [1, 2, 57, 150, 299, 300])
def test_the_decisive_step_of_300_is_found_in_nine_questions(decisive: int) -> None:
    with make_store(runs=1, steps=300) as store:
        at = session(store, rubric="decisive_step", n=1)
        questions = 0
        while (asked := at.ask()) is not None:
            assert asked.step is not None
            questions += 1
            answer(at, "1" if asked.step >= decisive else "2")
        assert questions <= 9 + (decisive == 300)
        found = [label for label in store.labels() if label.measure == DECISIVE]
        assert [(label.step, label.label) for label in found] == [(decisive, "decisive_step")]
        # The labels that traces with a decisive step have: localisation is fitted on both.
        (record,) = store.records(measure=DECISIVE)
        assert record.answer.step == decisive


def test_a_run_that_is_right_to_its_end_has_no_decisive_step() -> None:
    with make_store(runs=1, steps=5) as store:
        at = session(store, rubric="decisive_step", n=1)
        while at.ask() is not None:
            answer(at, "2")
        (found,) = [label for label in store.labels() if label.measure == DECISIVE]
        assert (found.step, found.label) == (None, "none")


def test_a_halving_goes_on_where_it_was_killed_and_takes_back_one_press_of_a_key() -> None:
    with make_store(runs=2, steps=8) as store:
        at = session(store, rubric="decisive_step", n=2)
        answer(at, "1")
        answer(at, "2")
        asked = at.ask()
        again = session(store, rubric="decisive_step", queue=at.queue)
        assert again.ask() == asked
        answer(again, "1")  # settles it
        assert [label.measure for label in store.labels()].count(DECISIVE) == 1
        assert again.undo()
        assert again.ask() == asked
        assert [label.measure for label in store.labels()] == [ALREADY_WRONG] * 2
        answer(again, "?")
        (last,) = [label for label in store.labels() if label.measure == DECISIVE]
        assert (last.decided, last.step) == (False, None)
        assert again.ask().run != asked.run  # type: ignore[union-attr]


def test_a_norming_round_is_asked_of_everybody_and_gives_no_verdict(tmp_path: Path) -> None:
    with make_store(str(tmp_path / "two.db")) as store, Store.open(tmp_path / "two.db") as other:
        question = load_question(AXIS)
        queue = draw_queue(store, question, queue="norming", n=3, norming=1)
        ann = session(store, question=question, queue=queue)
        bob = session(other, "bob", question=question, queue=queue)
        for _ in range(3):
            answer(ann)
            answer(bob, "2")
        found = ann.compare()
        assert found is not None
        assert (*found[:3], len(found[3])) == ("bob", 3, 0, 3)
        labels = list(store.labels())
        assert {(label.queue, label.round, label.probability) for label in labels} == {
            ("norming", 1, None)
        }
        assert list(store.records(measure=question.measure)) == []
        assert "kept apart" in ann.summarise()[1]


def test_the_summary_says_the_rate_with_its_interval_and_what_more_would_tell() -> None:
    with make_store(runs=40) as store:
        at = session(store, n=38)
        for place in range(38):
            answer(at, "2" if place < 7 else "1")
        # Wilson, 7 of 38: .184, .0922 to .3340.
        assert at.summarise() == [
            "38 labels so far",
            "7 of 38 items speak against the agent: 18 %, 9–33, 38 tasks",
            "about 18 more labels would give the rate to ± 10 points",
        ]


def test_an_item_that_two_labelled_is_counted_once(tmp_path: Path) -> None:
    with two_annotators(tmp_path, n=12, overlap=12) as (ann, bob):
        for _ in range(12):
            answer(ann, "1")
            answer(bob, "2")
        assert ann.summarise()[:2] == [
            "24 labels of 2 annotators so far",
            "0 of 12 items speak against the agent: 0 %, 0–24, 12 tasks",
        ]
        assert bob.summarise()[1].startswith("12 of 12 items speak")


def test_labels_of_one_task_have_no_interval() -> None:
    with make_store(runs=0) as store:
        store.put([run(user("a"), agent(f"b{at}"), id=f"r{at}", name=f"n{at}") for at in range(9)])
        at = session(store, n=9)
        for _ in range(9):
            answer(at)
        assert at.summarise()[1].endswith("no interval from so few tasks")


def test_labels_of_a_chosen_queue_give_no_rate() -> None:
    with make_store() as store:
        question = load_question("outcome")
        chosen = [("r01", None), ("r02", None)]
        queue = draw_queue(store, question, queue="look_first", n=5, chosen=chosen)
        at = session(store, question=question, queue=queue)
        answer(at, "2")
        assert at.summarise()[1].endswith("chosen, not drawn: no rate is computed from them")
        (label,) = store.labels()
        assert (label.queue, label.probability, label.is_random) == ("look_first", None, False)


def test_what_was_chosen_is_asked_anew_where_it_is_drawn_and_never_the_reverse() -> None:
    with make_store(runs=3) as store:
        question = load_question("outcome")

        def at(**fields: Any) -> LabelSession:
            number = draw_queue(store, question, n=3, **fields)
            return session(store, question=question, queue=number)

        suspects = at(queue="look_first", chosen=[("r01", None)])
        answer(suspects, "2")
        drawn = at(queue="uniform")
        assert drawn.answered == 0
        assert not drawn.undo()  # what was said elsewhere is not taken back here
        for _ in range(3):
            answer(drawn, "2")
        found = {label.trajectory: label for label in store.labels()}
        assert {label.queue for label in found.values()} == {"uniform"}
        assert len(list(store.records(measure="judge.outcome"))) == 3
        # Drawn before, it counts as answered among what is chosen later.
        assert at(queue="look_first", chosen=[("r01", None)]).ask() is None


def test_a_run_that_is_imported_again_keeps_its_labels() -> None:
    with make_store(runs=3) as store:
        answer(session(store, n=3))
        before = list(store.labels())
        store.put(list(store.trajectories()))
        assert list(store.labels()) == before


@pytest.mark.parametrize("name", ["", " ann", "ann\n"])
def test_an_annotator_has_a_name(name: str) -> None:
    with make_store() as store, pytest.raises(UsageError, match="expected a name"):
        session(store, name)


def test_what_others_said_of_a_shared_item_changes_no_figure_before_the_own_answer(
    tmp_path: Path,
) -> None:
    with two_annotators(tmp_path, n=6, overlap=3) as (ann, bob):
        said = {answer(ann, key).run: key for key in ("2", "2", "1", "1")}
        # The fourth is ann's alone, and no secret.
        assert bob.summarise()[0] == "1 label so far"
        for count in (1, 2, 3):
            before = bob.summarise()
            asked = answer(bob, "1")
            assert asked.run in said
            assert bob.summarise()[0] == f"{1 + 2 * count} labels of 2 annotators so far"
            # Against the agent by the own answers alone: none, whatever ann said.
            assert f"0 of {count + 1} items" in bob.summarise()[1], before


def test_an_answer_after_the_comparison_is_not_blind(tmp_path: Path) -> None:
    with two_annotators(tmp_path, n=6, overlap=3) as (ann, bob):
        for _ in range(3):
            answer(ann)
            answer(bob)
        assert ann.undo()
        assert ann.compare() is None
        answer(ann)
        assert ann.compare() is not None
        assert ann.undo()
        answer(ann)
        assert [one.blind for one in ann.given] == [True, True, False]
        assert [one.blind for one in bob.given] == [True] * 3


def test_another_step_of_an_answered_item_is_refused() -> None:
    with make_store() as store:
        at = session(store, rubric="step_labels", n=6)
        asked = answer(at)
        before = list(store.labels())
        for step in (None, 99, -5, 2**63):
            with pytest.raises(UsageError, match="not asked now: nothing was saved"):
                at.answer(given(at, asked, "2", step=step))
        assert list(store.labels()) == before


def test_a_queue_of_another_policy_is_not_begun() -> None:
    with make_store() as store:
        at = session(store)
        changed = structs.replace(at.question, guide="changed")
        with pytest.raises(UsageError, match="the rubric has changed since this queue was drawn"):
            session(store, question=changed, queue=at.queue)


def test_two_windows_at_one_halving_store_one_answer_whole_or_none(tmp_path: Path) -> None:
    with make_store(str(tmp_path / "two.db"), runs=1, steps=1) as store:
        at = session(store, rubric="decisive_step", n=1)
        with Store.open(tmp_path / "two.db") as other:
            window = session(other, question=at.question, queue=at.queue)
            asked = window.ask()
            assert asked is not None
            answer(at, "1")
            before = list(store.labels())
            assert {one.measure for one in before} == {ALREADY_WRONG, DECISIVE}
            # Right to the end: a probe that contradicts, and a decisive step that would be new.
            with pytest.raises(UsageError, match="another answer of this item is stored"):
                window.answer(given(window, asked, "2"))
            assert list(store.labels()) == before


def test_what_a_trace_says_under_a_name_is_not_answered_under_it() -> None:
    marked = TraceLabel(kind="decisive_step", category="decisive_step", annotator="ann", step=1)
    with Store.open(":memory:") as store:
        store.put([run(user("a"), agent("b"), id="r00", name="n", labels=(marked,))])
        at = session(store, rubric="decisive_step", n=1, overlap=1)
        with pytest.raises(
            UsageError, match=r"'ann' said human\.decisive_step in the trace itself"
        ):
            answer(at, "1")
        assert list(store.labels()) == []
        bob = session(store, "bob", queue=at.queue, question=at.question)
        answer(bob, "1")
        assert len(stored(store, "bob")) == 2


@pytest.mark.parametrize(
    ("sent", "kept"),
    [(86_400.0, 86_400.0), (1e9, 86_400.0), (float("inf"), 86_400.0), (-1.0, None)],
)
def test_a_question_that_stood_open_counts_a_day_at_most(sent: float, kept: float | None) -> None:
    with make_store() as store:
        answer(session(store), seconds=sent)
        assert [one.seconds for one in store.labels()] == [kept]
