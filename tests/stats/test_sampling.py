from __future__ import annotations

import numpy as np
import pytest

from stepscope import stats
from stepscope.errors import DataError
from stepscope.stats.sample import Floats, Ints
from stepscope.values import Estimate, Unmeasured


def test_doubt_draws_labels_and_certainty_keeps_the_uniform_part() -> None:
    # sqrt(.5 * .5) = .5 and sqrt(.1 * .9) = .3 share four fifths of the draw.
    found = stats.draw_shares([0.5, 0.9, 0.0, 1.0], 1, uniform=0.2)
    assert found.tolist() == pytest.approx([0.05 + 0.5, 0.05 + 0.3, 0.05, 0.05])
    assert stats.draw_shares([0.5, 0.9, 0.0, 1.0], 1, uniform=1).tolist() == [0.25] * 4


def test_a_judge_without_doubt_is_drawn_from_uniformly() -> None:
    assert stats.draw_shares([0.0, 1.0, 1.0, 0.0], 2).tolist() == [0.25] * 4


def test_no_run_is_drawn_twice_and_what_is_certain_leaves_the_rest_in_proportion() -> None:
    # One label of every run: .45 would be drawn 1.35 times of 3; it is capped at a third.
    found = stats.draw_shares([0.5, 0.0, 0.0, 0.0], 3, uniform=0.2)
    assert found.tolist() == pytest.approx([1 / 3, 2 / 9, 2 / 9, 2 / 9])
    chosen = [stats.draw(found, 3, np.random.default_rng(seed)) for seed in range(50)]
    assert all(len(set(one.tolist())) == 3 and 0 in one for one in chosen)


def test_runs_are_drawn_as_often_as_their_shares_say() -> None:
    rng = np.random.default_rng(3)
    p = rng.beta(0.3, 0.7, 30)
    shares = stats.draw_shares(p, 8, uniform=0.2)
    seen = np.zeros(30)
    firsts = np.zeros(30)
    for _ in range(4_000):
        chosen = stats.draw(shares, 8, rng)
        seen[chosen] += 1
        firsts[chosen[0]] += 1
    assert np.abs(seen / 4_000 - 8 * shares).max() < 0.03
    # Whoever stops after the first label has drawn with the shares, too.
    assert np.abs(firsts / 4_000 - shares).max() < 0.02


@pytest.mark.parametrize("draw", [0.0, -0.1, 1.5])
def test_a_draw_that_leaves_runs_out_is_refused(draw: float) -> None:
    with pytest.raises(DataError, match="every run may be drawn"):
        stats.draw_shares([0.5, 0.5], 1, uniform=draw)


def test_shares_of_another_number_of_labels_are_refused() -> None:
    with pytest.raises(DataError, match="none above 1/3"):
        stats.draw(
            stats.draw_shares([0.5, 0.0, 0.0, 0.0], 1, uniform=0.2), 3, np.random.default_rng(0)
        )


def test_an_active_queue_of_a_binary_judge_is_not_worth_its_weights() -> None:
    graded = np.random.default_rng(0).beta(0.1, 0.9, 2_000)
    # Of a judge of .9/.9 at a rate of .3: what it flags fails in .794, what it passes in .045.
    binary = np.where(np.arange(2_000) < 680, 0.794, 0.045)
    saved = [stats.saved_width(p, stats.draw_shares(p, 60, uniform=0.2)) for p in (graded, binary)]
    assert saved[0] > 0.3
    assert 0 < saved[1] < 0.1


def sure(rng: np.random.Generator, runs: int) -> tuple[Floats, Floats]:
    """Probabilities of a judge whose log odds are doubled, and what is true."""
    true = rng.beta(2, 3, runs)
    odds = 2 * (np.log(true) - np.log1p(-true))
    return 1 / (1 + np.exp(-odds)), true


def test_recalibration_takes_back_doubled_log_odds() -> None:
    rng = np.random.default_rng(1)
    p, true = sure(rng, 2_000)
    said = (rng.random(2_000) < true).astype(float)
    found = stats.recalibrate(p, np.arange(2_000), said, np.full(2_000, 1 / 2_000))
    assert np.abs(found - true).max() < 0.05
    assert np.abs(p - true).max() > 0.15


def test_few_labels_move_a_judge_little_and_none_leave_it() -> None:
    p = [0.2, 0.8, 0.999]
    assert stats.recalibrate(p, [], [], []).tolist() == pytest.approx(p)
    one = stats.recalibrate(p, [2], [1.0], [1 / 3])
    assert one.tolist() == pytest.approx(p, abs=0.01)


