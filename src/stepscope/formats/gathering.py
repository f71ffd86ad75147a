"""Files where one record is one message: all of them together are one run.

A record that is a run of its own (a list of messages, a body) comes out at once. A message that
cannot be read is quarantined, and the run says at which step it is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.plain import Found, attempt, found, quarantine
from stepscope.model import Json, Quarantined, Step, Stream, Trajectory, Warn
from stepscope.safety.door import Repair


def gathered(
    stream: Stream,
    *,
    is_part: Callable[[Json], bool],
    step: Callable[[Found, int], Step],
    whole: Callable[[Found], Iterable[Trajectory | Quarantined]],
    run: Callable[[tuple[Step, ...], Found], Trajectory],
) -> Iterator[Trajectory | Quarantined]:
    """Yield the runs of whole records as they come, then the run that the parts make together."""
    steps: list[Step] = []
    missing: list[int] = []
    repairs: list[Repair] = []
    first: Found | None = None
    for record in found(stream):
        if isinstance(record, Quarantined):
            missing.append(len(steps))
            yield record
        elif is_part(record.value):
            try:
                steps.append(step(record, len(steps)))
            except (TraceError, msgspec.ValidationError) as e:
                missing.append(len(steps))
                yield quarantine(record, e)
                continue
            repairs += record.repairs
            first = first or record
        else:
            yield from attempt(record, whole)
    if first is not None:
        first = first._replace(repairs=tuple(repairs))
        yield from attempt(first, lambda start: (_marked(run(tuple(steps), start), missing),))


def _marked(trajectory: Trajectory, missing: list[int]) -> Trajectory:
    if not missing:
        return trajectory
    lost = [
        Warn("record_quarantined", "a record that stood here could not be read", at)
        for at in missing
    ]
    return msgspec.structs.replace(trajectory, warnings=(*trajectory.warnings, *lost))
