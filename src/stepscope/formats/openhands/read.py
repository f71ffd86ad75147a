"""Read OpenHands: trajectories, events one a line, and the output of evaluations.

Events of both generations: up to 0.x (`action`, `observation`), and the agent SDK's (`kind`). A
list of events is one run, a line of an evaluation's `output.jsonl` too, with its task, attempt and,
where a report was added to it, its outcome. Times have no zone and are taken as UTC. A single event
in a file of its own, as the SDK keeps them, is no run and is not taken for one; give them in order,
one a line.
Format: All-Hands-AI/OpenHands 0.59 and openhands-sdk 1.58.0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.response_items import number_steps
from stepscope.formats.finish import Ordinals
from stepscope.formats.format import (
    DecodedRecord,
    FileFormat,
    StepCollector,
    attempt,
    decode_records,
    quarantine_record,
)
from stepscope.formats.openhands import events as openhands
from stepscope.formats.opening import Opening
from stepscope.model import Json, Outcome, Quarantined, Step, Stream, ToolDef, Trajectory

NAME = "openhands"
_OUTPUT = frozenset({"instance_id", "attempt", "history", "error"})


def _is_one(record: Json) -> bool:
    return openhands.is_openhands_event(record) or openhands.is_sdk_event(record)


def _likeness(opening: Opening) -> float:
    first = opening.first_record
    if opening.shape in {"array", "lines"} and _is_one(first):
        return 0.95
    if isinstance(first, list):
        return 0.95 if first and _is_one(first[0]) else 0.0
    events = _history(first) if isinstance(first, dict) else None
    return 0.95 if events and _is_one(events[0]) else 0.0


def _history(record: dict[str, Json]) -> list[Json] | None:
    """Return the events that a record holds, in order; older outputs hold pairs of them."""
    listed = record.get("history") if "instance_id" in record else record.get("trajectory")
    if listed is None:
        listed = record.get("events") if "instance_id" not in record else []
    if not isinstance(listed, list):
        return None
    return [one for entry in listed for one in (entry if isinstance(entry, list) else [entry])]


class _Run(StepCollector):
    def __init__(self, limits_of: DecodedRecord, metrics: Json = None) -> None:
        super().__init__()
        self.spent = openhands.RunMetrics(metrics)
        self.tools: list[ToolDef] = []
        self.agent: str | None = None
        self.version: str | None = None
        self.ending: str | None = None
        self._limits = limits_of.limits
        # Older events come in turn, each call with its answer.
        self._join: Callable[[list[Step]], list[Step]] = list
        self._log = openhands.EventLog(self._limits, self.spent)

    def take(self, event: Json, record: DecodedRecord) -> None:
        if not isinstance(event, dict):
            raise TraceError(f"event {self.count} is {str(event)[:60]!r}; expected an object")
        if openhands.is_sdk_event(event):
            step = openhands.read_sdk_step(event, self.count, self._limits)
            self._join = openhands.join_sdk_turns
            metrics = openhands.find_sdk_metrics(event)
            if isinstance(metrics, dict):
                self.spent.snapshot(metrics)
            self.tools += openhands.read_sdk_tools(event)
        else:
            step = self._log.step(event, self.count)
            about, action = fields.object_at(event, "args"), event.get("action")
            if action == "system":
                self.tools += fields.tool_defs(fields.entries_at(about, "tools")) or ()
                self.agent = fields.text_at(about, "agent_class")
                self.version = fields.text_at(about, "openhands_version")
            elif action in ("finish", "reject"):
                self.ending = str(action)
        self.add(step, record)

    def draft(self, record: DecodedRecord) -> Trajectory:
        joined, gaps = self.joined(self._join)
        for at, step in enumerate(joined):
            # Steps of the SDK's have the tokens of their responses.
            if step.usage is None and step.id is not None and step.actor == "agent":
                if (used := self.spent.once(step.id)) is not None:
                    joined[at] = msgspec.structs.replace(step, usage=used)
        steps = number_steps(joined)
        start, end = fields.time_bounds(steps)
        return Trajectory(
            id="",
            name="",
            steps=steps,
            source=record.source(NAME),
            workflow=NAME,
            agent=self.agent,
            agent_version=self.version,
            tools=tuple(self.tools) or None,
            termination=self.ending,
            usage=self.spent.total or fields.total_usage(steps),
            cost_usd=self.spent.cost_usd,
            start=start,
            end=end,
            warnings=tuple(gaps),
        )


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals = Ordinals()
    loose: _Run | None = None
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            if loose is not None:
                loose.lost()
            yield record
        elif _is_one(record.value):
            loose = loose or _Run(record)
            try:
                loose.take(record.value, record)
            except TraceError as e:
                loose.lost()
                yield quarantine_record(record, e)
        else:
            yield from attempt(record, lambda one: (_whole(one, ordinals),))
    if loose is not None and loose.first is not None:
        last, first = loose, loose.first._replace(repairs=tuple(loose.repairs))
        yield from attempt(first, lambda one: (one.finish(last.draft(one), ordinals),))


def _whole(record: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    value = record.value
    about = value if isinstance(value, dict) else {"trajectory": value}
    events = _history(about)
    if not events:
        raise TraceError("no events; expected a list of them, or one under `history`")
    run = _Run(record, about.get("metrics"))
    for event in events:
        run.take(event, record)
    draft = run.draft(record)
    if "instance_id" in about:
        task, attempt_at = str(about["instance_id"]), about.get("attempt")
        metadata = fields.object_at(about, "metadata")
        workflow = fields.text_at(metadata, "dataset") or NAME
        trial = str(attempt_at) if isinstance(attempt_at, int) else None
        draft = msgspec.structs.replace(
            draft,
            name="/".join([part for part in (workflow, task, trial) if part is not None]),
            workflow=workflow,
            task=task,
            trial=trial,
            agent=draft.agent or fields.text_at(metadata, "agent_class"),
            outcome=_outcome(about),
            termination=fields.text_at(about, "error") or draft.termination,
            extra=fields.rest(about, _OUTPUT),
        )
    else:
        extra = fields.rest(about, frozenset({"trajectory", "events"}))
        draft = msgspec.structs.replace(draft, extra=extra)
    return record.finish(draft, ordinals)


def _outcome(about: dict[str, Json]) -> Outcome:
    """Return whether the task was resolved, as a report that was added to the output says."""
    tested = about.get("test_result")
    inner = tested.get("report") if isinstance(tested, dict) else None
    for place in (about, about.get("report"), tested, inner):
        flag = place.get("resolved") if isinstance(place, dict) else None
        if isinstance(flag, bool):
            reason = "resolved" if flag else "not resolved"
            return Outcome("pass" if flag else "fail", "check", None, reason)
    return Outcome()


FORMAT = FileFormat(NAME, _likeness, _read)
