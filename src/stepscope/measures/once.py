"""What several measures find out about a run in the same way, found out once.

Kept on the run itself, as `Trajectory.exchanges` is, and gone with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from stepscope.model import Facts, Trajectory

T = TypeVar("T")


def once(trajectory: Trajectory, name: str, make: Callable[[Trajectory], T]) -> T:
    """Return what `make` says of a run; `name` is its own among all who ask."""
    kept: T | None = trajectory.__dict__.get(name)
    if kept is None:
        kept = trajectory.__dict__[name] = make(trajectory)
    return kept


def once_with(
    trajectory: Trajectory,
    facts: Facts | None,
    name: str,
    make: Callable[[Trajectory, Facts | None], T],
) -> T:
    """Return what `make` says of a run and facts; other facts are asked about anew."""
    kept: tuple[Facts | None, T] | None = trajectory.__dict__.get(name)
    if kept is None or kept[0] is not facts:
        kept = trajectory.__dict__[name] = (facts, make(trajectory, facts))
    return kept[1]
