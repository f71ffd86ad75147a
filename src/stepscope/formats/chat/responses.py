"""Read OpenAI Responses items, bare or as requests and responses, with what answers continue.

One run is: a file that is a list of items (or one item a line); a record that is such a list; a
response, with its request where it was recorded (as an HTTP exchange, a line of a batch, or `input`
and `output` side by side). A response that names an earlier one of the file
(`previous_response_id`) continues that one's run; one that names another is a run of its own, and
says so. Runs that may be continued are held back; the oldest is let go when they are too many or
too large, so that a file of any length is read in bounded memory. Items carry no flag of a tool's
failure but the provider's own: the status of any other output is inferred and marked so.
Format: OpenAI API reference; OpenAI Python SDK 3.54.0, `types/responses/response.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat import messages
from stepscope.formats.chat.messages import MessageEnvelope, MessageOptions
from stepscope.formats.chat.response_items import (
    is_response_item,
    item_step,
    join_turns,
    number_steps,
    offered_tools,
)
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import (
    DecodedRecord,
    FileFormat,
    StepCollector,
    attempt,
    convert_record,
    decode_records,
    quarantine_record,
)
from stepscope.formats.opening import Opening
from stepscope.model import Json, Part, Quarantined, Step, Stream, ToolDef, Trajectory, Warn
from stepscope.safety.limits import MIB

NAME = "openai_responses"
_BODY_KEYS = frozenset(
    "input output messages instructions usage object created_at completed_at previous_response_id "
    "custom_id".split()
)
_ENDED_WELL = frozenset({None, "completed"})


class ResponseRun(NamedTuple):
    """A record as a run; `answer` is its response's own id, `earlier` the one that it continues."""

    draft: Trajectory
    answer: str | None
    earlier: str | None
    record: DecodedRecord


def read_items(listed: list[Json], found: DecodedRecord) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return a list of items as turns, and the tools that items among them offer."""
    reading = MessageOptions(fields.infer_text_status, found.limits)
    steps = join_turns([item_step(item, index, reading) for index, item in enumerate(listed)])
    return steps, fields.tool_defs([tool for item in listed for tool in offered_tools(item)]) or ()


def read_response(found: DecodedRecord) -> ResponseRun:
    """Return a record as the run that it tells."""
    record = fields.expect_object(found.value, "expected a request or a response")
    request, response, around = messages.unwrap_exchange(record, found.limits)
    if request is record and record.get("object") == "response":
        request, response = {}, record
    elif request is record and "output" in record:
        response = record
    answer: dict[str, Json] = response or {}
    # What a response repeats of its request.
    repeated: dict[str, Json] = {k: answer[k] for k in ("tools", "model") if k in answer}
    envelope, unexpected = convert_record({**repeated, **request, **around}, MessageEnvelope)
    envelope.task_id = envelope.task_name or fields.text_at(record, "custom_id")
    steps, tools = _request_steps(request, response, found)
    if response is not None:
        made, more = _answer_steps(response, found, request_model=envelope.model)
        steps, tools = [*steps, *made], (*tools, *more)
    if not steps:
        raise TraceError("a record without an item; expected a list under `input` or `output`")
    known = messages.ENVELOPE_KEYS | _BODY_KEYS
    extra = fields.merge_extra(*[fields.rest(side, known) for side in (around, request, answer)])
    run_id = envelope.source_id or fields.text_at(answer, "id")
    draft = envelope.draft(NAME, number_steps(steps), found, run_id=run_id, extra=extra)
    start, end = fields.time_bounds(draft.steps)
    status = fields.text_at(answer, "status")
    reason = _response_error(answer) or _finish_reason(answer)
    ending = status if reason in {None, status} else f"{status}: {reason}"
    draft = msgspec.structs.replace(
        draft,
        tools=draft.tools if not tools else (*(draft.tools or ()), *tools),
        termination=None if status in _ENDED_WELL else ending,
        start=start,
        end=end,
    )
    named = [fields.text_at(side, "previous_response_id") for side in (answer, request)]
    draft, own = unexpected.keep_in(draft), fields.text_at(answer, "id")
    # What was decoded is told by the draft.
    return ResponseRun(draft, own, named[0] or named[1], found._replace(value=None))


def _request_steps(
    request: dict[str, Json], response: dict[str, Json] | None, found: DecodedRecord
) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return the instructions as a first step, then the input."""
    instructions = request.get("instructions")
    if instructions is None and response is not None:
        instructions = response.get("instructions")
    given = request.get("input", request.get("messages"))
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if listed is not None and not isinstance(listed, list):
        raise TraceError(f"`input` is {str(given)[:60]!r}; expected text or a list of items")
    if isinstance(instructions, str):
        system = [Step(index=0, actor="system", parts=(Part("text", instructions),))]
    else:
        system = read_items(instructions, found)[0] if isinstance(instructions, list) else []
    steps, tools = read_items(listed or [], found)
    return [*system, *steps], tools


