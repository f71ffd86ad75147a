"""Read and write the Agent Trajectory Interchange Format (ATIF), v1.0 to v1.8.

One record is one run, with its subagents' runs inside it; they come out as children. ATIF has no
error flag, no end times and no outcome: a result's status is guessed from its text and marked so.
What was written by us carries the rest under `extra.stepscope` and comes back whole
(docs/formats/atif.md has the table). Input tokens include cached ones.
Format: Agent Trajectory Interchange Format RFC, schema "ATIF-v1.8" (harbor 0.25.0).
"""

from __future__ import annotations

from stepscope.formats.atif_read import NAME, runs_of
from stepscope.formats.atif_write import write
from stepscope.formats.opening import Opening
from stepscope.formats.plain import RecordFormat, each

__all__ = ["FORMAT", "NAME", "write"]


def _likeness(opening: Opening) -> float:
    record = opening.first("schema_version")
    if record is None:
        return 0.0
    version = record["schema_version"]
    return 1.0 if isinstance(version, str) and version.startswith("ATIF-v") else 0.0


FORMAT = RecordFormat(
    NAME, _likeness, each(lambda found, ordinals: runs_of(found, found.value, ordinals, None))
)
