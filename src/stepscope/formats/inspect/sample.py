"""One epoch of one sample of an Inspect log as a run, with its outcome and labels.

What went over the wire beside the messages is in `extra["calls"]`, by step; ids and working times
of the steps' events are in `extra["clock"]`. The target and the request make the run's case;
whether a target is a text to be told or something to be judged by, only the scorer knows, so it
names no post-condition. The outcome is that of the first scorer; each scorer gives a label. C and
I, true and false, 1 and 0 say pass and fail; of any other number the log does not know the
threshold, and the outcome is unknown.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_log.py`, `EvalSample`; `log/_recorders/chunked`;
`scorer/_metric.py`, `Score` and `value_to_float`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.fields import parse_time, rest, time_bounds
from stepscope.formats.fields import total_usage as total_of_steps
from stepscope.formats.finish import PASSING_REWARD, Ordinals, finish_run
from stepscope.formats.format import DecodedRecord
from stepscope.formats.inspect.events import (
    EventReader,
    ModelUsage,
    SampleTree,
    sum_model_cost,
    sum_model_usage,
)
from stepscope.formats.inspect.log import LogHeader
from stepscope.formats.inspect.messages import Attachments, SampleSteps
from stepscope.model import Case, Json, Label, Outcome, Trajectory, Warn

# Inspect's letters (correct, incorrect, partial, no answer) and words, as the numbers they mean.
_WORDS = {
    "C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0,
}  # fmt: skip
_KNOWN = frozenset({"value", "explanation"})


def label_scores(scores: dict[str, Json]) -> tuple[Label, ...]:
    """Return one label a scorer."""
    found = []
    for name, told in scores.items():
        score = msgspec.convert(told, dict[str, Any])
        value, more = score.get("value"), rest(score, _KNOWN) or {}
        if not isinstance(value, str):
            more["value"] = value
        found.append(
            Label(
                kind="outcome",
                category=_shown(value),
                reason=msgspec.convert(score.get("explanation"), str | None) or "",
                annotator=name,
                extra={key: item for key, item in more.items() if item != []} or None,
            )
        )
    return tuple(found)


def first_score_outcome(scores: dict[str, Json], order: Sequence[str]) -> Outcome:
    """Return what the first scorer says; `order` is that of the log."""
    name = next((name for name in order if name in scores), next(iter(scores), None))
    if name is None:
        return Outcome()
    value = msgspec.convert(scores[name], dict[str, Any]).get("value")
    worth, told = _worth(value), f"{name}: {_shown(value)}"
    if worth is None:
        return Outcome(reason=told)
    reward, source = worth
    if reward >= PASSING_REWARD and reward <= 1:
        return Outcome("pass", source, reward, told)
    return Outcome("fail" if reward == 0 else "unknown", source, reward, told)


def _worth(value: Json) -> tuple[float, Literal["check", "reward"]] | None:
    """Return a score as a number and what kind of finding it is, None where it is neither."""
    if isinstance(value, bool):
        return float(value), "check"
    if isinstance(value, int | float):
        return float(value), "reward"
    if isinstance(value, str):
        number = _WORDS.get(value, _WORDS.get(value.lower()))
        return None if number is None else (number, "check")
    return None


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
    model_usage: dict[str, ModelUsage] | None = None
    error: Any = None
    limit: Any = None
    uuid: str | None = None
    error_retries: list[Any] | None = None


def read_sample(found: DecodedRecord, log: LogHeader, ordinals: Ordinals) -> Trajectory:
    """Return a sample as a run."""
    value = found.value
    if not isinstance(value, dict):
        raise TraceError(f"an Inspect sample is an object; found {str(value)[:60]!r}")
    sample = msgspec.convert(value, _Sample)
    transcript = sample.transcript or {}
    if sample.events_data is not None:
        sample.message_pool = sample.events_data.get("messages", [])
        sample.call_pool = sample.events_data.get("calls", [])
    texts = Attachments(_attachments(sample, transcript), found.limits)
    collected, tree = SampleSteps(texts, sample.message_pool), SampleTree()
    reader = EventReader(collected, tree, texts)
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
    extra: dict[str, Json] = {"target": sample.target, "choices": value.get("choices")}
    if not isinstance(asked, str):
        extra["input"] = asked
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
        termination=_termination(sample, value, reader.stopped),
        labels=label_scores(scores),
        case=Case(
            workflow=log.workflow,
            task=str(sample.id),
            request=asked if isinstance(asked, str) else None,
            extra={key: told for key, told in extra.items() if told is not None} or None,
        ),
        usage=sum_model_usage(used, less=reader.graded) or total_of_steps(steps),
        cost_usd=sum_model_cost(used, less=reader.graded),
        start=parse_time(value.get("started_at")) or first,
        end=parse_time(value.get("completed_at")) or last,
        warnings=_warnings(sample, log, texts, [*tree.warnings, *reader.list_warnings(places)]),
        extra=_extra(value, log, reader, tree, places, sample.call_pool, texts),
    )
    return finish_run(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _attachments(sample: _Sample, transcript: dict[str, Json]) -> dict[str, str]:
    if isinstance(sample.attachments, list):
        return {str(place): text for place, text in enumerate(sample.attachments)}
    return sample.attachments or msgspec.convert(transcript.get("content", {}), dict[str, str])


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


def _termination(sample: _Sample, value: dict[str, Json], stopped: str | None) -> str | None:
    """Return how the sample ended: on an error, at a limit, cut by the provider, or by itself."""
    if sample.error is not None:
        return "error"
    if sample.limit is not None:
        told = sample.limit.get("type") if isinstance(sample.limit, dict) else sample.limit
        kind = told if isinstance(told, str) else None
        return f"{kind}_limit" if kind else "limit"
    if stopped in _CUT:
        return stopped
    return "completed" if value.get("output") or value.get("completed") else None


def _warnings(
    sample: _Sample, log: LogHeader, texts: Attachments, found: list[Warn]
) -> tuple[Warn, ...]:
    if sample.error_retries:
        reason = f"the sample was begun again {len(sample.error_retries)} times, after errors"
        found.append(Warn("sample_retried", reason))
    if not log.complete:
        found.append(Warn("log_incomplete", f"the log says {log.tags.get('log_status')!r}"))
    if texts.missing:
        reason = f"{texts.missing} texts point at attachments that are not there"
        found.append(Warn("missing_attachment", reason))
    return tuple(found)


def _extra(
    value: dict[str, Json],
    log: LogHeader,
    reader: EventReader,
    tree: SampleTree,
    places: list[int],
    call_pool: list[Any],
    texts: Attachments,
) -> dict[str, Json] | None:
    extra: dict[str, Json] = {
        "log": log.told,
        **(texts.resolve_in_place(rest(value, _SAMPLE)) or {}),
    }
    if output := _output(value):
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


def _output(value: dict[str, Json]) -> dict[str, Json] | None:
    """Return what a sample's last answer says beside its message, where that is the last one."""
    output, listed = value.get("output"), value.get("messages")
    if not isinstance(output, dict) or not output.get("choices"):
        return None
    match output:
        case {"choices": [{"message": message, **beside}]} if listed and message == listed[-1]:
            return {**output, "choices": [beside]}
    return output


def _object(call: Json) -> dict[str, Json]:
    return call if isinstance(call, dict) else {"call": call}
