"""What several measures find out about a run in the same way, found out once.

Kept on the run itself, as `Trajectory.exchanges` is, and gone with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stepscope.model import Trajectory

T = TypeVar("T")


def once(trajectory: Trajectory, name: str, make: Callable[[Trajectory], T]) -> T:
    """Return what `make` says of a run; `name` is its own among all who ask."""
    kept: T | None = trajectory.__dict__.get(name)
    if kept is None:
        kept = trajectory.__dict__[name] = make(trajectory)
    return kept
