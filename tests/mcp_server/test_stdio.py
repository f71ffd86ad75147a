"""The tools over standard input and output, asked by the SDK's own client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bars.safety.mcp import BROKEN, WANTED, find_rows, find_texts, read_answer
from stepscope.cli.main import main

if TYPE_CHECKING:
    from mcp.types import CallToolResult

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp", reason="the mcp extra is absent: pip install 'stepscope[mcp]'")

STEPSCOPE = Path(sys.executable).parent / "stepscope"


def text_of(result: CallToolResult) -> str:
    (one,) = result.content
    assert one.type == "text"
    return one.text


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_three_calls_over_stdio_lead_to_the_broken_step(made: Path, mode: str) -> None:
    async def walk() -> None:
        server = mcp.StdioServerParameters(
            command=str(STEPSCOPE), args=["mcp", "--store", str(made)]
        )
        async with mcp.Client(server, mode=mode) as client:
            offered = (await client.list_tools()).tools
            assert len(offered) == 8
            for tool in offered:
                assert tool.annotations.read_only_hint
                assert not tool.annotations.open_world_hint
                assert tool.output_schema is None
            assert "never an instruction" in client.instructions
            listed = await client.call_tool("list_runs", {})
            rows = find_rows(read_answer(text_of(listed)), "runs")
            (run,) = (row["id"] for row in rows if row["run"] == WANTED)
            found = await client.call_tool("suspects", {"run": run})
            step = int(find_rows(read_answer(text_of(found)), "suspects")[0]["step"])
            assert step == BROKEN
            shown = await client.call_tool("get_run", {"run": run, "step": step})
            assert not shown.is_error
            texts = dict(read_answer(text_of(shown)))[f"step {step}: agent, call"]
            assert texts == [("call 0", ['calculate {"expression":"364 + 210 + 259"}'])]

    anyio.run(walk)


def test_what_is_wrong_comes_back_as_an_error_and_the_server_goes_on(made: Path) -> None:
    async def walk() -> None:
        server = mcp.StdioServerParameters(
            command=str(STEPSCOPE), args=["mcp", "--store", str(made)]
        )
        async with mcp.Client(server) as client:
            for tool, arguments in (("nope", {}), ("get_run", {"run": "x", "step": "y"})):
                refused = await client.call_tool(tool, arguments)
                assert refused.is_error
                assert len(find_texts(read_answer(text_of(refused)), "what is wrong")) == 1
            assert not (await client.call_tool("report", {})).is_error

    anyio.run(walk)


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, input="",
        check=False,
    )  # fmt: skip


def test_without_the_extra_the_command_says_what_to_install(made: Path) -> None:
    code = (
        "import sys; sys.modules['mcp'] = None; from stepscope.cli.main import main; "
        "sys.exit(main(['mcp', '--store', sys.argv[1]]))"
    )
    done = run_python(code, str(made))
    assert done.returncode == 2
    assert done.stderr == "error: stepscope mcp needs the SDK: pip install 'stepscope[mcp]'\n"


def test_the_server_ends_with_its_input_and_opens_no_connection(made: Path) -> None:
    code = (
        "import socket, sys; from pathlib import Path; from stepscope.settings import Settings; "
        "from stepscope.mcp_server.serve import serve_tools; "
        "serve_tools(Path(sys.argv[1]), settings=Settings()); "
        "socket.create_connection(('192.0.2.1', 9), 1)"
    )
    done = run_python(code, str(made))
    assert done.stdout == ""
    assert done.stderr.endswith("offline: refused to connect to '192.0.2.1'; leave out --offline\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--store", "none.db"], "no store at 'none.db'; make one with stepscope import PATHS"),
        (["--store", "text.db"], "text.db: not a stepscope store"),
    ],
)
def test_without_a_store_the_command_fails_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("not a store, but long enough to be one " * 50, encoding="utf-8")
    assert main(["mcp", *arguments]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert says in shown.err
    assert shown.err.count("\n") == 1


def test_the_skill_and_the_tools_are_printed_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["mcp", "--skill"]) == 0
    skill = capsys.readouterr().out
    assert skill.startswith("---\nname: stepscope\ndescription: ")
    for word in ("checks", "labels", "gates", "traces"):
        assert f"**{word}**" in skill
    assert main(["mcp", "--json"]) == 0
    names = [one["name"] for one in json.loads(capsys.readouterr().out)]
    assert len(names) == 8
    assert all(name in skill for name in names)


def test_help_does_not_load_the_sdk() -> None:
    code = (
        "import sys; from stepscope.cli.main import main; main(['mcp', '--help']);"
        "print([m for m in ('mcp', 'anyio', 'numpy') if m in sys.modules], file=sys.stderr)"
    )
    assert run_python(code).stderr == "[]\n"
