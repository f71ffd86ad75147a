"""What an installed package gives in an empty folder: all that README and tutorials do."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.docs.blocks import agrees, blocks, commands

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the commands of an environment that has the wheel, not the checkout."""
    place = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip"]
    made = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-qw", str(place)]
    subprocess.run([*pip, *made, str(ROOT)], check=True)
    venv.create(place / "env", symlinks=True)
    bin_ = place / "env" / "bin"
    packages = next((place / "env").glob("lib/python*/site-packages"))
    # Its dependencies are those of this environment; the checkout, which is there by a .pth file of
    # its own, is not: such files count in the folder of an environment alone.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    (found,) = place.glob("*.whl")
    into = ["--python", str(bin_ / "python"), "install", "--no-deps", "--no-index", "-q"]
    subprocess.run([*pip, *into, str(found)], check=True)
    return bin_


def run(command: str, bin_: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "STEPSCOPE"))}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=kept | {"PATH": f"{bin_}{os.pathsep}{kept['PATH']}", "HOME": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


@pytest.fixture
def folder(installed: Path, tmp_path: Path) -> Path:
    """An empty folder with the examples that the installed package brings."""
    done = run("stepscope demo --copy-examples", installed, tmp_path)
    assert (done.returncode, done.stdout) == (0, "wrote examples/\n")
    return tmp_path


@pytest.mark.slow
def test_the_command_is_that_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    done = run('python -c "import stepscope; print(stepscope.__file__)"', installed, tmp_path)
    assert done.stdout.startswith(str(installed.parent))


@pytest.mark.slow
def test_the_demo_runs_and_writes_into_this_folder_alone(installed: Path, tmp_path: Path) -> None:
    done = run("stepscope demo", installed, tmp_path)
    assert done.returncode == 0, done.stdout
    assert "outcome: pass" in done.stdout
    assert "clone" not in done.stdout
    assert {path.name for path in tmp_path.iterdir()} == {".stepscope"}


@pytest.mark.slow
def test_what_the_readme_does_works(installed: Path, folder: Path) -> None:
    found = [block for block in blocks(ROOT / "README.md", "README.md") if block.language == "bash"]
    assert found
    for block in found:
        done = run(f"set -euo pipefail\n{block.text}", installed, folder)
        assert done.returncode == 0, (block.where, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("page", ["first-report", "gate"])
def test_a_tutorial_prints_what_it_shows(page: str, installed: Path, folder: Path) -> None:
    for block in blocks(ROOT / "docs" / "tutorial" / f"{page}.md", page):
        if block.language != "console":
            continue
        for command in commands(block):
            done = run(command.text, installed, folder)
            assert agrees(command.printed, done.stdout), (block.where, command.text, done.stdout)
