"""Ctrl-C: one line, exit code 130, and no word from the processes that did the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from stepscope.runtime import processes
from stepscope.score.measures import begin_scoring

STEPSCOPE = str(Path(sys.executable).with_name("stepscope"))


def test_ctrl_c_is_code_130_and_one_line(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    command = [STEPSCOPE, "import", "-", "--store", str(store)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as reading:
        while not store.exists() and reading.poll() is None:
            time.sleep(0.01)  # it opens the store, then waits for its input
        reading.send_signal(signal.SIGINT)
        assert reading.stderr is not None
        assert reading.stderr.read() == b"error: stopped; what was done so far is kept\n"
    assert reading.returncode == 130


def test_a_working_process_is_out_of_reach_of_ctrl_c() -> None:
    child = processes.start_child(begin_scoring, b"")
    try:
        assert os.getpgid(child.pid) == child.pid != os.getpgrp()
    finally:
        processes.close_child(child)
