"""A real llama.cpp server over a tiny random model, started for a test and ended with it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.backends.environments import variables
from tests.llama.environment import WORKERS

# Seconds to load half a megabyte; the first import of the server reads a hundred.
_START = 120.0


def model(python: Path, folder: Path) -> Path:
    """Return the model's file in `folder`, made on first use."""
    path = folder / "tiny.gguf"
    if not path.is_file():
        made = [str(python), str(WORKERS / "make_model.py"), str(path)]
        subprocess.run(made, env=variables(), check=True, capture_output=True, timeout=_START)
    return path


@contextmanager
def serving(python: Path, folder: Path, *, slots: int = 2) -> Iterator[str]:
    """Serve the tiny model; yield the address that an SDK takes as `base_url`."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = int(held.getsockname()[1])
    path = model(python, folder)
    log = folder / "server.log"
    command = [str(python), str(WORKERS / "serve.py"), str(path), str(port), str(slots)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            env=variables(),
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    base = f"http://127.0.0.1:{port}"
    try:
        _wait(process, base, log)
        yield f"{base}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _wait(process: subprocess.Popen[bytes], base: str, log: Path) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{base}/health", timeout=5) as reply:
                if reply.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"no llama.cpp server came up: {said}")
