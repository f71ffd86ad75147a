"""What a shell and a terminal get: completion of names, and colours where they are shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.cli.main import main
from stepscope.settings import Settings
from tests.cli.conftest import alter
from tests.factories import FAILED, PASSED, agent, failed, run, user

CODE = "import sys; from stepscope.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    names = ("shop/1", "shop/2", "shop 3", "shop/$(x)", "shop/\x1b[31m", "other")
    with stepscope.open(tmp_path / "stepscope.db", settings=Settings()) as notebook:
        notebook.store.put(
            run(user("buy"), *failed("pay"), agent("fail  pass"), id=f"{at}" * 32, name=name,
                task=str(at), outcome=FAILED if at else PASSED)
            for at, name in enumerate(names)
        )  # fmt: skip
        notebook.score(workers=1)
    return tmp_path


def complete(*words: str, folder: Path) -> list[str]:
    asked = {"_STEPSCOPE_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("stepscope", *words))}
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, **asked, "COMP_CWORD": str(len(words))},
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_shell_completes_commands_and_names_that_can_be_typed(here: Path) -> None:
    assert complete("sh", folder=here) == ["show", "shape"]
    # Neither what a shell would take apart nor what a terminal would obey.
    assert complete("show", "shop", folder=here) == ["shop/1", "shop/2"]
    assert complete("diff", "shop/1", "o", folder=here) == ["other"]
    assert complete("show", "none", folder=here) == []


def test_completion_without_a_store_gives_nothing_and_makes_nothing(tmp_path: Path) -> None:
    assert complete("show", "shop", folder=tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "stepscope.db").write_text("no store, but long enough for one " * 50, "utf-8")
    assert complete("show", "shop", folder=tmp_path) == []


def test_completion_leaves_a_store_of_an_earlier_version_as_it_is(here: Path) -> None:
    alter(here / "stepscope.db", "PRAGMA user_version = 3")
    before = (here / "stepscope.db").read_bytes()
    assert complete("show", "shop", folder=here) == []
    assert (here / "stepscope.db").read_bytes() == before
    assert not list(here.glob("*.bak"))


def on_terminal(*arguments: str, folder: Path, **environment: str) -> str:
    """Return what a command prints to a terminal."""
    ours, its = os.openpty()
    held = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "CI")}
    done = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        env={**held, "TERM": "xterm-256color", **environment},
        cwd=folder, stdout=its, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(its)
    printed = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # the terminal hung up: the command has ended
            break
        if not part:
            break
        printed += part
    os.close(ours)
    assert done.wait() == 0
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("arguments", [("report",), ("show", "shop/1")])
def test_colours_are_for_a_terminal_that_shows_them_and_change_no_letter(
    arguments: tuple[str, ...], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(list(arguments)) == 0
    piped = capsys.readouterr().out
    assert "\x1b" not in piped
    painted = on_terminal(*arguments, folder=here)
    assert "\x1b[1m" in painted
    wide = on_terminal(*arguments, folder=here, NO_COLOR="1")
    assert "\x1b" not in wide
    assert re.sub(r"\x1b\[[0-9]+m", "", painted) == wide


def test_an_outcome_has_its_colour_and_a_trace_gives_none_of_its_own(here: Path) -> None:
    painted = on_terminal("list", folder=here)
    assert painted.count("\x1b[31mfail\x1b[0m") == 5
    assert painted.count("\x1b[32mpass\x1b[0m") == 1
    assert set(re.findall(r"\x1b[^m]*m", painted)) == {
        "\x1b[0m", "\x1b[1m", "\x1b[31m", "\x1b[32m",
    }  # fmt: skip


def test_json_and_a_dumb_terminal_have_no_colour(here: Path) -> None:
    assert "\x1b" not in on_terminal("list", "--json", folder=here)
    assert "\x1b" not in on_terminal("list", folder=here, TERM="dumb")
