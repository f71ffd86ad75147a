"""A Ctrl-C that comes in a finaliser, where Python ignores exceptions, still stops the command."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import os, signal, sys, time
from stepscope.cli.main import stop_again

sys.unraisablehook = stop_again

class Held:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        for _ in range(100):
            pass

signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    del_me = Held()
    del del_me
    print("ignored", flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    print("heard", flush=True)
"""


def test_a_stop_that_python_ignored_is_heard_again() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=90, check=False
    )
    assert ran.stdout.split() == ["ignored", "heard"]
    assert ran.stderr == ""
