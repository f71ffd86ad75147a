"""A stop: one line, exit code 130, and no word from the processes that did the work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepscope.runtime import processes
from stepscope.score.measures import begin_scoring

STEPSCOPE = str(Path(sys.executable).with_name("stepscope"))


def stopped_import(tmp_path: Path, number: signal.Signals, *before: str) -> tuple[int, bytes]:
    """Exit code and standard error of an import that gets a signal, and then its input's end."""
    store = tmp_path / "runs.db"
    command = [*before, STEPSCOPE, "import", "-", "--store", str(store)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as reading:
        while not store.exists() and reading.poll() is None:
            time.sleep(0.01)  # it opens the store, then waits for its input
        reading.send_signal(number)
        _, told = reading.communicate()
    return reading.returncode, told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_stop_is_code_130_and_one_line(tmp_path: Path, number: signal.Signals) -> None:
    told = b"error: stopped; finished work is kept\n"
    assert stopped_import(tmp_path, number) == (130, told)


def test_what_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    code, told = stopped_import(tmp_path, signal.SIGHUP, "nohup")
    assert (code, b"stopped" in told) == (2, False)


def test_a_terminal_that_hung_up_is_no_bug(tmp_path: Path) -> None:
    terminal, its = os.openpty()
    command = [STEPSCOPE, "import", "-", "--store", str(tmp_path / "runs.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=its, stderr=its) as reading:
        os.close(its)
        while not (tmp_path / "runs.db").exists() and reading.poll() is None:
            time.sleep(0.01)
        os.close(terminal)
        reading.send_signal(signal.SIGHUP)
        reading.communicate()
    assert reading.returncode == 130


def test_a_working_process_is_out_of_reach_of_ctrl_c() -> None:
    child = processes.start_child(begin_scoring, b"")
    try:
        assert os.getpgid(child.pid) == child.pid != os.getpgrp()
    finally:
        processes.close_child(child)
