from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from bars.stats import _peers
from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats.corrected import design_effect
from stepscope.stats.intervals import student_quantile
from stepscope.values import Estimate, Unmeasured

# 60 of 200 runs are flagged; 17 of 20 labelled ones of them fail, 2 of 40 of the others.
JUDGED = [1] * 60 + [0] * 140
LABELLED = list(range(40, 100))
LABELS = [1.0] * 17 + [0.0] * 3 + [1.0] * 2 + [0.0] * 38
SCORES = [(at * 37) % 100 / 100 for at in range(120)]
PEOPLE = [
    min(max(0.1 + 0.8 * SCORES[at] + ((at * 53) % 11 - 5) / 50, 0.0), 1.0) for at in range(30)
]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def corrected(
    judged: Sequence[int], labelled: Sequence[int], labels: Sequence[float], **more: object
) -> Estimate:
    found = stats.corrected_rate(judged, labelled, labels, rng=rng(), **more)  # type: ignore[arg-type]
    assert isinstance(found, Estimate)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    return found


def width(found: Estimate) -> float:
    assert found.low is not None
    assert found.high is not None
    return found.high - found.low


def test_the_rate_is_each_verdicts_own_times_how_often_it_is_given() -> None:
    # .3 * 17/20 + .7 * 2/40; the same from ppi_py 0.2.3 with lambda .8 * 140/200.
    found = corrected(JUDGED, LABELLED, LABELS)
    assert found.value == pytest.approx(0.29, abs=1e-12)
    # By quadrature of q A + (1 - q) B over the three Betas; truescore 0.7.4 has .2024 to .3748.
    assert (found.low, found.high) == pytest.approx((0.2127, 0.3816), abs=0.003)
    assert (found.n, found.n_tasks, found.method) == (60, 60, "corrected")


def test_a_judge_that_tells_nothing_leaves_what_the_labels_tell_alone() -> None:
    labels = [1.0, 0.0, 0.0, 0.0] * 15
    blind = corrected([0, 0, 0, 0, 1, 1, 1, 1] * 25, range(60), labels)
    alone = stats.proportion(labels)
    assert isinstance(alone, Estimate)
    assert blind.value == pytest.approx(0.25)
    assert width(blind) == pytest.approx(width(alone), rel=0.06)
    # A perfect judge of the same labels is far narrower, though never certain.
    perfect = corrected([1, 0, 0, 0] * 50, range(60), labels)
    assert 0.25 * width(alone) < width(perfect) < 0.7 * width(alone)


def test_what_the_judge_refused_is_a_verdict_of_its_own() -> None:
    # 40 of 200 refused, of which 3 of 4 fail; had they been left out the rate would be .0625.
    judged = [0] * 150 + [1] * 10 + [2] * 40
    labelled = [*range(30), *range(150, 155), *range(160, 168)]
    labels = [0.0] * 30 + [1.0] * 5 + [1.0] * 6 + [0.0] * 2
    assert corrected(judged, labelled, labels).value == pytest.approx(0.05 + 0.2 * 0.75)


def test_a_verdict_without_labels_makes_the_interval_wide_and_refuses_nothing() -> None:
    few = corrected([1] * 100 + [0] * 100, range(110, 150), [0.0] * 40)
    assert few.high is not None
    assert few.high > 0.45
    assert few.value == pytest.approx(0.25)
    one = corrected([1] * 100 + [0] * 100, [0, 150], [1.0, 0.0])
    assert width(one) > 0.6


def test_shares_of_the_draw_weigh_labels_and_cost_precision() -> None:
    shares = [0.02] * 10 + [0.002] * 10 + [0.005] * 40
    found = corrected(JUDGED, LABELLED, LABELS, shares=shares)
    # Among the flagged: ten of weight 50 that fail, ten of weight 500, of which 7 do.
    flagged = (10 * 50 + 7 * 500) / (10 * 50 + 10 * 500)
    assert found.value == pytest.approx(0.3 * flagged + 0.7 * 0.05)
    assert width(found) > width(corrected(JUDGED, LABELLED, LABELS))


