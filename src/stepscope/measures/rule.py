"""What every deterministic measure is: a pure function with a name, a version and a scale."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stepscope.model import Answer, Case, Facts, Scale, Trajectory

Run = Callable[[Trajectory, Case | None, Facts | None], Iterable[Answer]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A measure made of one function; satisfies `stepscope.model.Measure`."""

    name: str
    version: str
    scale: Scale
    learns: tuple[str, ...]
    run: Run

    def __call__(
        self, trajectory: Trajectory, case: Case | None, facts: Facts | None
    ) -> Iterable[Answer]:
        """Answer about one run."""
        return self.run(trajectory, case, facts)
