"""A scored store of the bundled runs, made once a session."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stepscope
from stepscope.settings import Settings

RUNS = Path(__file__).resolve().parents[1] / "examples" / "airline"


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the bundled runs, scored; read only."""
    path = tmp_path_factory.mktemp("store") / "runs.db"
    with stepscope.open(path, settings=Settings()) as notebook:
        notebook.add(RUNS, agent="gpt-4o")
        notebook.score(workers=1)
    return path


@pytest.fixture
def store(made: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copy(made, tmp_path / "runs.db"))
