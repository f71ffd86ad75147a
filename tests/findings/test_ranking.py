"""Every step of the agent has a probability; what a store knows moves it by a factor, once."""

from __future__ import annotations

from math import log

import pytest

from stepscope.findings import rank_steps
from stepscope.findings.ranking import (
    FAULT_FACTORS,
    NOT_RANKED,
    RankedStep,
    StepEvidence,
    StepRanking,
    describe_reliability,
    evidence_of_records,
    find_new_write,
    find_proofs,
)
from stepscope.measures.localise import LOCALISE
from stepscope.model import Facts, Outcome, Record, Step, Trajectory, Verdict
from stepscope.model.records import OUTRANKED
from stepscope.values import Unmeasured
from tests.factories import FAILED, PASSED, agent, did, failed, run, user

NOBODY = 0.2


def localised(*ranked: tuple[int, float, str], nobody: float = NOBODY) -> list[Record]:
    answers = [
        Verdict("localise", log(share), label, step=step, cites=(step,), reason=f"{label} here")
        for step, share, label in ranked
    ]
    answers.append(Verdict("localise.nobody", nobody, "calls"))
    return [Record(trajectory="r1", answer=a, version=LOCALISE.version) for a in answers]


def by_rules(measure: str, label: str, step: int | None, *cites: int) -> Record:
    answer = Verdict(measure, label=label, step=step, cites=cites, reason="because")
    return Record(trajectory="r1", answer=answer, version="1")


def by_judge(
    measure: str, label: str, step: int | None, *cites: int, judge: str = "a/b", reason: str = "why"
) -> Record:
    answer = Verdict(f"judge.{measure}", label=label, step=step, cites=cites, reason=reason)
    return Record(trajectory="r1", answer=answer, version="1", family="openai", judge=judge)


TWO = localised((1, 0.5, "place"), (3, 0.5, "place"))


def ranking(*more: Record, of: list[Record] = TWO) -> StepRanking:
    found = rank_steps([*of, *more])
    assert isinstance(found, StepRanking)
    return found


def step(found: StepRanking, index: int) -> RankedStep:
    (one,) = [one for one in found.steps if one.step == index]
    return one


def odds(*more: Record, of: list[Record] = TWO) -> float:
    """Return how much likelier step 1 is than step 3."""
    found = ranking(*more, of=of)
    return step(found, 1).share / step(found, 3).share


def test_without_more_evidence_shares_are_those_of_the_run_and_sum_to_one() -> None:
    found = ranking(of=localised((1, 0.7, "failed"), (3, 0.3, "end")))
    assert [one.step for one in found.steps] == [1, 3]
    assert [one.share for one in found.steps] == pytest.approx([0.56, 0.24])
    assert found.nobody == pytest.approx(0.2)


def test_evidence_takes_from_the_other_steps_and_from_nobody() -> None:
    found = ranking(by_rules("axes.sequencing", "incorrect", 1))
    factor = FAULT_FACTORS["calls"]
    total = 0.2 + 0.4 * factor + 0.4
    assert step(found, 1).share == pytest.approx(0.4 * factor / total)
    assert found.nobody == pytest.approx(0.2 / total)
    assert sum(one.share for one in found.steps) + found.nobody == pytest.approx(1)


@pytest.mark.parametrize(
    ("record", "factor"),
    [
        (by_rules("axes.sequencing", "incorrect", 1), 30.0),
        (by_rules("axes.sequencing", "uncertain", 1), 1.0),
        (by_rules("axes.sequencing", "correct", None, 1), 1.0),
        (by_rules("axes.sequencing", "incorrect", None, 1), 1.0),  # its steps say it
        (by_rules("policy", "no refunds", 1), 4.0),
        (by_rules("step_labels", "ERROR", 1), 1.0),  # an error that localise has counted
        (by_judge("step_labels", "ERROR", 1, 1), 3.0),
        (by_judge("step_labels", "PROGRESS", 1, 1), 1.0),
        (by_judge("axes.termination", "incorrect", None, 1), 3.0),
        (by_judge("axes.termination", "correct", None, 1), 1.0),
        (by_judge("axes.termination", "incorrect", None, 1, reason=f"{OUTRANKED}x"), 1.0),
        (by_judge("attribution", "plan", None, 1), 6.0),
        (by_judge("quality.plan", "poor", None, 1), 1.0),
    ],
)
def test_what_proves_a_fault_is_evidence_and_what_finds_nothing_is_none(
    record: Record, factor: float
) -> None:
    assert odds(record) == pytest.approx(factor)


