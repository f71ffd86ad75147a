"""The bars of failure modes, small: planted modes are found, chance makes none, gates stay calm."""

from __future__ import annotations

import numpy as np
import pytest

from bars.findings._broken_fleets import Design
from bars.findings.failure_modes import (
    LARGE,
    USUAL,
    clusters,
    gate,
    is_false_alarm,
    rand_index,
    share_shown,
    split,
)


def test_planted_modes_are_found_as_they_were_planted() -> None:
    found = np.array([clusters(seed) for seed in range(6)])
    assert np.median(found[:, 0]) >= 0.8
    # Where all is known but what was lost, one cluster of all others says little.
    assert np.median(found[:, 3]) < 0.6


def test_permuted_outcomes_show_no_mode() -> None:
    assert sum(map(is_false_alarm, range(20))) <= 3


def test_a_mode_of_six_percent_is_shown_in_a_hundred_tasks() -> None:
    assert np.mean([share_shown(seed, LARGE) for seed in range(3)]) >= 0.8
    # Near miss: in a tenth of the tasks nothing can be.
    few = Design(tasks=10, rates=(0.06, 0.06))
    assert np.mean([share_shown(seed, few) for seed in range(3)]) <= 0.2


def test_the_gate_is_calm_on_the_same_agent_and_sees_a_new_mode() -> None:
    assert sum(gate(seed, USUAL, looks=2) > 0 for seed in range(6)) <= 1
    assert sum(gate(seed, USUAL, looks=1, new=0.2) > 0 for seed in range(4)) >= 3


@pytest.mark.parametrize(
    ("first", "second", "index"),
    [
        ([0, 0, 1, 1], [5, 5, 9, 9], 1.0),
        # Hubert and Arabie (1985): by hand, 2 pairs of 2 and 1, over 6, expected 1/3, most 3/2.
        ([0, 0, 1, 1], [0, 0, 1, 2], 4 / 7),
        ([0, 0, 1, 1], [0, 1, 0, 1], -0.5),
    ],
)
def test_the_index_is_one_for_the_same_partition(
    first: list[int], second: list[int], index: float
) -> None:
    assert rand_index(np.array(first), np.array(second)) == pytest.approx(index)


def test_what_is_in_no_mode_is_a_cluster_each() -> None:
    assert len(set(split(np.array([-1, 0, -1, 0])).tolist())) == 3