def _answer_steps(
    response: dict[str, Json], found: DecodedRecord, *, request_model: str | None
) -> tuple[list[Step], tuple[ToolDef, ...]]:
    """Return the turns of an answer; the last carries its usage and how it ended."""
    output, failure = response.get("output"), _response_error(response)
    if not isinstance(output, list) and not (output is None and failure is not None):
        raise TraceError(f"`output` is {str(output)[:60]!r}; expected a list of items")
    steps, tools = read_items(output or [], found)
    if not any(step.actor == "agent" for step in steps):
        steps.append(Step(index=len(steps), actor="agent"))
    mine = [at for at, step in enumerate(steps) if step.actor == "agent"]
    for at in mine:
        model = fields.text_at(response, "model") or request_model
        steps[at] = msgspec.structs.replace(steps[at], model=model)
    first, last = mine[0], mine[-1]
    start = fields.parse_time(response.get("created_at"))
    steps[first] = msgspec.structs.replace(steps[first], start=start)
    beside = fields.uncounted_usage(response.get("usage"))
    steps[last] = msgspec.structs.replace(
        steps[last],
        extra={**(steps[last].extra or {}), **({"usage": beside} if beside else {})} or None,
        usage=fields.openai_usage(response.get("usage")),
        finish_reason=_finish_reason(response),
        end=fields.parse_time(response.get("completed_at")),
        error=failure,
    )
    return steps, tools


def _response_error(response: dict[str, Json]) -> str | None:
    match response.get("error"):
        case {"message": str(message)}:
            return message
        case None:
            return "failed" if response.get("status") == "failed" else None
        case other:
            return str(other)[:200]


def _finish_reason(response: dict[str, Json]) -> str | None:
    reason = fields.text_at(fields.object_at(response, "incomplete_details"), "reason")
    return reason or fields.text_at(response, "status")


# Runs held back, and bytes of their records: what a file of answers from many conversations at
# once has open, and a fraction of the memory that reading may take.
_HELD_RUNS = 1000
_HELD_BYTES = 64 * MIB
_encode_canonical = msgspec.json.Encoder(order="deterministic").encode


class ResponseChains:
    """Takes the records of a file in order and gives back runs, as lists of their records."""

    def __init__(self) -> None:
        self._held: dict[int, list[ResponseRun]] = {}
        self._latest: dict[str, int] = {}
        self._count = 0
        self._size = 0

    def take(self, told: ResponseRun) -> list[list[ResponseRun]]:
        """Continue a run that is held, or begin one; return the runs that were let go for it."""
        at = None if told.earlier is None else self._latest.pop(told.earlier, None)
        if at is not None:
            self._held[at].append(told)
        else:
            if told.earlier is not None:
                reason = f"it continues response {told.earlier!r}, which is not open in this file"
                warnings = (*told.draft.warnings, Warn("earlier_response_missing", reason, 0))
                told = told._replace(draft=msgspec.structs.replace(told.draft, warnings=warnings))
            self._count += 1
            at = self._count
            self._held[at] = [told]
        self._size += len(told.record.raw)
        if told.answer is not None:
            self._latest[told.answer] = at
        gone: list[list[ResponseRun]] = []
        while len(self._held) > _HELD_RUNS or (self._size > _HELD_BYTES and len(self._held) > 1):
            gone.append(self._let_go(next(iter(self._held))))
        return gone

    def rest(self) -> list[list[ResponseRun]]:
        """Return every run that is still held, in the order of their first records."""
        return [self._let_go(at) for at in list(self._held)]

    def _let_go(self, at: int) -> list[ResponseRun]:
        held = self._held.pop(at)
        answer = held[-1].answer
        if answer is not None and self._latest.get(answer) == at:
            del self._latest[answer]
        self._size -= sum([len(told.record.raw) for told in held])
        return held


