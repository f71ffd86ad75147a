from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bars.measures import pseudo_agents


@pytest.mark.shared_data
def test_one_agent_against_itself_shows_no_difference(shared: Path) -> None:
    runs = pseudo_agents.read(shared / "taubench" / "airline" / "runs.json")
    text, quiet = pseudo_agents.trials(runs)
    assert quiet
    assert re.search(r"significant at 0\.05 after Holm's correction over \d+ figures: none\.", text)


@pytest.mark.shared_data
def test_calls_repeated_in_the_traces_are_found_as_many_as_were_planted(shared: Path) -> None:
    row = pseudo_agents.in_traces(pseudo_agents.read(shared / "taubench" / "airline" / "runs.json"))
    assert row.holds
    assert row.planted > 0.5


@pytest.mark.shared_data
def test_planted_differences_are_covered_and_a_null_is_not_found(shared: Path) -> None:
    store = pseudo_agents.stored(pseudo_agents.read(shared / "taubench/airline/runs.json"))
    rows = pseudo_agents.dealt(store, replications=2, seed=1)
    assert rows[0].found <= 1 / 2
    assert all(row.covered >= 1 / 2 for row in rows)
    assert all(abs(row.effect - row.planted) < 0.15 for row in rows)
    assert np.isfinite([row.detectable for row in rows]).all()


def test_absent_runs_are_not_measured_and_not_a_failure(tmp_path: Path) -> None:
    assert pseudo_agents.main(tmp_path / "none.json") == 4
