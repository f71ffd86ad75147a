"""Keywords that frame an estimate: what a statistic does not take is refused, not ignored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepscope import stats
from stepscope.values import Estimate

STATISTIC: dict[str, Callable[..., Any]] = {
    "proportion": lambda **given: stats.proportion([1, 0], **given),
    "pearson": lambda **given: stats.pearson([1, 2], [2, 1], **given),
    "pass_hat_k": lambda **given: stats.pass_hat_k([1, 1], [2, 2], 1, **given),
}


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("proportion", "levels"),
        ("proportion", "unit"),
        ("proportion", "n_tasks"),
        ("pearson", "target"),
        ("pass_hat_k", "unit_of_n"),
        ("pass_hat_k", "target"),
    ],
)
def test_a_keyword_that_a_statistic_lacks_is_an_error(name: str, keyword: str) -> None:
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'"):
        STATISTIC[name](**{keyword: "these cases"})


def test_each_statistic_keeps_its_own_unit_of_n() -> None:
    found = [
        stats.ratio([1, 0], [2, 1]),
        stats.rank_correlation([1, 2, 3, 4], [2, 1, 4, 3]),
        stats.proportion([1, 0], unit_of_n="tasks"),
    ]
    units = [one.unit_of_n for one in found if isinstance(one, Estimate)]
    assert units == ["errors", "steps", "tasks"]