def test_a_failure_of_the_user_is_no_evidence_against_the_agent() -> None:
    cause = by_judge("attribution", "plan", None, 1)
    assert odds(cause, by_judge("attribution.whose", "agent", None, 1)) == pytest.approx(6.0)
    assert odds(cause, by_judge("attribution.whose", "user", None, 1)) == pytest.approx(1.0)


def test_one_source_counts_once_at_a_step_and_half_at_a_later_one() -> None:
    first, again = by_rules("policy", "a", 1), by_rules("policy", "b", 1)
    assert odds(first, again) == odds(first)
    assert odds(first, by_rules("policy", "a", 3)) == pytest.approx(4.0 / 2.5)


def test_an_error_that_nobody_looks_back_at_weighs_twice_one_that_is_addressed() -> None:
    error, on = by_judge("step_labels", "ERROR", 1, 1), by_judge("step_labels", "PROGRESS", 3, 3)
    back = by_judge("step_labels", "PROGRESS", 3, 3, 1, reason="addresses 1: it mends it")
    assert odds(error, on) == pytest.approx(6.0)
    assert odds(error, back) == pytest.approx(3.0)
    # Of another judge that goes on nobody knows whether it saw the error.
    other = by_judge("step_labels", "PROGRESS", 3, 3, judge="c/d")
    assert odds(error, other) == pytest.approx(3.0)
    found = step(ranking(error, on), 1)
    assert (found.kind, found.more) == (
        "judge_cascade", ("an error that no later step addresses, says a/b: why",),
    )  # fmt: skip


def test_two_judges_count_both() -> None:
    one, other = by_judge("step_labels", "ERROR", 1, 1), by_judge(
        "step_labels", "ERROR", 1, 1, judge="c/d"
    )  # fmt: skip
    assert odds(one, other) == pytest.approx(9.0)


@pytest.mark.parametrize(
    ("label", "factor"), [("place", 30.0), ("invented", 10.0), ("repeat", 30.0)]
)
def test_what_localise_has_counted_does_not_count_again(label: str, factor: float) -> None:
    of = localised((1, 0.5, label), (3, 0.5, "place"))
    fault = by_rules("axes.argument_validity", "incorrect", 1)
    assert odds(fault, of=of) == pytest.approx(factor)


def test_faults_of_two_axes_at_one_step_count_once_and_the_later_fault_counts_half() -> None:
    first, same = (
        by_rules(f"axes.{name}", "incorrect", 1) for name in ("sequencing", "termination")
    )
    assert odds(first, same) == pytest.approx(30.0)
    later = by_rules("axes.tool_selection", "incorrect", 3)
    assert odds(first, later) == pytest.approx(30.0 / 15.5)


def test_what_is_proved_of_a_run_needs_no_outcome_and_no_judge() -> None:
    proved = [by_rules("policy", "no refunds", 3), by_rules("axes.sequencing", "incorrect", 1)]
    nothing = [by_rules("axes.termination", "uncertain", 1), by_judge("step_labels", "ERROR", 1, 1)]
    assert [(one.step, one.kind) for one in find_proofs([*proved, *nothing])] == [
        (1, "fault"),
        (3, "breach"),
    ]


def test_evidence_at_a_step_that_is_not_the_agents_counts_nowhere() -> None:
    assert ranking(by_judge("axes.termination", "incorrect", None, 2)) == ranking()


