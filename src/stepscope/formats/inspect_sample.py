"""One sample of an Inspect log, once through (an epoch), as a run.

Every event is a step or stays whole in its span; what went over the wire beside the messages is in
`extra["calls"]`, by step, with the attachments and the pool that it points into; ids and working
times of the steps' events are in `extra["clock"]`. The target and the request make the run's case:
whether a target is a text to be told or something to be judged by, only the scorer knows, so it
names no post-condition.
Format: UKGovernmentBEIS/inspect_ai 0.3.285, `log/_log.py`, `EvalSample`; `log/_recorders/chunked`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stepscope.errors import TraceError
from stepscope.formats.building import Ordinals, finish, rest, text_at
from stepscope.formats.inspect_events import Player
from stepscope.formats.inspect_log import Log
from stepscope.formats.inspect_scores import labels, outcome
from stepscope.formats.inspect_script import Script
from stepscope.formats.inspect_texts import Texts
from stepscope.formats.inspect_tree import Tree
from stepscope.formats.inspect_usage import ModelUsage, cost, total
from stepscope.formats.plain import Found
from stepscope.formats.times import bounds, instant
from stepscope.formats.tokens import total as total_of_steps
from stepscope.model import Case, Json, Source, Trajectory, Warn

NAME = "inspect_ai"

_SAMPLE = frozenset(
    "id epoch messages message_refs events transcript attachments events_data message_pool "
    "call_pool output scores score uuid started_at completed_at target input choices".split()
)
_INPUT_STEP = {"role": "user"}
# A stop that the model's provider forced: what the reply was cut by.
_CUT = frozenset({"max_tokens", "model_length", "content_filter"})


class _Transcript(msgspec.Struct, gc=False):
    events: list[Any] = []
    content: dict[str, str] = {}


class _Pools(msgspec.Struct, gc=False):
    messages: list[Any] = []
    calls: list[Any] = []


class _Sample(msgspec.Struct, gc=False):
    id: int | str
    epoch: int
    input: Any = None
    target: Any = None
    messages: list[Any] | None = None
    message_refs: list[tuple[int, int]] = []
    events: list[Any] | None = None
    transcript: _Transcript | None = None
    attachments: dict[str, str] | list[str] = {}
    events_data: _Pools | None = None
    message_pool: list[Any] = []
    call_pool: list[Any] = []
    scores: dict[str, Any] | None = None
    score: Any = None
    model_usage: dict[str, ModelUsage] | None = None
    error: Any = None
    limit: Any = None
    uuid: str | None = None
    error_retries: list[Any] | None = None


def run_of(found: Found, log: Log, ordinals: Ordinals) -> Trajectory:
    """Return a sample as a run.

    Raises:
        TraceError: it is no sample, or an event of it is none.
        msgspec.ValidationError: a part of it has another type than its format promises.
    """
    value = found.value
    if not isinstance(value, dict):
        raise TraceError(f"an Inspect sample is an object; found {str(value)[:60]!r}")
    sample = msgspec.convert(value, _Sample)
    transcript = sample.transcript or _Transcript()
    pools = sample.events_data or _Pools(sample.message_pool, sample.call_pool)
    texts = Texts(_attachments(sample, transcript), found.limits)
    script, tree = Script(texts, pools.messages), Tree()
    player = Player(script, tree, texts)
    player.play(sample.events if sample.events is not None else transcript.events)
    player.ending()
    script.ending(_messages(sample, pools), context=player.models > 0)
    steps, places = script.numbered()
    used = (sample.model_usage or {}).values()
    scores = _scores(sample)
    task, trial = str(sample.id), str(sample.epoch)
    first, last = bounds(steps)
    draft = Trajectory(
        id="",
        name="/".join([log.workflow.rpartition("/")[2], task, trial]),
        steps=steps,
        source=Source(
            format=NAME,
            format_version=log.version,
            uri=found.uri,
            offset=found.offset,
            run_id=sample.uuid or (f"{log.eval_id}/{task}/{trial}" if log.eval_id else None),
        ),
        workflow=log.workflow,
        task=task,
        trial=trial,
        agent=log.agent,
        agent_version=log.agent_version,
        tags=log.tags,
        tools=player.tools() or None,
        spans=tree.spans(),
        outcome=outcome(scores, log.scorers),
        termination=_termination(sample, value, player.stopped),
        labels=labels(scores),
        case=_case(sample, value, log, texts),
        usage=total(used, less=player.graded) or total_of_steps(steps),
        cost_usd=cost(used, less=player.graded),
        start=instant(value.get("started_at")) or first,
        end=instant(value.get("completed_at")) or last,
        warnings=_warnings(sample, log, texts, [*tree.warnings, *player.told(places)]),
        extra=_extra(value, log, player, tree, places, pools, texts),
    )
    return finish(draft, ordinals, limits=found.limits, repairs=found.repairs)


def _attachments(sample: _Sample, transcript: _Transcript) -> dict[str, str]:
    if isinstance(sample.attachments, list):
        return {str(place): text for place, text in enumerate(sample.attachments)}
    return sample.attachments or transcript.content


def _messages(sample: _Sample, pools: _Pools) -> list[Any]:
    """Return the conversation at its end; where none was logged, what it began with."""
    if sample.message_refs:
        pool = pools.messages
        return [message for start, end in sample.message_refs for message in pool[start:end]]
    if sample.messages is not None or sample.events or sample.transcript:
        return sample.messages or []
    if isinstance(sample.input, list):
        return sample.input
    return [{**_INPUT_STEP, "content": sample.input}] if isinstance(sample.input, str) else []


def _scores(sample: _Sample) -> dict[str, Any]:
    if sample.scores is not None:
        return sample.scores
    return {} if sample.score is None else {"score": sample.score}


def _termination(sample: _Sample, value: dict[str, Json], stopped: str | None) -> str | None:
    """Return how the sample ended: on an error, at a limit, cut by the provider, or by itself."""
    if sample.error is not None:
        return "error"
    if sample.limit is not None:
        kind = sample.limit if isinstance(sample.limit, str) else None
        if isinstance(sample.limit, dict):
            kind = text_at(sample.limit, "type")
        return f"{kind}_limit" if kind else "limit"
    if stopped in _CUT:
        return stopped
    return "completed" if value.get("output") or value.get("completed") else None


def _case(sample: _Sample, value: dict[str, Json], log: Log, texts: Texts) -> Case:
    asked = texts.within(sample.input)
    extra: dict[str, Json] = {"target": sample.target, "choices": value.get("choices")}
    if not isinstance(asked, str):
        extra["input"] = asked
    return Case(
        workflow=log.workflow,
        task=str(sample.id),
        request=asked if isinstance(asked, str) else None,
        extra={key: told for key, told in extra.items() if told is not None} or None,
    )


def _warnings(sample: _Sample, log: Log, texts: Texts, found: list[Warn]) -> tuple[Warn, ...]:
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
    log: Log,
    player: Player,
    tree: Tree,
    places: list[int],
    pools: _Pools,
    texts: Texts,
) -> dict[str, Json] | None:
    extra: dict[str, Json] = {"log": log.told, **(texts.within(rest(value, _SAMPLE)) or {})}
    if output := _output(value):
        extra["output"] = texts.within(output)
    if tree.loose:
        extra["events"] = tree.loose
    extra["clock"] = [{"step": places[place], **_object(told)} for place, told in player.clock]
    if player.calls:
        calls = [{"step": places[place], **_object(call)} for place, call in player.calls]
        extra["calls"] = calls
        if pools.calls:
            extra["call_pool"] = pools.calls
        named = texts.named(msgspec.json.encode([calls, pools.calls]))
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
