"""A store of short runs, and sessions at it, for the tests of this room."""

from __future__ import annotations

from stepscope.labels.drawing import draw_queue
from stepscope.labels.questions import LabelQuestion, load_question
from stepscope.labels.session import AskedItem, GivenAnswer, LabelSession
from stepscope.model import Label
from stepscope.store import Store
from tests.factories import agent, run, user


def make_store(path: str = ":memory:", *, runs: int = 12, steps: int = 3) -> Store:
    """Return a store of runs r00, r01 and so on: a user, and so many steps of the agent."""
    store = Store.open(path)
    store.put(
        run(
            user("hi"),
            *[agent(f"say {at} {step}") for step in range(steps)],
            id=f"r{at:02}",
            name=f"n{at:02}",
            task=str(at),
        )
        for at in range(runs)
    )
    return store


def session(
    store: Store,
    who: str = "ann",
    *,
    rubric: str = "outcome",
    question: LabelQuestion | None = None,
    queue: int | None = None,
    n: int = 12,
    overlap: int = 0,
) -> LabelSession:
    """Return a session at a queue, a uniform one of `n` items where none is named."""
    asked = question or load_question(rubric)
    number = queue or draw_queue(store, asked, queue="uniform", n=n, overlap=overlap)
    return LabelSession(store, asked, number, who, blind=True)


def answer(at: LabelSession, key: str = "1", **fields: object) -> AskedItem:
    """Answer what is asked now, and return it."""
    asked = at.ask()
    assert asked is not None
    at.answer(given(at, asked, key, **fields))
    return asked


def given(at: LabelSession, asked: AskedItem, key: str = "1", **fields: object) -> GivenAnswer:
    """Return an answer to an item as the page sends it."""
    told = {"place": asked.place, "step": asked.step, "policy": at.question.policy, **fields}
    return GivenAnswer(do="answer", key=key, **told)  # type: ignore[arg-type]


def stored(store: Store, who: str = "ann") -> list[Label]:
    """Return the labels of an annotator."""
    return [label for label in store.labels() if label.annotator == who]
