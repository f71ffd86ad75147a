"""Steps that come a record each, to be joined where they are one: with the gaps between them.

A record that could not be read leaves a gap; nothing is joined over it, and the run says at which
of its steps something is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from stepscope.formats.plain import Found
from stepscope.model import Step, Warn
from stepscope.safety.door import Repair


class Pieced:
    """Collects the steps of a run; `first` is the record of its first step, None before any."""

    def __init__(self) -> None:
        self.first: Found | None = None
        self.repairs: list[Repair] = []
        self.count = 0
        self._spoken: list[list[Step]] = [[]]

    def add(self, step: Step, record: Found) -> None:
        """Take the next step."""
        self._spoken[-1].append(step)
        self.first = self.first or record
        self.repairs += record.repairs
        self.count += 1

    def lost(self) -> None:
        """Note that a record stood here that could not be read."""
        self._spoken.append([])

    def joined(self, join: Callable[[list[Step]], list[Step]]) -> tuple[list[Step], list[Warn]]:
        """Return the steps, those between two gaps joined by `join`, and a warning for each gap."""
        steps: list[Step] = []
        gaps: list[Warn] = []
        for spoken in self._spoken:
            steps += join(spoken)
            reason = "a record that stood here could not be read"
            gaps.append(Warn("record_quarantined", reason, len(steps)))
        return steps, gaps[:-1]
