"""A scored store of the bundled runs, and a way to ask its tools."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import stepscope
from bars.safety.mcp import Blocks, read_answer
from stepscope.mcp_server.serve import ToolServer
from stepscope.settings import Settings

RUNS = Path(__file__).resolve().parents[2] / "examples" / "airline" / "runs.json"
Ask = Callable[..., Blocks]


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


def call(path: Path, tool: str, arguments: object, *gates: Path) -> tuple[str, bool]:
    """Return what a tool of a store answers, and whether that is an error."""

    async def ask() -> tuple[str, bool]:
        tools = ToolServer(path, gates=gates)
        found = await tools.call(tool, arguments)
        await tools.reader.close()
        return found

    return asyncio.run(ask())


@pytest.fixture
def ask(made: Path) -> Ask:
    """Ask a tool of the store of the bundled runs; an answer is read, an error is none."""

    def asked(tool: str, *gates: Path, **arguments: object) -> Blocks:
        text, failed = call(made, tool, arguments, *gates)
        assert not failed, text
        return read_answer(text)

    return asked
