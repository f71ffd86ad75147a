"""Sharpen, proceed or label more: kappa against .5, on its limits."""

from __future__ import annotations

import re

import pytest

from stepscope.calibrate.agreement import measure_agreement
from stepscope.calibrate.types import RubricAgreement
from stepscope.model import Record, Verdict
from tests.calibrate.made import AXIS, by_step, store, whole

C, I = "correct", "incorrect"  # noqa: E741
HALF = [C, I] * 30
# Alike in 30 runs, the other way round in the rest: kappa about 0.
APART = [*HALF[:30], *reversed(HALF[30:])]


def asked(*records: list[Record], runs: int = 60, threshold: float = 0.5) -> RubricAgreement:
    with store(runs) as made:
        for batch in records:
            made.append(batch)
        return measure_agreement(made, threshold=threshold).aspects[0]


def test_limits_below_the_threshold_say_sharpen_and_name_five_items() -> None:
    found = asked(whole("openai/a", HALF), whole("anthropic/b", APART))
    assert found.decision.outcome == "fail"
    assert re.fullmatch(
        r"kappa 0\.00, -0\.\d\d to 0\.2\d: sharpen the rubric before automating it",
        found.decision.reason,
    )
    assert found.decided_on == "kappa of anthropic/b, openai/a"
    assert len(found.disputed) == 5
    first = found.disputed[0]
    assert (first.name, first.step) == ("shop/30/0", None)
    assert [(a.rater, a.label, a.reason) for a in first.answers] == [
        ("anthropic/b", I, "anthropic/b on 30"),
        ("openai/a", C, "openai/a on 30"),
    ]


def test_limits_above_the_threshold_say_proceed() -> None:
    found = asked(whole("openai/a", HALF), whole("anthropic/b", [*HALF[:58], I, C]))
    assert found.decision.outcome == "pass"
    assert found.decision.reason.endswith(": proceed")


def test_limits_around_the_threshold_tell_how_many_runs_would_decide() -> None:
    """At twenty runs a kappa of .57 may be anything from nearly none to nearly all."""
    first = [I] * 5 + [C] * 15
    second = [I, I, I, C, C, I, *[C] * 14]
    found = asked(whole("openai/a", first), whole("anthropic/b", second), runs=20)
    assert found.decision.outcome == "undecided"
    said = re.fullmatch(
        r"kappa 0\.57, (-?0\.\d\d) to (0\.\d\d), holds 0\.5: about ([\d,]+) more runs rated by all "
        r"would decide",
        found.decision.reason,
    )
    assert said is not None
    low, high = float(said[1]), float(said[2])
    assert low < 0.15
    assert high > 0.8
    assert int(said[3].replace(",", "")) > 500


def test_a_kappa_at_the_threshold_is_decided_by_no_sensible_number_of_labels() -> None:
    exact = [*HALF[:45], *(C if x == I else I for x in HALF[45:])]
    tie = asked(whole("openai/a", HALF), whole("anthropic/b", exact))
    assert tie.decision.reason.endswith(
        "holds 0.5: too close for any sensible number of labels to decide"
    )


def test_another_threshold_decides_otherwise() -> None:
    records = (
        whole("openai/a", HALF),
        whole("anthropic/b", [*HALF[:45], *(C if x == I else I for x in HALF[45:])]),
    )
    assert asked(*records, threshold=0.1).decision.outcome == "pass"
    assert asked(*records, threshold=0.9).decision.outcome == "fail"


def test_people_decide_where_two_of_them_rated_and_the_rules_do_not() -> None:
    judges = whole("openai/a", HALF), whole("anthropic/b", APART)
    rules = [Record(trajectory=r.trajectory, answer=_of_rules(r), version="2") for r in judges[1]]
    assert asked(*judges, rules).decided_on == "kappa of anthropic/b, openai/a"
    assert asked(judges[0], rules).decided_on == "openai/a"
    people = whole("ann", HALF, family="human"), whole("bob", HALF, family="human")
    assert asked(*judges, *people).decided_on == "kappa of ann, bob"
    one = asked(*judges, people[0])
    assert one.decided_on == "fleiss of anthropic/b, ann, openai/a"


def _of_rules(record: Record) -> Verdict:
    assert isinstance(record.answer, Verdict)
    return Verdict(AXIS, label=record.answer.label)


def test_several_rubrics_are_decided_at_once_on_wider_limits() -> None:
    with store(60) as made:
        for axis in ("axes.termination", "axes.sequencing", "axes.tool_selection"):
            made.append(whole("openai/a", HALF, axis=axis))
            made.append(whole("anthropic/b", APART, axis=axis))
        made.append(whole("openai/a", HALF, axis="quality.plan"))
        together = measure_agreement(made)
        alone = measure_agreement(made, rubric="axes.termination")
    # The rubric of one rater is not decided, and costs the others nothing.
    assert "3 rubrics at once" in together["termination"].decision.reason
    assert "at once" not in alone["termination"].decision.reason
    assert _high(together["termination"]) > _high(alone["termination"])


def _high(aspect: RubricAgreement) -> float:
    said = re.search(r"to (0\.\d+)", aspect.decision.reason)
    assert said is not None
    return float(said[1])


@pytest.mark.parametrize(
    ("rows", "outcome"), [(["PPEPPE"] * 30, "pass"), (["EPPEPP"] * 30, "fail")]
)
def test_steps_are_decided_over_their_runs(rows: list[str], outcome: str) -> None:
    others = ["PPEPPE", "PPEPPP"] * 15
    found = asked(by_step("openai/a", rows), by_step("anthropic/b", others), runs=30)
    assert (found.unit, found.decision.outcome) == ("steps", outcome)
