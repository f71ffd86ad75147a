"""Who buys: tells a living run from a dead one, without a clock.

In one place (a boot of a machine, a namespace of processes) a process is known by its number and
its start. In another place nothing is known but its beat, a number that it raises every few
seconds: a run whose beat stands still for long enough is taken for dead. Whoever was taken for dead
wrongly, stopped for minutes, finds his rows taken and what he bought meanwhile kept once.
"""

from __future__ import annotations

import os
import platform
import secrets
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

# Ten beats: a machine that swaps is slow, not dead.
BEAT_SECONDS = 5.0
DEAD_SECONDS = 50.0
# In place of a machine's: an owner that is no process but a batch at a provider (`batching`).
BATCH = "batch"
_START = 19  # of the fields behind the name in /proc/PID/stat: the start, in ticks since boot


class Owner(NamedTuple):
    """A run that buys, as other processes see it."""

    token: str
    place: str
    pid: int
    start: str
    beat: int


def here() -> Owner:
    """Return a new owner: this process, under a random token."""
    return Owner(secrets.token_hex(16), _place(), os.getpid(), _start(os.getpid()) or "", 0)


class Watch:
    """Tells which owners live; remembers their beats."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Measure how long a beat stands still by `now`, which never goes back."""
        self._now = now
        self._seen: dict[str, tuple[int, float]] = {}

    def lives(self, owner: Owner) -> bool:
        """Tell whether a run may still be under way."""
        if owner.place == BATCH:
            return True
        if owner.place == _place():
            return _start(owner.pid) == owner.start
        now = self._now()
        beat, since = self._seen.get(owner.token, (-1, now))
        if beat != owner.beat:
            self._seen[owner.token] = (owner.beat, now)
            return True
        return now - since < DEAD_SECONDS


@cache
def _place() -> str:
    """Return what tells the process numbers that this process sees from those of others."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return platform.node()


def _start(pid: int) -> str | None:
    """Return when a process started, in its machine's own terms; None when there is none."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:
        return None if Path("/proc/self/stat").exists() else _signalled(pid)
    fields = said.rpartition(")")[2].split()
    # A process that was killed and not yet waited for buys nothing any more.
    return None if fields[0] in {"Z", "X"} else fields[_START]


def _signalled(pid: int) -> str | None:
    """Return "" where a process of that number is there, on a system without /proc."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # somebody else's, but there
    return ""
