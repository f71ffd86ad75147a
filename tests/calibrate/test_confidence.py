"""What confidences are worth: calibration against people, and a judge before and after."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.calibrate.agreement import measure_agreement
from stepscope.calibrate.confidence import pool_rising
from stepscope.calibrate.types import ConfidenceBin, RubricAgreement
from stepscope.model import Record
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import store, whole

C, I = "correct", "incorrect"  # noqa: E741
TRUTH = [C, I] * 20
FLIPPED = [I if label == C else C for label in TRUTH]


def asked(*records: list[Record], runs: int = 40) -> RubricAgreement:
    with store(runs) as made:
        for batch in records:
            made.append(batch)
        return measure_agreement(made).aspects[0]


def judge(name: str, right: list[bool], sure: list[float]) -> list[Record]:
    labels = [t if ok else f for t, f, ok in zip(TRUTH, FLIPPED, right, strict=True)]
    return whole(name, labels, confidence=sure)


# Right in 18 of 20 where it says .9, in 10 of 20 where it says .6.
FIRST = [True] * 18 + [False] * 2 + [True, False] * 10
SURE = [0.9] * 20 + [0.6] * 20


def bins(aspect: RubricAgreement, name: str) -> tuple[ConfidenceBin, ...]:
    (found,) = [curve.bins for curve in aspect.curves if curve.judge == name]
    assert not isinstance(found, Unmeasured)
    return found


def test_a_curve_says_how_often_people_found_the_judge_right() -> None:
    found = asked(judge("openai/a", FIRST, SURE), whole("ann", TRUTH, family="human"))
    low, high = bins(found, "openai/a")
    assert (low.low, low.high) == (0.6, 0.6)
    assert low.confidence == pytest.approx(0.6)
    assert isinstance(low.right, Estimate)
    assert isinstance(high.right, Estimate)
    assert (low.right.value, high.right.value) == (0.5, 0.9)
    # Jeffreys: half a verdict more of each.
    assert low.probability == 0.5
    assert high.probability == pytest.approx(18.5 / 21)


def test_shares_right_never_fall_along_a_curve() -> None:
    blocks = pool_rising(np.array([0.5, 0.7, 0.7, 0.9]), np.array([1.0, 1.0, 0.0, 1.0]))
    assert [sorted(rows.tolist()) for rows in blocks] == [[0, 1, 2], [3]]


def test_few_labels_make_no_curve_and_no_labels_none_at_all() -> None:
    few = asked(judge("openai/a", FIRST, SURE), whole("ann", TRUTH[:19], family="human"))
    (curve,) = few.curves
    assert isinstance(curve.bins, Unmeasured)
    assert curve.bins.reason == "19 verdicts have a person's label; a curve needs 20"
    alone = asked(judge("openai/a", FIRST, SURE), judge("anthropic/b", FIRST, SURE))
    assert alone.curves == ()
    assert "weighted" not in alone.pairs[0].figures


def test_people_who_are_split_are_no_truth() -> None:
    found = asked(
        judge("openai/a", FIRST, SURE),
        whole("ann", TRUTH, family="human"),
        whole("bob", [*TRUTH[:30], *FLIPPED[30:]], family="human"),
    )
    assert found.curves[0].n == 30


def test_weighted_agreement_is_over_calibrated_confidences_not_stated_ones() -> None:
    """Both say .9 and .6 at the same runs: .881 and .5 after calibration, whatever they say."""
    people = whole("ann", TRUTH, family="human")
    found = asked(judge("openai/a", FIRST, SURE), judge("anthropic/b", FIRST, SURE), people)
    figure = found.pair("openai/a", "anthropic/b")["weighted"]
    assert isinstance(figure, Estimate)
    p = 18.5 / 21
    assert figure.value == pytest.approx((p * p + (1 - p) ** 2 + 0.5) / 2)
    assert "the calibration is taken as known" in figure.diagnostics
    timid = [0.55] * 20 + [0.51] * 20
    other = asked(judge("openai/a", FIRST, SURE), judge("anthropic/b", FIRST, timid), people)
    assert other.pair("openai/a", "anthropic/b")["weighted"] == figure


def test_without_labels_a_judge_is_compared_with_itself_before_and_after() -> None:
    before = whole("openai/a", TRUTH, confidence=[0.9] * 40, cites=[(1,)] * 40, version="1")
    after = whole(
        "openai/a",
        [*FLIPPED[:4], *TRUTH[4:]],
        confidence=[0.7, 0.5] * 20,
        cites=[(1, 2)] * 40,
        version="2",
    )
    found = asked(before, after, whole("anthropic/b", TRUTH))
    (change,) = found.changes
    assert (change.judge, change.before, change.after, change.n) == ("openai/a", "1", "2", 40)
    assert isinstance(change.kept, Estimate)
    assert isinstance(change.confidence, Estimate)
    assert isinstance(change.cites, Estimate)
    assert change.kept.value == 0.9
    assert change.confidence.value == pytest.approx(-0.3)
    assert change.cites.value == 0.5
