"""Largest matchings and common subsequences, against outside oracles."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from stepscope.measures.same_calls import (
    contains_json,
    equal_json,
    largest_matching,
    longest_common_subsequence,
    overlaps,
)
from stepscope.model import Json

GRAPHS = st.lists(st.sets(st.integers(0, 6)).map(sorted), max_size=7)


@given(GRAPHS)
def test_a_matching_is_as_large_as_scipys(candidates: list[list[int]]) -> None:
    pairs = largest_matching(candidates)
    taken = [right for right in pairs if right is not None]
    assert len(taken) == len(set(taken))
    assert all(right is None or right in candidates[left] for left, right in enumerate(pairs))
    cost = np.zeros((len(candidates) + 1, 7))
    for left, options in enumerate(candidates):
        cost[left, options] = -1
    assert len(taken) == -cost[linear_sum_assignment(cost)].sum()


def test_a_greedy_choice_is_undone_along_a_path() -> None:
    assert largest_matching([[0], [0, 1], [1, 2], [2]]) == [0, 1, 2, None]
    assert largest_matching([[0, 1], [0, 2], [0]]) == [1, 2, 0]
    assert largest_matching([]) == []


@given(GRAPHS)
def test_a_common_subsequence_is_as_long_as_the_longest_found_by_trying_all(
    candidates: list[list[int]],
) -> None:
    longest = 0
    for size in range(len(candidates) + 1):
        for chosen in combinations(range(len(candidates)), size):
            at = -1
            for left in chosen:
                at = min((r for r in candidates[left] if r > at), default=99)
            if at < 99:
                longest = max(longest, size)
    assert longest_common_subsequence(candidates) == longest


@pytest.mark.parametrize(
    ("a", "b", "tolerance", "equal"),
    [
        (1, 1.0, 0, True),
        (True, 1, 0, False),
        (1, True, 0, False),
        (False, 0.0, 0.5, False),
        ("1", 1, 0, False),
        (1, "1", 0.5, False),
        (None, None, 0, True),
        (None, 0, 0, False),
        (0, None, 0.5, False),
        ([1, 2], [1, 2.0], 0, True),
        ([1, 2], [2, 1], 0, False),
        ([1], [1, 1], 0, False),
        ([1], 1, 0, False),
        ({"a": [True]}, {"a": [1]}, 0, False),
        ({"a": 1}, {"a": 1, "b": 2}, 0, False),
        ({"a": 1}, [1], 0, False),
        (100, 101, 0.01, True),
        (100, 102, 0.01, False),
        (0, 0.005, 0.01, True),
        ({"x": [10]}, {"x": [10.05]}, 0.01, True),
    ],
)
def test_values_are_the_same_as_json_not_as_python(
    a: Json, b: Json, tolerance: float, equal: bool
) -> None:
    assert equal_json(a, b, tolerance) is equal


def test_an_object_contains_its_members_and_nothing_else_contains_any() -> None:
    assert contains_json({"a": 1, "b": 2}, {"a": 1})
    assert not contains_json({"a": 1}, {"a": 1, "b": None})
    assert not contains_json({"a": True}, {"a": 1})
    assert contains_json({}, {})
    assert not contains_json(None, {})
    assert not contains_json([], {})


def test_half_of_the_arguments_make_calls_alike() -> None:
    assert overlaps({"order": "A", "item": 1}, {"order": "A", "item": 2})
    assert not overlaps(
        {"order": "A", "item": 1, "pay": "x"}, {"order": "A", "item": 2, "pay": "y"}
    )
    assert not overlaps({}, {})
    assert not overlaps(None, {"a": 1})
    assert not overlaps({"a": 1}, None)
