"""Write runs as OTLP JSON, with their verdicts: what any tracing backend can take and show.

A run that was recorded as spans is written as those spans, ids and attributes as they were; any
other as spans of the GenAI conventions (an agent, its rounds with a model, its tools), under ids
derived from its own. docs/formats/otlp.md has the table of what is lost. Nothing is sent anywhere
here.
A verdict is an event `gen_ai.evaluation.result` of the span that it is about, or OpenInference's
attributes `evaluations.{i}.evaluation.*` of it. What could not be measured has no score: an event
carries `error.type`, an attribute the kind in its metadata. Provenance stands under `stepscope.*`.
Source: OTLP specification 1.9; `gen-ai-events.md` and the schemas of messages of the GenAI
conventions; openinference-semantic-conventions 0.1.42, `EvaluationAttributes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import BinaryIO, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from stepscope import model
from stepscope.formats.fields import function_json
from stepscope.formats.otlp import values
from stepscope.formats.spans.span import EVALUATION_EVENT, RUN_KEY, RawSpan, SpanEvent, SpanStatus
from stepscope.model.records import ANNOTATORS

# Text of one attribute that readers keep whole; what is longer is written as a structure.
_TEXT_MOST = 1_000_000


def pack_attribute(value: model.Json) -> model.Json:
    """Return a structure as the JSON text that attributes hold; a very long one as it is."""
    text = msgspec.json.encode(value)
    return text.decode() if len(text) <= _TEXT_MOST else value


ROLES: dict[model.Actor, str] = {
    "system": "system",
    "user": "user",
    "agent": "assistant",
    "environment": "tool",
}
_MODALITIES: dict[model.PartKind, str] = {"image": "image", "audio": "audio", "file": "document"}
_USAGE = {
    "input_tokens": "input_total",
    "output_tokens": "output_total",
    "cache_read.input_tokens": "cache_read",
    "cache_creation.input_tokens": "cache_write",
    "reasoning.output_tokens": "reasoning",
}


def write_message(step: model.Step) -> dict[str, model.Json]:
    """Return what a step says, calls and brings back as one message."""
    found: dict[str, model.Json] = {"role": ROLES[step.actor]}
    if step.agent is not None and step.actor != "agent":
        found["name"] = step.agent
    found["parts"] = [
        *[_part(part) for part in step.parts],
        *[_call(call) for call in step.calls],
        *[_result(result) for result in step.results],
    ]
    return found


def _part(part: model.Part) -> model.Json:
    found: dict[str, model.Json] = {**(part.extra or {})}
    if part.kind in {"text", "reasoning", "refusal"}:
        held = "refusal" if part.kind == "refusal" else "content"
        return {**found, "type": part.kind, held: part.text or ""}
    if part.kind in _MODALITIES:
        found |= {"modality": _MODALITIES[part.kind], "mime_type": part.media_type}
        if part.data is not None:
            return {**found, "type": "blob", "content": part.data}
        if part.uri is not None:
            return {**found, "type": "uri", "uri": part.uri}
    return {**found, "type": part.kind}


def _call(call: model.ToolCall) -> model.Json:
    asked = call.raw if call.parse_error is not None else call.arguments
    kind = "server_tool_call" if call.kind in {"server", "builtin"} else "tool_call"
    return {"type": kind, "id": call.id, "name": call.name, "arguments": asked}


def _result(result: model.ToolResult) -> model.Json:
    found: dict[str, model.Json] = {"type": "tool_call_response", "id": result.call_id}
    if result.name is not None:
        found["name"] = result.name
    return {**found, "response": write_response(result)}


def write_response(result: model.ToolResult) -> model.Json:
    """Return what came back from a tool: a text, a structure, or blocks where it is of several."""
    if not result.parts:
        return "" if result.structured is None else result.structured
    only = result.parts[0]
    if len(result.parts) == 1 and only.kind == "text" and not only.extra:
        return only.text or ""
    return [_part(part) for part in result.parts]


def write_usage(usage: model.Usage | None) -> dict[str, model.Json]:
    """Return token counts under the names of the conventions; what is not known has none."""
    counts = {key: getattr(usage, field, None) for key, field in _USAGE.items()}
    return {f"gen_ai.usage.{key}": count for key, count in counts.items() if count is not None}


Verdicts = Literal["gen_ai", "openinference", "none"]

_PREFIX = "evaluations."


def _with_verdicts(span: RawSpan, records: list[model.Record], how: Verdicts) -> RawSpan:
    if how == "gen_ai":
        events = [_verdict_event(record, span) for record in records]
        return replace(span, events=(*span.events, *events))
    # The first place behind the evaluations that a span has already.
    keys = [key.split(".") for key in span.attributes if key.startswith(_PREFIX)]
    taken = [int(place) for _, place, *_ in keys if place.isdecimal() and len(place) < 7]
    added: dict[str, model.Json] = {}
    for at, record in enumerate(records, max(taken, default=-1) + 1):
        added |= {f"{_PREFIX}{at}.evaluation.{key}": found for key, found in _evaluation(record)}
    return replace(span, attributes={**span.attributes, **added})


def _verdict_event(record: model.Record, span: RawSpan) -> SpanEvent:
    answer = record.answer
    prefix = "gen_ai.evaluation."
    about: dict[str, model.Json] = {f"{prefix}name": answer.measure}
    if isinstance(answer, model.Verdict):
        about |= {f"{prefix}score.value": answer.value, f"{prefix}score.label": answer.label}
    else:
        about["error.type"] = answer.kind
    about[f"{prefix}explanation"] = answer.reason or None
    about["gen_ai.response.id"] = span.attributes.get("gen_ai.response.id")
    about |= {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    told = {key: value for key, value in about.items() if value is not None}
    return SpanEvent(name=EVALUATION_EVENT, time_ns=span.end_ns or span.start_ns, attributes=told)


def _provenance(record: model.Record) -> dict[str, model.Json]:
    """Return what the conventions have no name for; the version marks a verdict of ours."""
    answer = record.answer
    about: dict[str, model.Json] = {"version": record.version, "family": record.family}
    about |= {"step": answer.step, "case": record.case, "facts": record.facts}
    about |= {"judge": record.judge, "rubric": record.rubric, "prompt": record.prompt}
    about |= {"repeat": record.repeat or None, "cost_usd": record.cost_usd}
    about["seconds"] = record.seconds
    if isinstance(answer, model.Verdict):
        about |= {"cites": list(answer.cites) or None, "confidence": answer.confidence}
    if record.usage is not None:
        about["usage"] = pack_attribute(msgspec.to_builtins(record.usage))
    return {key: value for key, value in about.items() if value is not None and value != ""}


def _evaluation(record: model.Record) -> list[tuple[str, model.Json]]:
    answer = record.answer
    beside = {f"stepscope.{key}": value for key, value in _provenance(record).items()}
    about: dict[str, model.Json] = {"name": answer.measure}
    if isinstance(answer, model.Verdict):
        about |= {"score": answer.value, "label": answer.label}
    else:
        beside["stepscope.unmeasured"] = answer.kind
    about |= {
        "explanation": answer.reason or None,
        "annotator_kind": ANNOTATORS.get(record.family, "LLM"),
        "identifier": record.judge or f"stepscope {answer.measure} {record.version}",
        "metadata": pack_attribute(beside),
    }
    return [(key, value) for key, value in about.items() if value is not None]


# The instrumentation that our own spans name.
_SCOPE = "stepscope"
# On the root of our own spans: messages that no later answer was given.
_MESSAGES_KEY = "stepscope.messages"
_OPERATIONS: dict[model.StepKind, str] = {
    "plan": "plan",
    "handoff": "agent_handoff",
    "retrieval": "retrieval",
    "guardrail": "guardrail",
}
# Steps that are spans of their own whoever makes them.
_OWN = frozenset({"retrieval", "guardrail"})
_INT = 2**63
_MILLISECOND = 1_000_000
# What may stand as the name of a kind of error.
_NAME_MOST = 64


def find_root(spans: Sequence[RawSpan]) -> int:
    """Return the position of the first span whose parent is not there; the first without any."""
    ids = {span.span_id for span in spans}
    return next((at for at, span in enumerate(spans) if span.parent_id not in ids), 0)


def synthesise_spans(
    run: model.Trajectory, resource: dict[str, model.Json], placed_at: int | None
) -> tuple[list[RawSpan], list[str]]:
    """Return a run's spans, begun at `placed_at` if nothing has a time, and each step's span id."""
    trace_id = values.make_id(run.id, values.TRACE_DIGITS)
    root_id = _span_id(trace_id, "run", 0)
    template = RawSpan(
        trace_id=trace_id, span_id=root_id, resource=resource, scope=_SCOPE, kind="internal"
    )
    made: list[RawSpan] = []
    homes = [root_id] * len(run.steps)
    # Exchanges by the position of the step that called.
    tools: dict[int, list[model.Exchange]] = {}
    for exchange in run.exchanges:
        tools.setdefault(_place(run, exchange.step), []).append(exchange)
    heard: list[int] = []
    for at, step in enumerate(run.steps):
        if step.actor == "agent" or step.kind in _OWN:
            own = _chat(template, at, step, [run.steps[told] for told in heard])
            for told in (*heard, at):
                homes[told] = own.span_id
            made.append(own)
            heard = []
        else:
            heard.append(at)
        made += [_tool(template, exchange, run) for exchange in tools.get(at, ())]
    for exchange in run.exchanges:
        if exchange.result_step is not None and exchange.result_step != exchange.step:
            homes[_place(run, exchange.result_step)] = _span_id(trace_id, "call", exchange.position)
    made.insert(0, _root(template, run, [run.steps[told] for told in heard]))
    return _timed(made, placed_at), homes


def _span_id(trace_id: str, what: str, at: int) -> str:
    return sha256(f"{trace_id} {what} {at}".encode()).hexdigest()[: values.SPAN_DIGITS]


def _place(run: model.Trajectory, index: int) -> int:
    """Return the position of the step with an index: the same, but for runs made by hand."""
    if 0 <= index < len(run.steps) and run.steps[index].index == index:
        return index
    return next(at for at, step in enumerate(run.steps) if step.index == index)


def _root(template: RawSpan, run: model.Trajectory, trailing: list[model.Step]) -> RawSpan:
    about: dict[str, model.Json] = {"gen_ai.operation.name": "invoke_agent"}
    known = {"agent.name": run.agent, "agent.version": run.agent_version}
    known |= {"conversation.id": run.tags.get("session"), "workflow.name": run.workflow}
    about |= {f"gen_ai.{key}": value for key, value in known.items() if value}
    about |= write_usage(run.usage)
    if run.tools:
        about["gen_ai.tool.definitions"] = pack_attribute(
            [{"type": "function", **function_json(tool)} for tool in run.tools]
        )
    if trailing:
        about[_MESSAGES_KEY] = pack_attribute([write_message(step) for step in trailing])
    name = f"invoke_agent {run.agent}" if run.agent else "invoke_agent"
    start, end = _ns(run.start), _ns(run.end)
    return replace(template, name=name, start_ns=start, end_ns=end, attributes=about)


def _chat(template: RawSpan, at: int, step: model.Step, heard: list[model.Step]) -> RawSpan:
    """Return the span of a step, with what was said since the last one as its input."""
    operation = _OPERATIONS.get(step.kind, "chat")
    name = step.agent if operation != "chat" else step.model
    about: dict[str, model.Json] = {"gen_ai.operation.name": operation}
    if step.agent:
        about["gen_ai.agent.name"] = step.agent
    if step.model:
        # A run keeps one name of the model: asked for and answering are the same to it.
        about |= {"gen_ai.request.model": step.model, "gen_ai.response.model": step.model}
    if step.finish_reason:
        about["gen_ai.response.finish_reasons"] = [step.finish_reason]
    about |= write_usage(step.usage)
    if step.first_token_seconds is not None:
        about["gen_ai.response.time_to_first_chunk"] = step.first_token_seconds
    if step.error is not None:
        about["error.type"] = classify_error(step.error)
    if heard:
        about["gen_ai.input.messages"] = pack_attribute([write_message(said) for said in heard])
    # The conventions demand a reason of every answer.
    said = {**write_message(step), "finish_reason": step.finish_reason or "unknown"}
    about["gen_ai.output.messages"] = pack_attribute([said])
    return replace(
        template,
        span_id=_span_id(template.trace_id, "step", at),
        parent_id=template.span_id,
        name=f"{operation} {name}" if name else operation,
        kind="client" if operation == "chat" else "internal",
        start_ns=_ns(step.start),
        end_ns=_ns(step.end),
        status="unset" if step.error is None else "error",
        status_message=step.error,
        attributes=about,
    )


def classify_error(error: str) -> str:
    """Return the kind of an error: the text where it is a name, else the conventions' fallback."""
    return error if len(error) <= _NAME_MOST and error.isidentifier() else "_OTHER"


