from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tomllib
from pathlib import Path

import pytest

from tests.docs.blocks import LANGUAGES, Block, agrees, blocks, commands, shell
from tests.docs.prepared import Prepared, shared

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    base = tmp_path_factory.getbasetemp()
    # Each worker of pytest-xdist has a folder in the one of the session.
    return Prepared((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "prepared")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_does_what_the_page_says(
    page: str, tmp_path: Path, prepared: Prepared
) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    _execute_all(ROOT / page, page, tmp_path, prepared)


def _execute_all(page: Path, name: str, folder: Path, prepared: Prepared) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page, name):
        _execute(block, folder, names, prepared)


def _bash(block: Block, folder: Path, prepared: Prepared) -> None:
    lines = block.text.splitlines(keepends=True)
    while lines and (command := shared(lines[0].rstrip())):
        ran = prepared.shell(command, folder)
        assert ran.returncode == 0, f"{block.where}: exit code {ran.returncode}\n{ran.stdout}"
        del lines[0]
    if lines:
        ran = shell(f"set -euo pipefail\n{''.join(lines)}", folder)
        assert ran.returncode == 0, f"{block.where}: exit code {ran.returncode}\n{ran.stdout}"


def _execute(block: Block, folder: Path, names: dict[str, object], prepared: Prepared) -> None:
    assert block.language in LANGUAGES, f"{block.where}: no block may be in {block.language!r}"
    if block.title is not None:
        (folder / block.title).write_text(block.text, encoding="utf-8")
    match block.language:
        case "bash":
            _bash(block, folder, prepared)
        case "console":
            for command in commands(block):
                run = shell if shared(command.text) is None else prepared.shell
                ran = run(command.text, folder)
                assert agrees(command.printed, ran.stdout), f"{block.where}\n{ran.stdout}"
        case "python":
            code = compile(block.text, block.where, "exec")
            if block.title is None:
                with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
                    exec(code, names)
        case "json":
            json.loads(block.text)
        case "toml":
            tomllib.loads(block.text)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        (("a", "b"), "a\nb\n", True),
        (("a", "b"), "a\nb \n", True),
        (("a", "b"), "a\nc\n", False),
        (("a",), "a\nb\n", False),
        (("a", "...", "z"), "a\nz\n", True),
        (("a", "...", "z"), "a\nb\ny\n", False),
        (("a.c",), "abc\n", False),
        ((), "", True),
        ((), "a\n", False),
    ],
)
def test_a_console_block_must_show_what_the_command_prints(
    expected: tuple[str, ...], printed: str, same: bool
) -> None:
    assert agrees(expected, printed) is same


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("```bash\nfalse\n```\n", "exit code 1"),
        ("```bash\nfalse | true\n```\n", "exit code 1"),
        ("```console\n$ echo a\nb\n```\n", "a"),
        ("```python\nassert 1 == 2, 'no'\n```\n", "no"),
        ("```json\n{1}\n```\n", "line 1"),
        ("```toml\na = \n```\n", "line 1"),
        ("```\nno language\n```\n", "no block may be in ''"),
        ("```sh\ntrue\n```\n", "no block may be in 'sh'"),
        ("```text\nnever closed\n", "never closed"),
    ],
)
def test_a_page_that_is_wrong_fails(
    text: str, failure: str, tmp_path: Path, prepared: Prepared
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    with pytest.raises((AssertionError, ValueError), match=failure):
        _execute_all(page, "page.md", tmp_path, prepared)


def test_python_blocks_of_a_page_share_their_names(tmp_path: Path, prepared: Prepared) -> None:
    page = tmp_path / "page.md"
    text = "```python\na = 1\n```\n\n    ```python\n    assert a == 2\n    ```\n"
    page.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError):
        _execute_all(page, "page.md", tmp_path, prepared)
    page.write_text(text.replace("== 2", "== 1"), encoding="utf-8")
    _execute_all(page, "page.md", tmp_path, prepared)
