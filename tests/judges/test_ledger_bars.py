"""The bars of the ledger, small: a few kills, stops, shared budgets and full disks.

In processes of their own: they fork, which a process with threads may not.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def printed(code: str) -> list[str]:
    """Return what a small bar prints, line by line."""
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.stderr == ""
    return ran.stdout.splitlines()


@pytest.mark.slow
def test_kills_at_any_moment_lose_nothing_and_pay_nothing_unseen() -> None:
    assert printed(
        "from bars.judges import judge_kills\n"
        "counts = judge_kills.measured(4, runs=6)\n"
        "print(counts.broken, counts.kills, counts.paid_again <= counts.listed)\n"
    ) == ["[] 4 True"]


@pytest.mark.slow
def test_stops_at_any_moment_lose_nothing_and_go_on() -> None:
    # How soon they end is for the bar to say: a busy machine may be late.
    assert printed(
        "from bars.judges import judge_stops\n"
        "counts = judge_stops.measured(3, runs=6, grace_seconds=60.0, spare_seconds=60.0)\n"
        "print(counts.broken, counts.stops, counts.codes[130] >= 1)\n"
    ) == ["[] 3 True"]


@pytest.mark.slow
def test_processes_with_one_budget_never_spend_more_together() -> None:
    assert printed(
        "from bars.judges import judge_budget\n"
        "print([why for _, why in judge_budget.measured(2, runs=6)])\n"
    ) == ["['', '', '']"]


@pytest.mark.slow
def test_a_full_disk_damages_nothing_and_work_goes_on() -> None:
    assert printed(
        "from bars.judges import judge_full_disk\n"
        "swept, small = judge_full_disk.measured(runs=6, limits=(1, 96, 200), rooms=(64,))\n"
        "print(swept.broken, swept.codes[5] >= 2, small is None or small.broken)\n"
    ) in (["[] True True"], ["[] True []"])