def _tool(template: RawSpan, exchange: model.Exchange, run: model.Trajectory) -> RawSpan:
    call, result = exchange.call, exchange.result
    asked = call.raw if call.raw is not None else pack_attribute(call.arguments)
    about: dict[str, model.Json] = {"gen_ai.operation.name": "execute_tool"}
    about["gen_ai.tool.name"] = call.name
    if call.id is not None:
        about["gen_ai.tool.call.id"] = call.id
    if call.kind == "function":
        about["gen_ai.tool.type"] = "function"
    about["gen_ai.tool.call.arguments"] = asked
    status: SpanStatus = "unset"
    message: str | None = None
    if exchange.failed and result is not None:
        status, message = "error", result.error or result.text or None
        about["error.type"] = classify_error(result.error or "")
    elif result is not None:
        said = write_response(result)
        about["gen_ai.tool.call.result"] = said if isinstance(said, str) else pack_attribute(said)
    asking = run.steps[_place(run, exchange.step)]
    began, ended = _ns(asking.end) or _ns(asking.start), None
    if exchange.result_step is not None and exchange.result_step != exchange.step:
        answered = run.steps[_place(run, exchange.result_step)]
        ended = _ns(answered.end) or _ns(answered.start)
        if answered.start is not None and answered.end is not None:
            began = _ns(answered.start)
    return replace(
        template,
        span_id=_span_id(template.trace_id, "call", exchange.position),
        parent_id=template.span_id,
        name=f"execute_tool {call.name}" if call.name else "execute_tool",
        start_ns=ended if (began is not None and ended is not None and ended < began) else began,
        end_ns=ended,
        status=status,
        status_message=message,
        attributes=about,
    )


