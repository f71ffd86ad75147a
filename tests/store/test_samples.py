"""Samples of runs that were drawn for a rubric, and what may be said of the others."""

from __future__ import annotations

import pytest

from stepscope.errors import DataError
from stepscope.store import Store
from stepscope.store.samples import draw_sample
from tests.factories import run

IDS = [f"run-{at}" for at in range(100)]


def test_a_larger_draw_contains_the_smaller_one() -> None:
    few, share = draw_sample(IDS, 10, seed=0, rubric="axes.termination")
    more, _ = draw_sample(IDS, 30, seed=0, rubric="axes.termination")
    assert len(few) == 10
    assert share == 0.1
    assert set(few) < set(more)
    assert few == sorted(few, key=IDS.index)


def test_another_seed_or_rubric_draws_other_runs() -> None:
    drawn = [
        tuple(draw_sample(IDS, 10, seed=seed, rubric=rubric)[0])
        for seed, rubric in ((0, "a"), (1, "a"), (0, "b"))
    ]
    assert len(set(drawn)) == 3


def test_every_run_is_drawn_as_often_as_its_probability_says() -> None:
    often = dict.fromkeys(IDS, 0)
    for seed in range(1_000):
        for one in draw_sample(IDS, 20, seed=seed, rubric="axes.termination")[0]:
            often[one] += 1
    # Binomial(1000, .2): standard deviation 12.6, a hundred of them.
    assert min(often.values()) > 150
    assert max(often.values()) < 250


def test_asking_for_more_than_there_are_draws_all_of_them() -> None:
    assert draw_sample(IDS[:3], 10, seed=0, rubric="a") == (IDS[:3], 1.0)


@pytest.mark.parametrize(("runs", "n"), [([], 5), (IDS, 0)])
def test_nothing_to_draw_is_an_error(runs: list[str], n: int) -> None:
    with pytest.raises(DataError, match="expected 1 or more of each"):
        draw_sample(runs, n, seed=0, rubric="a")


def test_a_second_draw_raises_a_probability_and_never_lowers_it() -> None:
    with Store.open(":memory:") as store:
        runs = [run(id=f"id-{at}", name=f"r{at}") for at in range(4)]
        store.put(runs)
        ids = [one.id for one in runs]
        store.put_sample("a", ids, 0.5, ids[:2])
        store.put_sample("a", ids[:3], 0.25, ids[2:3])
        assert store.sampled("a") == dict.fromkeys(ids, 0.5)
        assert store.drawn("a") == {ids[0]: 0.5, ids[1]: 0.5, ids[2]: 0.5}
        assert store.drawn("b") == {}
