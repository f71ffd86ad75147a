"""The bar of the receiver, small: kept through kills, and its oracle sees a loss."""

from __future__ import annotations

from pathlib import Path

import pytest

from bars.store.receiver import LIMIT_BYTES, Outcome, kept, measured
from stepscope.store import Store

pytestmark = pytest.mark.slow


def test_what_senders_had_acknowledged_is_kept_once_through_kills(tmp_path: Path) -> None:
    found = measured(tmp_path, senders=2, rate=200.0, seconds=2.0, kills=2)
    assert found.acknowledged == 400
    assert (found.lost, found.twice, found.unscored, found.waiting, found.runs) == (0, 0, 0, 0, 8)
    assert 30_000_000 < found.peak_bytes < LIMIT_BYTES
    # The oracle sees a span that is nowhere, and a run without its verdicts.
    with (tmp_path / "ledger.0").open("a", encoding="ascii") as ledger:
        ledger.write("00 11\n")
    assert kept(tmp_path, peak_bytes=1, kills=0).lost == 1
    with Store.open(tmp_path / "runs.db") as store:
        store.purge()
    assert kept(tmp_path, peak_bytes=1, kills=0).lost == 401


@pytest.mark.parametrize(("name", "count"), [("lost", 1), ("twice", 1), ("unscored", 1)])
def test_one_fault_misses_the_bar(name: str, count: int) -> None:
    fine = Outcome(
        acknowledged=1,
        lost=0,
        twice=0,
        runs=1,
        waiting=0,
        unscored=0,
        peak_bytes=1,
        seconds=1.0,
        kills=0,
    )
    assert fine.sound
    assert not fine._replace(**{name: count}).sound
