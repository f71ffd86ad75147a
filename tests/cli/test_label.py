"""`stepscope label` on the command line: what is drawn, gone on with, and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stepscope.cli.main import main
from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import load_question
from stepscope.model import Record, Verdict
from stepscope.store import Store
from tests.labels.made import answer, make_store, session

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    make_store(str(tmp_path / "runs.db")).close()
    return tmp_path / "runs.db"


@pytest.fixture
def run(path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def label(*arguments: str) -> tuple[int, str, str]:
        code = main(["label", *arguments, "--store", str(path)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return label


def test_a_queue_is_drawn_once_and_gone_on_with(run: Run, path: Path) -> None:
    drawn = ("--sample", "6", "--overlap", "2", "--annotator", "ann", "--draw")
    expected = "Queue 1: 6 of 12 items, 2 of them for every annotator; uniform. Annotator: ann\n"
    assert run(*drawn) == (0, expected, "")
    assert run(*drawn) == (0, expected, "")
    assert run("--annotator", "bob", "--draw")[1].startswith("Queue 1: 6 of 12")
    code, _, said = run("--sample", "7", "--draw")
    assert (code, "queue 1 of 6 items" in said, "--new" in said) == (2, True, True)
    assert run("--sample", "7", "--new", "--draw")[1].startswith("Queue 2: 7 of 12")
    with Store.open(path) as store:
        assert list(store.queues()) == [1, 2]


def test_a_status_counts_labels_by_annotator(run: Run, path: Path) -> None:
    assert run("--status") == (0, "no queue was drawn; stepscope label draws one\n", "")
    with Store.open(path) as store:
        queue = draw_queue(store, load_question("outcome"), queue="uniform", n=6)
        for who in ("bob", "ann", "ann"):
            answer(session(store, who, queue=queue))
    assert run("--status")[1] == (
        "queue 1  judge.outcome  uniform  6 of 12 items, 0 shared  labels: ann 2, bob 1\n"
    )
    (found,) = json.loads(run("--status", "--json")[1])
    assert (found["number"], found["labels"]) == (1, {"ann": 2, "bob": 1})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rubric", "ton"), "no rubric called 'ton' for people; expected one of outcome"),
        (("--rubric", "outcome", "--steps"), "leave out --steps"),
        (("--queue", "shape"), "--queue shape is for --rubric shape, not 'outcome'"),
        (("--rubric", "shape", "--queue", "shape"), "no run has scores of its steps"),
        (("--rubric", "axes.termination", "--queue", "disagreement"), "'disagreement' is empty"),
        (("--where", "steps > 99"), "nothing to label"),
        (("--rubric", "decisive_step"), "nothing to label"),  # no run failed
    ],
)
def test_what_cannot_be_drawn_is_one_line(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, out, error = run(*arguments, "--draw", "--annotator", "ann")
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1


def test_disputes_are_a_queue_of_no_probability(run: Run, path: Path) -> None:
    with Store.open(path) as store:
        labels = {"openai/m": ("correct", "correct"), "google/g": ("incorrect", "correct")}
        store.append(
            [
                Record(
                    trajectory=f"r{at:02}", answer=Verdict("judge.axes.termination", label=label),
                    version="2", family=judge.partition("/")[0], judge=judge,
                    rubric="axes.termination",
                )
                for judge, said in labels.items()
                for at, label in enumerate(said)
            ]
        )  # fmt: skip
    disputed = ("--rubric", "axes.termination", "--queue", "disagreement", "--draw")
    assert run(*disputed)[1].startswith("Queue 1: 1 of 1 items, 1 of them")
    assert "disagreement" in run(*disputed)[1]
    assert "'look_first' is empty here" in run("--queue", "look_first", "--draw")[2]
    with Store.open(path) as store:
        (item,) = [store.hold_item(1, 0, "ann")]
        assert item is not None
        assert (item.run, item.probability) == ("r00", None)


def test_a_label_counts_in_the_queue_that_has_its_item(run: Run, path: Path) -> None:
    with Store.open(path) as store:
        at = session(store, n=4)
        done = {answer(at).run for _ in range(3)}
        question, keys = load_question("outcome"), store.runs()
        other = draw_queue(store, question, queue="uniform", n=4, seed=9)
        key_of = dict(zip(keys.id.tolist(), keys.key.tolist(), strict=True))
        items = set(store.queue_items(other).run.tolist())
        both = sum(key_of[one] in items for one in done)
    assert both < 3
    counts = [one["labels"].get("ann", 0) for one in json.loads(run("--status", "--json")[1])]
    assert counts == [3, both]


@pytest.mark.parametrize("name", ["", " ", " ann", "ann "])
def test_who_labels_is_named_without_spaces_around(run: Run, path: Path, name: str) -> None:
    code, out, said = run("--annotator", name, "--draw")
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert "expected a name, without spaces around it" in said
    with Store.open(path) as store:
        assert store.queues() == {}


def test_what_two_answered_differently_is_a_queue_of_its_own(run: Run, path: Path) -> None:
    asked = ("--queue", "adjudication", "--draw", "--annotator")
    assert run(*asked, "eve") == (
        2, "", "error: nothing to adjudicate: no two annotators who are done differ on an item\n"
    )  # fmt: skip
    with Store.open(path) as store:
        ann = session(store, n=6, overlap=3)
        bob = session(store, "bob", queue=ann.queue)
        for _ in range(3):
            answer(ann, "1")
        for _ in range(2):
            answer(bob, "2")
        code, _, said = run(*asked, "bob")
        assert (code, "bob has not answered everything shared" in said) == (2, True)
        answer(bob, "2")
    expected = "Queue 2: 3 of 3 items, 0 of them for every annotator; adjudication. Annotator: {}\n"
    assert run(*asked, "eve") == (0, expected.format("eve"), "")
    # It is gone on with, by one of the two as well.
    assert run(*asked, "bob") == (0, expected.format("bob"), "")
    with Store.open(path) as store:
        answer(session(store, "eve", queue=2))
    (first, second) = json.loads(run("--status", "--json")[1])
    assert (first["labels"], second["labels"]) == ({"ann": 3, "bob": 3}, {"eve": 1})
    assert run("--queue", "adjudication", "--new", "--draw")[1].startswith("Queue 3: 2 of 2 items")
    code, _, said = run("--rubric", "decisive_step", *asked, "eve")
    assert (code, "halving finds a decisive step" in said) == (2, True)
