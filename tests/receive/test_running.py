"""A receiver as the user runs it: from its first line to its last, through kills and full disks."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from stepscope.cli.main import main
from stepscope.store import Store
from tests.receive.sending import (
    JSON_TYPE,
    PATIENCE,
    command,
    export,
    plain,
    receiver,
    span,
)

pytestmark = pytest.mark.slow

AT_ONCE = ("--quiet", "0")


def test_a_run_is_stored_scored_and_told_while_the_receiver_listens(tmp_path: Path) -> None:
    with receiver(tmp_path, *AT_ONCE, "--agent", "shop", "--tag", "a=b") as target:
        assert (target.first["event"], target.first["traces"]) == ("listening", 0)
        assert target.send(export(span("1", "2", "1"), span("1", "1"))).json == {}
        told = target.until("run")["closed"]
        assert (told["spans"], told["account"]["steps"], told["agent"]) == (2, 2, "shop")
        assert target.until("scored")["records"] > 10
        with Store.open(target.store) as store:
            (run,) = store.trajectories()
            assert (run.id, run.agent, run.tags) == (told["run"], "shop", {"a": "b"})
        target.send(export(span("1", "3", "1")))
        late = target.until("run")["closed"]
        assert (late["late"], late["spans"]) == (1, 3)
        assert target.send(b"", path="/v1/logs").status == 404
        assert "404: POST /v1/logs" in target.until("refused")["reason"]
        target.send(export(plain("2", "1")))
        assert target.until("left")["closed"]["spans"] == 1
        code, last = target.stop()
        assert (code, last["runs"], last["left"]) == (0, 2, 1)
    with Store.open(target.store) as store:
        (run,) = store.trajectories()
        assert len(run.spans) == 3
    assert not target.store.with_name("runs.db-wal").exists()


def test_what_was_acknowledged_survives_a_kill_and_is_taken_up(tmp_path: Path) -> None:
    with receiver(tmp_path) as target:
        assert target.send(export(span("1", "1"), span("2", "2", "1"))).status == 200
        target.kill()
    with receiver(tmp_path, *AT_ONCE) as target:
        assert (target.first["traces"], target.first["spans"]) == (2, 2)
        assert target.until("run")["closed"]["name"].endswith("1")
        code, last = target.stop(signal.SIGTERM)
        assert (code, last["runs"], last["traces"], last["waiting"]) == (0, 1, 1, 1)
        assert last["journal"] == "runs.db.journal"
    with receiver(tmp_path, *AT_ONCE, "--idle", "0") as target:
        assert target.until("run")["closed"]["name"].endswith("2")


def test_a_signal_closes_runs_whose_root_has_ended_without_their_grace(tmp_path: Path) -> None:
    with receiver(tmp_path, "--quiet", "600") as target:
        target.send(export(span("1", "1"), span("2", "2", "1")))
        place = urlsplit(target.url)
        # A connection that is idle holds nothing up.
        with socket.create_connection((place.hostname or "", place.port or 0)):
            code, last = target.stop()
        assert (code, last["runs"], last["traces"]) == (0, 1, 1)


def said(folder: Path, listen: str, *options: str) -> tuple[int, str]:
    found = subprocess.run(
        command(listen, *options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return found.returncode, found.stderr


def test_one_receiver_a_store_and_one_a_port(tmp_path: Path) -> None:
    with receiver(tmp_path) as target:
        code, error = said(tmp_path, "127.0.0.1:0", "--store", "runs.db")
        assert code == 2
        assert "another stepscope import --listen works for runs.db" in error
        place = urlsplit(target.url).netloc
        code, error = said(tmp_path, place, "--store", "other.db")
        assert code == 2
        assert "is in use" in error


@pytest.mark.parametrize(
    ("listen", "options", "error"),
    [
        ("0.0.0.0:0", [], "not loopback"),
        ("127.0.0.1:0", ["127.0.0.1:1"], "takes one HOST:PORT"),
        ("127.0.0.1:0", ["--strict"], "--strict is for files"),
        ("127.0.0.1:0", ["--format", "otlp"], "--format is for files"),
        ("127.0.0.1:0", ["--store", ":memory:"], "need a store on disk"),
        ("127.0.0.1:0", ["--store", "nowhere/runs.db"], "no folder"),
        ("runs.json", [], "expected HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_code_2(
    capsys: pytest.CaptureFixture[str], listen: str, options: list[str], error: str
) -> None:
    assert main(["import", "--listen", listen, *options]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ([], "nothing to import"),
        (["runs.json", "--quiet", "1"], "--quiet is for runs that come in with --listen"),
        (["runs.json", "--idle", "0"], "--idle is for runs"),
        (["runs.json", "--keep-all"], "--keep-all is for runs"),
    ],
)
def test_without_listen_its_options_make_no_sense(
    capsys: pytest.CaptureFixture[str], options: list[str], error: str
) -> None:
    assert main(["import", *options]) == 2
    assert error in capsys.readouterr().err


def test_with_a_secret_other_interfaces_and_hosts_are_served(tmp_path: Path) -> None:
    secret = "s" * 40
    env = {"STEPSCOPE_LISTEN_TOKEN": secret}
    with receiver(tmp_path, *AT_ONCE, env=env, listen="0.0.0.0:0") as target:
        assert secret not in str(target.first)
        target.url = target.url.replace("0.0.0.0", "127.0.0.1")
        body = export(span("1", "1"))
        assert target.send(body).status == 401
        right = {"Content-Type": JSON_TYPE, "Authorization": f"Bearer {secret}", "Host": "box:4318"}
        assert target.send(body, right).status == 200
        assert target.until("run")["closed"]["spans"] == 1


# A disk of two megabytes, as the system tells a program of it.
FULL = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
from stepscope.cli.main import main
sys.exit(main(["import", "--listen", "127.0.0.1:0", "--store", "runs.db", "--json"]))
"""


def test_a_full_disk_is_told_to_senders_and_what_was_kept_stays(tmp_path: Path) -> None:
    with receiver(tmp_path, code=FULL) as target:
        kept = 0
        for number in range(1, 60):
            about = [{"key": "big", "value": {"stringValue": f"{number:05}" * 4_000}}]
            answer = target.send(export(span(f"{number:x}", "2", "1", attributes=about)))
            if answer.status != 200:
                break
            kept += 1
        assert (answer.status, answer.headers["retry-after"]) == (503, "30")
        assert "cannot be kept" in answer.json["message"]
        assert kept > 3
        assert target.until("refused")["requests"] == 1
        target.kill()
    with receiver(tmp_path) as target:
        assert target.first["spans"] == kept
        assert target.send(export(span("ff", "1"))).status == 200
