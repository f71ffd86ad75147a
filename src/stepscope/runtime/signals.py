"""The signals that stop a command: Ctrl-C, SIGTERM, and a terminal that hangs up.

They mean the same: stop, keep what was done, say so. What `nohup` lets a command ignore stays
ignored.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

StopHandler = Callable[[int, FrameType | None], object]


def _heard() -> list[signal.Signals]:
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [one for one in _STOPS if not (ignored and one is signal.SIGHUP)]


def interrupt_on_stops() -> None:
    """Make every stop a KeyboardInterrupt in the main thread, as Ctrl-C is."""
    for number in _heard():
        signal.signal(number, signal.default_int_handler)


@contextmanager
def handle_stops(handler: StopHandler) -> Iterator[None]:
    """Call `handler` on every stop; afterwards they are what they were. For the main thread."""
    before = {number: signal.signal(number, handler) for number in _heard()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
