"""A run's curve: whose scores, how noisy, which shape, where it broke, and what its gate says."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from stepscope.measures.errors import STEP_LABELS as LABELS
from stepscope.model import Instant, Record, Step, StepScore, Trajectory
from stepscope.report.suspects import add_curve_suspects, make_curve, read_curve, read_points
from stepscope.report.types import Curve, SuspectSteps
from stepscope.report.words import name_steps
from stepscope.store import Store
from stepscope.store.records import score_records
from stepscope.values import Estimate, Unmeasured
from tests.factories import agent, did, failed, run, user
from tests.store.test_scores import scored

FALLS = (0.85, 0.88, 0.86, 0.84, 0.41, 0.45, 0.43, 0.46, 0.44, 0.42)
HOLDS = (0.85, 0.88, 0.86, 0.84, 0.87, 0.85, 0.83, 0.86, 0.88, 0.85)
NOISE = {"": Estimate(value=0.04, low=0.03, high=0.06, method="pooled", n=45, n_tasks=15)}


def scores(*values: float | None, **more: object) -> list[StepScore]:
    return [StepScore(step=i, value=v, **more) for i, v in enumerate(values)]  # type: ignore[arg-type]


def drawn(
    found: list[StepScore],
    trajectory: Trajectory | None = None,
    *,
    noise: Mapping[str, Estimate] | None = None,
    weights: Mapping[tuple[str, str], tuple[float, ...]] | None = None,
) -> Curve:
    made = make_curve(
        trajectory, score_records("r", found), noise=noise or {}, weights=weights or {}
    )
    assert isinstance(made, Curve), made
    return made


def test_a_fall_is_a_shape_with_its_step() -> None:
    made = drawn(scores(*FALLS), noise=NOISE)
    assert (made.shape, made.break_step, made.break_first, made.break_last) == (
        "early_collapse", 4, 4, 4,
    )  # fmt: skip
    assert made.posterior["early_collapse"] > 0.95
    assert sum(made.posterior.values()) == pytest.approx(1)
    assert (made.sigma, made.sigma_source, made.source) == (0.06, "repeats", "imported")
    assert made.depth is not None
    assert made.depth.low < 0.42 < made.depth.high


def test_a_run_that_holds_is_healthy_and_has_no_break() -> None:
    made = drawn(scores(*HOLDS), noise=NOISE)
    assert (made.shape, made.break_step, made.depth) == ("healthy", None, None)


def test_steps_are_those_of_the_run_not_places_in_the_curve() -> None:
    sparse = [StepScore(step=3 * i + 2, value=v) for i, v in enumerate(FALLS)]
    made = drawn(sparse, noise=NOISE)
    assert made.steps == tuple(range(30))
    assert [i for i, score in enumerate(made.scores) if score is not None] == [*range(2, 30, 3)]
    # it fell after step 11 and by step 14; of the two between nobody knows
    assert (made.break_first, made.break_last) == (12, 14)


def test_a_step_without_a_row_keeps_its_place_in_time() -> None:
    given = scores(*HOLDS[:2], *FALLS[2:])
    out = [2, 3, 7]
    left = drawn([score for score in given if score.step not in out], noise=NOISE)
    blank = drawn(
        [
            msgspec.structs.replace(score, value=None) if score.step in out else score
            for score in given
        ],
        noise=NOISE,
    )
    assert left == blank
    assert left.steps == tuple(range(10))


def test_without_measured_noise_it_is_averaged_over_a_range_and_said() -> None:
    made = drawn(scores(*FALLS))
    assert (made.sigma, made.sigma_source, made.shape) == (None, "marginalised", "early_collapse")


def test_repeats_are_averaged_and_their_noise_shrinks() -> None:
    twice = [*scores(0.4, 0.6), *scores(0.6, 0.6, repeat=1)]
    found = read_points(score_records("r", twice), NOISE)
    assert not isinstance(found, Unmeasured)
    assert found.scores == (0.5, 0.6)
    assert found.repeats == 2
    assert found.sigma == pytest.approx(0.06 / 2**0.5)
    once = read_points(score_records("r", twice[:-1]), NOISE)
    assert not isinstance(once, Unmeasured)
    assert (once.repeats, once.sigma) == (1, 0.06)


def test_the_scorer_of_most_steps_is_taken_and_the_others_are_named() -> None:
    found = drawn([*scores(0.1, 0.2, judge="few"), *scores(0.7, 0.8, 0.9, judge="many")])
    assert (found.judge, found.scores) == ("many", (0.7, 0.8, 0.9))
    assert found.notes == ("scores of few are left aside",)


def test_too_few_scores_make_a_curve_without_a_shape() -> None:
    made = drawn(scores(0.9, 0.4, 0.3))
    assert isinstance(made.shape, Unmeasured)
    assert (made.shape.kind, made.scores, made.break_probability) == (
        "insufficient_data", (0.9, 0.4, 0.3), (),
    )  # fmt: skip


def test_a_step_that_nobody_scored_is_a_gap_not_a_zero() -> None:
    made = drawn(scores(*HOLDS[:4], None, *HOLDS[5:]), noise=NOISE)
    assert made.scores[4] is None
    assert made.shape == "healthy"


def test_scores_that_no_shape_fits_declare_no_break() -> None:
    made = drawn(scores(*[0.9, 0.4] * 5), noise=NOISE)
    assert (made.unmodelled, made.shape, made.break_step) == (True, "unresolved", None)


WEIGHTS = {("", "t"): (1.0, 1, 1, 1, 3, 1, 1, 1, 1, 1)}
TASK = scored("x", *scores(*FALLS), task="t")


def test_a_gate_fails_whatever_the_weighted_mean() -> None:
    made = drawn(scores(*FALLS), TASK, noise=NOISE, weights=WEIGHTS)
    assert made.gate_failed == (4,)
    assert made.weighted == pytest.approx((sum(FALLS) + 2 * 0.41) / 12)


def test_noise_that_may_explain_a_low_gate_fails_nobody() -> None:
    nearly = (*HOLDS[:4], 0.57, *HOLDS[5:])
    assert drawn(scores(*nearly), TASK, noise=NOISE, weights=WEIGHTS).gate_failed == ()
    assert drawn(scores(*nearly), TASK, weights=WEIGHTS).gate_failed == (4,)


def test_weights_of_another_length_are_not_used_and_said() -> None:
    made = drawn(scores(*FALLS), TASK, weights={("", "t"): (1.0, 3.0)})
    assert (made.weights, made.weighted, made.gate_failed) == (None, None, ())
    assert made.notes == ("not weighed: 2 weights are fixed for 10 scored steps",)


def test_weights_of_the_task_win_over_those_of_every_task() -> None:
    every = {("", "*"): (3.0,) * 10, **WEIGHTS}
    assert drawn(scores(*FALLS), TASK, weights=every).weights == WEIGHTS["", "t"]
    other = msgspec.structs.replace(TASK, task="u")
    assert drawn(scores(*FALLS), other, weights=every).weights == (3.0,) * 10


def timed(seconds: tuple[float, ...], **more: object) -> Trajectory:
    at, steps = 0.0, []
    for index, took in enumerate(seconds):
        at += took
        start = Instant(int(at * 1e9), "")
        steps.append(Step(index=index, actor="agent", start=start, **more))  # type: ignore[arg-type]
    return msgspec.structs.replace(TASK, steps=tuple(steps))


def test_time_since_the_step_before_stands_in_for_a_duration() -> None:
    made = drawn(scores(0.8, 0.8, 0.8), timed((5, 1.5, 2)))
    assert made.latency_s == (None, 1.5, 2.0)


def test_a_spike_where_the_score_holds_is_a_step_to_watch() -> None:
    slow = (1.0, 1.1, 1, 1.2, 1, 1, 9, 1, 1.1, 1)
    assert drawn(scores(*HOLDS), timed(slow), noise=NOISE).watch == (6,)
    assert drawn(scores(*HOLDS), timed((1.0,) * 10), noise=NOISE).watch == ()


def test_what_a_file_says_of_time_wins_over_the_trace() -> None:
    told = [StepScore(step=i, value=0.8, latency_s=float(i)) for i in range(3)]
    assert drawn(told, timed((5, 1.5, 2))).latency_s == (0.0, 1.0, 2.0)


def labelled(*steps: object) -> Curve | Unmeasured:
    made = run(user("hi"), *steps)  # type: ignore[arg-type]
    answers = LABELS(made, None, None)
    found = [Record(trajectory="r1", answer=answer, version="2") for answer in answers]
    return make_curve(made, found, noise={}, weights={})


def test_labels_of_rules_make_no_curve() -> None:
    for steps in ((*did("a", x=1), *failed("b"), *did("a", x=1), agent("x")), did("a")):
        made = labelled(*steps)
        assert isinstance(made, Unmeasured)
        assert made.reason == "the steps of this run have no scores"


def test_scores_win_over_labels() -> None:
    with Store.open(":memory:") as store:
        store.put([run(*(agent("x") for _ in FALLS))])
        store.put([scored("shop/1/0", *scores(*FALLS))])
        made = read_curve(store, "r1")
    assert isinstance(made, Curve)
    assert (made.source, made.name, len(made.scores)) == ("imported", "shop/1/0", 10)


OTHER = SuspectSteps(first=1, last=1, kind="repeat", evidence="asks again")


def test_where_scores_fall_is_the_first_suspect() -> None:
    made = drawn(scores(*FALLS), TASK, noise=NOISE, weights={("", "*"): (3.0,) * 10})
    first, *gates, last = add_curve_suspects(made, [OTHER])
    assert (first.kind, name_steps(first)) == ("break", "4")
    assert first.evidence == (
        "the scores fall from 0.86 to 0.44 at step 4: early collapse, probability 99.9 %"
    )
    assert [name_steps(gate) for gate in gates] == ["6", "8", "9"]  # the others may be noise
    assert last == OTHER


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([0.95 - 0.06 * i for i in range(10)], "the scores fall steadily: steady degradation"),
        ([0.2 + 0.01 * (i % 3) for i in range(10)], "the scores are low throughout: mean 0.21"),
    ],
)
def test_where_no_step_stands_out_the_whole_run_is_suspect(values: list[float], says: str) -> None:
    first, last = add_curve_suspects(drawn(scores(*values), noise=NOISE), [OTHER])
    assert first.evidence.startswith(says)
    assert (name_steps(first), last) == ("0-9", OTHER)


@pytest.mark.parametrize("values", [HOLDS, FALLS[:3], [0.9, 0.4] * 5])
def test_no_break_no_suspect(values: tuple[float, ...]) -> None:
    assert add_curve_suspects(drawn(scores(*values), noise=NOISE), [OTHER]) == (OTHER,)
