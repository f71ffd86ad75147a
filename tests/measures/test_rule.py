"""What is found out once about a run is the same answer, and other facts are asked about anew."""

from __future__ import annotations

from stepscope.measures.calls import failed_calls, writes_of
from stepscope.measures.rule import cached_on_run
from stepscope.model import Facts, Trajectory
from tests.factories import agent, did, failed, run, user


def test_a_question_is_answered_once_a_run() -> None:
    made = run(user("hello"))
    asked: list[str] = []

    @cached_on_run
    def ask(trajectory: Trajectory) -> int:
        asked.append(trajectory.id)
        return len(trajectory.steps)

    assert [ask(made) for _ in range(2)] == [1, 1]
    assert asked == [made.id]


def test_other_facts_are_asked_about_anew() -> None:
    made = run(*did("poke"), *did("book_flight"))
    assert writes_of(made, None) == (1,)
    assert writes_of(made, Facts(effects={"poke": "write"})) == (0, 1)
    assert writes_of(made, None) == (1,)


def test_failures_are_the_calls_whose_result_is_an_error() -> None:
    made = run(*did("get"), *failed("book"), agent("sorry"))
    assert [exchange.call.name for exchange in failed_calls(made)] == ["book"]
