from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from stepscope.errors import UsageError
from stepscope.report.compare import compare_groups
from stepscope.report.render import text
from stepscope.report.views.compare import (
    conclude_comparison,
    make_comparison_document,
    state_difference,
)
from stepscope.values import Estimate, Unmeasured
from tests.report.rows import MISSING, LiteralRows, rows


def two(first: list[float], second: list[float], *, shared: bool = True) -> LiteralRows:
    n = len(first)
    ours = [str(at) for at in range(n)]
    theirs = ours if shared else [f"other {at}" for at in range(n)]
    values: dict[str, list[float | None]] = {"outcome": [*first, *second]}
    return LiteralRows(
        [*ours, *theirs],
        agents=["x"] * n + ["y"] * n,
        values={**values, "efficiency.steps": [float(at % 7) for at in range(2 * n)]},
    )


def test_shared_cases_are_paired_and_the_p_value_is_mcnemars() -> None:
    # 9 discordant pairs, all one way: exact McNemar 2 * .5^9.
    found = compare_groups(rows(two([0.0] * 20, [1.0] * 9 + [0.0] * 11)), "x", "y")["outcome.pass"]
    assert isinstance(found.effect, Estimate)
    assert (found.effect.value, found.p, found.paired, found.n_cases) == (
        0.45,
        2 * 0.5**9,
        True,
        20,
    )


def test_the_effect_is_the_second_minus_the_first() -> None:
    literal = rows(two([1.0] * 9 + [0.0] * 11, [0.0] * 20))
    one, other = compare_groups(literal, "x", "y"), compare_groups(literal, "y", "x")
    effects = [c["outcome.pass"].effect for c in (one, other)]
    assert [e.value for e in effects if isinstance(e, Estimate)] == [-0.45, 0.45]


def test_holm_counts_every_figure_that_was_tested() -> None:
    found = compare_groups(rows(two([0.0] * 20, [1.0] * 9 + [0.0] * 11)), "x", "y")
    tested = [key for key, d in found.differences.items() if d.p is not None]
    assert tested == ["outcome.pass", "steps.mean"]
    assert found["outcome.pass"].p_adjusted == 4 * 0.5**9
    assert found["outcome.pass"].survives
    assert not found["steps.mean"].survives


def test_equal_groups_show_nothing_and_say_what_could_have_been_seen() -> None:
    same = [float(at % 2) for at in range(30)]
    found = compare_groups(rows(two(same, same)), "x", "y")
    assert found["outcome.pass"].p == 1.0
    assert "significant at 0.05 after Holm's correction over 2 figures: none." in text.render(
        make_comparison_document(found)
    )


def test_one_point_and_one_figure_are_singular_and_less_is_as_often() -> None:
    half = [1.0] * 100 + [0.0] * 100
    one, equal = (
        compare_groups(rows(two(half, [1.0] * passed + [0.0] * (200 - passed))), "x", "y")
        for passed in (102, 100)
    )
    assert state_difference(one).startswith("y passes 1 point more than x (95 %: ")
    assert state_difference(equal).startswith("y and x pass equally often, to the nearest point (")
    alone = structs.replace(one, differences={"outcome.pass": one["outcome.pass"]})
    assert next(conclude_comparison(alone)).endswith(" over 1 figure: none.")


def test_cases_of_one_group_only_are_counted() -> None:
    literal = two([1.0, 0.0, 1.0], [0.0, 0.0, 1.0])
    tasks = [*literal.tasks[:3], "0", "1", "new"]
    found = compare_groups(rows(LiteralRows(tasks, literal.agents, literal.values)), "x", "y")
    assert (found.n_shared, found.n_only_first, found.n_only_second) == (2, 1, 1)


def test_without_shared_cases_nothing_is_paired_and_it_is_said() -> None:
    found = compare_groups(rows(two([0.0] * 20, [1.0] * 20, shared=False)), "x", "y")
    assert not found["outcome.pass"].paired
    assert found["outcome.pass"].survives
    assert "No task is shared" in text.render(make_comparison_document(found))


def test_what_either_group_lacks_is_counted() -> None:
    literal = two([0.0] * 20, [1.0] * 20)
    values: list[float | None] = list(literal.values["outcome"])
    values[3], values[20], values[21] = None, None, None
    found = compare_groups(
        rows(LiteralRows(literal.tasks, literal.agents, {"outcome": values}, {"outcome": MISSING})),
        "x",
        "y",
    )["outcome.pass"]
    assert isinstance(found.effect, Estimate)
    assert found.effect.unmeasured == {"missing_input": 3}


def test_a_figure_that_nobody_measured_is_not_compared_to_zero() -> None:
    found = compare_groups(rows(two([0.0, 1.0], [1.0, 1.0])), "x", "y")
    assert isinstance(found["tokens.mean"].effect, Unmeasured)
    assert found["tokens.mean"].p is None


@pytest.mark.parametrize(
    ("a", "b", "by", "message"),
    [
        ("x", "x", "agent", "'x' is compared with itself"),
        ("x", "z", "agent", "no run has agent 'z'; there is 'x', 'y'"),
        ("x", "y", "mood", "--by 'mood' is not a field"),
        ("1", "2", "trial", "no run has trial '1'; there is no value at all"),
    ],
)
def test_groups_that_are_not_there_are_an_error(a: str, b: str, by: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        compare_groups(rows(two([0.0, 1.0], [1.0, 1.0])), a, b, by=by)


def test_values_of_a_tag_are_compared() -> None:
    literal = two([1.0] * 9, [0.0] * 9)
    tagged = replace(literal, tags={"set": ["dev"] * 9 + ["test"] * 9})
    found = compare_groups(rows(tagged), "dev", "test", by="tag.set")["outcome.pass"]
    assert isinstance(found.effect, Estimate)
    assert found.effect.value == -1.0
