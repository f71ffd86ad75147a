from __future__ import annotations

from pathlib import Path

import pytest

from bars.judges.batch_kills import rounds
from tests.judges.batched import PROTOCOLS, Protocol

# Every commit is killed after under `make bars BAR=batch_kills`.
STRIDE = 13


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_kill_after_a_commit_buys_nothing_twice_and_loses_nothing(
    tmp_path: Path, protocol: Protocol
) -> None:
    found = rounds(tmp_path, protocol, stride=STRIDE)
    assert len(found) > 2
    assert {held.judgements for held in found} == {3}
    assert {held.unknown for held in found} == {0}
    assert {held.most_paid for held in found} == {1}
    assert {held.least_paid for held in found} == {1}
