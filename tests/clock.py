"""A clock for tests of waiting: still while anything can run, then it steps to what is due."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.seconds += timeout
            timeout = 0
        return super().select(timeout)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._stepped = _Selector()
        super().__init__(self._stepped)

    def time(self) -> float:
        return self._stepped.seconds


def run_stepped(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a loop whose clock begins at 0 s; only for what waits for no other thread.

    Hours pass in no time, and a busy machine is never late.
    """
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(main)
