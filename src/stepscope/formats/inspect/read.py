"""Read Inspect logs, `.eval` and `.json`: one run for each sample and epoch.

Steps come from the events of a sample, what models were told from its messages, each once; texts
that the log keeps apart are put back in their places. Grader models are not the agent's. A log that
is still being written, or was cancelled, is read as far as it stands. Members packed by zstd, as
Inspect packs them by default, need the extra `zstd`.

A sample is decoded fast where it holds nothing but the keys that Inspect is known to write, each no
deeper than it may be; anything else is decoded by `safety.json`.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, log versions 1 to 3; `log/_log.py`, `event/`, `model/`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import expect_object, parse_time, rest, time_bounds
from stepscope.formats.fields import total_usage as total_of_steps
from stepscope.formats.files import ZIP_MAGIC, rewind
from stepscope.formats.finish import PASSING_REWARD, Ordinals
from stepscope.formats.format import DecodedRecord, RecordFormat, attempt
from stepscope.formats.inspect import events as sample_events
from stepscope.formats.inspect.log import LogHeader, split_eval, split_json, unframe_sample
from stepscope.formats.inspect.messages import Attachments, SampleSteps
from stepscope.formats.opening import Opening
from stepscope.formats.records import RawRecord
from stepscope.model import Case, Json, Outcome, Quarantined, Stream, TraceLabel, Trajectory, Warn
from stepscope.safety.json import Decoded, decode, drops_keys
from stepscope.safety.limits import Limits

# A sample's target names no post-condition of its case: only the scorer knows whether it is a text
# to be told. The outcome is the first scorer's; of other numbers than 0 and 1 it is unknown.
# Source: inspect_ai, `log/_recorders/chunked`; `scorer/_metric.py`, `Score` and `value_to_float`.

# Inspect's letters (correct, incorrect, partial, no answer) and words, as the numbers they mean.
_WORDS = {
    **dict.fromkeys(("C", "yes", "true"), 1.0),
    "P": 0.5,
    **dict.fromkeys(("I", "N", "no", "false"), 0.0),
}
_KNOWN = frozenset({"value", "explanation"})


def label_scores(scores: dict[str, Json]) -> tuple[TraceLabel, ...]:
    """Return one label a scorer."""
    found = []
    for name, told in scores.items():
        score = msgspec.convert(told, dict[str, Any])
        value, more = score.get("value"), rest(score, _KNOWN) or {}
        if not isinstance(value, str):
            more["value"] = value
        reason = msgspec.convert(score.get("explanation"), str | None) or ""
        extra = {key: item for key, item in more.items() if item != []} or None
        label = TraceLabel(kind="outcome", category=_shown(value), annotator=name, extra=extra)
        found.append(msgspec.structs.replace(label, reason=reason))
    return tuple(found)


def first_score_outcome(scores: dict[str, Json], order: Sequence[str]) -> Outcome:
    """Return what the first scorer says; `order` is that of the log."""
    name = next((name for name in order if name in scores), next(iter(scores), None))
    if name is None:
        return Outcome()
    value = msgspec.convert(scores[name], dict[str, Any]).get("value")
    told = f"{name}: {_shown(value)}"
    reward = _WORDS.get(value, _WORDS.get(value.lower())) if isinstance(value, str) else value
    if not isinstance(reward, int | float):
        return Outcome(reason=told)
    reward, counted = float(reward), not isinstance(value, bool | str)
    source: Literal["check", "reward"] = "reward" if counted else "check"
    if reward >= PASSING_REWARD and reward <= 1:
        return Outcome("pass", source, reward, told)
    return Outcome("fail" if reward == 0 else "unknown", source, reward, told)


def _shown(value: Json) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


NAME = "inspect_ai"

_SAMPLE = frozenset(
    "id epoch messages message_refs events transcript attachments events_data message_pool "
    "call_pool output scores score uuid started_at completed_at target input choices".split()
)
_INPUT_STEP = {"role": "user"}
# A stop that the model's provider forced: what the reply was cut by.
_CUT = frozenset({"max_tokens", "model_length", "content_filter"})


class _Sample(msgspec.Struct, gc=False):
    id: int | str
    epoch: int
    input: Any = None
    target: Any = None
    messages: list[Any] | None = None
    message_refs: list[tuple[int, int]] = []
    events: list[Any] | None = None
    transcript: dict[str, Any] | None = None  # of newer logs: events, content
    attachments: dict[str, str] | list[str] = {}
    events_data: dict[str, list[Any]] | None = None  # of newer logs: the two pools
    message_pool: list[Any] = []
    call_pool: list[Any] = []
    scores: dict[str, Any] | None = None
    score: Any = None
    model_usage: dict[str, sample_events.ModelUsage] | None = None
    error: Any = None
    limit: Any = None
    uuid: str | None = None
    error_retries: list[Any] | None = None


def read_sample(found: DecodedRecord, log: LogHeader, ordinals: Ordinals) -> Trajectory:
    """Return a sample as a run."""
    value = expect_object(found.value, "an Inspect sample is an object")
    sample = msgspec.convert(value, _Sample)
    transcript = sample.transcript or {}
    if sample.events_data is not None:
        sample.message_pool = sample.events_data.get("messages", [])
        sample.call_pool = sample.events_data.get("calls", [])
    held = sample.attachments
    if isinstance(held, list):
        held = {str(place): text for place, text in enumerate(held)}
    elif not held:
        held = msgspec.convert(transcript.get("content", {}), dict[str, str])
    texts = Attachments(held, found.limits)
    collected, tree = SampleSteps(texts, sample.message_pool), sample_events.SampleTree()
    reader = sample_events.EventReader(collected, tree, texts)
    later = msgspec.convert(transcript.get("events", []), list[Any])
    reader.read(sample.events if sample.events is not None else later)
    reader.answer_late()
    collected.add_rest(_messages(sample), context=reader.models > 0)
    steps, places = collected.number()
    used = (sample.model_usage or {}).values()
    older = {} if sample.score is None else {"score": sample.score}
    scores = older if sample.scores is None else sample.scores
    task, trial = str(sample.id), str(sample.epoch)
    first, last = time_bounds(steps)
    asked = texts.resolve_in_place(sample.input)
    told = [*tree.warnings, *[Warn(code, why, places[at]) for code, why, at in reader.warnings]]
    extra: dict[str, Json] = {"target": sample.target, "choices": value.get("choices")}
    if not isinstance(asked, str):
        extra["input"] = asked
    # On an error, at a limit, cut by the provider, or by itself.
    ending = "completed" if value.get("output") or value.get("completed") else None
    ending = reader.stopped if reader.stopped in _CUT else ending
    if sample.limit is not None:
        kind = sample.limit.get("type") if isinstance(sample.limit, dict) else sample.limit
        ending = f"{kind}_limit" if isinstance(kind, str) and kind else "limit"
    if sample.error is not None:
        ending = "error"
    draft = Trajectory(
        id="",
        name="/".join([log.workflow.rpartition("/")[2], task, trial]),
        steps=steps,
        source=found.source(
            NAME,
            sample.uuid or (f"{log.eval_id}/{task}/{trial}" if log.eval_id else None),
            log.version,
        ),
        workflow=log.workflow,
        task=task,
        trial=trial,
        agent=log.agent,
        agent_version=log.agent_version,
        tags=log.tags,
        tools=reader.tools() or None,
        spans=tree.spans(),
        outcome=first_score_outcome(scores, log.scorers),
        termination=ending,
        labels=label_scores(scores),
        case=Case(
            workflow=log.workflow,
            task=str(sample.id),
            request=asked if isinstance(asked, str) else None,
            extra={key: told for key, told in extra.items() if told is not None} or None,
        ),
        usage=sample_events.sum_model_usage(used, less=reader.graded) or total_of_steps(steps),
        cost_usd=sample_events.sum_model_cost(used, less=reader.graded),
        start=parse_time(value.get("started_at")) or first,
        end=parse_time(value.get("completed_at")) or last,
        warnings=_warn(sample, log, texts, told),
        extra=_extra(value, log, reader, tree, places, sample.call_pool, texts),
    )
    return found.finish(draft, ordinals)


def _messages(sample: _Sample) -> list[Any]:
    """Return the conversation at its end; where none was logged, what it began with."""
    if sample.message_refs:
        pool = sample.message_pool
        return [message for start, end in sample.message_refs for message in pool[start:end]]
    if sample.messages is not None or sample.events or sample.transcript:
        return sample.messages or []
    if isinstance(sample.input, list):
        return sample.input
    return [{**_INPUT_STEP, "content": sample.input}] if isinstance(sample.input, str) else []


def _warn(sample: _Sample, log: LogHeader, texts: Attachments, old: list[Warn]) -> tuple[Warn, ...]:
    if sample.error_retries:
        reason = f"the sample was begun again {len(sample.error_retries)} times, after errors"
        old.append(Warn("sample_retried", reason))
    if not log.complete:
        old.append(Warn("log_incomplete", f"the log says {log.tags.get('log_status')!r}"))
    if texts.missing:
        reason = f"{texts.missing} texts point at attachments that are not there"
        old.append(Warn("missing_attachment", reason))
    return tuple(old)


def _extra(
    value: dict[str, Json],
    log: LogHeader,
    reader: sample_events.EventReader,
    tree: sample_events.SampleTree,
    places: list[int],
    call_pool: list[Any],
    texts: Attachments,
) -> dict[str, Json] | None:
    beside = texts.resolve_in_place(rest(value, _SAMPLE))
    extra: dict[str, Json] = {"log": log.told, **(beside or {})}
    output: Json = value.get("output")
    listed = value.get("messages")
    # Of the last answer, what it says beside its message where that is the last one.
    match output:
        case {"choices": [{"message": message, **about}]} if listed and message == listed[-1]:
            output = {**output, "choices": [about]}
    if isinstance(output, dict) and output.get("choices"):
        extra["output"] = texts.resolve_in_place(output)
    if tree.loose:
        extra["events"] = tree.loose
    extra["clock"] = [{"step": places[place], **_object(told)} for place, told in reader.clock]
    if reader.calls:
        calls = [{"step": places[place], **_object(call)} for place, call in reader.calls]
        extra["calls"] = calls
        if call_pool:
            extra["call_pool"] = call_pool
        named = texts.find_needed(msgspec.json.encode([calls, call_pool]))
        if named:
            extra["attachments"] = named
    return {key: told for key, told in extra.items() if told not in ({}, [])} or None


def _object(call: Json) -> dict[str, Json]:
    return call if isinstance(call, dict) else {"call": call}


_INT_HIGH = 2**63 - 1
# Bytes of a character, at most.
_CHARACTER = 4
# No value of the types below nests deeper.
_DEEPEST = 20

# Keys by the kind of their record: those that hold a plain value, and those that hold values within
# each other: two, four, six or eight deep. Deeper ones are read all the same, only slower.
_PLAIN = {
    "message": "id role source function model",
    "call": "id function parse_error type",
    "choice": "stop_reason",
    "tool": "name description",
    "output": "model completion time error response_id input_context_tokens",
    "event": "uuid span_id timestamp working_start pending event id parent_id type name action "
    "model role requested_model retries cache completed working_time function agent agent_span_id "
    "failed message_id decision approver reviewer explanation intermediate scorer source "
    "tokens_before tokens_after limit cmd file input_ansi interrupted interrupted_tool_call_id "
    "interrupted_model_event_id score_name outcome from_anchor anchor_id traceback traceback_ansi",
    "sample": "id epoch description setup total_time working_time uuid started_at completed_at "
    "turn_count token_limit token_limit_type token_limit_usage message_limit time_limit "
    "completed message_count",
}
_FEW = {
    "message": "error tool_call_id",
    "call": "view",
    "output": "usage fallback",
    "event": "input_refs tool_choice error truncated view target model_usage role_usage message",
    "sample": "target choices files model_usage role_usage error limit message_refs attachments",
}
_SOME = {
    "message": "content metadata",
    "choice": "stop_details logprobs",
    "tool": "options",
    "output": "metadata",
    "event": "config request_ids metadata score scorer_args options edit fields content",
    "sample": "sandbox model_fallbacks invalidation score",
}
_MANY = {
    "call": "arguments",
    "tool": "parameters",
    "event": "arguments result events sample state data modified",
    "sample": "scores metadata store timelines error_retries call_pool",
}
_MOST = {"event": "call changes"}


def decode_sample(raw: bytes, *, limits: Limits) -> Decoded:
    """Return the value of a sample, as `safety.json.decode` does."""
    if limits.depth >= _DEEPEST and b"\\u0000" not in raw:
        # A character is four bytes at most; no text is longer than the whole.
        longest = None if len(raw) <= limits.text_bytes else limits.text_bytes // _CHARACTER
        try:
            value = _decoder(longest)(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return decode(raw, limits=limits)
        if not drops_keys(raw, value):
            return Decoded(value)
    return decode(raw, limits=limits)


@cache
def _decoder(longest: int | None) -> Callable[[bytes], Json]:
    """Return what decodes a sample; no text of it has more characters than `longest`."""
    whole = Annotated[int, msgspec.Meta(ge=-_INT_HIGH - 1, le=_INT_HIGH)]
    text: Any = str if longest is None else Annotated[str, msgspec.Meta(max_length=longest)]
    plain: Any = text | whole | float | bool | None

    def nested(levels: int) -> Any:
        value = plain
        for _ in range(levels):
            value = plain | GenericAlias(list, (value,)) | GenericAlias(dict, (text, value))
        return value

    few, some, many, most = nested(2), nested(4), nested(6), nested(8)

    def record(kind: str, **deeper: Any) -> Any:
        fields: dict[str, Any] = {}
        for keys, held in (
            (_PLAIN, plain),
            (_FEW, few),
            (_SOME, some),
            (_MANY, many),
            (_MOST, most),
        ):
            fields |= dict.fromkeys(keys.get(kind, "").split(), held)
        made: Any = TypedDict
        return made(kind, fields | deeper, total=False)

    def each(kind: Any) -> Any:
        return GenericAlias(list, (kind,)) | None

    message = record("message", tool_calls=each(record("call")))
    output = record("output", choices=each(record("choice", message=message)))
    event = record(
        "event",
        input=plain | GenericAlias(list, (message,)) | GenericAlias(dict, (text, some)),
        tools=each(record("tool")),
        output=plain | output,
    )
    sample = record(
        "sample",
        input=plain | GenericAlias(list, (message,)),
        messages=each(message),
        message_pool=each(message),
        events=each(event),
        events_data=record("pools", messages=each(message), calls=many) | None,
        transcript=record("transcript", events=each(event), content=few) | None,
        output=output | None,
    )
    return msgspec.json.Decoder(sample).decode


_SURE = 0.95
# The first member of a log: that it was begun; or, where it was rewritten, any other.
_MEMBER = re.compile(rb"_journal/|samples/.*\.json\Z|header\.json\Z", re.DOTALL)
_NAME_AT, _LENGTH_AT = 30, 26
_MAGIC_BYTES = 4


def _zip_likeness(head: bytes) -> float:
    if not head.startswith(ZIP_MAGIC) or len(head) < _NAME_AT:
        return 0.0
    (size,) = struct.unpack_from("<H", head, _LENGTH_AT)
    return _SURE if _MEMBER.match(head[_NAME_AT : _NAME_AT + size]) else 0.0


def _likeness(opening: Opening) -> float:
    if opening.shape not in {"object", "lines"}:
        return 0.0
    match opening.first("eval"):
        case {"eval": {"task": _, "model": _}}:
            return _SURE
        case {"eval": {"task": _}, "plan": _} | {"eval": {"task": _}, "status": _}:
            return _SURE
    return 0.0


def _split(stream: Stream) -> Iterator[RawRecord | Quarantined]:
    head = stream.file.read(_MAGIC_BYTES)
    whole = Stream(rewind(stream.file, head), stream.uri, stream.limits)
    if head.startswith(ZIP_MAGIC):
        return split_eval(whole)
    return split_json(whole)


def _one(
    record: RawRecord, uri: str, limits: Limits, ordinals: Ordinals
) -> Iterable[Trajectory | Quarantined]:
    log, sample = unframe_sample(record.raw)
    try:
        value, repairs = decode_sample(sample, limits=limits)
    except TraceError as e:
        return (Quarantined(reason=str(e), offset=record.offset, raw=sample, uri=uri),)
    found = DecodedRecord(value, record.offset, uri, repairs, limits, sample)
    return attempt(found, lambda found: (read_sample(found, log, ordinals),))


FORMAT = RecordFormat(NAME, _likeness, _one, _split, _zip_likeness)
