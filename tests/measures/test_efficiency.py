"""What a run cost, and what it cost against the usual; an absent field is named, never 0."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.measures.facts import EFFICIENCY
from stepscope.measures.facts import EFFICIENCY_RATIO as RATIO
from stepscope.model import Facts, Instant, Step, Trajectory, Usage
from stepscope.values import Unmeasured
from tests.factories import agent, did, run, user
from tests.measures.answers import value, whole

SECOND = 1_000_000_000


def figure(made: Trajectory, name: str) -> float | str | None:
    return value(whole(EFFICIENCY, made)[f"efficiency.{name}"])


def spent(tokens_in: int | None, tokens_out: int | None) -> Usage:
    return Usage(input_total=tokens_in, output_total=tokens_out)


def at(step: Step, start: float | None, end: float | None) -> Step:
    return msgspec.structs.replace(
        step,
        start=None if start is None else Instant(int(start * SECOND), ""),
        end=None if end is None else Instant(int(end * SECOND), ""),
    )


def test_steps_and_calls_are_counted() -> None:
    made = run(user("hi"), *did("get"), *did("get"), agent("bye"))
    assert (figure(made, "steps"), figure(made, "calls")) == (6.0, 2.0)


def test_fields_that_the_trace_lacks_are_missing_input_and_named() -> None:
    found = whole(EFFICIENCY, run(user("hi")))
    for name, field in [("tokens", "usage"), ("cost_usd", "cost_usd"), ("seconds", "start")]:
        absent = found[f"efficiency.{name}"]
        assert isinstance(absent, Unmeasured)
        assert absent.kind == "missing_input"
        assert absent.reason.startswith(field)


@pytest.mark.parametrize(
    ("whole_run", "steps", "tokens"),
    [
        (spent(100, 20), (), 120.0),
        (spent(0, 0), (), 0.0),
        (spent(100, None), (), "missing_input"),
        (spent(100, 20), (spent(1, 1),), 120.0),
        (None, (spent(100, 20), None, spent(200, 5)), 325.0),
        (None, (None,), "missing_input"),
    ],
)
def test_tokens_are_input_and_output_of_the_run_else_of_its_steps(
    whole_run: Usage | None, steps: tuple[Usage | None, ...], tokens: float | str
) -> None:
    made = run(*(msgspec.structs.replace(agent("x"), usage=u) for u in steps), usage=whole_run)
    assert figure(made, "tokens") == tokens


@pytest.mark.parametrize(
    ("reported", "computed", "steps", "usd"),
    [
        (0.5, 0.7, (0.1,), 0.5),
        (0.0, 0.7, (), 0.0),
        (None, 0.7, (0.1, None, 0.2), pytest.approx(0.3)),
        (None, 0.7, (), 0.7),
        (None, None, (), "missing_input"),
    ],
)
def test_a_reported_cost_wins_over_a_computed_one(
    reported: float | None,
    computed: float | None,
    steps: tuple[float | None, ...],
    usd: float | str,
) -> None:
    made = run(
        *(msgspec.structs.replace(agent("x"), cost_usd=each) for each in steps),
        cost_usd=reported,
        cost_computed_usd=computed,
    )
    assert figure(made, "cost_usd") == usd


def test_seconds_run_from_the_first_start_to_the_last_end() -> None:
    inside = (at(agent("a"), 10, 12), at(agent("b"), 11, 15.5), at(agent("c"), 13, None))
    assert figure(run(*inside), "seconds") == 5.5
    outside = run(*inside, start=Instant(0, ""), end=Instant(60 * SECOND, ""))
    assert figure(outside, "seconds") == 60.0
    backwards = run(start=Instant(60 * SECOND, ""), end=Instant(0, ""))
    assert figure(backwards, "seconds") == "missing_input"
    assert figure(run(at(agent("a"), 10, None)), "seconds") == "missing_input"
    assert figure(run(at(agent("a"), 10, 12)), "seconds") == 2.0
    assert figure(run(start=Instant(5, ""), end=Instant(5, "")), "seconds") == 0.0
    assert figure(run(at(agent("a"), 10, None), at(agent("b"), 11, None)), "seconds") == 1.0


def test_a_ratio_is_to_the_median_of_passing_runs() -> None:
    facts = Facts(medians={"steps": 2.0, "calls": 0.0})
    found = whole(RATIO, run(*did("get"), agent("x")), facts=facts)
    assert value(found["efficiency_ratio.steps"]) == 1.5
    assert value(found["efficiency_ratio.calls"]) == "undefined"
    assert value(found["efficiency_ratio.tokens"]) == "missing_input"


def test_without_passing_runs_there_is_no_ratio() -> None:
    for facts in (None, Facts()):
        found = whole(RATIO, run(agent("x")), facts=facts)
        assert value(found["efficiency_ratio.steps"]) == "insufficient_data"
