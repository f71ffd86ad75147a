"""Real servers of Phoenix and MLflow, started for a test and ended with it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

from tests.backends.environments import variables

# Seconds; a server that starts for the first time compiles what it loads.
_START = 300.0


@contextmanager
def phoenix(bin: Path, folder: Path) -> Iterator[str]:
    """Serve Phoenix with a database in `folder`; yield its address."""
    port, grpc = _free_port(), _free_port()
    environment = variables(
        PHOENIX_WORKING_DIR=str(folder),
        PHOENIX_HOST="127.0.0.1",
        PHOENIX_PORT=str(port),
        PHOENIX_GRPC_PORT=str(grpc),
    )
    command = [str(bin / "phoenix"), "serve"]
    with _serving(command, environment, folder, f"http://127.0.0.1:{port}", "/healthz") as base:
        yield base


@contextmanager
def mlflow(bin: Path, folder: Path) -> Iterator[str]:
    """Serve MLflow with a database in `folder`; yield its address."""
    port = _free_port()
    environment = variables(MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false")
    command = [
        str(bin / "mlflow"),
        "server",
        "--host=127.0.0.1",
        f"--port={port}",
        "--workers=1",
        f"--backend-store-uri=sqlite:///{folder / 'mlflow.sqlite'}",
        f"--artifacts-destination={folder / 'artifacts'}",
    ]
    with _serving(command, environment, folder, f"http://127.0.0.1:{port}", "/health") as base:
        yield base


@contextmanager
def _serving(
    command: list[str], environment: dict[str, str], folder: Path, base: str, health: str
) -> Iterator[str]:
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env={**environment, "PATH": f"{Path(command[0]).parent}:{os.environ['PATH']}"},
            cwd=folder,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, base + health, log)
        yield base
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5) as reply:
                if reply.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"no server came up: {log.read_text(encoding='utf-8')[-2000:]}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])
