from __future__ import annotations

import subprocess
import sys

import pytest

from stepscope.cli.main import app, main

# What `--help` lists, in its groups.
LISTED = {
    "Start": "demo init doctor",
    "Read": "import score list show report diff compare view mcp export purge",
    "Judge": "judge agree label calibrate rubric",
    "Gate": "gate baseline case",
    "Experts": "lab shape",
}
COMMANDS = " ".join(LISTED.values()).split()
GROUPS = ("baseline", "case", "calibrate", "lab", "rubric")
# What makes a start slow, and what --help has no use for.
HEAVY = ("numpy", "scipy", "msgspec", "rich", "pyarrow", "sqlite3", "stepscope.model")


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments, "--help"]) == 0
    return capsys.readouterr().out


def test_help_names_every_command_once_in_its_group(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    found: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        if not line.startswith(" "):
            title = line.rstrip(":")
        elif title in LISTED and line.startswith("  ") and line != f"  {line.strip()}":
            raise AssertionError(line)  # a line that goes on
        elif title in LISTED and not line.startswith("  Start with"):
            found[title] = f"{found.get(title, '')} {line.split()[0]}".strip()
    assert found == LISTED
    assert "..." not in text.partition("Start:")[2]


def test_every_command_has_a_group_and_only_one() -> None:
    registered = {one.name for one in app.registered_commands}
    registered |= {one.name for one in app.registered_groups}
    assert registered == set(COMMANDS)
    assert len(COMMANDS) == len(set(COMMANDS))


@pytest.mark.parametrize(
    "command",
    [*(name for name in COMMANDS if name not in GROUPS), "baseline update", "calibrate sigma"],
)
def test_every_command_has_an_example_and_json(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    text = help_of(capsys, *command.split())
    assert f"Example: stepscope {command}" in " ".join(text.split())
    assert "--json" in text
    assert "--offline" in text
    assert "--store" in text


def test_the_laboratory_needs_no_store(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "lab", "envelope")
    assert "Example: stepscope lab envelope" in " ".join(text.split())
    assert "--json" in text
    assert "--offline" in text


@pytest.mark.parametrize(
    "command",
    ["score", "judge", "list", "report", "compare", "agree", "gate", "export", "purge"],
)
def test_commands_that_read_runs_take_where(
    capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert "--where" in help_of(capsys, command)


def test_no_command_prints_help_and_version_prints_the_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    assert "\nStart:\n" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == "stepscope 0.1.0\n"


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from stepscope.cli.main import main; main(['--help']);"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reprot"], "No such command 'reprot'"),
        (["report", "--wher", "x"], "No such option: --wher"),
        (["show"], "Missing argument 'RUN'"),
        (["report", "--seed", "x"], "Invalid value for '--seed'"),
        (["report", "--seed", "-1"], "Invalid value for '--seed'"),
        (["export", "out", "--format", "csv"], "'csv' is not one of 'ours', 'atif'"),
        (["show", "a", "--steps", "5"], "--steps '5': expected A:B, as --steps 0:12"),
        (["show", "a", "--steps", "1:2", "--step", "1"], "leave one out"),
        (["report", "--json", "--markdown"], "choose one"),
        (["import", "x", "--tag", "nothing"], "--tag 'nothing': expected KEY=VALUE"),
        (["purge"], "purge needs --older-than or --where"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.startswith("error: ")
    assert shown.err.count("\n") == 1
