"""No NaN and no infinity leaves; what carries no number is `Unmeasured`, with a reason."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope import stats
from stepscope.values import UNMEASURED_KINDS, Estimate, Unmeasured

Answer = Estimate | Unmeasured
Call = Callable[[list[float], list[int]], Answer]

FIGURES: dict[str, Call] = {
    "mean": stats.mean,
    "median": lambda x, c: stats.quantile(x, 0.5, c),
    "p95": lambda x, c: stats.quantile(x, 0.95, c),
    "mean of these cases": lambda x, c: stats.mean(x, c, target="these cases"),
    "median of these cases": lambda x, c: stats.quantile(x, 0.5, c, target="these cases"),
}
COUNTS: dict[str, Call] = {
    "rate": stats.rate,
    "rate of these cases": lambda x, c: stats.rate(x, c, target="these cases"),
}
SHARES: dict[str, Call] = {
    "share": stats.mean_share,
    "share of these cases": lambda x, c: stats.mean_share(x, c, target="these cases"),
    "proportion": lambda x, c: stats.proportion(np.round(x), c),
    "ratio": lambda x, c: stats.ratio([v * n for v, n in zip(x, c, strict=True)], c, c),
    "ratio of these cases": lambda x, c: stats.ratio(x, [1.0] * len(x), c, target="these cases"),
    "pass^2": lambda x, c: stats.pass_hat_k([v * n for v, n in zip(x, c, strict=True)], c, 2),
    "pass@2": lambda x, c: stats.pass_at_k([v * n for v, n in zip(x, c, strict=True)], c, 2),
}


def sound(found: Answer) -> None:
    """Check that every number is finite and ordered, or that the absence explains itself."""
    if isinstance(found, Unmeasured):
        assert found.kind in UNMEASURED_KINDS
        assert found.reason
        return
    numbers = [x for x in msgspec.structs.astuple(found) if isinstance(x, float)]
    assert all(math.isfinite(x) for x in numbers)
    assert found.low is None or found.low <= found.value
    assert found.high is None or found.value <= found.high
    assert ((found.low, found.high) == (None, None)) == (found.no_interval in found.diagnostics)


def rows(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[tuple[float, int]]]:
    """Rows of a value and a small cluster number."""
    return st.lists(st.tuples(values, st.integers(1, 6)), max_size=30)


anything = rows(
    st.floats(allow_nan=True, allow_infinity=True)
    | st.sampled_from([0.0, 1.0, -1.0, 1e308, 5e-324])
)
# A domain error (a share of 1.5) is a mistake of the caller and raises; NaN is a missing value.
counts = rows(st.floats(0, 1e308) | st.just(math.nan) | st.just(math.inf))
part_shares = rows(st.floats(0, 1) | st.just(math.nan))


@settings(max_examples=150)
@given(anything, counts, part_shares)
def test_no_number_that_is_not_finite_ever_leaves(
    figures: list[tuple[float, int]],
    counted: list[tuple[float, int]],
    shares: list[tuple[float, int]],
) -> None:
    for calls, given_rows in ((FIGURES, figures), (COUNTS, counted), (SHARES, shares)):
        values, clusters = [v for v, _ in given_rows], [c for _, c in given_rows]
        for call in calls.values():
            sound(call(values, clusters))


@settings(max_examples=60)
@given(anything, anything, st.sampled_from(["share", "usd"]))
def test_no_comparison_carries_a_number_that_is_not_finite(
    first: list[tuple[float, int]], second: list[tuple[float, int]], unit: str
) -> None:
    a, a_cases = [v for v, _ in first], [c for _, c in first]
    b, b_cases = [v for v, _ in second], [c for _, c in second]
    for compare in (stats.compare_paired, stats.compare_unpaired):
        rng = np.random.default_rng(0)
        found = compare(a, a_cases, b, b_cases, rng=rng, unit=unit, draws=99)
        if isinstance(found, Unmeasured):
            sound(found)
            continue
        sound(found.effect)
        assert 0 < found.p <= 1
        assert found.detectable is None or math.isfinite(found.detectable)


ALL = {**FIGURES, **COUNTS, **SHARES}
OVER_TASKS = {name: call for name, call in ALL.items() if "these cases" not in name}


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
def test_no_runs_is_unmeasured(call: Call) -> None:
    assert call([], []) == Unmeasured("insufficient_data", _reason(call([], [])))


@pytest.mark.parametrize("call", ALL.values(), ids=ALL)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_missing_input(call: Call, bad: float) -> None:
    found = call([0.0, bad, 1.0, 0.0], [2, 3, 4, 5])
    assert isinstance(found, Unmeasured)
    assert found.kind == "missing_input"


@pytest.mark.parametrize(
    "call", [c for n, c in OVER_TASKS.items() if not n.startswith("pass")], ids=lambda c: ""
)
def test_one_task_has_a_value_and_no_interval_whatever_its_trials(call: Call) -> None:
    found = call([0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0], [3] * 7)
    assert isinstance(found, Estimate)
    assert 0.5 < found.value <= 1.0
    assert found.no_interval == "no interval: one task"


@pytest.mark.parametrize("call", FIGURES.values(), ids=FIGURES)
@pytest.mark.parametrize("value", [0.0, 24.0, -1e300])
def test_values_that_are_all_equal_are_that_value_without_an_interval(
    call: Call, value: float
) -> None:
    found = call([value] * 10, list(range(1, 11)))
    assert isinstance(found, Estimate)
    assert (found.value, found.n) == (value, 10)
    assert found.no_interval == "no interval: all equal"
    nearly = call([value] * 9 + [1e300], list(range(1, 11)))
    assert isinstance(nearly, Estimate)
    assert nearly.no_interval != "no interval: all equal"


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_shares_keep_an_interval_on_the_open_side(value: float) -> None:
    for call in SHARES.values():
        found = call([value] * 10, list(range(2, 12)))
        assert isinstance(found, Estimate)
        assert found.low is not None
        assert found.high is not None
        assert found.value == value
        assert found.high - found.low > 0.05


def _reason(found: Answer) -> str:
    return found.reason if isinstance(found, Unmeasured) else ""