def _ns(time: model.Instant | None) -> int | None:
    """Return nanoseconds that OTLP can hold; 0 is its absence."""
    return time.ns if time is not None and 0 < time.ns < _INT else None


def _timed(spans: list[RawSpan], placed_at: int | None) -> list[RawSpan]:
    """Return spans that all have times where any has one, or where a beginning is given.

    A span without a time stands where the one before it ended: backends sort and draw by it. It is
    no time of the step, and reading the run back knows that.
    """
    known = [ns for span in spans for ns in (span.start_ns, span.end_ns) if ns is not None]
    if not known and placed_at is None:
        return spans
    step = 0 if known else _MILLISECOND
    clock = min(known) if known else placed_at or 0
    timed: list[RawSpan] = []
    for span in spans[1:]:
        start = clock if span.start_ns is None else span.start_ns
        end = max(start, start + step) if span.end_ns is None else span.end_ns
        clock = max(clock, start, end)
        timed.append(replace(span, start_ns=start, end_ns=end))
    root = spans[0]
    first = min([span.start_ns for span in timed if span.start_ns is not None], default=clock)
    start = root.start_ns or (min([*known, first]) if known else first)
    end = root.end_ns or max(clock, start)
    return [replace(root, start_ns=start, end_ns=end), *timed]


