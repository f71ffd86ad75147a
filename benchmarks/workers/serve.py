"""The timed loop: one round a line on stdin, one line of JSON on stdout. Standard library only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

Round = Callable[[], dict[str, int]]


def serve(rounds: dict[str, Round]) -> None:
    """Answer each named round with its seconds and what it counted, until stdin ends.

    Counts (runs read, runs matched) travel with the time, so that a competitor which silently did
    less work is seen.
    """
    answers = sys.stdout
    sys.stdout = sys.stderr  # a tool that prints must not break the protocol
    for line in sys.stdin:
        work = rounds[line.strip()]
        wall, cpu = time.perf_counter(), time.process_time()
        counts = work()
        seconds = time.perf_counter() - wall
        answer = {"seconds": seconds, "cpu": time.process_time() - cpu, **counts}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
