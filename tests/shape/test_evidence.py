"""The closed forms against integrals done by brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from stepscope.shape import inputs
from stepscope.shape.classifier import classify, fit_probability, shortest_run
from stepscope.shape.likelihood import inverse_of_lower, weigh_templates
from stepscope.shape.templates import parts_of_run, pool_steps
from stepscope.shape.types import HEALTHY, Shape

SCORES = np.array([0.9, 0.85, np.nan, 0.5, 0.55, 0.45])
SIGMA = np.array([0.05, 0.08, 0.05, 0.06, 0.05, 0.1])
NO_PRIOR = inputs.check_assumptions(None)


@pytest.mark.parametrize("k", [0, 1, 3, 8, 17, 20, 40, 73])
@pytest.mark.parametrize(("quantum", "correlation"), [(None, 0.0), (0.1, 0.5)])
def test_evidence_is_the_integral_over_level_slope_and_depth(
    k: int, quantum: float | None, correlation: float
) -> None:
    seen = ~np.isnan(SCORES)
    what = inputs.check_assumptions(None, quantum=quantum, correlation=correlation)
    found = weigh_templates(SCORES, seen, SIGMA, what)
    at, sd = np.flatnonzero(seen), np.sqrt(SIGMA**2 + (quantum or 0.0) ** 2 / 12)[seen]
    u = at / 5 - 0.5
    apart = np.abs(at[:, None] - at)
    cov = np.outer(sd, sd) * (correlation**apart if correlation else np.eye(5))
    cov = cov + 0.18**2 + 0.03**2 * np.outer(u, u) + 0.025**2 * np.eye(5)
    one = found.lens.bank
    healthy = one.shape[k] == HEALTHY
    mean, spread, least = (0.0, 0.07, -0.1) if healthy else (0.40, 0.15, 0.20)
    depth = stats.truncnorm((least - mean) / spread, np.inf, mean, spread)

    def density(d: float) -> float:
        curve = 0.8 + one.offset[k, at] + d * one.f[k, at]
        return float(stats.multivariate_normal(curve, cov).pdf(SCORES[at]) * depth.pdf(d))

    total = integrate.quad(density, least, 2.0, epsabs=1e-12, limit=200)[0]
    assert found.log[k] - one.log_weight[k] == pytest.approx(np.log(total), abs=1e-5)


def test_depth_is_the_posterior_mixture_of_cut_normals() -> None:
    found = classify([0.9, 0.9, 0.9, 0.62, 0.6, 0.61, 0.6, 0.6], sigma=0.05)
    assert isinstance(found, Shape)
    assert found.depth is not None
    # By hand: mean level before .9, after .605, both nearly free: the drop is .295 less a little
    # for the level's prior, its sd sqrt(.05^2 + .025^2) * sqrt(1/3 + 1/5) = .041.
    assert found.depth.value == pytest.approx(0.295, abs=0.02)
    assert found.depth.high - found.depth.low == pytest.approx(2 * 1.645 * 0.041, rel=0.15)


@pytest.mark.parametrize(
    ("square", "p", "expected"), [(20.090, 10, 0.01), (7.344, 10, 0.5), (0.0, 4, 1.0)]
)
def test_fit_is_chi_square_with_two_degrees_less_than_scores_whatever_the_level(
    square: float, p: int, expected: float
) -> None:
    level = np.eye(p)[0]
    left = np.zeros((2, p))
    left[:, 1] = square**0.5
    left[1, 0] = 100.0
    assert fit_probability(left, level) == pytest.approx([expected, expected], abs=1e-4)


@pytest.mark.parametrize(
    ("probability", "run"),
    [
        ([0.0, 0.2, 0.5, 0.28, 0.02], (1, 3)),
        ([1.0, 0.0, 0.0], (0, 0)),
        ([0.05, 0.9, 0.05], (1, 1)),
        ([0.45, 0.0, 0.1, 0.45], (0, 3)),  # both ends are needed
        ([0.25, 0.25, 0.25, 0.25], (0, 3)),
        ([0.02, 0.46, 0.46, 0.06], (1, 2)),
        ([0.2, 0.2, 0.0, 0.0], (0, 1)),  # shares of the sum
        ([0.0, 0.4, 0.5, 0.4, 0.0], (1, 3)),
        ([0.05, 0.45, 0.45, 0.05], (1, 2)),  # exactly 90 %
    ],
)
def test_the_shortest_run_holds_ninety_percent(
    probability: list[float], run: tuple[int, int]
) -> None:
    first, last = shortest_run(np.array([probability]))
    assert (int(first[0]), int(last[0])) == run


def test_short_runs_are_compared_score_by_score() -> None:
    weights, places = pool_steps(np.array([True, False, True, True]), np.full(4, 0.05))
    assert places.tolist() == [0, 2, 3]
    assert weights.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert parts_of_run(4).tolist() == [0, 1, 2, 3]


def test_long_runs_are_averaged_by_precision_over_forty_parts() -> None:
    seen, sigma = np.ones(80, np.bool_), np.full(80, 0.1)
    seen[4], sigma[1] = False, 0.2
    weights, _ = pool_steps(seen, sigma)
    assert parts_of_run(80)[-1] == 39
    assert parts_of_run(80)[:6].tolist() == [0, 0, 1, 1, 2, 2]
    assert weights[0, :2].tolist() == [0.8, 0.2]
    assert weights[2, 4:6].tolist() == [0.0, 1.0]
    seen[:4] = False
    assert pool_steps(seen, sigma)[1][0] == 2


def test_a_triangular_matrix_is_inverted_forward() -> None:
    found = inverse_of_lower(np.array([[2.0, 0.0], [1.0, 4.0]]))
    assert found.tolist() == [[0.5, 0.0], [-0.125, 0.25]]