_STATUSES: dict[model.ResultStatus, SpanStatus] = {"ok": "ok", "error": "error", "unknown": "unset"}


def restore_spans(
    run: model.Trajectory, trace_id: str | None = None
) -> tuple[list[RawSpan], list[str]]:
    """Return a run's recorded spans, under `trace_id` if given, and the id of each step's span."""
    written = trace_id or values.make_id(run.source.run_id or run.id, values.TRACE_DIGITS)
    originals = list_recorded_spans(run)
    spans: list[RawSpan] = []
    for span in originals:
        above = span.parent_id
        parent = None if above is None else values.make_id(above, values.SPAN_DIGITS)
        own = values.make_id(span.span_id, values.SPAN_DIGITS)
        spans.append(replace(span, trace_id=written, span_id=own, parent_id=parent))
    root = find_root(originals)
    places = {span.span_id: at for at, span in enumerate(originals)}
    return spans, [spans[places.get(step.span or "", root)].span_id for step in run.steps]


def list_recorded_spans(run: model.Trajectory) -> list[RawSpan]:
    """Return the spans of a run as its recorder wrote them."""
    beside = run.extra or {}
    facts, resources = beside.get("span_facts"), beside.get("resources")
    if not isinstance(facts, list) or len(facts) != len(run.spans):
        facts = [{}] * len(run.spans)
    trace, pairs = run.source.run_id or "", zip(run.spans, facts, strict=True)
    return [_span(node, trace, held, resources) for node, held in pairs]