def test_equal_shares_are_a_uniform_queue() -> None:
    assert corrected(JUDGED, LABELLED, LABELS, shares=[1 / 200] * 60) == corrected(
        JUDGED, LABELLED, LABELS
    )


def test_labels_of_one_run_that_agree_count_as_fewer() -> None:
    alike = [1.0] * 10 + [0.0] * 10 + [1.0] * 2 + [0.0] * 38
    runs = np.arange(200) // 5
    told = corrected(JUDGED, LABELLED, alike, clusters=runs)
    assert told.n_tasks == 12
    assert width(told) > 1.3 * width(corrected(JUDGED, LABELLED, alike))


def test_the_prior_of_a_few_clusters_does_not_draw_their_rate_to_one_half() -> None:
    runs = np.arange(2_000) // 5
    found = corrected([0] * 2_000, range(50), [1.0] * 3 + [0.0] * 47, clusters=runs)
    # With the prior of 50 labels that are worth 13: .004 to .299.
    assert found.low == pytest.approx(0.0014, abs=2e-4)
    assert found.high == pytest.approx(0.269, abs=0.005)


def effect(residuals: Sequence[float], clusters: Sequence[int], parts: Sequence[float]) -> float:
    found = np.array(residuals)
    return design_effect(found, np.array(parts), found**2, np.array(clusters), 0.95)


def test_a_label_a_cluster_is_no_cluster_and_few_clusters_pay_for_it() -> None:
    residuals = [0.5, -0.5, 0.25, -0.25]
    assert effect(residuals, [0, 1, 2, 3], [0.25] * 4) == 1
    # Two clusters that cancel have no more spread than single ones, but t of one degree.
    assert effect(residuals, [0, 0, 1, 1], [0.25] * 4) == pytest.approx(
        (12.7062 / 1.95996) ** 2, rel=1e-4
    )
    # Without a residual each cluster counts once.
    assert effect([0.0] * 6, [0, 0, 1, 1, 2, 2], [1 / 6] * 6) == pytest.approx(
        2 * (4.30265 / 1.95996) ** 2, rel=1e-4
    )


def test_a_cluster_that_is_half_of_all_counts_for_more_than_one_of_many() -> None:
    # Half, and six others: (1/4 + 6/144)^-1 = 3.43 clusters, t of 2.43 degrees, 3.65.
    found = effect([0.1] * 6 + [-0.1] * 6, [0] * 6 + [*range(1, 7)], [1 / 12] * 12)
    # Jackknife: 6/7 * ((.6/.5)^2 + 6 * (.1/(11/12))^2) / .12, in twelfths.
    raw = 6 / 7 * (1.2**2 + 6 * (0.1 * 12 / 11) ** 2) / 0.12
    ratio = float(student_quantile(2.428571, 0.95)) / 1.959964
    assert found == pytest.approx(raw * ratio**2, rel=1e-5)


