"""Standard streams that the caller closed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RUNS

CLOSED = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]
COMMANDS = [
    "report --store good.db",
    "import more.json --store new.db",
    "score --store good.db --workers 1",
    "show airline/11/2 --store good.db --json",
    "--help",
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("closed", CLOSED)
def test_a_closed_stream_changes_neither_code_nor_files(
    workspace: Path, command: str, closed: str
) -> None:
    shutil.copy(RUNS, workspace / "more.json")
    line = f"{Path(sys.executable).with_name('stepscope')} {command} {closed}"
    done = subprocess.run(["sh", "-c", line], cwd=workspace, capture_output=True, check=False)
    assert (done.returncode, b"bug" in done.stderr) == (0, False)
    for store in workspace.glob("*.db"):
        if store.name in {"good.db", "new.db"}:
            assert store.read_bytes().startswith(b"SQLite format 3")
