"""The bars of the ledger, small: a few kills, stops, shared budgets and full disks."""

from __future__ import annotations

import pytest

from bars import judge_budget, judge_full_disk, judge_kills, judge_stops


@pytest.mark.slow
def test_kills_at_any_moment_lose_nothing_and_pay_nothing_unseen() -> None:
    counts = judge_kills.measured(4, runs=6)
    assert counts.broken == []
    assert (counts.kills, counts.paid_again <= counts.listed) == (4, True)


@pytest.mark.slow
def test_stops_at_any_moment_end_in_time_and_go_on() -> None:
    counts = judge_stops.measured(3, runs=6)
    assert counts.broken == []
    assert counts.codes[130] >= 3


@pytest.mark.slow
def test_processes_with_one_budget_never_spend_more_together() -> None:
    done = judge_budget.measured(2, runs=6)
    assert [why for _, why in done] == [""] * 3


@pytest.mark.slow
def test_a_full_disk_damages_nothing_and_work_goes_on() -> None:
    swept, small = judge_full_disk.measured(runs=6, limits=(1, 96, 200), rooms=(64,))
    assert swept.broken == []
    assert swept.codes[5] >= 2
    assert small is None or small.broken == []
