"""Read what the OpenAI Agents SDK exports: traces and their spans, and run states to be resumed.

A file is a list of exports, one a line, a request as sent to the API (`data`), or traces with their
spans in them; spans of one trace are one run. A span of a response has no messages, which stay with
the API: its step says when and at what cost, and a warning that they are missing.

A serialised run state is one run: its input, then its items in order, each with its agent; a
handoff is a step of the agent that hands over. Items of one answer of the model are one turn, which
carries that answer's tokens. What guardrails found stands at the beginning and at the end.
Format: openai-agents 0.24.0, `tracing/traces.py`, `tracing/spans.py`, `run_state.py` (schema 1.21
and those before).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

from stepscope.errors import TraceError
from stepscope.formats import fields
from stepscope.formats.chat.messages import MessageOptions
from stepscope.formats.chat.response_items import item_step, join_turns, number_steps
from stepscope.formats.finish import Ordinals, finish_run
from stepscope.formats.format import (
    DecodedRecord,
    FileFormat,
    attempt,
    decode_records,
    quarantine_record,
    quarantine_value,
)
from stepscope.formats.opening import any_record
from stepscope.formats.spans.assemble import assemble, group_by_trace
from stepscope.formats.spans.dialects.openai_agents import PREFIX
from stepscope.formats.spans.span import RawSpan
from stepscope.model import Json, Part, Quarantined, Source, Step, Stream, Trajectory, Usage, Warn
from stepscope.safety.json import Repair

_ITEM = frozenset({"type", "raw_item", "agent", "source_agent", "target_agent"})
_STATE = frozenset(
    "$schemaVersion original_input generated_items session_items model_responses "
    "last_model_response input_guardrail_results output_guardrail_results".split()
)


def is_run_state(record: dict[str, Json]) -> bool:
    """Say whether a record is a saved run state."""
    return "$schemaVersion" in record and record.keys() >= {"original_input", "model_responses"}


def read_run_state(found: DecodedRecord, ordinals: Ordinals) -> Trajectory:
    """Return the run that a state holds."""
    state: dict[str, Json] = found.value
    reading = MessageOptions(fields.infer_text_status, found.limits)
    given = state["original_input"]
    listed = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(listed, list):
        raise TraceError(f"`original_input` is {str(given)[:60]!r}; expected text or a list")
    steps = join_turns([item_step(item, at, reading) for at, item in enumerate(listed)])
    steps += _checks(state, "input_guardrail_results")
    answers = _Answers(fields.list_at(state, "model_responses"))
    # What goes to the model next may leave out a part of the session.
    items = fields.list_at(state, "session_items") or fields.list_at(state, "generated_items")
    steps += join_turns([_of_item(item, reading, answers) for item in items])
    steps += _checks(state, "output_guardrail_results")
    about = fields.object_at(state, "trace")
    run_steps = number_steps(steps)
    first = next((step.agent for step in run_steps if step.agent is not None), None)
    # What the run waits for.
    kind = fields.text_at(fields.object_at(state, "current_step"), "type")
    draft = Trajectory(
        id="",
        name=fields.text_at(about, "id") or "",
        steps=run_steps,
        source=found.source(NAME, fields.text_at(about, "id"), str(state["$schemaVersion"])),
        workflow=fields.text_at(about, "workflow_name") or NAME,
        agent=first or fields.text_at(fields.object_at(state, "current_agent"), "name"),
        termination=None if kind is None else kind.removeprefix("next_step_"),
        usage=_told(fields.object_at(state, "context").get("usage"))
        or fields.total_usage(run_steps),
        extra={**(fields.rest(state, _STATE) or {}), **_beside(state, answers)} or None,
    )
    return found.finish(draft, ordinals)


def _beside(state: dict[str, Json], answers: _Answers) -> dict[str, Json]:
    """Return what answers say of themselves, and items and answers that are told nowhere else."""
    session, made = fields.list_at(state, "session_items"), fields.list_at(state, "generated_items")
    about = answers.about()
    found: dict[str, Json] = {"model_responses": about} if any(about) else {}
    if session and made and session != made:
        found["generated_items"] = made
    last, listed = state.get("last_model_response"), fields.list_at(state, "model_responses")
    if last is not None and (not listed or last != listed[-1]):
        found["last_model_response"] = last
    return found


class _Answers:
    """The answers of the model, and which of them each item is of."""

    def __init__(self, listed: list[Json]) -> None:
        self._about: list[dict[str, Json]] = []
        self._items: dict[bytes, Json] = {}
        self._of: dict[bytes, deque[int]] = {}
        self._left: list[int] = []
        self._usages: list[Usage | None] = []
        for at, answer in enumerate(listed):
            output = answer.get("output") if isinstance(answer, dict) else None
            if not isinstance(answer, dict) or not isinstance(output, list):
                raise TraceError(f"a model's response is {str(answer)[:60]!r}; expected `output`")
            for item in output:
                self._of.setdefault(_encoded(item), deque()).append(at)
                self._items[_encoded(item)] = item
            self._left.append(len(output))
            self._usages.append(_told(answer.get("usage")))
            self._about.append(fields.rest(answer, frozenset({"output"})) or {})

    def about(self) -> list[Json]:
        """Return what answers say beyond their items, and the items that no step was made of."""
        found = [dict(answer) for answer in self._about]
        for key, places in self._of.items():
            for at in places:
                found[at].setdefault("output", []).append(self._items[key])
        return [answer or None for answer in found]

    def of(self, step: Step, raw: dict[str, Json]) -> Step:
        """Return a step with its model; that of an answer's last item has the answer's tokens."""
        places = self._of.get(_encoded(raw))
        if not places:
            return step
        at = places.popleft()
        self._left[at] -= 1
        usage = None if self._left[at] else self._usages[at]
        model = fields.text_at(fields.object_at(raw, "provider_data"), "model")
        return replace(step, model=model, usage=usage)


_encoded = msgspec.json.Encoder(order="deterministic").encode


def _told(usage: Json) -> Usage | None:
    """Return tokens as the SDK writes them, its details in lists; none where no request is told."""
    if not isinstance(usage, dict) or usage.get("requests") == 0:
        return None
    plain = dict(usage)
    for key in ("input_tokens_details", "output_tokens_details"):
        held = plain.get(key)
        plain[key] = held[0] if isinstance(held, list) and held else held
    return fields.openai_usage(plain)


def _of_item(item: Json, reading: MessageOptions, answers: _Answers) -> Step:
    """Return one item as a step without a place, with its agent and what is said beside it."""
    raw = item.get("raw_item") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(raw, dict):
        raise TraceError(f"an item needs an object under `raw_item`; found {str(item)[:60]!r}")
    if item.get("type") == "tool_approval_item":
        return Step(index=0, actor="agent", kind="other", agent=_name(item, "agent"), extra=item)
    step = item_step(raw, 0, reading)
    about = {key: value for key, value in item.items() if key not in _ITEM and value is not None}
    if step.results and about.get("output") in (step.results[0].text, raw.get("output")):
        about.pop("output", None)
    for key in ("agent", "source_agent", "target_agent"):
        agent = item.get(key)
        more = fields.rest(agent, frozenset({"name"})) if isinstance(agent, dict) else agent
        if more is not None:
            about[key] = more
    source, target = _name(item, "source_agent"), _name(item, "target_agent")
    if target is not None:
        results = tuple(map(fields.passed_control, step.results))
        step = replace(step, actor="agent", kind="handoff", results=results, extra={"to": target})
    if step.actor == "agent":
        step = replace(step, agent=source or _name(item, "agent"))
        step = answers.of(step, raw)
    return _with(step, about) if about else step


def _name(item: dict[str, Json], key: str) -> str | None:
    return fields.text_at(fields.object_at(item, key), "name")


def _with(step: Step, about: dict[str, Json]) -> Step:
    """Return a step with what its item says beside, at the call or the result that it is."""
    for name, held in (("calls", step.calls), ("results", step.results)):
        if held:
            first = replace(held[0], extra={**(held[0].extra or {}), **about})
            return replace(step, **{name: (first, *held[1:])})
    return replace(step, extra={**(step.extra or {}), **about})


def _checks(state: dict[str, Json], key: str) -> list[Step]:
    listed = fields.list_at(state, key)
    told = [check if isinstance(check, dict) else {"value": check} for check in listed]
    checks = [(Part("data", extra=check),) for check in told]
    return [Step(index=0, actor="environment", kind="guardrail", parts=one) for one in checks]


NAME = "openai_agents"
_SPAN = frozenset("object id trace_id parent_id started_at ended_at span_data error".split())
_TRACE = frozenset({"object", "id", "workflow_name"})
# Spans whose failure is the run's; a tool's or a model's may be got over.
_FRAMES = frozenset({"agent", "custom"})
# Where users' processors put what the SDK leaves out of a response's span.
_BODIES = frozenset({f"{PREFIX}input", f"{PREFIX}response", f"{PREFIX}output"})


def _is_export(record: Json) -> bool:
    if not isinstance(record, dict):
        return False
    if record.get("object") == "trace.span" or is_run_state(record):
        return True
    if record.get("object") == "trace":
        return "workflow_name" in record or isinstance(record.get("spans"), list)
    listed = record.get("data")
    first = listed[0] if isinstance(listed, list) and listed else None
    return isinstance(first, dict) and first.get("object") in ("trace", "trace.span")


def _read(stream: Stream) -> Iterator[Trajectory | Quarantined]:
    spans, traces = list[RawSpan](), dict[str, dict[str, Json]]()
    repairs, beside, first = list[Repair](), dict[str, Json](), None
    ordinals = Ordinals()
    for record in decode_records(stream):
        if isinstance(record, Quarantined):
            yield record
            continue
        if isinstance(record.value, dict) and is_run_state(record.value):
            yield from attempt(record, lambda one: (read_run_state(one, ordinals),))
            continue
        repairs.extend(record.repairs)
        for entry in _members(record.value, beside):
            try:
                if isinstance(entry, dict) and entry.get("object") == "trace":
                    trace_id = _trace_id(entry)
                    traces[trace_id] = {**traces.get(trace_id, {}), **entry}
                else:
                    spans.append(make_agents_span(entry))
            except TraceError as e:
                raw = record.raw if entry is record.value else msgspec.json.encode(entry)
                yield quarantine_record(record._replace(raw=raw), e)
            else:
                first = record.offset if first is None else first
    source = Source(format=NAME, uri=stream.uri, offset=first)
    of_trace = group_by_trace(spans)
    read_group = partial(assemble, ordinals=ordinals, limits=stream.limits, repairs=repairs)
    for trace_id in [*of_trace, *[named for named in traces if named not in of_trace]]:
        members, about = of_trace.get(trace_id, []), traces.get(trace_id, {})
        extra = {**beside, **(fields.rest(about, _TRACE) or {})} or None
        try:
            if members:
                (run,) = read_group(members, source=source, extra=extra)
            else:
                empty = Trajectory(
                    id="",
                    name=trace_id,
                    steps=(),
                    source=replace(source, run_id=trace_id),
                    warnings=(Warn("no_agent_span", "a trace without spans"),),
                    extra=extra,
                )
                run = finish_run(empty, ordinals, limits=stream.limits)
        except TraceError as e:
            yield quarantine_value(source, [about, *members], e)
        else:
            yield _complete_run(run, members, about)


def _trace_id(record: dict[str, Json]) -> str:
    found = fields.text_at(record, "id")
    if found is None:
        raise TraceError(f"a trace needs text under `id`; found {record.get('id')!r:.60}")
    return found


def _members(value: Json, beside: dict[str, Json]) -> Iterable[Json]:
    """Return the exports of a record; what stands beside those of a request goes into `beside`."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and "object" not in value and isinstance(value.get("data"), list):
        beside.update(fields.rest(value, frozenset({"data"})) or {})
        return list(value["data"])
    inner = value.get("spans") if isinstance(value, dict) else None
    if isinstance(value, dict) and value.get("object") == "trace" and isinstance(inner, list):
        return [{key: held for key, held in value.items() if key != "spans"}, *inner]
    return [value]


