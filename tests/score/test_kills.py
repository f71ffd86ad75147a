from __future__ import annotations

import pytest

from bars.store import kills
from stepscope.score import measures
from stepscope.store import store


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what the bar sets."""
    monkeypatch.setattr(measures, "CHUNK_RUNS", measures.CHUNK_RUNS)
    monkeypatch.setattr(store, "BATCH_RUNS", store.BATCH_RUNS)


@pytest.mark.usefixtures("small_batches")
def test_a_kill_at_any_moment_resumes_to_the_same_report() -> None:
    fell, different = kills.rounds(kills.files(()), 5)
    assert different == []
    assert sum(fell.values()) == 5
