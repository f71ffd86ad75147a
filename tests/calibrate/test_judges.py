"""Judges held against people: figures by hand, the protocol, and what is left out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stepscope.api import Notebook
from stepscope.calibrate import judges
from stepscope.calibrate.judges import (
    JudgeCalibration,
    calibrate_judges,
    decide_protocol,
    describe_labels,
)
from stepscope.errors import DataError
from stepscope.model import Label, Record, Verdict
from stepscope.settings import Settings
from stepscope.stats import concordance, drop_to_see, pearson
from stepscope.stats.sample import EstimateFrame, make_estimate
from stepscope.store import Store
from stepscope.values import Decision, Estimate, Unmeasured
from tests.calibrate import made
from tests.factories import agent, run

JUDGE, PEOPLE = "openai/a", "ana"


def calibrated(*said: list[Record], runs: int = 120) -> tuple[JudgeCalibration, ...]:
    with made.store(runs) as store:
        store.append([record for records in said for record in records])
        return calibrate_judges(store)


def labels(**counts: int) -> list[str]:
    return [name for name, n in counts.items() for _ in range(n)]


def scored(judge: str, values: list[float], family: str | None = None) -> list[Record]:
    return [
        made.said(judge, n, Verdict("scores", value=value, step=1), family=family)
        for n, value in enumerate(values)
    ]


def value(one: JudgeCalibration, name: str) -> float:
    figure = one.figures[name]
    assert isinstance(figure, Estimate)
    return figure.value


def test_figures_are_those_of_the_counts() -> None:
    # 100 runs: both incorrect 25, judge alone 5, people alone 10, neither 60.
    people = labels(incorrect=25, correct=5) + labels(incorrect=10, correct=60)
    judge = labels(incorrect=30, correct=70)
    (one,) = calibrated(made.whole(JUDGE, judge), made.whole(PEOPLE, people))
    assert (one.judge, one.people, one.n, one.runs) == (JUDGE, (PEOPLE,), 100, 100)
    assert one.labels == ("correct", "incorrect")
    assert one.confusion == ((60, 5), (10, 25))
    assert value(one, "accuracy") == pytest.approx(0.85)
    # Chance .7 * .65 + .3 * .35 = .56; kappa (.85 - .56) / .44.
    assert value(one, "kappa") == pytest.approx(0.29 / 0.44)
    assert value(one, "recall.incorrect") == pytest.approx(25 / 35)
    assert value(one, "recall.correct") == pytest.approx(60 / 65)
    # The judge calls 30 of 100 incorrect, people 35.
    assert value(one, "bias") == pytest.approx(-0.05)
    assert not {"near", "pearson"} & one.figures.keys()
    assert one.notes == ("bias, and kappa in the protocol, are of one question: incorrect, or not",)


def test_scores_have_a_bias_and_how_many_are_near() -> None:
    people = [0.1, 0.3, 0.5, 0.7, 0.9] * 12
    judge = [0.2, 0.4, 0.6, 0.7, 0.7] * 12
    (one,) = calibrated(scored(JUDGE, judge), scored(PEOPLE, people))
    assert (one.unit, one.n, one.rubric) == ("steps", 60, "scores")
    assert value(one, "bias") == pytest.approx(0.02)
    # .9 against .7 is the only pair that is further than .1 apart.
    assert value(one, "near") == pytest.approx(0.8)
    # Covariance .056 of variances .08 and .0376, means .02 apart.
    assert value(one, "concordance") == pytest.approx(
        2 * 0.052 / (0.08 + 0.0376 + 0.0004), abs=0.02
    )
    assert one.decision.outcome == "undecided"


def test_the_label_of_most_people_counts_and_a_split_is_left_out() -> None:
    ana = made.whole("ana", labels(incorrect=3, correct=3))
    ben = made.whole("ben", labels(incorrect=2, correct=1) + labels(incorrect=1, correct=2))
    (one,) = calibrated(made.whole(JUDGE, labels(incorrect=3, correct=3)), ana, ben)
    assert one.n == 4
    assert value(one, "accuracy") == 1
    assert one.notes[0] == "people are split on 2 runs: left out"


def test_what_people_could_not_decide_is_no_mistake_of_the_judge() -> None:
    people = labels(incorrect=20, correct=20, uncertain=10)
    judge = labels(incorrect=20, correct=20) + labels(incorrect=10)
    (one,) = calibrated(made.whole(JUDGE, judge), made.whole(PEOPLE, people))
    assert one.n == 40
    assert value(one, "accuracy") == 1
    assert "people could not decide 10 runs: left out" in one.notes
    # A judge that is uncertain where people decide is not right.
    (other,) = calibrated(
        made.whole(JUDGE, people), made.whole(PEOPLE, labels(incorrect=20, correct=30))
    )
    assert value(other, "accuracy") == pytest.approx(0.8)


def test_labels_of_runs_that_were_chosen_for_how_they_look_are_in_no_figure() -> None:
    with made.store(40) as store:
        store.append(made.whole(JUDGE, labels(incorrect=40), confidence=[0.9] * 40))
        for n, queue in enumerate(
            ["uniform"] * 20 + ["file"] * 10 + ["look_first"] * 7 + ["active"] * 3
        ):
            store.append_labels([
                Label(
                    trajectory=f"r{n}", measure=f"judge.{made.AXIS}", annotator=PEOPLE,
                    label="incorrect" if n < 30 else "correct", queue=queue,  # type: ignore[arg-type]
                    probability=0.5 if queue in ("uniform", "active") else None,
                )
            ])  # fmt: skip
        (one,) = calibrate_judges(store)
    assert one.n == 30
    assert value(one, "accuracy") == 1
    assert one.notes[0] == (
        "labels of items that were chosen for how they look are left out: active 3, look_first 7"
    )
    assert one.curve is not None
    assert one.curve.n == 30


def test_without_people_or_without_a_judge_there_is_nothing_to_hold() -> None:
    assert calibrated(made.whole(JUDGE, labels(incorrect=9))) == ()
    assert calibrated(made.whole(PEOPLE, labels(incorrect=9))) == ()


def test_trials_of_one_task_are_one_task() -> None:
    judge = labels(incorrect=30, correct=30)
    people = labels(incorrect=24, correct=6) + labels(incorrect=6, correct=24)
    with Store.open(":memory:") as store:
        store.put(run(agent("x"), id=f"r{n}", name=f"r{n}", task=str(n // 4)) for n in range(60))
        store.append([*made.whole(JUDGE, judge), *made.whole(PEOPLE, people)])
        (one,) = calibrate_judges(store)
    for name in ("accuracy", "kappa", "bias", "recall.correct"):
        figure = one.figures[name]
        assert isinstance(figure, Estimate)
        assert figure.n_tasks == (15 if name != "recall.correct" else 8)
    assert one.runs == 60


def protocol(
    judge: list[float], people: list[float], *, scored: bool = True
) -> tuple[Decision, int | None]:
    return decide_protocol(
        np.array(judge), np.array(people), np.arange(len(judge)), "runs", scored=scored
    )


PEOPLE_SCORES = [at % 21 / 20 for at in range(105)]


def test_a_judge_that_follows_people_passes_and_a_kind_one_does_not() -> None:
    near = [min(max(x + (0.05 if at % 2 else -0.05), 0), 1) for at, x in enumerate(PEOPLE_SCORES)]
    passed, needed = protocol(near, PEOPLE_SCORES)
    assert (passed.outcome, needed) == ("pass", None)
    assert passed.reason.startswith("105 labels; bias +0.000")
    kind, _ = protocol([min(x + 0.12, 1) for x in PEOPLE_SCORES], PEOPLE_SCORES)
    assert kind.outcome == "fail"
    assert kind.reason.endswith("beyond 0.05")


def test_fewer_labels_than_the_protocol_has_never_pass_but_may_fail() -> None:
    few, needed = protocol(PEOPLE_SCORES[:99], PEOPLE_SCORES[:99])
    assert few.outcome == "undecided"
    assert few.reason.startswith("99 of 100 labels")
    assert needed is None or needed >= 100
    opposite = [1 - x / 2 for x in PEOPLE_SCORES[:40]]
    failed, _ = protocol([*opposite[1:], 0.2], PEOPLE_SCORES[:40])
    assert failed.outcome == "fail"
    assert "below 0.6" in failed.reason


def test_a_judge_of_verdicts_is_held_to_kappa() -> None:
    people = [1.0, 0.0, 0.0] * 40
    right, _ = protocol(people, people, scored=False)
    assert right.outcome == "pass"
    assert "kappa 1.00, at least 0.9" in right.reason
    # 20 mistakes of 120, as many on either side: kappa .625 is not told from .6.
    wrong = [1 - x if at % 12 in (0, 1) else x for at, x in enumerate(people)]
    unsure, needed = protocol(wrong, people, scored=False)
    assert unsure.outcome == "undecided"
    assert "kappa 0.62" in unsure.reason or "kappa 0.63" in unsure.reason
    assert needed is None or needed > 120


def test_labels_still_needed_are_those_of_the_test_that_needs_most() -> None:
    # Differences of +-.2 have SD .2: (2.93 * .2 / .05)^2 = 137.4 labels show that there is no bias.
    rough = [min(max(x + (0.2 if at % 2 else -0.2), 0), 1) for at, x in enumerate(PEOPLE_SCORES)]
    apart = float(np.std(np.subtract(rough, PEOPLE_SCORES), ddof=1))
    found, needed = protocol(rough[:40], PEOPLE_SCORES[:40])
    assert found.outcome == "undecided"
    assert needed is not None
    assert needed >= 100
    assert f"about {needed - 40} more labels would decide" in found.reason
    assert apart == pytest.approx(0.18, abs=0.02)


def test_a_bias_at_the_limit_is_not_told_by_one_more_label() -> None:
    # 9 faults of 200 runs are missed, 18 are false alarms.
    people = [1.0] * 60 + [0.0] * 140
    judge = [0.0] * 9 + [1.0] * 51 + [1.0] * 18 + [0.0] * 122
    found, needed = protocol(judge, people, scored=False)
    assert found.outcome == "undecided"
    assert "bias +0.045, +0.002 to +0.088: not shown" in found.reason
    # Limits of .043 would have to be .005.
    assert needed is None
    assert found.reason.endswith("more than 5,000 labels would be needed")


def test_no_plan_is_made_for_what_more_labels_may_not_tell() -> None:
    found, needed = protocol([0.5] * 120, [0.5] * 120)
    assert found.outcome == "undecided"
    assert needed is None
    assert found.reason.endswith("how many labels would decide is not known")


def test_limits_from_minus_one_are_no_crash() -> None:
    limits, frame = (0.5, -1.0, 1.0), EstimateFrame(n_tasks=4)
    figure = make_estimate(limits, method="Fisher", n=120, frame=frame)
    decision, needed = judges._check_agreement("r", figure)
    assert decision.outcome == "undecided"
    assert needed is not None


def test_a_judge_that_never_fails_anything_has_no_correlation() -> None:
    found, _ = protocol([0.0] * 120, [0.0, 1.0] * 60)
    assert found.outcome == "fail"
    assert found.reason.startswith("bias -0.500")


def test_five_labels_are_shown_as_what_they_are() -> None:
    found = pearson([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert isinstance(found, Estimate)
    assert (found.low, found.high) == pytest.approx((-0.2796, 0.9862), abs=2e-4)
    assert found.diagnostics[0] == "fewer than 10: the limits take scores for normal ones"


def test_concordance_sees_a_shift_that_correlation_does_not() -> None:
    x = np.linspace(0, 1, 40)
    shifted = concordance(x, x - 0.2)
    assert isinstance(shifted, Estimate)
    # 2 * var / (2 * var + .04), var of 40 even points .0876.
    assert shifted.value == pytest.approx(2 * 0.0876 / (2 * 0.0876 + 0.04), abs=1e-3)
    same = pearson(x, x - 0.2)
    assert isinstance(same, Estimate)
    assert same.value == pytest.approx(1)
    assert same.low is None


def test_scores_without_spread_have_no_correlation() -> None:
    found = pearson([1.0] * 20, np.linspace(0, 1, 20))
    assert isinstance(found, Unmeasured)
    assert found.kind == "undefined"
    # But concordance is known: it is none.
    none = concordance([1.0] * 20, np.linspace(0, 1, 20))
    assert isinstance(none, Estimate)
    assert none.value == 0
    with pytest.raises(DataError, match="the same items"):
        pearson([1.0], [1.0, 2.0])


def test_limits_of_scores_that_are_not_normal_hold_the_truth() -> None:
    # Nine in ten of a judge's scores are people's, the others somebody's: r = .9. Fisher's alone
    # hold it in 56 % at 100.
    rng, held = np.random.default_rng(2), 0
    for _ in range(300):
        people = rng.beta(0.5, 0.5, 100)
        judge = np.where(rng.random(100) < 0.9, people, rng.beta(0.5, 0.5, 100))
        found = pearson(judge, people)
        assert isinstance(found, Estimate)
        held += (found.low or 0) <= 0.9 <= (found.high or 1)
    assert held / 300 > 0.88


def test_runs_that_repeat_each_other_are_worth_fewer() -> None:
    rng = np.random.default_rng(0)
    people = np.repeat(rng.random(25), 4)
    judge = np.repeat(rng.random(25), 4) * 0.5 + people * 0.5
    alone, told = pearson(judge, people), pearson(judge, people, np.repeat(np.arange(25), 4))
    assert isinstance(alone, Estimate)
    assert isinstance(told, Estimate)
    assert told.low is not None
    assert alone.low is not None
    assert told.low < alone.low - 0.1


def test_few_tasks_that_repeat_themselves_hold_the_truth() -> None:
    # 4 tasks of 25 items, an icc of .7, r = .6: .95 of many; with z in place of t .80.
    held = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        task, own = rng.standard_normal((4, 2)).repeat(25, axis=0), rng.standard_normal((100, 2))
        x, y = ((0.7**0.5 * task + 0.3**0.5 * own) @ [[1, 0.6], [0, 0.8]]).T
        found = pearson(x, y, np.arange(100) // 25)
        assert isinstance(found, Estimate)
        held += (found.low or -1) <= 0.6 <= (found.high or 1)
    assert held / 150 > 0.9


def test_the_view_says_what_is_decided_and_json_has_every_figure() -> None:
    people = labels(incorrect=25, correct=5) + labels(incorrect=10, correct=60)
    with made.store(100) as store:
        store.append([
            *made.whole(JUDGE, labels(incorrect=30, correct=70), confidence=[0.9] * 100),
            *made.whole(PEOPLE, people),
        ])  # fmt: skip
        view = Notebook(store, Settings()).calibrate_judge("axes")
        assert view[JUDGE].n == 100
        said = view.text(80)
        assert "axes.termination 1   openai/a   against ana   100 runs" in said
        assert re.search(r"accuracy +85 % +77–91 +100\n", said)
        assert "Protocol: undecided." in said
        assert "openai/a's confidence over 100: 0.90 right 85 %" in said
        assert '"confusion":[[60,5],[10,25]]' in view.json().replace(" ", "").replace("\n", "")
        assert max(map(len, said.split("\n"))) <= 80


def test_a_figure_that_is_not_measured_counts_nothing() -> None:
    with made.store(30) as store:
        store.append([
            *made.whole(JUDGE, labels(correct=30)), *made.whole(PEOPLE, labels(correct=30))
        ])  # fmt: skip
        said = Notebook(store, Settings()).calibrate_judge("axes").text(100)
    assert re.search(r"kappa +- +undefined +-\n +kappa has no value: 30 items", said)
    assert re.search(r"accuracy +100 % +89–100 +30\n", said)
    assert "Protocol: undecided. Every label is correct." in said


def told(*given: Label) -> list[str]:
    return list(describe_labels(given))


def one_label(at: int, **more: object) -> Label:
    fields: dict[str, object] = {"annotator": "ann", "label": "correct", **more}
    return Label(trajectory=f"r{at}", measure=f"judge.{made.AXIS}", **fields)  # type: ignore[arg-type]


def test_labels_say_what_they_can_decide() -> None:
    random = [one_label(at, queue="uniform", probability=0.1) for at in range(200)]
    second = [one_label(at, annotator="ben", queue="uniform", probability=0.1) for at in range(20)]
    head, rate, judge, rubric = told(*random, *second)
    assert head == "axes.termination: 220 labels of 200 items by 2 people."
    # Wilson at a half and 200; the drop that two samples of 200 at 84 % tell.
    assert "to within 7 points at worst" in rate
    assert "a drop from 84 % if it is 11 points or more" in rate
    assert "for a headline" not in rate
    assert judge.startswith("  A judge: enough labels to accept")
    assert rubric == "  The rubric: 20 items by two people or more; stepscope agree decides."


def test_labels_say_what_they_cannot_decide() -> None:
    head, none, judge, rubric = told(
        *(one_label(at) for at in range(8)),
        *(one_label(at, queue="look_first") for at in range(8, 12)),
    )
    assert head == "axes.termination: 12 labels of 12 items by 1 person."
    assert none.startswith("  No rate from 4 from the queue look_first, 8 of unknown probability:")
    # Those that look_first chose test no judge.
    assert judge == (
        "  A judge: 92 more labels needed to accept one; one that is often wrong may be rejected "
        "now."
    )
    assert "whether people agree is not known" in rubric
    # A norming round is no label, and without labels nothing is said.
    assert told(one_label(0, queue="norming", round=1)) == []


def test_steps_of_one_run_and_uneven_draws_give_a_rate_less_closely_at_worst() -> None:
    steps = [one_label(at // 10, step=at, queue="uniform", probability=0.1) for at in range(200)]
    # 20 runs; Wilson at a half.
    assert "to within 20 points at worst" in told(*steps)[1]
    heavy = [
        one_label(at, queue="active", probability=0.02 if at < 20 else 1.0) for at in range(200)
    ]
    # 20 labels have most of the weight: (20 * 50 + 180)^2 / (20 * 2500 + 180) = 27.7.
    assert "to within 17 points at worst" in told(*heavy)[1]


def test_a_label_of_a_random_draw_that_decides_nothing_is_in_no_rate() -> None:
    undecided = one_label(0, queue="uniform", probability=0.5, decided=False, label="uncertain")
    assert not any("A rate" in line for line in told(undecided))
    assert any("49 more labels for a headline" in line for line in told(
        undecided, one_label(1, queue="uniform", probability=0.5)
    ))  # fmt: skip


def test_two_quarters_of_two_hundred_tell_a_drop_of_eleven_points() -> None:
    # 2.8016 * sqrt((.84 * .16 + .7256 * .2744) / 200) = .1144 = .84 - .7256.
    assert drop_to_see(0.84, 200) == pytest.approx(0.1144, abs=1e-4)
    assert drop_to_see(0.05, 10) == 0.05
    with pytest.raises(DataError, match="one or more labels"):
        drop_to_see(0.5, 0)


def test_one_label_rejects_no_judge_and_two_may() -> None:
    judge = told(one_label(0, queue="uniform", probability=0.5))[2]
    assert judge == (
        "  A judge: 99 more labels needed to accept one; 1 to reject one that is often wrong."
    )
    assert told(one_label(0))[0] == "axes.termination: 1 label of 1 item by 1 person."
    undecided = one_label(1, label="uncertain", decided=False)
    assert "; 1 to reject" in told(one_label(0), undecided)[2]
    assert "may be rejected now" in told(one_label(0), one_label(1))[2]
    # As the protocol decides it, of a judge that is wrong on all of them.
    for n, outcome in ((1, "undecided"), (2, "fail")):
        wrong, tasks = np.ones(n), np.arange(n)
        found, _ = decide_protocol(wrong, np.zeros(n), tasks, "runs", scored=False)
        assert found.outcome == outcome
