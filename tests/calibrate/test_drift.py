"""A judge that answers fixed runs differently has shifted, and its gates are undecided."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from stepscope.api.rubrics import choose_fixed_runs
from stepscope.calibrate.drift import JudgeDrift, measure_drift, shift_test
from stepscope.judges.judgement import JudgingOptions, record_prompt
from stepscope.judges.rubrics import load_rubric
from stepscope.model import Answer, Record, Verdict
from stepscope.model.records import DRIFT_REPEAT
from stepscope.settings import Settings
from stepscope.store import Store
from stepscope.store.judged import read_judge_answers
from stepscope.values import Estimate, Unmeasured
from tests.calibrate.made import AXIS, said, store
from tests.gates.rows import gates, report

JUDGE = "openai/a"


def answer(bad: bool) -> Verdict:
    return Verdict(f"judge.{AXIS}", label="incorrect" if bad else "correct")


def judged(
    runs: int, before: int, now: int, *, earlier: int = 3, snapshot: str = "", prompt: str = "p"
) -> Store:
    """Return a store of runs of which a judge called so many bad before, and so many now."""
    made = store(runs)
    repeats = [*range(earlier), DRIFT_REPEAT]
    made.append([
        said(
            JUDGE + (snapshot if repeat == DRIFT_REPEAT else ""), n,
            answer(n < (now if repeat == DRIFT_REPEAT else before)), repeat=repeat,
            prompt=(prompt if repeat == DRIFT_REPEAT else "p") * 16,
        )
        for n in range(runs)
        for repeat in repeats
    ])  # fmt: skip
    return made


def drift(*counts: int, earlier: int = 3, snapshot: str = "", prompt: str = "p") -> JudgeDrift:
    with judged(*counts, earlier=earlier, snapshot=snapshot, prompt=prompt) as made:
        (found,) = measure_drift(made)
        return found


def test_a_judge_that_calls_more_of_the_same_runs_bad_has_shifted() -> None:
    found = drift(30, 5, 14)
    assert found.decision.outcome == "fail"
    assert found.decision.reason.startswith("the judge answers 30 fixed runs differently")
    shift = found.shifts["incorrect"]
    assert isinstance(shift, Estimate)
    assert shift.value == pytest.approx(9 / 30)
    assert found.shifts.keys() == {"correct", "incorrect"}


@pytest.mark.parametrize("occasions", [1, 2, 3, 6])
def test_a_shift_that_stays_is_not_lost_by_asking_again(occasions: int) -> None:
    with store(20) as made:
        made.append([
            said(JUDGE, n, answer(n < 8 and at > 0), repeat=DRIFT_REPEAT + at - 1 if at else 0)
            for n in range(20) for at in range(occasions + 1)
        ])  # fmt: skip
        (found,) = measure_drift(made)
    assert (found.decision.outcome, found.occasion) == ("fail", occasions)
    shift = found.shifts["incorrect"]
    assert isinstance(shift, Estimate)
    assert shift.value == pytest.approx(8 / 20)


def test_a_judge_that_is_as_it_was_again_has_not_shifted() -> None:
    with store(20) as made:
        made.append([
            said(JUDGE, n, answer(n < 5 and at == 2), repeat=DRIFT_REPEAT + at - 1 if at else 0)
            for n in range(20) for at in range(4)
        ])  # fmt: skip
        (found,) = measure_drift(made)
    assert found.decision.outcome == "pass"


def test_the_same_answers_again_are_no_shift() -> None:
    found = drift(30, 5, 5)
    assert found.decision.outcome == "pass"
    assert found.p_adjusted == 1.0


def test_a_judge_that_begins_to_refuse_has_shifted() -> None:
    with judged(30, 0, 0) as made:
        made.append([
            said(JUDGE, n, Unmeasured("refused", "no", f"judge.{AXIS}"), repeat=DRIFT_REPEAT + 1,
                 prompt="p" * 16)
            for n in range(30)
        ])  # fmt: skip
        (found,) = measure_drift(made)
    assert (found.decision.outcome, found.occasion) == ("fail", 2)
    assert found.shifts.keys() == {"correct", "refused"}


def test_few_flips_are_noise() -> None:
    assert drift(30, 5, 7).decision.outcome == "pass"


def test_below_twenty_fixed_runs_nothing_is_tested() -> None:
    found = drift(19, 0, 19)
    assert (found.decision.outcome, found.runs, found.p_adjusted) == ("undecided", 19, None)
    assert drift(20, 0, 20).decision.outcome == "fail"


def test_answers_under_another_prompt_are_no_reference() -> None:
    assert drift(30, 0, 30, prompt="q").runs == 0


def test_the_snapshots_of_both_sides_are_told() -> None:
    assert drift(30, 5, 14, snapshot="@2026").snapshots == ("2026",)


def test_p_is_that_of_flips_of_one_direction() -> None:
    # One earlier answer: 6 of 6 flips one way; both ways of each are as likely: 2 / 2^6.
    answers = [{0: {"good": 1.0}, 1: {"bad" if n < 6 else "good": 1.0}} for n in range(20)]
    p, _ = shift_test(answers, 1, np.random.default_rng(0), draws=19_999)
    assert p == pytest.approx(2 / 64, abs=0.005)


def test_a_steady_judge_is_not_told_to_have_shifted_too_often() -> None:
    rng = np.random.default_rng(0)
    told = 0
    for _ in range(300):
        bad = rng.random((30, 4)) < rng.choice([0.1, 0.9], 30)[:, None]
        answers = [{at: {str(bool(x)): 1.0} for at, x in enumerate(row)} for row in bad]
        told += shift_test(answers, 3, rng, draws=199)[0] <= 0.05
    assert told / 300 <= 0.05 + 2.33 * (0.05 * 0.95 / 300) ** 0.5


def test_asking_again_replaces_no_first_answer() -> None:
    with judged(25, 5, 25, snapshot="@2026") as made:
        runs = made.runs()
        (one,) = read_judge_answers(made, runs)
        labels: list[Answer] = [
            of.verdict.answer for of in one.runs.values() if of.verdict is not None
        ]
        assert sum(isinstance(x, Verdict) and x.label == "incorrect" for x in labels) == 5
        assert len(one.runs) == 25
        assert {record.repeat for _, record in one.all} == {0, 1, 2, DRIFT_REPEAT}


@pytest.mark.parametrize(("now", "cause"), [(25, "judge_drifted"), (5, None)])
def test_the_gates_of_a_judge_that_has_shifted_are_undecided(now: int, cause: str | None) -> None:
    asked = gates("shop", axes__termination={"max_rate": 0.6, "source": "axes"})
    with judged(60, 5, now) as made:
        (gate,) = report(made, asked, tier=("rules", "axes")).workflows[0].gates
    assert gate.cause == cause
    if cause:
        assert gate.outcome == "undecided"
        assert "openai/a has shifted on axes.termination" in gate.reason


def test_without_a_second_occasion_there_is_nothing_to_tell() -> None:
    with store(3) as made:
        made.append([said(JUDGE, 0, answer(True)), said(JUDGE, 1, Unmeasured("refused", "no"))])
        assert measure_drift(made) == ()


def test_an_occasion_that_was_stopped_goes_on_with_the_runs_that_were_drawn() -> None:
    rubric, how = load_rubric(AXIS), JudgingOptions()

    def ask(runs: Iterable[str], repeat: int) -> list[Record]:
        return [
            said(JUDGE, int(run[1:]), answer(bad=False), version=rubric.version, repeat=repeat,
                 prompt=record_prompt(rubric, how))
            for run in runs
        ]  # fmt: skip

    def choose(made: Store) -> tuple[frozenset[str], int]:
        (plan,) = choose_fixed_runs(made, Settings(), [AXIS], judges=[JUDGE], n=25, how=how)
        assert plan.only is not None
        return plan.only[AXIS], plan.occasion

    with store(60) as made:
        made.append(ask((f"r{n}" for n in range(50)), 0))
        fixed, occasion = choose(made)
        assert (len(fixed), occasion) == (25, 1)
        made.append(ask(sorted(fixed)[:8], DRIFT_REPEAT))
        assert choose(made) == (fixed, 1)
        made.append(ask(sorted(fixed)[8:], DRIFT_REPEAT))
        assert choose(made) == (fixed, 2)