def _join_records(tolds: list[ResponseRun]) -> Trajectory:
    drafts = [told.draft for told in tolds]
    first, last = drafts[0], drafts[-1]
    # Every request says the instructions again, and only others are a step.
    turns: list[Step] = []
    system: Step | None = None
    for draft in drafts:
        opening = draft.steps[0]
        again = system is not None and opening.actor == "system" and opening.parts == system.parts
        turns += draft.steps[1:] if again else draft.steps
        if opening.actor == "system":
            system = opening
    steps = number_steps(turns)
    start, end = fields.time_bounds(steps)
    outcomes = [draft.outcome for draft in drafts if draft.outcome.status != "unknown"]
    offered = [draft.tools for draft in drafts if draft.tools is not None]
    tools = {_encode_canonical(tool): tool for listed in offered for tool in listed}
    said = first.extra or {}
    # What each later answer says otherwise than the first, its own id among it.
    continued: list[Json] = []
    for told in tolds[1:]:
        more = told.draft.extra or {}
        later = {key: value for key, value in more.items() if said.get(key) != value}
        continued.append({"id": told.answer, **later} if told.answer is not None else later)
    return msgspec.structs.replace(
        first,
        steps=steps,
        task=next((draft.task for draft in drafts if draft.task is not None), None),
        trial=next((draft.trial for draft in drafts if draft.trial is not None), None),
        tags={key: value for draft in drafts for key, value in draft.tags.items()},
        tools=tuple(tools.values()) if offered else None,
        termination=last.termination,
        outcome=outcomes[-1] if outcomes else first.outcome,
        usage=fields.total_usage(steps),
        start=start,
        end=end,
        extra={**said, "continued": continued},
    )


_WHOLE_KEYS = frozenset({"input", "output", "messages", "request", "response", "body"})
# What backends' exports with an `input` and an `output` say beside them.
_FOREIGN_KEYS = frozenset("run_type traceId trace_id observations span_data spans".split())


def _likeness(opening: Opening) -> float:
    items = messages.opening_messages(
        opening, lambda one: messages.is_chat_message(one) or is_response_item(one)
    )
    if items is not None:
        return 0.9 if any(map(is_response_item, items)) else 0.0
    first = opening.first_record
    return _body_likeness(first) if isinstance(first, dict) else 0.0


def _body_likeness(record: dict[str, Json]) -> float:
    if fields.text_at(record, "object") == "response":
        return 0.95
    http = isinstance(record.get("body"), str) and "status" in record
    for key in ("body",) if http else ("response", "request", "body"):
        inner = record.get(key)
        if isinstance(inner, str):
            return 0.95 if '"object":"response"' in inner.replace('": "', '":"') else 0.0
        if isinstance(inner, dict):
            return _body_likeness(inner)
    if record.keys() & _FOREIGN_KEYS:
        return 0.0
    given, made = record.get("input", record.get("messages")), record.get("output")
    if isinstance(made, list) and made and all(is_response_item(item) for item in made):
        return 0.9
    if isinstance(given, list) and all(
        is_response_item(item) or messages.is_chat_message(item) for item in given
    ):
        asked = any(map(is_response_item, given)) or ("input" in record and "model" in record)
        return 0.9 if asked and "output" not in record else 0.0
    return 0.0


_is_part = messages.parts_without(_WHOLE_KEYS, lambda x: "role" in x or is_response_item(x))


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    ordinals, chains = Ordinals(), ResponseChains()
    # Items that stand by themselves in a file: together they are one run.
    loose, tools = StepCollector(), list[Json]()
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            loose.lost()
            yield record
            continue
        value, options = record.value, MessageOptions(fields.infer_text_status, record.limits)
        try:
            if _is_part(value):
                loose.add(item_step(value, loose.count, options), record)
                tools += offered_tools(value)
            elif isinstance(value, list):
                listed = [tool for item in value for tool in offered_tools(item)]
                run = MessageEnvelope(tools=listed or None).draft(
                    NAME, number_steps(read_items(value, record)[0]), record
                )
                yield record.finish(run, ordinals)
            else:
                yield from _close(chains.take(read_response(record)), ordinals)
        except (TraceError, msgspec.ValidationError) as e:
            if _is_part(value):
                loose.lost()
            yield quarantine_record(record, e)
    yield from _close(chains.rest(), ordinals)
    if loose.first is not None:
        steps, gaps = loose.joined(join_turns)
        draft = MessageEnvelope(tools=tools or None).draft(NAME, number_steps(steps), loose.first)
        run = msgspec.structs.replace(draft, warnings=tuple(gaps))
        held = loose.first._replace(repairs=tuple(loose.repairs))
        yield from attempt(held, lambda at: (at.finish(run, ordinals),))


def _close(held: list[list[ResponseRun]], ordinals: Ordinals) -> Iterator[Trajectory | Quarantined]:
    for tolds in held:
        run = _join_records(tolds) if len(tolds) > 1 else tolds[0].draft
        first, repairs = tolds[0].record, [x for told in tolds for x in told.record.repairs]
        try:
            yield finish_run(run, ordinals, limits=first.limits, repairs=repairs)
        except TraceError as e:
            raw = b"\n".join([told.record.raw for told in tolds])
            yield quarantine_record(first._replace(raw=raw), e)


FORMAT = FileFormat(NAME, _likeness, _read)
