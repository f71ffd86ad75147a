"""Measures that somebody else might write: some of them badly. Loaded as `plugins.py:NAME`."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from stepscope.model import Case, Facts, Scale, Trajectory, Verdict
from stepscope.values import Unmeasured

Given = Callable[[Trajectory], Iterable[object]]


@dataclass(frozen=True)
class Made:
    """A measure that gives whatever it was made with; no promise that these are answers."""

    name: str
    given: Given
    version: str = "1"
    scale: Scale = field(default_factory=lambda: Scale(0.0, 10.0))
    learns: tuple[str, ...] = ()

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[object]:
        return self.given(trajectory)


def _boom(t: Trajectory) -> list[object]:
    raise ValueError("two\nlines \udcff")


def _late(t: Trajectory) -> Iterator[object]:
    yield Verdict("late", 1.0)
    raise KeyError("after the first answer")


def _deep(t: Trajectory) -> list[object]:
    return _deep(t)


def _loud(t: Trajectory) -> list[object]:
    sys.stdout.write("this must not reach the parent's frames\n")
    sys.stdout.flush()
    return [Verdict("loud", float(len(t.steps)))]


def _odd(t: Trajectory) -> list[object]:
    return [Verdict("odd", 99.0 if len(t.exchanges) % 2 else 1.0)]


def _stop(t: Trajectory) -> list[object]:
    if t.name.endswith("stop"):
        raise KeyboardInterrupt
    return [Verdict("stop", 1.0)]


def _die(t: Trajectory) -> list[object]:
    import os

    os._exit(9)


def _hang(t: Trajectory) -> list[object]:
    if t.name > "run0127":
        signal.pause()
    return [Verdict("hang", 1.0)]


HANG = Made("hang", _hang)
GOOD = Made("good", lambda t: [Verdict("good", 2, "x", None, (0,), "why \u202e")])
BOOM = Made("boom", _boom)
LATE = Made("late", _late)
DEEP = Made("deep", _deep)
LOUD = Made("loud", _loud)
ODD = Made("odd", _odd)
STOP = Made("stop", _stop)
DIE = Made("die", _die)
DOTTED = Made("outcome.ted", lambda t: [Verdict("outcome.ted", 1.0)])
NAMED = Made("a.b", lambda t: [Verdict("a.b", 1.0), Verdict("a.b.x.y", 2.0)])
NAMED_BOOM = Made("a.b", _boom, version="2")
NAN = Made("nan", lambda t: [Verdict("nan", math.nan, "label")])
RAISED = Made("good", lambda t: [Verdict("good", 3.0)], version="2")
ABSENT = Made("absent", lambda t: [Unmeasured("missing_input", "no clock")])