def test_uneven_tasks_hold_the_truth() -> None:
    sizes, held = np.maximum(400 // np.arange(1, 31), 1), 0
    for seed in range(120):
        made = np.random.default_rng(seed)
        tasks = np.repeat(np.arange(30), sizes)
        failed = made.random(len(tasks)) < made.beta(0.45, 1.05, 30)[tasks]
        judged = failed ^ (made.random(len(tasks)) < 0.1)
        places = made.choice(len(tasks), 100, replace=False)
        found = stats.corrected_rate(
            judged, places, failed[places], clusters=tasks, rng=made, draws=1_000
        )
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.3 <= found.high
    # .94 of many; as if all tasks were of one size, .80.
    assert held / 120 >= 0.89


def test_labels_of_heavy_and_noisy_runs_tell_less_than_their_number() -> None:
    # Half of the weight is on ten labels of which half fail; the ninety others never do.
    said, shares = [0.0, 1.0] * 5 + [0.0] * 90, [0.1] * 10 + [0.9] * 90
    found = corrected([0] * 1_000, list(range(100)), said, shares=shares)
    assert found.value == pytest.approx(0.25)
    # Standard error of ten labels of .5 with half of the weight: .5 * .5 / 10^.5 = .08.
    assert width(found) > 3.9 * 0.08


def test_a_share_that_is_next_to_nothing_has_nearly_all_the_weight_and_no_nan() -> None:
    found = corrected(JUDGED, LABELLED, LABELS, shares=[5e-324] + [0.5] * 59)
    # All that is known of the flagged runs is one label; of the others what it was.
    assert found.value == pytest.approx(0.3 * 1 + 0.7 * 0.05, abs=1e-9)
    assert width(found) > 0.2
    assert width(corrected(JUDGED, LABELLED, LABELS, shares=[1e-300] * 60)) == pytest.approx(
        width(corrected(JUDGED, LABELLED, LABELS))
    )


def test_scores_are_no_verdicts() -> None:
    with pytest.raises(DataError, match="verdicts are numbers from 0"):
        stats.corrected_rate([0.9] * 100 + [0.2] * 100, LABELLED, LABELS, rng=rng())


def test_one_task_is_a_value_without_an_interval() -> None:
    found = stats.corrected_rate(JUDGED, LABELLED, LABELS, clusters=[0] * 200, rng=rng())
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(0.29)
    assert found.no_interval == "no interval: one task"


def test_no_label_is_unmeasured_and_a_label_that_could_not_be_given_is_in_the_bounds() -> None:
    assert isinstance(stats.corrected_rate(JUDGED, [], [], rng=rng()), Unmeasured)
    found = corrected(JUDGED, LABELLED, LABELS, unmeasured={"refused": 20})
    assert (found.worst_low, found.worst_high) == pytest.approx(
        (0.29 * 60 / 80, (0.29 * 60 + 20) / 80)
    )


def test_a_look_of_many_has_wider_limits_that_draws_can_tell() -> None:
    widths = [
        width(corrected(JUDGED, LABELLED, LABELS, level=1 - stats.look_alpha(look)))
        for look in (1, 5, 31)
    ]
    assert widths[0] < widths[1] < widths[2] < 2.5 * widths[0]


@pytest.mark.parametrize(
    ("labelled", "labels", "more", "said"),
    [
        ([0, 0], [1.0, 0.0], {}, "2 labels of 1 runs"),
        ([0, 200], [1.0, 0.0], {}, "a label is of run 200; there are 200"),
        ([0, 1], [1.0, 2.0], {}, r"labels lie in \[0, 1\]"),
        ([0, 1], [1.0, 0.0], {"shares": [0.5, 0.0]}, "what cannot be drawn is in no rate"),
    ],
)
def test_labels_that_fit_no_run_are_refused(
    labelled: list[int], labels: list[float], more: dict[str, object], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        stats.corrected_rate(JUDGED, labelled, labels, rng=rng(), **more)  # type: ignore[arg-type]


def test_a_corrected_mean_is_that_of_prediction_powered_inference() -> None:
    found = stats.corrected_mean(SCORES, range(30), PEOPLE)
    assert isinstance(found, Estimate)
    # ppi_py 0.2.3, ppi_mean_pointestimate with lambda = slope * 90/120.
    assert found.value == pytest.approx(0.49403924, abs=1e-8)
    # ppi_py's interval is .4465 to .5415.
    assert (found.low, found.high) == pytest.approx((0.4465, 0.5415), abs=0.004)


def test_of_a_judge_with_two_scores_the_mean_is_the_rate() -> None:
    found = stats.corrected_mean([0.9 * x for x in JUDGED], LABELLED, LABELS)
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(0.29, abs=1e-12)


def test_scores_that_all_agree_are_not_taken_for_certainty() -> None:
    found = stats.corrected_mean(SCORES, range(30), [1.0] * 30)
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(1)
    assert found.low is not None
    assert found.low < 0.9
    few = stats.corrected_mean(SCORES, range(3), [0.1, 0.5, 0.2])
    assert isinstance(few, Estimate)
    assert few.no_interval == "no interval: 3 tasks; a slope and its error take 4"
    with pytest.raises(DataError, match=r"in \[0, 1\]"):
        stats.corrected_mean([*SCORES[:-1], 1.5], range(30), PEOPLE)


def test_rogan_gladen_is_that_of_the_peer() -> None:
    found = stats.rogan_gladen(JUDGED, LABELLED, LABELS, rng=rng())
    assert isinstance(found, Estimate)
    # truescore 0.7.4: .27609375 [.1618, .3904] by the delta method.
    assert found.value == pytest.approx(0.27609375, abs=1e-8)
    assert (found.low, found.high) == pytest.approx((0.162, 0.390), abs=0.03)


def test_a_rate_is_not_divided_by_what_may_be_nothing() -> None:
    found = stats.rogan_gladen(JUDGED, LABELLED[15:30], LABELS[15:30], rng=rng())
    assert isinstance(found, Unmeasured)
    assert found.kind == "undefined"
    assert "by 15 labels" in found.reason
    alike = stats.rogan_gladen(JUDGED, LABELLED[:5], [1.0] * 5, rng=rng())
    assert isinstance(alike, Unmeasured)
    assert alike.kind == "insufficient_data"
    with pytest.raises(DataError, match="no place for a third"):
        stats.rogan_gladen([0, 1, 2], [0], [1.0], rng=rng())


@pytest.mark.parametrize(
    ("judged", "labelled", "said"),
    [
        (JUDGED, range(40, 89), "49 labels; a headline takes 50"),
        (JUDGED, range(56, 106), "4 labels where the judge says fail; a headline takes 5"),
        (JUDGED, range(55, 105), ""),
        ([0] * 200, range(50), ""),
        # A third verdict counts where it is common, not where it is rare.
        ([0] * 96 + [1] * 100 + [2] * 4, range(60, 130), ""),
        ([0] * 95 + [1] * 100 + [2] * 5, range(60, 130), "0 labels where the judge says refused"),
    ],
)
def test_a_headline_takes_labels_of_every_verdict(
    judged: list[int], labelled: Sequence[int], said: str
) -> None:
    found = stats.explain_weakness(judged, list(labelled), ["pass", "fail", "refused"])
    assert found.startswith(said) if said else found == ""


def test_the_peer_of_the_contest_is_the_published_one() -> None:
    judged, labelled = np.array(JUDGED, np.float64), np.zeros(200, np.bool_)
    labelled[LABELLED] = True
    # truescore 0.7.4, ppi_estimate and rogan_gladen_estimate.
    assert _peers.ppi(judged, labelled, np.array(LABELS)) == pytest.approx(
        (0.20239, 0.37479), abs=2e-5
    )
    assert _peers.rogan_gladen(judged, labelled, np.array(LABELS)) == pytest.approx(
        (0.16181523384125274, 0.3903722661587472)
    )


def test_fifty_labels_of_a_thousand_verdicts_hold_the_truth() -> None:
    draw, held, widths = np.random.default_rng(18), 0, []
    for seed in range(400):
        fails = draw.random(1_000) < 0.1
        judged = (draw.random(1_000) < np.where(fails, 0.85, 0.15)).astype(np.int64)
        found = stats.corrected_rate(
            judged, np.arange(50), fails[:50], rng=np.random.default_rng(seed), draws=2_000
        )
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.1 <= found.high
        widths.append(width(found))
    # .93 less 2.33 standard errors of 400 samples.
    assert held / 400 >= 0.90
    assert np.median(widths) < 0.9 * 0.1736
