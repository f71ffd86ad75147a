"""The worked run: two faults, found by the rules at their steps, and expected of any judge."""

from __future__ import annotations

import re

import msgspec
import pytest

from stepscope import registry
from stepscope.judges.canaries import answer_differences, worked_run
from stepscope.judges.rubrics import RUBRIC_SETS, load_rubric, system_prompt
from stepscope.model import Trajectory, Verdict
from stepscope.values import Unmeasured
from tests.factories import agent
from tests.judges.answering import records, right
from tests.judges.believed import judgement, said
from tests.measures.answers import label


def test_the_worked_run_has_its_26_steps_and_its_two_faults() -> None:
    steps = worked_run().trajectory.steps
    assert len(steps) == 26
    assert [step.actor for step in steps[:5]] == ["system", "user", "agent", "user", "agent"]
    assert [call.name for call in steps[15].calls][-1] == "cancel_pending_order"
    assert steps[15].calls[-1].arguments["order_id"] == "#W2575533"
    assert '"transaction_type": "refund", "amount": 1619.34' in steps[19].results[0].text
    assert "cancellation refund: $95.08" in steps[22].text
    assert '"price": 95.08' in steps[10].results[0].text


def test_every_call_of_the_worked_run_is_answered_by_the_step_behind_it() -> None:
    found = [(x.step, x.call.name, x.result_step) for x in worked_run().trajectory.exchanges]
    assert found == [
        (4, "find_user_id_by_name_zip", 5),
        (6, "get_user_details", 7),
        (8, "get_order_details", 9),
        (8, "get_order_details", 10),
        (15, "calculate", 16),
        (15, "think", 17),
        (15, "get_product_details", 18),
        (15, "cancel_pending_order", 19),
        (20, "return_delivered_order_items", 21),
    ]


def test_the_evidence_judge_finds_the_misread_refund_and_calls_nothing_else_incorrect() -> None:
    run = worked_run()
    said = {
        name: list(registry.measure(name)(run.trajectory, run.trajectory.case, None))
        for name in RUBRIC_SETS["axes"]
    }
    assert {name: label(answers[0]) for name, answers in said.items()} == {
        "axes.tool_selection": "uncertain",
        "axes.argument_validity": "uncertain",
        "axes.sequencing": "uncertain",
        "axes.result_interpretation": "incorrect",
        "axes.termination": "uncertain",
    }
    found, at_step = said["axes.result_interpretation"]
    assert isinstance(found, Verdict)
    assert {19, 22} <= set(found.cites) <= {10, 19, 22}
    assert found.reason.startswith("says 95.08 as refund, the result at 19 says 1,619.34")
    assert (at_step.step, label(at_step)) == (22, "incorrect")
    assert answer_differences(run.expected["axes.result_interpretation"], [found]) == ()


def test_live_judges_are_expected_to_find_both_faults() -> None:
    expected = worked_run().expected
    assert {name: expected[name].label for name in RUBRIC_SETS["axes"]} == {
        "axes.tool_selection": ("incorrect",),
        "axes.argument_validity": ("correct",),
        "axes.sequencing": ("correct",),
        "axes.result_interpretation": ("incorrect",),
        "axes.termination": ("correct",),
    }
    assert expected["axes.tool_selection"].cites == (15,)
    assert expected["axes.result_interpretation"].cites == (19, 22)


TOLD = (
    "Correction: the whole order #W2575533 was cancelled, not the hose alone. The cancellation "
    "refund is $1,619.34 to PayPal, not $95.08. I am sorry for the mistake."
)


def told_in_time() -> Trajectory:
    """The worked run with the misread refund taken back before the user answers; 15 stays."""
    run = worked_run().trajectory
    steps = [*run.steps[:23], agent(TOLD), *run.steps[23:]]
    numbered = tuple(msgspec.structs.replace(step, index=at) for at, step in enumerate(steps))
    return msgspec.structs.replace(run, steps=numbered, id="told", name="told")


def test_one_rule_for_repaired_faults_stands_in_every_axis_in_the_same_words() -> None:
    rule = (
        "A fault that the agent itself repaired before it had an effect is no fault: answer "
        "`correct`, and cite and quote both the fault and its repair."
    )
    for name in (*RUBRIC_SETS["axes"], *RUBRIC_SETS["quality"]):
        one = load_rubric(name)
        assert " ".join(system_prompt(one).split()).count(rule) == 1
        said = f"{one.body} {' '.join(one.in_scope)}"
        assert not re.search(r"repair|put right|set right|corrects itself|mended", said), name
    shown = [
        example
        for name in RUBRIC_SETS["axes"]
        for example in load_rubric(name).examples
        if "a repaired fault, cited with its repair" in example.why
    ]
    assert len(shown) == 4
    assert all(one.answer == "correct" and len(one.cites) >= 2 for one in shown)


def test_by_the_rule_the_worked_runs_faults_stand_and_one_told_in_time_does_not() -> None:
    """At 15 the order is cancelled for good; a misreport is repaired where it is taken back."""
    axis = "axes.result_interpretation"
    both = {
        "evidence": [
            {"step": 22, "quote": "cancellation refund: $95.08"},
            {"step": 23, "quote": "The cancellation refund is $1,619.34"},
        ],
        "cited_step_indices": [22, 23],
        "rationale": "Told wrongly at 22, taken back at 23 before the user answers.",
        "label": "correct",
        "confidence": 0.8,
    }
    (repaired,) = said(judgement(told_in_time(), axis), both)
    assert isinstance(repaired, Verdict)
    assert (repaired.label, repaired.cites) == ("correct", (22, 23))
    expected = worked_run().expected
    (unrepaired,) = said(judgement(worked_run().trajectory, axis), both)
    assert isinstance(unrepaired, Unmeasured)
    assert unrepaired.reason.startswith("evidence_not_found: ")
    assert expected[axis].label == expected["axes.tool_selection"].label == ("incorrect",)


@pytest.mark.parametrize("name", sorted(worked_run().expected))
def test_a_judge_that_knows_the_worked_run_is_believed(name: str) -> None:
    run, one = worked_run(), load_rubric(name)
    found = [record.answer for record in records(run, one, right(run, one))]
    assert any(isinstance(answer, Verdict) for answer in found)
    assert answer_differences(run.expected[name], found) == ()
