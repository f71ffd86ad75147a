"""What every built-in measure promises, on any run: one whole answer an aspect, no two a step."""

from __future__ import annotations

from collections import Counter
from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope import registry
from stepscope.model import (
    Answer,
    Case,
    Facts,
    Measure,
    Outcome,
    PolicyRule,
    Step,
    Trajectory,
    Verdict,
)
from tests.factories import FAILED, PASSED, agent, did, failed, goal, run, user

MEASURES = registry.installed_measures()
TURNS = st.lists(
    st.sampled_from(
        [
            (user("yes"),),
            (agent("Shall I proceed?"),),
            did("get", id=1),
            did("get", id=2),
            did("pay", usd=1),
            failed("pay", usd=1),
            failed("get", id=1),
            did("bash", "x" * 40),
            (agent("Sorry, that failed."),),
        ]
    ),
    max_size=12,
)
CASES = st.sampled_from(
    [
        None,
        Case(workflow="shop", task="1"),
        Case(workflow="shop", task="1", reference=(), outputs=("failed",)),
        Case(
            workflow="shop", task="1", subgoals=(goal("pay", usd=1), goal("get")), order="ordered"
        ),
    ]
)
FACTS = st.sampled_from(
    [
        None,
        Facts(medians={"steps": 3.0}, policy=(PolicyRule(name="n", forbid="pay"),)),
        Facts(policy=(PolicyRule(name="ask", before="write", require="confirm"),)),
    ]
)


def test_no_axis_of_the_rules_can_say_correct() -> None:
    axes = [measure for measure in MEASURES if measure.name.startswith("axes.")]
    assert [measure.scale.labels for measure in axes] == [("incorrect", "uncertain")] * 5


def aspects(answers: list[Answer]) -> list[str]:
    return [answer.measure for answer in answers if answer.step is None]


@settings(max_examples=60)
@given(TURNS, CASES, FACTS, st.sampled_from([PASSED, FAILED]))
def test_every_measure_keeps_its_contract(
    turns: list[tuple[Step, ...]], case: Case | None, facts: Facts | None, outcome: Outcome
) -> None:
    made = run(*(step for turn in turns for step in turn), outcome=outcome)
    for measure in MEASURES:
        answers = list(measure(made, case, facts))
        _check(measure, made, answers)
        assert list(measure(made, case, facts)) == answers
        assert aspects(answers) == aspects(list(measure(run(), None, None)))


def _check(measure: Measure, made: Trajectory, answers: list[Answer]) -> None:
    assert max(Counter((answer.measure, answer.step) for answer in answers).values()) == 1
    for answer in answers:
        assert f"{answer.measure}.".startswith(f"{measure.name}.")
        assert answer.step is None or answer.step < len(made.steps)
        if not isinstance(answer, Verdict):
            assert answer.reason
            continue
        assert answer.value is not None or answer.label is not None
        assert all(0 <= cite < len(made.steps) for cite in answer.cites)
        assert list(answer.cites) == sorted(set(answer.cites))
        if answer.value is not None:
            assert isfinite(answer.value)
            assert measure.scale.low <= answer.value <= measure.scale.high
        if answer.label is not None and measure.name != "policy":
            assert answer.label in measure.scale.labels


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_a_measure_is_found_by_its_own_name(measure: Measure) -> None:
    assert registry.measure(measure.name) is measure
    assert set(measure.learns) <= set(Facts.__struct_fields__)


def test_all_of_them_are_installed() -> None:
    assert [measure.name for measure in MEASURES] == [
        "axes.argument_validity",
        "axes.result_interpretation",
        "axes.sequencing",
        "axes.termination",
        "axes.tool_selection",
        "completeness",
        "efficiency",
        "efficiency_ratio",
        "errors",
        "grounding",
        "localise",
        "loops",
        "match",
        "outcome",
        "policy",
        "recovery",
        "redundant_calls",
        "step_labels",
        "subgoals",
        "termination",
        "tool_schema",
    ]
