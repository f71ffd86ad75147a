"""A scored store of the bundled runs, and a way to ask its tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bars.safety.mcp import Blocks, read_answer
from stepscope.mcp_server.serve import ToolServer
from tests.scored import made as made
from tests.scored import store as store

Ask = Callable[..., Blocks]


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
