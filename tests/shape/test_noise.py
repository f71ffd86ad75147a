"""What a fleet's scores say of their own noise."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.errors import DataError
from stepscope.lab.curves import Noise
from stepscope.lab.envelope import draw_cell
from stepscope.shape.noise import FleetNoise, learn_noise
from stepscope.values import Unmeasured


def fleet(kind: Noise, sigma: float, runs: int = 200, n: int = 10) -> FleetNoise | Unmeasured:
    scores = draw_cell("smooth", kind, n, sigma, trials=runs, seed=3)[0]
    return learn_noise(scores.ravel(), np.full(len(scores), n))


@pytest.mark.parametrize("sigma", [0.04, 0.08])
def test_the_sigma_of_a_fleet_is_found_without_repeated_scorings(sigma: float) -> None:
    found = fleet("gaussian", sigma)
    assert isinstance(found, FleetNoise)
    assert found.sigma.value == pytest.approx(sigma, rel=0.15)
    assert found.correlation_to_tell() == 0.0


def test_errors_that_last_are_found() -> None:
    found = fleet("ar1", 0.08)
    assert isinstance(found, FleetNoise)
    assert found.correlation.value == pytest.approx(0.5, abs=0.15)
    assert found.correlation_to_tell() == found.correlation.value


def test_where_sigma_is_measured_the_correlation_is_the_one_that_goes_with_it() -> None:
    scores = draw_cell("smooth", "ar1", 10, 0.15, trials=200, seed=3)[0]
    lengths = np.full(len(scores), 10)
    alone = learn_noise(scores.ravel(), lengths)
    told = learn_noise(scores.ravel(), lengths, sigma=0.15)
    assert isinstance(alone, FleetNoise)
    assert isinstance(told, FleetNoise)
    assert told.sigma == alone.sigma
    assert told.correlation.value == pytest.approx(0.5, abs=0.12)
    assert alone.correlation.value < told.correlation.value
    assert isinstance(learn_noise(scores.ravel(), lengths, sigma=0.0), Unmeasured)


def test_a_few_runs_tell_nothing_of_their_noise() -> None:
    found = fleet("gaussian", 0.05, runs=25)
    assert isinstance(found, Unmeasured)
    assert found.reason == "25 runs have 7 scores; 30 are needed to estimate noise"


def test_short_runs_tell_nothing_of_their_noise() -> None:
    scores = draw_cell("smooth", "gaussian", 6, 0.05, trials=200, seed=3)[0]
    assert isinstance(learn_noise(scores.ravel(), np.full(len(scores), 6)), Unmeasured)


def test_a_noise_beyond_what_is_looked_at_is_unmeasured() -> None:
    scores = np.full((40, 8), 0.8)
    found = learn_noise(scores.ravel(), np.full(40, 8))
    assert isinstance(found, Unmeasured)
    assert found.kind == "undefined"


def test_runs_without_a_shape_are_passed_over() -> None:
    scores = draw_cell("smooth", "gaussian", 8, 0.06, trials=100, seed=3)[0]
    values = np.concatenate([scores.ravel(), [0.5, np.nan, 3.0]])
    found = learn_noise(values, np.array([8] * 100 + [2, 0, 1]))
    assert isinstance(found, FleetNoise)
    assert found.sigma.n == 100


def test_lengths_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(DataError, match="expected the steps of each run"):
        learn_noise(np.full(9, 0.5), np.array([8]))
