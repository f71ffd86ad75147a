"""What drop, or ratio of lengths, exact tests would find in most repetitions."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from stepscope.stats.permutation import PairedTrials, detectable_ratio, detectable_rise


def lengths(cases: int, trials: int, spread: float, seed: int = 0) -> PairedTrials:
    """Logarithms of lengths around 20 steps, of two agents alike."""
    rng = np.random.default_rng(seed)
    n = 2 * cases * trials
    values = log(20) + spread * rng.standard_normal(n)
    many = np.full(cases, trials)
    return PairedTrials(values, np.repeat(np.arange(cases), 2 * trials), many, many)


def ratio(trials: PairedTrials, alpha: float = 0.025, margin: float = 1.0) -> float | None:
    rng = np.random.default_rng(0)
    return detectable_ratio(trials, alpha=alpha, margin=margin, power=0.8, rng=rng)


def test_a_ratio_is_what_the_normal_gives_where_lengths_are_normal() -> None:
    # Ranks of normal values lose little: (1.96 + .84) * spread * sqrt(2 / runs a side), and more
    # where cases have few runs to compare.
    found = ratio(lengths(25, 8, 0.2))
    assert found is not None
    assert log(found) == pytest.approx(2.80 * 0.2 * (2 / 200) ** 0.5, rel=0.2)


def test_a_ratio_grows_with_the_spread_the_margin_and_a_stricter_level() -> None:
    usual = ratio(lengths(20, 4, 0.2))
    assert usual is not None
    for more in (
        ratio(lengths(20, 4, 0.4)),
        ratio(lengths(20, 4, 0.2), alpha=0.001),
        ratio(lengths(20, 4, 0.2), margin=1.3),
    ):
        assert more is not None
        assert more > usual + 0.01
    strict = ratio(lengths(20, 4, 0.2), margin=1.3)
    assert strict is not None
    assert strict > 1.3


def test_of_lengths_that_never_vary_or_are_too_many_no_ratio_is_told() -> None:
    assert ratio(lengths(20, 4, 0.0)) is None
    assert ratio(lengths(20_000, 1, 0.2)) is None


def test_cases_whose_trials_share_no_unit_have_no_rise() -> None:
    primes = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
    cases = [(0, n, 0, n) for n in primes]
    rng = np.random.default_rng(0)
    found = detectable_rise(cases, alpha=0.025, margin=0, power=0.8, alike=True, rng=rng)
    assert found is None
