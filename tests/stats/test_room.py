"""The room itself: what it exports, what it imports, and its bars at small size."""

from __future__ import annotations

import inspect
import subprocess
import sys

import numpy as np
import pytest

from bars.stats import coverage, false_alarms
from stepscope import stats


def test_every_public_name_is_there_and_says_its_source() -> None:
    for name, thing in vars(stats).items():
        if name.startswith("_") or name == "annotations" or inspect.ismodule(thing):
            continue
        assert thing.__doc__
        if inspect.isfunction(thing):
            known = ("codes", "count_losses", "trials_per_task", "joint_table")
            assert "Source:" in thing.__doc__ or name in known, name
            assert ">>>" in thing.__doc__, name


def test_importing_the_room_does_not_import_scipy() -> None:
    code = "import sys, stepscope.stats; print([m for m in sys.modules if m.startswith('scipy')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_no_estimate_imports_the_slow_half_of_scipy() -> None:
    code = (
        "import sys, numpy as np; from stepscope import stats; x = [0.0, 1, 0, 1, 1, 0, 1, 2];"
        "stats.mean(x), stats.rate([0] * 9), stats.quantile(x, 0.5), stats.upper_limit(0, 9);"
        "stats.compare_paired(x, x, x, x, rng=np.random.default_rng(0), unit='usd');"
        "print('scipy.stats' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize("grid", coverage.GRIDS, ids=lambda grid: grid.__name__)
def test_intervals_hold_the_truth_at_small_size(grid: coverage.Grid) -> None:
    found = list(grid(np.random.default_rng(0), 60))
    for method in {cell.method for cell in found if not cell.method.startswith(coverage.FREE)}:
        shares = [cell.share for cell in found if cell.method == method]
        assert sum(shares) / len(shares) >= 0.92, method
        assert min(shares) >= 0.70, method


@pytest.mark.parametrize("grid", false_alarms.GRIDS, ids=lambda grid: grid.__name__)
def test_false_alarms_are_rare_at_small_size(grid: false_alarms.Grid) -> None:
    found = list(grid(np.random.default_rng(0), 40))
    assert sum(cell.share for cell in found) / len(found) <= 0.09
