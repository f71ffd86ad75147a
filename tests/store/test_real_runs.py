from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.formats.reading import read_files
from stepscope.model import Trajectory
from stepscope.store import PutCounts, Store

EXAMPLES = Path(__file__).parents[2] / "examples"
REAL = ("taubench/airline/runs.json", "agentrx-retail/runs.json", "whowhen", "formats/atif")


def read(*paths: Path) -> list[Trajectory]:
    found = read_files([str(path) for path in paths])
    return [item for reading in found for item in reading if isinstance(item, Trajectory)]


def held(runs: list[Trajectory], path: Path) -> None:
    """Every run comes back as it was."""
    with Store.open(path) as store:
        assert store.put(runs).new == len(runs)
        for run in runs:
            assert store.with_media(store.trajectory(run.id)) == run
        assert store.put(runs) == PutCounts(new=0, known=len(runs), superseded=0)


def test_the_bundled_runs_are_held_as_they_are(tmp_path: Path) -> None:
    runs = read(EXAMPLES / "airline", EXAMPLES / "atif", EXAMPLES / "claude_code")
    assert len(runs) == 22
    held(runs, tmp_path / "s.db")


@pytest.mark.shared_data
def test_the_real_runs_are_held_as_they_are(shared: Path, tmp_path: Path) -> None:
    runs = read(*(shared / name for name in REAL))
    assert len(runs) > 390
    held(runs, tmp_path / "s.db")