def make_agents_span(record: Json) -> RawSpan:
    """Return one exported span."""
    about = record.get("span_data") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(about, dict):
        raise TraceError(f"a span needs an object under `span_data`; found {str(record)[:60]!r}")
    own, trace = fields.text_at(record, "id"), fields.text_at(record, "trace_id")
    if own is None or trace is None:
        raise TraceError(f"a span needs text under `id` and `trace_id`; found {str(record)[:60]!r}")
    start, end = fields.parse_ns(record.get("started_at")), fields.parse_ns(record.get("ended_at"))
    failure = record.get("error")
    extra = fields.rest(record, _SPAN) or {}
    if failure is not None:
        extra["error"] = failure
    # Spans have their times as numbers; here is the text that they were.
    extra.update({k: record[k] for k in ("started_at", "ended_at") if record.get(k) is not None})
    kind = fields.text_at(about, "type") or ""
    ended = "error" in record and end is not None
    return RawSpan(
        trace_id=trace,
        span_id=own,
        parent_id=fields.text_at(record, "parent_id"),
        name=fields.text_at(about, "name") or kind,
        kind=kind,
        start_ns=start,
        end_ns=end,
        status="error" if failure is not None else "ok" if ended else "unset",
        status_message=_failure(failure),
        attributes={f"{PREFIX}{key}": value for key, value in about.items() if value is not None},
        extra=extra or None,
    )


