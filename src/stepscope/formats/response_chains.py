"""Answers of one file that continue each other, by `previous_response_id`.

A few runs are held back, for the answers that may still continue them; the oldest is let go when
they are too many or too large, so that a file of any length is read in bounded memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from stepscope.formats.item_turns import placed
from stepscope.formats.plain import Found
from stepscope.formats.response_records import Told
from stepscope.formats.times import bounds
from stepscope.formats.tokens import total
from stepscope.model import Json, Step, ToolDef, Trajectory, Warn
from stepscope.safety.door import Repair
from stepscope.safety.limits import MIB

# Runs held back, and bytes of their records: what a file of answers from many conversations at
# once has open, and a fraction of the memory that reading may take.
_RUNS = 1000
_BYTES = 64 * MIB


@dataclass(slots=True)
class Held:
    """A run that may be continued.

    Attributes:
        draft: the run so far.
        first: its first record.
        raws: the bytes of all of its records.
        repairs: of all of its records.
        instructions: the step that says them last.
        answer: the id that the next record of the run would name.
    """

    draft: Trajectory
    first: Found
    raws: list[bytes]
    repairs: list[Repair]
    instructions: Step | None
    answer: str | None = None


class Chains:
    """Takes the records of a file in order and gives back the runs that are let go."""

    def __init__(self) -> None:
        self._held: dict[int, Held] = {}
        self._latest: dict[str, int] = {}
        self._count = 0
        self._size = 0

    def take(self, told: Told, record: Found) -> list[Held]:
        """Continue a run that is held, or begin one; return the runs that were let go for it."""
        at = None if told.earlier is None else self._latest.pop(told.earlier, None)
        if at is None or at not in self._held:
            at = self._begin(told, record)
        else:
            self._continue(self._held[at], told, record)
        self._size += len(record.raw)
        self._held[at].answer = told.answer
        if told.answer is not None:
            self._latest[told.answer] = at
        gone: list[Held] = []
        while len(self._held) > _RUNS or (self._size > _BYTES and len(self._held) > 1):
            gone.append(self._let_go(next(iter(self._held))))
        return gone

    def rest(self) -> list[Held]:
        """Return every run that is still held, in the order of their first records."""
        return [self._let_go(at) for at in list(self._held)]

    def _begin(self, told: Told, record: Found) -> int:
        draft = told.draft
        if told.earlier is not None:
            reason = f"it continues response {told.earlier!r}, which is not open in this file"
            warn = Warn("earlier_response_missing", reason, 0)
            draft = msgspec.structs.replace(draft, warnings=(*draft.warnings, warn))
        self._count += 1
        self._held[self._count] = Held(
            draft, record, [record.raw], list(record.repairs), _instructions(draft.steps)
        )
        return self._count

    def _continue(self, held: Held, told: Told, record: Found) -> None:
        before, after = held.draft, told.draft
        steps = list(after.steps)
        system = _instructions(after.steps)
        # Every request says the instructions again.
        if system is not None and held.instructions is not None:
            if system.parts == held.instructions.parts:
                steps = steps[1:]
        held.instructions = system or held.instructions
        joined = (*before.steps, *placed(steps, len(before.steps)))
        start, end = bounds(joined)
        held.draft = msgspec.structs.replace(
            before,
            steps=joined,
            task=before.task or after.task,
            trial=before.trial or after.trial,
            tags={**before.tags, **after.tags},
            tools=_tools(before, after),
            termination=after.termination,
            outcome=after.outcome if after.outcome.status != "unknown" else before.outcome,
            usage=total(joined),
            start=start,
            end=end,
            extra=_extra(before, after, told.answer),
        )
        held.raws.append(record.raw)
        held.repairs += record.repairs

    def _let_go(self, at: int) -> Held:
        held = self._held.pop(at)
        if held.answer is not None and self._latest.get(held.answer) == at:
            del self._latest[held.answer]
        self._size -= sum([len(raw) for raw in held.raws])
        return held


def _instructions(steps: tuple[Step, ...]) -> Step | None:
    return steps[0] if steps and steps[0].actor == "system" else None


def _tools(before: Trajectory, after: Trajectory) -> tuple[ToolDef, ...] | None:
    if before.tools is None or after.tools is None:
        return before.tools or after.tools
    return (*before.tools, *[tool for tool in after.tools if tool not in before.tools])


def _extra(before: Trajectory, after: Trajectory, answer: str | None) -> dict[str, Json]:
    """Return what the first answer says, and under `continued` what each later one does otherwise.

    A later answer's own id is told there too.
    """
    told = before.extra or {}
    later = {key: value for key, value in (after.extra or {}).items() if told.get(key) != value}
    if answer is not None:
        later = {"id": answer, **later}
    return {**told, "continued": [*told.get("continued", []), later]}