def test_the_rate_is_unbiased_where_a_plain_mean_of_the_labels_is_not() -> None:
    rng = np.random.default_rng(5)
    p = rng.beta(0.1, 0.9, 500)
    fails = (rng.random(500) < p).astype(float)
    shares = stats.draw_shares(p, 40, uniform=0.2)
    rates, plain, held = [], [], []
    for _ in range(600):
        chosen = stats.draw(shares, 40, rng)
        found = stats.drawn_rate(p, chosen, fails[chosen], shares[chosen])
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        rates.append(found.value)
        held.append(found.low <= fails.mean() <= found.high)
        plain.append(fails[chosen].mean())
    assert np.mean(rates) == pytest.approx(fails.mean(), abs=0.004)
    assert abs(np.mean(plain) - fails.mean()) > 0.1
    assert np.mean(held) > 0.93


def rate(labels: list[float], places: Ints | list[int], **more: object) -> Estimate | Unmeasured:
    p = np.tile([0.1, 0.9], 20)
    shares = np.full(len(labels), 1 / 40)
    return stats.drawn_rate(p, places, labels, shares, **more)  # type: ignore[arg-type]


def test_a_judge_whom_no_label_contradicts_is_not_certain() -> None:
    found = stats.drawn_rate([0.0] * 400, range(20), [0.0] * 20, [1 / 400] * 20)
    assert isinstance(found, Estimate)
    assert found.value == 0
    assert found.high is not None
    # Of 20 labels without one, up to 14 % may fail (the rule of three says 15 %).
    assert 0.08 < found.high < 0.2


def test_labels_of_one_task_count_as_one_task_alone() -> None:
    alone = rate([1.0, 0.0, 1.0, 0.0], [1, 0, 3, 2], clusters=[0] * 40)
    assert isinstance(alone, Estimate)
    assert alone.no_interval == "no interval: one task"
    spread = rate([1.0, 0.0, 1.0, 0.0], [1, 0, 3, 2], clusters=np.arange(40) // 2)
    assert isinstance(spread, Estimate)
    assert spread.n_tasks == 2
    assert spread.diagnostics == ("weak evidence: only 2 tasks",)


def test_a_task_with_half_of_the_labels_tells_less_than_a_task_of_many() -> None:
    said = [1.0, 0.0] * 5 + [1.0, 0.0] * 5
    even, uneven = (
        stats.drawn_rate([0.5] * 40, range(20), said, [1 / 40] * 20, clusters=clusters)
        for clusters in (np.arange(40) // 2, [*np.zeros(10, int), *range(1, 11), *[11] * 20])
    )
    assert isinstance(even, Estimate)
    assert isinstance(uneven, Estimate)
    assert even.high is not None
    assert uneven.high is not None
    # Of pairs that cancel only the added error is left; (1/4 + 10/400)^-1 = 3.6 tasks have t of
    # 2.6 degrees, 3.46 in place of 2.26, and the errors of ten of them.
    assert even.high - 0.5 == pytest.approx(2.262 * (1 / 400) ** 0.5, abs=1e-3)
    errors = 10 / 11 * 10 * (0.025 * 20 / 19) ** 2
    assert uneven.high - 0.5 == pytest.approx(3.46 * (errors + 1 / 400) ** 0.5, abs=0.01)


def test_only_what_was_lost_opens_the_bounds() -> None:
    for lost, bounds in (
        ({"uncertain": 1}, (0, 1)),
        ({"uncertain": 0, "not_applicable": 3}, (None, None)),
    ):
        found = rate([1.0, 0.0], [1, 0], unmeasured=lost)
        assert isinstance(found, Estimate)
        assert (found.worst_low, found.worst_high) == bounds


def test_no_label_is_unmeasured_and_one_has_no_interval() -> None:
    assert isinstance(rate([], []), Unmeasured)
    one = rate([1.0], [1])
    assert isinstance(one, Estimate)
    assert one.low is None
    assert one.no_interval == "no interval: one label"


@pytest.mark.parametrize(
    ("labels", "shares", "said"),
    [([2.0], [0.5], r"labels in \[0, 1\]"), ([1.0], [0.0], "one share above 0")],
)
def test_what_is_no_label_or_could_not_be_drawn_is_refused(
    labels: list[float], shares: list[float], said: str
) -> None:
    with pytest.raises(DataError, match=said):
        stats.drawn_rate([0.5, 0.5], [0], labels, shares)
