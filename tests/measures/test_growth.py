"""Work grows with the calls of a run, not with their square: counted, not timed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from functools import lru_cache

import pytest

from stepscope import registry
from stepscope.measures.axes import evidence, records
from stepscope.measures.axes.arguments import ARGUMENT_VALIDITY
from stepscope.measures.axes.choice import SEQUENCING, TOOL_SELECTION
from stepscope.measures.axes.claims import false_claims
from stepscope.measures.axes.ending import TERMINATION
from stepscope.measures.axes.results import RESULT_INTERPRETATION
from stepscope.measures.errors import LATER_CALLS, RECOVERY
from stepscope.measures.rule import RuleMeasure
from stepscope.model import Trajectory
from tests.factories import FAILED, agent, count_calls, did, failed, run, user

CALLS = 150
_Kept = type(lru_cache(len))
# Twice the calls may cost this much more.
GROWTH = 2.3


def _identical_reads(n: int) -> Trajectory:
    return run(user("hi"), *(s for _ in range(n) for s in did("get", "x", id=1)), outcome=FAILED)


def _identical_failures(n: int) -> Trajectory:
    same = (s for _ in range(n) for s in failed("get", "Error: x", id=1))
    return run(user("hi"), *same, outcome=FAILED)


def _identical_writes(n: int) -> Trajectory:
    return run(user("hi"), *(s for _ in range(n) for s in did("cancel", "x", id=1)), outcome=FAILED)


def _failed_commands(n: int) -> Trajectory:
    tries = (s for i in range(n) for s in failed("bash", f"Exit code 1\n{i}", command=f"make {i}"))
    return run(user("hi"), *tries, outcome=FAILED)


def _claims(n: int) -> Trajectory:
    turns = (
        step
        for i in range(n)
        for step in (
            *did("cancel_order", id=f"W{i % 9}123"),
            agent(f"I have cancelled W{i % 9}123."),
            user("Now the next one"),
        )
    )
    return run(user("Cancel all of them"), *turns, outcome=FAILED)


def _told_errors(n: int) -> Trajectory:
    """Every call is about another thing, every other one fails, and each is told of."""
    turns = (
        step
        for i in range(0, n, 2)
        for step in (
            *did(
                "get_order", f'{{"order_id": "W{10000 + i}", "status": "sent"}}', id=f"W{10000 + i}"
            ),
            *failed("cancel_order", f"Error: {i}", id=f"W{10000 + i}"),
            agent(f"Order W{10000 + i} is sent. I will also ring the depot about crate {i}."),
            user("And the next one, please"),
        )
    )
    return run(user("Cancel them"), *turns, outcome=FAILED)


def _told_amounts(n: int) -> Trajectory:
    """Every call is told of in words with amounts, shares and what is about so much."""
    turns = (
        step
        for i in range(n)
        for step in (
            *did(
                "send_note",
                f"noted {i}",
                text=f"The customer of crate {i} has paid ${i}.25 for it and wants the rest of it",
            ),
            agent(f"Crate {i} is about ${i} and was ${i}.25, with {i % 40} % off for members."),
            user(f"It says {i % 40} % off, and ${i + 3}.75 for the next"),
        )
    )
    return run(user("Go through my crates"), *turns, outcome=FAILED)


def _is_linear(
    work: Callable[[Trajectory], object], made: Callable[[int], Trajectory], calls: int = CALLS
) -> bool:
    counted = []
    for n in (calls, 2 * calls):
        for kept in gc.get_objects():  # what tests before have read is read anew
            if isinstance(kept, _Kept) and str(kept.__module__).startswith("stepscope.measures"):
                kept.cache_clear()
        trajectory = made(n)
        assert len(trajectory.exchanges) == n
        counted.append(count_calls(lambda trajectory=trajectory: work(trajectory)))  # type: ignore[misc]
    return bool(counted[1] <= GROWTH * counted[0] + 500)


@pytest.mark.parametrize(
    "made", [_identical_reads, _identical_failures, _identical_writes, _failed_commands]
)
def test_every_measure_is_linear_in_the_calls(made: Callable[[int], Trajectory]) -> None:
    for measure in registry.installed_measures():
        assert _is_linear(lambda t, m=measure: list(m(t, None, None)), made), measure.name  # type: ignore[misc]


def test_claims_consent_and_endings_are_linear_in_messages_and_calls() -> None:
    assert _is_linear(lambda t: false_claims(t, None), _claims)
    for measure in (SEQUENCING, TERMINATION, TOOL_SELECTION):
        assert _is_linear(lambda t, m=measure: list(m(t, None, None)), _claims), measure.name  # type: ignore[misc]


def test_amounts_in_messages_and_arguments_are_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (evidence, records):  # searches end after so many characters
        monkeypatch.setattr(module, "SEARCHED", 1_000_000)
    for measure in (RESULT_INTERPRETATION, ARGUMENT_VALIDITY):
        assert _is_linear(lambda t, m=measure: list(m(t, None, None)), _told_amounts), measure.name  # type: ignore[misc]


def test_errors_and_statuses_of_many_things_are_linear() -> None:
    # Behind so many calls no other is looked at: growth shows beyond.
    calls = 8 * LATER_CALLS
    for measure in (RESULT_INTERPRETATION, TERMINATION, RECOVERY):

        def ask(run: Trajectory, measure: RuleMeasure = measure) -> object:
            return list(measure(run, None, None))

        assert _is_linear(ask, _told_errors, calls), measure.name
