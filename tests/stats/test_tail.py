"""One side, named beforehand: what a gate asks ("is it worse?") and a comparison does not."""

from __future__ import annotations

from math import isclose

import numpy as np
import pytest

from stepscope.stats import Comparison, compare_paired
from stepscope.stats.permutation import Tail, exact_p

# Nine passes handed to 10 + 10 trials in C(20, 9) = 167,960 ways; the second agent gets seven or
# more in 120*45 + 45*10 + 10 of them, seven or fewer in all but 45*10 + 10.
UPPER, LOWER = 5_860 / 167_960, 167_500 / 167_960


@pytest.mark.parametrize(("tail", "p"), [("lower", LOWER), ("upper", UPPER)])
def test_one_case_is_the_one_sided_test_of_fisher(tail: Tail, p: float) -> None:
    assert isclose(exact_p([(2, 10, 7, 10)], tail=tail) or 0, p, rel_tol=1e-12)


def figures(shift: float, tail: Tail, n: int) -> Comparison:
    draw = np.random.default_rng(7)
    cases = np.repeat(np.arange(n), 2)
    first, second = draw.normal(0, 1, 2 * n), draw.normal(shift, 1, 2 * n)
    found = compare_paired(
        first, cases, second, cases, rng=np.random.default_rng(1), unit="steps", tail=tail
    )
    assert isinstance(found, Comparison)
    return found


@pytest.mark.parametrize(
    ("n", "method"), [(4, "permutation exact"), (12, "permutation drawn"), (3000, "permutation no")]
)
def test_the_sides_of_figures_add_up_and_the_far_one_is_small(n: int, method: str) -> None:
    lower, upper = figures(0.8, "lower", n), figures(0.8, "upper", n)
    both = figures(0.8, "both", n)
    assert upper.method.startswith(method)
    assert upper.p < 0.1 < 0.9 < lower.p
    assert abs(lower.p + upper.p - 1) < 0.03
    assert abs(2 * upper.p - both.p) < 0.02


def test_an_agent_that_got_better_is_no_evidence_of_worse() -> None:
    cases = range(20)
    found = compare_paired(
        [0] * 20, cases, [1] * 9 + [0] * 11, cases, rng=np.random.default_rng(0), tail="lower"
    )
    assert isinstance(found, Comparison)
    assert found.p == 1.0
