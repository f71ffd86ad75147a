"""The plugin of the how-to: short, and found by content once its package is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.blocks import blocks

PAGE = Path(__file__).resolve().parents[2] / "docs" / "howto" / "format-plugin.md"
# The page says thirty; what a plugin may need is forty, blank lines not counted.
MOST_LINES = 40
_STEPSCOPE = "import sys; from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


def files() -> dict[str, str]:
    return {b.title: b.text for b in blocks(PAGE, PAGE.name) if b.title is not None}


def test_the_plugin_of_the_page_is_short() -> None:
    lines = files()["acme.py"].splitlines()
    assert len([line for line in lines if line.strip()]) <= MOST_LINES
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
def test_the_plugin_of_the_page_is_found_by_content_once_it_is_installed(tmp_path: Path) -> None:
    package, site = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    for name in ("acme.py", "pyproject.toml"):
        (package / name).write_text(files()[name], encoding="utf-8")
    (tmp_path / "runs.log").write_text(files()["runs.log"], encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    pip += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    subprocess.run([*pip, str(package)], check=True, timeout=300)
    for command, wanted in (
        ("import runs.log --store s.db", "acme, 1 run, 3 steps, 2 calls"),
        ("show r-1 --store s.db", "get_order"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", _STEPSCOPE, *command.split()],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": f"{site}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
        assert wanted in done.stdout + done.stderr