def _span(node: model.Span, trace_id: str, facts: model.Json, resources: model.Json) -> RawSpan:
    about = dict(facts) if isinstance(facts, dict) else {}
    at, scope, message = (about.pop(key, None) for key in ("resource", "scope", "status_message"))
    known = isinstance(resources, list) and isinstance(at, int) and 0 <= at < len(resources)
    resource = resources[at] if known else {}
    return RawSpan(
        trace_id=trace_id,
        span_id=node.id,
        parent_id=node.parent,
        name=node.name,
        kind=node.kind,
        start_ns=node.start_ns,
        end_ns=node.end_ns,
        status=_STATUSES[node.status],
        status_message=message if isinstance(message, str) else None,
        attributes=node.attributes,
        events=tuple([_event(event) for event in node.events]),
        resource=resource if isinstance(resource, dict) else {},
        scope=scope if isinstance(scope, str) else None,
        links=node.links,
        extra=about or None,
    )


def _event(event: model.Json) -> SpanEvent:
    try:
        return msgspec.convert(event, SpanEvent)
    except msgspec.ValidationError:
        return SpanEvent(extra=event if isinstance(event, dict) else {"event": event})


# Runs, each with the records about it.
Scored = Iterable[tuple[model.Trajectory, Sequence[model.Record]]]

# Receivers refuse bodies over some 20 MiB, readers lines over 16: a long run is several requests.
_BODY_BYTES = 4 * 1024 * 1024
_SERVICE = {"service.name": "stepscope"}


class ExportRequest(NamedTuple):
    """One ExportTraceServiceRequest as JSON, and what of which run is in it."""

    body: bytes  # what is POSTed as `application/json`, or written as a line; no line break in it
    run: str  # the id of the run
    spans: int  # how many of its spans are in this request
    verdicts: int  # how many verdicts stand on them


class ExportCount(NamedTuple):
    """How much was written."""

    runs: int
    spans: int
    verdicts: int


