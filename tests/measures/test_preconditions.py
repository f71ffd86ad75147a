"""What comes first: mined from what passing runs share, shown with its support, never a guess."""

from __future__ import annotations

import pytest

from stepscope.errors import ConfigError
from stepscope.measures.facts import (
    calls_too_early,
    describe_source,
    is_binding,
    mine_preconditions,
    refuse_contradictions,
    successful_calls,
)
from stepscope.model import Precondition
from stepscope.model.effects import infer_effect
from tests.factories import did, failed, run

LOOKED = run(*did("get_order", id="1"), *did("cancel_order", id="1"))
OTHER = run(*did("get_order", id="2"), *did("cancel_order", id="1"))
BLIND = run(*did("cancel_order", id="1"), *did("get_order", id="1"))
RULE = Precondition(tool="cancel_order", after="get_order", by="id")


def mined(*runs: object) -> list[tuple[str, str, str | None, int | None, float | None]]:
    found = mine_preconditions([successful_calls(one) for one in runs], infer_effect)  # type: ignore[arg-type]
    return [(r.tool, r.after, r.by, r.support, r.kept) for r in found]


def test_a_habit_is_shown_with_support_and_share_from_five_runs_on() -> None:
    assert mined(*[LOOKED] * 5) == [("cancel_order", "get_order", "id", 5, 1.0)]
    assert mined(*[LOOKED] * 4) == []
    assert mined(*[LOOKED] * 4, OTHER) == [("cancel_order", "get_order", "id", 5, 0.8)]
    assert mined(*[OTHER] * 4, LOOKED) == [("cancel_order", "get_order", None, 5, 1.0)]
    assert mined(*[LOOKED] * 3, BLIND, BLIND) == []


def test_only_what_succeeded_before_the_call_counts_and_only_before_writes() -> None:
    lost = run(*failed("get_order", id="1"), *did("cancel_order", id="1"))
    assert mined(*[lost] * 9) == []
    assert mined(*[run(*did("get_user"), *did("get_order"))] * 9) == []


def test_every_call_of_the_tool_must_have_come_after() -> None:
    half = run(
        *did("get_order", id="1"), *did("cancel_order", id="1"), *did("cancel_order", id="2")
    )
    assert mined(*[half] * 5) == [("cancel_order", "get_order", None, 5, 1.0)]


@pytest.mark.parametrize(
    ("support", "kept", "by", "expected"),
    [
        (None, None, None, True),
        (20, 1.0, None, True),
        (19, 1.0, None, False),
        (100, 0.97, None, False),
        (8, 1.0, "id", True),
        (7, 1.0, "id", False),
    ],
)
def test_a_habit_binds_only_above_the_stated_limits(
    support: int | None, kept: float | None, by: str | None, expected: bool
) -> None:
    rule = Precondition(tool="pay", after="get", by=by, support=support, kept=kept)
    assert is_binding(rule) is expected


def test_a_call_is_too_early_until_what_it_needs_has_answered() -> None:
    assert [x.step for x in calls_too_early(LOOKED.exchanges, RULE)] == []
    assert [x.step for x in calls_too_early(OTHER.exchanges, RULE)] == [2]
    assert [x.step for x in calls_too_early(BLIND.exchanges, RULE)] == [0]
    any_order = Precondition(tool="cancel_order", after="get_order")
    assert [x.step for x in calls_too_early(OTHER.exchanges, any_order)] == []


def test_a_rule_says_where_it_comes_from() -> None:
    assert describe_source(RULE) == "as declared"
    mined = Precondition(tool="pay", after="get", support=20, kept=0.95)
    assert describe_source(mined) == "in 19 of 20 passing runs"


def test_rules_that_no_order_keeps_are_refused() -> None:
    there = Precondition(tool="a", after="b")
    refuse_contradictions([there, RULE], "stepscope.toml")
    with pytest.raises(ConfigError, match="no order of calls keeps"):
        refuse_contradictions([there, Precondition(tool="b", after="a")], "stepscope.toml")
    with pytest.raises(ConfigError, match="'a' after 'a'"):
        refuse_contradictions([Precondition(tool="a", after="a")], "stepscope.toml")