def _failure(failure: Json) -> str | None:
    """Return what an error says: its message, and the most telling of its data."""
    match failure:
        case None:
            return None
        case {"message": str(message), "data": {"error": str(more)} | {"guardrail": str(more)}}:
            return f"{message}: {more}"
        case {"message": str(message)}:
            return message
    return str(failure)[:200]


def _complete_run(run: Trajectory, spans: list[RawSpan], about: dict[str, Json]) -> Trajectory:
    group = fields.text_at(about, "group_id")
    answers = [span for span in spans if span.kind == "response"]
    bodiless = {span.span_id for span in answers if not span.attributes.keys() & _BODIES}
    missing = [
        Warn("response_without_body", f"response {step.id!r} came without its messages", step.index)
        for step in run.steps
        if step.span in bodiless and not step.calls and not step.results and not step.parts
    ]
    return replace(
        run,
        workflow=fields.text_at(about, "workflow_name") or run.workflow or NAME,
        agent=run.agent or next((span.name for span in spans if span.kind == "agent"), None),
        tags=run.tags if group is None else {**run.tags, "session": group},
        termination=run.termination or _ending(spans),
        warnings=(*run.warnings, *missing),
    )


def _ending(spans: list[RawSpan]) -> str | None:
    """Return the failure of the outermost frame that failed, None where none did."""
    # Spans with nothing but frames around them, themselves frames.
    inner: dict[str | None, list[str]] = {}
    known = {each.span_id for each in spans}
    for each in spans:
        if each.kind in _FRAMES:
            above = each.parent_id if each.parent_id in known else None
            inner.setdefault(above, []).append(each.span_id)
    reached = list(inner.get(None, ()))
    for own in reached:  # grows while it is walked
        reached.extend(inner.pop(own, ()))
    frames = set(reached)
    failed = [span for span in spans if span.status == "error" and span.span_id in frames]
    first = min(failed, key=lambda span: span.start_ns or 0, default=None)
    return None if first is None else first.status_message or "error"


FORMAT = FileFormat(NAME, any_record(_is_export, 0.95), _read)
