"""How failures fall on marked runs when outcomes are handed out anew within tasks."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

import numpy as np
import pytest
from scipy.stats import fisher_exact, hypergeom

from stepscope.stats.permutation import null_of_failures

Tables = list[tuple[int, int, int]]


@pytest.mark.parametrize("table", [(4, 2, 1), (10, 3, 4), (7, 7, 3), (7, 0, 3), (6, 2, 6)])
def test_one_task_is_hypergeometric(table: tuple[int, int, int]) -> None:
    runs, failed, marked = table
    lowest, null = null_of_failures([table])
    held = hypergeom(runs, failed, marked).pmf(np.arange(lowest, lowest + len(null)))
    assert null == pytest.approx(held)
    assert null.sum() == pytest.approx(1.0)


def test_one_task_is_the_exact_test_of_fisher() -> None:
    # Six of eight marked runs failed, and one of seven others.
    lowest, null = null_of_failures([(15, 7, 8)])
    told = fisher_exact(np.array([[6, 2], [1, 6]]), alternative="greater")
    assert null[6 - lowest :].sum() == pytest.approx(told.pvalue)


@pytest.mark.parametrize(
    "tables",
    [
        [(4, 2, 1), (3, 1, 2), (5, 4, 2)],
        [(4, 2, 1)] * 3,
        [(2, 2, 1), (3, 0, 2), (4, 1, 2)],
    ],
)
def test_several_tasks_are_every_way_to_hand_out_the_outcomes(tables: Tables) -> None:
    counts: dict[int, int] = {}
    every = [list(combinations(range(runs), failed)) for runs, failed, _ in tables]
    for chosen in product(*every):
        seen = sum(
            sum(run < marked for run in of)
            for of, (_, _, marked) in zip(chosen, tables, strict=True)
        )
        counts[seen] = counts.get(seen, 0) + 1
    lowest, null = null_of_failures(tables)
    total = sum(counts.values())
    held = {lowest + at: float(p) for at, p in enumerate(null) if p > 0}
    assert held == pytest.approx({seen: n / total for seen, n in counts.items()})


def test_tasks_that_tell_nothing_leave_one_number() -> None:
    # All failed, none failed, all marked.
    lowest, null = null_of_failures([(4, 4, 2), (4, 0, 2), (4, 2, 4)])
    assert (lowest, null.tolist()) == (4, [1.0])
    lowest, null = null_of_failures([])
    assert (lowest, null.tolist()) == (0, [1.0])


@pytest.mark.parametrize(
    "table",
    [(257, 100, 40), (300, 150, 299), (2_700, 1_350, 13), (4_000, 2_000, 2_000), (400, 0, 9)],
)
def test_a_task_of_many_runs_has_the_same_chances_as_its_ways_counted(
    table: tuple[int, int, int],
) -> None:
    runs, failed, marked = table
    lowest, null = null_of_failures([table])
    counted = [
        comb(failed, x) * comb(runs - failed, marked - x) / comb(runs, marked)
        for x in range(max(0, marked + failed - runs), min(marked, failed) + 1)
    ]
    if len(counted) > 1:
        assert null == pytest.approx(counted, rel=1e-10)
    assert null.sum() == pytest.approx(1.0)
    assert lowest == max(0, marked + failed - runs)