def test_a_step_tells_what_the_run_shows_and_what_a_store_adds() -> None:
    found = step(ranking(by_judge("axes.termination", "incorrect", None, 1, 2)), 1)
    assert (found.kind, found.label) == ("judge_fault", "place")
    assert (found.own, found.more) == ("place here", ("termination at fault, says a/b: why",))
    assert found.cites == (1, 2)


def test_records_of_another_version_or_none_rank_nothing() -> None:
    old = [Record(trajectory="r1", answer=r.answer, version="1") for r in TWO]
    assert rank_steps(old) is NOT_RANKED
    assert rank_steps([]) is NOT_RANKED


@pytest.mark.parametrize(
    ("outcome", "kind"), [(PASSED, "not_applicable"), (Outcome(), "missing_input")]
)
def test_a_run_that_did_not_fail_says_why_it_has_no_ranking(outcome: Outcome, kind: str) -> None:
    made = run(agent("hello"), outcome=outcome)
    held = [
        Record(trajectory="r1", answer=a, version=LOCALISE.version)
        for a in LOCALISE(made, None, None)
    ]
    found = rank_steps(held)
    assert isinstance(found, Unmeasured)
    assert found.kind == kind


def trial(*steps: Step, passed: bool = True) -> Trajectory:
    return run(user("x"), *steps, outcome=PASSED if passed else FAILED)


def new_write(made: Trajectory, *passing: Trajectory, facts: Facts | None = None) -> int | None:
    found = find_new_write(made, passing, facts)
    return None if found is None else found.step


GOOD = trial(*did("get", id=1), *did("cancel_order", id="A", items=["x", "y"]))


@pytest.mark.parametrize(
    ("steps", "at"),
    [
        (did("cancel_order", id="B"), 1),
        ((*did("cancel_order", id="A", items=["x", "y"]), *did("cancel_order", id="B")), 3),
        ((*did("cancel_order", id="B"), *did("cancel_order", id="C")), 1),
        # Near misses: the order of a list, a failed write, a read, an ending.
        (did("cancel_order", items=["y", "x"], id="A"), None),
        (failed("cancel_order", id="B"), None),
        (did("get", id=2), None),
        (did("transfer_to_human_agents"), None),
        ((agent("done"),), None),
    ],
)
def test_the_first_successful_write_that_no_passing_trial_makes_is_evidence(
    steps: tuple[Step, ...], at: int | None
) -> None:
    assert new_write(trial(*steps, passed=False), GOOD) == at


def test_without_passing_trials_no_write_is_new() -> None:
    assert new_write(trial(*did("cancel_order", id="B"), passed=False)) is None


def test_a_write_that_any_passing_trial_makes_is_not_new() -> None:
    other = trial(*did("cancel_order", id="B"))
    made = trial(*did("cancel_order", id="B"), passed=False)
    assert new_write(made, GOOD, other) is None


def test_a_declared_effect_says_what_a_write_is() -> None:
    made = trial(*did("poke", id="B"), passed=False)
    assert new_write(made, GOOD) is None
    assert new_write(made, GOOD, facts=Facts(effects={"poke": "write"})) == 1


def test_a_new_write_outweighs_what_localise_says_of_the_same_write() -> None:
    of = localised((1, 0.5, "wrong_write"), (3, 0.5, "place"))
    found = rank_steps(of, [StepEvidence(1, "new_write", "no trial makes it")])
    assert isinstance(found, StepRanking)
    assert step(found, 1).share / step(found, 3).share == pytest.approx(12 / 5)
    assert step(found, 1).kind == "new_write"


def test_reliability_is_told_in_runs_with_how_often_people_agree() -> None:
    said = describe_reliability("calls")
    assert said.startswith("On 9 public runs with tool calls, the step that people blamed was")
    assert "two teams of people named the same step in 36 %" in said


def test_evidence_of_no_records_is_none() -> None:
    assert list(evidence_of_records([])) == []
