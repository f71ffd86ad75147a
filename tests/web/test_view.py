"""`stepscope view` starts, says where, and ends as one expects; a wrong start is one line."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from stepscope.cli.main import main
from tests.cli.conftest import alter


@contextmanager
def viewing(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    program = "import sys; from stepscope.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "view", "--no-open", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_says_where_shows_the_store_and_ends_while_a_page_listens(
    made: Path, stop: signal.Signals
) -> None:
    with viewing("--json", "--store", str(made)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(4)]
        found = json.loads("".join(lines))
        assert found["store"] == str(made)
        assert found["url"].startswith("http://127.0.0.1:")
        with httpx2.Client(timeout=60) as browser:
            assert browser.get(found["url"]).status_code == 303
            origin = found["url"].partition("/?")[0]
            assert len(browser.get(f"{origin}/api/runs.json").json()) == 20
            with browser.stream("GET", f"{origin}/api/events") as listening:
                assert next(listening.iter_lines()) == "event: store"
                process.send_signal(stop)
                code = process.wait(timeout=60)
        assert code == 0
        assert process.stderr is not None
        assert process.stderr.read().strip() == ""


def test_without_a_port_a_second_view_takes_another(made: Path) -> None:
    with viewing("--store", str(made)) as one, viewing("--store", str(made)) as two:
        assert one.stdout is not None
        assert two.stdout is not None
        addresses = {(p.readline(), p.readline())[1] for p in (one.stdout, two.stdout)}
    assert len({address.partition("/?")[0] for address in addresses}) == 2


def test_the_users_own_secret_is_not_printed(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "a secret of the user's own, of 32+ characters"
    monkeypatch.setenv("STEPSCOPE_VIEW_TOKEN", secret)
    with viewing("--store", str(made), "--host", "localhost") as process:
        assert process.stdout is not None
        said = process.stdout.readline() + process.stdout.readline()
        assert "token=..." in said
        assert "secret" not in said
        origin = said.split()[-1].partition("/?")[0]
        answer = httpx2.get(f"{origin}/", params={"token": secret, "where": "outcome = 'fail'"})
        assert answer.status_code == 303


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        yield held.getsockname()[1]


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = main(["view", "--no-open", *arguments])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return code, captured.err


def test_a_port_in_use_is_told_in_a_line(
    made: Path, taken: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "--store", str(made), "--port", str(taken))
    assert found == (
        2,
        f"error: port {taken} is in use; choose another with --port, or leave it out\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "nowhere.db"], "no store at 'nowhere.db'"),
        (["--store", "newer.db"], "of version 9999"),
        (["--store", "text.db"], "not a stepscope store"),
        (["--store", "runs.db", "--host", "10.0.0.5"], "is not loopback"),
        (["--store", "runs.db", "--host", "0.0.0.0"], "every address at once"),
        (["--store", "runs.db", "--host", "example.org"], "expected an address"),
        (["--store", "runs.db", "--port", "0"], "--port"),
        (["--store", "runs.db", "--port", "70000"], "--port"),
        (["--store", "runs.db", "--where", "agnt = 1"], "agnt"),
        (["--store", "runs.db", "--since", "soon"], "is not a time"),
        (["--store", "runs.db", "--by", "nothing"], "is not a field"),
    ],
)
def test_a_wrong_start_is_told_in_a_line(
    store: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    folder = store.parent
    monkeypatch.chdir(folder)
    newer = folder / "newer.db"
    newer.write_bytes(store.read_bytes())
    alter(newer, "PRAGMA user_version = 9999")
    (folder / "text.db").write_text("not a store, but long enough to be one " * 50, "utf-8")
    code, err = said(capsys, *arguments)
    assert code == 2
    assert message in err


def test_a_short_secret_is_no_secret(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STEPSCOPE_VIEW_TOKEN", "hunter2")
    code, err = said(capsys, "--store", str(made), "--host", "192.0.2.1")
    assert (code, "32 or more characters" in err) == (2, True)
    monkeypatch.setenv("STEPSCOPE_VIEW_TOKEN", "x" * 32)
    code, err = said(capsys, "--store", str(made), "--host", "192.0.2.1")
    assert (code, "no address of this machine" in err) == (2, True)
