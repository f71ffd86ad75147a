"""Effects of scores: outside values, what is taken out, and when nothing is claimed."""

from __future__ import annotations

import numpy as np
import pytest

from bars.calibrate import grounding
from stepscope.stats import Effect, effect
from stepscope.stats.effects import doubly_robust, expand, partially_linear
from stepscope.stats.sample import Floats
from stepscope.values import Estimate, Unmeasured

AT = np.arange(400)
USER = AT // 4
X = np.column_stack([np.sin(AT * 0.7), np.cos(USER * 1.3)])
SCORE = 0.5 + 0.2 * X[:, 0] + 0.1 * X[:, 1] + 0.15 * np.sin(AT * AT * 0.37)
OUTCOME = 0.3 + 0.4 * SCORE - 0.3 * X[:, 0] ** 2 + 0.2 * X[:, 1]
OUTCOME += 0.25 * np.cos(AT * AT * 0.91) + 0.1 * np.sin(USER * USER * 0.53)
FOLD = np.random.default_rng(7).permutation(np.arange(100) % 5)[USER]
# DoubleML divides by the clusters, not by one fewer.
CLUSTERS = np.sqrt(100 / 99)


def known(found: Effect) -> Estimate:
    assert isinstance(found.estimate, Estimate)
    return found.estimate


def estimated(y: Floats, d: Floats, x: Floats = X, **more: object) -> Effect:
    rng = np.random.default_rng(0)
    return effect(y, d, x, rng=rng, clusters=USER[: len(y)], **more)  # type: ignore[arg-type]


def test_partially_linear_as_doubleml() -> None:
    # DoubleML 0.11.4, DoubleMLPLR, these folds, clusters and columns, StandardScaler and RidgeCV.
    found = partially_linear(OUTCOME, SCORE, expand(X), FOLD, USER, np.zeros(400))
    assert found[0] == pytest.approx(0.5088236827156876)
    assert found[1] == pytest.approx(0.0895859656030177 * CLUSTERS)


def test_good_or_bad_as_doubleml() -> None:
    # DoubleMLIRM, the same, with LogisticRegression(C=10), chances trimmed at .01.
    found = doubly_robust(OUTCOME, (SCORE > 0.5).astype(float), expand(X), FOLD, USER)
    assert found[0] == pytest.approx(0.15024099, abs=1e-7)
    assert found[1] == pytest.approx(0.02541031 * CLUSTERS, abs=1e-7)


def test_the_bar_holds_at_small_size() -> None:
    assert all(grounding.rows(20))


def test_errors_of_the_judge_are_taken_out() -> None:
    rng = np.random.default_rng(3)
    n = 4_000
    quality = rng.normal(0, 0.1, n)
    twice = quality + rng.normal(0, 0.1, (2, n))
    y = 0.5 * quality + rng.normal(0, 0.1, n)
    x, user = np.empty((n, 0)), np.arange(n)
    mean, repeats = twice.mean(0), (twice.var(0, ddof=1), np.full(n, 2))
    # The mean of two scorings with as much error as signal has a reliability of 2/3.
    naive = effect(y, mean, x, rng=rng, clusters=user)
    found = effect(y, mean, x, rng=rng, clusters=user, repeats=repeats)
    assert known(naive).value == pytest.approx(0.5 * 2 / 3, abs=0.04)
    assert naive.reliability is None
    assert known(found).value == pytest.approx(0.5, abs=0.05)
    assert found.reliability == pytest.approx(2 / 3, abs=0.03)


def test_repeats_that_agree_change_nothing_and_single_scorings_correct_nothing() -> None:
    plain = known(estimated(OUTCOME, SCORE)).value
    agreeing = estimated(OUTCOME, SCORE, repeats=(np.zeros(400), np.full(400, 2)))
    assert (known(agreeing).value, agreeing.reliability) == (plain, 1.0)
    single = estimated(OUTCOME, SCORE, repeats=(np.full(400, np.nan), np.ones(400)))
    assert (known(single).value, single.reliability) == (plain, None)


def test_errors_are_pooled_by_degrees_of_freedom_and_their_spread_is_not_ignored() -> None:
    half = USER % 2 == 0
    counts = np.where(half, 2, 4)
    # (1 * .02 + 3 * .005) / 4
    pooled = estimated(OUTCOME, SCORE, repeats=(np.full(400, 0.00875), counts))
    mixed = estimated(OUTCOME, SCORE, repeats=(np.where(half, 0.02, 0.005), counts))
    assert known(mixed).value == pytest.approx(known(pooled).value)
    assert mixed.reliability == pytest.approx(pooled.reliability)
    assert (known(mixed).high or 0) != pytest.approx(known(pooled).high, abs=1e-6)


def test_repeats_that_differ_as_much_as_runs_leave_no_effect() -> None:
    found = estimated(OUTCOME, SCORE, repeats=(np.full(400, 0.03), np.full(400, 2)))
    assert isinstance(found.estimate, Unmeasured)
    assert found.estimate.kind == "undefined"
    assert found.p is None


@pytest.mark.parametrize(
    ("rows", "kind"), [(80, None), (76, "insufficient_data"), (0, "insufficient_data")]
)
def test_twenty_clusters_are_needed(rows: int, kind: str | None) -> None:
    found = estimated(OUTCOME[:rows], SCORE[:rows], X[:rows]).estimate
    assert (found.kind if isinstance(found, Unmeasured) else None) == kind


@pytest.mark.parametrize("of", ["outcome", "score"])
def test_what_never_changes_has_no_effect_not_one_of_zero(of: str) -> None:
    same = np.full(400, 0.5)
    found = estimated(*((same, SCORE) if of == "outcome" else (OUTCOME, same))).estimate
    assert isinstance(found, Unmeasured)
    assert found.kind == "undefined"


def test_a_missing_value_is_refused() -> None:
    holed = np.where(AT == 7, np.nan, SCORE)
    assert isinstance(estimated(OUTCOME, holed).estimate, Unmeasured)


def test_only_a_score_of_zero_and_one_takes_the_doubly_robust_estimator() -> None:
    binary = (SCORE > 0.5).astype(float)
    assert known(estimated(OUTCOME, binary)).method == "doubly robust"
    binary[0] = 0.5
    assert known(estimated(OUTCOME, binary)).method == "partially linear"


def test_good_runs_alone_in_a_part_are_undefined() -> None:
    found = estimated(OUTCOME, (AT < 4).astype(float)).estimate
    assert isinstance(found, Unmeasured)
    assert found.kind == "undefined"


def test_a_score_that_confounders_explain_is_of_weak_overlap() -> None:
    assert known(estimated(OUTCOME, SCORE)).diagnostics == ()
    near = X[:, 0] + 0.1 * (SCORE - 0.5)
    found = estimated(OUTCOME, near)
    assert found.overlap is not None
    assert found.overlap < 0.1
    assert known(found).diagnostics == ("weak overlap",)


def test_good_runs_that_have_no_like_are_of_weak_overlap() -> None:
    found = estimated(OUTCOME, (X[:, 0] > 0).astype(float))
    assert known(found).diagnostics == ("weak overlap",)


def test_rows_of_one_cluster_are_not_evidence_of_their_own() -> None:
    many = [np.repeat(one[::4], 4, axis=0) for one in (OUTCOME, SCORE, X)]
    alone = effect(*many, rng=np.random.default_rng(0))
    together = estimated(*many)

    def width(found: Effect) -> float:
        one = known(found)
        return (one.high or 0.0) - (one.low or 0.0)

    assert width(together) > 1.7 * width(alone)