def iter_requests(
    scored: Scored,
    *,
    verdicts: Verdicts = "gen_ai",
    resource: Mapping[str, model.Json] | None = None,
    placed_at: int | None = None,
) -> Iterator[ExportRequest]:
    """Yield the requests that hold runs, one run after the other; a long run takes several.

    Args:
        scored: runs, each with the records that are to stand on its spans.
        verdicts: as events of the GenAI conventions, as OpenInference's attributes, or not at all.
        resource: attributes of the resource beside what is recorded (a backend's project, say).
        placed_at: nanoseconds since 1970 where spans of runs without any time begin; None leaves
            them without times, which is true and which backends show at 1970.
    """
    given: set[str] = set()
    for run, records in scored:
        spans, homes = _mark_spans(run, given, dict(resource or {}), placed_at)
        root = find_root(spans)
        places = {span.span_id: at for at, span in enumerate(spans)}
        told: dict[int, list[model.Record]] = {}
        for one in () if verdicts == "none" else records:
            step = one.answer.step
            at = root if step is None or not 0 <= step < len(homes) else places[homes[step]]
            told.setdefault(at, []).append(one)
        counts = [len(told.get(at, ())) for at in range(len(spans))]
        for at, about in told.items():
            spans[at] = _with_verdicts(spans[at], about, verdicts)
        yield from _bodies(run.id, spans, counts)


def write(scored: Scored, file: BinaryIO, *, verdicts: Verdicts = "gen_ai") -> ExportCount:
    """Write runs as OTLP JSON lines, one request a line; return how much of what."""
    runs, spans, count = set[str](), 0, 0
    for request in iter_requests(scored, verdicts=verdicts):
        file.write(request.body + b"\n")
        runs.add(request.run)
        spans += request.spans
        count += request.verdicts
    return ExportCount(len(runs), spans, count)


def _mark_spans(
    run: model.Trajectory, given: set[str], resource: dict[str, model.Json], placed_at: int | None
) -> tuple[list[RawSpan], list[str]]:
    """Return a run's spans under a trace id of its own, and the id of each step's span."""
    if run.spans:
        wanted = values.make_id(run.source.run_id or run.id, values.TRACE_DIGITS)
        # Another run may have been read from the same trace: two runs are never one trace.
        trace_id = values.make_id(run.id, values.TRACE_DIGITS) if wanted in given else wanted
        given.add(trace_id)
        spans, homes = restore_spans(run, trace_id)
    else:
        spans, homes = synthesise_spans(run, {**_SERVICE, **resource}, placed_at)
        resource = {}
    root = find_root(spans)
    spans[root] = replace(spans[root], attributes={**spans[root].attributes, RUN_KEY: run.id})
    if resource:
        spans = [replace(span, resource={**span.resource, **resource}) for span in spans]
    return spans, homes


def _bodies(run: str, spans: list[RawSpan], counts: list[int]) -> Iterator[ExportRequest]:
    held: list[tuple[RawSpan, msgspec.Raw]] = []
    size = verdicts = 0
    for span, count in zip(spans, counts, strict=True):
        raw = msgspec.Raw(msgspec.json.encode(values.span_json(span)))
        if held and size + len(bytes(raw)) > _BODY_BYTES:
            yield ExportRequest(_body(held), run, len(held), verdicts)
            held, size, verdicts = [], 0, 0
        held.append((span, raw))
        size += len(bytes(raw))
        verdicts += count
    yield ExportRequest(_body(held), run, len(held), verdicts)


def _body(held: list[tuple[RawSpan, msgspec.Raw]]) -> bytes:
    """Return spans as one request, in their order; neighbours of one resource share a group."""
    groups: list[dict[str, model.Json]] = []
    for span, raw in held:
        resource = {"attributes": values.attributes_json(span.resource)}
        inside = values.scope_json(span)
        if not groups or groups[-1]["resource"] != resource:
            groups.append({"resource": resource, "scopeSpans": []})
        scopes = groups[-1]["scopeSpans"]
        if not scopes or scopes[-1].get("scope") != inside.get("scope"):
            scopes.append({**inside, "spans": []})
        scopes[-1]["spans"].append(raw)
    return msgspec.json.encode({"resourceSpans": groups})
