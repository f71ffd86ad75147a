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
_key = msgspec.json.Encoder(order="deterministic").encode


@dataclass(slots=True)
class Held:
    """A run that may be continued.

    Attributes:
        tolds: what its records tell, in order.
        first: its first record.
        raws: the bytes of all of its records.
        repairs: of all of its records.
    """

    tolds: list[Told]
    first: Found
    raws: list[bytes]
    repairs: list[Repair]

    @property
    def draft(self) -> Trajectory:
        """The whole run."""
        return _joined(self.tolds) if len(self.tolds) > 1 else self.tolds[0].draft


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
        if at is None:
            at = self._begin(told, record)
        else:
            held = self._held[at]
            held.tolds.append(told)
            held.raws.append(record.raw)
            held.repairs += record.repairs
        self._size += len(record.raw)
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
        if told.earlier is not None:
            reason = f"it continues response {told.earlier!r}, which is not open in this file"
            warn = Warn("earlier_response_missing", reason, 0)
            draft = told.draft
            draft = msgspec.structs.replace(draft, warnings=(*draft.warnings, warn))
            told = told._replace(draft=draft)
        self._count += 1
        self._held[self._count] = Held([told], record, [record.raw], list(record.repairs))
        return self._count

    def _let_go(self, at: int) -> Held:
        held = self._held.pop(at)
        answer = held.tolds[-1].answer
        if answer is not None and self._latest.get(answer) == at:
            del self._latest[answer]
        self._size -= sum([len(raw) for raw in held.raws])
        return held


def _joined(tolds: list[Told]) -> Trajectory:
    """Return one run of what its records tell; the last says how it ended."""
    drafts = [told.draft for told in tolds]
    first, last = drafts[0], drafts[-1]
    steps = placed(_spoken(drafts))
    start, end = bounds(steps)
    outcomes = [draft.outcome for draft in drafts if draft.outcome.status != "unknown"]
    tags = {key: value for draft in drafts for key, value in draft.tags.items()}
    return msgspec.structs.replace(
        first,
        steps=steps,
        task=next((draft.task for draft in drafts if draft.task is not None), None),
        trial=next((draft.trial for draft in drafts if draft.trial is not None), None),
        tags=tags,
        tools=_tools(drafts),
        termination=last.termination,
        outcome=outcomes[-1] if outcomes else first.outcome,
        usage=total(steps),
        start=start,
        end=end,
        extra=_extra(tolds),
    )


def _spoken(drafts: list[Trajectory]) -> list[Step]:
    """Return all steps; every request says the instructions again, and only others are a step."""
    steps: list[Step] = []
    told: Step | None = None
    for draft in drafts:
        first = draft.steps[0]
        again = told is not None and first.actor == "system" and first.parts == told.parts
        steps += draft.steps[1:] if again else draft.steps
        if first.actor == "system":
            told = first
    return steps


def _tools(drafts: list[Trajectory]) -> tuple[ToolDef, ...] | None:
    """Return every tool that was offered, once; None where no record says which."""
    listed = [draft.tools for draft in drafts if draft.tools is not None]
    found = {_key(tool): tool for tools in listed for tool in tools}
    return tuple(found.values()) if listed else None


def _extra(tolds: list[Told]) -> dict[str, Json] | None:
    """Return what the first answer says, and under `continued` what each later one does otherwise.

    A later answer's own id is told there too.
    """
    said = tolds[0].draft.extra or {}
    continued: list[Json] = []
    for told in tolds[1:]:
        more = told.draft.extra or {}
        later = {key: value for key, value in more.items() if said.get(key) != value}
        continued.append({"id": told.answer, **later} if told.answer is not None else later)
    return {**said, "continued": continued}
